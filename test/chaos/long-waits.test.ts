/**
 * Waits of days: on a time-skipping server (timers are skipped, looks are real), and what happens where one run hands
 * over to the next, many times in a minute, on a real server that suggests it early.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection, type WorkflowHandle } from '@temporalio/client';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { NativeConnection } from '@temporalio/worker';
import { startCreateServer, startRecoverInstance, type CreateServerInput, type Phase } from '../../src/client';
import { startTemporalServer, type TemporalServer } from '../../src/demo/temporal-server';
import { createComputeClient, loadCloudConfig, type ComputeClient } from '../../src/nova';
import { SimulatedCloud } from '../../src/simulator';
import { createNovaWorker } from '../../src/worker';
import { eventually, failureOf, progress } from '../support/bed';
import { runsOf } from '../support/runs';
import { describeTimeSkipping, quietRuntime, timeSkipping, workflowBundle } from '../support/temporal';

// A server of its own, also where another one is named for the other tests: it has to suggest continue-as-new early.
delete process.env.TEMPORAL_ADDRESS;

const TASK_QUEUE = 'long-waits';
const HOUR = 3_600_000;
/** Temporal suggests continue-as-new from here on (`limit.historyCount.suggestContinueAsNew`); it ends a workflow at 51,200. */
const LONG_HISTORY = 4_096;

let cloud: SimulatedCloud;
let compute: ComputeClient;
let client: Client;
let stopWorker: () => Promise<void>;

async function startWorker(connection: NativeConnection): Promise<void> {
  const shutdown = new AbortController();
  const worker = await createNovaWorker({
    connection,
    namespace: 'default',
    taskQueue: TASK_QUEUE,
    compute,
    shutdownSignal: shutdown.signal,
    workflows: { workflowBundle: await workflowBundle() },
  });
  const running = worker.run();
  stopWorker = async () => {
    shutdown.abort();
    worker.shutdown();
    await running;
  };
}

beforeEach(async () => {
  cloud = await SimulatedCloud.start({ buildSeconds: Infinity, actionSeconds: 0.1 });
  compute = createComputeClient(loadCloudConfig(cloud.env('admin')));
});
/** What the tests of either server have to end, before they end that. */
async function stopAll(): Promise<void> {
  await stopWorker();
  compute.close();
  await cloud.stop();
}

function create(input: Partial<CreateServerInput>, workflowId = 'create') {
  const { flavorId, imageId } = cloud;
  return startCreateServer(
    client,
    { server: { name: 'web-1', flavorRef: flavorId, imageRef: imageId, networks: 'none' }, ...input },
    { workflowId, taskQueue: TASK_QUEUE },
  );
}

/** An instance that a recovery waits for: an image is being made of it. */
async function busyInstance(): Promise<string> {
  const { flavorId, imageId } = cloud;
  const request = { name: 'busy', flavorRef: flavorId, imageRef: imageId, networks: 'none' as const };
  const { id } = await compute.createServer(request, { tags: [] });
  cloud.finishBuild(id);
  cloud.setState(id, { taskState: 'image_uploading' });
  return id;
}

function actionsOf(instanceId: string): string[] {
  return cloud.server(instanceId).actions.map(({ action }) => action);
}

function handleOf(workflowId: string): WorkflowHandle {
  return client.workflow.getHandle(workflowId);
}

async function deadlineOf(handle: WorkflowHandle): Promise<number> {
  return Date.parse((await progress(handle)).deadline ?? '');
}

describeTimeSkipping('3 days', () => {
  const polling = { initialInterval: '5m', maximumInterval: '5m' } as const;
  const EXTENSIONS = 23;
  const EXTENSION = 600_000;
  let env: TestWorkflowEnvironment;

  beforeEach(async () => {
    env = await timeSkipping();
    client = env.client;
    await startWorker(env.nativeConnection);
  });
  afterEach(async () => {
    await stopAll();
    await env.teardown();
  });

  /** Days go by; every 3 hours somebody asks how it stands, extends the deadline by 10 minutes, and wakes it. */
  async function goBy(handle: WorkflowHandle, phase: Phase): Promise<void> {
    const first = await deadlineOf(handle);
    for (let step = 1; step <= EXTENSIONS; step++) {
      await env.sleep('3h');
      expect(await progress(handle)).toMatchObject({ phase, serverId: expect.any(String) as string });
      await handle.executeUpdate('extendTimeout', { args: [EXTENSION] });
      await handle.signal('wake');
      expect(await deadlineOf(handle)).toBe(first + step * EXTENSION);
    }
  }

  /** What holds of each run, once the last one has ended. */
  async function expectShortRuns(workflowId: string, phase: Phase): Promise<void> {
    const runs = await runsOf(client, workflowId);
    expect(runs.length).toBeGreaterThan(2);
    for (const run of runs) {
      expect(run.events).toBeLessThan(LONG_HISTORY);
      expect(run.messages.extendTimeout).toBeGreaterThan(0);
      expect(run.messages.wake).toBeGreaterThan(0);
      expect(run.progress.phase).toBe(run === runs.at(-1) ? 'done' : phase);
    }
    const carried = runs.slice(0, -1).map(({ carriedBytes }) => carriedBytes ?? NaN);
    expect(Math.max(...carried)).toBeLessThan(4_096);
    // What differs is the ids of the newest extensions.
    expect(Math.max(...carried) - Math.min(...carried)).toBeLessThan(1_024);
    const total = runs.reduce((sum, { events }) => sum + events, 0);
    console.log(`${workflowId}: ${runs.length} runs, ${total} events, ${carried.join(', ')} bytes handed over`);
  }

  test('in BUILD, across continue-as-new, to the deadline with all its extensions: one server', async () => {
    const { firstExecutionRunId } = await create({ timeout: '3 days', polling });
    const handle = handleOf('create');
    await goBy(handle, 'waiting');
    const deadline = await deadlineOf(handle);
    expect(await failureOf(handle)).toMatchObject({
      type: 'ServerWaitTimeout',
      message: expect.stringContaining(`within 75.8 h (deadline ${new Date(deadline).toISOString()})`) as string,
    });
    const { startTime } = await client.workflow.getHandle('create', firstExecutionRunId).describe();
    const { closeTime } = await handle.describe();
    const waited = (closeTime?.getTime() ?? 0) - startTime.getTime();
    expect(Math.abs(waited - 72 * HOUR - EXTENSIONS * EXTENSION)).toBeLessThan(60_000);
    await expectShortRuns('create', 'waiting');
    expect(cloud.servers()).toHaveLength(1);
  });

  test('for another task to end, before a recovery: one stop, one start', async () => {
    const instanceId = await busyInstance();
    const handle = await startRecoverInstance(
      client,
      { instanceId, timeouts: { task: '3 days' }, polling },
      { workflowId: 'recover', taskQueue: TASK_QUEUE },
    );
    await goBy(handle, 'deciding');
    cloud.setState(instanceId, { taskState: null });
    await handle.signal('wake');
    expect(await handle.result()).toMatchObject({ outcome: 'recovered', path: 'stop-start' });
    await expectShortRuns('recover', 'deciding');
    expect(actionsOf(instanceId)).toEqual(['create', 'stop', 'start']);
  });

  test('24 hours of silence', async () => {
    const handle = await create({ timeout: '24h', polling });
    expect((await failureOf(handle)).type).toBe('ServerWaitTimeout');
    const runs = await runsOf(client, 'create');
    const total = runs.reduce((sum, { events }) => sum + events, 0);
    console.log(`24 h with looks 5 min apart: ${total} events`);
    expect(total).toBeLessThan(3_500);
  });
});

describe('handing over', () => {
  const SUGGESTED = 40;
  const polling = { initialInterval: 300, maximumInterval: 300 };
  let temporal: TemporalServer;
  let connection: NativeConnection;

  beforeEach(async () => {
    quietRuntime();
    const dynamicConfig = { 'limit.historyCount.suggestContinueAsNew': SUGGESTED };
    temporal = await startTemporalServer({ port: 0, dynamicConfig });
    connection = await NativeConnection.connect({ address: temporal.address });
    client = new Client({ connection: await Connection.connect({ address: temporal.address }) });
    await startWorker(connection);
  });
  afterEach(async () => {
    await stopAll();
    await connection.close();
    await client.connection.close();
    await temporal.stop();
  });

  async function runIdOf(workflowId: string): Promise<string> {
    return (await handleOf(workflowId).describe()).runId;
  }

  /** Wakes it until so many further runs have begun. */
  async function wakeThrough(workflowId: string, runs: number): Promise<void> {
    for (let run = 0; run < runs; run++) {
      const before = await runIdOf(workflowId);
      await eventually(async () => {
        await handleOf(workflowId).signal('wake');
        return (await runIdOf(workflowId)) !== before;
      });
    }
  }

  /**
   * Somebody extends by a second again and again, others wake it and ask how it stands, for 10 s.
   * @returns how many extensions were confirmed, and what the askers were told
   */
  async function bother(handle: WorkflowHandle) {
    const end = Date.now() + 10_000;
    const phases = new Set<string>();
    let extended = 0;
    const again = async (act: () => Promise<unknown>) => {
      while (Date.now() < end) await act();
    };
    const refused: string[] = [];
    const orRefused = async (request: Promise<unknown>) => {
      await request.catch(({ cause }: Error) => refused.push(String(cause)));
    };
    const extend = async () => {
      await handle.executeUpdate('extendTimeout', { args: ['1s'] });
      extended++;
    };
    await Promise.all([
      again(() => orRefused(extend())),
      again(() => orRefused(extend())),
      again(() => orRefused(progress(handle).then(({ phase }) => phases.add(phase)))),
      again(() => Promise.all([handle.signal('wake'), delay(20)])),
    ]);
    // What Temporal has no better word for: an update in the task that was to continue as new when a signal overtook it
    // (it is not applied), a query in the second before a young run begins.
    for (const cause of refused) expect(cause).toContain('FAILED_PRECONDITION');
    console.log(`${extended} extensions, ${refused.length} messages refused`);
    return { extended, phases: [...phases] };
  }

  test('a creation loses no update and no signal, and is never said to be done', async () => {
    const handle = await create({ polling });
    const before = await deadlineOf(handleOf('create'));
    await eventually(async () => (await progress(handle)).state !== null);
    const { extended, phases } = await bother(handleOf('create'));
    expect(phases).toEqual(['waiting']);
    expect(await deadlineOf(handleOf('create'))).toBe(before + extended * 1_000);
    for (const { id } of cloud.servers()) cloud.finishBuild(id);
    expect(await handle.result()).toMatchObject({ status: 'ACTIVE', attempts: 1 });
    const runs = await runsOf(client, 'create');
    expect(runs.length).toBeGreaterThan(5);
    for (const run of runs.slice(0, -1)) expect(run.progress.phase).toBe('waiting');
    expect(cloud.servers()).toHaveLength(1);
  });

  test('so does a recovery', async () => {
    const instanceId = await busyInstance();
    const options = { workflowId: 'recover', taskQueue: TASK_QUEUE };
    const handle = await startRecoverInstance(client, { instanceId, polling }, options);
    await eventually(async () => (await progress(handle)).state !== null);
    const before = await deadlineOf(handle);
    const { extended, phases } = await bother(handle);
    expect(phases).toEqual(['deciding']);
    expect(await deadlineOf(handle)).toBe(before + extended * 1_000);
    cloud.setState(instanceId, { taskState: null });
    expect(await handle.result()).toMatchObject({ outcome: 'recovered', path: 'stop-start' });
    expect((await runsOf(client, 'recover')).length).toBeGreaterThan(5);
    expect(actionsOf(instanceId)).toEqual(['create', 'stop', 'start']);
  });

  test('an extension counts once, also when it is sent to the next run again', async () => {
    await create({ polling });
    const handle = handleOf('create');
    await eventually(async () => (await progress(handle)).state !== null);
    const before = await deadlineOf(handle);
    const extend = () => handle.executeUpdate('extendTimeout', { args: ['1m'], updateId: 'ticket-4711' });
    const extended = await extend();
    expect(extended).toBe(new Date(before + 60_000).toISOString());
    await wakeThrough('create', 2);
    expect(await extend()).toBe(extended);
    await handle.terminate();
  });

  test('messages alone do not make a history long, also between looks that are an hour apart', async () => {
    const handle = await create({ polling: { initialInterval: '1h', maximumInterval: '1h' }, timeout: '2h' });
    await eventually(async () => (await progress(handle)).state !== null);
    const before = await deadlineOf(handleOf('create'));
    for (let extension = 0; extension < 50; extension++) {
      await handleOf('create').executeUpdate('extendTimeout', { args: ['1s'] });
    }
    expect(await deadlineOf(handleOf('create'))).toBe(before + 50_000);
    const runs = await runsOf(client, 'create');
    expect(Math.max(...runs.map(({ events }) => events))).toBeLessThan(SUGGESTED + 25);
    await handle.terminate();
  });

  test('a creation that could not begin hands over too, and creates one server once Nova is back', async () => {
    const lost = cloud.inject({ method: 'POST', path: /\/servers$/, carriedOut: true, answer: { status: 504 } });
    let away = true;
    const path = /\/servers\b/;
    cloud.inject({ method: 'GET', path, times: Infinity, match: () => away, answer: { status: 503 } });
    const handle = await create({ polling });
    await eventually(() => lost.hits === 1);
    await wakeThrough('create', 2);
    expect(await progress(handleOf('create'))).toMatchObject({ phase: 'creating', serverId: null });
    away = false;
    await handleOf('create').signal('wake');
    const id = await handleOf('create').executeUpdate<string, []>('serverId');
    cloud.finishBuild(id);
    expect(await handle.result()).toMatchObject({ serverId: id, attempts: 1 });
    expect(cloud.servers()).toHaveLength(1);
  });

  test('what is handed over stays small, also of a server that keeps changing', async () => {
    let looks = 0;
    cloud.inject({
      method: 'GET',
      path: /\/servers\/[0-9a-f-]{36}$/,
      times: Infinity,
      match: () => {
        for (const { id } of cloud.servers()) cloud.setState(id, { powerState: looks % 2 === 0 ? 1 : 4 });
        looks++;
        return false;
      },
    });
    const handle = await create({ polling: { initialInterval: 20, maximumInterval: 20 } });
    await eventually(async () => (await progress(handleOf('create'))).observations.length === 100);
    await wakeThrough('create', 10);
    for (const { id } of cloud.servers()) cloud.finishBuild(id);
    expect((await handle.result()).observations).toHaveLength(100);
    const carried = (await runsOf(client, 'create')).flatMap(({ carriedBytes = [] }) => carriedBytes);
    console.log(`handed over with 100 observations: ${Math.max(...carried)} bytes`);
    expect(carried.length).toBeGreaterThan(10);
    expect(Math.max(...carried)).toBeLessThan(64 * 1024);
    const [last = NaN, earlier = NaN] = [carried.at(-1), carried.at(-10)];
    expect(last).toBeLessThan(earlier + 256);
  });
});
