/**
 * One simulated server and its life. Nothing runs while nobody looks: what will happen is a list of moments, and
 * whoever looks at the instance first lets those pass whose time has come (`settle`).
 */
import { randomUUID } from 'node:crypto';
import {
  OFFLOAD_AFTER_SHELVE,
  POWER,
  settledPower,
  statusOf,
  type ActionRule,
  type Change,
  type Step,
  type VmState,
} from './states';

/** Who asks. `userId` and `projectId` are null for Nova itself. */
export interface Caller {
  userId: string | null;
  projectId: string | null;
  isAdmin: boolean;
}

/** Nova itself, as its periodic tasks record it. */
export const NOVA: Caller = { userId: null, projectId: null, isAdmin: true };

export interface Fault {
  code: number;
  message: string;
  /** Milliseconds since the epoch. */
  created: number;
  /** Nova shows it to administrators only where the code is 500. */
  details?: string;
}

/** An entry of the instance actions. Times in milliseconds since the epoch. */
export interface InstanceAction {
  action: string;
  requestId: string;
  userId: string | null;
  projectId: string | null;
  startTime: number;
  updatedAt: number;
  /** 'Error' where the action failed on the host. */
  message: string | null;
  event: {
    event: string;
    finishTime: number | null;
    result: string | null;
    host: string | null;
    details: string | null;
  } | null;
}

export interface Flavor {
  id: string;
  name: string;
  vcpus: number;
  ram: number;
  disk: number;
}

/** What a new instance is made of. */
export interface InstanceSpec {
  name: string;
  caller: Caller;
  flavor: Flavor;
  imageId: string;
  metadata: Record<string, string>;
  tags: string[];
  addresses: Record<string, unknown[]>;
  description: string | null;
  hostname: string;
  availabilityZone: string | null;
  reservationId: string;
  launchIndex: number;
  keyName: string | null;
  userData: string | null;
  configDrive: string;
  securityGroups: { name: string }[];
}

/** What the cloud around an instance decides for it. */
export interface Surroundings {
  hosts: readonly string[];
  /** Milliseconds that an action takes. */
  actionMs: number;
  /** Milliseconds from POST to ACTIVE; Infinity: until `finishBuild`. */
  buildMs: number;
  /** Milliseconds from a shelve's end to its offload; 0: at once, -1: never. */
  shelvedOffloadMs: number;
  /** Milliseconds that a deleted server can be restored; 0: DELETE deletes. */
  reclaimMs: number;
}

interface Moment {
  at: number;
  pass: (at: number) => void;
}

/** Shares of a build's early time at which its states begin, as measured on Nova 26. The rest of it is spawning. */
const EARLY_BUILD = { inCell: 0.4, host: 0.55, networking: 0.65, blockDeviceMapping: 0.8, spawning: 1 };

type FailingRule = Pick<ActionRule, 'name' | 'operation' | 'failure'>;

/** A deletion whose host fails comes back to ERROR (measured on Nova 26). */
const DESTROY: FailingRule = { name: 'delete', operation: 'destroy', failure: 'error' };

const STOPPED_POWER: readonly number[] = [POWER.SHUTDOWN, POWER.CRASHED];

export class Instance {
  readonly id = randomUUID() as string;
  readonly projectId: string | null;
  readonly userId: string | null;
  name: string;
  metadata: Record<string, string>;
  tags: string[];
  flavor: Flavor;
  description: string | null;
  vmState: string = 'building';
  taskState: string | null = 'scheduling';
  powerState: number = POWER.NOSTATE;
  host: string | null = null;
  /** False while it is a build request only: Nova's actions don't find it yet. */
  inCell = false;
  /** Deleted and out of Nova's sight: GET answers 404. */
  gone = false;
  downCell = false;
  /** Shown instead of the status that follows from the states. */
  shownStatus: string | undefined;
  lockedBy: 'owner' | 'admin' | null = null;
  lockedReason: string | null = null;
  fault: Fault | null = null;
  updatedAt: number;
  launchedAt: number | null = null;
  /** When it was ACTIVE for the first time. */
  activeAt: number | undefined;
  terminatedAt: number | null = null;
  deletedAt: number | null = null;
  /** Oldest first. */
  readonly actions: InstanceAction[] = [];
  /** Action names, and how many more of each will fail on the host. */
  readonly failing = new Map<string, number>();

  private moments: Moment[] = [];
  private due = Infinity;
  /** The guest's power state as its hypervisor knows it; Nova's own `powerState` follows at the next power sync. */
  private guest: number = POWER.NOSTATE;
  private previous: { host: string | null; flavor: Flavor } | undefined;
  private beforeSpawned: (() => void) | undefined;
  private running: InstanceAction | undefined;
  private deleting = false;

  constructor(
    readonly spec: InstanceSpec,
    readonly createdAt: number,
    requestId: string,
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
    this.planBuild(requestId);
  }

  get status(): string {
    if (this.gone) return 'DELETED';
    return this.shownStatus ?? statusOf(this.vmState, this.taskState);
  }

  /** Lets everything happen whose time has come. Cheap when nothing has. */
  settle(now: number): void {
    while (this.due <= now) {
      const moment = this.moments.shift()!;
      this.due = this.moments[0]?.at ?? Infinity;
      this.updatedAt = moment.at;
      moment.pass(moment.at);
    }
  }

  private plan(moments: Moment[]): void {
    this.moments = moments.filter((moment) => moment.at !== Infinity);
    this.due = this.moments[0]?.at ?? Infinity;
  }

  private schedule(moment: Moment): void {
    this.plan([...this.moments, moment].sort((a, b) => a.at - b.at));
  }

  /** Ends what is under way, where it stands. */
  private interrupt(): void {
    this.plan([]);
    this.beforeSpawned = undefined;
    this.shownStatus = undefined;
    this.deleting = false;
  }

  // ---- creation

  private planBuild(requestId: string): void {
    const start = this.createdAt;
    const held = this.seconds('spawn');
    const total = held === undefined ? this.around.buildMs : Infinity;
    const early = Math.min(500, Math.max(total / 10, Math.min(250, total / 4)));
    const action = (at: number): InstanceAction =>
      this.record('create', requestId, this.spec.caller, at, 'compute__do_build_and_run_instance');
    if (this.flavor.name === 'm1.impossible') {
      this.plan([
        {
          at: start + early * EARLY_BUILD.spawning,
          pass: (at) => {
            this.inCell = true;
            this.running = action(at);
            this.failInto({ code: 500, message: 'No valid host was found. ', created: at }, at, 'Error');
          },
        },
      ]);
      return;
    }
    const end = held === undefined ? start + total : start + early + held * 1000;
    this.plan([
      {
        at: start + early * EARLY_BUILD.inCell,
        pass: (at) => {
          this.inCell = true;
          this.taskState = null;
          this.running = action(at);
        },
      },
      { at: start + early * EARLY_BUILD.host, pass: () => this.apply({ host: 'any' }) },
      { at: start + early * EARLY_BUILD.networking, pass: () => this.apply({ taskState: 'networking' }) },
      {
        at: start + early * EARLY_BUILD.blockDeviceMapping,
        pass: () => this.apply({ taskState: 'block_device_mapping' }),
      },
      { at: start + early, pass: () => this.apply({ taskState: 'spawning' }) },
      { at: end, pass: (at) => this.spawned(at, held ?? 0) },
    ]);
  }

  /** The end of the driver's spawn, good or bad. */
  private spawned(at: number, spawnSeconds: number, tried = 1): void {
    if (this.beforeSpawned !== undefined) return this.beforeSpawned();
    const wanted = this.metadata['anchor_spawn'];
    if (wanted === 'abort') return this.abortBuild(at);
    if (wanted === 'reschedule' || wanted === 'fail') return this.reschedule(at, spawnSeconds, tried);
    this.becomeActive(at);
  }

  private abortBuild(at: number): void {
    const message = `Build of instance ${this.id} aborted: anchor_spawn = abort`;
    this.host = null;
    this.plan([
      { at: at + this.around.actionMs, pass: (later) => this.failInto({ code: 500, message, created: later }, later) },
    ]);
  }

  /** Nova tries the next host, until none is left. */
  private reschedule(at: number, spawnSeconds: number, tried: number): void {
    const message =
      'Exceeded maximum number of retries. Exhausted all hosts available for retrying build failures for instance ' +
      `${this.id}.`;
    const pause = this.around.actionMs;
    this.host = null;
    const moments: Moment[] = [{ at: at + pause, pass: () => this.apply({ taskState: 'scheduling' }) }];
    if (tried >= this.around.hosts.length) {
      moments.push({
        at: at + 2 * pause,
        pass: (later) => this.failInto({ code: 500, message, created: later }, later),
      });
    } else {
      moments.push(
        { at: at + 2 * pause, pass: () => this.apply({ taskState: null, host: 'other' }) },
        { at: at + 3 * pause, pass: () => this.apply({ taskState: 'networking' }) },
        { at: at + 4 * pause, pass: () => this.apply({ taskState: 'spawning' }) },
        { at: at + 5 * pause + spawnSeconds * 1000, pass: (later) => this.spawned(later, spawnSeconds, tried + 1) },
      );
    }
    this.plan(moments);
    this.settle(at);
  }

  private becomeActive(at: number): void {
    this.apply({ vmState: 'active', taskState: null, powerState: POWER.RUNNING });
    this.markActive(at);
    this.finish(at);
  }

  private markActive(at: number): void {
    this.launchedAt ??= at;
    if (this.vmState === 'active') this.activeAt ??= at;
  }

  /** Only the conductor's own failures make the instance action say Error (measured on Nova 26). */
  private failInto(fault: Fault, at: number, message: 'Error' | null = null): void {
    this.vmState = 'error';
    this.taskState = null;
    this.powerState = POWER.NOSTATE;
    this.fault = { ...fault, details: 'Traceback (most recent call last): ...' };
    this.finish(at, message, message === null ? null : fault.message);
  }

  /** A build without end ends now. */
  finishBuild(now: number): void {
    this.expectBuilding();
    this.plan([]);
    this.inCell = true;
    this.host ??= this.homeHost;
    this.updatedAt = now;
    this.running ??= this.record('create', newRequestId(), this.spec.caller, now, 'compute__do_build_and_run_instance');
    this.becomeActive(now);
  }

  failBuild(now: number, fault: { code: number; message: string }): void {
    this.expectBuilding();
    this.plan([]);
    this.inCell = true;
    this.updatedAt = now;
    this.running ??= this.record('create', newRequestId(), this.spec.caller, now, 'compute__do_build_and_run_instance');
    this.failInto({ ...fault, created: now }, now, 'Error');
  }

  private expectBuilding(): void {
    if (this.vmState !== 'building') throw new Error(`server ${this.id} is not building: it is ${this.vmState}`);
  }

  // ---- actions

  /** Begins an action that was allowed. */
  act(rule: ActionRule, now: number, requestId: string, caller: Caller, flavor?: Flavor): void {
    this.interrupt();
    this.updatedAt = now;
    const from = { vmState: this.vmState as VmState, powerState: this.powerState };
    const event = rule.event ?? `compute_${rule.name}_instance`;
    const recorded = rule.recorded === undefined ? rule.name : rule.recorded;
    if (recorded !== null) this.running = this.record(recorded, requestId, caller, now, event);
    if (rule.steps === undefined) return;
    if (flavor !== undefined || rule.name === 'migrate') this.previous = { host: this.host, flavor: this.flavor };
    const took = this.around.actionMs + (this.seconds(rule.operation ?? '') ?? 0) * 1000;
    const last = now + took;
    const moments: Moment[] = rule.steps.map((step) => ({
      at: now + took * step.at,
      pass: () => {
        this.apply(step);
        if (step.taskState === 'resize_finish' && flavor !== undefined) this.flavor = flavor;
      },
    }));
    if (this.fails(rule.name, rule.operation)) {
      moments.splice(
        moments.findIndex(({ at }) => at === last),
        Infinity,
      );
      moments.push(...this.failure(rule, from.vmState, now, took));
    } else {
      moments.push({ at: last, pass: (at) => this.conclude(rule, from, at) });
    }
    this.plan(moments);
    this.settle(now);
  }

  /** What an action's last step can't say alone, as it depends on where the server came from. */
  private conclude(rule: ActionRule, from: { vmState: VmState; powerState: number }, at: number): void {
    switch (rule.name) {
      case 'rebuild':
      case 'evacuate':
        if (from.vmState === 'stopped') this.apply({ vmState: 'stopped', powerState: POWER.SHUTDOWN });
        break;
      case 'resize':
      case 'migrate':
        this.apply({ powerState: from.powerState });
        break;
      case 'revertResize':
        if (this.previous !== undefined) this.flavor = this.previous.flavor;
        if (STOPPED_POWER.includes(this.powerState)) this.apply({ vmState: 'stopped' });
        break;
      case 'confirmResize':
        if (STOPPED_POWER.includes(this.powerState)) this.apply({ vmState: 'stopped' });
        break;
      case 'shelve':
        if (this.around.shelvedOffloadMs >= 0) this.planOffload(at);
        break;
    }
    this.markActive(at);
    this.finish(at);
  }

  private planOffload(at: number): void {
    const start = at + this.around.shelvedOffloadMs;
    this.plan(
      OFFLOAD_AFTER_SHELVE.map((step) => ({
        at: start + this.around.actionMs * step.at,
        pass: () => this.apply(step),
      })),
    );
    if (this.around.shelvedOffloadMs === 0) this.settle(at);
  }

  private fails(name: string, operation: string | undefined): boolean {
    const left = this.failing.get(name) ?? 0;
    if (left > 0) {
      this.failing.set(name, left - 1);
      return true;
    }
    return operation !== undefined && this.metadata[`anchor_${operation}`] === 'fail';
  }

  /** The end of an action that fails on the host: `ERROR` is seen with its task for a moment. */
  private failure(rule: FailingRule, before: VmState, now: number, took: number): Moment[] {
    const running = !STOPPED_POWER.includes(this.guest);
    const cause = `anchor_${rule.operation ?? rule.name} = fail`;
    const survives = rule.failure === 'error-unless-running' && running;
    const intoError = !survives && rule.failure !== undefined && rule.failure !== 'revert';
    const moments: Moment[] = [];
    if (intoError) {
      moments.push({
        at: now + took * 0.9,
        pass: (at) => {
          this.vmState = 'error';
          this.fault = this.faultOf(rule.name, cause, at);
        },
      });
    }
    moments.push({
      at: now + took,
      pass: (at) => {
        this.vmState = intoError ? 'error' : before;
        this.taskState = null;
        this.deleting = false;
        this.finish(at, survives ? null : 'Error', survives ? null : cause);
      },
    });
    return moments;
  }

  private faultOf(action: string, cause: string, created: number): Fault {
    if (action !== 'rescue') return { code: 500, message: cause, created, details: cause };
    return { code: 400, message: `Instance ${this.id} cannot be rescued: Driver Error: ${cause}`, created };
  }

  /** os-resetState: only the database is written, whatever is under way. */
  resetState(vmState: 'active' | 'error', now: number, requestId: string, caller: Caller): void {
    const building = this.vmState === 'building';
    this.interrupt();
    this.updatedAt = now;
    this.vmState = vmState;
    this.taskState = null;
    if (building) this.host = null;
    this.record('resetState', requestId, caller, now, null);
  }

  lock(by: 'owner' | 'admin', reason: string | null, now: number, requestId: string, caller: Caller): void {
    this.lockedBy = by;
    if (reason !== null) this.lockedReason = reason;
    this.note('lock', now, requestId, caller);
  }

  unlock(now: number, requestId: string, caller: Caller): void {
    this.lockedBy = null;
    this.lockedReason = null;
    this.note('unlock', now, requestId, caller);
  }

  private note(action: string, now: number, requestId: string, caller: Caller): void {
    this.updatedAt = now;
    const event = this.record(action, requestId, caller, now, `api_${action}`).event!;
    event.finishTime = now;
    event.result = 'Success';
  }

  // ---- deletion

  /** DELETE and forceDelete. */
  delete(now: number, requestId: string, caller: Caller, force: boolean): void {
    if (!this.inCell) return this.vanish(now);
    if (this.deleting) return;
    if (this.host === null) return this.vanish(now);
    const soft = !force && this.around.reclaimMs > 0 && this.launchedAt !== null;
    const spawning =
      this.vmState === 'building' && this.seconds('spawn') !== undefined ? this.moments.at(-1) : undefined;
    this.interrupt();
    this.deleting = true;
    this.updatedAt = now;
    this.running = this.record(
      'delete',
      requestId,
      caller,
      now,
      soft ? 'compute_soft_delete_instance' : 'compute_terminate_instance',
    );
    this.taskState = soft ? 'soft-deleting' : 'deleting';
    if (soft) return this.planSoftDelete(now);
    if (spawning === undefined) return this.planDelete(now);
    // The host's lock on the instance makes the deletion wait for the spawn, and then ACTIVE shows for a moment.
    this.host = null;
    this.beforeSpawned = () => {
      this.apply({ vmState: 'active', taskState: null, powerState: POWER.RUNNING });
      this.planDelete(spawning.at);
    };
    this.plan([spawning]);
  }

  private planDelete(now: number): void {
    const took = this.around.actionMs + (this.seconds('destroy') ?? 0) * 1000;
    if (this.fails('delete', 'destroy')) {
      this.plan(this.failure(DESTROY, this.vmState as VmState, now, took));
      return this.settle(now);
    }
    this.plan([
      {
        at: now + (took * 2) / 3,
        pass: (at) => {
          this.apply({ vmState: 'deleted', taskState: null, powerState: POWER.NOSTATE });
          this.terminatedAt = at;
        },
      },
      { at: now + took, pass: (at) => this.vanish(at) },
    ]);
    this.settle(now);
  }

  private planSoftDelete(now: number): void {
    const end = now + this.around.actionMs;
    this.plan([
      {
        at: end,
        pass: (at) => {
          this.apply({ vmState: 'soft-delete', taskState: null, powerState: POWER.SHUTDOWN });
          this.deleting = false;
          this.finish(at);
        },
      },
      { at: end + this.around.reclaimMs, pass: (at) => this.planDelete(at) },
    ]);
    this.settle(now);
  }

  private vanish(at: number): void {
    this.plan([]);
    this.gone = true;
    this.vmState = 'deleted';
    this.taskState = null;
    this.powerState = POWER.NOSTATE;
    this.terminatedAt ??= at;
    this.deletedAt = at;
    this.updatedAt = at;
    this.finish(at);
  }

  // ---- the guest behind Nova's back

  /** The guest's process dies. Nova hears of it at the next power sync. */
  crash(): void {
    this.guest = POWER.SHUTDOWN;
  }

  /** A power sync is due at that moment (milliseconds since the epoch). */
  syncPowerAt(at: number): void {
    if (at !== Infinity) this.schedule({ at, pass: (now) => this.syncPower(now) });
  }

  /** `_sync_instance_power_state` of nova/compute/manager.py. */
  syncPower(now: number): void {
    if (this.gone || this.taskState !== null || this.host === null) return;
    if (this.guest === this.powerState) return;
    this.powerState = this.guest;
    this.updatedAt = now;
    const stopped = STOPPED_POWER.includes(this.guest);
    if (stopped && (this.vmState === 'active' || this.vmState === 'paused')) this.stopByNova(now);
  }

  private stopByNova(now: number): void {
    this.updatedAt = now;
    this.running = this.record('stop', newRequestId(), NOVA, now, 'compute_stop_instance');
    this.taskState = 'powering-off';
    this.plan([
      {
        at: now + this.around.actionMs,
        pass: (at) => {
          this.apply({ vmState: 'stopped', taskState: null, powerState: POWER.SHUTDOWN });
          this.finish(at);
        },
      },
    ]);
    this.settle(now);
  }

  // ---- by hand

  /** Puts it into any state at once; what was under way ends. */
  force(state: ForcedState, now: number): void {
    this.interrupt();
    this.inCell = true;
    this.updatedAt = now;
    if (state.vmState !== undefined) {
      this.vmState = state.vmState;
      this.taskState = null;
      this.powerState = settledPower(state.vmState);
      if (state.vmState !== 'building' && state.vmState !== 'error') this.host ??= this.homeHost;
      if (state.vmState === 'shelved_offloaded') this.host = null;
    }
    if (state.taskState !== undefined) this.taskState = state.taskState;
    if (state.powerState !== undefined) this.powerState = state.powerState;
    if (state.host !== undefined) this.host = state.host;
    if (state.fault !== undefined) this.fault = state.fault === null ? null : { created: now, ...state.fault };
    if (state.locked !== undefined) this.lockedBy = state.locked ? 'admin' : null;
    if (state.metadata !== undefined) this.metadata = { ...state.metadata };
    if (state.downCell !== undefined) this.downCell = state.downCell;
    this.shownStatus = state.status;
    this.guest = this.powerState;
    if (this.vmState !== 'building' && this.vmState !== 'error') this.markActive(now);
  }

  // ---- small parts

  private apply(change: Change | Step): void {
    if (change.vmState !== undefined) this.vmState = change.vmState;
    if (change.taskState !== undefined) this.taskState = change.taskState;
    if (change.host !== undefined) this.moveTo(change.host);
    if (change.powerState !== undefined) {
      this.powerState = change.powerState;
      this.guest = change.powerState;
      if (this.metadata['anchor_power'] === 'shutdown' && change.powerState === POWER.RUNNING) {
        this.powerState = this.guest = POWER.SHUTDOWN;
      }
    }
  }

  private moveTo(where: NonNullable<Change['host']> | null): void {
    switch (where) {
      case null:
        this.host = null;
        break;
      case 'any':
        this.host ??= this.homeHost;
        break;
      case 'previous':
        this.host = this.previous?.host ?? this.host;
        break;
      case 'other': {
        const now = this.host ?? this.homeHost;
        this.host = this.around.hosts.find((host) => host !== now) ?? now;
      }
    }
  }

  /** `anchor_<operation>_seconds` of the metadata, as a slow hypervisor would take them; 600 at most. */
  private seconds(operation: string): number | undefined {
    const value = this.metadata[`anchor_${operation}_seconds`];
    return value === undefined ? undefined : Math.min(Number(value) || 0, 600);
  }

  private record(action: string, requestId: string, caller: Caller, at: number, event: string | null): InstanceAction {
    const entry: InstanceAction = {
      action,
      requestId,
      userId: caller.userId,
      projectId: caller.projectId,
      startTime: at,
      updatedAt: at,
      message: null,
      event: event === null ? null : { event, finishTime: null, result: null, host: this.host, details: null },
    };
    this.actions.push(entry);
    return entry;
  }

  private finish(at: number, message: 'Error' | null = null, details: string | null = null): void {
    const action = this.running;
    if (action === undefined) return;
    this.running = undefined;
    action.message = message;
    action.updatedAt = at;
    if (action.event === null) return;
    Object.assign(action.event, {
      finishTime: at,
      result: message ?? 'Success',
      details,
      host: action.event.host ?? this.host,
    });
  }
}

/** What `SimulatedCloud.setState` can set. Left out: as it is; `vmState` alone clears task_state and brings its usual power_state. */
export interface ForcedState {
  vmState?: string;
  taskState?: string | null;
  /** Nova's number: 0 nostate, 1 running, 3 paused, 4 shutdown, 6 crashed, 7 suspended. */
  powerState?: number;
  fault?: { code: number; message: string } | null;
  host?: string | null;
  locked?: boolean;
  /** Replaces all of it. */
  metadata?: Record<string, string>;
  /** Its cell does not answer: with microversion 2.69 and later GET shows status UNKNOWN and little else. */
  downCell?: boolean;
  /** Shown as it is, until the next change: 'BUILD(spawning)', or a status that no Nova knows. */
  status?: string;
}

export function newRequestId(): string {
  return `req-${randomUUID()}`;
}
