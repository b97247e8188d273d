/** One observation of a server, as every part of this project speaks of it. Pure data and functions. */

/** Strings as Nova spells them. */
export interface ServerState {
  /** 'ACTIVE', 'BUILD', … without what some clouds append: 'BUILD(spawning)' is BUILD. */
  status: string;
  /** OS-EXT-STS:vm_state: 'active', 'stopped', 'paused', …; null in a down cell. */
  vmState: string | null;
  /** OS-EXT-STS:task_state: 'powering-off', …; any value means that something is under way. */
  taskState: string | null;
  /** OS-EXT-STS:power_state by name. Nova's view can be ten minutes old (`sync_power_state_interval`). */
  powerState: string | null;
  /** OS-EXT-SRV-ATTR:host, null where the caller may not see it. */
  host: string | null;
  locked: boolean;
}

/** A change seen, and when (ISO 8601, UTC). */
export type Observation = { at: string } & ServerState;

/** nova/objects/fields.py, `InstancePowerState`. */
const POWER_STATES: Record<number, string> = {
  0: 'nostate',
  1: 'running',
  3: 'paused',
  4: 'shutdown',
  6: 'crashed',
  7: 'suspended',
};

/** The part of Nova's server that a state is made from. */
export interface ServerStateSource {
  status: string;
  locked?: boolean;
  'OS-EXT-STS:vm_state'?: string | null;
  'OS-EXT-STS:task_state'?: string | null;
  'OS-EXT-STS:power_state'?: number | null;
  'OS-EXT-SRV-ATTR:host'?: string | null;
}

export function toServerState(server: ServerStateSource): ServerState {
  const power = server['OS-EXT-STS:power_state'];
  return {
    status: plainStatus(server.status),
    vmState: bounded(server['OS-EXT-STS:vm_state']),
    taskState: bounded(server['OS-EXT-STS:task_state']),
    powerState: typeof power === 'number' ? (POWER_STATES[power] ?? String(power)) : null,
    host: bounded(server['OS-EXT-SRV-ATTR:host']),
    locked: server.locked ?? false,
  };
}

/** States go into histories, a hundred at a time. */
function bounded(text: string | null | undefined): string | null {
  return text?.slice(0, 255) ?? null;
}

const LONGEST_STATUS = 100;

/** 'BUILD(spawning)' → 'BUILD': some clouds append the task state (Heat strips it too, heat/engine/clients/os/nova.py). */
export function plainStatus(status: string): string {
  const [plain = ''] = status.slice(0, LONGEST_STATUS).split('(');
  return plain.trim().toUpperCase().slice(0, LONGEST_STATUS);
}

const KEYS = ['status', 'vmState', 'taskState', 'powerState', 'host', 'locked'] as const;

export function sameState(a: ServerState | null, b: ServerState | null): boolean {
  if (a === null || b === null) return a === b;
  return KEYS.every((key) => a[key] === b[key]);
}

/**
 * Whether a change is worth waking a workflow at once. One running task giving way to the next (scheduling →
 * networking → spawning), or a host being chosen, is progress: it is recorded, and handed over a little later, so that
 * a history keeps a few entries for a build instead of one for each of Nova's inner steps.
 */
export function isSettledChange(before: ServerState | null, after: ServerState): boolean {
  if (before === null) return true;
  return (
    before.status !== after.status ||
    before.vmState !== after.vmState ||
    before.powerState !== after.powerState ||
    before.locked !== after.locked ||
    isIdle(before) !== isIdle(after)
  );
}

/** Nova shows no task for moments in the middle of a build, between scheduling and networking (seen on Nova 26). */
function isIdle({ vmState, taskState }: ServerState): boolean {
  return taskState === null && vmState !== 'building';
}

/** 'BUILD/spawning', 'ACTIVE', or for nothing seen yet 'not seen yet'. */
export function describeState(state: ServerState | null): string {
  if (state === null) return 'not seen yet';
  return state.taskState === null ? state.status : `${state.status}/${state.taskState}`;
}

/** The newest observations that are kept. */
const OBSERVATIONS_KEPT = 100;

/** Appends what differs from the one before it, keeps the newest 100. */
export function recordObservations(kept: Observation[], fresh: Observation[]): Observation[] {
  const all = [...kept];
  for (const observation of fresh) {
    if (!sameState(all.at(-1) ?? null, observation)) all.push(observation);
  }
  return all.slice(-OBSERVATIONS_KEPT);
}
