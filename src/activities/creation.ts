/**
 * Exactly one server for each creation. Nova's create has no idempotency key, so each creation carries a server tag
 * (microversion 2.52); where it is open whether a POST was carried out, the tag is looked up before another one.
 */
import { createHash } from 'node:crypto';
import { ApplicationFailure, Context, type Info } from '@temporalio/activity';
import { CancelledFailure } from '@temporalio/common';
import { NovaError, type ComputeClient, type NovaServer, type NovaServerRequest } from '../nova';
import type { Cloud, InCloud } from './clouds';
import { toApplicationFailure } from './failures';
import { withHeartbeat } from './heartbeat';
import { toLook, type Look } from './look';
import { lookAgain } from './lost-answer';
import { type Covered } from './shared-looks';

/** What identifies one creation, across continue-as-new, reset and worker restarts. */
export interface Creation {
  namespace: string;
  workflowId: string;
  firstRunId: string;
  /** From 1. */
  attempt: number;
}

export interface CreateServerRequest extends InCloud {
  creation: Creation;
  server: NovaServerRequest;
  schedulerHints?: Record<string, unknown>;
  /** Milliseconds from scheduling after which no POST is begun any more. */
  within: number;
  /** True when an earlier activity may have made the server. */
  mayExist: boolean;
}

export interface CreatedServer {
  serverId: string;
  /** True when the tag found the server that an earlier POST had made. */
  adopted: boolean;
  /** A first look, to save a round trip; null when Nova did not answer it. */
  look: Look | null;
  /** For the first watch, which goes on from the first look. */
  covered?: Covered;
  /** How many watches were under way on the worker. */
  watches?: number;
}

/** Nova takes tags of at most 60 characters without `,` and `/` (nova/api/validation/parameter_types.py, `tag`). */
export function creationTag({ namespace, workflowId, firstRunId, attempt }: Creation): string {
  const identity = JSON.stringify([namespace, workflowId, firstRunId, attempt]);
  return `temporal-nova:${createHash('sha256').update(identity).digest('base64url')}`;
}

const FIRST_LOOK_TIMEOUT = 2_000;

/** The server that carries the tag, or null. Looks a second time, 2.5 s later, before it says null. */
export async function findServer(
  compute: ComputeClient,
  creation: Creation,
  signal?: AbortSignal,
): Promise<NovaServer | null> {
  return lookAgain(() => lookForTag(compute, creation, signal), signal);
}

async function lookForTag(
  compute: ComputeClient,
  creation: Creation,
  signal?: AbortSignal,
): Promise<NovaServer | null> {
  const tag = creationTag(creation);
  const found = await compute.listServers({ tags: tag }, { signal });
  // What does not know the filter, or drops it on the way, shows servers of others, which must not be taken for ours.
  const servers = found.filter(({ tags }) => tags === undefined || tags.includes(tag));
  if (servers.length > 1) throw ambiguous(tag, servers);
  return servers[0] ?? null;
}

const AMBIGUOUS_NAMED = 20;

function ambiguous(tag: string, servers: NovaServer[]): ApplicationFailure {
  const ids = servers
    .map(({ id }) => id)
    .sort()
    .slice(0, AMBIGUOUS_NAMED);
  return ApplicationFailure.nonRetryable(
    `${servers.length} servers carry the tag ${tag} of this creation: ${ids.join(', ')}. ` +
      'Nothing more is created or deleted; keep one of them and delete the others.',
    'AmbiguousServer',
    { serverIds: ids },
  );
}

/** Milliseconds, at the time this attempt was scheduled, in which a POST may still be begun; by the server's clock. */
export function timeLeft({ within }: CreateServerRequest, info: Info): number {
  return within - (info.currentAttemptScheduledTimestampMs - info.scheduledTimestampMs);
}

export async function createServer(
  { compute, shared }: Pick<Cloud, 'compute' | 'shared'>,
  request: CreateServerRequest,
): Promise<CreatedServer> {
  const context = Context.current();
  const { info, cancellationSignal } = context;
  const started = Date.now();
  const remaining = () => timeLeft(request, info) - (Date.now() - started);
  const isReset = info.workflowExecution?.runId !== request.creation.firstRunId;
  const mayExist = request.mayExist || isReset || info.attempt > 1;

  // What the attempt before failed with: at the deadline, that is what a person wants to know.
  const trouble = info.heartbeatDetails as string | undefined;
  const checkDeadline = () => {
    if (remaining() > 0) return;
    throw ApplicationFailure.nonRetryable(trouble ?? 'the time was over before Nova was asked', 'DeadlinePassed');
  };

  const work = async (): Promise<CreatedServer> => {
    checkDeadline();
    if (mayExist) {
      const server = await findServer(compute, request.creation, cancellationSignal).catch((error: unknown) => {
        // That the look-up was refused says nothing about the server.
        throw isRefusal(error) ? toApplicationFailure(error, { attempt: info.attempt, mayExist: true }) : error;
      });
      if (server) return { serverId: server.id, adopted: true, look: toLook(server) };
    }
    if (cancellationSignal.aborted) throw new CancelledFailure('cancelled before the server was asked for');
    checkDeadline();
    // No signal: a POST under way is waited for, also when the workflow is cancelled, so that its server is known.
    const posted = await post(compute, request).catch(async (error: unknown) => {
      // A refusal of a repeated POST, for quota for example, can come of the first one having been carried out late.
      const server = mayExist && isRefusal(error) && (await findServer(compute, request.creation));
      if (!server) throw error;
      return server;
    });
    if (typeof posted !== 'string') return { serverId: posted.id, adopted: true, look: toLook(posted) };
    const id = posted;
    if (mayExist) await refuseSecondServer(compute, request.creation);
    const look = await firstLook({ compute, shared }, id, cancellationSignal);
    return { serverId: id, adopted: false, watches: shared.watches, ...look };
  };

  try {
    return await withHeartbeat(work, () => trouble);
  } catch (error) {
    if (error instanceof NovaError) context.heartbeat(error.message);
    throw error;
  }
}

async function post(
  compute: ComputeClient,
  { creation, server, schedulerHints }: CreateServerRequest,
): Promise<string> {
  const { id, requestId } = await compute.createServer(server, { tags: [creationTag(creation)], schedulerHints });
  Context.current().log.info('Nova took POST /servers', { serverId: id, requestId });
  return id;
}

function isRefusal(error: unknown): error is NovaError {
  return error instanceof NovaError && !error.retryable;
}

/** After a repeated POST: should the first one have been carried out after all, say so instead of losing its server. */
async function refuseSecondServer(compute: ComputeClient, creation: Creation): Promise<void> {
  try {
    await lookForTag(compute, creation);
  } catch (error) {
    if (!(error instanceof NovaError)) throw error;
  }
}

async function firstLook(
  { compute, shared }: Pick<Cloud, 'compute' | 'shared'>,
  serverId: string,
  cancelled: AbortSignal,
): Promise<Pick<CreatedServer, 'look' | 'covered'>> {
  try {
    const signal = AbortSignal.any([cancelled, AbortSignal.timeout(FIRST_LOOK_TIMEOUT)]);
    const begun = Date.now();
    const server = await compute.getServer(serverId, { signal });
    return { look: toLook(server), ...shared.leave(await shared.seat(server, begun, signal)) };
  } catch {
    return { look: null }; // the watch will look; the server's id must not be lost for it
  }
}
