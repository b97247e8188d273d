/**
 * `npm run bench [-- name …]`: measures what the product exists for, with a Temporal dev server and one worker on this
 * machine. Prints a table; without a name, runs all. The cloud is a simulated one; `recover` takes that of `OS_*`, where
 * it is set. `BENCH_WORKER_NODE_OPTIONS` is `NODE_OPTIONS` for the workers alone: `--max-old-space-size=512`, say.
 */
import os from 'node:os';
import { benchCreate } from './create';
import { benchGrowth } from './growth';
import { benchPeers } from './peers';
import { benchRecover } from './recover';
import { benchWait } from './wait';

/** One line of the table. */
export interface Measure {
  what: string;
  value: string;
  /** What the project aims for. */
  aim: string;
}

const BENCHES: Record<string, () => Promise<Measure[]>> = {
  create: benchCreate,
  wait: benchWait,
  recover: benchRecover,
  growth: benchGrowth,
  peers: benchPeers,
};

async function main(names: string[]): Promise<void> {
  const unknown = names.filter((name) => !(name in BENCHES));
  if (unknown.length > 0) {
    console.error(`no benchmark ${unknown.join(', ')}; there are: ${Object.keys(BENCHES).join(', ')}`);
    process.exitCode = 2;
    return;
  }
  const cpu = os.cpus()[0]?.model ?? 'unknown CPU';
  console.log(`${os.cpus().length} × ${cpu}, ${Math.round(os.totalmem() / 2 ** 30)} GiB, Node ${process.version}\n`);
  for (const [name, run] of Object.entries(BENCHES)) {
    if (names.length > 0 && !names.includes(name)) continue;
    console.log(`## ${name}`);
    for (const { what, value, aim } of await run()) console.log(`| ${what} | ${value} | ${aim} |`);
    console.log();
  }
}

void main(process.argv.slice(2));
