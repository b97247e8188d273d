/** Several clouds in one worker: an input chooses one by name, and nothing of one reaches another. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { Worker } from '@temporalio/worker';
import type * as Package from '../src';
import {
  startCreateServer,
  startRecoverInstance,
  type CreateServerInput,
  type RecoverInstanceInput,
} from '../src/client';
import { createComputeClient, loadCloudConfig } from '../src/nova';
import { SimulatedCloud } from '../src/simulator';
import { createNovaWorker } from '../src/worker';
import { checkCreateServerInput } from '../src/workflows/create-server-input';
import { checkRecoverInstanceInput } from '../src/workflows/recover-instance-input';
import { eventually, failureOf, FAST, progress, serverIdOf } from './support/bed';
import { runFolder } from './support/run';
import { connect, uniqueTaskQueue, workflowBundle, type TestTemporal } from './support/temporal';
import { WorkerProcess } from './support/worker-process';

// As it is published: `npm test` builds it first.
// eslint-disable-next-line @typescript-eslint/no-require-imports
const { NovaPlugin } = require('../lib') as typeof Package;

let temporal: TestTemporal;
/** The worker's own cloud, and the one that it knows as `west`. */
let own: SimulatedCloud;
let west: SimulatedCloud;
let taskQueue: string;
let count = 0;

beforeAll(async () => {
  temporal = await connect();
});
beforeEach(async () => {
  taskQueue = uniqueTaskQueue();
  [own, west] = await Promise.all([
    SimulatedCloud.start({ buildSeconds: 0.3 }),
    SimulatedCloud.start({ buildSeconds: 0.3 }),
  ]);
});
afterEach(() => Promise.all([own.stop(), west.stop()]));
afterAll(() => temporal.close());

function create(cloud: 'own' | 'west', more: Partial<CreateServerInput> = {}) {
  const { flavorId, imageId } = cloud === 'own' ? own : west;
  const server = { name: `${cloud}-${++count}`, flavorRef: flavorId, imageRef: imageId, networks: 'none' as const };
  const input = { server, polling: FAST, ...(cloud === 'west' && { cloud }), ...more };
  return startCreateServer(temporal.client, input, { workflowId: `${server.name}-${taskQueue}`, taskQueue });
}

function recover(instanceId: string, more: Partial<RecoverInstanceInput> = {}) {
  return startRecoverInstance(temporal.client, { instanceId, polling: FAST, ...more }, { taskQueue });
}

const statuses = (cloud: SimulatedCloud) => cloud.servers().map(({ status }) => status);
const listsOf = (cloud: SimulatedCloud) =>
  cloud.requests.filter((request) => request.path.includes('changes-since')).length;

describe('a worker that knows another cloud', () => {
  let end: () => Promise<void>;

  beforeEach(async () => {
    const [compute, inWest] = [own, west].map((cloud) => createComputeClient(loadCloudConfig(cloud.env())));
    if (!compute || !inWest) throw new Error('no client');
    const shutdown = new AbortController();
    const worker = await createNovaWorker({
      connection: temporal.nativeConnection,
      namespace: temporal.namespace,
      taskQueue,
      compute,
      clouds: { west: inWest, home: compute },
      shutdownSignal: shutdown.signal,
      workflows: { workflowBundle: await workflowBundle() },
    });
    const running = worker.run();
    end = async () => {
      shutdown.abort();
      worker.shutdown();
      await running;
      compute.close();
      inWest.close();
    };
  });
  afterEach(() => end());

  test('creates, deletes and recovers in the cloud that the input names, and else in its own', async () => {
    const inWest = await (await create('west')).result();
    expect(west.server(inWest.serverId).status).toBe('ACTIVE');
    expect(own.servers()).toEqual([]);
    await (await create('own')).result();
    await (await create('own', { cloud: 'home' })).result();
    expect(own.servers()).toHaveLength(2);

    const recovered = await (await recover(inWest.serverId, { cloud: 'west' })).result();
    expect(recovered).toMatchObject({ outcome: 'recovered', path: 'stop-start' });
    expect(west.server(inWest.serverId).actions.map(({ action }) => action)).toEqual(['create', 'stop', 'start']);
    expect(await (await recover(inWest.serverId)).result()).toMatchObject({ reason: 'not-found' });

    west.setTimes({ buildSeconds: Infinity });
    const failing = await create('west', { onFailure: 'delete' });
    west.failBuild(await serverIdOf(failing));
    expect(await failureOf(failing)).toMatchObject({ type: 'ServerInError' });
    expect(statuses(west)).toEqual(['ACTIVE']);

    // The last look at the deadline.
    expect(await failureOf(await create('west', { timeout: 500 }))).toMatchObject({ type: 'ServerWaitTimeout' });
    expect(own.servers()).toHaveLength(2);
  });

  test('looks up the tag of a POST whose answer was lost where it went', async () => {
    west.setTimes({ buildSeconds: 0 });
    const lost = { method: 'POST', path: /\/servers$/, carriedOut: true, reset: true };
    west.inject(lost);
    expect((await (await create('west')).result()).serverId).toBe(west.servers()[0]?.id);

    // At the deadline, when nothing was found out before.
    west.inject(lost);
    west.inject({ path: /tags=/, answer: { status: 503 } });
    await (await create('west', { timeout: 1_500 })).result();
    expect(statuses(west)).toEqual(['ACTIVE', 'ACTIVE']);
    expect(own.requestsReceived).toBe(0);
  });

  test('shares the looks of each cloud by itself, and says in which one a workflow is', async () => {
    for (const cloud of [own, west]) cloud.setTimes({ buildSeconds: Infinity });
    const handles = await Promise.all((['own', 'west'] as const).flatMap((c) => [create(c), create(c), create(c)]));
    await eventually(() => listsOf(own) > 0 && listsOf(west) > 0);
    const last = handles[5];
    if (!last) throw new Error('none');
    expect(await progress(last)).toMatchObject({ phase: 'waiting', cloud: 'west' });
    const { currentDetails } = await last.query<{ currentDetails: string }>('__temporal_workflow_metadata');
    expect(currentDetails).toContain('cloud `west`');
    const { raw, memo } = await last.describe();
    expect(Buffer.from(raw.executionConfig?.userMetadata?.details?.data ?? []).toString()).toContain('cloud `west`');
    expect(memo).toMatchObject({ cloud: 'west' });

    for (const cloud of [own, west]) for (const { id } of cloud.servers()) cloud.finishBuild(id);
    await Promise.all(handles.map((handle) => handle.result()));
    expect([statuses(own), statuses(west)]).toEqual([Array(3).fill('ACTIVE'), Array(3).fill('ACTIVE')]);
  });

  test('goes on in one while the other is away', async () => {
    west.setTimes({ buildSeconds: Infinity });
    const waiting = await Promise.all(Array.from({ length: 6 }, () => create('west')));
    const ids = await Promise.all(waiting.map(serverIdOf));
    await west.goAway();
    // By then more looks have failed than it takes to hold back all others at that cloud.
    await Promise.all(
      waiting.map((handle) =>
        eventually(async () => ((await handle.describe()).raw.pendingActivities?.[0]?.attempt ?? 0) > 1),
      ),
    );
    const began = Date.now();
    await (await create('own')).result();
    expect(Date.now() - began).toBeLessThan(1_500);
    await west.comeBack();
    for (const id of ids) west.finishBuild(id);
    await Promise.all(waiting.map((handle) => handle.signal('wake')));
    await Promise.all(waiting.map((handle) => handle.result()));
  });

  test.each<[string, RegExp]>([
    ['east', /Invalid input: cloud is "east", which this worker does not know; it knows home, west\.$/],
    ['__proto__', /cloud is "__proto__"/],
    ['http://169.254.169.254/', /does not know/],
  ])('fails with InvalidInput for the cloud %s, and asks none', async (cloud, message) => {
    const creation = await create('west', { cloud });
    const recovery = await recover('5f2a6ac8-5f5a-4bb4-9c5b-5d9a3a4a5e0b', { cloud, dryRun: true });
    for (const handle of [creation, recovery]) {
      expect(await failureOf(handle)).toMatchObject({
        type: 'InvalidInput',
        nonRetryable: true,
        message: expect.stringMatching(message) as string,
      });
    }
    expect(own.requestsReceived + west.requestsReceived).toBe(0);
  });
});

test.each([
  ['a number', 5],
  ['an empty text', ''],
  ['256 characters long', 'x'.repeat(256)],
  ['null', null],
  ['a list', ['west']],
])('a cloud that is %s is refused before anything is asked', (_what, cloud) => {
  const instanceId = '5f2a6ac8-5f5a-4bb4-9c5b-5d9a3a4a5e0b';
  const words = /^Invalid input: cloud must /;
  expect(() => checkCreateServerInput({ server: {}, cloud })).toThrow(words);
  expect(() => checkRecoverInstanceInput({ instanceId, cloud })).toThrow(words);
});

test('NovaPlugin takes clouds by name; a wrong one ends Worker.create with a line that names it', async () => {
  const options = { connection: temporal.nativeConnection, namespace: temporal.namespace, taskQueue };
  const plugin = new NovaPlugin({ cloud: own.env(), clouds: { west: west.env() } });
  await (
    await Worker.create({ ...options, plugins: [plugin] })
  ).runUntil(async () => {
    await (await create('west')).result();
    await (await create('own')).result();
  });
  expect([own.servers().length, west.servers().length]).toEqual([1, 1]);

  const wrong = new NovaPlugin({ cloud: own.env(), clouds: { west: { ...west.env(), OS_AUTH_URL: 'nonsense' } } });
  await expect(Worker.create({ ...options, plugins: [wrong] })).rejects.toThrow(/^cloud "west": OS_AUTH_URL is not/);
});

describe('a worker process with TEMPORAL_NOVA_CLOUDS', () => {
  const workers: WorkerProcess[] = [];
  afterEach(() => Promise.all(workers.splice(0).map((worker) => worker.end())));

  /** Its own cloud by OS_* variables, `west` by clouds.yaml. */
  function settings(more: Record<string, string> = {}, auth: Record<string, string> = {}): Record<string, string> {
    const { OS_AUTH_URL, OS_USERNAME, OS_PASSWORD, OS_PROJECT_NAME } = west.env();
    const domains = { user_domain_name: 'Default', project_domain_name: 'Default' };
    const login = {
      auth_url: OS_AUTH_URL,
      username: OS_USERNAME,
      password: OS_PASSWORD,
      project_name: OS_PROJECT_NAME,
    };
    const file = path.join(runFolder(), `clouds-${taskQueue}.yaml`);
    writeFileSync(file, JSON.stringify({ clouds: { west: { auth: { ...login, ...domains, ...auth } } } }));
    return {
      ...own.env(),
      OS_CLIENT_CONFIG_FILE: file,
      TEMPORAL_NOVA_CLOUDS: 'west',
      TEMPORAL_ADDRESS: temporal.address,
      TEMPORAL_NAMESPACE: temporal.namespace,
      TEMPORAL_TASK_QUEUE: taskQueue,
      ...more,
    };
  }

  async function polling(env: Record<string, string>): Promise<WorkerProcess> {
    const worker = await WorkerProcess.polling(env);
    workers.push(worker);
    return worker;
  }

  test('and the command line: no OS_* variable of one cloud is taken for another', async () => {
    const env = settings();
    const worker = await polling(env);
    expect(worker.output).toMatch(/logged in to OpenStack of cloud \\"west\\"/);
    await (await create('own')).result();

    const { PATH, HOME } = process.env;
    const cli = path.join(__dirname, '../lib/cli.js');
    const names = ['--name', 'web-1', '--flavor', 'm1.nano', '--image', 'tiny', '--network', 'none'];
    const command = spawn(process.execPath, [cli, 'create', ...names, '--cloud', 'west', '--wait'], {
      env: { PATH, HOME, ...env },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    expect(await once(command, 'exit')).toEqual([0, null]);
    expect([own.servers().length, west.servers().map(({ name }) => name)]).toEqual([1, ['web-1']]);
  });

  test('polls while one of them is away, and says so', async () => {
    await west.goAway();
    const worker = await polling(settings());
    expect(worker.output).toMatch(/OpenStack of cloud \\"west\\" can't be reached, trying again/);
    await (await create('own')).result();
  });

  test.each<[string, () => Record<string, string>, RegExp]>([
    [
      'a name that clouds.yaml lacks',
      () => settings({ TEMPORAL_NOVA_CLOUDS: 'west,nowhere' }),
      /nowhere.*it has: west/,
    ],
    ['a name that is empty', () => settings({ TEMPORAL_NOVA_CLOUDS: 'west,' }), /TEMPORAL_NOVA_CLOUDS must be/],
    ['a wrong password', () => settings({}, { password: 'planted-wrong' }), /cloud \\"west\\": .*login was refused/],
  ])('ends with one clear line for %s', async (_name, env, words) => {
    const worker = new WorkerProcess(env());
    workers.push(worker);
    expect(await worker.exit()).toBe(1);
    const lines = worker.output.split('\n').filter((line) => /"level":[56]0/.test(line));
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(words);
    expect(worker.output).not.toContain('planted-wrong');
  });
});
