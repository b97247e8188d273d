/** Who is measured: ours and the peers, each as its users run it, behind one interface. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { devNull } from 'node:os';
import { createInterface } from 'node:readline';
import { startCreateServer, type PollingOptions } from '../../src/client';
import { SimulatedCloud } from '../../src/simulator';
import { Stage } from '../stage';
import { usageOf, type Usage } from '../usage';
import { OPENSTACKSDK_PROGRAM, type Installed } from './install';

/** What a caller was told of a server it had asked for. */
export interface Told {
  /** Undefined where its wait failed. */
  id?: string;
  error?: string;
  /** Milliseconds since the epoch. */
  at: number;
}

/** One cloud, whose builds end only by `finishBuild`, and one contender that makes servers in it. */
export interface Bed {
  readonly cloud: SimulatedCloud;
  /** Oldest first; grows. */
  readonly told: readonly Told[];
  /** Asks for that many servers at once. */
  start(count: number): void;
  /** SIGKILL to what waits. */
  kill(): Promise<void>;
  /** Starts it again, as a supervisor does: ours goes on, a peer is given the same task again. */
  restart(): Promise<void>;
  /** Of all that waits, from its start. Of a peer's processes right only while no other bed is open. */
  used(): Usage;
  /** Of the Temporal server. */
  usedByTemporal(): Usage | undefined;
  close(): Promise<void>;
}

export interface Contender {
  name: string;
  /** Servers at once in the measure, and in each of the mishaps. */
  counts: { measure: number; mishap: number };
  /** With `retries` its own repeating of requests is turned on, where it has that as an option. */
  open(retries: boolean): Promise<Bed>;
}

export function ours(name: string, counts: Contender['counts'], polling?: PollingOptions): Contender {
  return {
    name,
    counts,
    async open() {
      const stage = await Stage.open({ buildSeconds: Infinity });
      const { client, cloud, taskQueue } = stage;
      const told: Told[] = [];
      const create = async (name: string): Promise<void> => {
        const server = {
          name,
          flavorRef: cloud.flavorId,
          imageRef: cloud.imageId,
          networks: [{ uuid: cloud.networkId }],
        };
        try {
          const workflowId = `${taskQueue}-${name}`;
          const handle = await startCreateServer(client, { server, polling }, { workflowId, taskQueue });
          const { serverId } = await handle.result();
          told.push({ id: serverId, at: Date.now() });
        } catch (error) {
          told.push({ error: String(error), at: Date.now() });
        }
      };
      return {
        cloud,
        told,
        start: (count) => names(count).forEach((name) => void create(name)),
        kill: () => stage.killWorkers(),
        restart: async () => void (await stage.addWorker()),
        used: () => stage.workerUsage(),
        usedByTemporal: () => stage.temporalUsage(),
        close: () => stage.close(),
      };
    },
  };
}

/** `create_server(wait=True)`, which looks every 5 s; a thread for each server. */
export function openstacksdk({ version, executable }: Installed, counts: Contender['counts']): Contender {
  return {
    name: `openstacksdk ${version}`,
    counts,
    open: (retries) =>
      PeerBed.open((bed, count) => [
        bed.programOfAll(executable, [OPENSTACKSDK_PROGRAM, ...bed.task(count)], retries && PYTHON_RETRIES),
      ]),
  };
}

/** `servers.WaitForStatus`, which looks every second; a goroutine for each server. */
export function gophercloud({ version, executable }: Installed, counts: Contender['counts']): Contender {
  return {
    name: `gophercloud ${version}`,
    counts,
    open: (retries) =>
      PeerBed.open((bed, count) => [
        bed.programOfAll(executable, bed.task(count), {
          // Its AuthOptionsFromEnv knows one domain, for user and project.
          OS_DOMAIN_NAME: 'Default',
          ...(retries && { PEERS_RETRY: '1' }),
        }),
      ]),
  };
}

/** `openstack server create --wait`, which looks every 5 s; a process for each server. */
export function openstackclient({ version, executable }: Installed, counts: Contender['counts']): Contender {
  return {
    name: `openstackclient ${version}`,
    counts,
    open: (retries) =>
      PeerBed.open((bed, count) =>
        names(count).map((name) => {
          const { flavorId, imageId, networkId } = bed.cloud;
          const what = ['--flavor', flavorId, '--image', imageId, '--network', networkId, '--wait'];
          const command = ['-m', 'openstackclient.shell', 'server', 'create', ...what, '-f', 'value', '-c', 'id', name];
          return bed.programOfOne(executable, command, retries && PYTHON_RETRIES);
        }),
      ),
  };
}

/** keystoneauth then repeats a request that was answered 429 or 503, after 0.5, 1, 2, … s. */
const PYTHON_RETRIES = { OS_COMPUTE_STATUS_CODE_RETRIES: '10' };

const SAMPLE_EVERY_MS = 100;

type Environment = Record<string, string> | false;

class PeerBed implements Bed {
  readonly told: Told[] = [];
  private processes: ChildProcess[] = [];
  private count = 0;
  private peak = 0;
  private readonly cpuBefore = cpuOfEndedChildren();
  private readonly sampler = setInterval(() => this.sample(), SAMPLE_EVERY_MS);

  private constructor(
    readonly cloud: SimulatedCloud,
    private readonly launch: (bed: PeerBed, count: number) => ChildProcess[],
  ) {}

  static async open(launch: (bed: PeerBed, count: number) => ChildProcess[]): Promise<PeerBed> {
    return new PeerBed(await SimulatedCloud.start({ buildSeconds: Infinity }), launch);
  }

  start(count: number): void {
    this.count = count;
    this.processes = this.launch(this, count);
  }

  async kill(): Promise<void> {
    await Promise.all(
      this.processes.map(async (child) => {
        if (child.exitCode !== null || child.signalCode !== null) return;
        const exit = once(child, 'exit');
        child.kill('SIGKILL');
        await exit;
      }),
    );
  }

  async restart(): Promise<void> {
    this.start(this.count);
  }

  used(): Usage {
    const running = this.processes.map(({ pid }) => usageIfAlive(pid).cpu).reduce((sum, cpu) => sum + cpu, 0);
    return { cpu: cpuOfEndedChildren() - this.cpuBefore + running, memory: this.peak };
  }

  usedByTemporal(): undefined {
    return undefined;
  }

  async close(): Promise<void> {
    clearInterval(this.sampler);
    await this.kill();
    await this.cloud.stop();
  }

  /** Arguments of a program that makes all the servers. */
  task(count: number): string[] {
    return ['server', String(count), this.cloud.flavorId, this.cloud.imageId, this.cloud.networkId];
  }

  /** A program that prints a line of JSON for each server. */
  programOfAll(executable: string, args: string[], environment: Environment): ChildProcess {
    const child = this.spawn(executable, args, environment);
    const lines = createInterface({ input: child.stdout! });
    lines.on('line', (line) => this.told.push(JSON.parse(line) as Told));
    return child;
  }

  /** A command that makes one server, and prints its id. */
  programOfOne(executable: string, args: string[], environment: Environment): ChildProcess {
    const child = this.spawn(executable, args, environment);
    let [output, errors] = ['', ''];
    let at = NaN;
    child.stdout?.on('data', (chunk: Buffer) => (output += chunk.toString()));
    child.stderr?.on('data', (chunk: Buffer) => (errors += chunk.toString()));
    child.once('exit', () => (at = Date.now()));
    child.once('close', (code, signal) => {
      if (signal !== null) return;
      const id = /[0-9a-f-]{36}/.exec(output)?.[0];
      this.told.push(code === 0 && id !== undefined ? { id, at } : { error: errors.trim(), at });
    });
    return child;
  }

  private spawn(executable: string, args: string[], environment: Environment): ChildProcess {
    const ofOthers = Object.entries(process.env).filter(([key]) => !key.startsWith('OS_'));
    const env = {
      ...Object.fromEntries(ofOthers),
      ...this.cloud.env(),
      // No clouds.yaml of whoever runs this.
      OS_CLIENT_CONFIG_FILE: devNull,
      ...environment,
    };
    const child = spawn(executable, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
    child.once('error', (error) => this.told.push({ error: String(error), at: Date.now() }));
    return child;
  }

  private sample(): void {
    const memory = this.processes.map(({ pid }) => usageIfAlive(pid).memory).reduce((sum, one) => sum + one, 0);
    this.peak = Math.max(this.peak, memory);
  }
}

function names(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `server-${i}`);
}

/** Nothing for a process that has ended, also where nobody has taken note of that yet. */
function usageIfAlive(pid: number | undefined): Usage {
  try {
    const { cpu, memory } = usageOf(pid);
    return Number.isNaN(memory) ? { cpu: 0, memory: 0 } : { cpu, memory };
  } catch {
    return { cpu: 0, memory: 0 };
  }
}

/** Seconds, of all children of this process that have ended: exact, where a look each 0.1 s misses their end. */
function cpuOfEndedChildren(): number {
  const stat = readFileSync('/proc/self/stat', 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[13]) + Number(fields[14])) / 100;
}
