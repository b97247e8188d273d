import { rm } from 'node:fs/promises';
import type { WithServer } from './global-setup';
import { runFolder, skipped } from './run';

export default async function globalTeardown(): Promise<void> {
  await (globalThis as WithServer).temporalServer?.stop();
  const lines = skipped();
  if (lines.length > 0) process.stderr.write(`\nSkipped for lack of a tool:\n${lines.join('\n')}\n`);
  await rm(runFolder(), { recursive: true, force: true });
}
