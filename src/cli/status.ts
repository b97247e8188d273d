/** `temporal-nova status`: a workflow, or a server with its recovery, and what could not be found. */
import { WorkflowNotFoundError, type WorkflowExecutionDescription } from '@temporalio/client';
import { recoveryWorkflowId, type Progress } from '../client';
import { NovaError, type NovaInstanceAction, type NovaServer } from '../nova';
import { describeState, toServerState } from '../policy/server-state';
import { parseTime } from '../time';
import { hasCloud, isUuid, withCloud } from './cloud';
import { EXIT, explain } from './errors';
import { ask, onHost, outcomeOf, standing, type Outcome } from './follow';
import { clock, Output, since } from './output';
import { noWorker, withTemporal, type Temporal } from './temporal';

export interface StatusOptions {
  json?: boolean;
}

/** Newest of a workflow's observations and of a server's instance actions. */
const SHOWN = 10;

interface WorkflowView {
  workflowId: string;
  runId: string;
  type: string;
  status: string;
  startTime: Date;
  closeTime: Date | null;
  taskQueue: string;
  historyLength: number;
  webUi: string | null;
  progress: Progress | null;
  /** Activities that failed and are tried again. */
  troubles: string[];
  result?: unknown;
  failure?: { type: string; message: string; details: unknown };
}

interface ServerView {
  server: NovaServer;
  /** Newest first; null where they can't be read. */
  actions: NovaInstanceAction[] | null;
}

/** @returns the exit code: 1 when nothing was found */
export async function status(id: string, { json = false }: StatusOptions): Promise<number> {
  const output = new Output(json);
  const notes: string[] = [];
  const { workflow, server } = isUuid(id)
    ? await ofUuid(id, notes)
    : { workflow: await ofWorkflow(id, notes), server: null };
  if (workflow) tellWorkflow(output, workflow);
  if (server) tellServer(output, server);
  const found = workflow !== null || server !== null;
  for (const note of notes) {
    if (found) output.say('Note', note);
    else output.warn(`temporal-nova: ${note}`);
  }
  output.document({ workflow, server: server && { ...server.server, instanceActions: server.actions }, notes });
  return found ? EXIT.done : EXIT.failed;
}

async function ofWorkflow(id: string, notes: string[]): Promise<WorkflowView | null> {
  return withTemporal(undefined, async (temporal) => {
    const workflow = await readWorkflow(temporal, id, notes);
    if (!workflow) notes.push(`there is no workflow "${id}" ${where(temporal)}`);
    return workflow;
  });
}

/** A server's, as a rule; but nothing forbids a UUID as a workflow's id. */
async function ofUuid(
  id: string,
  notes: string[],
): Promise<{ workflow: WorkflowView | null; server: ServerView | null }> {
  const [workflow, server] = await Promise.all([
    withTemporal(undefined, async (temporal) => {
      const recovery = recoveryWorkflowId(id);
      const found = (await readWorkflow(temporal, recovery, notes)) ?? (await readWorkflow(temporal, id, notes));
      if (!found) notes.push(`no recovery of it is known: there is no workflow "${recovery}" ${where(temporal)}`);
      return found;
    }).catch((error: unknown) => {
      // Nova may be asked all the same.
      notes.push(explain(error).message);
      return null;
    }),
    readServer(id.toLowerCase(), notes), // as Nova writes it
  ]);
  return { workflow, server };
}

function where({ namespace, address }: Temporal): string {
  return `in namespace "${namespace}" at ${address}`;
}

async function readWorkflow(temporal: Temporal, workflowId: string, notes: string[]): Promise<WorkflowView | null> {
  const handle = temporal.client.workflow.getHandle(workflowId);
  let description: WorkflowExecutionDescription;
  try {
    description = await handle.describe();
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return null;
    throw error;
  }
  const { runId, type, status, startTime, closeTime, taskQueue, historyLength } = description;
  const running = status.name === 'RUNNING';
  return {
    workflowId,
    runId,
    type,
    status: status.name,
    startTime,
    closeTime: closeTime ?? null,
    taskQueue,
    historyLength,
    webUi: (await temporal.page(workflowId, runId)) ?? null,
    progress: await readProgress(temporal, description, notes),
    troubles: await troublesOf(temporal, description),
    ...(running ? {} : fieldsOf(await outcomeOf(temporal.client.workflow.getHandle(workflowId, runId)))),
  };
}

/** The query needs a worker, also for a workflow that has ended. */
async function readProgress(
  temporal: Temporal,
  { workflowId, runId, taskQueue }: WorkflowExecutionDescription,
  notes: string[],
): Promise<Progress | null> {
  if (!(await temporal.lastPoll(taskQueue))) {
    notes.push(`what "${workflowId}" has seen can't be asked: ${noWorker(taskQueue)}`);
    return null;
  }
  const progress = await ask(temporal, temporal.client.workflow.getHandle(workflowId, runId));
  if (!progress)
    notes.push(`"${workflowId}" did not answer the query "progress": its worker is busy, gone or another one`);
  return progress ?? null;
}

function troublesOf(temporal: Temporal, { raw }: WorkflowExecutionDescription): Promise<string[]> {
  return Promise.all(
    (raw.pendingActivities ?? [])
      .filter(({ lastFailure }) => lastFailure?.message)
      .map(async ({ activityType, attempt, lastFailure }) => {
        return `${activityType?.name}, attempt ${attempt}: ${await temporal.messageOf(lastFailure)}`;
      }),
  );
}

function fieldsOf(outcome: Outcome<unknown>): Pick<WorkflowView, 'result' | 'failure'> {
  if (outcome.kind === 'completed') return { result: outcome.result };
  return outcome.kind === 'failed' ? { failure: outcome.failure } : {};
}

async function readServer(id: string, notes: string[]): Promise<ServerView | null> {
  if (!hasCloud()) {
    notes.push('Nova was not asked: neither OS_CLOUD nor OS_AUTH_URL is set');
    return null;
  }
  try {
    return await withCloud(async (compute) => {
      const server = await compute.getServer(id);
      const actions = await compute.listInstanceActions(id).catch((error: unknown) => {
        notes.push(`its instance actions can't be read: ${explain(error).message}`);
        return null;
      });
      return { server, actions: actions && actions.slice(0, SHOWN) };
    });
  } catch (error) {
    const gone = error instanceof NovaError && error.kind === 'NotFound';
    notes.push(gone ? `Nova has no server ${id} that this user can see` : explain(error).message);
    return null;
  }
}

function tellWorkflow(output: Output, workflow: WorkflowView): void {
  const { workflowId, type, status, startTime, closeTime, historyLength, webUi, progress, troubles } = workflow;
  const ended = closeTime ? `, ended ${clock(closeTime)}` : ` for ${since(startTime)}`;
  output.say(
    'Workflow',
    `${workflowId}: ${type} ${status}${ended}`,
    `started ${clock(startTime)}, ${historyLength} events`,
    webUi ?? undefined,
  );
  if (progress) {
    output.say('Stands', standing(progress), progress.serverId !== null && `server ${progress.serverId}`);
    const seen = progress.observations.slice(-SHOWN);
    output.say('Seen', ...seen.map((seen) => `${clock(new Date(seen.at))}  ${describeState(seen)}${onHost(seen)}`));
  }
  output.say('Trouble', ...troubles);
  if (workflow.failure) output.say('Failed', `${workflow.failure.type}: ${workflow.failure.message}`);
  if (workflow.result !== undefined) output.say('Result', ...sentencesOf(workflow.result));
}

/** Of a recovery what it says itself, of a creation its server. */
function sentencesOf(result: unknown): string[] {
  const { outcome, message, path, reason, name, serverId, status } = (result ?? {}) as Record<string, unknown>;
  if (outcome !== undefined)
    return [`${String(outcome)}: ${String(message)}`, `path ${String(path)}, reason ${String(reason)}`];
  return serverId === undefined
    ? [JSON.stringify(result)]
    : [`server ${String(name)} (${String(serverId)}) is ${String(status)}`];
}

function tellServer(output: Output, { server, actions }: ServerView): void {
  const { status, vmState, taskState, powerState, host, locked } = toServerState(server);
  const { fault } = server;
  output.say(
    'Server',
    `${server.name ?? '(no name)'} ${server.id}: ${status}${locked ? ', locked' : ''}`,
    `vm_state ${vmState ?? 'none'}, task_state ${taskState ?? 'none'}, power_state ${powerState ?? 'none'}, ` +
      `host ${host ?? 'not shown to this user'}`,
    fault && `fault ${fault.code}: ${fault.message.trim()}${fault.created ? ` (${fault.created})` : ''}`,
  );
  output.say('Actions', ...(actions ?? []).map(describeAction));
}

function describeAction({ action, message, user_id, start_time, request_id }: NovaInstanceAction): string {
  const by = user_id === null ? 'Nova itself' : `user ${user_id}`;
  return `${clock(new Date(parseTime(start_time)))}  ${action}${message ? `: ${message}` : ''}, by ${by} (${request_id})`;
}
