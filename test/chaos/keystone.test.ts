/** Keystone is away, tokens end half-way, the password is changed: waits go on. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Scene } from './support/scene';

const CREATIONS = 30;
const RECOVERIES = 10;

let scene: Scene;
afterEach(() => scene?.close());

/** Creations in BUILD and recoveries in their stop, all of which end soon after `buildSeconds`. */
async function waiting(name: string, buildSeconds: number): Promise<void> {
  scene = await Scene.open(name, { buildSeconds, actionSeconds: 3 });
  const instances = await scene.makeInstances(RECOVERIES);
  for (let i = 0; i < CREATIONS; i++) await scene.create(`server-${i}`);
  await Promise.all(instances.map((id) => scene.recover(id)));
  await sleep(1_000);
}

const identity = { service: 'identity', times: Infinity } as const;

test.each([
  ['answers 503', { ...identity, answer: { status: 503 } }],
  ['never answers', { ...identity, hang: true }],
])('Keystone %s while the tokens are refused', async (_how, fault) => {
  await waiting(`keystone-${Object.keys(fault).at(-1)}`, 6);
  const { cloud } = scene;
  const away = cloud.inject(fault);
  cloud.revokeTokens();
  await sleep(12_000);
  expect(away.hits).toBeGreaterThan(0);
  expect(away.hits).toBeLessThan(100); // one login for all who wait for one
  away.remove();
  await scene.expectAllRight();
});

test('tokens expire and are revoked every few moments', async () => {
  await waiting('tokens', 10);
  for (let i = 0; i < 20; i++) {
    await sleep(500);
    if (i % 2) scene.cloud.expireTokens();
    else scene.cloud.revokeTokens();
  }
  await scene.expectAllRight();
});

test('the password is changed, then the workers are restarted with the new one', async () => {
  await waiting('password', 12);
  const { cloud } = scene;
  cloud.setPassword('demo', 'another-password');
  cloud.revokeTokens(); // as Keystone does
  await sleep(8_000); // the workers that run have the old one only
  for (const index of [0, 1]) {
    scene.workers[index]?.kill('SIGTERM');
    expect(await scene.workers[index]?.exit()).toBe(0);
    await scene.startWorker(index);
  }
  await scene.expectAllRight();
});
