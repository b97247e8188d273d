/** What workflows count when they end; never while a history is replayed. docs/observability.md has the list. */
import { ContinueAsNew, isCancellation, metricMeter, workflowInfo } from '@temporalio/workflow';
import { ApplicationFailure } from '@temporalio/common';
import type { RecoverInstanceResult } from './recover-instance-input';

/** @param failure undefined where the server is ACTIVE */
export function countCreation(failure: unknown): void {
  const end = endOf(failure);
  if (end === undefined) return;
  metricMeter
    .createCounter('temporal_nova_creations_total', undefined, 'Creations that have ended, by how.')
    .add(1, { outcome: end.outcome ?? 'active', failure_type: end.failureType });
  if (failure === undefined) {
    metricMeter
      .createHistogram(
        'temporal_nova_time_to_active_seconds',
        'float',
        undefined,
        'From the start of a creation to its end with an ACTIVE server, all attempts together.',
      )
      .record((Date.now() - workflowInfo().startTime.getTime()) / 1000);
  }
}

/** @param result undefined where it failed or was cancelled */
export function countRecovery(result: RecoverInstanceResult | undefined, failure: unknown): void {
  const end = endOf(failure);
  if (end === undefined) return;
  metricMeter
    .createCounter('temporal_nova_recoveries_total', undefined, 'Recoveries that have ended, by how and why.')
    .add(1, {
      outcome: end.outcome ?? result?.outcome ?? 'none',
      reason: result?.reason ?? 'none',
      failure_type: end.failureType,
    });
}

/** Undefined for a run that goes on: as a new one, or because of a defect that Temporal retries. */
function endOf(failure: unknown): { outcome?: 'failed' | 'cancelled'; failureType: string } | undefined {
  if (failure === undefined) return { failureType: 'none' };
  if (failure instanceof ContinueAsNew) return undefined;
  if (isCancellation(failure)) return { outcome: 'cancelled', failureType: 'none' };
  return failure instanceof ApplicationFailure ? { outcome: 'failed', failureType: failure.type ?? 'none' } : undefined;
}
