/** `CreateServerWorkflow`: one server, from POST to ACTIVE. */
import {
  CancellationScope,
  condition,
  allHandlersFinished,
  continueAsNew,
  log,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import type { CreatedServer, Creation, Look } from '../activities';
import { isGone, judgeCreation } from '../policy/creation';
import { DEFAULT_POLLING } from '../policy/polling';
import { describeState } from '../policy/server-state';
import {
  checkCreateServerInput,
  type CheckedCreateInput,
  type CreateServerInput,
  type CreateServerResult,
} from './create-server-input';
import {
  activityOutcome,
  describeFault,
  sentence,
  workflowFailure,
  type ActivityOutcome,
  type FailureType,
} from './failures';
import { serverIdUpdate } from './messages';
import { countCreation } from './metrics';
import { changes, looks } from './nova';
import { isHistoryLong, iso, seconds, ServerWatch, summary, type CarriedWatch } from './server-watch';

/** What a run hands to the next one; not part of the public input. */
export interface CarriedCreation {
  attempt: number;
  /** A POST may have been made whose server is not known. */
  mayExist?: boolean;
  lastFailure: string;
  watch: CarriedWatch;
}

/** How long a deletion may take, and how often a DELETE that ended in ERROR is repeated. */
const DELETE_TIMEOUT = 300_000;
const DELETES = 3;
const DELETE_AGAIN_AFTER = 3_000;
/** For looking up the tag of a POST whose answer is not known, when the time is over. */
const FIND_TIMEOUT = 60_000;
const FIND_TIMEOUT_FOR_INFORMATION = 10_000;

/**
 * Creates one server and waits until it is ACTIVE.
 *
 * Fails with an `ApplicationFailure` whose `type` is one of `InvalidInput`, `ServerInError`, `UnknownServerStatus`,
 * `ServerNotFound`, `ServerWaitTimeout`, `AmbiguousServer`, `QuotaExceeded` or `Nova…`.
 * @param carried set by continue-as-new only
 */
export async function CreateServerWorkflow(
  input: CreateServerInput,
  carried?: CarriedCreation,
): Promise<CreateServerResult> {
  let creation: ServerCreation | undefined;
  let failure: unknown;
  try {
    const checked = checkCreateServerInput(input);
    const isContinued = workflowInfo().continuedFromExecutionRunId !== undefined;
    creation = new ServerCreation(input, checked, isContinued ? carried : undefined);
    creation.watch.handleMessages();
    handleServerId(
      () => creation?.watch.serverId ?? null,
      () => failure,
      creation.askers,
    );
    return await creation.run();
  } catch (error) {
    failure = error;
    if (!creation) answerForInvalidInput(failure);
    throw failure;
  } finally {
    creation?.watch.end(failure);
    countCreation(failure);
    await CancellationScope.nonCancellable(() => condition(allHandlersFinished));
  }
}

/** The update `serverId`: the id as soon as there is one, or the workflow's own failure. Counts those who wait. */
function handleServerId(serverId: () => string | null, failure: () => unknown, askers = { waiting: 0 }): void {
  setHandler(serverIdUpdate, () =>
    CancellationScope.nonCancellable(async () => {
      askers.waiting++;
      await condition(() => serverId() !== null || failure() !== undefined);
      askers.waiting--;
      const id = serverId();
      if (id === null) throw failure();
      return id;
    }),
  );
}

/** A workflow that never got going still answers those who ask. */
function answerForInvalidInput(failure: unknown): void {
  const watch = new ServerWatch(DEFAULT_POLLING);
  watch.phase = 'done';
  watch.handleMessages();
  handleServerId(
    () => null,
    () => failure,
  );
}

/** How an attempt ended, other than by a throw. */
type AttemptEnd = 'active' | 'error' | 'gone' | 'unknown' | 'deadline';

class ServerCreation {
  readonly watch: ServerWatch;
  private attempt: number;
  /** A POST may have been made whose server is not known. */
  private mayExist = false;
  /** Updates `serverId`: they are answered by the run that took them. */
  readonly askers = { waiting: 0 };
  private lastFailure = '';
  private triedToDelete = false;

  constructor(
    private readonly input: CreateServerInput,
    private readonly checked: CheckedCreateInput,
    carried: CarriedCreation | undefined,
  ) {
    this.watch = new ServerWatch(checked.polling, carried?.watch, checked.cloud);
    this.attempt = carried?.attempt ?? 1;
    this.mayExist = carried?.mayExist ?? false;
    this.lastFailure = carried?.lastFailure ?? '';
    if (!carried) this.watch.allow(checked.timeout);
  }

  async run(): Promise<CreateServerResult> {
    try {
      for (;;) {
        const end = await this.runAttempt();
        if (end === 'active') return this.result();
        // The last look of a creation whose id is not known.
        if (end === 'deadline' && (await this.foundActive())) return this.result();
        const failure = this.failureOf(end);
        if (end !== 'error' || this.attempt === this.checked.attempts) throw failure;
        await this.beginNextAttempt(failure);
      }
    } catch (error) {
      const cancelled = CancellationScope.current().consideredCancelled;
      // Neither: continue-as-new, or a defect that Temporal retries.
      if (!cancelled && !(error instanceof ApplicationFailure)) throw error;
      const failure = cancelled ? new CancelledFailure('The creation was cancelled') : error;
      throw await CancellationScope.nonCancellable(() => this.cleanUp(failure));
    }
  }

  private async runAttempt(): Promise<AttemptEnd> {
    const { watch } = this;
    if (watch.serverId === null) {
      const created = await this.create();
      if (created === 'deadline') return 'deadline';
      this.mayExist = false;
      watch.follow(created.serverId, created.look, created);
      if (created.adopted) {
        log.warn('Adopted the server that an earlier request had created', { serverId: created.serverId });
      }
    }
    watch.enter('waiting');
    return watch.until(
      (look) => this.judge(look),
      () => this.continueAsNewWhenLong(),
    );
  }

  private judge(look: Look | null): Exclude<AttemptEnd, 'deadline'> | undefined {
    if (look === null) return 'gone';
    const verdict = judgeCreation(look.state, this.checked.transientStatuses);
    return verdict === 'wait' ? undefined : verdict;
  }

  /** POSTs until Nova has taken it, or the deadline has passed. */
  private async create(): Promise<CreatedServer | 'deadline'> {
    const { watch, checked } = this;
    watch.enter('creating');
    for (let again = false; ; again = true) {
      if (again && this.askers.waiting === 0) await this.continueAsNewWhenLong();
      const within = watch.remaining;
      if (within === 0) return 'deadline';
      try {
        const mayExist = this.mayExist;
        this.mayExist = true;
        const created = await watch.cutShort(() =>
          changes.novaCreateServer.executeWithOptions(
            {
              scheduleToStartTimeout: within,
              // A POST that is under way at the deadline is waited for: its server must be known.
              scheduleToCloseTimeout: within + 100_000,
              summary: summary(`create ${this.name} · attempt ${this.attempt} of ${checked.attempts}`),
            },
            [
              {
                creation: this.identity(),
                server: checked.server,
                schedulerHints: checked.schedulerHints,
                within,
                mayExist,
                cloud: checked.cloud,
              },
            ],
          ),
        );
        if (created !== 'woken') return created;
      } catch (error) {
        const outcome = activityOutcome(error);
        if (outcome === null) throw error;
        if (outcome.kind === 'refused') {
          if (outcome.type === 'DeadlinePassed') {
            watch.trouble = outcome.message;
            continue;
          }
          if (outcome.type === 'AmbiguousServer') throw watch.refusal(outcome);
          // Where the POST itself was refused, no server came of this attempt, and there is nothing to look for.
          this.mayExist = outcome.details.mayExist ?? false;
          const what = this.mayExist ? 'may have been created, which could not be found out' : 'was not created';
          throw watch.refusal({ ...outcome, message: `The server "${this.name}" ${what}. ${outcome.message}` });
        }
        watch.trouble = outcome.message;
        await watch.pause(outcome.retryAfterMs ?? checked.polling.maximumInterval, 'ask Nova again');
      }
    }
  }

  private identity(): Creation {
    const { namespace, workflowId, firstExecutionRunId } = workflowInfo();
    return { namespace, workflowId, firstRunId: firstExecutionRunId, attempt: this.attempt };
  }

  private get name(): string {
    const { name } = this.checked.server as { name: unknown };
    return typeof name === 'string' ? name.slice(0, 255) : 'server';
  }

  private async beginNextAttempt(failure: ApplicationFailure): Promise<void> {
    const { watch } = this;
    log.warn(`${failure.message} Creating another one`, { attempt: this.attempt, serverId: watch.serverId });
    const trouble = await this.deleteServer();
    if (trouble) {
      this.triedToDelete = true;
      throw addTo(failure, trouble);
    }
    this.attempt++;
    this.lastFailure = ` The attempt before: ${failure.message}`;
    watch.serverId = null;
    watch.forget();
    watch.headline = `Attempt ${this.attempt} of ${this.checked.attempts}.${this.lastFailure}`;
  }

  private async continueAsNewWhenLong(): Promise<void> {
    if (!isHistoryLong()) return;
    await condition(allHandlersFinished);
    const { attempt, mayExist, lastFailure } = this;
    const watch = this.watch.carry();
    await continueAsNew<typeof CreateServerWorkflow>(this.input, { attempt, mayExist, lastFailure, watch });
  }

  private result(): CreateServerResult {
    const { watch } = this;
    const look = watch.lastLook;
    return {
      serverId: watch.serverId ?? '',
      name: look?.name ?? this.name,
      status: 'ACTIVE',
      addresses: look?.addresses ?? {},
      host: look?.state.host ?? null,
      attempts: this.attempt,
      observations: watch.observations,
    };
  }

  private failureOf(end: Exclude<AttemptEnd, 'active'>): ApplicationFailure {
    const { watch } = this;
    const server = `server ${watch.serverId ?? `"${this.name}"`}`;
    switch (end) {
      case 'error': {
        const fault = watch.lastLook?.fault;
        return watch.failure('ServerInError', `The ${server} went to ERROR. ${describeFault(fault)}`);
      }
      case 'gone':
        return watch.failure(
          'ServerNotFound',
          watch.lastLook === null
            ? `The ${server} is gone: Nova answered two looks in a row with 404.`
            : `The ${server} was deleted: Nova shows ${describeState(watch.state)}.`,
        );
      case 'unknown':
        return watch.failure(
          'UnknownServerStatus',
          `The ${server} is ${describeState(watch.state)}, a status that does not lead to ACTIVE as far as this version knows. ` +
            'If it is expected, name it in transientStatuses.',
        );
      case 'deadline': {
        const waited = `within ${seconds(watch.allowed)}`;
        const deadline = iso(watch.deadline ?? Date.now());
        const trouble = watch.trouble ? ` Nova could not be asked at the end: ${sentence(watch.trouble)}` : '';
        const seen = watch.serverId === null ? `The ${server} was not created` : `The ${server} did not become ACTIVE`;
        return watch.failure(
          'ServerWaitTimeout',
          `${seen} ${waited} (deadline ${deadline}); last seen: ${describeState(watch.state)}.${trouble}${this.lastFailure}`,
        );
      }
    }
  }

  /** Finds out what the failed creation left behind, deletes it where asked to. Returns the failure to end with. */
  private async cleanUp(failure: unknown): Promise<unknown> {
    const { watch } = this;
    if (failure instanceof ApplicationFailure && !CLEANED_UP.has(failure.type ?? '')) return failure;
    if (this.triedToDelete) return failure;
    watch.deadline = null;
    watch.enter('cleaning-up');
    let known = failure;
    const deletes = this.checked.onFailure === 'delete';
    // At a deadline it was looked for already, as the last look: again only for the sake of deleting it.
    const isLate = failure instanceof ApplicationFailure && !deletes;
    if (watch.serverId === null && this.mayExist && !isLate) {
      const found = await this.find(deletes ? FIND_TIMEOUT : FIND_TIMEOUT_FOR_INFORMATION);
      if (found instanceof ApplicationFailure) return found;
      if (typeof found === 'string') known = addTo(failure, found);
      else if (found && failure instanceof ApplicationFailure) {
        known = watch.failure(failure.type as FailureType, `${failure.message} Its server is ${found.serverId}.`);
      }
    }
    if (!deletes || watch.serverId === null) return known;
    const trouble = await this.deleteServer();
    return trouble ? addTo(known, trouble) : known;
  }

  private async foundActive(): Promise<boolean> {
    if (this.watch.serverId !== null || !this.mayExist) return false;
    const found = await this.find(FIND_TIMEOUT_FOR_INFORMATION);
    if (found instanceof ApplicationFailure) throw found;
    return found !== null && typeof found === 'object' && this.judge(found) === 'active';
  }

  /** Looks for the server of a POST whose answer is not known. A text says why it could not be looked for. */
  private async find(timeout: number): Promise<(Look & { serverId: string }) | null | string | ApplicationFailure> {
    try {
      const found = await looks.novaFindServer.executeWithOptions(
        { scheduleToCloseTimeout: timeout, heartbeatTimeout: '5s', summary: 'was a server made?' },
        [{ ...this.identity(), cloud: this.checked.cloud }],
      );
      if (found) this.watch.follow(found.serverId, found);
      return found;
    } catch (error) {
      const outcome = activityOutcome(error);
      if (outcome === null) throw error;
      if (outcome.kind === 'refused' && outcome.type === 'AmbiguousServer') return this.watch.refusal(outcome);
      return `Whether a server was made could not be found out: ${outcome.message}`;
    }
  }

  /** DELETE, then wait until it is gone. Returns what went wrong, as a sentence, or null. */
  private async deleteServer(): Promise<string | null> {
    const { watch } = this;
    const { serverId } = watch;
    if (serverId === null || isDeleted(watch)) return null;
    const { deadline, allowed } = watch;
    watch.enter('cleaning-up');
    watch.allow(DELETE_TIMEOUT);
    try {
      for (let round = 1; round <= DELETES; round++) {
        const outcome = await this.sendDelete(serverId);
        if (outcome) return `It could not be deleted: ${outcome.message}`;
        watch.rewind();
        watch.forget();
        const end = await watch.until(judgeDeletion);
        if (end === 'gone') return null;
        // Some moments for a deletion that only begins late.
        if (end === 'failed') await watch.pause(DELETE_AGAIN_AFTER, 'DELETE again');
        if (end === 'failed' && (await watch.lookOnce(judgeDeletion)) === 'gone') return null;
        if (end === 'deadline') {
          return `It could not be deleted: still ${describeState(watch.state)} ${seconds(watch.allowed)} after DELETE.`;
        }
      }
      return `It could not be deleted: ${DELETES} deletions in a row ended in ERROR.`;
    } catch (error) {
      if (error instanceof ApplicationFailure) return `It could not be deleted: ${error.message}`;
      throw error;
    } finally {
      Object.assign(watch, { deadline, allowed });
    }
  }

  private async sendDelete(serverId: string): Promise<ActivityOutcome> {
    try {
      await changes.novaDeleteServer.executeWithOptions(
        { scheduleToCloseTimeout: Math.max(this.watch.remaining, 1), summary: `DELETE ${serverId}` },
        [{ serverId, cloud: this.checked.cloud }],
      );
      return null;
    } catch (error) {
      const outcome = activityOutcome(error);
      if (outcome === null) throw error;
      return outcome;
    }
  }
}

/** A refused request leaves nothing to clean up. */
const CLEANED_UP = new Set(['ServerInError', 'ServerWaitTimeout']);

function isDeleted(watch: ServerWatch): boolean {
  return watch.lastLook !== null && isGone(watch.lastLook.state);
}

/** `deleting` is waited for; a deletion that failed on the host comes back to ERROR without a task. */
function judgeDeletion(look: Look | null): 'gone' | 'failed' | undefined {
  if (isGone(look?.state ?? null)) return 'gone';
  return look?.state.status === 'ERROR' && look.state.taskState === null ? 'failed' : undefined;
}

/** The same failure with another sentence; a cancellation stays a cancellation. */
function addTo(failure: unknown, message: string): unknown {
  if (failure instanceof ApplicationFailure) {
    return workflowFailure(failure.type as FailureType, `${failure.message} ${message}`, failure.details?.[0] ?? {});
  }
  log.warn(message);
  return new CancelledFailure(`${failure instanceof Error ? failure.message : 'Cancelled'}. ${message}`);
}
