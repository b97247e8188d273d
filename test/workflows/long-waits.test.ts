import type { TestWorkflowEnvironment } from '@temporalio/testing';
import type { Worker } from '@temporalio/worker';
import { createComputeClient, loadCloudConfig, type ComputeClient } from '../../src/nova';
import { SimulatedCloud } from '../../src/simulator';
import { createNovaWorker } from '../../src/worker';
import { startCreateServer, type CreateServerInput } from '../../src/client';
import { describeTimeSkipping, timeSkipping, workflowBundle } from '../support/temporal';

/** A wait of hours in seconds of test time: timers are skipped, looks are real. Those of days: test/chaos/long-waits.test.ts. */
describeTimeSkipping('a long wait', () => {
  let env: TestWorkflowEnvironment;
  let cloud: SimulatedCloud;
  let compute: ComputeClient;
  let worker: Worker;
  let running: Promise<void>;
  const shutdown = new AbortController();

  beforeAll(async () => {
    env = await timeSkipping();
    cloud = await SimulatedCloud.start({ buildSeconds: Infinity });
    compute = createComputeClient(loadCloudConfig(cloud.env()));
    worker = await createNovaWorker({
      connection: env.nativeConnection,
      namespace: env.namespace ?? 'default',
      taskQueue: 'long',
      compute,
      shutdownSignal: shutdown.signal,
      workflows: { workflowBundle: await workflowBundle() },
    });
    running = worker.run();
  });
  afterAll(async () => {
    shutdown.abort();
    worker?.shutdown();
    await running;
    compute?.close();
    await cloud?.stop();
    await env?.teardown();
  });

  function start(workflowId: string, input: Partial<CreateServerInput>) {
    const server = { name: workflowId, flavorRef: cloud.flavorId, imageRef: cloud.imageId, networks: 'none' as const };
    return startCreateServer(env.client, { server, ...input }, { workflowId, taskQueue: 'long' });
  }

  /** Ends the build of the server of that name once Nova was asked `looks` times for it. */
  function finishAfter(name: string, looks: number): void {
    let seen = 0;
    cloud.inject({
      method: 'GET',
      times: Infinity,
      match: ({ path }) => {
        const server = cloud.servers().find((candidate) => candidate.name === name);
        if (server && path.endsWith(server.id) && ++seen === looks) cloud.finishBuild(server.id);
        return false;
      },
    });
  }

  test('of 6 hours ends when the server is up', async () => {
    finishAfter('six-hours', 6 * 12);
    const handle = await start('six-hours', {
      timeout: '12h',
      polling: { initialInterval: '5m', maximumInterval: '5m' },
    });
    const { status } = await handle.result();
    expect(status).toBe('ACTIVE');
    const { startTime, closeTime } = await handle.describe();
    const hours = ((closeTime?.getTime() ?? 0) - startTime.getTime()) / 3_600_000;
    expect(hours).toBeGreaterThan(5.5);
    expect(hours).toBeLessThan(6.5);
  });
});
