/**
 * The real Temporal server that the whole run shares, and time-skipping ones. A test file that imports this is skipped
 * as a whole where no Temporal server can be had; the end of the run says so.
 */
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { TestWorkflowEnvironment } from '@temporalio/testing';
import { bundleWorkflowCode, DefaultLogger, NativeConnection, Runtime } from '@temporalio/worker';
import { RUN, runFolder } from './run';

if (!process.env[RUN.address]) skipThisFile();

export interface TestTemporal {
  client: Client;
  /** For workers. */
  nativeConnection: NativeConnection;
  /** `host:port`, for workers in processes of their own: `TEMPORAL_ADDRESS`. */
  address: string;
  namespace: string;
  /** Closes both connections: in `afterAll`, when the workers have ended. */
  close(): Promise<void>;
}

/** Connects to the Temporal server of this run. */
export async function connect(): Promise<TestTemporal> {
  quietRuntime();
  const address = fromRun(RUN.address);
  const namespace = fromRun(RUN.namespace);
  const [connection, nativeConnection] = await Promise.all([
    Connection.connect({ address }),
    NativeConnection.connect({ address }),
  ]);
  return {
    client: new Client({ connection, namespace }),
    nativeConnection,
    address,
    namespace,
    async close() {
      await connection.close();
      await nativeConnection.close();
    },
  };
}

/** A task queue that no other test has. */
export function uniqueTaskQueue(): string {
  return `test-${randomUUID()}`;
}

/** `describe` for tests that call `timeSkipping()`: skipped where no time-skipping server can be had. */
export const describeTimeSkipping: jest.Describe = process.env[RUN.timeSkippingServer] ? describe : describe.skip;

/**
 * Starts a time-skipping server of the test's own: skipping is global to a server. Awaiting a workflow's result skips
 * its timers. End it with `teardown()`.
 */
export async function timeSkipping(): Promise<TestWorkflowEnvironment> {
  quietRuntime();
  const server = { executable: { type: 'existing-path' as const, path: fromRun(RUN.timeSkippingServer) } };
  for (let attempt = 1; ; attempt++) {
    try {
      return await TestWorkflowEnvironment.createTimeSkipping({ server });
    } catch (error) {
      if (attempt === 3) throw error; // the SDK gives it 5 s, which a JVM on a busy machine may need more than once
    }
  }
}

/**
 * The workflows, bundled once a run instead of once a worker, which takes seconds each time: for a worker's
 * `workflowBundle` (instead of `workflowsPath`), and for replays.
 */
export async function workflowBundle(): Promise<{ codePath: string }> {
  const codePath = path.join(runFolder(), 'workflows.js');
  if (!existsSync(codePath)) {
    const source = path.join(__dirname, '../../src/workflows');
    const { code } = await bundleWorkflowCode({
      workflowsPath: path.join(source, 'index.ts'),
      payloadConverterPath: path.join(source, 'payload-converter.ts'),
      logger: new DefaultLogger('ERROR'),
    });
    const mine = `${codePath}.${process.pid}`;
    await writeFile(mine, code);
    await rename(mine, codePath);
  }
  return { codePath };
}

/** Workers log errors only; the runtime can be installed once a process, so a test may have its own before. */
export function quietRuntime(): void {
  try {
    Runtime.install({ logger: new DefaultLogger('ERROR') });
  } catch {
    // installed already
  }
}

function fromRun(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: the global setup could not get it`);
  return value;
}

function skipThisFile(): void {
  const nothing = (): void => undefined;
  Object.assign(globalThis, {
    describe: describe.skip,
    it: it.skip,
    test: test.skip,
    beforeAll: nothing,
    afterAll: nothing,
    beforeEach: nothing,
    afterEach: nothing,
  });
}
