/**
 * Nova is away, in the middle of builds and of recoveries, while 500 workflows wait: for ten minutes, or for
 * TEMPORAL_NOVA_CHAOS_OUTAGE_MINUTES.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../support/bed';
import { report, Scene } from './support/scene';

const RECOVERIES = 40;
const CREATIONS = 460;
/** Of these the build ends while Nova's API is away. */
const READY_MEANWHILE = 200;
const OUTAGE_MINUTES = Number(process.env.TEMPORAL_NOVA_CHAOS_OUTAGE_MINUTES ?? 10);
const HALF_MS = (OUTAGE_MINUTES / 2) * 60_000;
/** How long the load is counted before, and after. */
const COUNTED_MS = 30_000;

let scene: Scene;
afterEach(() => scene?.close());

test(`away for ${OUTAGE_MINUTES} minutes, connections refused at first, then 503, then back: nothing fails, nothing is made twice`, async () => {
  scene = await Scene.open('nova-away', { buildSeconds: Infinity, workers: 1 });
  const { cloud } = scene;
  const instances = await scene.makeInstances(RECOVERIES, () => ({ anchor_power_off_seconds: '120' }));
  const waiting = { timeout: '1h', polling: undefined } as const;
  for (let i = 0; i < CREATIONS; i += 20) {
    await Promise.all(Array.from({ length: 20 }, (_, j) => scene.create(`server-${i + j}`, {}, waiting)));
  }
  await eventually(() => cloud.servers().length === CREATIONS + RECOVERIES, 60_000);
  await sleep(20_000); // the looks are as far apart by now as they get
  const timeouts = { task: '30m', stop: '30m', start: '30m' } as const;
  await Promise.all(instances.map((id) => scene.recover(id, { polling: undefined, timeouts })));
  await eventually(() => instances.every((id) => cloud.server(id).taskState === 'powering-off'), 60_000);
  const before = await load(COUNTED_MS / 3);

  await cloud.goAway();
  const built = cloud.servers().filter(({ name }) => name.startsWith('server-'));
  for (const { id } of built.slice(0, READY_MEANWHILE)) cloud.finishBuild(id);
  await sleep(HALF_MS);
  const unavailable = cloud.inject({ service: 'compute', times: Infinity, answer: { status: 503 } });
  await cloud.comeBack();
  const while503 = await load(HALF_MS);
  unavailable.remove();
  const after = await load(COUNTED_MS);
  await eventually(async () => (await scene.ended()) >= READY_MEANWHILE + RECOVERIES, 120_000);
  for (const { id } of built.slice(READY_MEANWHILE)) cloud.finishBuild(id);
  await scene.expectAllRight();

  report(`requests in each second, ${CREATIONS + RECOVERIES} waiting, before: ${before.join(' ')}`);
  report(
    `while Nova answered 503, most: ${Math.max(...while503)}; the first minute: ${while503.slice(0, 60).join(' ')}`,
  );
  report(`when it was back: ${after.join(' ')}`);
  // At random moments, not all at once.
  const bound = (CREATIONS + RECOVERIES) / 4;
  expect(Math.max(...while503)).toBeLessThan(bound);
  expect(Math.max(...after)).toBeLessThan(bound);
});

/** Requests in each second from now on. */
async function load(ms: number): Promise<number[]> {
  const { requests } = scene.cloud;
  const began = Date.now();
  await sleep(ms);
  const counts = Array.from({ length: Math.floor(ms / 1000) }, () => 0);
  for (const { at } of requests) {
    const second = Math.floor((at - began) / 1000);
    if (second in counts) counts[second]!++;
  }
  return counts;
}
