/** Typed starters for services that have a Temporal client. Never imports the worker, whose native module it doesn't need. */
import type { Client, WorkflowHandleWithFirstExecutionRunId, WorkflowStartOptions } from '@temporalio/client';
import type { CreateServerInput, CreateServerResult } from './workflows/create-server';

export type { CreateServerInput, CreateServerResult } from './workflows/create-server';
export type { PollingOptions } from './workflows/input';
export type { Phase, Progress } from './workflows/messages';
export type { FailureType, WorkflowFailureDetails } from './workflows/failures';
export type { Observation, ServerState } from './policy/server-state';
export type { NovaAddresses, NovaServerRequest } from './nova/types';

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
