import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Connection } from '@temporalio/client';
import { findTemporalCli, startTemporalServer, type TemporalServer } from '../../src/demo/temporal-server';
import { endsWithin, isRunning, nextLine, runScript } from '../support/processes';
import { connect } from '../support/temporal';

const environment = { ...process.env };
const silent = (): void => undefined;
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'temporal-nova-test-'));
  delete process.env.TEMPORAL_ADDRESS;
  delete process.env.TEMPORAL_NAMESPACE;
});

afterEach(() => {
  process.env = { ...environment };
  rmSync(folder, { recursive: true });
});

async function answers({ address, namespace }: Pick<TemporalServer, 'address' | 'namespace'>): Promise<boolean> {
  const connection = await Connection.connect({ address, connectTimeout: 2_000 }).catch(() => undefined);
  if (!connection) return false;
  const { namespaceInfo } = await connection.workflowService.describeNamespace({ namespace });
  await connection.close();
  return namespaceInfo?.name === namespace;
}

describe('a Temporal server ends with the process that started it', () => {
  const hold = path.join(__dirname, 'hold-temporal-server.ts');
  const ends: [how: string, argument: string, signal: NodeJS.Signals | undefined][] = [
    ['is killed', 'stay', 'SIGKILL'],
    ['is interrupted by Ctrl-C', 'stay', 'SIGINT'],
    ['crashes', 'throw', undefined],
    ['just ends', 'end', undefined],
  ];

  it.each(ends)('when that %s', async (_how, argument, signal) => {
    const parent = runScript(hold, [argument], { stderr: 'ignore' });
    const exited = once(parent, 'exit');
    const pid = Number(await nextLine(parent));
    if (signal) {
      expect(isRunning(pid)).toBe(true);
      parent.kill(signal);
    }
    await exited;
    expect(await endsWithin(pid, 6_000)).toBe(true);
  });

  it('when it is stopped', async () => {
    const server = await startTemporalServer({ port: 0 });
    expect(await answers(server)).toBe(true);
    await server.stop();
    expect(isRunning(server.pid!)).toBe(false);
    expect(await answers(server)).toBe(false);
  });
});

describe('ports', () => {
  const listeners: Server[] = [];
  afterEach(() => listeners.splice(0).forEach((listener) => listener.close()));

  async function listen(port: number): Promise<void> {
    const listener = createServer();
    listeners.push(listener);
    listener.listen(port, '127.0.0.1');
    await once(listener, 'listening').catch(() => undefined); // somebody else has it: as well
  }

  it('are free ones where the usual ones are taken', async () => {
    await Promise.all([listen(7233), listen(8233)]);
    const server = await startTemporalServer({ ui: true });
    try {
      expect(server.address).not.toBe('127.0.0.1:7233');
      expect(server.uiUrl).not.toBe('http://127.0.0.1:8233');
      expect(await answers(server)).toBe(true);
      expect((await fetch(server.uiUrl!)).status).toBe(200);
    } finally {
      await server.stop();
    }
  });

  it('that are asked for by number are not replaced', async () => {
    const server = await startTemporalServer({ port: 0 });
    const port = Number(server.address.split(':')[1]);
    await expect(startTemporalServer({ port })).rejects.toThrow(/did not come up: .*ended[^]*address already in use/);
    await server.stop();
  });

  it('are different ones for servers started at once', async () => {
    const servers = await Promise.all([1, 2, 3].map(() => startTemporalServer()));
    expect(new Set(servers.map((server) => server.address)).size).toBe(3);
    expect(await Promise.all(servers.map(answers))).toEqual([true, true, true]);
    expect(servers.map((server) => isRunning(server.pid!))).toEqual([true, true, true]);
    await Promise.all(servers.map((server) => server.stop()));
  });
});

describe('settings', () => {
  it('TEMPORAL_ADDRESS: that server is used, and left running', async () => {
    const { address, namespace, close } = await connect();
    await close();
    process.env.TEMPORAL_ADDRESS = address;
    process.env.TEMPORAL_CLI_PATH = '/nowhere/temporal'; // not asked for
    const server = await startTemporalServer();
    expect(server).toMatchObject({ address, namespace, pid: undefined });
    await server.stop();
    expect(await answers(server)).toBe(true);
  });

  it('TEMPORAL_ADDRESS where nothing answers: says so', async () => {
    process.env.TEMPORAL_ADDRESS = '127.0.0.1:1';
    await expect(startTemporalServer()).rejects.toThrow('TEMPORAL_ADDRESS=127.0.0.1:1 does not answer');
  });

  it('TEMPORAL_NAMESPACE: the server has it', async () => {
    process.env.TEMPORAL_NAMESPACE = 'another';
    const server = await startTemporalServer({ port: 0 });
    expect(server.namespace).toBe('another');
    expect(await answers(server)).toBe(true);
    await server.stop();
  });

  it('TEMPORAL_CLI_PATH that is not there, or can’t be run: says so at once', async () => {
    process.env.TEMPORAL_CLI_PATH = path.join(folder, 'temporal');
    await expect(startTemporalServer()).rejects.toThrow(
      `TEMPORAL_CLI_PATH is ${folder}/temporal: there is no such file`,
    );
    writeFileSync(process.env.TEMPORAL_CLI_PATH, '', { mode: 0o600 });
    await expect(startTemporalServer()).rejects.toThrow(
      `TEMPORAL_CLI_PATH is ${folder}/temporal: it is not executable`,
    );
  });

  it('TEMPORAL_CLI_PATH of something else: shows what it printed', async () => {
    process.env.TEMPORAL_CLI_PATH = path.join(folder, 'temporal');
    writeFileSync(process.env.TEMPORAL_CLI_PATH, '#!/bin/sh\necho what is start-dev?; exit 3\n', { mode: 0o700 });
    await expect(startTemporalServer()).rejects.toThrow(
      /did not come up: it ended \(exit code 3\)\nwhat is start-dev\?/,
    );
  });
});

describe('finding the Temporal CLI', () => {
  /** Nothing is installed, nothing is cached, and the SDK's download meets a proxy that is not there. */
  function bareMachine(): void {
    process.env.PATH = folder;
    process.env.XDG_CACHE_HOME = path.join(folder, 'cache');
    process.env.HTTPS_PROXY = 'http://127.0.0.1:1';
    delete process.env.TEMPORAL_CLI_PATH;
  }

  it('takes the one on the PATH', async () => {
    bareMachine();
    writeFileSync(path.join(folder, 'temporal'), '#!/bin/sh\n', { mode: 0o700 });
    expect(await findTemporalCli(silent)).toBe(path.join(folder, 'temporal'));
  });

  it('builds it with Go where nothing else works, once, and finds it in the cache from then on', async () => {
    bareMachine();
    const go = `#!/bin/sh\necho "$@" >> "${folder}/built"\necho a binary > "$GOBIN/temporal"\n`;
    writeFileSync(path.join(folder, 'go'), go, { mode: 0o700 });
    const [one, two] = await Promise.all([findTemporalCli(silent), findTemporalCli(silent)]);
    expect(one).toBe(path.join(folder, 'cache/temporal-nova/temporal-1.5.1'));
    expect(two).toBe(one);
    expect(await findTemporalCli(silent)).toBe(one);
    expect(readFileSync(path.join(folder, 'built'), 'utf8')).toBe(
      'install github.com/temporalio/cli/cmd/temporal@v1.5.1\n',
    );
  });

  it('says what it tried and what to install, where nothing works', async () => {
    bareMachine();
    const failure = await findTemporalCli(silent).then(String, String);
    expect(failure).toMatch(/temporal on the PATH: not found/);
    expect(failure).toMatch(/the Temporal SDK's download: exit code 1: .*failed to download/);
    expect(failure).toMatch(/go install .*: Go is not installed/);
    expect(failure).toMatch(/Install the Temporal CLI .*[^]*or install Go/);
  });
});
