/** All that a demo runs: a Temporal server, a cloud, a worker, and the workflows on them. */
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Connection, type ConnectionOptions, type WorkflowHandle } from '@temporalio/client';
import { loadClientConnectConfig } from '@temporalio/envconfig';
import { follow, type Followed, type Outcome, type View } from '../cli/follow';
import { Temporal } from '../cli/temporal';
import {
  DEFAULT_TASK_QUEUE,
  startCreateServer,
  startRecoverInstance,
  type CreateServerResult,
  type RecoverInstanceInput,
  type RecoverInstanceResult,
} from '../client';
import { loadCodecKeys } from '../codec';
import { realCloud, simulatedCloud, type DemoCloud } from './cloud';
import type { DemoOptions } from './options';
import type { OwnedProcess } from './owned-process';
import { startTemporalServer, type TemporalServer } from './temporal-server';
import type { Log } from './tool-cache';
import { startWorker } from './worker-process';

/** Often enough to see each phase of a recovery on the simulated cloud. */
const LOOK_EVERY_MS = 150;
/** How long an interrupted workflow may take to leave a real cloud in order: to delete its server, or start it again. */
const CLEAN_UP_WITHIN_MS = 90_000;

/** A file that is not there is taken for an empty one; the user's own could name another server. */
const NO_FILE = path.join(__dirname, 'no-temporal.toml');

export interface DemoWorkflow<T = unknown> {
  /** The server's. */
  name: string;
  workflowId: string;
  /** The workflow in the Web UI. */
  link: string | undefined;
  handle: Followed<T> & Pick<WorkflowHandle, 'cancel' | 'terminate' | 'describe'>;
  /** Shows it until it, or the demo, ends. */
  follow(view: View): Promise<Outcome<T>>;
}

export class DemoSession {
  cloud!: DemoCloud;
  temporal!: TemporalServer;
  taskQueue!: string;
  private connected!: Temporal;
  private worker: OwnedProcess | undefined;
  private readonly id = new Date().toISOString().slice(0, 19).replace(/[-:]/g, '').replace('T', '-');
  private readonly running = new Map<DemoWorkflow, Promise<unknown>>();
  /** Names by id, of those that were created. */
  private readonly servers = new Map<string, string>();
  private creations = 0;
  private ending = false;
  /** Aborted when nobody follows workflows any more. */
  private readonly over = new AbortController();
  /** What is to be done at the end, newest first. */
  private readonly atEnd: (() => Promise<unknown>)[] = [];

  /** @param onFailure told when something that runs beside the workflows fails */
  constructor(
    private readonly options: DemoOptions,
    private readonly show: Log,
    private readonly onFailure: (error: Error) => void,
  ) {}

  /** Rejects when something can't be had; `end` then ends what was started. */
  async start(): Promise<void> {
    const { options, show } = this;
    this.cloud = options.cloud ? await realCloud(options, process.env) : await simulatedCloud(options.buildSeconds);
    this.atEnd.unshift(() => this.cloud.close());
    show(`Cloud      ${this.cloud.description}`);

    this.temporal = await startTemporalServer({ ui: true, log: show });
    this.atEnd.unshift(() => this.temporal.stop());
    const { address, uiUrl, namespace } = this.temporal;
    show(`Temporal   ${address}, namespace ${namespace}${uiUrl ? `, Web UI ${uiUrl}` : ''}`);
    // a Temporal server that others use too may have their workers, for other clouds
    this.taskQueue = this.ownsTemporal ? DEFAULT_TASK_QUEUE : `nova-demo-${this.id}`;
    const connection = await Connection.connect(this.connectionOptions());
    this.atEnd.unshift(() => connection.close());
    const where = { address, namespace, codecKeys: loadCodecKeys(), webUi: uiUrl };
    this.connected = new Temporal(connection, where, this.taskQueue);

    this.atEnd.unshift(() => this.worker?.stop(options.cloud ? 40_000 : 3_000) ?? Promise.resolve());
    await this.startWorker();
    show(`Worker     process ${this.worker?.child.pid}, polls task queue ${this.taskQueue}`);
  }

  /** Starts CreateServerWorkflow for one small server. */
  async create(name = `demo-${this.id}-${++this.creations}`): Promise<DemoWorkflow<CreateServerResult>> {
    this.refuseAtEnd();
    const input = {
      server: this.cloud.server(name),
      onFailure: this.options.keep ? ('keep' as const) : ('delete' as const),
    };
    const options = { workflowId: `create-${name}`, taskQueue: this.taskQueue };
    const handle = await startCreateServer(this.connected.client, input, options);
    return this.track(name, handle, handle.firstExecutionRunId, ({ serverId }) => this.servers.set(serverId, name));
  }

  /** Starts RecoverInstanceWorkflow, or joins the one that runs for that server. */
  async recover(input: RecoverInstanceInput): Promise<DemoWorkflow<RecoverInstanceResult>> {
    this.refuseAtEnd();
    const handle = await startRecoverInstance(this.connected.client, input, { taskQueue: this.taskQueue });
    const name = this.servers.get(input.instanceId) ?? input.instanceId;
    return this.track(name, handle, handle.signaledRunId);
  }

  /** Whoever goes on while the demo ends must not leave a workflow behind. */
  private refuseAtEnd(): void {
    if (this.ending) throw new Error('the demo is ending');
  }

  private async track<T>(
    name: string,
    handle: DemoWorkflow<T>['handle'] & { workflowId: string },
    runId: string,
    onResult: (result: T) => unknown = () => undefined,
  ): Promise<DemoWorkflow<T>> {
    const { workflowId } = handle;
    const { connected, taskQueue } = this;
    const workflow: DemoWorkflow<T> = {
      name,
      workflowId,
      link: await connected.page(workflowId, runId),
      handle,
      follow: (view) =>
        follow(connected, handle, { taskQueue, view, signal: this.over.signal, lookEveryMs: LOOK_EVERY_MS }),
    };
    // whoever follows it sees how it fails
    const ended = handle.result().then(onResult, () => undefined);
    this.running.set(workflow, ended);
    void ended.finally(() => this.running.delete(workflow));
    return workflow;
  }

  /** Kills the worker and starts another one. */
  async replaceWorker(): Promise<void> {
    const killed = this.worker;
    this.worker = undefined;
    killed?.kill();
    this.show(`killed worker process ${killed?.child.pid}`);
    await this.startWorker();
    this.show(`worker process ${this.worker!.child.pid} polls`);
  }

  /** Ends all that was started; deletes the servers it made on a real cloud, unless they are to be kept. */
  async end(): Promise<void> {
    this.ending = true;
    if (this.options.cloud && !this.options.keep) this.atEnd.unshift(() => this.deleteServers());
    this.atEnd.unshift(() => this.endWorkflows().finally(() => this.over.abort()));
    for (const undo of this.atEnd.splice(0)) {
      await undo().catch((error: unknown) => this.show(error instanceof Error ? error.message : String(error)));
    }
  }

  private get ownsTemporal(): boolean {
    return this.temporal.pid !== undefined;
  }

  private connectionOptions(): ConnectionOptions {
    return this.ownsTemporal ? { address: this.temporal.address } : loadClientConnectConfig().connectionOptions;
  }

  private async startWorker(): Promise<void> {
    const worker = await startWorker(this.workerEnv(), (line) => {
      if (!this.ending) this.show(line); // what is cut short at the end is no news
    });
    this.worker = worker;
    void worker.ended.then((how) => {
      if (this.worker === worker && !this.ending) this.onFailure(new Error(`the worker ended (${how})`));
    });
  }

  /** A server of our own is plain and local, whatever TEMPORAL_* settings and files say of another one. */
  private workerEnv(): NodeJS.ProcessEnv {
    const { address, namespace } = this.temporal;
    const inherited = Object.entries(process.env).filter(
      ([name]) => !name.startsWith('OS_') && !(this.ownsTemporal && /^TEMPORAL_(?!NOVA_)/.test(name)),
    );
    return {
      ...Object.fromEntries(inherited),
      ...this.cloud.env,
      ...(this.ownsTemporal && { TEMPORAL_CONFIG_FILE: NO_FILE, TEMPORAL_ADDRESS: address }),
      TEMPORAL_NAMESPACE: namespace,
      TEMPORAL_TASK_QUEUE: this.taskQueue,
      LOG_LEVEL: 'info', // that it polls is read from its log
    };
  }

  /** No workflow is left half-way where its cloud or its Temporal server outlasts the demo. */
  private async endWorkflows(): Promise<void> {
    for (const [{ handle, workflowId }, ended] of this.running) {
      if (this.options.cloud) {
        this.show(`Cancelling ${workflowId}`);
        await handle.cancel();
        await Promise.race([ended, sleep(CLEAN_UP_WITHIN_MS)]);
      } else if (!this.ownsTemporal) {
        await handle.terminate('The demo, and its simulated cloud, have ended');
      }
    }
  }

  private async deleteServers(): Promise<void> {
    for (const id of this.servers.keys()) {
      await this.cloud.deleteServer(id);
      this.show(`Deleted    server ${id}`);
    }
  }
}
