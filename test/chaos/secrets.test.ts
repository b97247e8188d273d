/**
 * Secrets are planted wherever one comes into the system; creations and recoveries end well and badly; then everything
 * that outlives them is searched: Temporal's whole database, all logs, metrics, results, failures, answers to queries,
 * and what the command line prints. Once without a codec, and once with one.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection, type WorkflowHandle } from '@temporalio/client';
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import { startCreateServer, startRecoverInstance, type CreateServerInput } from '../../src/client';
import { dataConverter, loadCodecKeys } from '../../src/codec';
import { startTemporalServer, type TemporalServer } from '../../src/demo/temporal-server';
import { SimulatedCloud } from '../../src/simulator';
import { FAST, serverIdOf } from '../support/bed';
import { runFolder } from '../support/run';
import { WorkerProcess } from '../support/worker-process';

// A server of its own, also where another one is named for the other tests: its database is searched.
delete process.env.TEMPORAL_ADDRESS;

const cliPath = path.join(__dirname, '../../lib/cli.js');
const QUEUE = 'secrets';
const OTHER_QUEUE = 'secrets-2';
/** A fault's text, as an example of what a failure says. */
const FAULT = 'No valid host was found';

const KEY = randomBytes(32).toString('base64');
const MODES: [string, Record<string, string>][] = [
  ['without a codec', {}],
  ['with TEMPORAL_NOVA_CODEC_KEYS', { TEMPORAL_NOVA_CODEC_KEYS: `secret-test:${KEY}` }],
];

/** Letters and digits only, so that no escaping can hide it; in no dictionary. */
function plant(): string {
  return randomBytes(80)
    .toString('base64')
    .replace(/[^A-Za-z0-9]/g, '')
    .slice(0, 40);
}

/** Of the caller's own input: what it holds is in Temporal as long as the workflow is, without a codec. */
const input = { userData: plant(), adminPass: plant(), personality: plant(), unknown: plant() };
const userData = Buffer.from(`#cloud-config\nchpasswd: {expire: false, list: "root:${input.userData}"}\n`).toString(
  'base64',
);
const inputSecrets: Record<string, string> = { ...input, 'user_data as it is sent': userData };

/**
 * What to look for: the secret as it is and in base64, at any place of it. In halves, for SQLite cuts what is long, and
 * one cut leaves a half whole.
 */
function spellings(secret: string): string[] {
  const half = Math.ceil(secret.length / 2);
  const parts = secret.length < 24 ? [secret] : [secret.slice(0, half), secret.slice(half)];
  return parts.flatMap((part) => [part, ...[0, 1, 2].map((before) => inBase64(part, before))]);
}

/** The characters of a base64 text that come from `part` alone, when `before` bytes of three stand before it. */
function inBase64(part: string, before: number): string {
  const whole = Buffer.from('?'.repeat(before) + part).toString('base64');
  const end = Math.floor(((before + part.length) * 8) / 6);
  return whole.slice(Math.ceil((before * 8) / 6), end);
}

function holds(place: Buffer, secret: string): boolean {
  return spellings(secret).some((spelling) => place.includes(spelling));
}

interface Story {
  /** Secrets that nobody but the cloud, its user and the holder of the keys may ever see. */
  secrets: Record<string, string>;
  /** Everything that outlives the workflows, by what it is. */
  places: Record<string, Buffer>;
  /** Of every run of every workflow. */
  events: { type: string; text: Buffer }[];
  /** How each workflow ended. */
  ends: Record<string, string>;
  serverName: string;
}

class Stage {
  readonly secrets: Record<string, string> = { 'a codec key': KEY };
  readonly places: Record<string, Buffer> = {};
  readonly ends: Record<string, string> = {};
  readonly serverName = `marker-${plant()}`;
  readonly workers: [string, WorkerProcess][] = [];
  cloud!: SimulatedCloud;
  temporal!: TemporalServer;
  client!: Client;
  folder!: string;

  constructor(readonly codec: Record<string, string>) {}

  async open(): Promise<void> {
    const password = (this.secrets.password = plant());
    this.cloud = await SimulatedCloud.start({ password, buildSeconds: 0.3 });
    this.tap();
    this.folder = await mkdtemp(path.join(runFolder(), 'secrets-'));
    this.temporal = await startTemporalServer({
      port: 0,
      dbFilename: path.join(this.folder, 'temporal.sqlite'),
      logFile: path.join(this.folder, 'temporal.log'),
      dynamicConfig: { 'limit.historyCount.suggestContinueAsNew': 25 },
    });
    const connection = await Connection.connect({ address: this.temporal.address });
    this.client = new Client({ connection, dataConverter: dataConverter(loadCodecKeys(this.codec)) });
  }

  /** What the cloud hands out in confidence is a secret from then on. */
  private tap(): void {
    const { listener } = this.cloud as unknown as { listener: { answer: (...args: unknown[]) => void } };
    const answer = listener.answer.bind(listener);
    listener.answer = (outgoing, record, given) => {
      const { headers, body } = given as {
        headers?: Record<string, string>;
        body?: { server?: Record<string, string> };
      };
      const { adminPass } = { ...body?.server, ...body } as { adminPass?: string };
      const count = Object.keys(this.secrets).length;
      if (headers?.['X-Subject-Token']) this.secrets[`token ${count}`] = headers['X-Subject-Token'];
      if (adminPass && adminPass !== input.adminPass) this.secrets[`Nova's adminPass ${count}`] = adminPass;
      answer(outgoing, record, given);
    };
  }

  get env(): Record<string, string> {
    const { address: TEMPORAL_ADDRESS } = this.temporal;
    return { ...this.cloud.env(), ...this.codec, TEMPORAL_ADDRESS, TEMPORAL_TASK_QUEUE: QUEUE, LOG_LEVEL: 'trace' };
  }

  async addWorker(name: string, more: Record<string, string> = {}): Promise<WorkerProcess> {
    const env = Object.fromEntries(Object.entries({ ...this.env, ...more }).filter(([, value]) => value !== ''));
    const worker = await WorkerProcess.polling(env);
    this.workers.push([name, worker]);
    return worker;
  }

  /** As `npx temporal-nova`; what it prints is one of the places. */
  async cli(...args: string[]): Promise<string> {
    const { PATH, HOME } = process.env;
    const child = spawn(process.execPath, [cliPath, ...args], { env: { PATH, HOME, ...this.env } });
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
    await once(child, 'close');
    this.keep(`temporal-nova ${args[0]} ${Object.keys(this.places).length}`, output);
    return output;
  }

  keep(place: string, what: string | Buffer): void {
    this.places[place] = typeof what === 'string' ? Buffer.from(what) : what;
  }

  /** Begins a creation with all that a caller may send in confidence. */
  create(id: string, server: Record<string, unknown> = {}, more: Partial<CreateServerInput> = {}, taskQueue = QUEUE) {
    const { flavorId: flavorRef, imageId: imageRef } = this.cloud;
    const confidential = { user_data: userData, adminPass: input.adminPass };
    const request = { name: this.serverName, flavorRef, imageRef, networks: 'none', ...confidential, ...server };
    const creation = { server: request as CreateServerInput['server'], polling: FAST, ...more };
    return startCreateServer(this.client, creation, { workflowId: id, taskQueue });
  }

  recover(instanceId: string, more: object = {}) {
    const recovery = { instanceId, polling: FAST, ...more };
    return startRecoverInstance(this.client, recovery, { taskQueue: QUEUE });
  }

  /** Notes how it ended, and keeps everything that a client can be told of it. */
  async end(handle: Pick<WorkflowHandle, 'workflowId' | 'result'>): Promise<void> {
    const { workflowId } = handle;
    const ended: unknown = await handle.result().catch((error: unknown) => error);
    const failure = ended instanceof Error ? (ended.cause as { type?: string; name: string }) : undefined;
    this.ends[workflowId] = failure ? (failure.type ?? failure.name) : 'completed';
    this.keep(`outcome of ${workflowId}`, everythingOf(ended));
    await this.look(workflowId);
  }

  /** Answers to queries, and the description with pending activities. */
  async look(workflowId: string): Promise<void> {
    const handle = this.client.workflow.getHandle(workflowId);
    const queries = ['progress', '__stack_trace', '__enhanced_stack_trace', '__temporal_workflow_metadata'];
    const answers = await Promise.all(queries.map((query) => handle.query(query).catch((error: unknown) => error)));
    this.keep(`queries of ${workflowId} ${Object.keys(this.places).length}`, everythingOf(answers));
    const { raw } = await handle.describe();
    this.keep(`description of ${workflowId} ${Object.keys(this.places).length}`, everythingOf(raw));
  }

  keepDatabase(when: string): void {
    for (const ending of ['', '-wal']) {
      const file = path.join(this.folder, `temporal.sqlite${ending}`);
      if (existsSync(file)) this.keep(`database${ending} ${when}`, readFileSync(file));
    }
  }

  async events(): Promise<Story['events']> {
    const events: Story['events'] = [];
    for await (const { workflowId, runId } of this.client.workflow.list()) {
      const history = await this.client.workflow.getHandle(workflowId, runId).fetchHistory();
      for (const event of history.events ?? []) {
        const [type = ''] = Object.keys(event).filter((key) => /EventAttributes$/.test(key) && key in event);
        const scheduled = event.activityTaskScheduledEventAttributes?.activityType?.name;
        events.push({ type: scheduled ? `${type} ${scheduled}` : type, text: Buffer.from(everythingOf(event)) });
      }
    }
    return events;
  }

  async close(): Promise<void> {
    await Promise.all(this.workers.map(([, worker]) => worker.end()));
    await this.client?.connection.close();
    await this.temporal?.stop();
    await this.cloud?.stop();
  }
}

/** Bytes as text; errors with all that is in them, and what they were made from. */
function everythingOf(value: unknown): string {
  const seen = new Set<unknown>();
  return JSON.stringify(value, function (this: Record<string, unknown>, key, plain: unknown) {
    const inner = this[key];
    if (inner instanceof Uint8Array) return Buffer.from(inner).toString('latin1');
    if (typeof inner !== 'object' || inner === null) return plain;
    if (seen.has(inner)) return undefined;
    seen.add(inner);
    if (!(inner instanceof Error)) return plain;
    const { name, message, stack, cause } = inner;
    return { ...inner, name, message, stack, cause };
  });
}

async function freePort(): Promise<string> {
  const holder = createServer().listen(0, '127.0.0.1');
  await once(holder, 'listening');
  const { port } = holder.address() as AddressInfo;
  holder.close();
  await once(holder, 'close');
  return String(port);
}

/** Creations and recoveries that end in every way, seen by everything that can look at them. */
async function tell(stage: Stage): Promise<Story> {
  await stage.open();
  const { cloud, secrets } = stage;
  const credential = cloud.createApplicationCredential();
  secrets['application credential secret'] = credential.secret;
  const metrics = [await freePort(), await freePort()];
  await stage.addWorker('with a password', { TEMPORAL_METRICS_ADDRESS: metrics[0]! });
  const [, token] = Object.entries(secrets).find(([name]) => name.startsWith('token')) ?? [];
  await stage.addWorker('with an application credential', {
    TEMPORAL_METRICS_ADDRESS: metrics[1]!,
    TEMPORAL_TASK_QUEUE: OTHER_QUEUE,
    OS_AUTH_TYPE: 'v3applicationcredential',
    OS_APPLICATION_CREDENTIAL_ID: credential.id,
    OS_APPLICATION_CREDENTIAL_SECRET: credential.secret,
    ...Object.fromEntries(
      ['USERNAME', 'PASSWORD', 'PROJECT_NAME', 'USER_DOMAIN_NAME', 'PROJECT_DOMAIN_NAME'].map((name) => [
        `OS_${name}`,
        '',
      ]),
    ),
  });

  // A Nova, or a proxy before it, that repeats what it was sent: the token and the body.
  const answering = (id: string, status: number, times = 1) =>
    cloud.inject({
      method: 'POST',
      match: ({ body }) => body.includes(`"id":"${id}"`),
      times,
      answer: {
        status,
        body: {
          badRequest: { code: status, message: `Invalid input: ${token} ${userData} ${input.adminPass}` },
        },
      },
    });
  for (const [id, status] of Object.entries({ '400': 400, '403': 403, '409': 409 })) answering(id, status);
  answering('500', 500, 3);
  cloud.inject({ method: 'POST', match: ({ body }) => body.includes('"id":"hang"'), hang: true });
  cloud.inject({ method: 'POST', match: ({ body }) => body.includes('"id":"reset"'), carriedOut: true, reset: true });
  const named = (id: string, more: Record<string, unknown> = {}, options: Partial<CreateServerInput> = {}) =>
    stage.create(id, { metadata: { id }, ...more }, options);

  const [built, ...others] = await Promise.all([
    named('built'),
    stage.create('other-worker', {}, {}, OTHER_QUEUE),
    named('hang'),
    named('reset'),
    named('500'),
    named('400'),
    named('403'),
    named('409'),
    named('personality', { personality: [{ path: '/etc/motd', contents: input.personality }] }),
    named('error', { metadata: { id: 'error', anchor_spawn: 'abort' } }, { attempts: 2, onFailure: 'delete' }),
    named('impossible', { flavorRef: cloud.impossibleFlavorId }),
    named('bad-input', { min_count: 2 }),
    named('timeout', { metadata: { anchor_spawn_seconds: '60' } }, { timeout: '3s' }),
  ]);
  const cancelled = await named('cancelled', { metadata: { anchor_spawn_seconds: '60' } }, { onFailure: 'delete' });
  await serverIdOf(cancelled);
  await cancelled.executeUpdate('extendTimeout', { args: ['10m'] });
  await cancelled.executeUpdate('extendTimeout', { args: [userData] }).catch((error: unknown) => {
    // Refused, and with the caller's own words.
    expect(String(error)).toBeTruthy();
  });
  // Long enough for more than one run: its input is carried over.
  for (let i = 0; i < 12; i++) {
    await cancelled.signal('wake');
    await sleep(100);
  }
  await stage.look('cancelled');
  await cancelled.cancel();

  const { serverId } = await built!.result();
  await stage.recover(serverId).then((handle) => stage.end(handle));
  cloud.failAction(serverId, 'stop', 5);
  await stage.recover(serverId).then((handle) => stage.end(handle));
  stage.ends['recovery that fails'] = stage.ends[`recover-instance-${serverId}`] ?? '';
  cloud.setState(serverId, { vmState: 'rescued', taskState: null });
  await stage.recover(serverId, { policy: { rescued: 'restore' } }).then((handle) => stage.end(handle));

  await stage.cli(
    'create',
    '--name',
    `${stage.serverName}-c`,
    '--flavor',
    'm1.nano',
    '--image',
    'tiny',
    '--network',
    'none',
    '--workflow-id',
    'from-the-shell',
    '--wait',
    '--json',
  );
  await stage.cli('status', 'cancelled');
  await stage.cli('status', '400', '--json');
  await stage.cli('status', serverId, '--json');
  await stage.cli('recover', serverId, '--dry-run');
  await callUnknownActivity(stage);
  await runWithWrongPassword(stage);

  await Promise.all([built!, cancelled, ...others].map((handle) => stage.end(handle)));
  for (const port of metrics)
    stage.keep(`metrics ${port}`, await (await fetch(`http://127.0.0.1:${port}/metrics`)).text());
  const events = await stage.events();
  stage.keepDatabase('running');
  for (const [name, worker] of stage.workers) {
    worker.kill('SIGTERM');
    await worker.exit();
    stage.keep(`log of the worker ${name}`, worker.output);
  }
  await stage.temporal.stop();
  stage.keepDatabase('stopped');
  stage.keep("the Temporal server's log", readFileSync(path.join(stage.folder, 'temporal.log')));
  const { places, ends, serverName } = stage;
  return { secrets, places, ends, serverName, events };
}

/** A worker that lacks an activity says so in its log, and the SDK would add the whole task. */
async function callUnknownActivity(stage: Stage): Promise<void> {
  try {
    Runtime.install({ logger: new DefaultLogger('ERROR', () => undefined) });
  } catch {
    // installed already
  }
  const connection = await NativeConnection.connect({ address: stage.temporal.address });
  const worker = await Worker.create({
    connection,
    taskQueue: 'newer-version',
    workflowsPath: path.join(__dirname, 'support/unknown-activity.ts'),
    dataConverter: dataConverter(loadCodecKeys(stage.codec)),
  });
  await worker.runUntil(async () => {
    const handle = await stage.client.workflow.start('callsUnknownActivity', {
      workflowId: 'unknown-activity',
      taskQueue: 'newer-version',
      args: [QUEUE, { user_data: input.unknown }],
    });
    await stage.end(handle);
  });
  await connection.close();
}

async function runWithWrongPassword(stage: Stage): Promise<void> {
  const wrong = (stage.secrets['a wrong password'] = plant());
  const worker = new WorkerProcess({ ...stage.env, OS_PASSWORD: wrong });
  expect(await worker.exit()).toBe(1);
  stage.keep('log of the worker with a wrong password', worker.output);
}

const stages = MODES.map(([, codec]) => new Stage(codec));
let stories: Story[];

beforeAll(async () => {
  stories = await Promise.all(stages.map(tell));
}, 240_000);
afterAll(() => Promise.all(stages.map((stage) => stage.close())));

describe.each(MODES.map(([name, codec], index) => ({ name, encrypted: 'TEMPORAL_NOVA_CODEC_KEYS' in codec, index })))(
  '$name',
  ({ encrypted, index }) => {
    let story: Story;
    beforeAll(() => void (story = stories[index]!));

    const database = () => Object.entries(story.places).filter(([name]) => name.startsWith('database'));
    const placesWith = (secret: string, among = Object.entries(story.places)) =>
      among.filter(([, place]) => holds(place, secret)).map(([name]) => name);

    test('every way to end was taken', () => {
      expect(story.ends).toMatchObject({
        built: 'completed',
        'other-worker': 'completed',
        hang: 'completed',
        reset: 'completed',
        '500': 'completed',
        '400': 'NovaBadRequest',
        '403': 'NovaForbidden',
        '409': 'NovaConflict',
        personality: 'NovaBadRequest',
        error: 'ServerInError',
        impossible: 'ServerInError',
        'bad-input': 'InvalidInput',
        timeout: 'ServerWaitTimeout',
        cancelled: 'CancelledFailure',
        'recovery that fails': 'InstanceRecoveryFailed',
      });
      const { events } = story;
      expect(events.some(({ type }) => type === 'workflowExecutionContinuedAsNewEventAttributes')).toBe(true);
    });

    test('no password, token, adminPass of Nova or key is anywhere', () => {
      const kinds = Object.keys(story.secrets).map((name) => name.replace(/ \d+$/, ''));
      expect(new Set(kinds)).toEqual(
        new Set([
          'a codec key',
          'password',
          'application credential secret',
          'a wrong password',
          'token',
          "Nova's adminPass",
        ]),
      );
      const found = Object.entries(story.secrets).map(([name, secret]) => [name, placesWith(secret)]);
      expect(found.filter(([, places]) => places?.length)).toEqual([]);
    });

    test(`what a caller sends in confidence is ${encrypted ? 'nowhere' : 'in Temporal only'}`, () => {
      const allowed = encrypted ? [] : database().map(([name]) => name);
      const found = Object.entries(inputSecrets).map(([name, secret]) => [
        name,
        placesWith(secret).filter((place) => !allowed.includes(place)),
      ]);
      expect(found.filter(([, places]) => places?.length)).toEqual([]);
      expect(placesWith(userData).length > 0).toBe(!encrypted);
    });

    test(`in histories it is ${encrypted ? 'nowhere' : "in the workflow's input and that of the creating activity only"}`, () => {
      const holding = story.events.filter(({ text }) =>
        Object.values(inputSecrets).some((secret) => holds(text, secret)),
      );
      const expected = [
        'activityTaskScheduledEventAttributes novaCreateServer',
        'activityTaskScheduledEventAttributes novaFromTheFuture',
        'workflowExecutionContinuedAsNewEventAttributes',
        'workflowExecutionStartedEventAttributes',
      ];
      expect([...new Set(holding.map(({ type }) => type))].sort()).toEqual(encrypted ? [] : expected);
    });

    test(`names of servers and the messages of failures are ${encrypted ? 'not readable' : 'found'} in the database`, () => {
      for (const told of [story.serverName, FAULT]) expect(placesWith(told, database()).length > 0).toBe(!encrypted);
      // The workflow's client has them all the same.
      expect(placesWith(FAULT)).toContain('outcome of impossible');
      expect(placesWith(story.serverName)).toContain('outcome of built');
    });
  },
);

test('the search finds a secret at any place, as it is and in base64, also where it is cut in two', () => {
  const secret = plant();
  for (let before = 0; before < 3; before++) {
    const text = `${'-'.repeat(before)}${secret}--`;
    for (const written of [text, Buffer.from(text).toString('base64')]) {
      expect(holds(Buffer.from(written), secret)).toBe(true);
      for (let cut = 0; cut < written.length; cut++) {
        expect(holds(Buffer.from(`${written.slice(0, cut)}\0\0${written.slice(cut)}`), secret)).toBe(true);
      }
    }
  }
});
