/** Tools that take minutes to get are got once for each user and kept outside the project: the cache folder. */
import { mkdir, mkdtemp, open, readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { spawnOwned, type OwnedProcessOptions } from './owned-process';

/** Takes one line for a person to read: what is being done, and for how long already. */
export type Log = (line: string) => void;

/** A lock is touched every 5 s while its holder lives, so one this old was left by a process that was killed. */
const LOCK_IS_STALE_MS = 30_000;
const REPORT_EVERY_MS = 10_000;
/** A download that gets nothing for this long has failed: the SDK itself would wait for ever. */
const DOWNLOAD_STALLED_MS = 30_000;

/** `$XDG_CACHE_HOME/temporal-nova`, else `~/.cache/temporal-nova`. */
export function cacheFolder(): string {
  return path.join(process.env.XDG_CACHE_HOME || path.join(homedir(), '.cache'), 'temporal-nova');
}

/** The path of a cached tool, or undefined. */
export async function findCached(name: string): Promise<string | undefined> {
  const file = path.join(cacheFolder(), name);
  return (await exists(file)) ? file : undefined;
}

/**
 * Gets a tool into the cache, once: two processes that want it at the same time make it one after the other, and the
 * second finds it made. It appears under its name only when it is whole.
 *
 * @param name the tool's name in the cache
 * @param make makes it in the given empty folder, and returns the path of what is to be kept (inside that folder)
 * @returns its path in the cache
 */
export async function cached(name: string, make: (folder: string) => Promise<string>, log: Log): Promise<string> {
  const target = path.join(cacheFolder(), name);
  await mkdir(cacheFolder(), { recursive: true });
  const unlock = await lock(path.join(cacheFolder(), `${name}.lock`), log);
  try {
    if (await exists(target)) return target;
    await removeUnfinished(name);
    const folder = await mkdtemp(path.join(cacheFolder(), unfinished(name)));
    try {
      await rename(await make(folder), target);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
    return target;
  } finally {
    await unlock();
  }
}

const unfinished = (name: string): string => `.new-${name}-`;

/** What a process that was killed half-way left: nobody else is at it, for we hold the lock. */
async function removeUnfinished(name: string): Promise<void> {
  const left = (await readdir(cacheFolder())).filter((file) => file.startsWith(unfinished(name)));
  await Promise.all(left.map((file) => rm(path.join(cacheFolder(), file), { recursive: true, force: true })));
}

/** Two that take over a stale lock in the same moment may both get it: the work is then done twice, with no harm. */
async function lock(file: string, log: Log): Promise<() => Promise<void>> {
  for (let waited = 0; ; waited += 500) {
    const handle = await open(file, 'wx').catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
    if (handle) {
      await handle.close();
      const touch = setInterval(() => void utimes(file, new Date(), new Date()).catch(() => undefined), 5_000);
      return async () => {
        clearInterval(touch);
        await rm(file, { force: true });
      };
    }
    const touched = await stat(file).catch(() => undefined);
    if (touched && Date.now() - touched.mtimeMs > LOCK_IS_STALE_MS) await rm(file, { force: true });
    else await sleep(500);
    if (waited % REPORT_EVERY_MS === 0)
      log(`another process is getting ${path.basename(file, '.lock')}: waiting for it`);
  }
}

export interface RunOptions extends OwnedProcessOptions {
  /** Ends the command when this returns true; asked each second. */
  giveUp?: () => Promise<boolean>;
}

/**
 * Runs a command to its end, and logs every 10 s that it still runs.
 *
 * @returns what it printed
 * @throws Error with the end of what it printed, when it fails
 */
export async function run(
  what: string,
  command: string,
  args: string[],
  log: Log,
  options: RunOptions = {},
): Promise<string> {
  const { giveUp, ...spawnOptions } = options;
  const started = Date.now();
  let output = '';
  let gaveUp = false;
  const running = spawnOwned(command, args, spawnOptions);
  const keep = (chunk: Buffer): void => void (output = (output + chunk.toString()).slice(-100_000));
  running.child.stdout?.on('data', keep);
  running.child.stderr?.on('data', keep);
  const report = setInterval(() => log(`${what} … ${Math.round((Date.now() - started) / 1000)} s`), REPORT_EVERY_MS);
  const watch = setInterval(() => {
    void giveUp?.().then((enough) => {
      if (!enough) return;
      gaveUp = true;
      running.kill();
    });
  }, 1_000);
  try {
    const how = await running.ended;
    if (how === 'exit code 0') return output;
    const lines = output.trim().split('\n').slice(-5).join('\n');
    throw new Error(gaveUp ? 'no answer' : `${how}${lines && `: ${lines}`}`);
  } finally {
    clearInterval(report);
    clearInterval(watch);
  }
}

/** Run by a Node process of its own, so that a download that hangs can be ended. Starting the server downloads it. */
const SDK_DOWNLOAD = `
  const [testing, create, downloadDir] = process.argv.slice(1);
  require(testing)
    .TestWorkflowEnvironment[create]({ server: { executable: { type: 'cached-download', downloadDir } } })
    .then((environment) => environment.teardown())
    .then(() => process.exit(0), (error) => { console.error(String(error)); process.exit(1); });
`;

/** The name under which the Temporal SDK's own download keeps a tool: it has a version of it for each SDK version. */
export function sdkDownloadName(prefix: 'temporal' | 'temporal-test-server'): string {
  // eslint-disable-next-line @typescript-eslint/no-require-imports -- a package's version, looked up when it is needed
  const { version } = require('@temporalio/testing/package.json') as { version: string };
  return `${prefix}-sdk-typescript-${version}${process.platform === 'win32' ? '.exe' : ''}`;
}

/** Gets a server by the Temporal SDK's own download (`@temporalio/testing`, `cached-download`) into the cache. */
export async function sdkDownload(server: 'dev-server' | 'time-skipping', log: Log): Promise<string> {
  const [prefix, create] =
    server === 'dev-server'
      ? (['temporal', 'createLocal'] as const)
      : (['temporal-test-server', 'createTimeSkipping'] as const);
  const name = sdkDownloadName(prefix);
  return cached(
    name,
    async (folder) => {
      const what = `downloading ${name} with the Temporal SDK`;
      log(what);
      const args = ['-e', SDK_DOWNLOAD, require.resolve('@temporalio/testing'), create, folder];
      await run(what, process.execPath, args, log, { giveUp: stalled(folder) });
      return path.join(folder, name);
    },
    log,
  );
}

function stalled(folder: string): () => Promise<boolean> {
  let size = 0;
  let grown = Date.now();
  return async () => {
    const files = await readdir(folder).catch(() => []);
    const sizes = await Promise.all(files.map((file) => stat(path.join(folder, file)).catch(() => ({ size: 0 }))));
    const now = sizes.reduce((sum, file) => sum + file.size, 0);
    if (now !== size) [size, grown] = [now, Date.now()];
    return Date.now() - grown > DOWNLOAD_STALLED_MS;
  };
}

async function exists(file: string): Promise<boolean> {
  return stat(file).then(
    () => true,
    () => false,
  );
}
