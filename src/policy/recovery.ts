/**
 * Which path brings an instance back whose hypervisor process died, or why it is left alone. The first row of
 * {@link ROWS} that fits decides. Masakari stopped and started whatever it was told of, and gave up at the 409 that
 * Nova answers for a paused one (Masakari bug 1663513).
 */
import { isDownCell } from './creation';
import { describeState, type ServerState } from './server-state';

export type RecoveryPath =
  'none' | 'start' | 'stop-start' | 'reset-stop-start' | 'confirm-stop-start' | 'revert' | 'hard-reboot' | 'unrescue';

export type RecoveryAction =
  'stop' | 'start' | 'reset-state' | 'confirm-resize' | 'revert-resize' | 'reboot' | 'unrescue' | 'pause' | 'rescue';

export type RecoveryReason =
  | 'not-found'
  | 'being-deleted'
  | 'not-ha-enabled'
  | 'locked'
  | 'building'
  | 'shelved'
  | 'already-recovered'
  | 'paused'
  | 'rescued'
  | 'suspended'
  | 'stopped-by-user'
  | 'instance-failure'
  | 'resized';

/** Every choice made: the workflow fills in the defaults. */
export interface RecoveryPolicy {
  requireHaEnabled: boolean;
  haEnabledMetadataKey: string;
  paused: 'skip' | 'restart' | 'restore';
  rescued: 'skip' | 'restart' | 'restore';
  resized: 'reset' | 'confirm' | 'revert' | 'skip';
  stoppedByUser: 'skip' | 'start';
  locked: 'recover' | 'skip';
}

export const DEFAULT_RECOVERY_POLICY: RecoveryPolicy = {
  requireHaEnabled: false,
  haEnabledMetadataKey: 'HA_Enabled',
  paused: 'skip',
  rescued: 'skip',
  resized: 'reset',
  stoppedByUser: 'skip',
  locked: 'recover',
};

/** An entry of os-instance-actions, as far as a decision needs it. */
export interface PastAction {
  /** 'stop', 'start', 'reboot', … */
  action: string;
  /** Milliseconds since 1970; the latest that Nova's whole seconds allow, so that one failure is not recovered twice. */
  startTime: number;
  /** Null for what Nova did by itself. */
  userId: string | null;
  failed: boolean;
}

/** What is known when the decision is made. */
export interface RecoveryFacts {
  /** Null when Nova answered two GETs in a row with 404. */
  state: ServerState | null;
  metadata: Record<string, string>;
  /** Newest first; null when they can't be read. */
  actions: PastAction[] | null;
  /** This service's own user; null when not known. */
  ownUserId: string | null;
  /** When the failure was noticed, in milliseconds since 1970; null when the notification doesn't say. */
  failedAt: number | null;
  /** The notification says that the guest runs (libvirt's STARTED, RESUMED): our own start gives rise to one. */
  reportsRunning: boolean;
}

export interface RecoveryPlan {
  kind: 'plan';
  path: RecoveryPath;
  reason: RecoveryReason;
  /** One sentence for a person, true once the steps are done. */
  message: string;
  /** Somebody should look at it: a skip that leaves a failed instance behind. */
  warning: boolean;
  /** Empty on the path 'none'. */
  steps: RecoveryAction[];
}

export type RecoveryDecision =
  | RecoveryPlan
  /** A task is running, or the cell is down: look again when that has cleared. */
  | { kind: 'wait' }
  /** A vm_state that this version does not handle. */
  | { kind: 'unknown' };

/** Facts of a server that was seen. */
type Seen = RecoveryFacts & { state: ServerState };

interface Row {
  /** What a reader holds against the table in the documentation. */
  name: string;
  fits: (facts: Seen, policy: RecoveryPolicy) => boolean;
  then: (facts: Seen, policy: RecoveryPolicy) => RecoveryDecision;
}

const ENABLED = new Set(['1', 't', 'true', 'on', 'y', 'yes']);

const ROWS: readonly Row[] = [
  {
    name: 'deleted',
    fits: ({ state }) => state.vmState === 'deleted',
    then: () => skip('not-found', 'The instance is deleted.'),
  },
  {
    name: 'being deleted',
    fits: ({ state }) =>
      state.taskState === 'deleting' || state.taskState === 'soft-deleting' || state.vmState === 'soft-delete',
    then: ({ state }) => skip('being-deleted', `The instance is being deleted (${describeState(state)}).`),
  },
  {
    name: 'without HA_Enabled, where required',
    // In a down cell nothing is known, the metadata neither.
    fits: ({ state, metadata }, policy) =>
      policy.requireHaEnabled &&
      state.vmState !== null &&
      !ENABLED.has(own(metadata, policy.haEnabledMetadataKey).trim().toLowerCase()),
    then: (_, policy) =>
      skip('not-ha-enabled', `The instance's metadata does not say ${policy.haEnabledMetadataKey}=True.`),
  },
  {
    name: 'locked',
    fits: ({ state }, policy) => state.locked && policy.locked === 'skip',
    then: () => skip('locked', 'The instance is locked, and the policy is to leave locked ones alone.'),
  },
  {
    name: 'building',
    fits: ({ state }) => state.vmState === 'building',
    then: () => skip('building', 'The instance is still being built; who builds it deals with its failure.'),
  },
  {
    name: 'shelved',
    fits: ({ state }) => state.vmState === 'shelved' || state.vmState === 'shelved_offloaded',
    then: ({ state }) => skip('shelved', `The instance is ${state.status}: it has no hypervisor process to fail.`),
  },
  {
    name: 'busy, or in a down cell',
    fits: ({ state }) => isBusy(state),
    then: () => ({ kind: 'wait' }),
  },
  {
    name: 'already recovered',
    fits: (facts) => isRunning(facts.state) && (facts.reportsRunning || wasRestartedSince(facts)),
    then: (facts) =>
      skip(
        'already-recovered',
        wasRestartedSince(facts)
          ? 'The instance runs, and was started after the failure was noticed.'
          : 'The instance runs, and the notification says nothing else.',
      ),
  },
  {
    name: 'paused',
    fits: ({ state }) => state.vmState === 'paused',
    then: (_, policy) => PAUSED[policy.paused],
  },
  {
    name: 'rescued',
    fits: ({ state }) => state.vmState === 'rescued',
    then: (_, policy) => RESCUED[policy.rescued],
  },
  {
    name: 'suspended',
    fits: ({ state }) => state.vmState === 'suspended',
    then: () => skip('suspended', 'The instance is suspended: there is no hypervisor process to fail.'),
  },
  {
    name: 'stopped by a user',
    fits: (facts) => facts.state.vmState === 'stopped' && wasStoppedByUser(facts),
    then: (_, policy) => STOPPED_BY_USER[policy.stoppedByUser],
  },
  {
    name: 'stopped',
    fits: ({ state }) => state.vmState === 'stopped',
    then: () =>
      act('start', 'instance-failure', ['start'], 'The instance was stopped, not by a user, and was started.'),
  },
  {
    name: 'active, error',
    // Also when it looks healthy: Nova's power_state is up to ten minutes old (sync_power_state_interval), and a guest
    // agent can fail in a running guest.
    fits: ({ state }) => state.vmState === 'active' || state.vmState === 'error',
    then: ({ state }) =>
      act(
        'stop-start',
        'instance-failure',
        ['stop', 'start'],
        `The instance was ${state.status}; it was stopped and started.`,
      ),
  },
  {
    name: 'resized',
    fits: ({ state }) => state.vmState === 'resized',
    then: (_, policy) => RESIZED[policy.resized],
  },
];

/** The key is the caller's, and may be `constructor`. */
function own(metadata: Record<string, string>, key: string): string {
  return (Object.hasOwn(metadata, key) && metadata[key]) || '';
}

const PAUSED: Record<RecoveryPolicy['paused'], RecoveryDecision> = {
  skip: skip(
    'paused',
    'The instance is PAUSED and was left alone: Nova does not stop a paused instance, and a restart would let the guest run. ' +
      'Recover it with the policy paused=restart or paused=restore, or unpause or reboot it by hand.',
    true,
  ),
  restart: act(
    'hard-reboot',
    'paused',
    ['reboot'],
    'The instance was PAUSED; it was hard rebooted and is ACTIVE now, no longer paused.',
  ),
  restore: act(
    'hard-reboot',
    'paused',
    ['reboot', 'pause'],
    'The instance was PAUSED; it was hard rebooted and paused again. The guest ran for a while in between.',
  ),
};

const RESCUED: Record<RecoveryPolicy['rescued'], RecoveryDecision> = {
  skip: skip(
    'rescued',
    'The instance is in RESCUE and was left alone: somebody is working on it. ' +
      'Recover it with the policy rescued=restart or rescued=restore, or unrescue it by hand.',
    true,
  ),
  restart: act('unrescue', 'rescued', ['unrescue'], 'The instance was in RESCUE; it was unrescued and is ACTIVE now.'),
  restore: act(
    'unrescue',
    'rescued',
    ['unrescue', 'rescue'],
    "The instance was in RESCUE; it was unrescued, and rescued again with Nova's default rescue image. " +
      'The guest ran from its own disk for a while in between.',
  ),
};

const STOPPED_BY_USER: Record<RecoveryPolicy['stoppedByUser'], RecoveryDecision> = {
  skip: skip('stopped-by-user', 'The instance was stopped by a user: it has not failed.'),
  start: act(
    'start',
    'stopped-by-user',
    ['start'],
    'The instance was stopped by a user, and was started as the policy says.',
  ),
};

const RESIZED: Record<RecoveryPolicy['resized'], RecoveryDecision> = {
  reset: act(
    'reset-stop-start',
    'resized',
    ['reset-state', 'stop', 'start'],
    'The instance waited for a resize to be confirmed; its state was reset, it was stopped and started. The resize is neither confirmed nor reverted.',
  ),
  confirm: act(
    'confirm-stop-start',
    'resized',
    ['confirm-resize', 'stop', 'start'],
    'The instance waited for a resize to be confirmed; it was confirmed, the instance was stopped and started.',
  ),
  revert: act(
    'revert',
    'resized',
    ['revert-resize', 'start'],
    'The instance waited for a resize to be confirmed; the resize was reverted, and the instance runs.',
  ),
  skip: skip(
    'resized',
    'The instance waits for a resize to be confirmed and was left alone. Confirm or revert the resize, or recover it with another policy for resized.',
    true,
  ),
};

/** What an action is waited for, and how long. */
export interface Step {
  phase: 'stopping' | 'starting' | 'restoring';
  /** Which of the input's `timeouts` bounds it. */
  timeout: 'stop' | 'start';
  reached: (state: ServerState) => boolean;
  /** The task_states that it passes through. */
  tasks: readonly string[];
  /** Its name among the instance actions (nova/compute/instance_actions.py); null where Nova records none. */
  recordedAs: string | null;
}

const HARD_REBOOT_TASKS = ['rebooting_hard', 'reboot_pending_hard', 'reboot_started_hard'];

export const STEPS: Readonly<Record<RecoveryAction, Step>> = {
  stop: { phase: 'stopping', timeout: 'stop', reached: isIn('stopped'), tasks: ['powering-off'], recordedAs: 'stop' },
  start: { phase: 'starting', timeout: 'start', reached: isRunning, tasks: ['powering-on'], recordedAs: 'start' },
  // Only writes the database, at once.
  'reset-state': { phase: 'stopping', timeout: 'stop', reached: isIn('active'), tasks: [], recordedAs: null },
  'confirm-resize': {
    phase: 'restoring',
    timeout: 'start',
    reached: isIn('active', 'stopped'),
    tasks: ['resize_confirming'],
    recordedAs: 'confirmResize',
  },
  'revert-resize': {
    phase: 'restoring',
    timeout: 'start',
    reached: isIn('active', 'stopped'),
    tasks: ['resize_reverting'],
    recordedAs: 'revertResize',
  },
  reboot: {
    phase: 'starting',
    timeout: 'start',
    reached: isRunning,
    tasks: HARD_REBOOT_TASKS,
    recordedAs: 'reboot',
  },
  unrescue: { phase: 'starting', timeout: 'start', reached: isRunning, tasks: ['unrescuing'], recordedAs: 'unrescue' },
  pause: { phase: 'restoring', timeout: 'stop', reached: isIn('paused'), tasks: ['pausing'], recordedAs: 'pause' },
  rescue: { phase: 'restoring', timeout: 'stop', reached: isIn('rescued'), tasks: ['rescuing'], recordedAs: 'rescue' },
};

/** In one of these vm_states, and nothing under way. */
function isIn(...vmStates: string[]): (state: ServerState) => boolean {
  return ({ vmState, taskState }) => taskState === null && vmState !== null && vmStates.includes(vmState);
}

/** Pure: the same facts and policy give the same decision. */
export function decideRecovery(facts: RecoveryFacts, policy: RecoveryPolicy): RecoveryDecision {
  const { state } = facts;
  if (state === null)
    return skip(
      'not-found',
      'Nova does not know the instance: two looks in a row were answered 404. ' +
        'One of another project looks the same to all but administrators.',
    );
  const seen: Seen = { ...facts, state };
  const row = ROWS.find(({ fits }) => fits(seen, policy));
  return row ? row.then(seen, policy) : { kind: 'unknown' };
}

/** Any task_state is something under way; in a down cell, nothing is known. */
export function isBusy(state: ServerState): boolean {
  return state.taskState !== null || state.vmState === null || isDownCell(state);
}

/** Confirmed to be back: Nova's three states together. */
function isRunning(state: ServerState): boolean {
  return state.vmState === 'active' && state.taskState === null && state.powerState === 'running';
}

function wasRestartedSince({ actions, failedAt }: RecoveryFacts): boolean {
  if (actions === null || failedAt === null) return false;
  return actions.some(
    ({ action, failed, startTime }) => (action === 'start' || action === 'reboot') && !failed && startTime > failedAt,
  );
}

/**
 * The last power action tells. Nova's own stop (its power sync found the guest gone) has no user; ours has this
 * service's. Actions that can't be read count as not by a user: an instance that failed must not be left stopped.
 */
function wasStoppedByUser({ actions, ownUserId }: RecoveryFacts): boolean {
  const last = actions?.find(({ action, failed }) => !failed && ['start', 'stop', 'reboot'].includes(action));
  return last?.action === 'stop' && last.userId !== null && last.userId !== ownUserId;
}

function skip(reason: RecoveryReason, message: string, warning = false): RecoveryDecision {
  return { kind: 'plan', path: 'none', reason, message, warning, steps: [] };
}

function act(
  path: Exclude<RecoveryPath, 'none'>,
  reason: RecoveryReason,
  steps: RecoveryAction[],
  message: string,
): RecoveryDecision {
  return { kind: 'plan', path, reason, message, warning: false, steps };
}
