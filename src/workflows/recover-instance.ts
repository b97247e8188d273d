/** `RecoverInstanceWorkflow`: an instance whose hypervisor process died comes back, or is left alone for a reason. */
import {
  allHandlersFinished,
  CancellationScope,
  condition,
  continueAsNew,
  log,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import { CancelledFailure, type ApplicationFailure } from '@temporalio/common';
import type { InstanceReading, Look } from '../activities';
import { afterAction, DEFAULT_POLLING, LOOK_AGAIN_AFTER, nextInterval } from '../policy/polling';
import {
  decideRecovery,
  isBusy,
  STEPS,
  type RecoveryAction,
  type RecoveryFacts,
  type RecoveryPlan,
} from '../policy/recovery';
import { describeState, type ServerState } from '../policy/server-state';
import { activityOutcome, describeFault, sentence, type ActivityOutcome } from './failures';
import { required } from './input';
import { notifiedSignal } from './messages';
import { countRecovery } from './metrics';
import { changes, LOOK_TIMEOUT, looks } from './nova';
import {
  checkNotification,
  checkRecoverInstanceInput,
  type CheckedRecoverInput,
  type RecoverInstanceInput,
  type RecoverInstanceResult,
  type RecoveryStep,
} from './recover-instance-input';
import { isHistoryLong, iso, seconds, ServerWatch, summary, type CarriedWatch } from './server-watch';

/** What a run hands to the next one; not part of the public input. */
export interface CarriedRecovery {
  watch: CarriedWatch;
  progress: RecoveryProgress;
}

/** All that a recovery must remember besides what it watches. Plain data: it is carried through continue-as-new. */
interface RecoveryProgress {
  /** How often it was decided afresh. */
  decisions: number;
  before: ServerState | null;
  hasBefore: boolean;
  plan: RecoveryPlan | null;
  /** A plan that was carried out before a later failure was reported. */
  recovered: RecoveryPlan | null;
  /** The plan's step that is under way. */
  step: number;
  /** The step's action was sent, its effect is waited for. */
  sent: boolean;
  /** Of the step's instance action, when known. */
  requestId: string | null;
  /** Request ids of instance actions that were there before the step. */
  known: string[] | null;
  /** vm_state before the step. */
  vmState: string | null;
  /** Something was changed. */
  changed: boolean;
  /** It was stopped by this run, and not started again. */
  owesStart: boolean;
  steps: RecoveryStep[];
  /** Nova's refusal that led to the last decision afresh. */
  refused: { action: RecoveryAction; refusal: Refusal } | null;
  /** When the failure was noticed, of the newest notification that was acted on. */
  failedAt: number | null;
  reportsRunning: boolean;
  /** Of the newest notification that came while this ran. */
  nextFailedAt: number | null;
}

/** How long a cancelled recovery tries to find out whether what it just sent was carried out. */
const CANCELLED_LOOK_TIMEOUT = 60_000;
/** "Decide afresh, at most 3 times". */
const DECISIONS = 3;
/**
 * Looks at what the instance is, takes one of a few paths, and says why: `policy` in the input chooses among them.
 *
 * Fails with an `ApplicationFailure` whose `type` is one of `InvalidInput`, `UnknownServerStatus`, `ServerNotFound`,
 * `InstanceRecoveryFailed` or `Nova…`.
 * @param carried set by continue-as-new only
 */
export async function RecoverInstanceWorkflow(
  input: RecoverInstanceInput,
  carried?: CarriedRecovery,
): Promise<RecoverInstanceResult> {
  let recovery: InstanceRecovery | undefined;
  let result: RecoverInstanceResult | undefined;
  let failure: unknown;
  try {
    const checked = checkRecoverInstanceInput(input);
    const isContinued = workflowInfo().continuedFromExecutionRunId !== undefined;
    recovery = new InstanceRecovery(input, checked, isContinued ? carried : undefined);
    recovery.handleMessages();
    result = await recovery.run();
    return result;
  } catch (error) {
    failure = error;
    if (!recovery) {
      const watch = new ServerWatch(DEFAULT_POLLING);
      watch.phase = 'done';
      watch.handleMessages();
    }
    throw error;
  } finally {
    recovery?.watch.end(failure);
    countRecovery(result, failure);
    await CancellationScope.nonCancellable(() => condition(allHandlersFinished));
  }
}

type Refusal = Extract<ActivityOutcome, { kind: 'refused' }>;

/** How a step ended: its target is reached, or the state asks for another decision. */
type StepEnd = 'reached' | 'again';

class InstanceRecovery {
  readonly watch: ServerWatch;
  private readonly progress: RecoveryProgress;
  /** Nova's word that the instance is locked, before anything was changed. */
  private lockedBy: string | null = null;
  private isCancelling = false;
  /** The deadline for deciding is set: at the start (it may have been extended by now), or by an earlier run. */
  private hasDeadline: boolean;

  constructor(
    private readonly input: RecoverInstanceInput,
    private readonly checked: CheckedRecoverInput,
    carried: CarriedRecovery | undefined,
  ) {
    const { failedAt, reportsRunning, instanceId, timeouts } = checked;
    this.watch = new ServerWatch(checked.polling, carried?.watch, checked.cloud);
    this.watch.serverId = instanceId;
    this.progress = carried?.progress ?? {
      decisions: 0,
      before: null,
      hasBefore: false,
      plan: null,
      recovered: null,
      refused: null,
      step: 0,
      sent: false,
      requestId: null,
      known: null,
      vmState: null,
      changed: false,
      owesStart: false,
      steps: [],
      failedAt,
      reportsRunning,
      nextFailedAt: null,
    };
    this.hasDeadline = carried === undefined || carried.progress.plan === null;
    if (!carried) {
      this.watch.phase = 'deciding';
      this.watch.allow(timeouts.task);
    }
  }

  handleMessages(): void {
    this.watch.handleMessages();
    setHandler(notifiedSignal, (notification) => {
      this.hear(notification);
      this.watch.wakeWhenLong();
    });
  }

  /** Another monitor's word, or a later one: recovered again only if it is of a failure after our own restart. */
  private hear(notification: unknown): void {
    if (notification === null || notification === undefined) return;
    try {
      const { failedAt, reportsRunning } = checkNotification(notification);
      if (failedAt === null || reportsRunning) return;
      // What began this recovery comes by signal too, and its clock may be ahead of ours.
      if (failedAt === this.progress.failedAt) return;
      this.progress.nextFailedAt = Math.max(failedAt, this.progress.nextFailedAt ?? 0);
    } catch (error) {
      // A signal's sender can't be told; this recovery must not fail for it.
      log.warn('A notification was not understood and is ignored', { reason: String(error) });
    }
  }

  async run(): Promise<RecoverInstanceResult> {
    try {
      return await this.recover();
    } catch (error) {
      if (!CancellationScope.current().consideredCancelled) throw error;
      throw await CancellationScope.nonCancellable(() => this.endCancelled());
    }
  }

  private async recover(): Promise<RecoverInstanceResult> {
    const { progress } = this;
    for (;;) {
      if (progress.plan === null) {
        const plan = await this.decide();
        if (this.checked.dryRun) return this.result('planned', plan);
        const isGone = plan.reason === 'not-found' || plan.reason === 'being-deleted';
        if (isGone && progress.changed && !progress.recovered) throw this.goneFailure(this.lastStep);
        if (plan.path === 'none') {
          return progress.recovered ? this.result('recovered', progress.recovered) : this.skipped(plan);
        }
        Object.assign(progress, { plan, step: 0, sent: false });
        this.watch.headline = `Path ${plan.path} (${plan.reason}): ${plan.steps.join(', ')}`;
      }
      const plan = required(progress.plan ?? undefined, 'plan');
      if ((await this.execute(plan)) === 'reached') {
        if (!this.failedAgain()) return this.result('recovered', plan);
        Object.assign(progress, { recovered: plan, plan: null, decisions: 0 });
        continue;
      }
      progress.plan = null;
      if (this.lockedBy !== null) return this.skipped(lockedPlan(this.lockedBy));
      if (++progress.decisions > DECISIONS) throw this.keptChanging();
    }
  }

  /** A notification came of a failure after our last restart. */
  private failedAgain(): boolean {
    const { progress } = this;
    const restart = progress.steps.filter(({ action }) => action === 'start' || action === 'reboot').at(-1);
    const failedAt = progress.nextFailedAt;
    progress.nextFailedAt = null;
    if (failedAt === null || restart === undefined || failedAt <= Date.parse(restart.at)) return false;
    progress.failedAt = failedAt;
    return true;
  }

  // ---- deciding

  /** Waits for a running task, then decides. */
  private async decide(): Promise<RecoveryPlan> {
    const { watch, checked, progress } = this;
    if (!this.hasDeadline) watch.allow(checked.timeouts.task);
    this.hasDeadline = false;
    watch.polling = checked.polling;
    watch.enter('deciding');
    for (;;) {
      const reading = await this.read(() => this.continueAsNewWhenLong());
      if (reading === 'deadline') throw this.lateFailure('task');
      progress.known = knownActions(reading);
      const facts = this.facts(reading);
      if (!progress.hasBefore) Object.assign(progress, { before: facts.state, hasBefore: true });
      const decision = decideRecovery(facts, checked.policy);
      if (decision.kind === 'unknown') {
        throw watch.failure(
          'UnknownServerStatus',
          `${this.name} is in vm_state ${facts.state?.vmState}, which this version can't recover.`,
        );
      }
      if (decision.kind === 'plan') return decision;
      const end = await watch.until(
        (look) => {
          const next = decideRecovery({ ...facts, state: look?.state ?? null }, checked.policy);
          return next.kind === 'wait' ? undefined : 'settled';
        },
        () => this.continueAsNewWhenLong(),
      );
      if (end === 'deadline') throw this.lateFailure('task');
    }
  }

  private facts(reading: InstanceReading): RecoveryFacts {
    const { failedAt, reportsRunning } = this.progress;
    const { look, metadata, actions, ownUserId } = reading;
    return { state: look?.state ?? null, metadata, actions, ownUserId, failedAt, reportsRunning };
  }

  /** One reading, repeated until there is one or the deadline has passed. */
  private async read(beforeAgain = async () => {}): Promise<InstanceReading | 'deadline'> {
    const { watch } = this;
    for (let again = false; ; again = true) {
      if (again) await beforeAgain();
      if (watch.remaining === 0) return 'deadline';
      try {
        const { remaining } = watch;
        const reading = await watch.cutShort(() =>
          looks.novaReadInstance.executeWithOptions(
            {
              startToCloseTimeout: 2 * LOOK_TIMEOUT,
              heartbeatTimeout: '5s',
              scheduleToCloseTimeout: remaining,
              summary: summary(`${watch.standing} · look, and read what was done to it before`),
            },
            [{ serverId: this.checked.instanceId, cloud: this.checked.cloud }],
          ),
        );
        if (reading === 'woken') continue;
        const { look } = reading;
        watch.see(look ? [{ at: look.at, ...look.state }] : [], look);
        return reading;
      } catch (error) {
        const outcome = activityOutcome(error);
        if (outcome === null) throw error;
        if (outcome.kind === 'refused') throw watch.refusal(outcome, 'task');
        watch.trouble = outcome.message;
        await watch.pause(outcome.retryAfterMs ?? this.checked.polling.maximumInterval, 'ask Nova again');
      }
    }
  }

  // ---- acting

  private async execute(plan: RecoveryPlan): Promise<StepEnd> {
    const { progress } = this;
    for (; progress.step < plan.steps.length; progress.step++) {
      const action = required(plan.steps[progress.step], 'step');
      if ((await this.take(action)) === 'again') return 'again';
      progress.sent = false;
    }
    return 'reached';
  }

  private async take(action: RecoveryAction): Promise<StepEnd> {
    const { watch, progress, checked } = this;
    const { phase, timeout, reached } = STEPS[action];
    if (!progress.sent) {
      watch.allow(checked.timeouts[timeout]);
      watch.enter(phase);
      // A resize of a stopped instance ends stopped, and Nova's own power sync can be faster than a stop of ours.
      if (watch.state && reached(watch.state)) return 'reached';
      // Active already: nothing to start, only to confirm, for power_state lags.
      if (action === 'start' && isActive(watch.state)) return this.confirmOthers(action);
      const refusal = await this.send(action);
      if (refusal) return this.afterRefusal(action, refusal);
    }
    return this.confirm(action);
  }

  /** @returns Nova's 409 or 404, else null: it was taken */
  private async send(action: RecoveryAction): Promise<Refusal | null> {
    const { watch, progress, checked } = this;
    progress.vmState = watch.state?.vmState ?? null;
    for (;;) {
      if (watch.remaining === 0) throw this.lateFailure(action);
      try {
        const taken = await changes.novaServerAction.executeWithOptions(
          {
            scheduleToCloseTimeout: watch.remaining,
            summary: summary(`${action} · it is ${describeState(watch.state)}`),
          },
          [
            {
              serverId: checked.instanceId,
              action,
              known: progress.known,
              vmState: progress.vmState,
              cloud: checked.cloud,
            },
          ],
        );
        this.record(action, taken.requestId, taken.found ? 'its answer was lost; Nova had carried it out' : undefined);
        return null;
      } catch (error) {
        const outcome = activityOutcome(error);
        if (outcome === null) throw error;
        if (outcome.kind === 'unavailable') {
          watch.trouble = outcome.message;
          await watch.pause(outcome.retryAfterMs ?? checked.polling.maximumInterval, 'ask Nova again');
          // It may have been carried out: look first.
          if (await this.wasTaken(action)) return null;
          continue;
        }
        if (outcome.type !== 'NovaConflict' && outcome.type !== 'NovaNotFound') throw this.refusal(outcome, action);
        return outcome;
      }
    }
  }

  private record(action: RecoveryAction, requestId: string | null, note?: string): void {
    const { progress, watch } = this;
    Object.assign(progress, { sent: true, requestId, changed: true, refused: null });
    if (requestId !== null) progress.known?.push(requestId);
    progress.steps.push({ action, at: iso(Date.now()), ...(note !== undefined && { note }) });
    // What was seen before says nothing about its effect: the next look counts, even if it shows the same.
    watch.forget();
    watch.rewind();
    if (action === 'stop') progress.owesStart = true;
    if (action === 'start') progress.owesStart = false;
  }

  /** Whether a request whose answer is not known was carried out: two looks, as it may still be on its way. */
  private async wasTaken(action: RecoveryAction): Promise<boolean> {
    const { progress, watch } = this;
    const known = progress.known;
    for (let look = 1; look <= 2; look++) {
      if (look === 2) await watch.pause(LOOK_AGAIN_AFTER, 'look again');
      const reading = await this.read();
      if (reading === 'deadline') return false;
      const entry = reading.actions?.find(
        (candidate) => candidate.action === STEPS[action].recordedAs && !known?.includes(candidate.requestId),
      );
      const state = reading.look?.state;
      // Where the actions can't be read, a state that moved tells.
      const moved = reading.actions === null && state && (state.taskState ?? state.vmState) !== progress.vmState;
      if (entry || moved) {
        this.record(action, entry?.requestId ?? null, 'its answer was lost; Nova had carried it out');
        return true;
      }
    }
    return false;
  }

  /** Nova answered 409 or 404. Only a look tells what that means (a 404 also comes in the first moments of BUILD). */
  private async afterRefusal(action: RecoveryAction, refusal: Refusal): Promise<StepEnd> {
    const { progress } = this;
    const reading = await this.read();
    if (reading === 'deadline') throw this.refusal(refusal, action);
    progress.known = knownActions(reading);
    const state = reading.look?.state;
    if (!state) {
      if (progress.changed) throw this.goneFailure(action);
      return 'again';
    }
    const { reached, tasks } = STEPS[action];
    if (reached(state)) return this.wasFaster(action);
    const isUnderWay = state.taskState !== null && tasks.includes(state.taskState);
    if (isUnderWay || (action === 'start' && isActive(state))) return this.confirmOthers(action);
    if (state.locked && /locked/i.test(refusal.message)) {
      if (progress.changed) throw this.refusal(refusal, action);
      this.lockedBy = refusal.message;
      return 'again';
    }
    progress.refused = { action, refusal };
    return 'again';
  }

  /** What Nova or somebody else has begun is waited for as if it were ours. */
  private confirmOthers(action: RecoveryAction): Promise<StepEnd> {
    Object.assign(this.progress, { sent: true, requestId: null });
    return this.confirm(action);
  }

  private wasFaster(action: RecoveryAction): StepEnd {
    this.watch.headline = `${action} was not needed: Nova had done it.`;
    return 'reached';
  }

  /** Waits until the action has had its effect. */
  private async confirm(action: RecoveryAction): Promise<StepEnd> {
    const { watch, progress, checked } = this;
    const { reached } = STEPS[action];
    const judge = (look: Look | null) => {
      if (look === null || look.state.vmState === 'deleted' || look.state.vmState === 'soft-delete') return 'gone';
      const { state } = look;
      if (reached(state)) return 'reached';
      if (state.vmState === 'error' && !(action === 'stop' && progress.vmState === 'error')) return 'error';
      // Running, as far as Nova's power_state tells yet: that lags.
      if (state.taskState === null && state.vmState !== 'active') return 'idle';
      if (state.taskState === null && action !== 'start' && action !== 'reboot' && action !== 'unrescue') return 'idle';
      return undefined;
    };
    watch.polling = afterAction(checked.polling);
    watch.rewind();
    let { initialInterval: interval } = watch.polling;
    for (;;) {
      const end = await watch.until(judge, () => this.continueAsNewWhenLong());
      switch (end) {
        case 'reached':
          return 'reached';
        case 'gone':
          throw this.goneFailure(action);
        case 'error':
          throw this.errorFailure(action);
        case 'deadline':
          throw this.lateFailure(action);
        case 'idle':
          if (await this.othersActed(action)) return 'again';
          if (watch.remaining === 0) throw this.lateFailure(action);
          await watch.pause(interval, 'look again');
          interval = nextInterval(interval, checked.polling);
          watch.forget();
      }
    }
  }

  /**
   * Nothing is under way, and the target is not reached. Nova accepted the action and it failed on the host: only the
   * instance action says so. Or somebody else has acted since: true, decide afresh. Or Nova is late: wait on.
   */
  private async othersActed(action: RecoveryAction): Promise<boolean> {
    const { progress } = this;
    const reading = await this.read();
    if (reading === 'deadline' || reading.look === null) return false;
    const { state } = reading.look;
    if (STEPS[action].reached(state) || state.taskState !== null) return false;
    // Without a request id of ours (a proxy may drop the header), it is the new entry of its name.
    const own = reading.actions?.find(({ action: name, requestId }) =>
      progress.requestId === null
        ? name === STEPS[action].recordedAs && !progress.known?.includes(requestId)
        : requestId === progress.requestId,
    );
    if (own?.failed) {
      throw this.watch.failure(
        'InstanceRecoveryFailed',
        `${this.name}: Nova accepted ${action}, and it failed on the host${state.host ? ` ${state.host}` : ''}: ` +
          `the instance action ${own.requestId} says Error, the server is ${describeState(state)}. ` +
          'nova-compute’s log has the reason under that request id.',
        action,
      );
    }
    const newest = reading.actions?.[0];
    const others = newest && newest !== own && !progress.known?.includes(newest.requestId);
    return Boolean(others) || state.vmState !== progress.vmState;
  }

  // ---- ends

  /** No new path is begun, but a server that this run stopped is started again. */
  private async endCancelled(): Promise<CancelledFailure> {
    this.isCancelling = true;
    const { progress, checked, watch } = this;
    const action = progress.plan?.steps[progress.step];
    try {
      if ((action === 'stop' || action === 'start') && !progress.sent) {
        watch.allow(Math.min(checked.timeouts.stop, CANCELLED_LOOK_TIMEOUT));
        await this.wasTaken(action);
      }
      if (progress.owesStart) {
        if (action === 'stop') await this.confirm('stop');
        progress.sent = false;
        await this.startAgain();
      } else if (action === 'start' && progress.sent) {
        await this.confirm('start');
      } else {
        return new CancelledFailure('The recovery was cancelled');
      }
      return new CancelledFailure(
        `The recovery was cancelled; the instance, which it had stopped, is ${describeState(watch.state)} again`,
      );
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      return new CancelledFailure(`The recovery was cancelled; starting the instance again failed: ${reason}`);
    }
  }

  private async startAgain(): Promise<void> {
    const { watch, checked } = this;
    for (let attempt = 0; attempt <= DECISIONS; attempt++) {
      if ((await this.take('start')) === 'reached') return;
      watch.allow(checked.timeouts.task);
      await watch.until((look) => (look !== null && isBusy(look.state) ? undefined : 'settled'));
    }
    throw this.keptChanging();
  }

  private skipped(plan: RecoveryPlan): RecoverInstanceResult {
    if (plan.warning) {
      this.watch.headline = `⚠ Skipped: ${plan.message}`;
      log.warn(`Recovery skipped: ${plan.message}`, { serverId: this.checked.instanceId, reason: plan.reason });
    } else {
      this.watch.headline = `Skipped: ${plan.message}`;
    }
    return this.result('skipped', plan);
  }

  private result(outcome: RecoverInstanceResult['outcome'], plan: RecoveryPlan): RecoverInstanceResult {
    const { progress, watch, checked } = this;
    const { path, reason } = plan;
    const message = outcome === 'planned' ? plannedMessage(plan) : plan.message;
    if (outcome === 'planned') this.watch.headline = message;
    if (outcome === 'recovered') this.watch.headline = `Recovered: ${message}`;
    return {
      instanceId: checked.instanceId,
      outcome,
      path,
      reason,
      message,
      before: progress.before,
      after: outcome === 'planned' ? null : (watch.lastLook?.state ?? null),
      steps: progress.steps,
    };
  }

  private get name(): string {
    return `The instance ${this.checked.instanceId}`;
  }

  /** Nova's refusal of a step: of which instance, what was changed before, and what there is to do. */
  private refusal(refusal: Refusal, action: RecoveryAction): ApplicationFailure {
    const { steps, owesStart } = this.progress;
    const when = steps.length === 0 ? 'before anything was changed' : `after ${steps.map((s) => s.action).join(', ')}`;
    const other =
      action === 'reset-state' && refusal.type === 'NovaForbidden'
        ? ' Or recover it with the policy resized=confirm or resized=revert, which take the role member.'
        : '';
    const left = owesStart ? ' It is stopped still.' : '';
    const message = `${this.name}: ${action} was refused, ${when}. ${sentence(refusal.message)}${other}${left}`;
    return this.watch.refusal({ ...refusal, message }, action);
  }

  private goneFailure(step: string): ApplicationFailure {
    return this.watch.failure('ServerNotFound', `${this.name} was deleted while it was recovered (${step}).`, step);
  }

  private errorFailure(step: RecoveryAction): ApplicationFailure {
    const words = describeFault(this.watch.lastLook?.fault);
    return this.watch.failure('InstanceRecoveryFailed', `${this.name} went to ERROR after ${step}. ${words}`, step);
  }

  private lateFailure(step: RecoveryAction | 'task'): ApplicationFailure {
    const { watch } = this;
    const trouble = watch.trouble ? ` Nova could not be asked at the end: ${watch.trouble}` : '';
    const what = step === 'task' ? 'was still busy, or could not be looked at,' : `did not get through ${step}`;
    return watch.failure(
      'InstanceRecoveryFailed',
      `${this.name} ${what} within ${seconds(watch.allowed)}; last seen: ${describeState(watch.state)}.${trouble}`,
      step,
    );
  }

  private keptChanging(): ApplicationFailure {
    const { watch } = this;
    const { refused } = this.progress;
    if (refused) return this.refusal(refused.refusal, refused.action);
    return watch.failure(
      'InstanceRecoveryFailed',
      `${this.name} kept changing while it was recovered: decided ${DECISIONS + 1} times; ` +
        `last seen: ${describeState(watch.state)}.`,
      this.lastStep,
    );
  }

  private get lastStep(): string {
    return this.progress.steps.at(-1)?.action ?? 'task';
  }

  private async continueAsNewWhenLong(): Promise<void> {
    if (this.isCancelling || !isHistoryLong()) return;
    await condition(allHandlersFinished);
    await continueAsNew<typeof RecoverInstanceWorkflow>(this.input, {
      watch: this.watch.carry(),
      progress: this.progress,
    });
  }
}

function lockedPlan(words: string): RecoveryPlan {
  const message = `The instance is locked, and only an administrator passes a lock: ${words}`;
  return { kind: 'plan', path: 'none', reason: 'locked', message, warning: false, steps: [] };
}

function knownActions({ actions }: InstanceReading): string[] | null {
  return actions && actions.map(({ requestId }) => requestId);
}

function plannedMessage({ path, steps, message }: RecoveryPlan): string {
  if (path === 'none') return `Nothing was done; a recovery would leave it alone: ${message}`;
  return `Nothing was done; a recovery would take the path ${path}: ${steps.join(', ')}.`;
}

/** Active, and nothing under way; whether the guest runs is not said. */
function isActive(state: ServerState | null): boolean {
  return state?.vmState === 'active' && state.taskState === null;
}
