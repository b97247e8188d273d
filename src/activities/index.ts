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
import { Clouds, type Cloud, type InCloud } from './clouds';
import { toApplicationFailure, type FailureDetails } from './failures';
import { withHeartbeat } from './heartbeat';
import { toLook, type Look } from './look';
import { countRetry } from './metrics';
import { readInstance, takeAction, type InstanceReading, type ServerActionRequest, type TakenAction } from './recovery';
import { watchServer, type WatchRequest, type WatchResult } from './watch';

export type { CreatedServer, CreateServerRequest, Creation } from './creation';
export type { InCloud } from './clouds';
export type { FailureDetails } from './failures';
export type { Look } from './look';
export type { InstanceReading, RecordedAction, ServerActionRequest, TakenAction } from './recovery';
export type { Covered } from './shared-looks';
export type { WatchRequest, WatchResult } from './watch';

export interface NovaActivitiesOptions {
  /** The worker's own cloud: of inputs without `cloud`. */
  compute: ComputeClient;
  /** Those that inputs can name as `cloud`. Default: none. */
  clouds?: Readonly<Record<string, ComputeClient>> | undefined;
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
  novaFindServer(creation: Creation & InCloud): Promise<(Look & ServerReference) | null>;
  /** Looks until something differs from what the workflow saw, or the round is over. */
  novaWatchServer(request: WatchRequest): Promise<WatchResult>;
  /** One look; null when two GETs in a row were answered 404. */
  novaGetServer(server: ServerReference & InCloud): Promise<Look | null>;
  /** DELETE; a server that is gone already is fine. */
  novaDeleteServer(server: ServerReference & InCloud): Promise<void>;
  /** All that a recovery decides by: one look, the metadata, the instance actions, this service's own user. */
  novaReadInstance(server: ServerReference & InCloud): Promise<InstanceReading>;
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
  clouds: others = {},
  shutdownSignal = new AbortController().signal,
}: NovaActivitiesOptions): NovaActivities {
  setMaxListeners(0, shutdownSignal); // one for each watch
  const clouds = new Clouds(compute, others, shutdownSignal);

  /** Chooses the cloud; and the one place where an error of its client becomes Temporal's failure. */
  async function at<T>(
    request: InCloud & Partial<ServerReference> & Pick<FailureDetails, 'mayExist'>,
    work: (cloud: Cloud) => Promise<T>,
    within?: number,
  ): Promise<T> {
    const cloud = clouds.choose(request);
    try {
      return await work(cloud);
    } catch (error) {
      if (!(error instanceof NovaError)) throw error;
      if (error.retryable) countRetry(error, cloud.label);
      const { attempt } = Context.current().info;
      throw toApplicationFailure(error, { attempt, serverId: request.serverId, within });
    }
  }

  return {
    novaCreateServer: (request) =>
      at(request, (cloud) => createServer(cloud, request), timeLeft(request, Context.current().info)),
    novaFindServer: (creation) =>
      at(creation, async ({ compute }) => {
        const server = await withHeartbeat(() => findServer(compute, creation, Context.current().cancellationSignal));
        return server && { serverId: server.id, ...toLook(server) };
      }),
    novaWatchServer: (request) => at(request, (cloud) => watchServer(cloud, request, shutdownSignal)),
    novaGetServer: (server) =>
      at(server, async ({ shared }) => {
        const found = await shared.look(server.serverId, Context.current().cancellationSignal);
        return found && toLook(found);
      }),
    novaDeleteServer: (server) =>
      at(server, ({ compute }) =>
        withHeartbeat(async () => {
          try {
            const { requestId } = await compute.deleteServer(server.serverId);
            Context.current().log.info('Nova took DELETE', { serverId: server.serverId, requestId });
          } catch (error) {
            if (!(error instanceof NovaError && error.kind === 'NotFound')) throw error;
          }
        }),
      ),
    novaReadInstance: (server) =>
      at(server, ({ compute, shared }) => withHeartbeat(() => readInstance(compute, shared, server.serverId))),
    novaServerAction: (request) => at(request, ({ compute }) => takeAction(compute, request)),
  };
}
