/**
 * Creations: one after another with instant builds, and many at once. How long after ACTIVE a workflow's result is there,
 * and what that took. `BENCH_SERVERS` is how many at once (default `200,1000`, comma-separated).
 */
import { startCreateServer, type CreateServerResult, type PollingOptions } from '../src/client';
import type { Measure } from './main';
import { quantile as at, Stage } from './stage';
import type { Usage } from './usage';

const SIZES = (process.env.BENCH_SERVERS ?? '200,1000').split(',').map(Number);
const ONE_BY_ONE = 30;
const LONG_BUILDS = 20;
const LONG_BUILD_SECONDS = 300;

/** Looks twice a second: what a service sets that wants its servers soon, on a Nova that bears it. */
const POLLING: PollingOptions = { initialInterval: '500ms', maximumInterval: '500ms' };

export interface Burst {
  size: number;
  /** Seconds behind ACTIVE, sorted. */
  lags: number[];
  /** From the first start to the last result, in seconds. */
  wall: number;
  /** History events each, sorted. */
  events: number[];
  worker: Usage;
  temporal: Usage;
  /** GETs at Nova for each server. */
  looks: number;
}

export async function benchCreate(): Promise<Measure[]> {
  const measures = [...(await starts()), ...(await instant()), ...(await longBuilds())];
  for (const size of SIZES) {
    const buildSeconds = size > 500 ? 30 : 10;
    for (const polling of [POLLING, undefined]) {
      measures.push(...table(buildSeconds, polling, await burst({ size, buildSeconds, polling })));
    }
  }
  return measures;
}

async function starts(): Promise<Measure[]> {
  const stage = await Stage.open({ buildSeconds: 0 });
  try {
    const times: number[] = [];
    for (let i = 0; i < 5; i++) times.push(await stage.addWorker());
    return [
      {
        what: 'worker process started → polling, p50 of 5',
        value: `${at(
          times.sort((a, b) => a - b),
          0.5,
        )} ms`,
        aim: '1000 ms',
      },
    ];
  } finally {
    await stage.close();
  }
}

async function longBuilds(): Promise<Measure[]> {
  const { lags } = await burst({ size: LONG_BUILDS, buildSeconds: LONG_BUILD_SECONDS, polling: undefined });
  const mean = lags.reduce((sum, lag) => sum + lag, 0) / lags.length;
  return [
    {
      what: `${LONG_BUILDS} builds of about ${LONG_BUILD_SECONDS} s, default polling: lag behind ACTIVE, mean · most`,
      value: `${mean.toFixed(2)} · ${at(lags, 1)} s`,
      aim: '2 s',
    },
  ];
}

async function instant(): Promise<Measure[]> {
  const stage = await Stage.open({ buildSeconds: 0 });
  try {
    const toPost: number[] = [];
    const toResult: number[] = [];
    for (let i = -3; i < ONE_BY_ONE; i++) {
      stage.cloud.clearRequests();
      const began = Date.now();
      await one(stage, `server-${i}`, undefined, undefined);
      const ended = Date.now();
      const post = stage.cloud.requests.find(({ method, path }) => method === 'POST' && path.endsWith('/servers'));
      if (i < 0) continue; // warming up
      toPost.push((post?.at ?? NaN) - began);
      toResult.push(ended - (post?.at ?? NaN));
    }
    const p50 = (times: number[]) =>
      `${at(
        times.sort((a, b) => a - b),
        0.5,
      )} ms`;
    return [
      {
        what: `${ONE_BY_ONE} creations one by one, instant builds: start called → POST at Nova, p50`,
        value: p50(toPost),
        aim: '150 ms',
      },
      { what: 'POST (ACTIVE at once) → result, p50', value: p50(toResult), aim: '300 ms' },
    ];
  } finally {
    await stage.close();
  }
}

function table(buildSeconds: number, polling: PollingOptions | undefined, burst: Burst): Measure[] {
  const { size, lags, wall, events, worker, temporal, looks } = burst;
  const how = polling ? 'looking every 0.5 s' : 'default polling';
  return [
    {
      what: `${size} creations at once, builds of ${buildSeconds} s, ${how}: lag behind ACTIVE, p50 · p99`,
      value: `${at(lags, 0.5)} · ${at(lags, 0.99)} s`,
      aim: size > 500 ? '0.5 s' : '0.3 · 1 s',
    },
    { what: 'history events each, median · most', value: `${at(events, 0.5)} · ${at(events, 1)}`, aim: '17' },
    { what: 'from the first start to the last result', value: `${wall.toFixed(1)} s`, aim: '' },
    { what: 'GETs at Nova for each server', value: looks.toFixed(1), aim: '' },
    {
      what: 'CPU of the worker · of the Temporal server',
      value: `${worker.cpu.toFixed(1)} · ${temporal.cpu.toFixed(1)} s`,
      aim: '',
    },
    { what: 'peak memory of the worker', value: `${Math.round(worker.memory / 2 ** 20)} MiB`, aim: '' },
  ];
}

export async function burst(options: {
  size: number;
  buildSeconds: number;
  polling: PollingOptions | undefined;
  workers?: number;
}): Promise<Burst> {
  const { size, buildSeconds, polling, workers = 1 } = options;
  const stage = await Stage.open({ buildSeconds });
  try {
    for (let i = 1; i < workers; i++) await stage.addWorker();
    await one(stage, 'warm-up', polling, 1);
    stage.cloud.clearRequests();
    const before = { worker: stage.workerUsage(), temporal: stage.temporalUsage() };
    const began = Date.now();
    const runs = await Promise.all(
      Array.from({ length: size }, (_, i) => one(stage, `server-${i}`, polling, around(buildSeconds, i))),
    );
    const wall = (Date.now() - began) / 1000;
    const after = { worker: stage.workerUsage(), temporal: stage.temporalUsage() };
    const looks = stage.cloud.requests.filter(({ method }) => method === 'GET').length;
    const events: number[] = [];
    for (const { workflowId } of runs) {
      events.push((await stage.client.workflow.getHandle(workflowId).describe()).historyLength);
    }
    return {
      size,
      wall,
      lags: runs.map(({ lag }) => lag).sort((a, b) => a - b),
      events: events.sort((a, b) => a - b),
      worker: { cpu: after.worker.cpu - before.worker.cpu, memory: after.worker.memory },
      temporal: { cpu: after.temporal.cpu - before.temporal.cpu, memory: after.temporal.memory },
      looks: looks / size,
    };
  } finally {
    await stage.close();
  }
}

/**
 * Within half a second: builds of exactly so long would all lie alike between two looks. Multiples of the golden ratio,
 * without their whole part, are spread evenly.
 */
function around(seconds: number, i: number): number {
  return seconds - 0.5 + ((i * 0.618034) % 1);
}

async function one(
  stage: Stage,
  name: string,
  polling: PollingOptions | undefined,
  /** Of the spawn, which half a second of scheduling and networking comes before; undefined: as the stage's cloud has it. */
  spawnSeconds: number | undefined,
): Promise<{ lag: number; workflowId: string }> {
  const { client, cloud, taskQueue } = stage;
  const metadata: Record<string, string> =
    spawnSeconds === undefined ? {} : { anchor_spawn_seconds: spawnSeconds.toFixed(3) };
  const server = { name, flavorRef: cloud.flavorId, imageRef: cloud.imageId, networks: 'none' as const, metadata };
  const handle = await startCreateServer(client, { server, polling }, { workflowId: name, taskQueue });
  const { serverId }: CreateServerResult = await handle.result();
  const lag = (Date.now() - (cloud.server(serverId).activeAt ?? NaN)) / 1000;
  return { lag, workflowId: handle.workflowId };
}
