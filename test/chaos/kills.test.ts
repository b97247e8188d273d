/** Workers, and the Temporal server, are killed again and again while creations and recoveries run. */
import { setTimeout as sleep } from 'node:timers/promises';
import { report, Scene } from './support/scene';

const CREATIONS = 100;
const RECOVERIES = 50;
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
  scene = await Scene.open('server-kills');
  const began = Date.now();
  const kills = await run([5_000, 15_000], () => scene.replaceServer(scene.random.between(0, 5_000)));
  report(`${kills} SIGKILLs of the Temporal server, ${CREATIONS} creations, ${RECOVERIES} recoveries: ${seconds(began)}`);
  expect(kills).toBeGreaterThan(2);
});

function seconds(began: number): string {
  return `${Math.round((Date.now() - began) / 1000)} s`;
}
