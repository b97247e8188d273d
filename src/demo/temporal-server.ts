/** A real Temporal server for the demo, the tests and the benchmark: found or got, and started. */
import { access, constants, stat } from 'node:fs/promises';
import { createWriteStream } from 'node:fs';
import { connect as connectTcp, createServer, type AddressInfo } from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Connection, type ConnectionOptions } from '@temporalio/client';
import { loadClientConnectConfig } from '@temporalio/envconfig';
import { findWebUi } from '../web-ui';
import { spawnOwned, type OwnedProcess } from './owned-process';
import { cached, cacheFolder, findCached, run, sdkDownload, sdkDownloadName, type Log } from './tool-cache';

/** The newest release that `go install` takes: later ones have a `replace` in their go.mod. */
const GO_INSTALL = 'github.com/temporalio/cli/cmd/temporal@v1.5.1';
const GO_INSTALLED = `temporal-1.5.1${process.platform === 'win32' ? '.exe' : ''}`;

const HOST = '127.0.0.1';
const USUAL_PORT = 7233;
const USUAL_UI_PORT = 8233;
/** Up takes a third of a second, and much longer on a machine whose cores are all busy. */
const READY_WITHIN_MS = 60_000;

/**
 * Without these a dev server fires timers on a grid of 1 s, and takes 40 ms to hand over each activity (measured with
 * server 1.29.1): fine in production, slow in a test.
 */
const FAST = { 'system.enableActivityEagerExecution': true, 'history.timerProcessorMaxTimeShift': '10ms' };

export type SearchAttributeType = 'Text' | 'Keyword' | 'Int' | 'Double' | 'Bool' | 'Datetime' | 'KeywordList';

export interface TemporalServerOptions {
  /** With the Web UI; default false. */
  ui?: boolean;
  /** Keeps its state in this SQLite file; default: in memory. */
  dbFilename?: string;
  /** Default 7233 where that is free, else any free one; 0: any free one. */
  port?: number;
  /** Default 8233 where that is free, else any free one; 0: any free one. */
  uiPort?: number;
  /** Dynamic configuration of the server, by key; wins over the values that make the server fast. */
  dynamicConfig?: Record<string, string | number | boolean>;
  /** Search attributes to register, name to type. */
  searchAttributes?: Record<string, SearchAttributeType>;
  /** Is told what takes long; default: standard error. */
  log?: Log;
  /** What the server prints is added to this file; default: only shown when it can't start. */
  logFile?: string;
}

export interface TemporalServer {
  /** `host:port` of its gRPC endpoint. */
  address: string;
  /** Where its Web UI is, without a slash at the end; undefined without one. */
  uiUrl: string | undefined;
  namespace: string;
  /** Undefined for a server that was running already; so is `cli`. */
  pid: number | undefined;
  /** The Temporal CLI that it was started with. */
  cli: string | undefined;
  /** Ends it, and waits until it has ended. A server that was running already is left alone. */
  stop(): Promise<void>;
  /** Kills it at once. */
  kill(): void;
}

const toStandardError: Log = (line) => void process.stderr.write(`${line}\n`);

/**
 * The Temporal CLI, which holds a whole Temporal server. The first of: `TEMPORAL_CLI_PATH`, `temporal` on the PATH, a
 * copy in the cache, the Temporal SDK's own download, `go install` where Go is installed.
 *
 * @returns the path of the executable
 * @throws Error that says what was tried, and what to install
 */
export async function findTemporalCli(log: Log = toStandardError): Promise<string> {
  const given = process.env.TEMPORAL_CLI_PATH;
  if (given) return givenCli(given);

  const tried: string[] = [];
  const ways: [what: string, find: () => Promise<string | undefined>][] = [
    ['temporal on the PATH', () => onPath('temporal')],
    [
      `a copy in ${cacheFolder()}`,
      async () => (await findCached(GO_INSTALLED)) ?? findCached(sdkDownloadName('temporal')),
    ],
    ["the Temporal SDK's download", () => sdkDownload('dev-server', log)],
    [`go install ${GO_INSTALL}`, () => goInstall(log)],
  ];
  for (const [what, find] of ways) {
    try {
      const cli = await find();
      if (cli) return cli;
      tried.push(`${what}: not found`);
    } catch (error) {
      log(`${what} did not work`);
      tried.push(`${what}: ${oneLine(error)}`);
    }
  }
  throw new Error(
    `No Temporal server could be had. Tried:\n${tried.map((line) => `  - ${line}`).join('\n')}\n` +
      'Install the Temporal CLI (https://docs.temporal.io/cli) so that `temporal` is on the PATH, or set TEMPORAL_CLI_PATH ' +
      'to it; or install Go 1.25 or later, and it is built from source; or set TEMPORAL_ADDRESS to a running server.',
  );
}

async function givenCli(file: string): Promise<string> {
  const found = await stat(file).catch(() => undefined);
  if (!found?.isFile()) throw new Error(`TEMPORAL_CLI_PATH is ${file}: there is no such file`);
  await access(file, constants.X_OK).catch(() => {
    throw new Error(`TEMPORAL_CLI_PATH is ${file}: it is not executable`);
  });
  return file;
}

async function onPath(name: string): Promise<string | undefined> {
  const endings = process.platform === 'win32' ? ['.exe', '.cmd'] : [''];
  for (const folder of (process.env.PATH ?? '').split(path.delimiter).filter(Boolean)) {
    for (const ending of endings) {
      const file = path.join(folder, name + ending);
      const usable = (await stat(file).catch(() => undefined))?.isFile() && (await executable(file));
      if (usable) return file;
    }
  }
  return undefined;
}

function executable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}

async function goInstall(log: Log): Promise<string> {
  const go = await onPath('go');
  if (!go) throw new Error('Go is not installed');
  const what = 'building the Temporal CLI from source with Go (once, some minutes)';
  return cached(
    GO_INSTALLED,
    async (folder) => {
      log(what);
      await run(what, go, ['install', GO_INSTALL], log, { cwd: folder, env: { ...process.env, GOBIN: folder } });
      return path.join(folder, process.platform === 'win32' ? 'temporal.exe' : 'temporal');
    },
    log,
  );
}

/**
 * Uses the Temporal server at `TEMPORAL_ADDRESS` (with the other `TEMPORAL_*` settings), else starts one of its own.
 * Its namespace is `TEMPORAL_NAMESPACE`, else `default`. It ends with this process, however that ends.
 *
 * @throws Error when there is none, or it does not come up: says why
 */
export async function startTemporalServer(options: TemporalServerOptions = {}): Promise<TemporalServer> {
  if (process.env.TEMPORAL_ADDRESS) return runningServer();
  const log = options.log ?? toStandardError;
  const cli = await findTemporalCli(log);
  const namespace = process.env.TEMPORAL_NAMESPACE || 'default';
  for (let attempt = 1; ; attempt++) {
    const port = await choosePort(options.port, USUAL_PORT);
    const uiPort = options.ui ? await choosePort(options.uiPort, USUAL_UI_PORT) : undefined;
    try {
      return await start(cli, { ...options, port, uiPort, namespace });
    } catch (error) {
      // somebody else took a port between our look and the server's
      const chosenByUs = !options.port || (options.ui && !options.uiPort);
      if (!(chosenByUs && attempt < 5 && /address already in use/i.test(String(error)))) throw error;
    }
  }
}

async function runningServer(): Promise<TemporalServer> {
  const { connectionOptions, namespace } = loadClientConnectConfig();
  const address = connectionOptions.address ?? `${HOST}:${USUAL_PORT}`;
  await answers(connectionOptions, namespace ?? 'default', 5_000).catch((error: unknown) => {
    throw new Error(`the Temporal server of TEMPORAL_ADDRESS=${address} does not answer: ${oneLine(error)}`);
  });
  return {
    address,
    uiUrl: await findWebUi(address),
    namespace: namespace ?? 'default',
    pid: undefined,
    cli: undefined,
    stop: () => Promise.resolve(),
    kill: () => undefined,
  };
}

interface StartOptions extends TemporalServerOptions {
  port: number;
  uiPort: number | undefined;
  namespace: string;
}

async function start(cli: string, options: StartOptions): Promise<TemporalServer> {
  const { port, uiPort, namespace } = options;
  const address = `${HOST}:${port}`;
  const server = spawnOwned(cli, commandLine(options));
  let listens = false;
  let output = '';
  const file = options.logFile ? createWriteStream(options.logFile, { flags: 'a' }) : undefined;
  const keep = (chunk: Buffer): void => {
    output = (output + chunk.toString()).slice(-10_000);
    file?.write(chunk);
  };
  // It prints its address once it listens. Asking the port alone could meet another server, that was faster.
  server.child.stdout?.on('data', (chunk: Buffer) => (listens ||= chunk.toString().includes(`:${port}`)));
  server.child.stdout?.on('data', keep);
  server.child.stderr?.on('data', keep);
  void server.ended.finally(() => file?.end()).catch(() => undefined);

  try {
    await untilReady(server, async () => {
      if (!listens) throw new Error('it does not listen');
      await answers({ address }, namespace, 1_000);
    });
  } catch (error) {
    await server.stop(0);
    throw new Error(
      `temporal server start-dev (${cli}) did not come up: ${oneLine(error)}${output && `\n${output.trim()}`}`,
    );
  }
  server.unref();
  return {
    address,
    uiUrl: uiPort === undefined ? undefined : `http://${HOST}:${uiPort}`,
    namespace,
    pid: server.child.pid,
    cli,
    // With its state in memory it has nothing to save: no need to wait a second for an orderly end.
    stop: () => server.stop(options.dbFilename ? 10_000 : 0),
    kill: () => server.kill(),
  };
}

function commandLine(options: StartOptions): string[] {
  const { port, uiPort, namespace, dbFilename, searchAttributes = {} } = options;
  const dynamicConfig = Object.entries({ ...FAST, ...options.dynamicConfig });
  return [
    ...['server', 'start-dev', '--ip', HOST, '--port', String(port), '--log-level', 'error'],
    ...(uiPort === undefined ? ['--headless'] : ['--ui-port', String(uiPort)]),
    ...(namespace === 'default' ? [] : ['--namespace', namespace]),
    ...(dbFilename ? ['--db-filename', dbFilename] : []),
    ...dynamicConfig.flatMap(([key, value]) => ['--dynamic-config-value', `${key}=${JSON.stringify(value)}`]),
    ...Object.entries(searchAttributes).flatMap(([name, type]) => ['--search-attribute', `${name}=${type}`]),
  ];
}

async function untilReady(server: OwnedProcess, ready: () => Promise<void>): Promise<void> {
  const end = server.ended.then((how) => {
    throw new Error(`it ended (${how})`);
  });
  const deadline = Date.now() + READY_WITHIN_MS;
  for (;;) {
    const error = await Promise.race([
      ready().then(
        () => undefined,
        (reason: unknown) => reason,
      ),
      end,
    ]);
    if (error === undefined) return;
    if (Date.now() > deadline) throw error;
    await Promise.race([sleep(50), end]);
  }
}

/** Resolves when the server answers for the namespace. */
async function answers(options: ConnectionOptions, namespace: string, withinMs: number): Promise<void> {
  const connection = await Connection.connect({ ...options, connectTimeout: withinMs });
  try {
    await connection.withDeadline(Date.now() + withinMs, () =>
      connection.workflowService.describeNamespace({ namespace }),
    );
  } finally {
    await connection.close();
  }
}

async function choosePort(wanted: number | undefined, usual: number): Promise<number> {
  if (wanted) return wanted;
  return wanted === undefined && (await isFree(usual)) ? usual : freePort();
}

/** Whether nothing listens on a port of 127.0.0.1, and something could. */
async function isFree(port: number): Promise<boolean> {
  return !(await isListening(port)) && (await listenOnce(port)) !== undefined;
}

/** Asked too because binding 127.0.0.1 succeeds on macOS while another process listens on every address. */
function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connectTcp({ host: HOST, port });
    socket.once('connect', () => resolve(true));
    socket.once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}

async function freePort(): Promise<number> {
  const port = await listenOnce(0);
  if (port === undefined) throw new Error(`no free port on ${HOST}`);
  return port;
}

function listenOnce(port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(undefined));
    server.listen({ host: HOST, port, exclusive: true }, () => {
      const { port: bound } = server.address() as AddressInfo;
      server.close(() => resolve(bound));
    });
  });
}

function oneLine(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message.trim().replace(/\s*\n\s*/g, ' | ');
}
