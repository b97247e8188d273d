import { bundleWorkflowCode, DefaultLogger, Worker, type WorkerOptions } from '@temporalio/worker';
import type * as Package from '../src';
import { startCreateServer } from '../src/client';
import { SimulatedCloud } from '../src/simulator';
import { eventually, serverIdOf } from './support/bed';
import { connect, uniqueTaskQueue, type TestTemporal } from './support/temporal';

// As it is published: `npm test` builds it first.
// eslint-disable-next-line @typescript-eslint/no-require-imports
const { NovaPlugin } = require('../lib') as typeof Package;

const ownPath = require.resolve('./support/plugin.workflows');
const reexportPath = require.resolve('./support/plugin.workflows.reexport');

let temporal: TestTemporal;
let cloud: SimulatedCloud;
let taskQueue: string;

beforeAll(async () => {
  temporal = await connect();
  cloud = await SimulatedCloud.start({ buildSeconds: 0.2 });
});
afterAll(async () => {
  await cloud.stop();
  await temporal.close();
});
beforeEach(() => {
  taskQueue = uniqueTaskQueue();
});

function worker(options: Partial<WorkerOptions>): Promise<Worker> {
  const { nativeConnection: connection, namespace } = temporal;
  return Worker.create({ connection, namespace, taskQueue, ...options });
}

function create(id = `plugin-${taskQueue}`) {
  const { flavorId, imageId } = cloud;
  return startCreateServer(
    temporal.client,
    { server: { name: 'web-1', flavorRef: flavorId, imageRef: imageId, networks: 'none' } },
    { workflowId: id, taskQueue },
  );
}

async function createsAServer(): Promise<void> {
  expect((await (await create()).result()).status).toBe('ACTIVE');
}

async function greets(): Promise<void> {
  const options = { taskQueue, workflowId: `greet-${taskQueue}`, args: ['you'] };
  expect(await temporal.client.workflow.execute('greet', options)).toBe('hello you');
}

const plugin = () => new NovaPlugin({ cloud: cloud.env() });

test('alone, it brings the workflows and the activities', async () => {
  await (await worker({ plugins: [plugin()] })).runUntil(createsAServer);
});

test.each([
  ['of their own', ownPath],
  ['that re-export ours', reexportPath],
])('beside workflows %s', async (_what, workflowsPath) => {
  const both = await worker({ plugins: [plugin()], workflowsPath, activities: { mine: () => Promise.resolve() } });
  expect([...both.options.activities.keys()]).toEqual(expect.arrayContaining(['mine', 'novaWatchServer']));
  await both.runUntil(() => Promise.all([createsAServer(), greets()]));
});

test('with a bundle that was made with it, where no cloud is known', async () => {
  const logger = new DefaultLogger('ERROR');
  const workflowBundle = await bundleWorkflowCode({ plugins: [new NovaPlugin()], workflowsPath: ownPath, logger });
  await (
    await worker({ plugins: [plugin()], workflowBundle })
  ).runUntil(() => Promise.all([createsAServer(), greets()]));
});

test('activities alone, for workflows that run in another worker', async () => {
  const activities = await worker({ plugins: [new NovaPlugin({ cloud: cloud.env(), workflows: false })] });
  const { nativeConnection: connection, namespace } = temporal;
  const { codePath } = { codePath: require.resolve('../lib/workflow-bundle.js') };
  const workflows = await Worker.create({ connection, namespace, taskQueue, workflowBundle: { codePath } });
  await activities.runUntil(() => workflows.runUntil(createsAServer));
});

test('a cloud that is not configured ends Worker.create with one clear line', async () => {
  await expect(worker({ plugins: [new NovaPlugin({ cloud: { OS_AUTH_URL: 'nonsense' } })] })).rejects.toThrow(
    /OS_AUTH_URL/,
  );
  await expect(worker({ plugins: [new NovaPlugin({ cloud: 'nowhere' })] })).rejects.toThrow(/nowhere|clouds\.yaml/);
});

test('a shutdown gives the watches up for another worker', async () => {
  cloud.setTimes({ buildSeconds: Infinity });
  const first = await worker({ plugins: [plugin()] });
  const running = first.run();
  const handle = await create();
  const id = await serverIdOf(handle);
  await eventually(async () => (await handle.describe()).raw.pendingActivities?.[0]?.lastStartedTime);
  const began = Date.now();
  first.shutdown();
  await running;
  expect(Date.now() - began).toBeLessThan(5_000);
  const second = await worker({ plugins: [plugin()] });
  cloud.finishBuild(id);
  expect((await second.runUntil(handle.result())).serverId).toBe(id);
});
