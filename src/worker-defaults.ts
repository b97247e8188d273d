/** What a worker for these workflows needs that the SDK's defaults don't give, for our own worker and for NovaPlugin. */
import path from 'node:path';
import type { ReplayWorkerOptions, WorkerOptions } from '@temporalio/worker';

export const WORKER_DEFAULTS = {
  /** A POST to Nova that is under way at shutdown is waited for: 30 s at most, then its answer must be recorded. */
  shutdownGraceTime: '35s',
  /**
   * Waiting servers hold an activity slot each while they are watched: a slot is a timer and a few hundred bytes here,
   * so there are many.
   */
  maxConcurrentActivityTaskExecutions: 20_000,
  /**
   * Of thousands that wait, few have something to do: the others need not stay in memory (some 0.3 MB each), and are
   * replayed from their 17 events when they do.
   */
  maxCachedWorkflows: 1_000,
  /** A workflow whose worker was killed is handed to another one after this, not after the default of 10 s. */
  stickyQueueScheduleToStartTimeout: '1s',
} satisfies Partial<WorkerOptions>;

/** In `lib/`, made by `npm run build`; also where this runs from `src/`. */
const lib = path.join(__dirname, '../lib');

export const PREBUILT_BUNDLE = { codePath: path.join(lib, 'workflow-bundle.js') };
/** How workflows write failures down is part of their bundle: for a worker that encrypts them. */
export const PREBUILT_BUNDLE_WITH_ENCODED_FAILURES = {
  codePath: path.join(lib, 'workflow-bundle.encoded-failures.js'),
};

export function hasOwnWorkflows({
  workflowsPath,
  workflowBundle,
}: Pick<WorkerOptions | ReplayWorkerOptions, 'workflowsPath' | 'workflowBundle'>): boolean {
  return workflowsPath !== undefined || workflowBundle !== undefined;
}
