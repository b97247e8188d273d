import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { cached, cacheFolder, findCached, run } from '../../src/demo/tool-cache';

const xdgCacheHome = process.env.XDG_CACHE_HOME;
const silent = (): void => undefined;

beforeEach(() => {
  process.env.XDG_CACHE_HOME = mkdtempSync(path.join(tmpdir(), 'temporal-nova-test-'));
});

afterEach(() => {
  rmSync(process.env.XDG_CACHE_HOME!, { recursive: true });
  if (xdgCacheHome === undefined) delete process.env.XDG_CACHE_HOME;
  else process.env.XDG_CACHE_HOME = xdgCacheHome;
});

function maker(): { made: () => number; make: (folder: string) => Promise<string> } {
  let made = 0;
  return {
    made: () => made,
    async make(folder) {
      made += 1;
      await sleep(100);
      const file = path.join(folder, 'anything');
      await writeFile(file, 'a tool');
      return file;
    },
  };
}

it('makes a tool once for two who want it at the same time, and keeps nothing else', async () => {
  const { made, make } = maker();
  const files = await Promise.all([cached('tool', make, silent), cached('tool', make, silent)]);
  expect(made()).toBe(1);
  expect(files).toEqual([path.join(cacheFolder(), 'tool'), path.join(cacheFolder(), 'tool')]);
  expect(readFileSync(files[0]!, 'utf8')).toBe('a tool');
  expect(readdirSync(cacheFolder())).toEqual(['tool']);
  expect(await findCached('tool')).toBe(files[0]);
});

it('keeps nothing of a tool that could not be made, and makes it the next time', async () => {
  const half = async (folder: string): Promise<string> => {
    await writeFile(path.join(folder, 'half'), '');
    throw new Error('no network');
  };
  await expect(cached('tool', half, silent)).rejects.toThrow('no network');
  expect(readdirSync(cacheFolder())).toEqual([]);
  await cached('tool', maker().make, silent);
  expect(readdirSync(cacheFolder())).toEqual(['tool']);
});

it('waits for another process, and does not wait for one that was killed', async () => {
  await cached('first', maker().make, silent); // makes the folder
  const lock = path.join(cacheFolder(), 'tool.lock');
  writeFileSync(lock, '');
  mkdirSync(path.join(cacheFolder(), '.new-tool-abc')); // its unfinished work
  const lines: string[] = [];
  const waiting = cached('tool', maker().make, (line) => lines.push(line));
  await sleep(700);
  expect(await findCached('tool')).toBeUndefined();
  expect(lines).toEqual(['another process is getting tool: waiting for it']);
  const minuteAgo = new Date(Date.now() - 60_000);
  utimesSync(lock, minuteAgo, minuteAgo);
  await waiting;
  expect(readdirSync(cacheFolder())).toEqual(['first', 'tool']);
});

describe('a command that is run to its end', () => {
  it('gives what it printed', async () => {
    expect(await run('printing', 'sh', ['-c', 'echo out; echo err >&2'], silent)).toMatch(/out\n|err\n/);
  });

  it('fails with the end of what it printed', async () => {
    await expect(run('failing', 'sh', ['-c', 'seq 20; exit 3'], silent)).rejects.toThrow(
      'exit code 3: 16\n17\n18\n19\n20',
    );
  });

  it('fails when it is not there', async () => {
    await expect(run('nothing', 'no-such-command', [], silent)).rejects.toThrow(/ENOENT/);
  });

  it('is ended, with its children, when it is given up', async () => {
    const started = Date.now();
    const giveUp = async (): Promise<boolean> => Date.now() - started > 500;
    await expect(run('hanging', 'sh', ['-c', 'sleep 60; echo'], silent, { giveUp })).rejects.toThrow('no answer');
    expect(Date.now() - started).toBeLessThan(5_000);
  });
});
