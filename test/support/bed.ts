/** A worker with the real activities, a real Temporal server and a simulated cloud, for tests of workflows. */
import type { Client, WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure, WorkflowFailedError } from '@temporalio/client';
import type { Worker } from '@temporalio/worker';
import { startCreateServer } from '../../src/client';
import { createComputeClient, loadCloudConfig, type ComputeClient } from '../../src/nova';
import { SimulatedCloud, type SimulatedCloudOptions } from '../../src/simulator';
import { createNovaWorker } from '../../src/worker';
import type { CreateServerInput } from '../../src/workflows/create-server-input';
import type { WorkflowFailureDetails } from '../../src/workflows/failures';
import type { Progress } from '../../src/workflows/messages';
import { connect, uniqueTaskQueue, workflowBundle, type TestTemporal } from './temporal';

export interface FailedWorkflow {
  type: string | null | undefined;
  message: string;
  details: WorkflowFailureDetails;
  nonRetryable: boolean | null | undefined;
}

export class TestBed {
  readonly taskQueue = uniqueTaskQueue();
  private readonly workers: { worker: Worker; running: Promise<void>; shutdown: AbortController }[] = [];
  private readonly computes: ComputeClient[] = [];
  private count = 0;

  private constructor(
    readonly temporal: TestTemporal,
    readonly cloud: SimulatedCloud,
  ) {}

  /** A bed with one worker that polls, as the project's member `demo`. */
  static async make(
    options: SimulatedCloudOptions & { user?: 'admin' | 'demo'; requestTimeout?: number } = {},
  ): Promise<TestBed> {
    const bed = new TestBed(await connect(), await SimulatedCloud.start({ buildSeconds: 0.3, ...options }));
    await bed.addWorker(options.user, options.requestTimeout);
    return bed;
  }

  /** Another worker on the same cloud, as another user and on a task queue of its own. End it with `stopWorkers`. */
  async beside(user: 'admin' | 'demo'): Promise<TestBed> {
    const bed = new TestBed(this.temporal, this.cloud);
    await bed.addWorker(user);
    return bed;
  }

  get client(): Client {
    return this.temporal.client;
  }

  async addWorker(user: 'admin' | 'demo' = 'demo', timeoutMs?: number): Promise<void> {
    const compute = createComputeClient(loadCloudConfig(this.cloud.env(user)), { timeoutMs });
    const shutdown = new AbortController();
    const worker = await createNovaWorker({
      connection: this.temporal.nativeConnection,
      namespace: this.temporal.namespace,
      taskQueue: this.taskQueue,
      compute,
      shutdownSignal: shutdown.signal,
      workflows: { workflowBundle: await workflowBundle() },
    });
    this.computes.push(compute);
    this.workers.push({ worker, running: worker.run(), shutdown });
  }

  /** As SIGTERM does. */
  async stopWorkers(): Promise<void> {
    for (const { worker, shutdown } of this.workers) {
      shutdown.abort();
      if (worker.getState() === 'RUNNING') worker.shutdown();
    }
    await Promise.all(this.workers.map(({ running }) => running));
    this.workers.length = 0;
  }

  async stop(): Promise<void> {
    await this.stopWorkers();
    for (const compute of this.computes) compute.close();
    await this.cloud.stop();
    await this.temporal.close();
  }

  /** What a user sends for one small server. */
  server(extra: Record<string, unknown> = {}): CreateServerInput['server'] {
    const { flavorId, imageId } = this.cloud;
    return { name: 'web-1', flavorRef: flavorId, imageRef: imageId, networks: 'none', ...extra };
  }

  create(
    input: Partial<CreateServerInput> & Record<string, unknown> = {},
    workflowId = `create-${this.taskQueue}-${++this.count}`,
  ) {
    return startCreateServer(this.client, { server: this.server(), polling: FAST, ...input } as CreateServerInput, {
      workflowId,
      taskQueue: this.taskQueue,
    });
  }
}

/** Looks often, so that a test is over soon. */
export const FAST = { initialInterval: 50, maximumInterval: 100 };

export function progress(handle: Pick<WorkflowHandle, 'query'>): Promise<Progress> {
  return handle.query<Progress>('progress');
}

/** Resolves once `check` holds; asks every 20 ms. */
export async function eventually<T>(
  check: () => Promise<T | undefined | false> | T | undefined | false,
  within = 20_000,
): Promise<T> {
  const end = Date.now() + within;
  for (;;) {
    const value = await check();
    if (value !== undefined && value !== false) return value;
    if (Date.now() > end) throw new Error(`not within ${within / 1000} s: ${check.toString()}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** The server's id, from the workflow's own progress. */
export function serverIdOf(handle: Pick<WorkflowHandle, 'query'>): Promise<string> {
  return eventually(async () => (await progress(handle)).serverId ?? undefined);
}

/** How a workflow failed, as a client sees it: an ApplicationFailure at the top level, not one inside an activity's. */
export async function failureOf(handle: { result(): Promise<unknown> }): Promise<FailedWorkflow> {
  const error = await handle.result().then(
    (result) => new Error(`it did not fail, its result: ${JSON.stringify(result)}`),
    (reason: unknown) => reason,
  );
  if (!(error instanceof WorkflowFailedError)) throw error;
  const { cause } = error;
  if (!(cause instanceof ApplicationFailure)) throw new Error(`not an ApplicationFailure: ${String(cause)}`);
  const { type, message, nonRetryable } = cause;
  return { type, message, nonRetryable, details: (cause.details?.[0] ?? {}) as WorkflowFailureDetails };
}
