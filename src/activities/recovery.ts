/** What a recovery reads of an instance, and the actions it takes on it. */
import { Context } from '@temporalio/activity';
import { CancelledFailure } from '@temporalio/common';
import { NovaError, type ComputeClient, type NovaInstanceAction, type RequestOptions } from '../nova';
import { STEPS, type PastAction, type RecoveryAction } from '../policy/recovery';
import { parseTime } from '../time';
import type { InCloud } from './clouds';
import { withHeartbeat } from './heartbeat';
import { toLook, type Look } from './look';
import { lookAgain } from './lost-answer';
import type { SharedLooks } from './shared-looks';

/** An entry of os-instance-actions. */
export interface RecordedAction extends PastAction {
  requestId: string;
}

export interface InstanceReading {
  /** Null when Nova answered two looks in a row with 404. */
  look: Look | null;
  metadata: Record<string, string>;
  /** Newest first; null when they can't be read. */
  actions: RecordedAction[] | null;
  /** The user that this worker's requests are made as. */
  ownUserId: string | null;
}

/** Enough to tell the last power action and those that are new. */
const ACTIONS_READ = 30;

export async function readInstance(
  compute: ComputeClient,
  shared: SharedLooks,
  serverId: string,
): Promise<InstanceReading> {
  const options = { signal: Context.current().cancellationSignal };
  const server = await shared.look(serverId, options.signal);
  if (server === null) return { look: null, metadata: {}, actions: null, ownUserId: null };
  return {
    look: toLook(server),
    metadata: server.metadata ?? {},
    actions: await readActions(compute, serverId, options),
    ownUserId: await compute.ownUserId(options),
  };
}

/** Null when they can't be read: the policy does not allow it, the cloud does not offer it, the server has just gone. */
async function readActions(
  compute: ComputeClient,
  serverId: string,
  options: RequestOptions,
): Promise<RecordedAction[] | null> {
  try {
    return (await compute.listInstanceActions(serverId, options)).slice(0, ACTIONS_READ).map(toRecordedAction);
  } catch (error) {
    if (error instanceof NovaError && !error.retryable && error.kind !== 'Unauthorized') return null;
    throw error;
  }
}

/** Nova keeps these times in whole seconds (DATETIME): an action may have begun up to this much later. */
const WHOLE_SECOND = 999;

function toRecordedAction(entry: NovaInstanceAction): RecordedAction {
  const startTime = parseTime(entry.start_time);
  return {
    action: entry.action,
    startTime: startTime % 1000 === 0 ? startTime + WHOLE_SECOND : startTime,
    userId: entry.user_id,
    failed: entry.message === 'Error',
    requestId: entry.request_id,
  };
}

export interface ServerActionRequest extends InCloud {
  serverId: string;
  action: RecoveryAction;
  /** Request ids of the instance actions that were there before this one was first sent; null when not known. */
  known: string[] | null;
  /** vm_state when it was first sent. */
  vmState: string | null;
}

export interface TakenAction {
  /** Of the instance action, when known. */
  requestId: string | null;
  /** True when an earlier request, whose answer was lost, turned out to have been carried out. */
  found: boolean;
}

const REQUESTS: Record<RecoveryAction, Record<string, unknown>> = {
  stop: { 'os-stop': null },
  start: { 'os-start': null },
  // Sending it twice does no harm.
  'reset-state': { 'os-resetState': { state: 'active' } },
  'confirm-resize': { confirmResize: null },
  'revert-resize': { revertResize: null },
  reboot: { reboot: { type: 'HARD' } },
  unrescue: { unrescue: null },
  pause: { pause: null },
  rescue: { rescue: {} },
};

/** Sends an action once: where it may have been sent before, looks first. */
export async function takeAction(compute: ComputeClient, request: ServerActionRequest): Promise<TakenAction> {
  const { info, cancellationSignal: signal } = Context.current();
  const { serverId, action } = request;
  return withHeartbeat(async () => {
    if (info.attempt > 1) {
      const taken = await lookAgain(() => findTaken(compute, request, signal), signal);
      if (taken) return taken;
    }
    if (signal.aborted) throw new CancelledFailure(`cancelled before ${action} was sent`);
    // No signal: whether Nova took it must be known, also when the workflow is cancelled.
    const { requestId } = await compute.serverAction(serverId, REQUESTS[action]);
    Context.current().log.info(`Nova took ${action}`, { serverId, requestId });
    return { requestId: requestId ?? null, found: false };
  });
}

/** The action that an earlier request led to: a new entry of its name, or, where none can be read, a moved state. */
async function findTaken(
  compute: ComputeClient,
  { serverId, action, known, vmState }: ServerActionRequest,
  signal: AbortSignal,
): Promise<TakenAction | null> {
  const { recordedAs } = STEPS[action];
  if (recordedAs === null) return null;
  const actions = known && (await readActions(compute, serverId, { signal }));
  if (actions) {
    const entry = actions.find((candidate) => candidate.action === recordedAs && !known.includes(candidate.requestId));
    return entry ? { requestId: entry.requestId, found: true } : null;
  }
  const { state } = toLook(await compute.getServer(serverId, { signal }));
  const moved = state.taskState !== null || state.vmState !== vmState;
  return moved ? { requestId: null, found: true } : null;
}
