import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { startCreateServer, startRecoverInstance } from '../src/client';
import { SimulatedCloud } from '../src/simulator';
import { eventually, FAST, serverIdOf } from './support/bed';
import { connect, uniqueTaskQueue, type TestTemporal } from './support/temporal';
import { WorkerProcess } from './support/worker-process';

let temporal: TestTemporal;
let cloud: SimulatedCloud;
let env: Record<string, string>;
const workers: WorkerProcess[] = [];

beforeEach(async () => {
  temporal ??= await connect();
  cloud = await SimulatedCloud.start({ buildSeconds: Infinity });
  env = {
    ...cloud.env(),
    TEMPORAL_ADDRESS: temporal.address,
    TEMPORAL_NAMESPACE: temporal.namespace,
    TEMPORAL_TASK_QUEUE: uniqueTaskQueue(),
  };
});
afterEach(async () => {
  await Promise.all(workers.splice(0).map((worker) => worker.end()));
  await cloud.stop();
});
afterAll(() => temporal.close());

async function polling(more: Record<string, string> = {}): Promise<WorkerProcess> {
  const worker = await WorkerProcess.polling({ ...env, ...more });
  workers.push(worker);
  return worker;
}

function start(more: Record<string, string>): WorkerProcess {
  const worker = new WorkerProcess(Object.fromEntries(Object.entries({ ...env, ...more }).filter(([, v]) => v !== '')));
  workers.push(worker);
  return worker;
}

function create() {
  const { flavorId, imageId } = cloud;
  return startCreateServer(
    temporal.client,
    { server: { name: 'web-1', flavorRef: flavorId, imageRef: imageId, networks: 'none' }, polling: FAST },
    { workflowId: `worker-${env.TEMPORAL_TASK_QUEUE}`, taskQueue: env.TEMPORAL_TASK_QUEUE },
  );
}

describe('a worker killed by SIGKILL', () => {
  test('between POST and its answer: another one adopts the server, there is one', async () => {
    const first = await polling();
    const lost = cloud.inject({ method: 'POST', path: /\/servers$/, carriedOut: true, hang: true });
    const handle = await create();
    await eventually(() => lost.hits === 1 && cloud.servers().length === 1);
    first.kill('SIGKILL');
    await polling();
    const id = await serverIdOf(handle);
    cloud.finishBuild(id);
    expect((await handle.result()).serverId).toBe(id);
    expect(cloud.servers()).toHaveLength(1);
  });

  test('while the server builds: another one sees ACTIVE within seconds', async () => {
    const first = await polling();
    const handle = await create();
    const id = await serverIdOf(handle);
    await polling();
    first.kill('SIGKILL');
    cloud.finishBuild(id);
    const active = Date.now();
    expect((await handle.result()).serverId).toBe(id);
    // The heartbeat timeout of a young watch is 5 s, the sticky queue's 1 s.
    expect(Date.now() - active).toBeLessThan(10_000);
    expect(cloud.servers()).toHaveLength(1);
  });
});

describe('a worker killed by SIGKILL in the middle of a recovery: one stop, one start, recovered', () => {
  const actions = (id: string) => cloud.server(id).actions.map(({ action }) => action);

  async function recovery(kill: (id: string) => Promise<unknown>): Promise<void> {
    cloud.setTimes({ buildSeconds: 0, actionSeconds: 2 });
    const first = await polling();
    const { serverId } = await (await create()).result();
    const handle = await startRecoverInstance(
      temporal.client,
      { instanceId: serverId, polling: FAST },
      { taskQueue: env.TEMPORAL_TASK_QUEUE },
    );
    await kill(serverId);
    first.kill('SIGKILL');
    await polling();
    expect(await handle.result()).toMatchObject({ outcome: 'recovered', path: 'stop-start' });
    expect(actions(serverId)).toEqual(['create', 'stop', 'start']);
    expect(cloud.server(serverId)).toMatchObject({ vmState: 'active', taskState: null });
  }

  const lost = (key: string) =>
    cloud.inject({ method: 'POST', match: ({ body }) => body.includes(key), carriedOut: true, hang: true });

  test('when the stop was sent, and its answer never came', async () => {
    const stop = lost('os-stop');
    await recovery(() => eventually(() => stop.hits === 1));
  });

  test('when the stop was done', () => recovery((id) => eventually(() => cloud.server(id).vmState === 'stopped')));

  test('when the start was sent, and its answer never came', async () => {
    const start = lost('os-start');
    await recovery(() => eventually(() => start.hits === 1));
  });
});

test.each(['SIGTERM', 'SIGINT'] as const)(
  '%s: it gives its watches up, drains, exits 0, and another one goes on',
  async (signal) => {
    const first = await polling();
    const handle = await create();
    const id = await serverIdOf(handle);
    await eventually(async () => (await handle.describe()).raw.pendingActivities?.[0]?.lastStartedTime);
    const ended = Date.now();
    first.kill(signal);
    expect(await first.exit()).toBe(0);
    expect(Date.now() - ended).toBeLessThan(5_000);
    await polling();
    cloud.finishBuild(id);
    expect((await handle.result()).serverId).toBe(id);
  },
);

describe('bad configuration ends it non-zero within seconds, with one clear line', () => {
  const closed = 'http://127.0.0.1:1';
  test.each<[string, Record<string, string>, RegExp]>([
    ['no cloud', { OS_AUTH_URL: '', OS_USERNAME: '' }, /OS_AUTH_URL|OS_CLOUD/],
    ['a wrong password', { OS_PASSWORD: 'planted-wrong' }, /Keystone.*401|refused the login/],
    ['no password', { OS_PASSWORD: '' }, /OS_PASSWORD/],
    ['a cloud that clouds.yaml lacks', { OS_CLOUD: 'nowhere' }, /nowhere|clouds\.yaml/],
    ['a CA file that is not there', { OS_CACERT: '/nonexistent/ca.pem' }, /OS_CACERT/],
    ['a region that the catalog lacks', { OS_REGION_NAME: 'Mars' }, /Mars/],
    ['a microversion that Nova lacks', { OS_COMPUTE_API_VERSION: '2.999' }, /2\.999/],
    ['a microversion below 2.52', { OS_COMPUTE_API_VERSION: '2.40' }, /2\.40.*2\.52|2\.52.*2\.40/],
    [
      'a metrics address that is none',
      { TEMPORAL_METRICS_ADDRESS: 'metrics', OS_AUTH_URL: closed },
      /TEMPORAL_METRICS_ADDRESS/,
    ],
    [
      'a codec key that is none',
      { TEMPORAL_NOVA_CODEC_KEYS: 'k1:planted-wrong' },
      /_CODEC_KEYS: the key of entry 1 has 9/,
    ],
    [
      'a Temporal profile file that is not there',
      { TEMPORAL_CONFIG_FILE: '/nonexistent.toml', TEMPORAL_PROFILE: 'prod' },
      /Temporal/,
    ],
    ['a Temporal namespace that is not there', { TEMPORAL_NAMESPACE: 'nowhere-at-all' }, /nowhere-at-all/i],
  ])('%s', async (_name, more, words) => {
    const began = Date.now();
    const worker = start(more);
    expect(await worker.exit()).toBe(1);
    expect(Date.now() - began).toBeLessThan(10_000);
    const lines = worker.output
      .trim()
      .split('\n')
      .filter((line) => /"level":[56]0/.test(line));
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(words);
    expect(worker.output).not.toContain('planted-wrong');
    expect(worker.output).not.toMatch(/\n\s+at /);
  });
});

describe('what is down does not end it', () => {
  test('Keystone: it says so, polls, and goes on when Keystone is back', async () => {
    await cloud.goAway();
    const worker = await polling();
    expect(worker.output).toMatch(/can't be reached, trying again/);
    await cloud.comeBack();
    const handle = await create();
    cloud.finishBuild(await serverIdOf(handle));
    await handle.result();
  });

  test('Temporal: it says so and keeps trying', async () => {
    // A port that nobody listens on.
    const holder = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => holder.once('listening', resolve));
    const { port } = holder.address() as AddressInfo;
    await new Promise((resolve) => holder.close(resolve));
    const worker = start({ TEMPORAL_ADDRESS: `127.0.0.1:${port}` });
    await eventually(() => /Temporal at .* can't be reached, trying again/.test(worker.output));
    expect(worker.running).toBe(true);
    worker.kill('SIGTERM');
    expect(await worker.exit()).toBe(0);
  });
});

test('metrics are served where TEMPORAL_METRICS_ADDRESS says', async () => {
  const holder = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => holder.once('listening', resolve));
  const { port } = holder.address() as AddressInfo;
  await new Promise((resolve) => holder.close(resolve));
  await polling({ TEMPORAL_METRICS_ADDRESS: String(port) });
  const text = await eventually(async () => {
    const body = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    return body.includes('temporal_') && body;
  });
  expect(text).toMatch(/temporal_\w+\{/);
});
