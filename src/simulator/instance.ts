/**
 * One simulated server and its life. Nothing runs while nobody looks: what will happen is a list of moments, and
 * whoever looks at the instance first lets those pass whose time has come (`settle`).
 */
import { randomUUID } from 'node:crypto';
import { ActionLog } from './action-log';
import {
  NOVA,
  newRequestId,
  type Caller,
  type Fault,
  type Flavor,
  type ForcedState,
  type InstanceSpec,
  type Surroundings,
} from './model';
import {
  OFFLOAD_AFTER_SHELVE,
  POWER,
  settledPower,
  statusOf,
  type ActionRule,
  type Change,
  type VmState,
} from './states';
import { Timeline, type Moment } from './timeline';

/** Shares of a build's early time at which its states begin, as measured on Nova 26. The rest of it is spawning. */
const EARLY_BUILD = { inCell: 0.4, host: 0.55, networking: 0.65, blockDeviceMapping: 0.8 };

/** What an action needs to fail. */
type FailingRule = Pick<ActionRule, 'name' | 'operation' | 'failure'>;

/** A deletion whose host fails comes back to ERROR (measured on Nova 26). */
const DESTROY: FailingRule = { name: 'delete', operation: 'destroy', failure: 'error' };

const BUILD_EVENT = 'compute__do_build_and_run_instance';

const isOff = (powerState: number): boolean => powerState === POWER.SHUTDOWN || powerState === POWER.CRASHED;

export class Instance {
  readonly id: string = randomUUID();
  readonly projectId: string | null;
  readonly userId: string | null;
  name: string;
  metadata: Record<string, string>;
  tags: string[];
  flavor: Flavor;
  description: string | null;
  vmState: string = 'building';
  taskState: string | null = 'scheduling';
  /** As Nova's database has it. */
  powerState: number = POWER.NOSTATE;
  host: string | null = null;
  /** False while it is a build request only: some of Nova's actions don't find it yet. */
  inCell = false;
  /** It fitted nowhere, and is kept in the cell for those. */
  inCell0 = false;
  /** Deleted and out of Nova's sight: GET answers 404. */
  gone = false;
  /** Deleted before it had a host: `updated_at` says nothing of it. */
  goneUntold = false;
  downCell = false;
  lockedBy: 'owner' | 'admin' | null = null;
  lockedReason: string | null = null;
  /** The latest, shown in ERROR only. */
  fault: Fault | null = null;
  updatedAt: number;
  launchedAt: number | null = null;
  /** When it was ACTIVE for the first time. */
  activeAt: number | undefined;
  terminatedAt: number | null = null;
  deletedAt: number | null = null;
  /** Action names, and how many more of each will fail on the host. */
  readonly failing = new Map<string, number>();

  private readonly log = new ActionLog();
  private readonly timeline = new Timeline();
  /** The guest's power state as its hypervisor knows it. Nova's own follows at the next power sync, due at `syncAt`. */
  private guest: number = POWER.NOSTATE;
  private syncAt = Infinity;
  private shownStatus: string | undefined;
  private beforeResize: { host: string | null; flavor: Flavor } | undefined;
  /** What happens in place of a spawn's good end: a deletion waits for it. */
  private afterSpawn: ((at: number) => void) | undefined;
  private deleting = false;

  constructor(
    readonly spec: InstanceSpec,
    readonly createdAt: number,
    private readonly requestId: string,
    private readonly around: Surroundings,
    private readonly homeHost: string,
  ) {
    this.projectId = spec.caller.projectId;
    this.userId = spec.caller.userId;
    this.name = spec.name;
    this.metadata = { ...spec.metadata };
    this.tags = [...spec.tags];
    this.flavor = spec.flavor;
    this.description = spec.description;
    this.updatedAt = createdAt;
    this.planBuild();
  }

  get status(): string {
    if (this.gone) return 'DELETED';
    return this.shownStatus ?? statusOf(this.vmState, this.taskState);
  }

  /** Oldest first. */
  get actions(): ActionLog['entries'] {
    return this.log.entries;
  }

  /** Lets everything happen whose time has come. Cheap when nothing has. */
  settle(now: number): void {
    for (let moment = this.timeline.take(now); moment !== undefined; moment = this.timeline.take(now)) {
      this.updatedAt = moment.at;
      this.shownStatus = undefined;
      moment.pass(moment.at);
    }
    if (this.syncAt <= now) this.syncPower(this.syncAt);
  }

  /** Ends what is under way, where it stands, and has these follow. */
  private plan(now: number, moments: Moment[] = []): void {
    this.timeline.replace(moments);
    this.afterSpawn = undefined;
    this.shownStatus = undefined;
    this.updatedAt = now;
    this.settle(now);
  }

  // ---- creation

  private planBuild(): void {
    const spawn = this.seconds('spawn');
    const total = spawn === undefined ? this.around.buildMs : Infinity;
    const early = Math.min(500, Math.max(total / 10, Math.min(250, total / 4)));
    const at = (share: number): number => this.createdAt + early * share;
    if (!this.around.fits(this.flavor)) {
      return this.timeline.replace([{ at: at(1), pass: (now) => this.fitNowhere(now) }]);
    }
    const end = spawn === undefined ? this.createdAt + total : at(1) + spawn;
    this.timeline.replace([
      { at: at(EARLY_BUILD.inCell), pass: (now) => this.enterCell(now) },
      { at: at(EARLY_BUILD.host), pass: () => this.apply({ host: 'any' }) },
      { at: at(EARLY_BUILD.networking), pass: () => this.apply({ taskState: 'networking' }) },
      { at: at(EARLY_BUILD.blockDeviceMapping), pass: () => this.apply({ taskState: 'block_device_mapping' }) },
      { at: at(1), pass: () => this.apply({ taskState: 'spawning' }) },
      { at: end, pass: (now) => this.spawned(now, 1) },
    ]);
  }

  /** The build request becomes an instance in a cell's database, with actions of its own. */
  private enterCell(now: number): void {
    if (this.inCell) return;
    this.inCell = true;
    this.taskState = null;
    this.log.begin('create', this.requestId, this.spec.caller, now, null, BUILD_EVENT);
  }

  private fitNowhere(now: number): void {
    this.enterCell(now);
    this.inCell0 = true;
    const message = 'No valid host was found. ';
    this.failInto({ code: 500, message, created: now }, now);
    this.log.finish(now, null, message);
  }

  /** The end of the driver's spawn, good or bad. */
  private spawned(now: number, attempt: number): void {
    if (this.afterSpawn !== undefined) return this.afterSpawn(now);
    switch (this.metadata['anchor_spawn']) {
      case 'abort':
        return this.abortBuild(now);
      case 'reschedule':
      case 'fail':
        return this.reschedule(now, attempt);
      default:
        return this.becomeActive(now);
    }
  }

  private abortBuild(now: number): void {
    this.host = null;
    const message = `Build of instance ${this.id} aborted: anchor_spawn = abort`;
    this.plan(now, [{ at: now + this.around.actionMs, pass: (at) => this.giveUpBuild(message, at) }]);
  }

  /** Nova tries the next host, until none is left. */
  private reschedule(now: number, attempt: number): void {
    this.host = null;
    const at = (step: number): number => now + step * this.around.actionMs;
    const again: Moment = { at: at(1), pass: () => this.apply({ taskState: 'scheduling' }) };
    if (attempt >= this.around.hosts.length) {
      const message =
        'Exceeded maximum number of retries. Exhausted all hosts available for retrying build failures for instance ' +
        `${this.id}.`;
      return this.plan(now, [again, { at: at(2), pass: (end) => this.giveUpBuild(message, end) }]);
    }
    this.plan(now, [
      again,
      { at: at(2), pass: () => this.apply({ taskState: null, host: 'other' }) },
      { at: at(3), pass: () => this.apply({ taskState: 'networking' }) },
      { at: at(4), pass: () => this.apply({ taskState: 'spawning' }) },
      { at: at(5) + (this.seconds('spawn') ?? 0), pass: (end) => this.spawned(end, attempt + 1) },
    ]);
  }

  /** The instance action of such a build says nothing of an error (measured on Nova 26). */
  private giveUpBuild(message: string, now: number): void {
    this.failInto({ code: 500, message, created: now }, now);
    this.log.finish(now, null);
  }

  private failInto(fault: Fault, now: number): void {
    this.apply({ vmState: 'error', taskState: null, powerState: POWER.NOSTATE });
    this.fault = { ...fault, details: 'Traceback (most recent call last): ...' };
    this.updatedAt = now;
  }

  private becomeActive(now: number): void {
    this.apply({ vmState: 'active', taskState: null, powerState: POWER.RUNNING });
    this.markLaunched(now);
    this.log.finish(now, this.host);
    if (isOff(this.guest)) this.planSync(now);
  }

  private markLaunched(now: number): void {
    this.launchedAt ??= now;
    if (this.vmState === 'active') this.activeAt ??= now;
  }

  /** A build ends now, as it would have in its time. */
  finishBuild(now: number): void {
    this.expectBuilding();
    this.plan(now);
    this.enterCell(now);
    this.host ??= this.homeHost;
    this.becomeActive(now);
  }

  failBuild(now: number, fault: { code: number; message: string }): void {
    this.expectBuilding();
    this.plan(now);
    this.enterCell(now);
    this.failInto({ ...fault, created: now }, now);
    this.log.finish(now, null, fault.message);
  }

  private expectBuilding(): void {
    if (this.vmState !== 'building') throw new Error(`server ${this.id} is not building: it is ${this.vmState}`);
  }

  // ---- actions

  /** Begins an action that was allowed. `flavor`: the new one, of a resize. */
  act(rule: ActionRule, now: number, requestId: string, caller: Caller, flavor?: Flavor): void {
    const from = { vmState: this.vmState as VmState, powerState: this.powerState };
    this.log.begin(
      rule.recorded ?? rule.name,
      requestId,
      caller,
      now,
      this.host,
      rule.event ?? `compute_${rule.name}_instance`,
    );
    if (rule.moves === true) this.beforeResize = { host: this.host, flavor: this.flavor };
    const took = this.duration(rule.operation);
    const steps: Moment[] = rule.steps.map((step) => ({ at: now + took * step.at, pass: () => this.apply(step) }));
    if (this.fails(rule)) {
      const begun = steps.filter((moment) => moment.at < now + took || took === 0);
      return this.plan(now, [...begun.slice(0, rule.steps.length - 1), ...this.failure(rule, from.vmState, now, took)]);
    }
    const end: Moment = {
      at: now + took,
      pass: (at) => {
        if (flavor !== undefined) this.flavor = flavor;
        this.conclude(rule, from, at);
      },
    };
    this.plan(now, [...steps, end]);
  }

  /** What an action's last step can't say alone, as it depends on where the server came from. */
  private conclude(rule: ActionRule, from: { vmState: VmState; powerState: number }, now: number): void {
    switch (rule.name) {
      case 'rebuild':
      case 'evacuate':
        if (from.vmState === 'stopped') this.apply({ vmState: 'stopped', powerState: POWER.SHUTDOWN });
        break;
      case 'revertResize':
        if (this.beforeResize !== undefined) this.flavor = this.beforeResize.flavor;
        if (isOff(this.powerState)) this.apply({ vmState: 'stopped' });
        break;
      case 'confirmResize':
        if (isOff(this.powerState)) this.apply({ vmState: 'stopped' });
        break;
    }
    this.markLaunched(now);
    this.log.finish(now, this.host);
    if (rule.name === 'shelve' && this.around.shelvedOffloadMs >= 0) this.planOffload(now);
  }

  private planOffload(now: number): void {
    const start = now + this.around.shelvedOffloadMs;
    const { actionMs } = this.around;
    this.plan(
      now,
      OFFLOAD_AFTER_SHELVE.map((step) => ({ at: start + actionMs * step.at, pass: () => this.apply(step) })),
    );
  }

  private fails({ name, operation }: FailingRule): boolean {
    const left = this.failing.get(name) ?? 0;
    if (left > 0) this.failing.set(name, left - 1);
    return left > 0 || (operation !== undefined && this.metadata[`anchor_${operation}`] === 'fail');
  }

  /** The end of an action that fails on the host. Where that is ERROR, it is seen with its task for a moment. */
  private failure(rule: FailingRule, before: VmState, now: number, took: number): Moment[] {
    const survives = rule.failure === 'error-unless-running' && this.guest === POWER.RUNNING;
    const intoError = !survives && (rule.failure ?? 'revert') !== 'revert';
    const cause = `anchor_${rule.operation ?? rule.name} = fail`;
    const broken: Moment = {
      at: now + took * 0.9,
      pass: (at) => {
        this.vmState = 'error';
        this.fault = this.faultOf(rule.name, cause, at);
      },
    };
    const end: Moment = {
      at: now + took,
      pass: (at) => {
        if (!intoError) this.vmState = survives ? 'active' : before;
        this.taskState = null;
        this.deleting = false;
        this.log.finish(at, this.host, survives ? undefined : cause);
      },
    };
    return intoError ? [broken, end] : [end];
  }

  private faultOf(action: string, cause: string, created: number): Fault {
    if (action !== 'rescue') return { code: 500, message: cause, created, details: cause };
    return { code: 400, message: `Instance ${this.id} cannot be rescued: Driver Error: ${cause}`, created };
  }

  /** os-resetState: only the database is written, whatever is under way. A spawn goes on, and ends badly. */
  resetState(vmState: 'active' | 'error', now: number, requestId: string, caller: Caller): void {
    const spawn = this.taskState === 'spawning' ? this.timeline.last : undefined;
    this.deleting = false;
    this.vmState = vmState;
    this.taskState = null;
    this.plan(now);
    this.log.begin('resetState', requestId, caller, now, null, null);
    this.log.finish(now, null);
    if (spawn === undefined) return;
    this.plan(now, [spawn]);
    this.afterSpawn = (at) => this.loseSpawn(at);
  }

  /** The host finds its task_state gone: ACTIVE for a moment, then ERROR and no host (measured on Nova 26). */
  private loseSpawn(now: number): void {
    this.apply({ vmState: 'active', powerState: POWER.RUNNING });
    this.markLaunched(now);
    const message = `Conflict updating instance ${this.id}. Expected: {'task_state': ['spawning']}. Actual: {'task_state': None}`;
    const conflict = (at: number): void => {
      this.apply({ vmState: 'error', host: null });
      this.fault = { code: 500, message, created: at };
    };
    this.plan(now, [{ at: now + this.around.actionMs, pass: conflict }]);
  }

  lock(by: 'owner' | 'admin', reason: string | null, now: number, requestId: string, caller: Caller): void {
    this.lockedBy = by;
    this.lockedReason = reason ?? this.lockedReason;
    this.note('lock', now, requestId, caller);
  }

  unlock(now: number, requestId: string, caller: Caller): void {
    this.lockedBy = null;
    this.lockedReason = null;
    this.note('unlock', now, requestId, caller);
  }

  private note(action: string, now: number, requestId: string, caller: Caller): void {
    this.updatedAt = now;
    this.log.begin(action, requestId, caller, now, this.host, `api_${action}`);
    this.log.finish(now, this.host);
  }

  // ---- deletion

  /** DELETE, and forceDelete with `force`. */
  delete(now: number, requestId: string, caller: Caller, force: boolean): void {
    if (this.deleting) return;
    if (!this.inCell || this.host === null) {
      this.goneUntold = this.vmState === 'building';
      return this.vanish(now);
    }
    const soft = !force && this.around.reclaimMs > 0 && this.launchedAt !== null;
    const event = soft ? 'compute_soft_delete_instance' : 'compute_terminate_instance';
    this.log.begin('delete', requestId, caller, now, this.host, event);
    this.deleting = true;
    this.taskState = soft ? 'soft-deleting' : 'deleting';
    if (soft) this.planSoftDelete(now);
    else if (this.vmState === 'building' && this.seconds('spawn') !== undefined) this.planDeleteAfterSpawn(now);
    else this.planDelete(now);
  }

  private planDelete(now: number): void {
    const took = this.duration('destroy');
    if (this.fails(DESTROY)) return this.plan(now, this.failure(DESTROY, this.vmState as VmState, now, took));
    this.plan(now, [
      {
        at: now + (took * 2) / 3,
        pass: (at) => {
          this.apply({ vmState: 'deleted', taskState: null, powerState: POWER.NOSTATE });
          this.terminatedAt = at;
        },
      },
      { at: now + took, pass: (at) => this.vanish(at) },
    ]);
  }

  /** The host's lock on the instance makes a deletion wait for the spawn, and then ACTIVE shows for a moment. */
  private planDeleteAfterSpawn(now: number): void {
    const spawned = this.timeline.last;
    this.plan(now, spawned === undefined ? [] : [spawned]);
    this.afterSpawn = (at) => {
      this.apply({ vmState: 'active', taskState: null, powerState: POWER.RUNNING });
      this.planDelete(at);
    };
  }

  private planSoftDelete(now: number): void {
    const end = now + this.around.actionMs;
    this.plan(now, [
      {
        at: end,
        pass: (at) => {
          this.apply({ vmState: 'soft-delete', taskState: null, powerState: POWER.SHUTDOWN });
          this.deleting = false;
          this.log.finish(at, this.host);
        },
      },
      { at: end + this.around.reclaimMs, pass: (at) => this.planDelete(at) },
    ]);
  }

  private vanish(now: number): void {
    this.gone = true;
    this.apply({ vmState: 'deleted', taskState: null, powerState: POWER.NOSTATE });
    this.syncAt = Infinity;
    this.terminatedAt ??= now;
    this.deletedAt = now;
    this.log.finish(now, this.host);
    this.plan(now);
  }

  // ---- the guest behind Nova's back

  /** The guest's process dies. Nova hears of it at its next power sync. */
  crash(now: number): void {
    this.guest = POWER.SHUTDOWN;
    this.planSync(now);
    this.settle(now);
  }

  private planSync(now: number): void {
    this.syncAt = now + this.around.powerSyncMs;
  }

  /** `_sync_instance_power_state` of nova/compute/manager.py. */
  syncPower(now: number): void {
    this.syncAt = Infinity;
    if (this.gone || this.host === null) return;
    if (this.taskState !== null) return this.planSync(now);
    if (this.stopsByItself && this.guest !== POWER.NOSTATE) this.guest = POWER.SHUTDOWN;
    if (this.guest !== this.powerState) this.updatedAt = now;
    this.powerState = this.guest;
    if (isOff(this.guest) && (this.vmState === 'active' || this.vmState === 'paused')) this.stopByNova(now);
  }

  private stopByNova(now: number): void {
    this.log.begin('stop', newRequestId(), NOVA, now, this.host, 'compute_stop_instance');
    this.taskState = 'powering-off';
    this.plan(now, [
      {
        at: now + this.around.actionMs,
        pass: (at) => {
          this.apply({ vmState: 'stopped', taskState: null, powerState: POWER.SHUTDOWN });
          this.log.finish(at, this.host);
        },
      },
    ]);
  }

  // ---- by hand

  force(state: ForcedState, now: number): void {
    if (state.vmState !== undefined || state.taskState !== undefined || state.status !== undefined) {
      this.deleting = false;
      this.plan(now);
      this.enterCell(now);
      this.log.finish(now, this.host);
    }
    if (state.vmState !== undefined) this.forceVmState(state.vmState, now);
    if (state.taskState !== undefined) this.taskState = state.taskState;
    if (state.powerState !== undefined) this.powerState = this.guest = state.powerState;
    if (state.host !== undefined) this.host = state.host;
    if (state.fault !== undefined) this.fault = state.fault === null ? null : { created: now, ...state.fault };
    if (state.locked !== undefined) this.lockedBy = state.locked ? 'admin' : null;
    if (state.metadata !== undefined) this.metadata = { ...state.metadata };
    if (state.downCell !== undefined) this.downCell = state.downCell;
    if (state.status !== undefined) this.shownStatus = state.status;
    this.updatedAt = now;
  }

  private forceVmState(vmState: string, now: number): void {
    this.vmState = vmState;
    this.taskState = null;
    this.powerState = this.guest = settledPower(vmState);
    if (vmState === 'building' || vmState === 'error') return;
    this.host = vmState === 'shelved_offloaded' ? null : (this.host ?? this.homeHost);
    this.markLaunched(now);
  }

  // ---- small parts

  private apply(change: Change): void {
    if (change.vmState !== undefined) this.vmState = change.vmState;
    if (change.taskState !== undefined) this.taskState = change.taskState;
    if (change.host !== undefined) this.host = this.hostFor(change.host);
    if (change.powerState === undefined) return;
    this.guest = change.powerState === POWER.RUNNING && this.stopsByItself ? POWER.SHUTDOWN : change.powerState;
    this.powerState = this.guest;
  }

  /** `anchor_power` of the metadata: whenever Nova asks its hypervisor, the guest is found to be off. */
  private get stopsByItself(): boolean {
    return this.metadata['anchor_power'] === 'shutdown';
  }

  private hostFor(where: NonNullable<Change['host']> | null): string | null {
    switch (where) {
      case null:
        return null;
      case 'any':
        return this.host ?? this.homeHost;
      case 'previous':
        return this.beforeResize?.host ?? this.host;
      case 'other': {
        const here = this.host ?? this.homeHost;
        return this.around.hosts.find((host) => host !== here) ?? here;
      }
    }
  }

  /** Milliseconds that an action with this operation of the driver takes. */
  private duration(operation: string | undefined): number {
    return this.around.actionMs + (operation === undefined ? 0 : (this.seconds(operation) ?? 0));
  }

  /** `anchor_<operation>_seconds` of the metadata, as a slow hypervisor takes them: milliseconds, 10 minutes at most. */
  private seconds(operation: string): number | undefined {
    const value = this.metadata[`anchor_${operation}_seconds`];
    return value === undefined ? undefined : Math.min(Number(value) || 0, 600) * 1000;
  }
}
