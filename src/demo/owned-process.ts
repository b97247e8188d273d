/** Child processes that end with this one: when it stops them, exits, is interrupted, crashes, or is killed. */
import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process';

export interface OwnedProcessOptions {
  cwd?: string;
  env?: NodeJS.ProcessEnv;
  /** As for `spawn`; default: no input, both outputs are pipes. */
  stdio?: StdioOptions;
}

export interface OwnedProcess {
  readonly child: ChildProcess;
  /** Resolves when the process has ended, to how; rejects when it could not be started. */
  readonly ended: Promise<string>;
  /** SIGTERM to the process and its children, SIGKILL after `graceMs` (default 5,000); resolves when it has ended. */
  stop(graceMs?: number): Promise<void>;
  /** SIGKILL to the process and its children. */
  kill(): void;
  /** Lets this process end although the child still runs (and then ends with it). */
  unref(): void;
}

const LAST_OUTPUT_MS = 1_000;

const windows = process.platform === 'win32';

/**
 * Node has nothing like Linux' PR_SET_PDEATHSIG, and a process killed by SIGKILL runs no handler. This shell waits on a
 * pipe that only the parent holds: it closes however the parent ends, and then the child's process group has to go.
 */
const WATCHDOG = `
  read -r _
  kill -TERM "-$1" 2>/dev/null || exit 0
  n=0
  while [ $n -lt 50 ] && kill -0 "-$1" 2>/dev/null; do sleep 0.1; n=$((n + 1)); done
  kill -KILL "-$1" 2>/dev/null
`;

/**
 * Starts a command in a process group of its own, so that Ctrl-C in a terminal reaches only this process, which then
 * ends its children in the order it wants. On Windows, which has no process groups, it ends with an exiting parent only.
 */
export function spawnOwned(command: string, args: string[], options: OwnedProcessOptions = {}): OwnedProcess {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options, detached: !windows });
  const watchdog = child.pid !== undefined && !windows ? watch(child.pid) : undefined;
  const kill = (): void => signal(child, 'SIGKILL');
  const endAtExit = (): void => {
    kill();
    watchdog?.kill('SIGKILL');
  };
  process.on('exit', endAtExit);

  const ended = new Promise<string>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code, signalName) => {
      const how = signalName ?? `exit code ${code}`;
      // 'close' follows when what it printed last has been read; a grandchild may hold its output open
      const timer = setTimeout(() => resolve(how), LAST_OUTPUT_MS);
      child.once('close', () => {
        clearTimeout(timer);
        resolve(how);
      });
    });
  }).finally(() => {
    process.off('exit', endAtExit);
    watchdog?.kill('SIGKILL');
  });
  ended.catch(() => undefined); // who wants to know awaits it

  return {
    child,
    ended,
    kill,
    async stop(graceMs = 5_000) {
      child.ref(); // else this process could end before the child has
      signal(child, 'SIGTERM');
      const timer = setTimeout(kill, graceMs);
      await ended.catch(() => undefined);
      clearTimeout(timer);
    },
    unref() {
      for (const handle of [child, child.stdout, child.stderr, watchdog, watchdog?.stdin]) unref(handle);
    },
  };
}

function watch(pid: number): ChildProcess {
  const watchdog = spawn('/bin/sh', ['-c', WATCHDOG, 'watchdog', String(pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true, // else Ctrl-C would end it before the parent
  });
  watchdog.on('error', () => undefined);
  watchdog.stdin?.on('error', () => undefined);
  return watchdog;
}

function signal(child: ChildProcess, name: 'SIGTERM' | 'SIGKILL'): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  try {
    if (windows) child.kill(name);
    else process.kill(-child.pid, name);
  } catch {
    // it has just ended
  }
}

/** Pipes have an unref() that their declared type, a plain stream, does not show. */
function unref(handle: unknown): void {
  (handle as { unref?: () => void } | null | undefined)?.unref?.();
}
