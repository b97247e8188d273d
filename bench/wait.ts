/**
 * Many servers that wait in BUILD, on one worker: what they cost while nothing changes, and how soon all have ended once
 * they come up within a minute. `BENCH_WAITING` is how many (default 1000, comma-separated for several runs),
 * `BENCH_WAIT_SECONDS` for how long (default 60).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { startCreateServer } from '../src/client';
import type { Measure } from './main';
import { quantile, Stage } from './stage';

const SIZES = (process.env.BENCH_WAITING ?? '1000').split(',').map(Number);
const WAIT_SECONDS = Number(process.env.BENCH_WAIT_SECONDS ?? 60);
const COMES_UP_WITHIN_SECONDS = 60;
/** Starts under way at a time. */
const STARTERS = 50;

export async function benchWait(): Promise<Measure[]> {
  const measures: Measure[] = [];
  for (const size of SIZES) measures.push(...(await wait(size)));
  return measures;
}

async function wait(size: number): Promise<Measure[]> {
  const stage = await Stage.open({ buildSeconds: Infinity });
  const { client, cloud, taskQueue } = stage;
  try {
    const began = Date.now();
    const results: Promise<{ serverId: string; at: number }>[] = [];
    const starter = async (first: number) => {
      for (let i = first; i < size; i += STARTERS) {
        const server = {
          name: `server-${i}`,
          flavorRef: cloud.flavorId,
          imageRef: cloud.imageId,
          networks: 'none' as const,
        };
        const handle = await startCreateServer(
          client,
          { server, timeout: '2h' },
          { workflowId: `server-${i}`, taskQueue },
        );
        results.push(handle.result().then(({ serverId }) => ({ serverId, at: Date.now() })));
      }
    };
    await Promise.all(Array.from({ length: STARTERS }, (_, i) => starter(i)));
    while (cloud.servers().length < size) await sleep(200);
    const started = (Date.now() - began) / 1000;
    await sleep(20_000); // the young waits' shorter rounds are over

    const before = { worker: stage.workerUsage(), temporal: stage.temporalUsage(), asked: cloud.requestsReceived };
    const callsBefore = await stage.temporalCalls();
    await sleep(WAIT_SECONDS * 1000);
    const after = { worker: stage.workerUsage(), temporal: stage.temporalUsage(), asked: cloud.requestsReceived };
    const calls = (await stage.temporalCalls()) - callsBefore;

    const comesUp = Date.now();
    const ids = cloud.servers().map(({ id }) => id);
    const end = Promise.all(results);
    await Promise.all([
      end,
      (async () => {
        for (const [i, id] of ids.entries()) {
          const due = comesUp + (i / size) * COMES_UP_WITHIN_SECONDS * 1000;
          if (due > Date.now()) await sleep(due - Date.now());
          cloud.finishBuild(id);
        }
      })(),
    ]);
    const ended = (Date.now() - comesUp) / 1000;
    const lags = (await end).map(({ serverId, at }) => (at - (cloud.server(serverId).activeAt ?? NaN)) / 1000);
    lags.sort((a, b) => a - b);
    const peak = Math.max(after.worker.memory, stage.workerUsage().memory);
    const rate = (count: number) => (count / WAIT_SECONDS).toFixed(1);
    const name = `${size} waiting, default polling, one worker`;
    return [
      { what: `${name}: Nova requests a second`, value: rate(after.asked - before.asked), aim: '2' },
      { what: 'Temporal requests a second', value: rate(calls), aim: '' },
      {
        what: 'CPU of the worker · of the Temporal server, of one core',
        value: `${percent(before.worker.cpu, after.worker.cpu)} · ${percent(before.temporal.cpu, after.temporal.cpu)}`,
        aim: '',
      },
      { what: 'peak memory of the worker', value: `${Math.round(peak / 2 ** 20)} MiB`, aim: '1,536 MiB' },
      { what: 'all come up within 60 s: all have ended after', value: `${ended.toFixed(1)} s`, aim: '' },
      {
        what: 'lag behind ACTIVE then, p50 · p99',
        value: `${quantile(lags, 0.5)} · ${quantile(lags, 0.99)} s`,
        aim: '0.5 s',
      },
      { what: 'from the first start to the last POST', value: `${started.toFixed(0)} s`, aim: '' },
      {
        what: 'servers made · workflows ended right',
        value: `${cloud.servers().length} · ${lags.length}`,
        aim: `${size} · ${size}`,
      },
    ];
  } finally {
    await stage.close();
  }
}

function percent(before: number, after: number): string {
  return `${Math.round(((after - before) / WAIT_SECONDS) * 100)} %`;
}
