/** Workers, and the Temporal server, are killed again and again while creations and recoveries run. */
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../support/bed';
import { Random } from './support/random';
import { report, Scene } from './support/scene';

const CREATIONS = 100;
const RECOVERIES = 50;
/** Waits of which it is measured how much a kill costs them. */
const LOSING = 60;
/** Seconds over which they are started. */
const STARTS_WITHIN = 30;

let scene: Scene;
afterEach(() => scene?.close());

/** Starts all of them, at random moments and on hypervisors of random speed. */
async function startAll(): Promise<void> {
  const { random } = scene;
  const seconds = (low: number, high: number) => String(Math.round(random.between(low, high)));
  const instances = await scene.makeInstances(RECOVERIES, () => ({
    anchor_power_off_seconds: seconds(0, 3),
    anchor_power_on_seconds: seconds(0, 3),
  }));
  const starts = [
    ...Array.from({ length: CREATIONS }, (_, i) => {
      const metadata = { anchor_spawn_seconds: seconds(1, 20) };
      return { at: random.next(), start: () => scene.create(`server-${i}`, metadata) };
    }),
    ...instances.map((id) => ({ at: random.next(), start: () => scene.recover(id) })),
  ];
  await Promise.all(
    starts.map(async ({ at, start }) => {
      await sleep(at * STARTS_WITHIN * 1000);
      await start();
    }),
  );
}

/** Does something again and again, at random moments, until `end`; resolves to how often. */
async function again(everyMs: [number, number], end: Promise<unknown>, what: () => Promise<void>): Promise<number> {
  let over = false;
  void end.finally(() => (over = true));
  for (let times = 0; ; times++) {
    await sleep(scene.random.between(...everyMs));
    if (over) return times;
    await what();
  }
}

async function run(everyMs: [number, number], kill: () => Promise<void>): Promise<number> {
  const started = startAll();
  const end = started.then(() => scene.allEnded());
  const kills = await again(everyMs, end, kill);
  await scene.expectAllRight();
  return kills;
}

test('two workers, killed at random moments: all end right', async () => {
  scene = await Scene.open('worker-kills');
  const began = Date.now();
  const kills = await run([1_000, 5_000], () => scene.replaceWorker(scene.random.of([0, 1])));
  report(`${kills} SIGKILLs of workers, ${CREATIONS} creations, ${RECOVERIES} recoveries: ${seconds(began)}`);
  expect(kills).toBeGreaterThan(5);
});

test('the Temporal server, killed and started again on its database: all end right', async () => {
  scene = await Scene.open('server-kills', { database: true });
  const began = Date.now();
  const kills = await run([5_000, 15_000], () => scene.replaceServer(scene.random.between(0, 5_000)));
  report(
    `${kills} SIGKILLs of the Temporal server, ${CREATIONS} creations, ${RECOVERIES} recoveries: ${seconds(began)}`,
  );
  expect(kills).toBeGreaterThan(2);
});

/**
 * Waits whose servers come up in the ten seconds after the kill: how much later their results are there than without
 * one. A wait that another worker holds loses nothing.
 */
test.each([
  ['the only worker, and started again', 1],
  ['one of two workers', 2],
])('%s is killed: what the waits lose', async (what, workers) => {
  const lags: number[][] = [];
  for (const kill of [false, true]) {
    scene = await Scene.open(`lag-${workers}-${kill}`, { workers });
    const { cloud } = scene;
    const random = new Random('lag');
    for (let i = 0; i < LOSING; i++) await scene.create(`server-${i}`, { anchor_spawn_seconds: '600' });
    await eventually(() => cloud.servers().length === LOSING);
    await sleep(5_000);
    const finished = cloud.servers().map(async ({ id }) => {
      await sleep(random.between(0, 10_000));
      cloud.finishBuild(id);
    });
    if (kill) await scene.replaceWorker(0);
    await Promise.all(finished);
    await scene.expectAllRight();
    const { creations } = await scene.allEnded();
    lags.push(
      creations.map((end) => end.at - (('result' in end && cloud.server(end.result.serverId).activeAt) || NaN)),
    );
    await scene.close();
  }
  const [without, with_] = lags.map(median) as [number, number];
  report(
    `${what} is killed: lag behind ACTIVE ${without / 1000} s without, ${with_ / 1000} s with (medians of ${LOSING})`,
  );
  expect(with_ - without).toBeLessThan(3_000);
});

function median(values: number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
}

function seconds(began: number): string {
  return `${Math.round((Date.now() - began) / 1000)} s`;
}
