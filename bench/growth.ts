/**
 * How cost grows with the number of creations at once, and with the number of workers. `BENCH_GROWTH` is how many
 * (default `1,10,100,1000`, comma-separated), `BENCH_WORKERS` how many workers share the last of them (default `1,2,4`).
 */
import { burst } from './create';
import type { Measure } from './main';
import { quantile } from './stage';

const SIZES = (process.env.BENCH_GROWTH ?? '1,10,100,1000').split(',').map(Number);
const WORKERS = (process.env.BENCH_WORKERS ?? '1,2,4').split(',').map(Number);
const BUILD_SECONDS = 30;

export async function benchGrowth(): Promise<Measure[]> {
  const measures: Measure[] = [
    {
      what: `creations at once, builds of ${BUILD_SECONDS} s, default polling`,
      value:
        'lag p50 · p99 (s) | first start → last result (s) | CPU of workers · Temporal (ms each) | worker memory (MiB) | GETs each',
      aim: '',
    },
  ];
  const largest = SIZES.at(-1) ?? 1;
  const runs = [
    ...SIZES.map((size) => ({ size, workers: 1 })),
    ...WORKERS.filter((workers) => workers > 1).map((workers) => ({ size: largest, workers })),
  ];
  for (const { size, workers } of runs) {
    const run = await burst({ size, workers, buildSeconds: BUILD_SECONDS, polling: undefined });
    const each = (cpu: number) => Math.round((cpu / size) * 1000);
    measures.push({
      what: `${size}, ${workers} ${workers === 1 ? 'worker' : 'workers'}`,
      value: [
        `${quantile(run.lags, 0.5)} · ${quantile(run.lags, 0.99)}`,
        run.wall.toFixed(1),
        `${each(run.worker.cpu)} · ${each(run.temporal.cpu)}`,
        Math.round(run.worker.memory / 2 ** 20),
        run.looks.toFixed(1),
      ].join(' | '),
      aim: '',
    });
  }
  return measures;
}
