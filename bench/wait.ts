/**
 * Many servers that wait in BUILD, on one worker: what they cost while nothing changes, and how soon all have ended once
 * they come up within a minute. `BENCH_WAITING` is how many (default 1000, comma-separated for several runs),
 * `BENCH_WAIT_SECONDS` for how long it is measured (default 60), after `BENCH_SETTLE_SECONDS` (default 120), when the
 * waits are no longer young.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { startCreateServer } from '../src/client';
import type { Measure } from './main';
import { quantile, Stage } from './stage';

const SIZES = (process.env.BENCH_WAITING ?? '1000').split(',').map(Number);
const WAIT_SECONDS = Number(process.env.BENCH_WAIT_SECONDS ?? 60);
const SETTLE_SECONDS = Number(process.env.BENCH_SETTLE_SECONDS ?? 120);
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
    const starter = async (first: number) => {
      for (let i = first; i < size; i += STARTERS) {
        const server = {
          name: `server-${i}`,
          flavorRef: cloud.flavorId,
          imageRef: cloud.imageId,
          networks: 'none' as const,
        };
        await startCreateServer(client, { server, timeout: '4h' }, { workflowId: `server-${i}`, taskQueue });
      }
    };
    await Promise.all(Array.from({ length: STARTERS }, (_, i) => starter(i)));
    while (cloud.servers().length < size) await sleep(200);
    const started = (Date.now() - began) / 1000;
    await sleep(SETTLE_SECONDS * 1000);

    const before = { worker: stage.workerUsage(), temporal: stage.temporalUsage(), asked: cloud.requestsReceived };
    const callsBefore = await stage.temporalCalls();
    await sleep(WAIT_SECONDS * 1000);
    const after = { worker: stage.workerUsage(), temporal: stage.temporalUsage(), asked: cloud.requestsReceived };
    const calls = (await stage.temporalCalls()) - callsBefore;
    const history = (await client.workflow.getHandle('server-0').describe()) as {
      historyLength: number;
      historySize?: number;
    };

    const comesUp = Date.now();
    for (const [i, { id }] of cloud.servers().entries()) {
      const due = comesUp + (i / size) * COMES_UP_WITHIN_SECONDS * 1000;
      if (due > Date.now()) await sleep(due - Date.now());
      cloud.finishBuild(id);
    }
    while ((await running(client)) > 0) await sleep(500);
    const { lags, ended } = await ends(stage, comesUp);
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
      {
        what: 'history of the first one by then',
        value: `${history.historyLength} events, ${Math.round((history.historySize ?? NaN) / 1024)} KiB`,
        aim: '',
      },
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

async function running(client: Client): Promise<number> {
  return (await client.workflow.count("ExecutionStatus = 'Running'")).count;
}

/** By Temporal's clock: to ask for each result would be more long polls than a namespace allows (1,200). */
async function ends({ client, cloud }: Stage, comesUp: number): Promise<{ lags: number[]; ended: number }> {
  const activeAt = new Map(cloud.servers().map((server) => [server.name, server.activeAt ?? NaN]));
  const lags: number[] = [];
  let ended = 0;
  for await (const { workflowId, closeTime } of client.workflow.list({ query: "ExecutionStatus = 'Completed'" })) {
    const closed = closeTime?.getTime() ?? NaN;
    lags.push((closed - (activeAt.get(workflowId) ?? NaN)) / 1000);
    ended = Math.max(ended, (closed - comesUp) / 1000);
  }
  return { lags: lags.sort((a, b) => a - b), ended };
}

function percent(before: number, after: number): string {
  return `${Math.round(((after - before) / WAIT_SECONDS) * 100)} %`;
}
