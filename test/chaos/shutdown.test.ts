/** A worker is asked to end (SIGTERM) while 200 servers are waited for. */
import { eventually } from '../support/bed';
import { report, Scene } from './support/scene';

const CREATIONS = 200;
const GRACE_MS = 35_000;
const EVERY_HALF_SECOND = { initialInterval: 500, maximumInterval: 500 };

let scene: Scene;
afterEach(() => scene?.close());

test('SIGTERM with 200 waits: exit 0 within the grace time, and another worker goes on within 2 s', async () => {
  scene = await Scene.open('shutdown', { buildSeconds: Infinity, workers: 1 });
  const { cloud } = scene;
  for (let i = 0; i < CREATIONS; i++) await scene.create(`server-${i}`, {}, { polling: EVERY_HALF_SECOND });
  await eventually(() => lookedAtSince(0).size === CREATIONS, 60_000);
  const [first] = scene.workers;
  await scene.startWorker(1);

  const asked = Date.now();
  first?.kill('SIGTERM');
  expect(await first?.exit()).toBe(0);
  const ended = Date.now();
  expect(ended - asked).toBeLessThan(GRACE_MS);
  // A watch that is taken over looks by id first; some are before the other worker has ended.
  const goesOn = await eventually(() => {
    const firstLooks = [...lookedAtSince(asked).values()].map((at) => (at - ended) / 1000).sort((a, b) => a - b);
    return firstLooks.length === CREATIONS && firstLooks;
  });
  const [median, last] = [goesOn[CREATIONS / 2]!, goesOn.at(-1)!];
  report(`SIGTERM with ${CREATIONS} waits: exit 0 after ${(ended - asked) / 1000} s`);
  report(`the other worker looks at a server after ${median} s (median), at the last one after ${last} s`);
  expect(median).toBeLessThan(2);

  for (const { id } of cloud.servers()) cloud.finishBuild(id);
  await scene.expectAllRight();
  expect(await activityTimeouts()).toEqual([]);
});

/** When each server was looked at first since then, by id. */
function lookedAtSince(time: number): Map<string, number> {
  const looks = new Map<string, number>();
  for (const { at, method, path } of scene.cloud.requests) {
    const id = method === 'GET' && at >= time && /\/servers\/([0-9a-f-]{36})$/.exec(path)?.[1];
    if (id && !looks.has(id)) looks.set(id, at);
  }
  return looks;
}

/** Ids of the workflows in which an activity, or an attempt of one, ended in a timeout. */
async function activityTimeouts(): Promise<string[]> {
  const found: string[] = [];
  for (const { handle } of scene.creations) {
    const { events } = await scene.client.workflow.getHandle(handle.workflowId).fetchHistory();
    const timedOut = (events ?? []).some(
      ({ activityTaskTimedOutEventAttributes: end, activityTaskStartedEventAttributes: start }) =>
        end || start?.lastFailure?.timeoutFailureInfo,
    );
    if (timedOut) found.push(handle.workflowId);
  }
  return found;
}
