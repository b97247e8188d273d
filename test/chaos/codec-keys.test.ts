/** Keys are set, rotated and missing while workflows run: nothing is lost, and what is missing is said. */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import path from 'node:path';
import { Client, type WorkflowHandle } from '@temporalio/client';
import {
  CodecError,
  dataConverter,
  loadCodecKeys,
  startCreateServer,
  startRecoverInstance,
  type CreateServerInput,
  type CreateServerResult,
} from '../../src/client';
import { SimulatedCloud } from '../../src/simulator';
import { eventually, FAST, serverIdOf } from '../support/bed';
import { connect, uniqueTaskQueue, type TestTemporal } from '../support/temporal';
import { WorkerProcess } from '../support/worker-process';

type CreateServer = (input: CreateServerInput) => Promise<CreateServerResult>;

const cliPath = path.join(__dirname, '../../lib/cli.js');
const [k1, k2] = ['k1', 'k2'].map((id) => `${id}:${randomBytes(32).toString('base64')}`) as [string, string];

let temporal: TestTemporal;
let cloud: SimulatedCloud;
let taskQueue: string;
const workers: WorkerProcess[] = [];

beforeAll(async () => {
  temporal = await connect();
});
beforeEach(async () => {
  cloud = await SimulatedCloud.start({ buildSeconds: Infinity });
  taskQueue = uniqueTaskQueue();
});
afterEach(async () => {
  await Promise.all(workers.splice(0).map((worker) => worker.end()));
  await cloud.stop();
});
afterAll(() => temporal.close());

/** A worker with a ring of keys; '' for none. */
async function startWorker(keys: string): Promise<WorkerProcess> {
  const worker = await WorkerProcess.polling({
    ...cloud.env(),
    TEMPORAL_ADDRESS: temporal.address,
    TEMPORAL_NAMESPACE: temporal.namespace,
    TEMPORAL_TASK_QUEUE: taskQueue,
    TEMPORAL_NOVA_CODEC_KEYS: keys,
  });
  workers.push(worker);
  return worker;
}

function clientWith(keys: string): Client {
  const { connection } = temporal.client;
  const converter = dataConverter(loadCodecKeys({ TEMPORAL_NOVA_CODEC_KEYS: keys }));
  return new Client({ connection, namespace: temporal.namespace, dataConverter: converter });
}

function create(client: Client) {
  const { flavorId: flavorRef, imageId: imageRef } = cloud;
  const server = { name: 'web-1', flavorRef, imageRef, networks: 'none' as const };
  return startCreateServer(client, { server, polling: FAST }, { workflowId: taskQueue, taskQueue });
}

async function finish(handle: Pick<WorkflowHandle, 'result'>): Promise<unknown> {
  for (const { id } of cloud.servers()) cloud.finishBuild(id);
  return handle.result();
}

/** The ids of the keys in a workflow's history, and '' for what is not encrypted, in the order of their first use. */
async function keysIn(handle: Pick<WorkflowHandle, 'fetchHistory'>): Promise<string[]> {
  const { events = [] } = await handle.fetchHistory();
  const found = new Set<string>();
  JSON.stringify(events, (_key, value: unknown) => {
    const { metadata } = (value ?? {}) as { metadata?: Record<string, string> }; // in base64
    // Search attributes, the only payloads with a type, are never encrypted.
    if (metadata && !metadata.type) found.add(Buffer.from(metadata['encryption-key-id'] ?? '', 'base64').toString());
    return value;
  });
  return [...found];
}

async function cli(keys: string, ...args: string[]): Promise<{ exitCode: number | null; output: string }> {
  const { PATH, HOME } = process.env;
  const { address: TEMPORAL_ADDRESS, namespace: TEMPORAL_NAMESPACE } = temporal;
  const settings = { TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_NOVA_CODEC_KEYS: keys };
  const child = spawn(process.execPath, [cliPath, ...args], { env: { PATH, HOME, ...settings } });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const [exitCode] = (await once(child, 'close')) as [number | null];
  return { exitCode, output };
}

describe('a worker that lacks the key of a workflow', () => {
  test.each([
    [
      'with another key',
      k2,
      'a payload is encrypted with the key \\"k1\\", and TEMPORAL_NOVA_CODEC_KEYS holds only \\"k2\\"',
    ],
    ['without keys', '', 'a payload is encrypted with the key \\"k1\\", and TEMPORAL_NOVA_CODEC_KEYS is not set'],
  ])('%s: says so, and the workflow goes on once one has the key; there is one server', async (_name, keys, words) => {
    const first = await startWorker(k1);
    const handle = await create(clientWith(k1));
    const id = await serverIdOf(handle);
    await first.end();
    const lacking = await startWorker(keys);
    cloud.finishBuild(id);
    await eventually(() => lacking.output.includes(words));
    expect((await handle.describe()).status.name).toBe('RUNNING');
    await lacking.end();
    const began = Date.now();
    await startWorker(k1);
    expect(await handle.result()).toMatchObject({ serverId: id, status: 'ACTIVE' });
    process.stderr.write(`  went on ${((Date.now() - began) / 1000).toFixed(1)} s after a worker had the key\n`);
    expect(cloud.servers()).toHaveLength(1);
  });

  test('beside one that has it: the workflow ends right all the same', async () => {
    await startWorker(k1);
    await startWorker(k2);
    const handle = await create(clientWith(k1));
    // Not by a query: one that meets the worker without the key a few times in a row is given up by Temporal.
    const { id } = await eventually(() => cloud.servers()[0], 60_000);
    cloud.finishBuild(id);
    expect(await handle.result()).toMatchObject({ serverId: id, status: 'ACTIVE' });
    expect(cloud.servers()).toHaveLength(1);
  });
});

describe('while a workflow runs', () => {
  test('the key is rotated, and the old one taken away once nothing needs it', async () => {
    const first = await startWorker(k1);
    const handle = await create(clientWith(k1));
    await serverIdOf(handle);
    await first.end();
    const second = await startWorker(`${k1},${k2}`);
    await handle.signal('wake');
    await second.end();
    await startWorker(`${k2},${k1}`);
    expect(await finish(clientWith(`${k2},${k1}`).workflow.getHandle(taskQueue))).toMatchObject({ status: 'ACTIVE' });
    expect(await keysIn(handle)).toEqual(['k1', 'k2']);
    expect(await clientWith(k2).workflow.getHandle(taskQueue).result()).toMatchObject({ status: 'ACTIVE' });
  });

  test('keys are set for the first time: what is new is encrypted, what is old is read', async () => {
    const first = await startWorker('');
    const handle = await create(clientWith(''));
    await serverIdOf(handle);
    await first.end();
    await startWorker(k1);
    expect(await finish(clientWith(k1).workflow.getHandle(taskQueue))).toMatchObject({ status: 'ACTIVE' });
    expect(await keysIn(handle)).toEqual(['', 'k1']);
  });
});

test('a client without keys starts workflows on workers with them, and learns which key it lacks', async () => {
  await startWorker(k1);
  const handle = await create(clientWith(''));
  await eventually(() => cloud.servers().length === 1);
  const result = finish(handle);
  await expect(result).rejects.toThrow(CodecError);
  await expect(result).rejects.toThrow('encrypted with the key "k1", and TEMPORAL_NOVA_CODEC_KEYS is not set');
  const { serverId } = await clientWith(k1).workflow.getHandle<CreateServer>(taskQueue).result();
  const recovery = await startRecoverInstance(clientWith(''), { instanceId: serverId, polling: FAST }, { taskQueue });
  const known = clientWith(k1).workflow.getHandle(recovery.workflowId);
  expect(await known.result()).toMatchObject({ outcome: 'recovered' });
});

test('the command line: says which key it lacks; with the key it shows what failed', async () => {
  await startWorker(k1);
  cloud.inject({
    method: 'GET',
    path: /\/servers\//,
    times: Infinity,
    answer: { status: 503, body: 'planted trouble' },
  });
  const handle = await create(clientWith(k1));
  await eventually(async () => (await handle.describe()).raw.pendingActivities?.[0]?.lastFailure);
  expect(await cli('', 'status', taskQueue)).toEqual({
    exitCode: 1,
    output: 'temporal-nova: a payload is encrypted with the key "k1", and TEMPORAL_NOVA_CODEC_KEYS is not set\n',
  });
  const { exitCode, output } = await cli(k1, 'status', taskQueue);
  expect(exitCode).toBe(0);
  expect(output).toMatch(/Trouble +novaWatchServer, attempt \d+: .*503/);
  expect(await cli('k1:planted', 'status', taskQueue)).toEqual({
    exitCode: 2,
    output: expect.stringMatching(
      /^temporal-nova: the Temporal configuration is wrong: TEMPORAL_NOVA_CODEC_KEYS: [^\n]*\n$/,
    ) as string,
  });
});
