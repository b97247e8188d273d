/** Typed starters for services that have a Temporal client. Never imports the worker, whose native module it doesn't need. */
import {
  ApplicationFailure,
  isGrpcServiceError,
  WithStartWorkflowOperation,
  WorkflowExecutionAlreadyStartedError,
  WorkflowFailedError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
  type Client,
  type WorkflowHandle,
  type WorkflowHandleWithFirstExecutionRunId,
  type WorkflowHandleWithSignaledRunId,
  type WorkflowStartOptions,
} from '@temporalio/client';
import type { CreateServerInput, CreateServerResult } from './workflows/create-server-input';
import type { FailureType, WorkflowFailureDetails } from './workflows/failures';
import { NOVA_SEARCH_ATTRIBUTES } from './search-attributes';
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
export { NOVA_SEARCH_ATTRIBUTES } from './search-attributes';

/** The task queue of `npm run worker`, unless `TEMPORAL_TASK_QUEUE` says otherwise. */
export const DEFAULT_TASK_QUEUE = 'nova';

/** Anything of Temporal's start options; the workflow id is the caller's choice, for it is what makes a start unique. */
export type StartCreateServerOptions = Partial<Omit<WorkflowStartOptions, 'args' | 'workflowId'>> & {
  workflowId: string;
};

type CreateServer = (input: CreateServerInput) => Promise<CreateServerResult>;

export type CreateServerHandle = WorkflowHandleWithFirstExecutionRunId<CreateServer>;

/**
 * Starts `CreateServerWorkflow`, with a summary, details and a memo (`name`, `flavor`, `image`) that the Web UI shows.
 *
 * A second start with the id of a running workflow throws `WorkflowExecutionAlreadyStartedError`: nothing is created
 * twice. A start with the id of an ended one creates anew (`workflowIdReusePolicy` changes that).
 *
 * @example
 * const handle = await startCreateServer(client, input, { workflowId: 'order-4711' });
 * const { serverId, addresses } = await handle.result();
 */
export async function startCreateServer(
  client: Client,
  input: CreateServerInput,
  options: StartCreateServerOptions,
): Promise<CreateServerHandle> {
  return withAdvice(client.workflow.start<CreateServer>('CreateServerWorkflow', creationOptions(input, options)));
}

export interface StartedServer {
  /** To wait for ACTIVE: `handle.result()`. */
  handle: WorkflowHandle<CreateServer>;
  /** Nova's. The server is not ACTIVE yet; with `attempts` above 1, ERROR can still lead to another one. */
  serverId: string;
}

/**
 * Starts `CreateServerWorkflow`, and resolves as soon as Nova has given the server's id.
 *
 * Safe to repeat, after a lost answer or a crash of the caller: a call with the id of a running creation joins it, one
 * with the id of a creation that succeeded gets the server that it made (as long as Temporal keeps that workflow), and
 * only one with the id of a creation that failed or was cancelled creates anew. The input of a call that joins is not
 * looked at. For a different rule set `workflowIdConflictPolicy` or `workflowIdReusePolicy`.
 *
 * It waits as long as the workflow does, also where no worker runs; `client.withDeadline` or `client.withAbortSignal`
 * ends the wait, not the creation.
 *
 * @throws WorkflowFailedError as `handle.result()` does, where the creation fails before it has an id: {@link failureOf}
 * tells why
 * @example
 * const { handle, serverId } = await startCreateServerAndGetId(client, input, { workflowId: 'order-4711' });
 */
export async function startCreateServerAndGetId(
  client: Client,
  input: CreateServerInput,
  options: StartCreateServerOptions,
): Promise<StartedServer> {
  const startWorkflowOperation = new WithStartWorkflowOperation<CreateServer>('CreateServerWorkflow', {
    workflowIdConflictPolicy: 'USE_EXISTING',
    workflowIdReusePolicy: 'ALLOW_DUPLICATE_FAILED_ONLY',
    ...creationOptions(input, options),
  });
  try {
    const serverId = await withAdvice(
      client.workflow.executeUpdateWithStart<CreateServer, string, []>('serverId', { startWorkflowOperation }),
    );
    return { handle: await startWorkflowOperation.workflowHandle(), serverId };
  } catch (error) {
    if (!saysThatItEnded(error)) throw error;
    const handle = client.workflow.getHandle<CreateServer>(options.workflowId);
    // Whatever else refused the update: the result of one that runs would be waited for.
    if ((await handle.describe()).status.name === 'RUNNING') throw error;
    return { handle, serverId: (await handle.result()).serverId };
  }
}

/** How Temporal answers an update of a workflow that ends before it answers, or has ended. */
function saysThatItEnded(error: unknown): boolean {
  return (
    error instanceof WorkflowUpdateFailedError ||
    error instanceof WorkflowExecutionAlreadyStartedError ||
    error instanceof WorkflowNotFoundError ||
    (isGrpcServiceError(error) && error.code === GRPC_NOT_FOUND) // terminated before a worker had it
  );
}

const GRPC_NOT_FOUND = 5;

function creationOptions(input: CreateServerInput, options: StartCreateServerOptions) {
  const { name, flavorRef, imageRef } = input.server;
  return {
    taskQueue: DEFAULT_TASK_QUEUE,
    staticSummary: `Create server ${short(name)}`,
    staticDetails: creationDetails(input),
    ...options,
    memo: memo({ name, flavor: flavorRef, image: imageRef, cloud: input.cloud }, options),
    args: [input] as [CreateServerInput],
  };
}

type RecoverInstance = (input: RecoverInstanceInput) => Promise<RecoverInstanceResult>;

export type RecoverInstanceHandle = WorkflowHandleWithSignaledRunId<RecoverInstance>;

/** One workflow id for each instance, so that two monitors that report one failure cause one recovery. */
export function recoveryWorkflowId(instanceId: string): string {
  return `recover-instance-${instanceId.toLowerCase()}`;
}

/**
 * Starts `RecoverInstanceWorkflow`, or joins the one that runs for this instance and hands it the notification (signal
 * `notified`). The Web UI shows a summary, details and a memo (`instanceId`, `event`). A dry run has an id of its own, so
 * that it neither joins a recovery nor is joined.
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
  return withAdvice(
    client.workflow.signalWithStart<RecoverInstance, [unknown]>('RecoverInstanceWorkflow', {
      workflowId: dryRun ? `${id}-dry-run` : id,
      taskQueue: DEFAULT_TASK_QUEUE,
      staticSummary: `${dryRun ? 'Plan the recovery of' : 'Recover'} instance ${short(instanceId)}`,
      staticDetails: recoveryDetails(input),
      ...options,
      memo: memo({ instanceId, event: notification?.event, cloud: input.cloud }, options),
      args: [input],
      signal: 'notified',
      signalArgs: [notification ?? null],
    }),
  );
}

/** Temporal refuses a start with a search attribute that is not registered; the SDK may say that in the cause only. */
async function withAdvice<T>(start: Promise<T>): Promise<T> {
  try {
    return await start;
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const words = isGrpcServiceError(error.cause) ? error.cause.details : error.message;
    if (!NOVA_SEARCH_ATTRIBUTES.some(({ key }) => words.includes(`search attribute ${key.name}`))) throw error;
    const names = NOVA_SEARCH_ATTRIBUTES.map(({ key }) => `--name ${key.name} --type Keyword`).join(' ');
    throw new Error(`${words}. To register: temporal operator search-attribute create ${names}`, { cause: error });
  }
}

/** How a workflow of this package failed. */
export interface WorkflowFailure {
  type: FailureType;
  /** A sentence that says what happened, to which server, in Nova's own words. */
  message: string;
  details: WorkflowFailureDetails;
}

/**
 * Why a workflow of this package failed, from what `handle.result()` or {@link startCreateServerAndGetId} threw.
 *
 * Undefined for anything else: a cancellation, a termination, a Temporal that can't be reached.
 *
 * @example
 * if (failureOf(error)?.type === 'QuotaExceeded') await askForMoreQuota();
 */
export function failureOf(error: unknown): WorkflowFailure | undefined {
  if (!(error instanceof WorkflowFailedError && error.cause instanceof ApplicationFailure)) return undefined;
  const { type, message, details } = error.cause;
  return { type: type as FailureType, message, details: (details?.[0] ?? {}) as WorkflowFailureDetails };
}

/** What a list of workflows can show of each; the caller's own memo goes beside and over it. */
function memo(ours: Record<string, unknown>, { memo: theirs }: Pick<WorkflowStartOptions, 'memo'>) {
  const known = Object.entries(ours).filter(([, value]) => value !== undefined);
  return { ...Object.fromEntries(known.map(([key, value]) => [key, short(value)])), ...theirs };
}

/** Two paragraphs: the Web UI shows no more than four lines. */
function details(what: string, items: string[]): string {
  return `${what}\n\n${items.join(' · ')}`;
}

function recoveryDetails({ instanceId, notification, policy, cloud }: RecoverInstanceInput): string {
  const choices = Object.entries(policy ?? {}).map(([key, choice]) => `${key}=${String(choice)}`);
  return details(`Recovers the instance \`${short(instanceId)}\`, or says why not.`, [
    `reported: ${notification ? short(Object.values(notification).join(' ')) : 'no notification'}`,
    `policy: ${choices.length > 0 ? short(choices.join(', ')) : 'the defaults'}`,
    ...inCloud(cloud),
  ]);
}

function creationDetails(input: CreateServerInput): string {
  const { server, timeout = '1h', attempts = 1, onFailure = 'keep' } = input;
  return details(`Creates **${short(server.name)}** at Nova and waits until it is ACTIVE.`, [
    `flavor \`${short(server.flavorRef)}\``,
    server.imageRef ? `image \`${short(server.imageRef)}\`` : 'from a volume',
    `within ${timeout}, ${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}`,
    `on failure: ${onFailure}`,
    ...inCloud(input.cloud),
  ]);
}

function inCloud(cloud: string | undefined): string[] {
  return cloud === undefined ? [] : [`cloud \`${short(cloud)}\``];
}

/** Temporal takes 400 bytes of summary. */
function short(text: unknown): string {
  return [...String(text)].slice(0, 80).join('');
}
