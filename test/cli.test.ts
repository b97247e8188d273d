import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { recoveryWorkflowId, startRecoverInstance } from '../src/client';
import { eventually, FAST, progress, serverIdOf, TestBed } from './support/bed';
import { noteSkipped, runFolder } from './support/run';
import { uniqueTaskQueue } from './support/temporal';

const cliPath = path.join(__dirname, '../lib/cli.js');
const UNKNOWN = '00000000-0000-4000-8000-000000000000';
const UI = 'http://web-ui.example';

let bed: TestBed;
let env: Record<string, string>;
let unique = 0;

beforeAll(async () => {
  bed = await TestBed.make({ buildSeconds: 0.5 });
}, 120_000);
beforeEach(() => {
  env = {
    ...bed.cloud.env(),
    TEMPORAL_ADDRESS: bed.temporal.address,
    TEMPORAL_NAMESPACE: bed.temporal.namespace,
    TEMPORAL_TASK_QUEUE: bed.taskQueue,
    TEMPORAL_UI_URL: `${UI}/`,
  };
});
afterEach(() => {
  for (const command of running) command.kill('SIGKILL');
  bed.cloud.clearFaults();
  bed.cloud.setTimes({ buildSeconds: 0.5, actionSeconds: 0.1 });
});
afterAll(() => bed.stop());

const running = new Set<CommandLine>();

/** `node lib/cli.js` in a process of its own, as `npx temporal-nova` runs it. `npm test` builds `lib/` first. */
class CommandLine {
  stdout = '';
  stderr = '';
  private readonly child;
  private readonly closed: Promise<unknown[]>;

  constructor(command: string, args: string[], settings: NodeJS.ProcessEnv) {
    const { PATH, HOME } = process.env;
    this.child = spawn(command, args, {
      env: { PATH, HOME, ...settings },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.child.stdout.on('data', (chunk: Buffer) => (this.stdout += chunk.toString()));
    this.child.stderr.on('data', (chunk: Buffer) => (this.stderr += chunk.toString()));
    this.closed = once(this.child, 'close');
    running.add(this);
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  /** Its exit code; null when a signal ended it. */
  async exit(): Promise<number | null> {
    const [code] = await this.closed;
    running.delete(this);
    return code as number | null;
  }
}

function start(args: string[], more: Record<string, string | undefined> = {}): CommandLine {
  return new CommandLine(process.execPath, [cliPath, ...args], { ...env, ...more });
}

async function run(args: string[], more: Record<string, string | undefined> = {}) {
  const command = start(args, more);
  const exitCode = await command.exit();
  const { stdout, stderr } = command;
  return { exitCode, stdout, stderr };
}

/** What `--json` prints, which has to be all there is on standard output. */
async function runForJson(args: string[], more: Record<string, string | undefined> = {}) {
  const { exitCode, stdout, stderr } = await run([...args, '--json'], more);
  return { exitCode, stderr, document: JSON.parse(stdout) as Record<string, unknown> };
}

/** Options for one small server, and the name it gets. */
function creation(...more: string[]): { name: string; args: string[] } {
  const name = `web-${++unique}`;
  const args = ['create', '--name', name, '--flavor', 'm1.nano', '--image', 'tiny', '--network', 'none', ...more];
  return { name, args };
}

function serverCalled(name: string) {
  return bed.cloud.servers().find((server) => server.name === name);
}

async function activeServer(): Promise<string> {
  const handle = await bed.create({ server: bed.server({ name: `web-${++unique}` }) });
  return (await handle.result()).serverId;
}

async function recovered(instanceId: string): Promise<void> {
  const { taskQueue } = bed;
  await (await startRecoverInstance(bed.client, { instanceId, polling: FAST }, { taskQueue })).result();
}

/** What was done to a server since it is there. */
function actionsOn(id: string): string[] {
  return bed.cloud
    .server(id)
    .actions.map(({ action }) => action)
    .slice(1);
}

describe('create', () => {
  test('starts the workflow by names, prints its id and link, and ends', async () => {
    const { name, args } = creation('--metadata', 'HA_Enabled=True', '--metadata', 'note=a=b');
    args[args.indexOf('none')] = 'private';
    const { exitCode, stdout, stderr } = await run(args);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    const workflowId = /^Workflow +(\S+)$/m.exec(stdout)?.[1] ?? '';
    expect(workflowId).toMatch(new RegExp(`^create-${name}-[0-9a-f]{6}$`));
    expect(stdout).toContain(`${UI}/namespaces/${bed.temporal.namespace}/workflows/${workflowId}/`);
    expect(stdout).toContain(`temporal-nova status ${workflowId}`);
    const result = (await bed.client.workflow.getHandle(workflowId).result()) as { addresses: object };
    expect(Object.keys(result.addresses)).toEqual(['private']);
    expect(serverCalled(name)).toMatchObject({ metadata: { HA_Enabled: 'True', note: 'a=b' } });
  });

  test('--wait in a pipe: a line for each change, then the server', async () => {
    const { name, args } = creation('--wait', '--workflow-id', `order-${uniqueTaskQueue()}`);
    const { exitCode, stdout, stderr } = await run(args);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    const lines = stdout.split('\n').filter((line) => /^\d\d:\d\d:\d\dZ /.test(line));
    expect(lines.filter((line) => / BUILD\//.test(line)).length).toBeGreaterThan(0);
    expect(lines).toEqual([...new Set(lines)]);
    expect(lines.filter((line) => /Z {2}ACTIVE$/.test(line))).toHaveLength(1);
    expect(stdout).toContain(`Created    server ${name} is ACTIVE\n           id ${serverCalled(name)?.id}\n`);
  });

  test('--wait --json: one document, the live lines beside it', async () => {
    const { name, args } = creation('--wait');
    const { exitCode, document, stderr } = await runForJson(args);
    expect(exitCode).toBe(0);
    expect(document).toMatchObject({
      workflowId: expect.stringMatching(`^create-${name}-`),
      taskQueue: bed.taskQueue,
      status: 'completed',
      result: { name, status: 'ACTIVE', serverId: serverCalled(name)?.id },
    });
    expect(stderr).toMatch(/Z {2}ACTIVE$/m);
  });

  test('a server that does not come up: exit code 1, the failure’s type and words', async () => {
    const { args } = creation('--wait', '--on-failure', 'delete');
    args[args.indexOf('m1.nano')] = 'm1.impossible';
    const text = await run(args);
    expect(text.exitCode).toBe(1);
    expect(text.stderr).toMatch(/^Failed +ServerInError: The server .* went to ERROR.*No valid host was found/);
    const { exitCode, document } = await runForJson(args);
    expect(exitCode).toBe(1);
    expect(document).toMatchObject({
      status: 'failed',
      failure: { type: 'ServerInError', details: { fault: { code: 500 } } },
    });
  });

  test('UUIDs are taken as they are: no cloud is needed', async () => {
    const { name, args } = creation('--wait', '--json');
    args[args.indexOf('m1.nano')] = UNKNOWN;
    args[args.indexOf('tiny')] = bed.cloud.imageId;
    const { exitCode, stdout } = await run(args, { OS_AUTH_URL: undefined });
    expect(exitCode).toBe(1);
    expect(stdout).toMatch(`Flavor ${UNKNOWN} could not be found`);
    expect(serverCalled(name)).toBeUndefined();
  });

  test.each([
    ['--flavor', 'm1', 'no flavor "m1"; it has m1.impossible, m1.micro, m1.nano, m1.small'],
    ['--image', 'large', 'no image "large"; it has tiny'],
    ['--network', 'public', 'no network "public"; it has private'],
  ])('%s %s, which is not there: what there is', async (option, wanted, words) => {
    const { name, args } = creation();
    args[args.indexOf(option) + 1] = wanted;
    const { exitCode, stdout, stderr } = await run(args);
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' });
    expect(stderr).toBe(`temporal-nova: this cloud has ${words}\n`);
    expect(serverCalled(name)).toBeUndefined();
  });

  test('a name that two images have: their ids', async () => {
    const images = [1, 2].map((n) => ({ id: `${n}${UNKNOWN.slice(1)}`, name: 'debian', status: 'active' }));
    bed.cloud.inject({ service: 'image', answer: { status: 200, body: { images } } });
    const { args } = creation();
    args[args.indexOf('tiny')] = 'debian';
    const { exitCode, stderr } = await run(args);
    expect(exitCode).toBe(2);
    expect(stderr).toBe(
      `temporal-nova: 2 images are called "debian": say which by id, ${images[0]?.id}, ${images[1]?.id}\n`,
    );
  });

  test('a workflow id that runs already: nothing is started', async () => {
    bed.cloud.setTimes({ buildSeconds: 60 });
    const id = `order-${uniqueTaskQueue()}`;
    expect((await run(creation('--workflow-id', id).args)).exitCode).toBe(0);
    const { name, args } = creation('--workflow-id', id);
    const { exitCode, stderr } = await run(args);
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(
      new RegExp(`^temporal-nova: a workflow "${id}" is running already: nothing was started.*\n$`),
    );
    expect(serverCalled(name)).toBeUndefined();
    await bed.client.workflow.getHandle(id).terminate();
  });
});

describe('recover', () => {
  test('--dry-run: the plan, and nothing is changed', async () => {
    const id = await activeServer();
    const { exitCode, stdout } = await run(['recover', id, '--dry-run']);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(
      /^Planned +path stop-start, reason instance-failure\n +now ACTIVE\n +Nothing was done; a recovery would take the path stop-start: stop, start\.$/m,
    );
    expect(actionsOn(id)).toEqual([]);
  });

  test('--dry-run of an instance that would be left alone is planned too, with exit code 0', async () => {
    const id = await activeServer();
    bed.cloud.setState(id, { vmState: 'suspended' });
    const { exitCode, document } = await runForJson(['recover', id, '--dry-run']);
    expect(exitCode).toBe(0);
    expect(document).toMatchObject({ result: { outcome: 'planned', path: 'none', reason: 'suspended', after: null } });
  });

  test('--wait: stops and starts it, and shows each change', async () => {
    const id = await activeServer();
    bed.cloud.crash(id);
    const { exitCode, stdout, stderr } = await run(['recover', id, '--wait', '--event', 'LIFECYCLE', '--host', 'c1']);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    expect(stdout).toMatch(/Z {2}ACTIVE$[^]*Z {2}SHUTOFF$[^]*Z {2}ACTIVE$/m);
    expect(stdout).toMatch(
      /^Recovered +The instance was ACTIVE; it was stopped and started.\n +path stop-start, reason instance-failure\n +steps stop \S+Z, start \S+Z\n +before ACTIVE, after ACTIVE$/m,
    );
    expect(actionsOn(id)).toEqual(['stop', 'start']);
  });

  test('without --wait it is started, under one id for the instance', async () => {
    const id = await activeServer();
    const { exitCode, document } = await runForJson(['recover', id.toUpperCase()]);
    expect(exitCode).toBe(0);
    expect(document).toMatchObject({ workflowId: recoveryWorkflowId(id), status: 'started', joined: false });
    await bed.client.workflow.getHandle(recoveryWorkflowId(id)).result();
    expect(actionsOn(id)).toEqual(['stop', 'start']);
  });

  test('a paused instance is skipped with exit code 3; --policy paused=restore brings it back paused', async () => {
    const id = await activeServer();
    bed.cloud.action(id, { pause: null });
    await eventually(() => bed.cloud.server(id).vmState === 'paused');
    const skipped = await run(['recover', id, '--wait']);
    expect(skipped.exitCode).toBe(3);
    expect(skipped.stdout).toMatch(/^Skipped +The instance is PAUSED and was left alone/m);
    const restored = await run(['recover', id, '--wait', '--policy', 'paused=restore', '--policy', 'locked=skip']);
    expect(restored.exitCode).toBe(0);
    expect(bed.cloud.server(id).vmState).toBe('paused');
  });

  test('an instance that was started since --generated-time is left alone', async () => {
    const id = await activeServer();
    const noticed = new Date(Date.now() - 1_000).toISOString();
    await recovered(id);
    const { exitCode, document } = await runForJson(
      ['recover', id, '--wait', '--event', 'LIFECYCLE', '--generated-time', noticed], // prettier-ignore
    );
    expect(exitCode).toBe(3);
    expect(document).toMatchObject({ result: { reason: 'already-recovered' } });
    expect(actionsOn(id)).toEqual(['stop', 'start']);
  });

  test('--policy requireHaEnabled=true is a boolean', async () => {
    const id = await activeServer();
    const { exitCode, document } = await runForJson(['recover', id, '--wait', '--policy', 'requireHaEnabled=true']);
    expect(exitCode).toBe(3);
    expect(document).toMatchObject({ result: { reason: 'not-ha-enabled' } });
  });

  test('a recovery that runs is joined, and it says so', async () => {
    const id = await activeServer();
    bed.cloud.setTimes({ actionSeconds: 2 });
    const first = start(['recover', id, '--wait']);
    await eventually(() => actionsOn(id).includes('stop'));
    const second = await run(['recover', id, '--wait']);
    expect(second.exitCode).toBe(0);
    expect(second.stdout).toMatch(/^Joined +the recovery that is under way since \d\d:\d\d:\d\dZ/);
    expect(await first.exit()).toBe(0);
    expect(first.stdout).not.toContain('Joined');
    expect(actionsOn(id)).toEqual(['stop', 'start']);
  });

  test('a stop that fails on the host: exit code 1, and what happened', async () => {
    const id = await activeServer();
    bed.cloud.failAction(id, 'stop');
    const { exitCode, stderr } = await run(['recover', id, '--wait']);
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(
      /^Failed +InstanceRecoveryFailed: The instance \S+: Nova accepted stop, and it failed on the host/,
    );
  });
});

describe('status', () => {
  test('of a workflow that runs: where it stands, and what it has seen', async () => {
    bed.cloud.setTimes({ buildSeconds: 60 });
    const handle = await bed.create({}, `order-${uniqueTaskQueue()}`);
    await eventually(async () => (await progress(handle)).state !== null);
    const { exitCode, stdout } = await run(['status', handle.workflowId]);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(
      new RegExp(`^Workflow +${handle.workflowId}: CreateServerWorkflow RUNNING for \\d+ s$`, 'm'),
    );
    expect(stdout).toMatch(/^Stands +waiting: BUILD\/\w+ since \d+ s, until \S+Z\n +server [0-9a-f-]{36}$/m);
    expect(stdout).toMatch(/^Seen +\d\d:\d\d:\d\dZ {2}BUILD/m);
    expect(stdout).toContain(`${UI}/namespaces/`);
    await handle.terminate();
  });

  test('of a workflow whose activity is tried again: why', async () => {
    bed.cloud.inject({ method: 'POST', path: /\/servers$/, times: Infinity, answer: { status: 503 } });
    const handle = await bed.create({}, `order-${uniqueTaskQueue()}`);
    await eventually(async () => (await handle.describe()).raw.pendingActivities?.[0]?.lastFailure);
    const { exitCode, stdout } = await run(['status', handle.workflowId]);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^Trouble +\w+, attempt \d+: .*503/m);
    await handle.terminate();
  });

  test('of a workflow that has failed: its failure', async () => {
    const server = bed.server({ flavorRef: bed.cloud.impossibleFlavorId });
    const handle = await bed.create({ server }, `order-${uniqueTaskQueue()}`);
    await handle.result().catch(() => undefined);
    const { exitCode, stdout } = await run(['status', handle.workflowId]);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/CreateServerWorkflow FAILED, ended/);
    expect(stdout).toMatch(/^Failed +ServerInError: .*No valid host/m);
  });

  test('of a server: its recovery, the server as Nova shows it, and its newest instance actions', async () => {
    const id = await activeServer();
    await recovered(id);
    const { exitCode, stdout } = await run(['status', id]);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(new RegExp(`^Workflow +recover-instance-${id}: RecoverInstanceWorkflow COMPLETED`, 'm'));
    expect(stdout).toMatch(/^Result +recovered: The instance was ACTIVE; it was stopped and started.$/m);
    expect(stdout).toMatch(new RegExp(`^Server +web-\\d+ ${id}: ACTIVE$`, 'm'));
    expect(stdout).toMatch(/vm_state active, task_state none, power_state running, host not shown to this user$/m);
    const user = bed.cloud.userId('demo');
    expect(stdout).toMatch(
      new RegExp(`^Actions +\\S+Z {2}start, by user ${user} \\(req-\\S+\\)\n +\\S+Z {2}stop, by user ${user} `, 'm'),
    );
  });

  test('of a server that was never recovered: says so; an administrator sees the host', async () => {
    const id = await activeServer();
    const admin = bed.cloud.env('admin');
    const { exitCode, document } = await runForJson(['status', id], { ...admin });
    expect(exitCode).toBe(0);
    expect(document).toMatchObject({
      workflow: null,
      server: { id, 'OS-EXT-SRV-ATTR:host': expect.any(String), instanceActions: [{ action: 'create' }] },
      notes: [expect.stringContaining(`there is no workflow "${recoveryWorkflowId(id)}"`)],
    });
  });

  test('of a server in ERROR: Nova’s fault', async () => {
    bed.cloud.setTimes({ buildSeconds: 60 });
    const handle = await bed.create();
    const id = await serverIdOf(handle);
    bed.cloud.failBuild(id, { code: 500, message: 'the disk is gone' });
    const { stdout } = await run(['status', id]);
    expect(stdout).toMatch(new RegExp(`^Server +web-1 ${id}: ERROR\n.*\n +fault 500: the disk is gone`, 'm'));
  });

  test('of a server without OS_* settings: its recovery, and that Nova was not asked', async () => {
    const id = await activeServer();
    await recovered(id);
    const { exitCode, stdout } = await run(['status', id], { OS_AUTH_URL: undefined });
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/RecoverInstanceWorkflow COMPLETED/);
    expect(stdout).toMatch(/^Note +Nova was not asked: neither OS_CLOUD nor OS_AUTH_URL is set$/m);
  });

  test('of nothing that is known: what was looked for, and exit code 1', async () => {
    const workflow = await run(['status', 'no-such-workflow']);
    expect(workflow).toMatchObject({ exitCode: 1, stdout: '' });
    expect(workflow.stderr).toMatch(/^temporal-nova: there is no workflow "no-such-workflow" in namespace .*\n$/);
    const server = await run(['status', UNKNOWN]);
    expect(server.exitCode).toBe(1);
    expect(server.stderr).toContain(`there is no workflow "recover-instance-${UNKNOWN}"`);
    expect(server.stderr).toContain(`Nova has no server ${UNKNOWN} that this user can see`);
  });

  test('without a worker it does not wait for one', async () => {
    const { args } = creation('--json');
    const { workflowId } = JSON.parse((await run([...args, '--task-queue', 'nobody'])).stdout) as {
      workflowId: string;
    };
    const began = Date.now();
    const { exitCode, stdout } = await run(['status', workflowId]);
    expect(exitCode).toBe(0);
    expect(Date.now() - began).toBeLessThan(3_000);
    expect(stdout).toMatch(/^Note +.*no worker polls the task queue "nobody"/m);
    await bed.client.workflow.getHandle(workflowId).terminate();
  });
});

describe('errors are one clear line, without a stack', () => {
  const server = ['--name', 'web', '--flavor', '1', '--image', 'tiny'];
  test.each<[string, string[], RegExp]>([
    ['no command', [], /^Usage: temporal-nova/],
    ['a command that is none', ['creat'], /unknown command 'creat'[^]*Did you mean create\?/],
    ['an option that is none', ['status', 'x', '--jsn'], /unknown option '--jsn'[^]*Did you mean --json\?/],
    ['no id', ['status'], /missing required argument 'id'/],
    ['no network', ['create', ...server], /required option '--network/],
    [
      'none and a network',
      ['create', ...server, '--network', 'none', '--network', 'private'],
      /--network none goes with/,
    ],
    ['no name', ['create', '--network', 'none', ...server, '--name', ''], /--name is empty/],
    [
      'a timeout without a unit',
      ['create', ...server, '--network', 'none', '--timeout', '30'],
      /--timeout needs a unit/,
    ],
    [
      'a timeout that is none',
      ['create', ...server, '--network', 'none', '--timeout', 'soon'],
      /timeout must be a dur/,
    ],
    [
      'too many attempts',
      ['create', ...server, '--network', 'none', '--attempts', '11'],
      /attempts must be .* 1 to 10/,
    ],
    [
      'metadata without a value',
      ['create', ...server, '--network', 'none', '--metadata', 'HA'],
      /--metadata takes key=/,
    ],
    ['a name in place of a UUID', ['recover', 'web-1'], /instanceId must be a UUID, not "web-1"/],
    [
      'a policy that is none',
      ['recover', UNKNOWN, '--policy', 'pause=skip'],
      /unknown key policy.pause; known: .*paused/,
    ],
    ['a choice that is none', ['recover', UNKNOWN, '--policy', 'paused=mend'], /policy.paused must be one of "skip", /],
    [
      'a time that is none',
      ['recover', UNKNOWN, '--event', 'X', '--generated-time', 'now'],
      /generatedTime must be an/,
    ],
    ['a time without an event', ['recover', UNKNOWN, '--generated-time', '2026-11-30T21:04:05Z'], /--event, which is/],
    ['an option that the demo lacks', ['demo', '--fast'], /--fast/],
  ])('%s: exit code 2', async (_name, args, words) => {
    const { exitCode, stdout, stderr } = await run(args);
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' });
    expect(stderr).toMatch(words);
    expect(stderr).not.toMatch(/\n\s+at /);
  });

  test.each<[string, Record<string, string | undefined>, number, RegExp]>([
    ['Temporal is not there', { TEMPORAL_ADDRESS: '127.0.0.1:1' }, 1, /Temporal at 127.0.0.1:1 can't be reached/],
    ['a namespace that is not there', { TEMPORAL_NAMESPACE: 'nowhere' }, 1, /has no namespace "nowhere"/],
    ['a profile that is not there', { TEMPORAL_PROFILE: 'prod' }, 2, /Temporal configuration is wrong: .*prod/],
    ['a wrong password', { OS_PASSWORD: 'planted-wrong' }, 1, /Keystone .*401.*the login was refused/],
    ['no cloud', { OS_AUTH_URL: undefined }, 2, /neither OS_CLOUD nor OS_AUTH_URL is set/],
    ['a cloud that is not there', { OS_AUTH_URL: 'http://127.0.0.1:1' }, 1, /Keystone/],
  ])('%s', async (_name, settings, code, words) => {
    const { args } = creation();
    const { exitCode, stdout, stderr } = await run(args, settings);
    expect({ exitCode, stdout }).toEqual({ exitCode: code, stdout: '' });
    expect(stderr).toMatch(words);
    expect(stderr).toMatch(/^temporal-nova: .*\n$/);
    expect(stderr).not.toContain('planted-wrong');
  });

  test('with --json they are a document too', async () => {
    const { exitCode, document } = await runForJson(['recover', 'web-1']);
    expect(exitCode).toBe(2);
    expect(document).toEqual({ status: 'failed', error: expect.stringContaining('must be a UUID') });
  });
});

describe('while it waits', () => {
  test('no worker polls the task queue: it says so within seconds, and goes on when one does', async () => {
    const queue = uniqueTaskQueue();
    const { name, args } = creation('--wait', '--task-queue', queue);
    const command = start(args);
    await eventually(() => command.stdout.includes(`no worker polls the task queue "${queue}"`));
    const worker = start(['worker', '--task-queue', queue]);
    expect(await command.exit()).toBe(0);
    expect(command.stdout).toContain(`Created    server ${name} is ACTIVE`);
    expect(command.stdout.match(/no worker polls/g)).toHaveLength(1);
    worker.kill('SIGTERM');
    expect(await worker.exit()).toBe(0);
    expect(worker.stdout).toContain(`polling task queue \\"${queue}\\"`);
  });

  test('Ctrl-C: exit code 130, and the workflow goes on', async () => {
    bed.cloud.setTimes({ buildSeconds: 3 });
    const { name, args } = creation('--wait', '--json');
    const command = start(args);
    await eventually(() => /Z {2}BUILD/.test(command.stderr));
    command.kill('SIGINT');
    expect(await command.exit()).toBe(130);
    const { workflowId, status } = JSON.parse(command.stdout) as { workflowId: string; status: string };
    expect(status).toBe('running');
    expect(command.stderr).toContain(`The workflow goes on without this command. "temporal-nova status ${workflowId}"`);
    expect(await bed.client.workflow.getHandle(workflowId).result()).toMatchObject({ name, status: 'ACTIVE' });
  });

  test('the workflow is terminated: exit code 1', async () => {
    bed.cloud.setTimes({ buildSeconds: 60 });
    const id = `order-${uniqueTaskQueue()}`;
    const command = start(creation('--wait', '--workflow-id', id).args);
    await eventually(() => /Z {2}BUILD/.test(command.stdout));
    await bed.client.workflow.getHandle(id).terminate('no longer wanted');
    expect(await command.exit()).toBe(1);
    expect(command.stderr).toBe('Failed     Terminated: no longer wanted\n');
  });

  describe('on a terminal', () => {
    const script = spawnSync('script', ['--version'], { encoding: 'utf8' });
    const onTerminal = /util-linux/.test(script.stdout ?? '') ? test : test.skip;
    if (onTerminal === test.skip) noteSkipped('the tests of the command line on a terminal: "script" of util-linux');

    /** All that a terminal of a width gets. */
    async function screen(columns: number, args: string[]): Promise<string> {
      const words = [process.execPath, cliPath, ...args].map((word) => `'${word}'`).join(' ');
      const command = new CommandLine('script', ['-qec', `stty cols ${columns}; ${words}`, '/dev/null'], {
        ...env,
        TERM: 'xterm',
      });
      expect(await command.exit()).toBe(0);
      return command.stdout;
    }

    onTerminal('a spinner with the live state', async () => {
      bed.cloud.setTimes({ buildSeconds: 3 });
      const shown = await screen(100, creation('--wait').args);
      expect(shown).toMatch(/⠋|⠙|\| |- /);
      expect(shown).toMatch(/waiting: BUILD\/\w+ since 1 s, until (\d{4}-\d\d-\d\dT)?\d\d:\d\d:\d\dZ/);
      expect(shown).toMatch(/Created {4}server web-\d+ is ACTIVE/);
      expect(shown).not.toMatch(/^\d\d:\d\d:\d\dZ /m);
    });

    onTerminal('plain lines where it has no width', async () => {
      const shown = await screen(0, creation('--wait').args);
      expect(shown).toMatch(/^\d\d:\d\d:\d\dZ {2}ACTIVE\r?$/m);
    });
  });
});

describe('help', () => {
  test.each(['create', 'recover', 'status', 'worker'])('%s --help has examples', async (command) => {
    const { exitCode, stdout, stderr } = await run([command, '--help']);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    expect(stdout).toMatch(new RegExp(`Examples:\n  .*temporal-nova ${command}`));
  });

  test('--help lists the commands and exit codes, --version is the package’s', async () => {
    const { exitCode, stdout } = await run(['--help']);
    expect(exitCode).toBe(0);
    for (const command of ['create', 'recover', 'status', 'worker', 'demo'])
      expect(stdout).toContain(`\n  ${command} [`);
    expect(stdout).toContain('3 skipped');
    const { version } = jest.requireActual<{ version: string }>('../package.json');
    expect((await run(['--version'])).stdout).toBe(`${version}\n`);
  });

  test('demo --help lists the demo’s options', async () => {
    const { exitCode, stdout } = await run(['demo', '--help']);
    expect(exitCode).toBe(0);
    expect(stdout).toContain('--build-seconds');
  });
});

test('Temporal’s native module is loaded by the worker only', async () => {
  const trap = path.join(runFolder(), 'no-native-module.cjs');
  writeFileSync(
    trap,
    `const Module = require('node:module');
     const load = Module._load;
     Module._load = (request, ...rest) => {
       if (request.includes('core-bridge')) throw new Error('the native module is loaded');
       return load(request, ...rest);
     };`,
  );
  const NODE_OPTIONS = `--require ${trap}`;
  const id = await activeServer();
  expect((await run(creation('--wait').args, { NODE_OPTIONS })).exitCode).toBe(0);
  expect((await run(['recover', id, '--dry-run'], { NODE_OPTIONS })).exitCode).toBe(0);
  expect((await run(['status', id], { NODE_OPTIONS })).exitCode).toBe(0);
  expect((await run(['worker'], { NODE_OPTIONS })).stderr).toContain('the native module is loaded');
});
