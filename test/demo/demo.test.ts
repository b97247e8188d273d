import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { promisify } from 'node:util';
import { Connection } from '@temporalio/client';
import { SimulatedCloud } from '../../src/simulator';
import { endsWithin, isRunning } from '../support/processes';
import { connect, type TestTemporal } from '../support/temporal';

/** `npm test` builds it first. */
const main = path.join(__dirname, '../../lib/demo/main.js');
const cli = path.join(__dirname, '../../lib/cli.js');

/** A demo in a process of its own, as `npm run demo` starts it. */
class Demo {
  output = '';
  readonly child: ChildProcess;
  private readonly exited: Promise<number | null>;

  constructor(args: string[], env: NodeJS.ProcessEnv = {}) {
    const inherited = Object.entries(process.env).filter(
      ([name]) => !/^(TEMPORAL_(ADDRESS|NAMESPACE)$|OS_)/.test(name),
    );
    this.child = spawn(process.execPath, [main, ...args], {
      env: { ...Object.fromEntries(inherited), ...env },
    });
    this.child.stdout!.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
    this.child.stderr!.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
    this.exited = once(this.child, 'close').then(([code]) => code as number | null);
    running.add(this);
  }

  /** Resolves when it has printed that, to the first group or the whole match. */
  async printed(pattern: RegExp): Promise<string> {
    for (let waited = 0; waited < 40_000; waited += 50) {
      const match = pattern.exec(this.output);
      if (match) return match[1] ?? match[0];
      if (this.child.exitCode !== null) break;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`it did not print ${pattern}, but:\n${this.output}`);
  }

  type(line: string): void {
    this.child.stdin!.write(`${line}\n`);
  }

  exit(): Promise<number | null> {
    return this.exited;
  }

  /** Whether all that it started has ended. */
  async leftNothing(): Promise<boolean> {
    const worker = Number(/Worker {5}process (\d+)/.exec(this.output)?.[1]);
    const address = /Temporal {3}([\d.:]+)/.exec(this.output)?.[1];
    return (await endsWithin(worker, 6_000)) && !(await answers(address!));
  }
}

/** What `npx temporal-nova` prints in another terminal, with the settings that the demo says to export. */
async function shell(demo: Demo, command: string): Promise<string> {
  const [, address, namespace] = /export TEMPORAL_ADDRESS=(\S+) TEMPORAL_NAMESPACE=(\S+)/.exec(demo.output)!;
  const env = { ...process.env, TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace };
  const { stdout } = await promisify(execFile)(process.execPath, [cli, ...command.split(' ')], { env });
  return stdout;
}

async function answers(address: string): Promise<boolean> {
  const connection = await Connection.connect({ address, connectTimeout: 1_000 }).catch(() => undefined);
  await connection?.close();
  return connection !== undefined;
}

let temporal: TestTemporal;
const running = new Set<Demo>();

beforeAll(async () => {
  temporal = await connect();
});

afterAll(() => temporal.close());

afterEach(() => {
  for (const demo of running) demo.child.kill('SIGKILL');
  running.clear();
});

describe('the demo on a simulated cloud', () => {
  it('creates a server, recovers it, leaves it alone once paused, shows how, and leaves nothing behind', async () => {
    const demo = new Demo(['--build-seconds', '2']);
    expect(await demo.exit()).toBe(0);
    const [creation, crash, paused, links] = demo.output.split(/\n(?=Crash|Web UI)/);
    expect(creation).toMatch(/BUILD\/spawning[^]* s {2}done +ACTIVE +active +running/);
    const lines = creation!.match(/^ +[\d.]+ s {2}.*$/gm)!;
    expect(lines).toEqual([...new Set(lines)]); // each change is shown once
    expect(creation).toMatch(/Result {5}server demo-\S+ is ACTIVE after 1 attempt/);
    const id = /id (\S+)/.exec(creation!)![1]!;

    expect(crash).toMatch(/process of demo-\S+ dies; Nova goes on showing ACTIVE, power_state running/);
    expect(crash).toMatch(/as a monitor on compute\d would: LIFECYCLE STOPPED_FAILED/);
    expect(crash).toMatch(
      / s {2}deciding[^]* s {2}stopping +ACTIVE[^]* s {2}starting +SHUTOFF[^]* s {2}done +ACTIVE +active +running/,
    );
    expect(crash).toMatch(/Recovered {2}The instance was ACTIVE; it was stopped and started\./);
    expect(crash).toMatch(
      /path stop-start, reason instance-failure\n +steps stop after [\d.]+ s, start after [\d.]+ s; ACTIVE/,
    );

    expect(paused).toMatch(
      /has paused demo-\S+, and its process dies; Nova goes on showing PAUSED, power_state paused/,
    );
    expect(paused).toMatch(/worker: Recovery skipped: The instance is PAUSED and was left alone/);
    expect(paused).toMatch(
      /Skipped {4}⚠ The instance is PAUSED and was left alone: .*[^]*path none, reason paused\n +steps none; PAUSED/,
    );
    expect(paused).toContain(`npx temporal-nova recover ${id} --policy paused=restore --wait`);

    const page = (workflow: string): string =>
      ` +http://127.0.0.1:\\d+/namespaces/default/workflows/${workflow}/[-\\w]+/history\n`;
    const recovery = page(`recover-instance-${id}`);
    expect(links).toMatch(new RegExp(`^Web UI${page('create-demo-\\S+')}${recovery}${recovery} +\\(as long as`));
    expect(new Set(links!.match(/http\S+/g))).toHaveProperty('size', 3);
    expect(await demo.leftNothing()).toBe(true);
  });

  it('stays up with --keep, is driven by lines, and ends with Ctrl-C', async () => {
    const demo = new Demo(['--keep', '--build-seconds', '3']);
    await demo.printed(/All this stays up until Ctrl-C/);
    expect((await fetch(await demo.printed(/Web UI {5}(http\S+)/))).status).toBe(200);

    demo.type('recover demo paused=dance');
    await demo.printed(/demo-\S+: Failed {5}InvalidInput: .*policy\.paused/);
    demo.type('recover paused=restore');
    await demo.printed(/demo-\S+: Recovered {2}The instance was PAUSED; it was hard rebooted and paused again/);
    await demo.printed(/steps reboot after .*, pause after .*; PAUSED/);
    const id = await demo.printed(/npx temporal-nova recover (\S+) --dry-run/);
    expect(await shell(demo, `recover ${id} --dry-run`)).toMatch(/Planned +path none, reason paused/);
    demo.type('stop demo');
    await demo.printed(/Cannot 'stop' instance \S+ while it is in vm_state paused/);
    demo.type('unpause demo');
    await demo.printed(/demo-\S+ is now ACTIVE/);
    demo.type('stop demo');
    await demo.printed(/demo-\S+ is now SHUTOFF/);
    demo.type('recover demo');
    await demo.printed(/Skipped {4}The instance was stopped by a user/);
    demo.type('create web-2');
    await demo.printed(/create-web-2 {2}http/);
    await demo.printed(/create-web-2[^]*BUILD/);
    demo.type('pause web-2');
    await demo.printed(/Cannot 'pause' instance \S+ while it is in vm_state building/);
    demo.type('fail');
    await demo.printed(/Failed {5}ServerInError: .*No valid host was found/);
    demo.type('create web-3');
    await demo.printed(/create-web-3[^]*BUILD/);
    demo.type('kill-worker');
    const worker = Number(await demo.printed(/worker process (\d+) polls/));
    await demo.printed(/Result {5}server web-3 is ACTIVE/);
    demo.type('delete web-9');
    await demo.printed(/no server web-9/);
    demo.type('dance');
    await demo.printed(/no such command: dance/);

    demo.child.kill('SIGINT');
    expect(await demo.exit()).toBe(0);
    expect(isRunning(worker)).toBe(false);
    expect(await demo.leftNothing()).toBe(true);
  });

  it('ends all it started when it is interrupted half-way', async () => {
    const demo = new Demo([]);
    await demo.printed(/BUILD/);
    demo.child.kill('SIGINT');
    expect(await demo.exit()).toBe(130);
    expect(await demo.leftNothing()).toBe(true);
  });

  it('leaves no workflow behind on a Temporal server that was there before', async () => {
    const { client, address } = temporal;
    const demo = new Demo([], { TEMPORAL_ADDRESS: address });
    await demo.printed(/BUILD/);
    demo.child.kill('SIGTERM');
    expect(await demo.exit()).toBe(143);
    const workflowId = await demo.printed(/Workflow {3}(\S+)/);
    expect((await client.workflow.getHandle(workflowId).describe()).status.name).toBe('TERMINATED');
  });

  it('ends all it started when it is killed', async () => {
    const demo = new Demo([]);
    await demo.printed(/BUILD/);
    demo.child.kill('SIGKILL');
    await demo.exit();
    expect(await demo.leftNothing()).toBe(true);
  });

  it('says what is wrong and exits 2, or 1 where it could have been right', async () => {
    const wrong = new Demo(['--flavour', '1']);
    expect(await wrong.exit()).toBe(2);
    expect(wrong.output).toMatch(/Unknown option '--flavour'[^]*--help/);
    const noTemporal = new Demo([], { TEMPORAL_ADDRESS: '127.0.0.1:1' });
    expect(await noTemporal.exit()).toBe(1);
    expect(noTemporal.output).toMatch(/TEMPORAL_ADDRESS=127.0.0.1:1 does not answer/);
  });
});

describe('the demo with --cloud', () => {
  let cloud: SimulatedCloud;
  let env: NodeJS.ProcessEnv;

  beforeEach(async () => {
    cloud = await SimulatedCloud.start({ buildSeconds: 1 });
    env = { ...cloud.env(), TEMPORAL_ADDRESS: temporal.address };
  });
  afterEach(() => cloud.stop());

  it('finds a flavor, an image and a network, recovers a healthy server and says so, deletes it at the end', async () => {
    const demo = new Demo(['--cloud'], env);
    expect(await demo.exit()).toBe(0);
    expect(demo.output).toContain(
      `${cloud.authUrl}, Nova 2.93, flavor ${cloud.flavorId}, image ${cloud.imageId}, network ${cloud.networkId}`,
    );
    expect(demo.output).toMatch(
      /no process can be killed on this cloud from here: demo-\S+ is healthy, Nova shows ACTIVE, power_state running;\n +the recovery of a healthy ACTIVE instance stops and starts it\n/,
    );
    expect(demo.output).toMatch(/Recovered [^]*Pause {6}demo-\S+ was paused; Nova shows PAUSED[^]*Skipped {4}⚠/);
    const [server] = cloud.servers({ deleted: true });
    expect(server!.actions.map(({ action }) => action)).toEqual(['create', 'stop', 'start', 'pause', 'delete']);
    const id = await demo.printed(/Result[^]*? id (\S+)/);
    expect(demo.output).toContain(`Deleted    server ${id}`);
    expect(cloud.server(id).deleted).toBe(true);
    expect(cloud.servers()).toEqual([]);
  });

  it('ends well on a cloud that does not pause', async () => {
    const message = 'Pausing is not supported.';
    cloud.inject({
      match: ({ body }) => body.includes('"pause"'),
      answer: { status: 409, body: { conflictingRequest: { code: 409, message } } },
    });
    const demo = new Demo(['--cloud'], env);
    expect(await demo.exit()).toBe(0);
    expect(demo.output).toMatch(/Recovered [^]*this cloud does not pause demo-\S+: .*Pausing is not supported/);
    expect(demo.output).not.toMatch(/Skipped/);
  });

  it('starts what its recovery has stopped, then deletes it, when it is interrupted in between', async () => {
    cloud.setTimes({ actionSeconds: 2 });
    const demo = new Demo(['--cloud'], env);
    await demo.printed(/ACTIVE\/powering-off/);
    demo.child.kill('SIGINT');
    expect(await demo.exit()).toBe(130);
    expect(demo.output).toMatch(/Cancelling recover-instance-\S+/);
    const [server] = cloud.servers({ deleted: true });
    expect(server!.actions.map(({ action }) => action)).toEqual(['create', 'stop', 'start', 'delete']);
    expect(server!.deleted).toBe(true);
  });

  it('takes names, and says which there are', async () => {
    const demo = new Demo(['--cloud', '--flavor', 'm1.huge'], env);
    expect(await demo.exit()).toBe(2);
    expect(demo.output).toMatch(/no flavor "m1.huge"; it has m1.impossible, m1.micro, m1.nano/);
  });

  it('deletes what it made when it is interrupted half-way', async () => {
    cloud.setTimes({ buildSeconds: 600 });
    const demo = new Demo(['--cloud', '--network', 'none'], env);
    await demo.printed(/BUILD/);
    demo.child.kill('SIGINT');
    expect(await demo.exit()).toBe(130);
    expect(cloud.servers({ deleted: true })).toHaveLength(1);
    expect(cloud.servers()).toEqual([]);
  });

  it('shows a refusal, and exits 1', async () => {
    cloud.setQuota(0);
    const demo = new Demo(['--cloud'], env);
    expect(await demo.exit()).toBe(1);
    expect(demo.output).toMatch(/Failed {5}QuotaExceeded: /);
  });

  it('says that the password is wrong', async () => {
    const demo = new Demo(['--cloud'], { ...env, OS_PASSWORD: 'wrong' });
    expect(await demo.exit()).toBe(1);
    expect(demo.output).toMatch(/Keystone/);
    expect(demo.output).not.toMatch(/ {4}at /);
  });
});
