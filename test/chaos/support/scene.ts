/**
 * A Temporal server of the scene's own; a simulated cloud; workers in processes of their own, as in production. All of
 * them can be killed, and what must hold in the end is asserted here.
 */
import { setMaxListeners } from 'node:events';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection, WorkflowExecutionAlreadyStartedError, type WorkflowHandle } from '@temporalio/client';
import { persistently } from '../../../src/cli/temporal';
import {
  startCreateServer,
  startRecoverInstance,
  type CreateServerInput,
  type CreateServerResult,
  type PollingOptions,
  type RecoverInstanceInput,
  type RecoverInstanceResult,
} from '../../../src/client';
import { startTemporalServer, type TemporalServer } from '../../../src/demo/temporal-server';
import { createComputeClient, loadCloudConfig } from '../../../src/nova';
import { SimulatedCloud, type SimulatedCloudOptions } from '../../../src/simulator';
import { runFolder } from '../../support/run';
import { WorkerProcess } from '../../support/worker-process';
import { Random } from './random';

export interface SceneOptions extends SimulatedCloudOptions {
  /** Default 2. */
  workers?: number;
  /** The Temporal server keeps its state in a file, so that it can be replaced. Default false: in memory. */
  database?: boolean;
}

interface Started<Result> {
  handle: Pick<WorkflowHandle, 'workflowId' | 'result'>;
  ended: Promise<Ended<Result>>;
}

/** How a workflow ended: with a result, or with what its failure says. */
export type Ended<Result> = { id: string; at: number } & ({ result: Result } | { failure: string });

const QUEUE = 'chaos';
const POLLING: PollingOptions = { initialInterval: '500ms', maximumInterval: '2s' };

export class Scene {
  readonly random: Random;
  readonly workers: (WorkerProcess | undefined)[] = [];
  readonly creations: Started<CreateServerResult>[] = [];
  readonly recoveries: Started<RecoverInstanceResult>[] = [];
  /** Servers that were there before. */
  instances: string[] = [];
  /** Settings of the workers beside the usual ones. */
  workerEnv: Record<string, string> = {};
  private readonly closing = new AbortController();

  private constructor(
    readonly name: string,
    readonly options: SceneOptions,
    readonly cloud: SimulatedCloud,
    private server: TemporalServer,
    readonly client: Client,
  ) {
    this.random = new Random(name);
  }

  static async open(name: string, options: SceneOptions = {}): Promise<Scene> {
    delete process.env.TEMPORAL_ADDRESS; // a server that somebody else uses is not to be killed
    const cloud = await SimulatedCloud.start({ powerSyncSeconds: Infinity, ...options });
    const server = await startServer(name, options);
    const connection = await Connection.connect({ address: server.address });
    const scene = new Scene(name, options, cloud, server, new Client({ connection }));
    setMaxListeners(0, scene.closing.signal); // one for each workflow
    await Promise.all(Array.from({ length: options.workers ?? 2 }, (_, i) => scene.startWorker(i)));
    return scene;
  }

  async close(): Promise<void> {
    if (this.closing.signal.aborted) return;
    this.closing.abort();
    for (const worker of this.workers) await worker?.end();
    await this.client.connection.close();
    await this.cloud.stop();
    await this.server.stop();
    await rm(databaseOf(this.name), { force: true });
  }

  // ---- workers and the Temporal server

  async startWorker(index: number, more: Record<string, string> = {}): Promise<WorkerProcess> {
    const worker = await WorkerProcess.polling({
      ...this.cloud.env(),
      TEMPORAL_ADDRESS: this.server.address,
      TEMPORAL_TASK_QUEUE: QUEUE,
      ...this.workerEnv,
      ...more,
    });
    this.workers[index] = worker;
    return worker;
  }

  /** SIGKILL, and another one in its place at once. */
  async replaceWorker(index: number): Promise<void> {
    await this.workers[index]?.end();
    if (!this.closing.signal.aborted) await this.startWorker(index);
  }

  /** SIGKILL, some moments without a server, and the same again on its database. */
  async replaceServer(downMs: number): Promise<void> {
    this.server.kill();
    await this.server.stop();
    await sleep(downMs);
    if (this.closing.signal.aborted) return;
    this.server = await startServer(this.name, this.options, Number(this.server.address.split(':')[1]));
  }

  // ---- workflows

  /** Servers to be recovered, made without a workflow; `metadata` may make their hypervisors slow. */
  async makeInstances(count: number, metadata: () => Record<string, string> = () => ({})): Promise<string[]> {
    const compute = createComputeClient(loadCloudConfig(this.cloud.env()));
    this.cloud.setTimes({ buildSeconds: 0 });
    try {
      for (let i = 0; i < count; i++) {
        const { id } = await compute.createServer(
          { ...this.request(`instance-${i}`), metadata: metadata() },
          { tags: [] },
        );
        this.instances.push(id);
      }
    } finally {
      compute.close();
      this.cloud.setTimes({ buildSeconds: this.options.buildSeconds ?? 1 });
    }
    return this.instances;
  }

  create(id: string, metadata: Record<string, string> = {}, input: Partial<CreateServerInput> = {}): Promise<void> {
    return this.start(this.creations, id, () =>
      startCreateServer(
        this.client,
        { server: { ...this.request(id), metadata }, polling: POLLING, ...input },
        { workflowId: id, taskQueue: QUEUE },
      ),
    );
  }

  /** Its hypervisor's process dies, and somebody reports it. */
  recover(instanceId: string, input: Partial<RecoverInstanceInput> = {}): Promise<void> {
    this.cloud.crash(instanceId);
    const notification = { event: 'LIFECYCLE', generatedTime: new Date().toISOString() };
    return this.start(this.recoveries, `recover-${instanceId}`, () =>
      startRecoverInstance(
        this.client,
        { instanceId, notification, polling: POLLING, ...input },
        { workflowId: `recover-${instanceId}`, taskQueue: QUEUE },
      ),
    );
  }

  private request(name: string): CreateServerInput['server'] {
    return { name, flavorRef: this.cloud.flavorId, imageRef: this.cloud.imageId, networks: 'none' };
  }

  /** Also where Temporal is away for now: as a service would, with the same id. */
  private async start<Result>(
    list: Started<Result>[],
    id: string,
    start: () => Promise<Pick<WorkflowHandle, 'workflowId' | 'result'>>,
  ): Promise<void> {
    const handle = await persistently(
      () =>
        start().catch((error: unknown) => {
          if (error instanceof WorkflowExecutionAlreadyStartedError) return this.client.workflow.getHandle(id);
          throw error;
        }),
      () => undefined,
    );
    const ended = persistently(
      () => this.client.withAbortSignal(this.closing.signal, () => handle.result() as Promise<Result>),
      () => undefined,
    ).then(
      (result) => ({ id, at: Date.now(), result }),
      (error: unknown) => ({ id, at: Date.now(), failure: String((error as Error).cause ?? error) }),
    );
    list.push({ handle, ended });
  }

  // ---- what must hold

  async allEnded(): Promise<{ creations: Ended<CreateServerResult>[]; recoveries: Ended<RecoverInstanceResult>[] }> {
    return {
      creations: await Promise.all(this.creations.map(({ ended }) => ended)),
      recoveries: await Promise.all(this.recoveries.map(({ ended }) => ended)),
    };
  }

  private async running(): Promise<string[]> {
    const ids: string[] = [];
    for await (const { workflowId } of this.client.workflow.list({ query: 'ExecutionStatus = "Running"' })) {
      ids.push(workflowId);
    }
    return ids;
  }

  /** How many have ended by now. */
  async ended(): Promise<number> {
    const pending = Symbol('pending');
    const ends = [...this.creations, ...this.recoveries].map(({ ended }) =>
      Promise.race([ended, Promise.resolve(pending)]),
    );
    return (await Promise.all(ends)).filter((end) => end !== pending).length;
  }

  /** Every workflow ended right; as many servers as creations; one stop and one start each; nothing left behind. */
  async expectAllRight(): Promise<void> {
    const { creations, recoveries } = await this.allEnded();
    expect(creations.filter((ended) => !('result' in ended && ended.result.status === 'ACTIVE'))).toEqual([]);
    expect(recoveries.filter((ended) => !('result' in ended && ended.result.outcome === 'recovered'))).toEqual([]);

    const made = this.cloud.servers({ deleted: true }).filter(({ id }) => !this.instances.includes(id));
    expect(made).toHaveLength(creations.length);
    const named = creations.map((ended) => ('result' in ended ? ended.result.serverId : ''));
    expect(named.sort()).toEqual(made.map(({ id }) => id).sort());

    const actions = (id: string) => this.cloud.server(id).actions.map(({ action }) => action);
    const recovered = recoveries.map(({ id }) => id.replace('recover-', ''));
    const wrong = recovered.filter((id) => actions(id).join() !== 'create,stop,start');
    expect(wrong.map((id) => [id, ...actions(id)])).toEqual([]);
    expect(recovered.filter((id) => this.cloud.server(id).vmState !== 'active')).toEqual([]);

    // Temporal's list is a moment behind.
    let left = await this.running();
    for (let i = 0; i < 100 && left.length > 0; i++) {
      await sleep(200);
      left = await this.running();
    }
    expect(left).toEqual([]);
  }
}

function databaseOf(name: string): string {
  return path.join(runFolder(), `${name}.sqlite`);
}

function startServer(name: string, { database }: SceneOptions, port = 0): Promise<TemporalServer> {
  return startTemporalServer({ port, ...(database && { dbFilename: databaseOf(name) }), log: () => undefined });
}

/** A figure of docs/reliability.md, printed as it is measured. */
export function report(line: string): void {
  process.stderr.write(`  ${line}\n`);
}
