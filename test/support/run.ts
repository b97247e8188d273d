/** What one run of the tests shares between its processes: set by the global setup, in environment variables. */
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import path from 'node:path';

export const RUN = {
  /** A folder that is deleted at the end of the run. */
  folder: 'TEMPORAL_NOVA_TEST_FOLDER',
  /** The Temporal server; unset where there is none. */
  address: 'TEMPORAL_NOVA_TEST_ADDRESS',
  namespace: 'TEMPORAL_NOVA_TEST_NAMESPACE',
  /** The executable of the time-skipping server; unset where there is none. */
  timeSkippingServer: 'TEMPORAL_NOVA_TEST_TIME_SKIPPING_SERVER',
} as const;

/** Set from outside: the server's `limit.historyCount.suggestContinueAsNew`, for a run with short histories. */
export const SUGGEST_CONTINUE_AS_NEW = 'TEMPORAL_NOVA_TEST_SUGGEST_CONTINUE_AS_NEW';
/** Set from outside: a tool that can't be had fails the run, instead of skipping tests. */
export const REQUIRE_ALL = 'TEMPORAL_NOVA_TEST_REQUIRE_ALL';

export function runFolder(): string {
  const folder = process.env[RUN.folder];
  if (!folder) throw new Error('no global setup has run: is the Jest config the project’s own?');
  return folder;
}

const skippedFile = (): string => path.join(runFolder(), 'skipped.txt');

/** Notes that tests are skipped for lack of a tool: said once, at the end of the run. */
export function noteSkipped(line: string): void {
  appendFileSync(skippedFile(), `${line}\n`);
}

export function skipped(): string[] {
  if (!existsSync(skippedFile())) return [];
  return [...new Set(readFileSync(skippedFile(), 'utf8').trim().split('\n'))];
}
