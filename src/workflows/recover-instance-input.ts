/** What `RecoverInstanceWorkflow` takes and gives, and the checks of it. */
import type { Duration } from '@temporalio/common';
import {
  DEFAULT_RECOVERY_POLICY,
  type RecoveryAction,
  type RecoveryPath,
  type RecoveryPolicy,
  type RecoveryReason,
} from '../policy/recovery';
import type { Polling } from '../policy/polling';
import type { ServerState } from '../policy/server-state';
import { parseTime } from '../time';
import {
  checkBoolean,
  checkChoice,
  checkCloud,
  checkDuration,
  checkObject,
  checkPolling,
  checkString,
  refuse,
  required,
  type PollingOptions,
} from './input';

/** Why an instance is to be recovered: what a monitor noticed. */
export interface RecoveryNotification {
  /** As Masakari's monitors name it: 'LIFECYCLE', 'QEMU_GUEST_AGENT_ERROR', … */
  event: string;
  /** libvirt's: 'STOPPED_FAILED', 'STARTED', … */
  virDomainEvent?: string;
  host?: string;
  /** ISO 8601; without a zone it is UTC. */
  generatedTime?: string;
}

export interface RecoverInstanceInput {
  /** The server's UUID. */
  instanceId: string;
  notification?: RecoveryNotification;
  policy?: Partial<RecoveryPolicy>;
  /** Default '10m' each. */
  timeouts?: {
    /** For all looking and deciding, the wait for a running task included. */
    task?: Duration;
    /** For stop, pause and rescue. */
    stop?: Duration;
    /** For start, hard reboot, unrescue, confirm and revert. */
    start?: Duration;
  };
  /** Decide and report, change nothing. */
  dryRun?: boolean;
  /** The name of one of the worker's clouds; default: its own. */
  cloud?: string;
  polling?: PollingOptions;
}

export interface RecoveryStep {
  action: RecoveryAction;
  /** ISO 8601. */
  at: string;
  note?: string;
}

export interface RecoverInstanceResult {
  instanceId: string;
  /** 'planned': every dry run, also where the plan is to skip. */
  outcome: 'recovered' | 'skipped' | 'planned';
  /** The last decision. */
  path: RecoveryPath;
  reason: RecoveryReason;
  /** One sentence for a person. */
  message: string;
  before: ServerState | null;
  /** Null in a dry run. */
  after: ServerState | null;
  steps: RecoveryStep[];
}

export interface CheckedRecoverInput {
  instanceId: string;
  failedAt: number | null;
  reportsRunning: boolean;
  policy: RecoveryPolicy;
  timeouts: { task: number; stop: number; start: number };
  dryRun: boolean;
  cloud: string | undefined;
  polling: Polling;
}

const DEFAULT_TIMEOUT = 600_000;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export function checkRecoverInstanceInput(input: unknown): CheckedRecoverInput {
  const fields = checkObject(input, '', [
    'instanceId',
    'notification',
    'policy',
    'timeouts',
    'dryRun',
    'cloud',
    'polling',
  ]);
  const instanceId = required(checkString(fields.instanceId, 'instanceId'), 'instanceId').toLowerCase();
  refuse(!UUID.test(instanceId), `instanceId must be a UUID, not "${instanceId.slice(0, 40)}".`);
  const timeouts = checkObject(fields.timeouts === undefined ? {} : fields.timeouts, 'timeouts', [
    'task',
    'stop',
    'start',
  ]);
  return {
    instanceId,
    ...checkNotification(fields.notification),
    policy: checkPolicy(fields.policy),
    timeouts: {
      task: checkDuration(timeouts.task, 'timeouts.task') ?? DEFAULT_TIMEOUT,
      stop: checkDuration(timeouts.stop, 'timeouts.stop') ?? DEFAULT_TIMEOUT,
      start: checkDuration(timeouts.start, 'timeouts.start') ?? DEFAULT_TIMEOUT,
    },
    dryRun: checkBoolean(fields.dryRun, 'dryRun') ?? false,
    cloud: checkCloud(fields.cloud),
    polling: checkPolling(fields.polling),
  };
}

function checkPolicy(value: unknown): RecoveryPolicy {
  const known = Object.keys(DEFAULT_RECOVERY_POLICY) as (keyof RecoveryPolicy)[];
  const fields = checkObject(value === undefined ? {} : value, 'policy', known);
  const chosen = {
    requireHaEnabled: checkBoolean(fields.requireHaEnabled, 'policy.requireHaEnabled'),
    haEnabledMetadataKey: checkString(fields.haEnabledMetadataKey, 'policy.haEnabledMetadataKey'),
    paused: checkChoice(fields.paused, 'policy.paused', ['skip', 'restart', 'restore']),
    rescued: checkChoice(fields.rescued, 'policy.rescued', ['skip', 'restart', 'restore']),
    resized: checkChoice(fields.resized, 'policy.resized', ['reset', 'confirm', 'revert', 'skip']),
    stoppedByUser: checkChoice(fields.stoppedByUser, 'policy.stoppedByUser', ['skip', 'start']),
    locked: checkChoice(fields.locked, 'policy.locked', ['recover', 'skip']),
  };
  const set = Object.entries(chosen).filter(([, choice]) => choice !== undefined);
  return { ...DEFAULT_RECOVERY_POLICY, ...(Object.fromEntries(set) as Partial<RecoveryPolicy>) };
}

export function checkNotification(value: unknown): { failedAt: number | null; reportsRunning: boolean } {
  if (value === undefined) return { failedAt: null, reportsRunning: false };
  const fields = checkObject(value, 'notification', ['event', 'virDomainEvent', 'host', 'generatedTime']);
  required(checkString(fields.event, 'notification.event'), 'notification.event');
  checkString(fields.host, 'notification.host');
  const time = checkString(fields.generatedTime, 'notification.generatedTime');
  const failedAt = time === undefined ? null : parseTime(time);
  refuse(Number.isNaN(failedAt), `notification.generatedTime must be an ISO 8601 time, not "${time?.slice(0, 40)}".`);
  const domainEvent = checkString(fields.virDomainEvent, 'notification.virDomainEvent') ?? '';
  // Our own start gives rise to one of these.
  return { failedAt, reportsRunning: /^(STARTED|RESUMED)/i.test(domainEvent) };
}
