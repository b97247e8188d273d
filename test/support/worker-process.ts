/** `node lib/worker.js` in a process of its own, as it is run in production. `npm test` builds `lib/` first. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { eventually } from './bed';

const workerPath = path.join(__dirname, '../../lib/worker.js');

export class WorkerProcess {
  /** All that it printed. */
  output = '';
  private readonly child: ChildProcess;
  private readonly ended: Promise<unknown[]>;

  constructor(env: Record<string, string>) {
    const { PATH, HOME } = process.env;
    this.child = spawn(process.execPath, [workerPath], {
      env: { PATH, HOME, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream?.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
    }
    this.ended = once(this.child, 'exit');
  }

  /** Starts one that polls. */
  static async polling(env: Record<string, string>): Promise<WorkerProcess> {
    const worker = new WorkerProcess(env);
    await eventually(() => worker.output.includes('polling task queue') || worker.child.exitCode !== null);
    if (worker.child.exitCode !== null) throw new Error(`the worker ended: ${worker.output}`);
    return worker;
  }

  kill(signal: 'SIGKILL' | 'SIGTERM' | 'SIGINT'): void {
    this.child.kill(signal);
  }

  /** Its exit code; null when a signal ended it. */
  async exit(): Promise<number | null> {
    return (await this.ended)[0] as number | null;
  }

  get running(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  async end(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.ended;
  }
}
