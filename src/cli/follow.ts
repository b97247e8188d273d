/** Shows a workflow live, by its `progress` query, until it ends or a person has seen enough. */
import { setTimeout as sleep } from 'node:timers/promises';
import { WorkflowFailedError, type WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure, TerminatedFailure, TimeoutFailure } from '@temporalio/common';
import { CodecError, type Progress, type ServerState } from '../client';
import { describeState } from '../policy/server-state';
import { clock, since, type Live } from './output';
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

type Followed<T> = Pick<WorkflowHandle, 'query'> & { workflowId: string; result(): Promise<T> };

/**
 * @param taskQueue the workflow's
 * @param signal aborted when a person has seen enough
 */
export async function follow<T>(
  temporal: Temporal,
  handle: Followed<T>,
  taskQueue: string,
  live: Live,
  signal: AbortSignal,
): Promise<Outcome<T>> {
  const view = new View(live);
  let outcome: Outcome<T> | undefined;
  const ended = Promise.race([
    outcomeOf(handle, (why) => view.note(`Temporal can't be reached: ${why}`)),
    aborted(signal),
  ]).then((end) => (outcome = end));
  ended.catch(() => undefined); // rethrown below

  let answeredAt = Date.now();
  view.waitForWorker();
  while (!outcome) {
    const progress = await Promise.race([ask(temporal, handle), ended.then(() => undefined)]);
    if (outcome) break;
    if (progress) {
      answeredAt = Date.now();
      view.show(progress);
    } else if (Date.now() - answeredAt > SILENT_FOR_MS) {
      view.note(await whySilent(temporal, taskQueue));
    }
    await Promise.race([ended, sleep(LOOK_EVERY_MS)]);
  }
  if (outcome.kind !== 'interrupted') {
    // A worker was there a moment ago: its last word is worth a longer wait.
    const progress = await ask(temporal, handle, LAST_ANSWER_WITHIN_MS);
    if (progress) view.show(progress);
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
  onTrouble: (why: string) => void = () => undefined,
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
class View {
  private phase = '';
  private newest = '';
  private readonly noted = new Set<string>();

  constructor(private readonly live: Live) {}

  waitForWorker(): void {
    this.live.now('waiting for a worker');
  }

  show(progress: Progress): void {
    const { phase, observations } = progress;
    for (const observation of observations.filter(({ at }) => at > this.newest)) {
      this.live.change(describeState(observation) + onHost(observation), new Date(observation.at));
    }
    if (phase !== this.phase && phase !== 'done') this.live.change(`phase ${phase}`, new Date());
    this.phase = phase;
    this.newest = observations.at(-1)?.at ?? '';
    this.noted.clear();
    this.live.now(standing(progress));
  }

  /** The same again and again is said once. */
  note(text: string): void {
    const kind = text.replace(/\d+(\.\d+)?/g, '0');
    if (!this.noted.has(kind)) this.live.note(text);
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
