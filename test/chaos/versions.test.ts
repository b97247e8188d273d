/**
 * Two versions of the worker side by side (Worker Versioning): workflows end on the version that they began on, across
 * continue-as-new too, until an operator moves them. The commands are those of docs/upgrading.md.
 */
import { execFile } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Client, Connection, type WorkflowHandle } from '@temporalio/client';
import { startCreateServer, startRecoverInstance } from '../../src/client';
import { startTemporalServer, type TemporalServer } from '../../src/demo/temporal-server';
import { SimulatedCloud } from '../../src/simulator';
import { eventually, FAST, progress, serverIdOf } from '../support/bed';
import { uniqueTaskQueue } from '../support/temporal';
import { WorkerProcess } from '../support/worker-process';

// A server of its own, also where another one is named for the other tests: it has to drain fast.
delete process.env.TEMPORAL_ADDRESS;

const DYNAMIC_CONFIG = {
  'limit.historyCount.suggestContinueAsNew': 60,
  'matching.wv.VersionDrainageStatusVisibilityGracePeriod': '1s',
  'matching.wv.VersionDrainageStatusRefreshInterval': '1s',
};

let temporal: TemporalServer;
let client: Client;
let cloud: SimulatedCloud;
let env: Record<string, string>;
let deployment: string;
let count = 0;
const workers: WorkerProcess[] = [];

beforeAll(async () => {
  temporal = await startTemporalServer({ port: 0, dynamicConfig: DYNAMIC_CONFIG });
  client = new Client({ connection: await Connection.connect({ address: temporal.address }) });
});
beforeEach(async () => {
  cloud = await SimulatedCloud.start({ buildSeconds: Infinity, actionSeconds: 0.2 });
  deployment = `nova-${++count}`;
  env = { ...cloud.env(), TEMPORAL_ADDRESS: temporal.address, TEMPORAL_TASK_QUEUE: uniqueTaskQueue() };
});
afterEach(async () => {
  await Promise.all(workers.splice(0).map((worker) => worker.end()));
  await cloud.stop();
});
afterAll(async () => {
  await client?.connection.close();
  await temporal?.stop();
});

async function startWorker(buildId?: string): Promise<WorkerProcess> {
  const version = buildId && { TEMPORAL_DEPLOYMENT_NAME: deployment, TEMPORAL_WORKER_BUILD_ID: buildId };
  const worker = await WorkerProcess.polling({ ...env, ...(version || {}) });
  workers.push(worker);
  return worker;
}

async function temporalCli(...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(temporal.cli ?? 'temporal', [...args, '--address', temporal.address]);
  return stdout;
}

/** A version is known to Temporal a moment after its first poll. */
function route(command: string, buildId: string, ...more: string[]): Promise<string> {
  const version = ['--deployment-name', deployment, '--build-id', buildId];
  return eventually(() =>
    temporalCli('worker', 'deployment', command, ...version, ...more, '--yes').catch(() => undefined),
  );
}

function setCurrent(buildId: string): Promise<string> {
  return route('set-current-version', buildId);
}

function create(name: string) {
  const { flavorId, imageId } = cloud;
  return startCreateServer(
    client,
    { server: { name, flavorRef: flavorId, imageRef: imageId, networks: 'none' }, polling: FAST },
    { workflowId: `${deployment}-${name}`, taskQueue: env.TEMPORAL_TASK_QUEUE },
  );
}

/** Creations that wait in BUILD. */
async function building(names: string[]): Promise<WorkflowHandle[]> {
  const handles = await Promise.all(names.map(create));
  await Promise.all(handles.map(serverIdOf));
  return handles;
}

function recover(instanceId: string) {
  return startRecoverInstance(client, { instanceId, polling: FAST }, { taskQueue: env.TEMPORAL_TASK_QUEUE });
}

function finishBuilds(): void {
  for (const { id, vmState } of cloud.servers()) if (vmState === 'building') cloud.finishBuild(id);
}

/** The versions that took the workflow tasks of a run, in that order; null for an unversioned worker. */
async function versionsOf({ workflowId }: { workflowId: string }, runId?: string): Promise<(string | null)[]> {
  const { events } = await client.workflow.getHandle(workflowId, runId).fetchHistory();
  const versions = (events ?? []).flatMap(({ workflowTaskCompletedEventAttributes: completed }) =>
    completed ? [completed.deploymentVersion?.buildId ?? null] : [],
  );
  return [...new Set(versions)];
}

async function drainageOf(buildId: string): Promise<string> {
  const version = ['--deployment-name', deployment, '--build-id', buildId];
  const { drainageInfo } = JSON.parse(
    await temporalCli('worker', 'deployment', 'describe-version', ...version, '--output', 'json'),
  ) as { drainageInfo?: { drainageStatus?: string } };
  return drainageInfo?.drainageStatus ?? '';
}

test('side by side: what began on the old version ends on it, what begins now is the new one’s; then the old one is drained', async () => {
  const v1 = await startWorker('v1');
  expect(v1.output).toContain(`as ${deployment} version v1`);
  await setCurrent('v1');
  const old = await building(['old-1', 'old-2', 'old-3', 'old-4']);
  const [busy, stopping] = await Promise.all((await building(['busy', 'stopping'])).map(serverIdOf));
  for (const id of [busy, stopping]) cloud.finishBuild(id ?? '');
  await eventually(() => [busy, stopping].every((id) => cloud.server(id ?? '').vmState === 'active'));
  cloud.setState(busy ?? '', { taskState: 'image_uploading' });
  cloud.setTimes({ actionSeconds: 8 });
  const recoveries = await Promise.all([busy, stopping].map((id) => recover(id ?? '')));
  await eventually(async () => (await progress(recoveries[0]!)).state?.taskState === 'image_uploading');
  await eventually(async () => (await progress(recoveries[1]!)).state?.taskState === 'powering-off');

  await startWorker('v2');
  await route('set-ramping-version', 'v2', '--percentage', '100');
  const [ramped] = (await building(['ramped'])) as [WorkflowHandle];
  await setCurrent('v2');
  expect(await drainageOf('v1')).toBe('draining');
  const young = [ramped, ...(await building(['young-1', 'young-2', 'young-3']))];

  finishBuilds();
  cloud.setTimes({ actionSeconds: 0.2 });
  cloud.setState(busy ?? '', { taskState: null });
  for (const handle of [...old, ...young]) expect(await handle.result()).toMatchObject({ status: 'ACTIVE' });
  for (const handle of recoveries) expect(await handle.result()).toMatchObject({ path: 'stop-start' });
  for (const handle of [...old, ...recoveries]) expect(await versionsOf(handle)).toEqual(['v1']);
  for (const handle of young) expect(await versionsOf(handle)).toEqual(['v2']);
  expect(cloud.servers()).toHaveLength(old.length + 2 + young.length);
  for (const id of [busy, stopping]) {
    expect(cloud.server(id ?? '').actions.map(({ action }) => action)).toEqual(['create', 'stop', 'start']);
  }

  await eventually(async () => (await drainageOf('v1')) === 'drained');
  v1.kill('SIGTERM');
  expect(await v1.exit()).toBe(0);
  const [last] = await building(['last']);
  finishBuilds();
  await last?.result();
  expect(await versionsOf(last!)).toEqual(['v2']);
});

test('a wait stays on its version across continue-as-new', async () => {
  await startWorker('v1');
  await setCurrent('v1');
  const [handle] = (await building(['long'])) as [WorkflowHandle];
  const first = await handle.describe();
  await startWorker('v2');
  await setCurrent('v2');
  await eventually(async () => {
    await handle.signal('wake');
    return (await handle.describe()).runId !== first.runId;
  });
  const second = await handle.describe();
  await eventually(async () => {
    await handle.signal('wake');
    return (await handle.describe()).runId !== second.runId;
  });
  finishBuilds();
  expect(await handle.result()).toMatchObject({ status: 'ACTIVE', attempts: 1 });
  for (const runId of [first.runId, second.runId, undefined]) expect(await versionsOf(handle, runId)).toEqual(['v1']);
  expect(cloud.servers()).toHaveLength(1);
});

test('the old version is gone: waits stand still, and go on with the new one once they are moved', async () => {
  const v1 = await startWorker('v1');
  await setCurrent('v1');
  const handles = (await building(['one', 'two', 'three'])) as [WorkflowHandle, WorkflowHandle, WorkflowHandle];
  const [one, ...others] = handles;
  await startWorker('v2');
  await setCurrent('v2');
  v1.kill('SIGKILL');
  finishBuilds();
  // Past the heartbeat timeout of the watches: their next attempts wait for a worker of the old version.
  const attempts = async () => (await one.describe()).raw.pendingActivities?.map(({ attempt }) => attempt);
  await eventually(async () => (await attempts())?.[0] === 2);
  await delay(1_000);
  expect((await one.describe()).status.name).toBe('RUNNING');

  const to = ['--versioning-override-deployment-name', deployment, '--versioning-override-build-id', 'v2'];
  const update = ['workflow', 'update-options', '--versioning-override-behavior', 'pinned', ...to];
  await temporalCli(...update, '--workflow-id', one.workflowId);
  expect(await one.result()).toMatchObject({ status: 'ACTIVE' });
  const query = `TemporalWorkerDeploymentVersion = '${deployment}:v1' AND ExecutionStatus = 'Running'`;
  await temporalCli(...update, '--query', query, '--reason', 'v1 is gone', '--yes');
  for (const handle of others) expect(await handle.result()).toMatchObject({ status: 'ACTIVE' });
  for (const handle of handles) expect(await versionsOf(handle)).toEqual(['v1', 'v2']);
  expect(cloud.servers()).toHaveLength(3);
});

test('from unversioned workers to versions: waits that began without one go on with the current one, and stay there', async () => {
  const unversioned = await startWorker();
  expect(unversioned.output).not.toContain(' version ');
  const [ended, waiting] = (await building(['ended', 'waiting'])) as [WorkflowHandle, WorkflowHandle];
  cloud.finishBuild(await serverIdOf(ended));
  await ended.result();
  expect(await versionsOf(ended)).toEqual([null]);

  await startWorker('v1');
  await setCurrent('v1');
  unversioned.kill('SIGTERM');
  expect(await unversioned.exit()).toBe(0);
  await waiting.signal('wake');
  await eventually(async () => (await versionsOf(waiting)).includes('v1'));
  await startWorker('v2');
  await setCurrent('v2');
  finishBuilds();
  await waiting.result();
  expect(await versionsOf(waiting)).toEqual([null, 'v1']);
  expect(cloud.servers()).toHaveLength(2);
});

test('TEMPORAL_WORKER_BUILD_ID alone makes a version of the deployment temporal-nova', async () => {
  const worker = await WorkerProcess.polling({ ...env, TEMPORAL_WORKER_BUILD_ID: '1.4.2' });
  workers.push(worker);
  expect(worker.output).toContain('as temporal-nova version 1.4.2');
});

test.each<[string, Record<string, string>, RegExp]>([
  ['a deployment without a build id', { TEMPORAL_DEPLOYMENT_NAME: 'nova' }, /TEMPORAL_WORKER_BUILD_ID is not set/],
  ['a dot in the name', { TEMPORAL_DEPLOYMENT_NAME: 'nova.west', TEMPORAL_WORKER_BUILD_ID: 'v1' }, /nova\.west/],
  ['a colon in the name', { TEMPORAL_DEPLOYMENT_NAME: 'nova:west', TEMPORAL_WORKER_BUILD_ID: 'v1' }, /nova:west/],
  ['a reserved build id', { TEMPORAL_WORKER_BUILD_ID: '__unversioned__' }, /TEMPORAL_WORKER_BUILD_ID must be/],
  ['a build id of two words', { TEMPORAL_WORKER_BUILD_ID: 'v 1' }, /TEMPORAL_WORKER_BUILD_ID must be/],
])('a wrong version ends the worker at once: %s', async (_name, more, words) => {
  const worker = new WorkerProcess({ ...env, ...more });
  workers.push(worker);
  expect(await worker.exit()).toBe(1);
  expect(worker.output).toMatch(words);
  expect(worker.output.trim().split('\n')).toHaveLength(1);
});
