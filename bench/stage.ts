/** What a benchmark runs on: a Temporal dev server, a cloud (simulated in this process, or a real one), workers in processes of their own. */
import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import path from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { dataConverter, loadCodecKeys } from '../src/codec';
import { startTemporalServer, type TemporalServer } from '../src/demo/temporal-server';
import { SimulatedCloud, type SimulatedCloudOptions } from '../src/simulator';
import { counter, usageOf, type Usage } from './usage';

export class Stage {
  /** Its own, so that two stages on one Temporal server don't work for each other. */
  readonly taskQueue = `bench-${randomBytes(4).toString('hex')}`;
  private readonly workers: ChildProcess[] = [];
  private readonly metricsAddress = `127.0.0.1:${20_000 + Math.floor(Math.random() * 10_000)}`;

  private constructor(
    readonly server: TemporalServer,
    /** Undefined on a real cloud. */
    readonly simulated: SimulatedCloud | undefined,
    /** `OS_*` of the cloud. */
    readonly cloudEnv: NodeJS.ProcessEnv,
    readonly client: Client,
  ) {}

  /** With 'environment', on the cloud that `OS_*` names. */
  static async open(on: SimulatedCloudOptions | 'environment', user: 'admin' | 'demo' = 'demo'): Promise<Stage> {
    const server = await startTemporalServer({ port: 0, log: console.error });
    const simulated = on === 'environment' ? undefined : await SimulatedCloud.start(on);
    const client = new Client({
      connection: await Connection.connect({ address: server.address }),
      // The worker takes them from the same environment.
      dataConverter: dataConverter(loadCodecKeys()),
    });
    const stage = new Stage(server, simulated, simulated?.env(user) ?? process.env, client);
    await stage.addWorker();
    return stage;
  }

  get cloud(): SimulatedCloud {
    if (this.simulated === undefined) throw new Error('this stage has a real cloud');
    return this.simulated;
  }

  /** CPU of all workers, memory of the largest. */
  workerUsage(): Usage {
    const usages = this.workers.map(({ pid }) => usageOf(pid));
    return {
      cpu: usages.reduce((sum, { cpu }) => sum + cpu, 0),
      memory: Math.max(...usages.map(({ memory }) => memory)),
    };
  }

  temporalUsage(): Usage {
    return usageOf(this.server.pid);
  }

  /** How often the first worker has called Temporal. */
  async temporalCalls(): Promise<number> {
    const page = `http://${this.metricsAddress}/metrics`;
    return (await counter(page, 'temporal_request')) + (await counter(page, 'temporal_long_request'));
  }

  /** @returns milliseconds from the start of the process until it polls */
  async addWorker(): Promise<number> {
    const began = Date.now();
    const { NODE_OPTIONS, BENCH_WORKER_NODE_OPTIONS = NODE_OPTIONS } = process.env;
    const child = spawn(process.execPath, [path.join(__dirname, '../lib/worker.js')], {
      env: {
        ...process.env,
        ...this.cloudEnv,
        TEMPORAL_ADDRESS: this.server.address,
        TEMPORAL_NAMESPACE: this.server.namespace,
        TEMPORAL_TASK_QUEUE: this.taskQueue,
        NODE_OPTIONS: BENCH_WORKER_NODE_OPTIONS,
        ...(this.workers.length === 0 && { TEMPORAL_METRICS_ADDRESS: this.metricsAddress }),
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.workers.push(child);
    await new Promise<void>((resolve, reject) => {
      let output = '';
      child.stdout?.on('data', (chunk: Buffer) => {
        output += chunk.toString();
        if (output.includes('polling task queue')) resolve();
      });
      child.once('exit', () => reject(new Error(`the worker ended before it polled: ${output}`)));
    });
    return Date.now() - began;
  }

  /** SIGKILL to every worker. */
  async killWorkers(): Promise<void> {
    const killed = this.workers.splice(0).map(async (worker) => {
      const exit = once(worker, 'exit');
      worker.kill('SIGKILL');
      await exit;
    });
    await Promise.all(killed);
  }

  async close(): Promise<void> {
    for (const worker of this.workers) {
      worker.kill('SIGTERM');
      if (worker.exitCode === null) await once(worker, 'exit');
    }
    await this.client.connection.close();
    await this.simulated?.stop();
    await this.server.stop();
  }
}

/** The value below which that share of a sorted list lies, to hundredths. */
export function quantile(sorted: number[], share: number): number {
  const value = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
  return Math.round(value * 100) / 100;
}
