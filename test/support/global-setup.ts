import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { startTemporalServer, type TemporalServer } from '../../src/demo/temporal-server';
import { noteSkipped, REQUIRE_ALL, RUN, SUGGEST_CONTINUE_AS_NEW } from './run';
import { findTimeSkippingServer, HOW_TO_INSTALL } from './time-skipping-server';

/** Where the setup leaves the server for the teardown, which runs in the same process. */
export type WithServer = typeof globalThis & { temporalServer?: TemporalServer };

const log = (line: string): void => void process.stderr.write(`${line}\n`);

/** One Temporal server for the whole run, and the time-skipping one made ready. */
export default async function globalSetup(): Promise<void> {
  process.env[RUN.folder] = await mkdtemp(path.join(tmpdir(), 'temporal-nova-test-'));
  await orSkip('all tests that need a Temporal server', async () => {
    const server = await startTemporalServer({ port: 0, dynamicConfig: dynamicConfig(), log });
    (globalThis as WithServer).temporalServer = server;
    process.env[RUN.address] = server.address;
    process.env[RUN.namespace] = server.namespace;
  });
  await orSkip(`the tests of long waits, on a time-skipping server: ${HOW_TO_INSTALL}`, async () => {
    process.env[RUN.timeSkippingServer] = await findTimeSkippingServer(log);
  });
}

function dynamicConfig(): Record<string, number> {
  const events = process.env[SUGGEST_CONTINUE_AS_NEW];
  return events ? { 'limit.historyCount.suggestContinueAsNew': Number(events) } : {};
}

async function orSkip(what: string, get: () => Promise<void>): Promise<void> {
  try {
    await get();
  } catch (error) {
    if (process.env[REQUIRE_ALL]) throw error;
    noteSkipped(`${what}\n    ${error instanceof Error ? error.message.replaceAll('\n', '\n    ') : String(error)}`);
  }
}
