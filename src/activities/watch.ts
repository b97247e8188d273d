/** Looks at one server until something differs from what the workflow knows, or the round is over. */
import { setTimeout as delay } from 'node:timers/promises';
import { ApplicationFailure, Context } from '@temporalio/activity';
import { LIST_EVERY, LONGEST_HELD_INTERVAL, nextInterval, progressHeld, type Polling } from '../policy/polling';
import {
  describeState,
  isSettledChange,
  recordObservations,
  sameState,
  type Observation,
  type ServerState,
} from '../policy/server-state';
import type { Cloud, InCloud } from './clouds';
import { withHeartbeat } from './heartbeat';
import { toLook, type Look } from './look';
import { CountedWait } from './metrics';
import { type Covered, type Seat } from './shared-looks';

export interface WatchRequest extends InCloud {
  serverId: string;
  /** What the workflow saw last; null when it has seen nothing yet. */
  seen: ServerState | null;
  polling: Polling;
  /** Milliseconds between looks at the start of this round. */
  interval: number;
  /** How long to go on, in milliseconds. */
  round: number;
  /** Milliseconds before the first look of the first attempt. */
  delay: number;
  /** Of the watch before, where nothing was done to the server since: this one goes on where that one ended. */
  covered?: Covered | undefined;
}

export interface WatchResult {
  /** Every change since `seen`, oldest first. */
  observations: Observation[];
  /** The last look; null when Nova answered two looks in a row with 404; absent where nothing new was seen. */
  look?: Look | null;
  covered?: Covered;
  /** How many watches were under way on the worker. */
  watches?: number;
  /** Milliseconds until the next look is due. */
  interval: number;
}

/** What a heartbeat carries: for the next attempt, and for a person who reads Pending Activities. */
interface WatchProgress {
  state: string;
  lookedAt: string;
  observations: Observation[];
}

export async function watchServer(
  { shared, label }: Pick<Cloud, 'shared' | 'label'>,
  request: WatchRequest,
  shutdown: AbortSignal,
): Promise<WatchResult> {
  const context = Context.current();
  // Not AbortSignal.any: Node 20 keeps a reference for each one in the signal that lives as long as the worker.
  const giveUp = new AbortController();
  const { signal } = giveUp;
  const abort = () => giveUp.abort(context.cancellationSignal.reason);
  for (const cause of [context.cancellationSignal, shutdown]) {
    if (cause.aborted) abort();
    cause.addEventListener('abort', abort);
  }
  const carried = context.info.heartbeatDetails as WatchProgress | undefined;
  const counted = new CountedWait(label);
  // An attempt that fails before it has looked hands on what it was given.
  const progress = carried ?? { state: describeState(request.seen), lookedAt: '', observations: [] };
  let { observations } = progress;
  let interval = request.interval;
  let end = Date.now() + request.round;

  const { serverId, polling } = request;
  const longest = Math.max(LIST_EVERY, polling.initialInterval);

  const work = async (): Promise<WatchResult> => {
    const isFirst = context.info.attempt === 1;
    let seat = isFirst ? await shared.goOn(request, signal) : undefined;
    let look: Look | null | undefined;
    const wait = async (seat: Seat, ms: number) => {
      const next = await shared.next(seat, ms, longest, signal);
      if (next !== 'unchanged') look = next && toLook(next);
    };
    if (seat) await wait(seat, request.delay);
    else {
      if (isFirst && request.delay > 0) await delay(request.delay, undefined, { signal });
      const begun = Date.now();
      const server = await shared.look(serverId, signal);
      if (server === null) return { observations, look: null, interval };
      seat = await shared.seat(server, begun, signal);
      look = toLook(server);
    }
    for (; ; interval = nextInterval(interval, polling)) {
      if (look === null) return { observations, look, interval };
      if (look && !sameState(observations.at(-1) ?? request.seen, look.state)) {
        observations = recordObservations(observations, [{ at: look.at, ...look.state }]);
        interval = polling.initialInterval;
        end = Math.min(end, Date.now() + progressHeld(shared.watches));
      }
      const state = look?.state ?? request.seen;
      counted.show(state);
      Object.assign(progress, { state: describeState(state), lookedAt: new Date().toISOString(), observations });

      const news = look && observations.length > 0 && isSettledChange(request.seen, look.state);
      if (news || interval > LONGEST_HELD_INTERVAL || Date.now() + interval > end) {
        return { observations, interval, watches: shared.watches, ...(look && { look }), ...shared.leave(seat) };
      }
      await wait(seat, interval);
    }
  };

  shared.watches++;
  try {
    counted.show(request.seen);
    return await withHeartbeat(work, () => progress);
  } catch (error) {
    // Given up at shutdown, not failed: another worker goes on at once, with what the heartbeat carried.
    if (shutdown.aborted && !context.cancellationSignal.aborted) {
      throw ApplicationFailure.create({
        type: 'WorkerShutdown',
        message: 'this worker is shutting down; another one goes on with the watch',
        nextRetryDelay: 100,
      });
    }
    throw error;
  } finally {
    counted.end();
    shared.watches--;
    for (const cause of [context.cancellationSignal, shutdown]) cause.removeEventListener('abort', abort);
  }
}
