import { Worker } from '@temporalio/worker';
import { connect, describeTimeSkipping, timeSkipping, uniqueTaskQueue, type TestTemporal } from './temporal';

const HOUR_MS = 3_600_000;
const workflowsPath = require.resolve('./temporal.test.workflows');

describe('the Temporal server of the run', () => {
  let temporal: TestTemporal;
  beforeAll(async () => {
    temporal = await connect();
  });
  afterAll(() => temporal.close());

  it('runs a workflow, whose short timer is not stretched to a second', async () => {
    const { client, nativeConnection: connection, namespace } = temporal;
    const taskQueue = uniqueTaskQueue();
    const worker = await Worker.create({ connection, namespace, taskQueue, workflowsPath });
    const took = await worker.runUntil(async () => {
      await client.workflow.execute('sleeps', { taskQueue, workflowId: taskQueue, args: [1, 1] });
      const started = Date.now();
      await client.workflow.execute('sleeps', { taskQueue, workflowId: taskQueue, args: [10, 20] });
      return Date.now() - started;
    });
    expect(took).toBeLessThan(5_000);
  });
});

describeTimeSkipping('a time-skipping server', () => {
  it('sleeps 48 hours in seconds', async () => {
    const environment = await timeSkipping();
    const taskQueue = uniqueTaskQueue();
    try {
      const worker = await Worker.create({ connection: environment.nativeConnection, taskQueue, workflowsPath });
      const started = Date.now();
      const options = { taskQueue, workflowId: taskQueue, args: [48, HOUR_MS] };
      const slept = await worker.runUntil(
        environment.client.workflow.execute<() => Promise<number>>('sleeps', options as never),
      );
      expect(slept).toBeGreaterThanOrEqual(48 * HOUR_MS);
      expect(Date.now() - started).toBeLessThan(20_000);
    } finally {
      await environment.teardown();
    }
  });
});
