import { sleep } from '@temporalio/workflow';

/** Sleeps some times in a row, and returns how many milliseconds that took by the server's clock. */
export async function sleeps(times: number, ms: number): Promise<number> {
  const started = Date.now();
  for (let i = 0; i < times; i++) await sleep(ms);
  return Date.now() - started;
}
