/** What a benchmark runs on: a Temporal dev server, a simulated cloud in this process, workers in processes of their own. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { startTemporalServer, type TemporalServer } from '../src/demo/temporal-server';
import { SimulatedCloud, type SimulatedCloudOptions } from '../src/simulator';

export class Stage {
  readonly taskQueue = 'bench';
  private readonly workers: ChildProcess[] = [];

  private constructor(
    readonly server: TemporalServer,
    readonly cloud: SimulatedCloud,
    readonly client: Client,
  ) {}

  static async open(options: SimulatedCloudOptions, workers = 1): Promise<Stage> {
    const server = await startTemporalServer({ port: 0, log: console.error });
    const cloud = await SimulatedCloud.start(options);
    const client = new Client({ connection: await Connection.connect({ address: server.address }) });
    const stage = new Stage(server, cloud, client);
    for (let i = 0; i < workers; i++) await stage.addWorker();
    return stage;
  }

  async addWorker(): Promise<void> {
    const child = spawn(process.execPath, [path.join(__dirname, '../lib/worker.js')], {
      env: {
        ...process.env,
        ...this.cloud.env(),
        TEMPORAL_ADDRESS: this.server.address,
        TEMPORAL_NAMESPACE: this.server.namespace,
        TEMPORAL_TASK_QUEUE: this.taskQueue,
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
  }

  async close(): Promise<void> {
    for (const worker of this.workers) {
      worker.kill('SIGTERM');
      if (worker.exitCode === null) await once(worker, 'exit');
    }
    await this.client.connection.close();
    await this.cloud.stop();
    await this.server.stop();
  }
}
