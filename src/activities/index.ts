/** The activities of a worker: one Nova call or one watch each, typed failures, no decision about what comes next. */
import { setMaxListeners } from 'node:events';
import { Context } from '@temporalio/activity';
import { NovaError, type ComputeClient } from '../nova';
import {
  createServer,
  findServer,
  timeLeft,
  type CreatedServer,
  type CreateServerRequest,
  type Creation,
} from './creation';
import { toApplicationFailure } from './failures';
import { withHeartbeat } from './heartbeat';
import { toLook, type Look } from './look';
import { readInstance, takeAction, type InstanceReading, type ServerActionRequest, type TakenAction } from './recovery';
import { SharedLooks } from './shared-looks';
import { watchServer, type WatchRequest, type WatchResult } from './watch';

export type { CreatedServer, CreateServerRequest, Creation } from './creation';
export type { FailureDetails } from './failures';
export type { Look } from './look';
export type { InstanceReading, RecordedAction, ServerActionRequest, TakenAction } from './recovery';
export type { Covered } from './shared-looks';
export type { WatchRequest, WatchResult } from './watch';

export interface NovaActivitiesOptions {
  compute: ComputeClient;
  /**
   * Aborted when the worker begins to shut down: watches give up their round then, and another worker goes on with
   * them, instead of holding the shutdown until its grace time is over. Default: never.
   */
  shutdownSignal?: AbortSignal;
}

export interface ServerReference {
  serverId: string;
}

/** Activity types start with `nova`, since a worker's activity names are global. */
export interface NovaActivities {
  /** Makes the server of a creation, or adopts the one that an earlier POST of it made. */
  novaCreateServer(request: CreateServerRequest): Promise<CreatedServer>;
  /** The server that carries a creation's tag, or null. */
  novaFindServer(creation: Creation): Promise<(Look & ServerReference) | null>;
  /** Looks until something differs from what the workflow saw, or the round is over. */
  novaWatchServer(request: WatchRequest): Promise<WatchResult>;
  /** One look; null when two GETs in a row were answered 404. */
  novaGetServer(server: ServerReference): Promise<Look | null>;
  /** DELETE; a server that is gone already is fine. */
  novaDeleteServer(server: ServerReference): Promise<void>;
  /** All that a recovery decides by: one look, the metadata, the instance actions, this service's own user. */
  novaReadInstance(server: ServerReference): Promise<InstanceReading>;
  /** Stop, start, reboot, …: sent once, also when an answer is lost. */
  novaServerAction(request: ServerActionRequest): Promise<TakenAction>;
}

/**
 * @returns the activities to give to `Worker.create({ activities })`
 * @example
 * createNovaActivities({ compute: createComputeClient(loadCloudConfig()) })
 */
export function createNovaActivities({
  compute,
  shutdownSignal = new AbortController().signal,
}: NovaActivitiesOptions): NovaActivities {
  setMaxListeners(0, shutdownSignal); // one for each watch
  const shared = new SharedLooks(compute, shutdownSignal);
  return {
    novaCreateServer: (request) =>
      typed(undefined, () => createServer(compute, request), timeLeft(request, Context.current().info)),
    novaFindServer: (creation) =>
      typed(undefined, async () => {
        const server = await withHeartbeat(() => findServer(compute, creation, Context.current().cancellationSignal));
        return server && { serverId: server.id, ...toLook(server) };
      }),
    novaWatchServer: (request) => typed(request.serverId, () => watchServer(shared, request, shutdownSignal)),
    novaGetServer: ({ serverId }) =>
      typed(serverId, async () => {
        const server = await shared.look(serverId, Context.current().cancellationSignal);
        return server && toLook(server);
      }),
    novaDeleteServer: ({ serverId }) =>
      typed(serverId, () =>
        withHeartbeat(async () => {
          try {
            await compute.deleteServer(serverId);
          } catch (error) {
            if (!(error instanceof NovaError && error.kind === 'NotFound')) throw error;
          }
        }),
      ),
    novaReadInstance: ({ serverId }) =>
      typed(serverId, () => withHeartbeat(() => readInstance(compute, shared, serverId))),
    novaServerAction: (request) => typed(request.serverId, () => takeAction(compute, request)),
  };
}

/** The one place where an error of the client becomes Temporal's failure. */
async function typed<T>(serverId: string | undefined, work: () => Promise<T>, within?: number): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof NovaError) {
      throw toApplicationFailure(error, { attempt: Context.current().info.attempt, serverId, within });
    }
    throw error;
  }
}
