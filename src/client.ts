/** Typed starters for services that have a Temporal client. Never imports the worker, whose native module it doesn't need. */
import type {
  Client,
  WorkflowHandleWithFirstExecutionRunId,
  WorkflowHandleWithSignaledRunId,
  WorkflowStartOptions,
} from '@temporalio/client';
import type { CreateServerInput, CreateServerResult } from './workflows/create-server-input';
import type { RecoverInstanceInput, RecoverInstanceResult } from './workflows/recover-instance-input';

export type { CreateServerInput, CreateServerResult } from './workflows/create-server-input';
export type {
  RecoverInstanceInput,
  RecoverInstanceResult,
  RecoveryNotification,
  RecoveryStep,
} from './workflows/recover-instance-input';
export type { RecoveryAction, RecoveryPath, RecoveryPolicy, RecoveryReason } from './policy/recovery';
export type { PollingOptions } from './workflows/input';
export type { Phase, Progress } from './workflows/messages';
export type { FailureType, WorkflowFailureDetails } from './workflows/failures';
export type { Observation, ServerState } from './policy/server-state';
export type { NovaAddresses, NovaServerRequest } from './nova/types';
export { CodecError, dataConverter, EncryptionCodec, loadCodecKeys } from './codec';
export type { CodecKey } from './codec';

/** The task queue of `npm run worker`, unless `TEMPORAL_TASK_QUEUE` says otherwise. */
export const DEFAULT_TASK_QUEUE = 'nova';

/** Anything of Temporal's start options; the workflow id is the caller's choice, for it is what makes a start unique. */
export type StartCreateServerOptions = Partial<Omit<WorkflowStartOptions, 'args' | 'workflowId'>> & {
  workflowId: string;
};

export type CreateServerHandle = WorkflowHandleWithFirstExecutionRunId<
  (input: CreateServerInput) => Promise<CreateServerResult>
>;

/**
 * Starts `CreateServerWorkflow`, with a summary and details that the Web UI shows.
 *
 * A second start with the id of a running workflow throws `WorkflowExecutionAlreadyStartedError`: nothing is created
 * twice. A start with the id of an ended one creates anew (`workflowIdReusePolicy` changes that).
 *
 * @example
 * const handle = await startCreateServer(client, input, { workflowId: 'order-4711' });
 * const serverId = await handle.executeUpdate<string, []>('serverId');
 * const { addresses } = await handle.result();
 */
export async function startCreateServer(
  client: Client,
  input: CreateServerInput,
  options: StartCreateServerOptions,
): Promise<CreateServerHandle> {
  return client.workflow.start<(input: CreateServerInput) => Promise<CreateServerResult>>('CreateServerWorkflow', {
    taskQueue: DEFAULT_TASK_QUEUE,
    staticSummary: `Create server ${short(input.server.name)}`,
    staticDetails: creationDetails(input),
    ...options,
    args: [input],
  });
}

export type RecoverInstanceHandle = WorkflowHandleWithSignaledRunId<
  (input: RecoverInstanceInput) => Promise<RecoverInstanceResult>
>;

/** One workflow id for each instance, so that two monitors that report one failure cause one recovery. */
export function recoveryWorkflowId(instanceId: string): string {
  return `recover-instance-${instanceId.toLowerCase()}`;
}

/**
 * Starts `RecoverInstanceWorkflow`, or joins the one that runs for this instance and hands it the notification (signal
 * `notified`). A dry run has an id of its own, so that it neither joins a recovery nor is joined.
 *
 * @example
 * const handle = await startRecoverInstance(client, { instanceId, notification: { event: 'LIFECYCLE' } });
 * const { outcome, reason, message } = await handle.result();
 */
export async function startRecoverInstance(
  client: Client,
  input: RecoverInstanceInput,
  options: Partial<Omit<WorkflowStartOptions, 'args'>> = {},
): Promise<RecoverInstanceHandle> {
  const { instanceId, notification, dryRun } = input;
  const id = recoveryWorkflowId(String(instanceId));
  return client.workflow.signalWithStart<(input: RecoverInstanceInput) => Promise<RecoverInstanceResult>, [unknown]>(
    'RecoverInstanceWorkflow',
    {
      workflowId: dryRun ? `${id}-dry-run` : id,
      taskQueue: DEFAULT_TASK_QUEUE,
      staticSummary: `${dryRun ? 'Plan the recovery of' : 'Recover'} instance ${short(instanceId)}`,
      staticDetails: recoveryDetails(input),
      ...options,
      args: [input],
      signal: 'notified',
      signalArgs: [notification ?? null],
    },
  );
}

function recoveryDetails({ instanceId, notification, policy }: RecoverInstanceInput): string {
  const choices = Object.entries(policy ?? {}).map(([key, choice]) => `${key}=${String(choice)}`);
  return [
    `Recovers the instance \`${short(instanceId)}\`, or says why it is left alone.`,
    `- reported: ${notification ? short(Object.values(notification).join(' ')) : 'no notification'}`,
    `- policy: ${choices.length > 0 ? short(choices.join(', ')) : 'the defaults'}`,
  ].join('\n');
}

function creationDetails(input: CreateServerInput): string {
  const { server, timeout = '1h', attempts = 1, onFailure = 'keep' } = input;
  return [
    `Creates **${short(server.name)}** at Nova and waits until it is ACTIVE.`,
    `- flavor: \`${short(server.flavorRef)}\``,
    `- image: ${server.imageRef ? `\`${short(server.imageRef)}\`` : 'from a volume'}`,
    `- within ${timeout}, ${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}; on failure: ${onFailure}`,
  ].join('\n');
}

/** Temporal takes 400 bytes of summary. */
function short(text: unknown): string {
  return [...String(text)].slice(0, 80).join('');
}
