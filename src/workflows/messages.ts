/** Messages that every workflow of this package takes. Each is optional to use; workflows never need one to finish. */
import { defineQuery, defineSignal, defineUpdate } from '@temporalio/workflow';
import type { Duration } from '@temporalio/common';
import type { Observation, ServerState } from '../policy/server-state';

export type Phase =
  'creating' | 'waiting' | 'deciding' | 'stopping' | 'starting' | 'restoring' | 'cleaning-up' | 'done';

export interface Progress {
  phase: Phase;
  serverId: string | null;
  /** What was seen last. */
  state: ServerState | null;
  /** One for each change seen, oldest first; the newest 100 are kept. */
  observations: Observation[];
  /** ISO 8601; null when nothing is bounded at the moment. */
  deadline: string | null;
  /** The input's; absent for the worker's own. */
  cloud?: string;
}

export const progressQuery = defineQuery<Progress>('progress');
/** Look at Nova now instead of at the next timer. */
export const wakeSignal = defineSignal('wake');
/** Adds to the current deadline (in a recovery: the current step's) and returns the new one, ISO 8601. */
export const extendTimeoutUpdate = defineUpdate<string, [Duration]>('extendTimeout');
/** `RecoverInstanceWorkflow`: another notification of a failure of the instance. */
export const notifiedSignal = defineSignal<[unknown]>('notified');
/** `CreateServerWorkflow`: the current attempt's server id, as soon as Nova has given one. */
export const serverIdUpdate = defineUpdate<string>('serverId');
