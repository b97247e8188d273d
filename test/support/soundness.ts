/** Whether a workflow did what it promises: its end, and a history without failed workflow tasks. */
import { setTimeout as delay } from 'node:timers/promises';
import type { WorkflowHandle } from '@temporalio/client';
import { RawValue, type Payload } from '@temporalio/common';
import { encode } from '@temporalio/common/lib/encoding';
import type { FailureType } from '../../src/workflows/failures';
import { failureOf } from './bed';

/** An argument as any client may write it: the text is JSON, or is not. */
export function raw(text: string, encoding = 'json/plain'): RawValue {
  const payload: Payload = { metadata: { encoding: encode(encoding) }, data: encode(text) };
  return RawValue.fromPayload(payload);
}

/** Every failure type that a workflow promises. */
const PROMISED: FailureType[] = [
  'InvalidInput',
  'ServerInError',
  'UnknownServerStatus',
  'ServerNotFound',
  'ServerWaitTimeout',
  'AmbiguousServer',
  'QuotaExceeded',
  'NovaBadRequest',
  'NovaForbidden',
  'NovaNotFound',
  'NovaConflict',
  'InstanceRecoveryFailed',
];

/** 'ok', 'running', or the type that it failed with; a failure of another shape fails the test. */
export async function outcome(handle: WorkflowHandle, within = 15_000): Promise<string> {
  const timer = new AbortController();
  try {
    return await Promise.race([
      handle.result().then(
        () => 'ok',
        async () => {
          const failure = await failureOf(handle);
          expect(PROMISED).toContain(failure.type);
          expect(failure.nonRetryable).toBe(true);
          expect(failure.message.length).toBeLessThan(4_000);
          return String(failure.type);
        },
      ),
      delay(within, 'running', { signal: timer.signal }),
    ]);
  } finally {
    timer.abort();
  }
}

/** No workflow task failed, and the history is small. */
export async function expectSound(handle: WorkflowHandle, largest = 300_000): Promise<void> {
  const { events } = await handle.fetchHistory();
  const failed = events?.flatMap((event) => event.workflowTaskFailedEventAttributes ?? []) ?? [];
  const words = failed.map(({ failure }) => failure?.message);
  // Another event came while the task was carried out: it is carried out again, and is not stuck.
  expect(words.filter((message) => message !== 'UnhandledCommand')).toEqual([]);
  expect((await handle.describe()).historySize).toBeLessThan(largest);
}
