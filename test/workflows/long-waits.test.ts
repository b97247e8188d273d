import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { SimulatedCloud } from '../../src/simulator';
import { startCreateServer, type CreateServerInput } from '../../src/client';
import { endService, startService, type Service } from '../support/service';
import { describeTimeSkipping, timeSkipping } from '../support/temporal';

/** A wait of hours in seconds of test time: timers are skipped, looks are real. Those of days: test/chaos/long-waits.test.ts. */
describeTimeSkipping('a long wait', () => {
  let env: TestWorkflowEnvironment;
  let cloud: SimulatedCloud;
  let service: Service;
  const shutdown = new AbortController();

  beforeAll(async () => {
    env = await timeSkipping();
    cloud = await SimulatedCloud.start({ buildSeconds: Infinity });
    const { nativeConnection, namespace = 'default' } = env;
    service = await startService({ nativeConnection, namespace }, cloud.env(), shutdown.signal);
  });
  afterAll(async () => {
    shutdown.abort();
    if (service) await endService(service);
    await cloud?.stop();
    await env?.teardown();
  });

  function start(workflowId: string, input: Partial<CreateServerInput>) {
    const server = { name: workflowId, flavorRef: cloud.flavorId, imageRef: cloud.imageId, networks: 'none' as const };
    return startCreateServer(env.client, { server, ...input }, { workflowId, taskQueue: service.taskQueue });
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
