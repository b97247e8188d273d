/** How workflows fail: always an ApplicationFailure, non-retryable, at the top level, with `details[0]` of one shape. */
import { ActivityFailure, ApplicationFailure, CancelledFailure, TimeoutFailure } from '@temporalio/common';
import { CancellationScope } from '@temporalio/workflow';
import type { FailureDetails } from '../activities';
import type { NovaFault } from '../nova';
import type { ServerState } from '../policy/server-state';

/** The failure types of this package's workflows. */
export type FailureType =
  | 'InvalidInput'
  | 'ServerInError'
  | 'UnknownServerStatus'
  | 'ServerNotFound'
  | 'ServerWaitTimeout'
  | 'AmbiguousServer'
  | 'QuotaExceeded'
  | 'NovaBadRequest'
  | 'NovaUnauthorized'
  | 'NovaForbidden'
  | 'NovaNotFound'
  | 'NovaConflict'
  | 'InstanceRecoveryFailed';

/** `details[0]` of every workflow failure, as far as known. */
export interface WorkflowFailureDetails {
  serverId?: string | null;
  state?: ServerState | null;
  fault?: NovaFault | null;
  httpStatus?: number;
  requestId?: string;
  /** The rule of Nova's policy that a 403 names, such as 'os_compute_api:servers:create'. */
  policyRule?: string;
  /** The recovery step's action, or `task`. */
  step?: string;
}

export function workflowFailure(
  type: FailureType,
  message: string,
  details: WorkflowFailureDetails = {},
): ApplicationFailure {
  return ApplicationFailure.nonRetryable(message, type, details);
}

/**
 * What an activity's failure says:
 * - `refused`: Nova's answer that repeating won't help, to be rethrown at the top level;
 * - `unavailable`: the activity's time was over while Nova or the worker could not be had; the workflow goes on waiting
 *   until its own deadline;
 * - null: something else, a cancellation for example.
 */
export type ActivityOutcome =
  | { kind: 'refused'; type: string; message: string; details: FailureDetails }
  | { kind: 'unavailable'; message: string; retryAfterMs: number | undefined }
  | null;

export function activityOutcome(error: unknown): ActivityOutcome {
  if (!(error instanceof ActivityFailure)) return null;
  const { cause } = error;
  if (cause instanceof ApplicationFailure) {
    const details = (cause.details?.[0] ?? {}) as FailureDetails;
    if (cause.nonRetryable)
      return { kind: 'refused', type: cause.type ?? 'NovaBadRequest', message: cause.message, details };
    return { kind: 'unavailable', message: withoutRetry(cause.message), retryAfterMs: details.retryAfterMs };
  }
  if (cause instanceof TimeoutFailure) {
    const last = cause.cause instanceof Error ? withoutRetry(cause.cause.message) : undefined;
    return { kind: 'unavailable', message: last ?? 'no worker answered in time', retryAfterMs: undefined };
  }
  // Somebody cancelled the activity alone: the workflow goes on.
  if (cause instanceof CancelledFailure && !CancellationScope.current().consideredCancelled) {
    return { kind: 'unavailable', message: 'the activity was cancelled', retryAfterMs: undefined };
  }
  return null;
}

/** What an activity adds for Pending Activities is not true any more once it has ended. */
function withoutRetry(message: string): string {
  return message.replace(/ \(trying again in \d+ s\)$/, '');
}

/** Why a server is in ERROR, in Nova's words. */
export function describeFault(fault: NovaFault | null | undefined): string {
  if (!fault) return 'Nova gave no fault.';
  return sentence(`Nova's fault ${fault.code}: ${fault.message.trim()}`);
}

export function sentence(words: string): string {
  return /[.!?]$/.test(words) ? words : `${words}.`;
}
