/** Nova's states and what may be done in them, as tables. Sources: nova/api/openstack/common.py, nova/compute/api.py. */

export type VmState =
  | 'building'
  | 'active'
  | 'paused'
  | 'suspended'
  | 'stopped'
  | 'rescued'
  | 'resized'
  | 'soft-delete'
  | 'deleted'
  | 'error'
  | 'shelved'
  | 'shelved_offloaded';

/** Nova's power states (nova/compute/power_state.py). */
export const POWER = { NOSTATE: 0, RUNNING: 1, PAUSED: 3, SHUTDOWN: 4, CRASHED: 6, SUSPENDED: 7 } as const;

const RESIZING = Object.fromEntries(
  ['resize_prep', 'resize_migrating', 'resize_migrated', 'resize_finish'].map((task) => [task, 'RESIZE']),
);
const REBUILDING = Object.fromEntries(
  ['rebuilding', 'rebuild_block_device_mapping', 'rebuild_spawning'].map((task) => [task, 'REBUILD']),
);

/** `_STATE_MAP` of nova/api/openstack/common.py: vm_state, then task_state. */
const STATUS: Record<string, Record<string, string> & { default: string }> = {
  active: {
    default: 'ACTIVE',
    rebooting: 'REBOOT',
    reboot_pending: 'REBOOT',
    reboot_started: 'REBOOT',
    rebooting_hard: 'HARD_REBOOT',
    reboot_pending_hard: 'HARD_REBOOT',
    reboot_started_hard: 'HARD_REBOOT',
    updating_password: 'PASSWORD',
    migrating: 'MIGRATING',
    ...REBUILDING,
    ...RESIZING,
  },
  building: { default: 'BUILD' },
  stopped: { default: 'SHUTOFF', ...RESIZING, ...REBUILDING },
  resized: { default: 'VERIFY_RESIZE', resize_reverting: 'REVERT_RESIZE' },
  paused: { default: 'PAUSED', migrating: 'MIGRATING' },
  suspended: { default: 'SUSPENDED' },
  rescued: { default: 'RESCUE' },
  error: { default: 'ERROR', ...REBUILDING },
  deleted: { default: 'DELETED' },
  'soft-delete': { default: 'SOFT_DELETED' },
  shelved: { default: 'SHELVED' },
  shelved_offloaded: { default: 'SHELVED_OFFLOADED' },
};

/** The status that Nova shows for a vm_state and task_state; 'UNKNOWN' for a vm_state that it doesn't know. */
export function statusOf(vmState: string, taskState: string | null): string {
  const byTask = STATUS[vmState];
  if (byTask === undefined) return 'UNKNOWN';
  return (taskState !== null ? byTask[taskState] : undefined) ?? byTask.default;
}

/** The vm_states that a status can stand for; empty for one that Nova doesn't know. For the list filter `status=`. */
export function vmStatesOf(status: string): string[] {
  const wanted = status.toUpperCase();
  return Object.keys(STATUS).filter((vmState) => Object.values(STATUS[vmState]!).includes(wanted));
}

/** The power_state that a settled server of this vm_state has on libvirt. */
export function settledPower(vmState: string): number {
  switch (vmState) {
    case 'active':
    case 'rescued':
    case 'resized':
      return POWER.RUNNING;
    case 'paused':
      return POWER.PAUSED;
    case 'stopped':
    case 'suspended':
    case 'shelved':
    case 'shelved_offloaded':
    case 'soft-delete':
      return POWER.SHUTDOWN;
    default:
      return POWER.NOSTATE;
  }
}

/** What a server looks like at a moment of an action. */
export interface Change {
  vmState?: VmState;
  taskState?: string | null;
  powerState?: number;
  /** 'other': another host than now; null: none. */
  host?: 'other' | 'previous' | 'any' | null;
}

/** One moment of an action: `at` is the share of the action's time that has passed. */
export interface Step extends Change {
  at: number;
}

/** What an action's failure on the host leaves behind (nova/compute/manager.py). */
type Failure =
  /** vm_state as before, task_state null, the instance action says Error. */
  | 'revert'
  /** vm_state error with a fault. */
  | 'error'
  /** A reboot that failed with the guest still running counts as no failure: ACTIVE, no message; else error. */
  | 'error-unless-running';

export interface ActionRule {
  /** Nova's name for it, as its messages spell it ('stop' for os-stop). */
  name: string;
  /** Name in the instance actions, where it is another one. */
  recorded?: string;
  event?: string;
  /** The rule of Nova's policy that allows it. */
  policy: string;
  vmStates: readonly VmState[] | 'any';
  taskStates?: readonly (string | null)[] | 'any';
  /** Refused with "is not ready" while the server has no host. */
  needsHost?: boolean;
  ignoresLock?: boolean;
  /** Allowed on a server that has never been ACTIVE. */
  neverLaunched?: boolean;
  answer: 200 | 202 | 204;
  /** It can be undone: host and flavor from before are kept. */
  moves?: boolean;
  /** The driver's operation, for the metadata keys `anchor_<operation>` and `anchor_<operation>_seconds`. */
  operation?: string;
  failure?: Failure;
  steps: readonly Step[];
}

const ALLOW_HARD_REBOOT = [
  null,
  'rebooting',
  'reboot_pending',
  'reboot_started',
  'rebooting_hard',
  'resuming',
  'unpausing',
  'pausing',
  'suspending',
];

const RESIZE_STEPS: readonly Step[] = [
  { at: 0, taskState: 'resize_prep' },
  { at: 0.3, taskState: 'resize_migrating' },
  { at: 0.6, taskState: 'resize_migrated', host: 'other' },
  { at: 0.7, taskState: 'resize_finish' },
  { at: 1, vmState: 'resized', taskState: null },
];

const OFFLOAD_STEPS: readonly Step[] = [
  { at: 0, taskState: 'shelving_offloading' },
  // The host goes a moment after the state has come (measured on Nova 26).
  { at: 0.9, vmState: 'shelved_offloaded', taskState: null, powerState: POWER.SHUTDOWN },
  { at: 1, host: null },
];

/**
 * Every action: who may, when, what it answers, and what the server goes through. Order of the checks, as Nova's
 * decorators have it: policy, lock, host, vm_state, task_state, launched.
 */
export const ACTIONS: Record<string, ActionRule> = {
  'os-stop': {
    name: 'stop',
    policy: 'os_compute_api:servers:stop',
    vmStates: ['active', 'error'],
    needsHost: true,
    answer: 202,
    operation: 'power_off',
    steps: [
      { at: 0, taskState: 'powering-off' },
      { at: 1, vmState: 'stopped', taskState: null, powerState: POWER.SHUTDOWN },
    ],
  },
  'os-start': {
    name: 'start',
    policy: 'os_compute_api:servers:start',
    vmStates: ['stopped'],
    needsHost: true,
    answer: 202,
    operation: 'power_on',
    steps: [
      { at: 0, taskState: 'powering-on' },
      { at: 1, vmState: 'active', taskState: null, powerState: POWER.RUNNING },
    ],
  },
  pause: {
    name: 'pause',
    policy: 'os_compute_api:os-pause-server:pause',
    vmStates: ['active'],
    answer: 202,
    operation: 'pause',
    steps: [
      { at: 0, taskState: 'pausing' },
      { at: 1, vmState: 'paused', taskState: null, powerState: POWER.PAUSED },
    ],
  },
  unpause: {
    name: 'unpause',
    policy: 'os_compute_api:os-pause-server:unpause',
    vmStates: ['paused'],
    answer: 202,
    operation: 'unpause',
    steps: [
      { at: 0, taskState: 'unpausing' },
      { at: 1, vmState: 'active', taskState: null, powerState: POWER.RUNNING },
    ],
  },
  suspend: {
    name: 'suspend',
    policy: 'os_compute_api:os-suspend-server:suspend',
    vmStates: ['active'],
    answer: 202,
    operation: 'suspend',
    steps: [
      { at: 0, taskState: 'suspending' },
      { at: 1, vmState: 'suspended', taskState: null, powerState: POWER.SHUTDOWN },
    ],
  },
  resume: {
    name: 'resume',
    policy: 'os_compute_api:os-suspend-server:resume',
    vmStates: ['suspended'],
    answer: 202,
    operation: 'resume',
    steps: [
      { at: 0, taskState: 'resuming' },
      { at: 1, vmState: 'active', taskState: null, powerState: POWER.RUNNING },
    ],
  },
  rescue: {
    name: 'rescue',
    policy: 'os_compute_api:os-rescue',
    vmStates: ['active', 'stopped', 'error'],
    answer: 200,
    operation: 'rescue',
    failure: 'error',
    steps: [
      { at: 0, taskState: 'rescuing' },
      { at: 1, vmState: 'rescued', taskState: null, powerState: POWER.RUNNING },
    ],
  },
  unrescue: {
    name: 'unrescue',
    policy: 'os_compute_api:os-unrescue',
    vmStates: ['rescued'],
    answer: 202,
    operation: 'unrescue',
    failure: 'error',
    steps: [
      { at: 0, taskState: 'unrescuing' },
      { at: 1, vmState: 'active', taskState: null, powerState: POWER.RUNNING },
    ],
  },
  'reboot SOFT': {
    name: 'reboot',
    policy: 'os_compute_api:servers:reboot',
    vmStates: ['active'],
    answer: 202,
    operation: 'reboot',
    failure: 'error-unless-running',
    steps: [
      { at: 0, taskState: 'rebooting' },
      { at: 0.3, taskState: 'reboot_pending' },
      { at: 0.6, taskState: 'reboot_started' },
      { at: 1, vmState: 'active', taskState: null, powerState: POWER.RUNNING },
    ],
  },
  'reboot HARD': {
    name: 'reboot',
    policy: 'os_compute_api:servers:reboot',
    vmStates: ['active', 'stopped', 'paused', 'suspended', 'error'],
    taskStates: ALLOW_HARD_REBOOT,
    answer: 202,
    operation: 'reboot',
    failure: 'error-unless-running',
    steps: [
      { at: 0, taskState: 'rebooting_hard' },
      { at: 0.3, taskState: 'reboot_pending_hard' },
      { at: 0.6, taskState: 'reboot_started_hard' },
      { at: 1, vmState: 'active', taskState: null, powerState: POWER.RUNNING },
    ],
  },
  rebuild: {
    name: 'rebuild',
    policy: 'os_compute_api:servers:rebuild',
    vmStates: ['active', 'stopped', 'error'],
    answer: 202,
    operation: 'rebuild',
    failure: 'error',
    // A stopped server is put back into SHUTOFF, through powering-off: see `Instance.conclude`.
    steps: [
      { at: 0, taskState: 'rebuilding' },
      { at: 0.3, taskState: 'rebuild_block_device_mapping' },
      { at: 0.4, taskState: 'rebuild_spawning' },
      { at: 0.9, vmState: 'active', taskState: null, powerState: POWER.RUNNING },
    ],
  },
  evacuate: {
    name: 'evacuate',
    event: 'compute_rebuild_instance',
    policy: 'os_compute_api:os-evacuate',
    vmStates: ['active', 'stopped', 'error'],
    taskStates: 'any',
    ignoresLock: true,
    answer: 200,
    failure: 'error',
    // ACTIVE is shown for a moment before the host changes (measured on Nova 26).
    steps: [
      { at: 0, taskState: 'rebuilding' },
      { at: 0.3, taskState: 'rebuild_block_device_mapping' },
      { at: 0.5, taskState: 'rebuild_spawning' },
      { at: 0.9, vmState: 'active', taskState: null, powerState: POWER.RUNNING },
      { at: 1, host: 'other' },
    ],
  },
  resize: {
    name: 'resize',
    policy: 'os_compute_api:servers:resize',
    vmStates: ['active', 'stopped'],
    answer: 202,
    failure: 'error',
    moves: true,
    steps: RESIZE_STEPS,
  },
  migrate: {
    name: 'migrate',
    policy: 'os_compute_api:os-migrate-server:migrate',
    vmStates: ['active', 'stopped'],
    answer: 202,
    failure: 'error',
    moves: true,
    steps: RESIZE_STEPS,
  },
  confirmResize: {
    name: 'confirmResize',
    event: 'compute_confirm_resize',
    policy: 'os_compute_api:servers:confirm_resize',
    vmStates: ['resized'],
    answer: 204,
    failure: 'error',
    // task_state stays null all the time; ends stopped where the guest is off: see `Instance.conclude`.
    steps: [{ at: 1, vmState: 'active', taskState: null }],
  },
  revertResize: {
    name: 'revertResize',
    event: 'compute_revert_resize',
    policy: 'os_compute_api:servers:revert_resize',
    vmStates: ['resized'],
    answer: 202,
    failure: 'error',
    steps: [
      { at: 0, taskState: 'resize_reverting' },
      { at: 0.5, host: 'previous' },
      { at: 1, vmState: 'active', taskState: null },
    ],
  },
  'os-migrateLive': {
    name: 'os-migrateLive',
    recorded: 'live-migration',
    event: 'compute_live_migration',
    policy: 'os_compute_api:os-migrate-server:migrate_live',
    vmStates: ['active', 'paused'],
    answer: 202,
    steps: [
      { at: 0, taskState: 'migrating' },
      { at: 1, taskState: null, host: 'other' },
    ],
  },
  shelve: {
    name: 'shelve',
    policy: 'os_compute_api:os-shelve:shelve',
    vmStates: ['active', 'stopped', 'paused', 'suspended'],
    answer: 202,
    failure: 'error',
    // Offloaded at once with shelvedOffloadTime 0: see `Instance.conclude`.
    steps: [
      { at: 0, taskState: 'shelving' },
      { at: 0.3, taskState: 'shelving_image_pending_upload' },
      { at: 0.4, taskState: 'shelving_image_uploading' },
      { at: 1, vmState: 'shelved', taskState: null, powerState: POWER.SHUTDOWN },
    ],
  },
  shelveOffload: {
    name: 'shelveOffload',
    event: 'compute_shelve_offload_instance',
    policy: 'os_compute_api:os-shelve:shelve_offload',
    vmStates: ['shelved'],
    answer: 202,
    failure: 'error',
    steps: OFFLOAD_STEPS,
  },
  unshelve: {
    name: 'unshelve',
    policy: 'os_compute_api:os-shelve:unshelve',
    vmStates: ['shelved', 'shelved_offloaded'],
    answer: 202,
    failure: 'revert',
    steps: [
      { at: 0, taskState: 'unshelving' },
      { at: 0.4, taskState: 'spawning', host: 'any' },
      { at: 1, vmState: 'active', taskState: null, powerState: POWER.RUNNING },
    ],
  },
  restore: {
    name: 'restore',
    policy: 'os_compute_api:os-deferred-delete:restore',
    vmStates: ['soft-delete'],
    answer: 202,
    steps: [
      { at: 0, taskState: 'restoring' },
      { at: 1, vmState: 'active', taskState: null, powerState: POWER.RUNNING },
    ],
  },
};

/** What follows SHELVED where `shelvedOffloadTime` is 0. */
export const OFFLOAD_AFTER_SHELVE = OFFLOAD_STEPS;
