/** The activities as workflows call them: one set of options for each class of call. */
import { ActivityCancellationType, proxyActivities } from '@temporalio/workflow';
import type { RetryPolicy } from '@temporalio/common';
import type { NovaActivities } from '../activities';

/**
 * What clears by itself is retried until the caller's deadline; activities set the delay themselves (nextRetryDelay).
 * These are for attempts that were lost with their worker: another one can go on at once.
 */
const retry: RetryPolicy = { initialInterval: '100ms', backoffCoefficient: 2, maximumInterval: '5s' };

/** A request is given up after 30 s (`requestTimeout`); a look may need two of them. */
export const LOOK_TIMEOUT = 70_000;

/** Looks: giving one up loses nothing, so a cancelled workflow, or `wake`, need not wait for it. */
export const looks = proxyActivities<
  Pick<NovaActivities, 'novaWatchServer' | 'novaGetServer' | 'novaFindServer' | 'novaReadInstance'>
>({
  startToCloseTimeout: LOOK_TIMEOUT,
  cancellationType: ActivityCancellationType.TRY_CANCEL,
  retry,
});

/**
 * Changes: their outcome must be known, so cancellation waits for it. (TRY_CANCEL is the SDK's real default, whatever
 * the type's documentation says: a cancelled workflow would forget a server that Nova is just making.) A worker killed
 * in the middle is noticed by the heartbeat.
 */
export const changes = proxyActivities<
  Pick<NovaActivities, 'novaCreateServer' | 'novaDeleteServer' | 'novaServerAction'>
>({
  startToCloseTimeout: '2m',
  // Its heartbeats go out 8 s apart (the SDK holds them back): less would mistake a busy worker for a dead one.
  heartbeatTimeout: '10s',
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  retry,
});
