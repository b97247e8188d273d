import { createInterface } from 'node:readline';
import { spawnOwned, type OwnedProcess } from './owned-process';
import type { Log } from './tool-cache';

const WARN = 40; // pino's number

/**
 * Starts `lib/worker.js` with the given environment. Its warnings and errors are shown.
 *
 * @returns the process, once it polls
 * @throws Error when it ends before; its last words were shown then
 */
export async function startWorker(env: NodeJS.ProcessEnv, show: Log): Promise<OwnedProcess> {
  // the options of this process too: from its sources, both run with a loader
  const worker = spawnOwned(process.execPath, [...process.execArgv, require.resolve('../worker')], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const polls = new Promise<void>((resolve) => {
    createInterface({ input: worker.child.stdout! }).on('line', (line) => {
      const { level, msg } = entry(line);
      if (level >= WARN) show(`worker: ${msg}`);
      if (msg.startsWith('polling')) resolve();
    });
  });
  const ended = worker.ended.then((how) => {
    throw new Error(`the worker ended (${how})`);
  });
  await Promise.race([polls, ended]);
  return worker;
}

/** The worker logs one JSON object a line, for it writes to a pipe. */
function entry(line: string): { level: number; msg: string } {
  try {
    const { level, msg } = JSON.parse(line) as { level?: number; msg?: string };
    return { level: level ?? 0, msg: msg ?? '' };
  } catch {
    return { level: WARN, msg: line };
  }
}
