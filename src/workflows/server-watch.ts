/**
 * The durable wait that all workflows share: a watch inside an activity, a durable timer between watches, an absolute
 * deadline, and the messages `progress`, `wake` and `extendTimeout`.
 */
import {
  CancellationScope,
  condition,
  ContinueAsNew,
  currentUpdateInfo,
  isCancellation,
  log,
  patched,
  setCurrentDetails,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import type { Covered, FailureDetails, Look } from '../activities';
import { heartbeatTimeout, LONGEST_HELD_INTERVAL, nextInterval, roundLength, type Polling } from '../policy/polling';
import { describeState, recordObservations, type Observation, type ServerState } from '../policy/server-state';
import { activityOutcome, workflowFailure, type WorkflowFailureDetails } from './failures';
import { checkDuration, LONGEST_DURATION, refuse, required } from './input';
import { extendTimeoutUpdate, progressQuery, wakeSignal, type Phase } from './messages';
import { LOOK_TIMEOUT, looks } from './nova';
import { showInSearchAttributes } from './search-attributes';

/** What a wait carries into the next run when it continues as new. */
export interface CarriedWatch {
  phase: Phase;
  serverId: string | null;
  state: ServerState | null;
  observations: Observation[];
  deadline: number | null;
  allowed: number;
  extensions: string[];
  headline: string;
  changedAt: number;
  interval: number;
}

/** History is handed over to a new run before Temporal's own warning would come (4,096 events). */
const LONGEST_HISTORY = 3_000;

export function isHistoryLong(): boolean {
  const info = workflowInfo();
  return info.continueAsNewSuggested || info.historyLength >= LONGEST_HISTORY;
}

/** More than one workflow task can bring, as a rule. */
const EXTENSIONS_KEPT = 20;

/** A deadline has passed already: the last look must not hold the workflow for long. */
const LAST_LOOK_TIMEOUT = 15_000;

export class ServerWatch {
  phase: Phase = 'creating';
  serverId: string | null = null;
  /** What was seen last; null when nothing was. */
  state: ServerState | null = null;
  /** The last look as a whole; null when nothing was seen in this run, or the server is gone. */
  lastLook: Look | null = null;
  observations: Observation[] = [];
  /** Absolute, in milliseconds; null when nothing is bounded. */
  deadline: number | null = null;
  /** How far away the deadline was when it was set, in milliseconds, extensions included. */
  allowed = 0;
  /** Ids of the newest updates that extended it. */
  private extensions: string[] = [];
  /** Nova's last word when it could not be had. */
  trouble: string | null = null;
  /** A line for a person, above the rest of the current details. */
  headline = '';

  /** How far the last look or watch has come, as long as nothing else has happened since. */
  private covered: Covered | undefined;
  /** How many watches the worker had that looked last. */
  private watches = 0;
  private changedAt = Date.now();
  private interval: number;
  private woken = false;
  /** Taken over from an earlier run, which was about to look. */
  private resumed = false;
  private looking: CancellationScope | undefined;

  constructor(
    /** How often to look; may change between waits. */
    public polling: Polling,
    carried?: CarriedWatch,
    /** Which of the worker's clouds; undefined: its own. */
    private readonly cloud?: string,
  ) {
    this.interval = polling.initialInterval;
    if (carried) Object.assign(this, carried, { resumed: true });
  }

  /** Call after the input was checked and the deadline set: handlers run buffered messages at once. */
  handleMessages(): void {
    setHandler(progressQuery, () => ({
      phase: this.phase,
      serverId: this.serverId,
      state: this.state,
      observations: this.observations,
      deadline: this.deadline === null ? null : iso(this.deadline),
      ...(this.cloud !== undefined && { cloud: this.cloud }),
    }));
    setHandler(wakeSignal, () => this.wake());
    setHandler(
      extendTimeoutUpdate,
      (duration) => {
        const deadline = this.extend(duration);
        this.tell();
        this.wakeWhenLong();
        return iso(deadline);
      },
      {
        validator: (duration) => {
          refuse(
            this.extended(duration) > Date.now() + LONGEST_DURATION,
            'the deadline must not be more than 10 years away.',
          );
          if (this.deadline === null || this.phase === 'done') {
            throw ApplicationFailure.nonRetryable('There is no deadline to extend at the moment.', 'InvalidInput');
          }
        },
      },
    );
    this.tell();
  }

  private wake(): void {
    this.woken = true;
    this.looking?.cancel();
  }

  /** Messages make a history long too, a thousand within one long interval: after one, it must not wait for the next look. */
  wakeWhenLong(): void {
    if (isHistoryLong()) this.wake();
  }

  /**
   * An update counts once, by its id: one that comes in the task that continues as new, Temporal can give to the next
   * run once more (seen with server 1.29.1).
   */
  private extend(duration: unknown): number {
    const id = currentUpdateInfo()?.id ?? '';
    if (this.deadline !== null && this.extensions.includes(id)) return this.deadline;
    const deadline = this.extended(duration);
    this.allowed += deadline - (this.deadline ?? deadline);
    this.deadline = deadline;
    this.extensions = [...this.extensions, id].slice(-EXTENSIONS_KEPT);
    return deadline;
  }

  private extended(duration: unknown): number {
    return (this.deadline ?? Date.now()) + required(checkDuration(duration, 'duration'), 'duration');
  }

  /** Sets the deadline, so many milliseconds from now. */
  allow(timeout: number): void {
    this.deadline = Date.now() + timeout;
    this.allowed = timeout;
  }

  /** Milliseconds until the deadline, 0 when it is over. */
  get remaining(): number {
    return this.deadline === null ? Infinity : Math.max(0, this.deadline - Date.now());
  }

  carry(): CarriedWatch {
    const { phase, serverId, state, observations, deadline, allowed, extensions } = this;
    const { headline, changedAt, interval } = this;
    return { phase, serverId, state, observations, deadline, allowed, extensions, headline, changedAt, interval };
  }

  /** The last word on `progress`; a run that continues as new leaves its phase as it is, for the wait goes on. */
  end(failure: unknown): void {
    if (failure instanceof ContinueAsNew) return;
    if (failure instanceof ApplicationFailure) this.headline = `${failure.type}: ${failure.message}`;
    if (failure instanceof CancelledFailure) this.headline = failure.message;
    this.enter('done');
    this.logEnd(failure);
  }

  /** The SDK logs how a workflow failed without anything that a search for a server or a request of Nova's would find. */
  private logEnd(failure: unknown): void {
    // A defect ends nothing: Temporal tries the workflow task again.
    if (failure instanceof Error && !(failure instanceof ApplicationFailure || isCancellation(failure))) return;
    const { type, details } = failure instanceof ApplicationFailure ? failure : { type: undefined, details: [] };
    const { requestId } = (details?.[0] ?? {}) as WorkflowFailureDetails;
    log.info('Ended', {
      serverId: this.serverId,
      status: this.state?.status,
      failureType: isCancellation(failure) ? 'Cancelled' : type,
      requestId,
    });
  }

  enter(phase: Phase): void {
    this.phase = phase;
    this.tell();
  }

  /** Begins to wait for a (new) server. */
  follow(serverId: string, look: Look | null, from: { covered?: Covered; watches?: number } = {}): void {
    this.serverId = serverId;
    this.forget();
    this.covered = from.covered;
    this.watches = from.watches ?? 0;
    this.rewind();
    if (look) this.see([{ at: look.at, ...look.state }], look);
    else this.tell();
  }

  /** What was seen says nothing about what was just done: the next look counts, even if it shows the same. */
  forget(): void {
    this.state = null;
    this.lastLook = null;
    this.covered = undefined;
  }

  /** Starts again at the shortest interval, because something is about to change. */
  rewind(): void {
    this.interval = this.polling.initialInterval;
    this.changedAt = Date.now();
  }

  /** Records what a look showed; `look` is null when the server is gone, undefined when it showed nothing new. */
  see(observations: Observation[], look: Look | null | undefined): void {
    if (observations.length > 0) {
      this.observations = recordObservations(this.observations, observations);
      this.changedAt = Date.now();
    }
    if (look !== undefined) this.lastLook = look;
    if (look) this.state = look.state;
    this.trouble = null;
    this.tell();
  }

  /**
   * Waits until `judge` returns something for what was seen (null: the server is gone), or the deadline has passed.
   * A server that was seen already is judged first.
   *
   * @param judge pure; called for each look that showed something new
   * @param beforeRound called before each watch: the place to continue as new
   * @returns the judgement, or 'deadline' when it passed without one, a last look included
   */
  async until<T>(
    judge: (look: Look | null) => T | undefined,
    beforeRound: () => Promise<void> = async () => {},
  ): Promise<T | 'deadline'> {
    if (this.lastLook) {
      const judgement = judge(this.lastLook);
      if (judgement !== undefined) return judgement;
    }
    // What was seen a moment ago need not be looked at again at once.
    let due = this.state !== null && !this.resumed;
    this.resumed = false;
    for (;;) {
      await beforeRound();
      if (this.remaining === 0) {
        const judgement = await this.lookOnce(judge);
        if (judgement !== undefined) return judgement;
        if (this.remaining === 0) return 'deadline';
        due = true; // extended while it was looked for the last time
      }

      if (due && (this.interval > LONGEST_HELD_INTERVAL || this.interval >= this.remaining)) {
        await this.pause(this.interval, 'look again');
        due = false;
        continue;
      }
      const outcome = await this.watch(due ? this.interval : 0);
      if (outcome === 'looked') {
        const judgement = judge(this.lastLook);
        if (judgement !== undefined) return judgement;
        due = true;
      } else {
        // Without a timer between two rounds, the shared list sees what happens there too.
        due = outcome === 'silent' && patched('watch-follows-watch');
        if (outcome === 'silent' && !due) await this.pause(this.interval, 'look again');
      }
    }
  }

  /** One look outside of a watch; undefined when Nova could not be had, or when `judge` sees nothing in it. */
  async lookOnce<T>(judge: (look: Look | null) => T | undefined): Promise<T | undefined> {
    if (this.serverId === null) return undefined;
    try {
      const look = await looks.novaGetServer.executeWithOptions(
        {
          scheduleToCloseTimeout: LAST_LOOK_TIMEOUT,
          retry: { maximumAttempts: 3 },
          summary: summary(`${this.standing} · a last look`),
        },
        [{ serverId: this.serverId, cloud: this.cloud }],
      );
      this.covered = undefined;
      this.see(look ? [{ at: look.at, ...look.state }] : [], look);
      return judge(look);
    } catch (error) {
      const outcome = activityOutcome(error);
      if (outcome === null) throw error;
      this.trouble = outcome.message;
      return undefined;
    }
  }

  /**
   * - looked: there is something to judge
   * - silent: the round is over and nothing changed
   * - woken: cut short by `wake`
   * - unavailable: the time was over while Nova could not be had; the rest of it was waited out
   */
  private async watch(delay: number): Promise<'looked' | 'silent' | 'woken' | 'unavailable'> {
    const { serverId, polling, interval, covered, cloud } = this;
    if (serverId === null) throw new Error('there is no server to watch');
    this.covered = undefined;
    const silence = Date.now() - this.changedAt;
    const round = Math.min(roundLength(silence), Math.max(this.remaining, 1));
    const held = Math.min(delay, this.remaining);
    try {
      const result = await this.cutShort(() =>
        looks.novaWatchServer.executeWithOptions(
          {
            startToCloseTimeout: held + round + LOOK_TIMEOUT,
            scheduleToCloseTimeout: Number.isFinite(this.remaining) ? Math.max(this.remaining, 1) : undefined,
            heartbeatTimeout: heartbeatTimeout(silence, this.watches),
            summary: this.summary(`looking every ${seconds(this.interval)}`),
          },
          [{ serverId, seen: this.state, polling, interval, round, delay: held, covered, cloud }],
        ),
      );
      if (result === 'woken') return 'woken';
      const changed = result.observations.length > 0;
      this.interval = changed ? this.polling.initialInterval : result.interval;
      this.covered = result.covered;
      this.watches = result.watches ?? 0;
      this.see(result.observations, result.look);
      return changed || result.look === null ? 'looked' : 'silent';
    } catch (error) {
      const outcome = activityOutcome(error);
      if (outcome === null || CancellationScope.current().consideredCancelled) throw error;
      if (outcome.kind === 'refused') throw this.refusal(outcome);
      this.trouble = outcome.message;
      this.tell();
      await this.pause(outcome.retryAfterMs ?? this.interval, 'ask Nova again');
      return 'unavailable';
    }
  }

  /** Runs activities so that `wake` gives them up, a back-off of theirs above all. */
  async cutShort<T>(work: () => Promise<T>): Promise<T | 'woken'> {
    const outer = CancellationScope.current();
    this.woken = false;
    this.looking = new CancellationScope();
    try {
      return await this.looking.run(work);
    } catch (error) {
      if (this.woken && !outer.consideredCancelled && isCancellation(error)) return 'woken';
      throw error;
    } finally {
      this.looking = undefined;
    }
  }

  /** A durable timer that `wake` cuts short, and that ends at the deadline. */
  async pause(duration: number, what: string): Promise<void> {
    const timeout = Math.min(duration, this.remaining);
    this.interval = nextInterval(this.interval, this.polling);
    if (timeout > 0) {
      await condition(() => this.woken, timeout, { summary: this.summary(`${what} in ${seconds(timeout)}`) });
    }
    this.woken = false;
  }

  /** Nova's refusal as this workflow's own failure. */
  refusal(
    outcome: {
      type: string;
      message: string;
      details: Pick<FailureDetails, 'httpStatus' | 'requestId' | 'policyRule'>;
    },
    step?: string,
  ): ApplicationFailure {
    const { httpStatus, requestId, policyRule } = outcome.details;
    return ApplicationFailure.nonRetryable(outcome.message, outcome.type, {
      serverId: this.serverId,
      state: this.state,
      fault: this.lastLook?.fault ?? null,
      httpStatus,
      requestId,
      policyRule,
      step,
    });
  }

  failure(type: Parameters<typeof workflowFailure>[0], message: string, step?: string): ApplicationFailure {
    const { serverId, state } = this;
    return workflowFailure(type, message, { serverId, state, fault: this.lastLook?.fault ?? null, step });
  }

  /** Where it stands: what was seen last, or, when that says nothing any more, what is being done. */
  get standing(): string {
    return this.state === null ? this.phase : describeState(this.state);
  }

  private summary(what: string): string {
    const until = this.deadline === null ? '' : ` · until ${clock(this.deadline)}`;
    return summary(`${this.standing} · ${what}${until}`);
  }

  /** Says in the Web UI where the workflow stands ("Current Details"), and in the search attributes it came with. */
  private tell(): void {
    showInSearchAttributes(this.serverId, this.state);
    const lines = [
      this.headline,
      `**${this.phase}**${named('server', this.serverId)}${named('cloud', this.cloud)}`,
      this.state && `Seen: ${describeState(this.state)} since ${iso(this.changedAt)}${onHost(this.state)}`,
      this.deadline !== null && this.phase !== 'done' && `Until: ${iso(this.deadline)}`,
      this.trouble && `Nova could not be asked: ${this.trouble}`,
    ];
    setCurrentDetails(lines.filter(Boolean).join('\n\n'));
  }
}

/** Temporal takes 400 bytes of summary: a longer one would fail the workflow task. */
export function summary(text: string): string {
  const characters = [...text];
  return characters.length <= 100 ? text : `${characters.slice(0, 99).join('')}…`;
}

function named(what: string, name: string | null | undefined): string {
  return name ? ` · ${what} \`${name}\`` : '';
}

function onHost({ host }: ServerState): string {
  return host === null ? '' : ` on ${host}`;
}

export function iso(time: number): string {
  return new Date(time).toISOString();
}

const DAY = 86_400_000;

/** '14:05:00Z', or, more than a day away, '2026-11-30 14:05Z': a summary is read beside the date that it was made at. */
function clock(time: number): string {
  const text = iso(time);
  return time - Date.now() > DAY ? `${text.slice(0, 10)} ${text.slice(11, 16)}Z` : `${text.slice(11, 19)}Z`;
}

/** '8 s', '1.5 s', '10 min' */
export function seconds(ms: number): string {
  if (ms < 100_000) return `${Math.round(ms / 100) / 10} s`;
  const minutes = Math.round(ms / 60_000);
  return minutes < 60 ? `${minutes} min` : `${Math.round(minutes / 6) / 10} h`;
}
