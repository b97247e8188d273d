import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { Connection } from '@temporalio/client';
import { SimulatedCloud } from '../../src/simulator';
import { endsWithin, isRunning } from '../support/processes';
import { connect, type TestTemporal } from '../support/temporal';

/** `npm test` builds it first. */
const main = path.join(__dirname, '../../lib/demo/main.js');

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
  it('creates a server, shows how, and leaves nothing behind', async () => {
    const demo = new Demo(['--build-seconds', '2']);
    expect(await demo.exit()).toBe(0);
    expect(demo.output).toMatch(/BUILD\/spawning[^]* s {2}ACTIVE +active +running/);
    expect(demo.output).toMatch(/Result {5}server demo-\S+ is ACTIVE after 1 attempt/);
    expect(demo.output).toMatch(
      /Web UI {5}http:\/\/127.0.0.1:\d+\/namespaces\/default\/workflows\/create-demo-\S+\/history/,
    );
    expect(await demo.leftNothing()).toBe(true);
  });

  it('stays up with --keep, is driven by lines, and ends with Ctrl-C', async () => {
    const demo = new Demo(['--keep', '--build-seconds', '3']);
    await demo.printed(/All this stays up until Ctrl-C/);
    expect((await fetch(await demo.printed(/Web UI {5}(http\S+)/))).status).toBe(200);

    demo.type('pause demo');
    await demo.printed(/demo-\S+ is now PAUSED/);
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

  it('finds a flavor, an image and a network, and deletes its server at the end', async () => {
    const demo = new Demo(['--cloud'], env);
    expect(await demo.exit()).toBe(0);
    expect(demo.output).toContain(
      `${cloud.authUrl}, Nova 2.93, flavor ${cloud.flavorId}, image ${cloud.imageId}, network ${cloud.networkId}`,
    );
    const id = await demo.printed(/Result[^]* id (\S+)/);
    expect(demo.output).toContain(`Deleted    server ${id}`);
    expect(cloud.server(id).deleted).toBe(true);
    expect(cloud.servers()).toEqual([]);
  });

  it('takes names, and says which there are', async () => {
    const demo = new Demo(['--cloud', '--flavor', 'm1.huge'], env);
    expect(await demo.exit()).toBe(2);
    expect(demo.output).toMatch(/no flavor m1.huge; it has: m1.nano/);
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
