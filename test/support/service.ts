/** A worker with the real workflows and activities, as one user of a cloud. */
import type { Worker } from '@temporalio/worker';
import { createComputeClient, loadCloudConfig, type ComputeClient } from '../../src/nova';
import { createNovaWorker } from '../../src/worker';
import { uniqueTaskQueue, workflowBundle, type TestTemporal } from './temporal';

export interface Service {
  taskQueue: string;
  worker: Worker;
  running: Promise<void>;
  compute: ComputeClient;
}

export async function startService(
  { nativeConnection, namespace }: Pick<TestTemporal, 'nativeConnection' | 'namespace'>,
  environment: NodeJS.ProcessEnv,
  shutdownSignal: AbortSignal,
): Promise<Service> {
  const compute = createComputeClient(loadCloudConfig(environment));
  const taskQueue = uniqueTaskQueue();
  const worker = await createNovaWorker({
    connection: nativeConnection,
    namespace,
    taskQueue,
    compute,
    shutdownSignal,
    workflows: { workflowBundle: await workflowBundle() },
  });
  return { taskQueue, worker, running: worker.run(), compute };
}

export async function endService({ worker, running, compute }: Service): Promise<void> {
  worker.shutdown();
  await running;
  compute.close();
}
