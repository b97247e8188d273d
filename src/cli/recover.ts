/** `temporal-nova recover` */
import { WorkflowNotFoundError } from '@temporalio/client';
import {
  recoveryWorkflowId,
  startRecoverInstance,
  type RecoverInstanceInput,
  type RecoverInstanceResult,
  type RecoveryNotification,
  type RecoveryPolicy,
} from '../client';
import { describeState, type ServerState } from '../policy/server-state';
import { checkRecoverInstanceInput } from '../workflows/recover-instance-input';
import { EXIT, UsageError } from './errors';
import { onHost } from './follow';
import { checked, toRecord } from './input';
import { clock, Output } from './output';
import { run, type CommonOptions } from './run';
import { withTemporal, type Temporal } from './temporal';

export interface RecoverOptions extends CommonOptions {
  policy?: string[];
  dryRun?: boolean;
  event?: string;
  generatedTime?: string;
  host?: string;
}

/** @returns the exit code */
export async function recover(uuid: string, options: RecoverOptions): Promise<number> {
  const instanceId = uuid.toLowerCase(); // as Nova writes it
  const { dryRun = false, json = false } = options;
  const output = new Output(json);
  const input = checked(checkRecoverInstanceInput, inputOf(instanceId, options));
  return withTemporal(options.taskQueue, async (temporal) => {
    const before = dryRun ? undefined : await runningRecovery(temporal, instanceId);
    const handle = await startRecoverInstance(temporal.client, input, { taskQueue: temporal.taskQueue });
    const joined = before !== undefined && before.runId === handle.signaledRunId;
    if (joined) {
      const since = clock(before.startTime);
      output.say('Joined', `the recovery that is under way since ${since}, by the policy that was given to that one`);
    }
    // A plan that nobody waits for is of no use.
    const wait = dryRun || (options.wait ?? false);
    const taskQueue = joined ? before.taskQueue : temporal.taskQueue;
    const started = { handle, runId: handle.signaledRunId, taskQueue, more: { joined } };
    return run(temporal, output, started, wait, (result) => tell(output, result));
  });
}

function inputOf(instanceId: string, options: RecoverOptions): RecoverInstanceInput {
  const notification = notificationOf(options);
  const policy = policyOf(options.policy);
  return {
    instanceId,
    ...(notification && { notification }),
    ...(policy && { policy }),
    ...(options.dryRun && { dryRun: true }),
    ...(options.cloud !== undefined && { cloud: options.cloud }),
  };
}

function notificationOf({ event, generatedTime, host }: RecoverOptions): RecoveryNotification | undefined {
  if (event === undefined) {
    if (generatedTime !== undefined || host !== undefined) {
      throw new UsageError('--generated-time and --host tell more of an --event, which is missing');
    }
    return undefined;
  }
  return { event, ...(host !== undefined && { host }), ...(generatedTime !== undefined && { generatedTime }) };
}

const BOOLEANS: Record<string, boolean> = { true: true, false: false };

/** `--policy key=value`, each, as the input takes it; undefined where there is none. */
export function policyOf(pairs: string[] | undefined): Partial<RecoveryPolicy> | undefined {
  if (!pairs) return undefined;
  const policy: Record<string, unknown> = toRecord('--policy', pairs);
  const { requireHaEnabled } = policy;
  if (typeof requireHaEnabled === 'string') policy.requireHaEnabled = BOOLEANS[requireHaEnabled] ?? requireHaEnabled;
  return policy as Partial<RecoveryPolicy>;
}

async function runningRecovery(temporal: Temporal, instanceId: string) {
  try {
    const description = await temporal.client.workflow.getHandle(recoveryWorkflowId(instanceId)).describe();
    return description.status.name === 'RUNNING' ? description : undefined;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  }
}

function tell(output: Output, result: RecoverInstanceResult): number {
  const { outcome, path, reason, message, before, after } = result;
  const steps = result.steps.map(
    ({ action, at, note }) => `${action} ${clock(new Date(at))}${note ? ` (${note})` : ''}`,
  );
  const decision = `path ${path}, reason ${reason}`;
  const states = `before ${shown(before)}, after ${shown(after)}`;
  switch (outcome) {
    case 'recovered':
      output.say('Recovered', message, decision, `steps ${steps.join(', ') || 'none were needed'}`, states);
      return EXIT.done;
    case 'skipped':
      output.say('Skipped', message, decision, states);
      return EXIT.skipped;
    case 'planned':
      // The message is that of a recovery that has taken place.
      output.say('Planned', decision, `now ${shown(before)}`, message);
      return EXIT.done;
  }
}

function shown(state: ServerState | null): string {
  return state ? describeState(state) + onHost(state) : 'not there';
}
