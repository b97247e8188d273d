/** 200 creations at once: how long after ACTIVE a workflow's result is there, and how many events it took. */
import type { CreateServerResult, PollingOptions } from '../src/client';
import { startCreateServer } from '../src/client';
import type { Measure } from './main';
import { quantile as at, Stage } from './stage';

const SERVERS = 200;
const BUILD_SECONDS = 10;

/** Looks twice a second: what a service sets that wants its servers soon, on a Nova that bears it. */
const POLLING: PollingOptions = { initialInterval: '500ms', maximumInterval: '500ms' };

export async function benchCreate(): Promise<Measure[]> {
  return [...(await burst('looking every 0.5 s', POLLING)), ...(await burst('default polling', undefined))];
}

async function burst(how: string, polling: PollingOptions | undefined): Promise<Measure[]> {
  const stage = await Stage.open({ buildSeconds: BUILD_SECONDS });
  try {
    await one(stage, 'warm-up', polling);
    stage.cloud.clearRequests();
    const began = Date.now();
    const runs = await Promise.all(Array.from({ length: SERVERS }, (_, i) => one(stage, `server-${i}`, polling)));
    const wall = (Date.now() - began) / 1000;
    const lags = runs.map(({ lag }) => lag).sort((a, b) => a - b);
    const events = runs.map((run) => run.events).sort((a, b) => a - b);
    const looks = stage.cloud.requests.filter(({ method }) => method === 'GET').length;
    return [
      {
        what: `${SERVERS} creations at once, builds of ${BUILD_SECONDS} s, ${how}: lag behind ACTIVE, p50`,
        value: `${at(lags, 0.5)} s`,
        aim: '0.5 s',
      },
      { what: 'the same, p99', value: `${at(lags, 0.99)} s`, aim: '1 s' },
      { what: 'history events each, median · most', value: `${at(events, 0.5)} · ${at(events, 1)}`, aim: '20' },
      { what: 'from the first start to the last result', value: `${wall.toFixed(1)} s`, aim: '' },
      { what: 'GETs at Nova for each server', value: (looks / SERVERS).toFixed(1), aim: '' },
    ];
  } finally {
    await stage.close();
  }
}

async function one(
  stage: Stage,
  name: string,
  polling: PollingOptions | undefined,
): Promise<{ lag: number; events: number }> {
  const { client, cloud, taskQueue } = stage;
  const handle = await startCreateServer(
    client,
    { server: { name, flavorRef: cloud.flavorId, imageRef: cloud.imageId, networks: 'none' }, polling },
    { workflowId: name, taskQueue },
  );
  const { serverId }: CreateServerResult = await handle.result();
  const lag = (Date.now() - (cloud.server(serverId).activeAt ?? NaN)) / 1000;
  return { lag, events: (await handle.describe()).historyLength };
}
