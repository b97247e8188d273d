/** Each request to Nova has a chance of 20 % to go wrong, in one of nine ways. */
import type { Fault } from '../../src/simulator';
import { Random } from './support/random';
import { report, Scene } from './support/scene';

const CREATIONS = 200;
const RECOVERIES = 100;

/** One in five, in all. */
const SHARE = 0.2;
const FAULTS: Record<string, Fault> = {
  500: { answer: { status: 500 } },
  502: { answer: { status: 502, body: '<html>Bad Gateway</html>' } },
  503: { answer: { status: 503, headers: { 'Retry-After': '1' } } },
  504: { carriedOut: true, answer: { status: 504 } },
  429: { answer: { status: 429, headers: { 'Retry-After': '2' } } },
  'reset before': { reset: true },
  'reset after it was carried out': { reset: true, carriedOut: true },
  '3 s late': { delaySeconds: 3 },
  hang: { hang: true },
};

let scene: Scene;
afterEach(() => scene?.close());

test('200 creations and 100 recoveries end right, with as many servers as creations', async () => {
  const chance = new Random('noise');
  scene = await Scene.open('noisy-nova', { random: chance.next, actionSeconds: 1 });
  const instances = await scene.makeInstances(RECOVERIES);
  const each = SHARE / Object.keys(FAULTS).length;
  const handles = Object.entries(FAULTS).map(([name, fault], i) => {
    // of what the ones before left
    const probability = each / (1 - i * each);
    return { name, handle: scene.cloud.inject({ ...fault, service: 'compute', times: Infinity, probability }) };
  });
  const began = Date.now();
  const before = scene.cloud.requestsReceived;
  await Promise.all([
    ...Array.from({ length: CREATIONS }, (_, i) =>
      scene.create(`server-${i}`, { anchor_spawn_seconds: String(i % 15) }),
    ),
    ...instances.map((id) => scene.recover(id)),
  ]);
  await scene.expectAllRight();
  const asked = scene.cloud.requestsReceived - before;
  report(`${Math.round((Date.now() - began) / 1000)} s, ${asked} requests, of which went wrong:`);
  report(handles.map(({ name, handle }) => `${name}: ${handle.hits}`).join(' · '));
  for (const { handle } of handles) expect(handle.hits).toBeGreaterThan(0);
});
