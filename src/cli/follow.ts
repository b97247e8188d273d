/** Shows a workflow live, by its `progress` query, until it ends or a person has seen enough. */
import { setTimeout as sleep } from 'node:timers/promises';
import { WorkflowFailedError, type WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure, TerminatedFailure, TimeoutFailure } from '@temporalio/common';
import { CodecError, type Observation, type Phase, type Progress, type ServerState } from '../client';
import { describeState } from '../policy/server-state';
import { clock, since } from './output';
import { noWorker, persistently, type Temporal } from './temporal';

const LOOK_EVERY_MS = 500;
const ANSWER_WITHIN_MS = 3_000;
const LAST_ANSWER_WITHIN_MS = 10_000;
/** A workflow that has not answered for this long may have no worker. */
const SILENT_FOR_MS = 2_500;

export interface Failure {
  /** A type of this package's failures, or 'Cancelled', 'Terminated', 'TimedOut'. */
  type: string;
  message: string;
  details: unknown;
}

export type Outcome<T> =
  { kind: 'completed'; result: T } | { kind: 'failed'; failure: Failure } | { kind: 'interrupted' };

/** A workflow's handle, as far as following it needs it. */
export type Followed<T> = Pick<WorkflowHandle, 'query'> & { result(): Promise<T> };

/** How a person is shown what a workflow sees and does. */
export interface View {
  /**
   * @param fresh observations that were not shown yet, oldest first
   * @param before the phase that was shown last
   */
  show(progress: Progress, fresh: Observation[], before: Phase | undefined): void;
  /** Something to know that is not the workflow's state. */
  note(text: string): void;
}

export interface FollowOptions {
  /** The workflow's. */
  taskQueue: string;
  view: View;
  /** Aborted when a person has seen enough. */
  signal: AbortSignal;
  /** Default 500. */
  lookEveryMs?: number;
}

export async function follow<T>(
  temporal: Temporal,
  handle: Followed<T>,
  { taskQueue, view, signal, lookEveryMs = LOOK_EVERY_MS }: FollowOptions,
): Promise<Outcome<T>> {
  const news = new News(view);
  let outcome: Outcome<T> | undefined;
  const ended = Promise.race([
    outcomeOf(handle, (why) => signal.aborted || news.note(`Temporal can't be reached: ${why}`)),
    aborted(signal),
  ]).then((end) => (outcome = end));
  ended.catch(() => undefined); // rethrown below

  let answeredAt = Date.now();
  while (!outcome) {
    const progress = await Promise.race([ask(temporal, handle), ended.then(() => undefined)]);
    if (outcome) break;
    if (progress) {
      answeredAt = Date.now();
      news.show(progress);
    } else if (Date.now() - answeredAt > SILENT_FOR_MS) {
      news.note(await whySilent(temporal, taskQueue));
    }
    await Promise.race([ended, sleep(lookEveryMs)]);
  }
  if (outcome.kind !== 'interrupted') {
    // A worker was there a moment ago: its last word is worth a longer wait.
    const progress = await ask(temporal, handle, LAST_ANSWER_WITHIN_MS);
    if (progress) news.show(progress);
  }
  return outcome;
}

/**
 * Undefined when no worker has answered in time.
 *
 * @throws CodecError when the answer can't be decrypted: asking again won't help
 */
export async function ask(
  temporal: Temporal,
  handle: Pick<WorkflowHandle, 'query'>,
  withinMs = ANSWER_WITHIN_MS,
): Promise<Progress | undefined> {
  return temporal
    .within(withinMs, () => handle.query<Progress>('progress'))
    .catch((error: unknown) => {
      if (error instanceof CodecError) throw error;
      return undefined;
    });
}

/** Completed or failed, as `temporal-nova` shows it; other errors are rethrown. */
export async function outcomeOf<T>(
  handle: { result(): Promise<T> },
  onTrouble: (why: string) => unknown = () => undefined,
): Promise<Outcome<T>> {
  try {
    return { kind: 'completed', result: await persistently(() => handle.result(), onTrouble) };
  } catch (error) {
    if (!(error instanceof WorkflowFailedError)) throw error;
    return { kind: 'failed', failure: toFailure(error) };
  }
}

function toFailure({ cause, message }: WorkflowFailedError): Failure {
  if (cause instanceof ApplicationFailure) {
    return { type: cause.type ?? cause.name, message: cause.message, details: cause.details?.[0] ?? null };
  }
  const type =
    cause instanceof CancelledFailure
      ? 'Cancelled'
      : cause instanceof TerminatedFailure
        ? 'Terminated'
        : cause instanceof TimeoutFailure
          ? 'TimedOut'
          : 'Failed';
  return { type, message: cause?.message || message, details: null };
}

function aborted(signal: AbortSignal): Promise<{ kind: 'interrupted' }> {
  return new Promise((resolve) =>
    signal.addEventListener('abort', () => resolve({ kind: 'interrupted' }), { once: true }),
  );
}

async function whySilent(temporal: Temporal, taskQueue: string): Promise<string> {
  try {
    const last = await temporal.within(ANSWER_WITHIN_MS, () => temporal.lastPoll(taskQueue));
    if (!last) return `waiting, but ${noWorker(taskQueue)}`;
    return `no worker has answered yet; one polled the task queue "${taskQueue}" ${since(last)} ago`;
  } catch {
    return 'Temporal does not answer';
  }
}

/** Remembers what was shown, so that each change is shown once. */
class News {
  private phase: Phase | undefined;
  private newest = '';
  private readonly noted = new Set<string>();

  constructor(private readonly view: View) {}

  show(progress: Progress): void {
    const { phase, observations } = progress;
    const fresh = observations.filter(({ at }) => at > this.newest);
    this.view.show(progress, fresh, this.phase);
    this.phase = phase;
    this.newest = observations.at(-1)?.at ?? '';
    this.noted.clear();
  }

  /** The same again and again is said once. */
  note(text: string): void {
    const kind = text.replace(/\d+(\.\d+)?/g, '0');
    if (!this.noted.has(kind)) this.view.note(text);
    this.noted.add(kind);
  }
}

/** 'waiting: BUILD/spawning since 12 s, until 14:05:00Z' */
export function standing({ phase, state, observations, deadline }: Progress): string {
  if (!state) return `${phase}: the server was not seen yet`;
  if (phase === 'done') return `done; last seen ${describeState(state)}`;
  const seen = observations.at(-1);
  const sinceWhen = seen ? ` since ${since(new Date(seen.at))}` : '';
  return `${phase}: ${describeState(state)}${sinceWhen}${deadline ? `, until ${clock(new Date(deadline))}` : ''}`;
}

export function onHost({ host }: ServerState): string {
  return host === null ? '' : ` on ${host}`;
}
