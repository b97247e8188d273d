/** Looks that are shared by all who wait, over real HTTP against the simulated cloud. */
import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { SharedLooks, type Covered, type Seat } from '../../src/activities/shared-looks';
import {
  createComputeClient,
  loadCloudConfig,
  type ComputeClient,
  type NovaServer,
  type NovaServerRequest,
} from '../../src/nova';
import { SimulatedCloud } from '../../src/simulator';
import { eventually } from '../support/bed';

let cloud: SimulatedCloud;
let compute: ComputeClient;
let shared: SharedLooks;
let shutdown: AbortController;
const giveUp = new AbortController().signal;
setMaxListeners(0, giveUp);

beforeEach(async () => {
  cloud = await SimulatedCloud.start({ buildSeconds: 0 });
  use('demo');
});
afterEach(async () => {
  shutdown.abort();
  compute.close();
  await cloud.stop();
});

function use(user: 'admin' | 'demo', timeoutMs = 5_000): void {
  shutdown = new AbortController();
  compute = createComputeClient(loadCloudConfig(cloud.env(user)), { timeoutMs });
  shared = new SharedLooks(compute, shutdown.signal);
}

async function makeServers(count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let i = 0; i < count; i++) {
    const request = { name: `s-${i}`, flavorRef: cloud.flavorId, imageRef: cloud.imageId, networks: 'none' as const };
    ids.push((await compute.createServer(request, { tags: [] })).id);
  }
  await sleep(10);
  return ids;
}

async function sit(id: string): Promise<Seat> {
  const begun = Date.now();
  const server = await shared.look(id, giveUp);
  return shared.seat(server!, begun, giveUp);
}

const vmState = (server: NovaServer | null | 'unchanged' | 'gone') =>
  typeof server === 'object' ? server?.['OS-EXT-STS:vm_state'] : server;
const lists = () => cloud.requests.filter(({ path }) => path.includes('changes-since'));
const looksById = () =>
  cloud.requests.filter(({ method, path }) => method === 'GET' && /servers\/[0-9a-f-]{36}$/.test(path));
/** A wait that would look every ten seconds on its own, and is glad to know each tenth of one. */
function wait(seat: Seat, interval = 10_000) {
  const end = shared.next(seat, interval, 100, giveUp);
  end.catch(() => undefined); // of one that is left waiting when the test ends
  return end;
}

test('100 who wait cost Nova one list at a time, and only the one whose server changed hears of it', async () => {
  const ids = await makeServers(100);
  const seats = await Promise.all(ids.map(sit));
  cloud.clearRequests();
  const heard: string[] = [];
  const waits = seats.map(async (seat) => {
    const end = await wait(seat, 3_000);
    if (end !== 'unchanged') heard.push(seat.serverId);
    return end;
  });
  await sleep(1_000);
  cloud.action(ids[42]!, { 'os-stop': null });
  expect(vmState(await waits[42]!)).toBe('active'); // powering-off
  expect(seats[42]?.state.taskState).toBe('powering-off');
  await Promise.all(waits);
  expect(heard).toEqual([ids[42]]);
  expect(looksById()).toHaveLength(0); // a safety net only after 5 s
  expect(lists().length).toBeGreaterThan(10);
  expect(cloud.requests.length).toBeLessThan(45);
});

test('a change between the look and the first list is not missed', async () => {
  const ids = await makeServers(5);
  const seats = await Promise.all(ids.map(sit));
  cloud.action(ids[0]!, { pause: null });
  await eventually(() => cloud.server(ids[0]!).vmState === 'paused');
  const [first] = seats.map((seat) => wait(seat));
  expect(vmState(await first!)).toBe('paused');
});

describe('between one watch and the next', () => {
  const others = async () => {
    const seats = await Promise.all((await makeServers(4)).map(sit));
    for (const seat of seats.slice(1)) void wait(seat, 60_000);
    await sleep(300);
    return seats[0]!;
  };
  const follow = (seat: Seat, covered: Covered) =>
    shared.goOn(
      { serverId: seat.serverId, seen: seat.state, covered: { ...covered, until: Date.now() - 100_000 } },
      giveUp,
    );

  test('lists go on for a server, so that a late one need not look, nor ask for what changed long ago', async () => {
    const seat = await others();
    const { covered } = shared.leave(seat);
    await sleep(500);
    cloud.clearRequests();
    const next = await follow(seat, covered!);
    expect(next!.coveredUntil).toBeGreaterThan(covered!.until);
    await sleep(300);
    expect(looksById()).toHaveLength(0);
    cloud.action(seat.serverId, { 'os-stop': null });
    expect(vmState(await wait(next!))).toBe('active');
    expect(next!.state.taskState).toBe('powering-off');
  });

  test('what a list has shown is not taken for unseen', async () => {
    const seat = await others();
    const { covered } = shared.leave(seat);
    cloud.action(seat.serverId, { pause: null });
    await sleep(500);
    expect(await follow(seat, covered!)).toBeUndefined(); // it looks
    expect(await follow(seat, covered!)).toBeUndefined();
  });

  test('what another worker has seen since counts', async () => {
    const seat = await others();
    const { covered } = shared.leave(seat);
    const seen = { ...seat.state, vmState: 'stopped' };
    const until = Date.now() - 100_000;
    expect(
      await shared.goOn({ serverId: seat.serverId, seen, covered: { ...covered!, until } }, giveUp),
    ).toBeUndefined();
  });
});

test('a deletion is seen, and a server that is gone without a trace is found to be so', async () => {
  const ids = await makeServers(4);
  const seats = await Promise.all(ids.map(sit));
  const waits = seats.map((seat) => wait(seat, 1_500));
  cloud.delete(ids[0]!);
  const deleted = await waits[0]!;
  expect([null, 'DELETED', 'ACTIVE']).toContain(deleted && deleted !== 'unchanged' ? deleted.status : deleted);
  cloud.forget(ids[1]!);
  seats[1]!.lookedAt = 0; // long ago: due for a look by id
  expect(await waits[1]!).toBeNull();
});

test('two who are left when the list has ended look for themselves, whatever it showed before', async () => {
  const ids = await makeServers(4);
  const seats = await Promise.all(ids.map(sit));
  const waits = seats.map((seat) => wait(seat, 2_000));
  await sleep(500);
  cloud.action(ids[0]!, { 'os-stop': null });
  cloud.action(ids[1]!, { 'os-stop': null });
  await Promise.all([waits[0], waits[1]]);
  await sleep(300);
  cloud.clearRequests();
  cloud.action(ids[2]!, { 'os-stop': null });
  cloud.action(ids[3]!, { 'os-stop': null });
  expect([vmState(await waits[2]!), vmState(await waits[3]!)]).toEqual(['stopped', 'stopped']);
  expect(lists()).toHaveLength(0);
});

test('one or two are looked at by id', async () => {
  const seats = await Promise.all((await makeServers(2)).map(sit));
  cloud.clearRequests();
  expect(await Promise.all(seats.map(async (seat) => vmState(await wait(seat, 200))))).toEqual(['active', 'active']);
  expect(looksById()).toHaveLength(2);
  expect(lists()).toHaveLength(0);
});

test("another project's servers are looked at by id", async () => {
  const ids = await makeServers(5);
  use('admin');
  const seats = await Promise.all(ids.map(sit));
  cloud.clearRequests();
  await Promise.all(seats.map((seat) => wait(seat, 200)));
  expect(looksById()).toHaveLength(5);
  expect(lists()).toHaveLength(0);
});

test.each([
  ['refuses the list (403)', { answer: { status: 403 } }],
  ['fails to make it (500)', { answer: { status: 500 } }],
  ['never answers it', { hang: true }],
])(
  'a cloud that %s: each is looked at by id, and sees the change',
  async (_what, fault) => {
    use('demo', 1_000);
    const ids = await makeServers(10);
    const seats = await Promise.all(ids.map(sit));
    cloud.inject({ ...fault, method: 'GET', path: /changes-since/, times: Infinity });
    cloud.action(ids[3]!, { pause: null });
    const see = async (seat: Seat) => {
      for (let state = await wait(seat, 300); ; state = await wait(seat, 300).catch(() => 'unchanged' as const)) {
        if (vmState(state) === 'paused') return state;
      }
    };
    expect(vmState(await see(seats[3]!))).toBe('paused');
    await Promise.all(seats.map((seat) => wait(seat, 300).catch(() => undefined)));
  },
  30_000,
);

test('Nova is away: 200 who wait ask it no more than one would, and all hear why', async () => {
  const ids = await makeServers(200);
  const seats = await Promise.all(ids.map(sit));
  const waits = seats.map((seat) => wait(seat, 500).catch((error: Error) => error.message));
  cloud.inject({ service: 'compute', times: Infinity, answer: { status: 503 } });
  cloud.clearRequests();
  const words = new Set(await Promise.all(waits));
  expect([...words].every((word) => typeof word === 'string' && word.includes('503'))).toBe(true);
  // and those who come again
  const again = await Promise.all(ids.map((id) => shared.look(id, giveUp).catch((error: Error) => error.message)));
  expect(again.every((word) => typeof word === 'string' && word.includes('503'))).toBe(true);
  expect(cloud.requests.length).toBeLessThan(20);

  cloud.clearFaults();
  await eventually(async () => (await shared.look(ids[0]!, giveUp).catch(() => null)) !== null);
  expect(vmState(await shared.look(ids[1]!, giveUp))).toBe('active');
}, 40_000);

test('what a list says that began before a look by id is not believed', async () => {
  const ids = await makeServers(4);
  const seats = await Promise.all(ids.map(sit));
  for (const seat of seats.slice(1)) void wait(seat, 5_000);
  const slow = cloud.inject({ method: 'GET', path: /changes-since/, carriedOut: true, delaySeconds: 1 });
  const early = wait(seats[0]!, 5_000);
  await eventually(() => slow.hits === 1);
  cloud.action(ids[0]!, { 'os-stop': null });
  await eventually(() => cloud.server(ids[0]!).vmState === 'stopped');
  const seat = await sit(ids[0]!);
  expect(seat.state.vmState).toBe('stopped');
  const next = await Promise.race([shared.next(seat, 5_000, 100, giveUp), sleep(2_000).then(() => 'gone' as const)]);
  expect(next).toBe('gone'); // nothing new in two seconds, in which the slow list came
  expect(vmState(await early)).toBe('stopped');
});

test('who goes to ERROR has the fault, although the list does not show it', async () => {
  const others = await Promise.all((await makeServers(3)).map(sit));
  cloud.setTimes({ buildSeconds: 10 });
  const request = { name: 'misfit', flavorRef: cloud.impossibleFlavorId, imageRef: cloud.imageId, networks: 'none' };
  const misfit = await sit((await compute.createServer(request as NovaServerRequest, { tags: [] })).id);
  for (const seat of others) void wait(seat);
  let server: NovaServer | null | 'unchanged';
  do server = await wait(misfit);
  while (typeof server === 'object' && server?.status === 'BUILD');
  expect(server).toMatchObject({ status: 'ERROR', fault: { message: 'No valid host was found. ' } });
  expect(misfit.state.status).toBe('ERROR');
  expect(lists().length).toBeGreaterThan(0);
  expect(looksById()).toHaveLength(5); // one each to begin with, and one for the fault
});
