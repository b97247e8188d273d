/** Processes that a test starts and looks after. */
import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

export interface ScriptOptions {
  /** Beside, and over, this process's own. */
  env?: NodeJS.ProcessEnv;
  /** Default: shown. */
  stderr?: 'inherit' | 'ignore' | 'pipe';
}

/** Runs a TypeScript file in a process of its own. Its standard output can be read with `nextLine`. */
export function runScript(file: string, args: string[] = [], options: ScriptOptions = {}): ChildProcess {
  return spawn(process.execPath, ['-r', require.resolve('tsx/cjs'), file, ...args], {
    stdio: ['pipe', 'pipe', options.stderr ?? 'inherit'],
    env: { ...process.env, ...options.env },
  });
}

/** The next line that a process prints; rejects when it ends without one. */
export async function nextLine(child: ChildProcess): Promise<string> {
  if (!child.stdout) throw new Error('no pipe');
  for await (const line of createInterface({ input: child.stdout })) return line;
  throw new Error('it ended without a line');
}

/** Whether a process runs; one that has ended and is waited for by nobody (a zombie) does not. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  const stat = `/proc/${pid}/stat`;
  return !existsSync(stat) || !/\) [ZX] /.test(readFileSync(stat, 'utf8'));
}

/** Resolves to whether a process has ended within a time. */
export async function endsWithin(pid: number, ms: number): Promise<boolean> {
  const deadline = Date.now() + ms;
  while (isRunning(pid)) {
    if (Date.now() > deadline) return false;
    await sleep(50);
  }
  return true;
}
