/**
 * What shared looks (`src/activities/shared-looks.ts`) rely on: `GET /servers/detail?changes-since=…` shows what a GET
 * of the server shows, and no later. Through each of a server's transitions both are asked again and again, side by
 * side. What Nova changes without the list showing it is in the second half.
 */
import { createComputeClient, loadCloudConfig, type ComputeClient, type NovaServer } from '../../src/nova';
import { LIST_OVERLAP } from '../../src/policy/polling';
import { describeState, sameState, toServerState, type ServerState } from '../../src/policy/server-state';
import { CloudUnderTest, skipped, until, type Answer, type Session } from './cloud-under-test';

/** A power sync that has not come after so many seconds is not waited for. */
const SYNC_SECONDS = 25;

let cloud: CloudUnderTest;
/** Who looks and owns the servers: an administrator in a project of its own where there is one, as it sees the host. */
let viewer: Session;
let compute: ComputeClient;
/** Nova keeps `updated_at` in whole seconds, and its clock is known from `Date`, to the second, too. */
const ROUNDING = 1_000;
/** By so much the clocks of this machine and of Nova's may differ. */
const CLOCKS = 200;

const made: string[] = [];
const lags: number[] = [];
/** Printed at the end. */
const said: string[] = [];

beforeAll(async () => {
  cloud = await CloudUnderTest.open({ powerSyncSeconds: 1, reclaimInstanceInterval: 3_600, buildSeconds: 0.4 });
  viewer = cloud.admin ?? cloud.owner;
  compute = createComputeClient(loadCloudConfig(cloud.environment(viewer)));
});
afterAll(async () => {
  if (lags.length > 0) {
    const sorted = lags.map(Math.round).sort((a, b) => a - b);
    const median = sorted[Math.floor(sorted.length / 2)];
    said.push(
      `${sorted.length} changes; a list showed them ${median} ms (median), ${sorted.at(-1)} ms (worst) after a GET`,
    );
  }
  console.log(`changes-since:\n${said.join('\n')}`);
  for (const id of made) await viewer.act(id, { forceDelete: null });
  for (const id of made) await until(`${id} is gone`, async () => ((await get(id)) === null ? true : undefined));
  compute?.close();
  await cloud?.close();
});

async function create(server: Record<string, unknown> = {}, as = viewer): Promise<string> {
  const { status, body, text } = await as.nova('POST', '/servers', { server: cloud.request(server) });
  if (status !== 202) throw new Error(`POST /servers: HTTP ${status} ${text}`);
  const { id } = body.server as { id: string };
  made.push(id);
  return id;
}

async function active(server: Record<string, unknown> = {}): Promise<string> {
  const id = await create(server);
  await until(`server ${id} is ACTIVE`, async () => ((await get(id))?.status === 'ACTIVE' ? true : undefined));
  return id;
}

async function act(id: string, action: object, as = viewer): Promise<void> {
  accepted(await as.act(id, action));
}

function accepted({ status, text }: Answer): void {
  if (status >= 300) throw new Error(`HTTP ${status} ${text}`);
}

/** Null when it is gone. */
async function get(id: string): Promise<NovaServer | null> {
  try {
    return await compute.getServer(id);
  } catch (error) {
    if ((error as { kind?: string }).kind === 'NotFound') return null;
    throw error;
  }
}

/** Until what changes next has another `updated`. */
async function quiet(id: string): Promise<void> {
  const { updated } = (await get(id))!;
  await new Promise((resolve) => setTimeout(resolve, Date.parse(updated!) + ROUNDING + 2 * CLOCKS - Date.now()));
}

async function listed(id: string, since = Date.now() - LIST_OVERLAP): Promise<NovaServer | undefined> {
  return (await compute.listChangedServers(since)).find((server) => server.id === id);
}

// ---- side by side

interface Sample {
  begun: number;
  ended: number;
  /** Of lists: as the last list that had it showed it. Null: it is gone, which a GET shows as 404, a list as DELETED. */
  state: ServerState | null;
  updated?: string | undefined;
}

interface SideBySide {
  gets: Sample[];
  lists: Sample[];
}

const stateOf = (server: NovaServer | null): ServerState | null =>
  server === null || server.status === 'DELETED' ? null : toServerState(server);

const describeSample = (state: ServerState | null): string => (state === null ? 'gone' : describeState(state));

/**
 * Acts, and asks for the server by id and by list, each as fast as it is answered, until a GET that began afterwards
 * shows `end`; then once more.
 */
async function sideBySide(
  id: string,
  action: () => Promise<unknown>,
  end: (state: ServerState | null) => boolean,
): Promise<SideBySide> {
  const seen: SideBySide = { gets: [], lists: [] };
  const giveUp = Date.now() + 60_000;
  let actedAt = Infinity;
  let shown: ServerState | null = null;
  let done = false;
  const byId = async (): Promise<Sample> => {
    const begun = Date.now();
    const server = await get(id);
    const look = { begun, state: stateOf(server), ended: Date.now(), updated: server?.updated };
    seen.gets.push(look);
    return look;
  };
  const byList = async () => {
    const begun = Date.now();
    const server = await listed(id);
    if (server !== undefined) shown = stateOf(server);
    seen.lists.push({ begun, state: shown, ended: Date.now() });
  };
  shown = (await byId()).state;
  const looks = async () => {
    while (!done) {
      const { begun, state } = await byId();
      if (Date.now() > giveUp) throw new Error(`${id} does not get there: it is ${describeSample(state)}`);
      done = begun > actedAt && end(state);
    }
  };
  const lists = async () => {
    while (!done) await byList();
  };
  const acting = action().then(() => (actedAt = Date.now()));
  await Promise.all([acting, looks(), lists()]).finally(() => (done = true));
  await byList();
  await byId();
  return seen;
}

/** Looks in a row that show the same. */
interface Stretch {
  state: ServerState | null;
  /** The end of its first look, and the beginning of its last one: in between, that was the state. */
  from: number;
  to: number;
  /** As the first look has it. */
  updated: string | undefined;
}

function stretches(gets: Sample[]): Stretch[] {
  const found: Stretch[] = [];
  for (const { state, begun, ended, updated } of gets) {
    const last = found.at(-1);
    if (last !== undefined && sameState(last.state, state)) last.to = begun;
    else found.push({ state, from: ended, to: begun, updated });
  }
  return found;
}

/**
 * Every state that lasted long enough for one list is shown by it, no list shows a state that a GET before it had shown
 * to be over, and none is shown only because something else had changed a moment before.
 *
 * @returns what lists have shown, as 'ACTIVE/powering-off'
 */
function expectShown({ gets, lists }: SideBySide): string[] {
  const found = stretches(gets);
  const missed = found.filter(({ state, from, to }) => {
    const within = lists.filter(({ begun, ended }) => begun >= from && ended <= to);
    return within.length > 0 && !within.some((list) => sameState(list.state, state));
  });
  const late = lists.flatMap(({ begun, state }) => {
    const [over, now] = found.filter(({ from }) => from <= begun).slice(-2);
    if (over === undefined || now === undefined || !sameState(over.state, state)) return [];
    return [`${describeSample(state)}, ${Math.round(begun - now.from)} ms after it was over`];
  });
  const untold = found.filter(({ updated }, index) => {
    const before = found[index - 1];
    return before && updated !== undefined && Date.parse(updated) + ROUNDING + CLOCKS < before.to;
  });
  const names = (some: Stretch[]) => some.map(({ state }) => describeSample(state));
  expect({ missed: names(missed), late, untold: names(untold) }).toEqual({ missed: [], late: [], untold: [] });
  for (const [index, { state, from }] of found.entries()) {
    const until = found[index + 1]?.from ?? Infinity;
    const since = found[index - 1]?.from ?? Infinity;
    const list = lists.find((one) => one.ended > since && one.begun < until && sameState(one.state, state));
    if (list !== undefined) lags.push(Math.max(0, list.ended - from));
  }
  return [...new Set(lists.map(({ state }) => describeSample(state)))];
}

/**
 * In all that we read of a server, and so in all that a watch takes from it, the list is like the GET; but for the fault
 * of a server in another cell than the one whose database is nova-api's own (`fill_faults` of nova/objects/instance.py).
 */
async function expectSame(id: string): Promise<NovaServer> {
  const server = (await get(id))!;
  const { fault, ...shown } = (await listed(id, Date.parse(server.updated!) - ROUNDING)) ?? {};
  expect({ ...shown, fault: fault ?? server.fault }).toEqual({ ...server, fault: server.fault });
  if (server.fault !== undefined) said.push(`"${server.fault.message}" is ${fault ? '' : 'not '}in the list`);
  return server;
}

// ---- what the list shows

interface Step {
  does: object | (() => object);
  /** The `status` that it ends in. */
  end: string;
  /** A task that lasts, by the metadata of the server, where the hypervisor obeys it. */
  task?: string;
  byAdmin?: boolean;
  locked?: boolean;
}

/** Metadata that the anchor driver reads: its tasks last so many seconds. */
const slow = () => {
  const operations = ['spawn', 'power_off', 'power_on', 'reboot', 'rescue', 'destroy'];
  const seconds = cloud.simulated === undefined ? '2' : '0.3';
  return Object.fromEntries(operations.map((operation) => [`anchor_${operation}_seconds`, seconds]));
};

const RESIZE: Step = { does: () => ({ resize: { flavorRef: cloud.otherFlavor!.id } }), end: 'VERIFY_RESIZE' };

const STORIES: Record<string, Step[]> = {
  'a stop and a start': [
    { does: { 'os-stop': null }, end: 'SHUTOFF', task: 'ACTIVE/powering-off' },
    { does: { 'os-start': null }, end: 'ACTIVE', task: 'SHUTOFF/powering-on' },
  ],
  'a pause and its end': [
    { does: { pause: null }, end: 'PAUSED' },
    { does: { unpause: null }, end: 'ACTIVE' },
  ],
  'a suspension and its end': [
    { does: { suspend: null }, end: 'SUSPENDED' },
    { does: { resume: null }, end: 'ACTIVE' },
  ],
  'a soft and a hard reboot': [
    { does: { reboot: { type: 'SOFT' } }, end: 'ACTIVE', task: 'REBOOT/reboot_started' },
    { does: { reboot: { type: 'HARD' } }, end: 'ACTIVE', task: 'HARD_REBOOT/reboot_started_hard' },
  ],
  'a rescue and its end': [
    { does: { rescue: {} }, end: 'RESCUE', task: 'ACTIVE/rescuing' },
    { does: { unrescue: null }, end: 'ACTIVE' },
  ],
  'a lock and its end': [
    { does: { lock: null }, end: 'ACTIVE', locked: true },
    { does: { unlock: null }, end: 'ACTIVE', locked: false },
  ],
  'a resize that is reverted': [RESIZE, { does: { revertResize: null }, end: 'ACTIVE' }],
  'a resize that is confirmed': [RESIZE, { does: { confirmResize: null }, end: 'ACTIVE' }],
  'a state reset to error and to active': [
    { does: { 'os-resetState': { state: 'error' } }, end: 'ERROR', byAdmin: true },
    { does: { 'os-resetState': { state: 'active' } }, end: 'ACTIVE', byAdmin: true },
  ],
  'a shelving and its end': [
    { does: { shelve: null }, end: 'SHELVED_OFFLOADED' },
    { does: { unshelve: null }, end: 'ACTIVE', task: 'SHELVED_OFFLOADED/spawning' },
  ],
};

describe('a list of what has changed shows, no later than a GET', () => {
  const idle = (end: string) => (state: ServerState | null) => state?.status === end && state.taskState === null;

  test('a build, with its tasks and its host', async () => {
    const isSlow = await cloud.hasAnchorDriver();
    const id = await create({ metadata: isSlow ? slow() : {} });
    const shown = expectShown(await sideBySide(id, async () => undefined, idle('ACTIVE')));
    if (isSlow) expect(shown).toContain('BUILD/spawning');
    const { tenant_id, addresses, ...server } = await expectSame(id);
    expect(tenant_id).toBe(viewer.projectId);
    expect(addresses).toBeDefined();
    if (cloud.hasAdmin()) expect(server['OS-EXT-SRV-ATTR:host']).toEqual(expect.any(String));
  });

  test('a build that fits nowhere, with its fault', async () => {
    if (cloud.impossibleFlavor === undefined) return void skipped('needs a flavor that fits nowhere');
    const id = await create({ flavorRef: cloud.impossibleFlavor.id });
    expectShown(await sideBySide(id, async () => undefined, idle('ERROR')));
    expect((await expectSame(id)).fault?.message).toContain('No valid host');
    expectShown(
      await sideBySide(
        id,
        () => viewer.nova('DELETE', `/servers/${id}`),
        (state) => state === null,
      ),
    );
    expect(await listed(id)).toMatchObject({ status: 'DELETED' });
  });

  test('a build that fails on its host, with its fault', async () => {
    if (!(await cloud.hasAnchorDriver())) return;
    const id = await create({ metadata: { anchor_spawn: 'reschedule' } });
    expectShown(await sideBySide(id, async () => undefined, idle('ERROR')));
    expect((await expectSame(id)).fault?.message).toContain('Exceeded maximum number of retries');
  });

  test.each(Object.keys(STORIES))('%s', async (story) => {
    const steps = STORIES[story]!;
    if (steps[0] === RESIZE && cloud.otherFlavor === undefined) return void skipped('needs a second flavor');
    if (steps.some(({ byAdmin }) => byAdmin) && !cloud.hasAdmin()) return;
    const isSlow = await cloud.hasAnchorDriver();
    const id = await active({ metadata: isSlow ? slow() : {} });
    for (const { does, end, task, locked = false } of steps) {
      const action = typeof does === 'function' ? does() : does;
      await quiet(id);
      const there = (state: ServerState | null) => idle(end)(state) && state!.locked === locked;
      const shown = expectShown(await sideBySide(id, () => act(id, action), there));
      if (isSlow && task !== undefined) expect(shown).toContain(task);
      await expectSame(id);
    }
  });

  test('a guest that ends, when the power sync notices, and the stop that follows', async () => {
    if (!(await cloud.hasAnchorDriver())) return;
    const id = await active();
    accepted(await viewer.nova('POST', `/servers/${id}/metadata`, { metadata: { anchor_power: 'shutdown' } }));
    await quiet(id);
    cloud.simulated?.crash(id);
    const soon = Date.now() + SYNC_SECONDS * 1_000;
    const seen = await sideBySide(
      id,
      async () => undefined,
      (state) => idle('SHUTOFF')(state) || (Date.now() > soon && idle('ACTIVE')(state)),
    );
    expectShown(seen);
    if ((await get(id))!.status === 'ACTIVE') {
      return void skipped(`its power sync does not come within ${SYNC_SECONDS} s (sync_power_state_interval)`);
    }
    await expectSame(id);
  });

  test('a deletion: DELETED, for as long as the change is recent', async () => {
    const isSlow = await cloud.hasAnchorDriver();
    const id = await active({ metadata: isSlow ? slow() : {} });
    await quiet(id);
    const shown = expectShown(
      await sideBySide(
        id,
        () => act(id, { forceDelete: null }),
        (state) => state === null,
      ),
    );
    if (isSlow) expect(shown).toContain('ACTIVE/deleting');
    const server = await listed(id);
    expect(server).toMatchObject({ status: 'DELETED', 'OS-EXT-STS:vm_state': 'deleted', tenant_id: viewer.projectId });
    expect(await listed(id, Date.parse(server!.updated!) + 1_000 + ROUNDING)).toBeUndefined();
  });

  test('a soft deletion, and what is restored', async () => {
    const id = await active();
    const ends = (state: ServerState | null) => state === null || idle('SOFT_DELETED')(state);
    const shown = expectShown(await sideBySide(id, () => viewer.nova('DELETE', `/servers/${id}`), ends));
    if (!shown.includes('SOFT_DELETED')) return void skipped('DELETE is not soft here (reclaim_instance_interval)');
    await expectSame(id);
    expectShown(await sideBySide(id, () => act(id, { restore: null }), idle('ACTIVE')));
  });

  test('to a member, too, what has been deleted', async () => {
    const id = await cloud.active();
    await cloud.owner.act(id, { forceDelete: null });
    await until('it is gone', async () => ((await cloud.owner.look(id)).status === '404' ? true : undefined));
    const since = new Date(Date.now() - LIST_OVERLAP).toISOString();
    const { servers } = (await cloud.owner.nova('GET', `/servers/detail?changes-since=${since}`)).body as {
      servers: NovaServer[];
    };
    expect(servers.find((server) => server.id === id)).toMatchObject({ status: 'DELETED' });
  });
});

test('pages of a list go on after a server that has been deleted', async () => {
  const since = Date.now();
  const ids = [await active(), await active(), await active()];
  await act(ids[1]!, { forceDelete: null });
  await until('it is gone', async () => ((await get(ids[1]!)) === null ? true : undefined));
  const seen: string[] = [];
  const pages: number[] = [];
  for (let marker: string | undefined; pages.length < 50; marker = seen.at(-1)) {
    const query = new URLSearchParams({
      'changes-since': new Date(since - LIST_OVERLAP).toISOString(),
      limit: '1',
      ...(marker !== undefined && { marker }),
    });
    const { status, body } = await viewer.nova('GET', `/servers/detail?${query.toString()}`);
    expect(status).toBe(200);
    const { servers, servers_links: links } = body as { servers: NovaServer[]; servers_links?: object[] };
    seen.push(...servers.map(({ id }) => id));
    pages.push(servers.length);
    if (links === undefined) break;
  }
  // In the order of created_at, which is not that of the POSTs: each was put into the cell's database beside the others.
  expect(seen).toEqual(expect.arrayContaining(ids));
  expect(new Set(seen).size).toBe(seen.length);
});

// ---- what the list does not show

describe('a list of what has changed does not tell', () => {
  /** How the row `instances` of Nova's database, whose `updated_at` the list goes by, takes part in a change. */
  test.each<[string, boolean, (id: string) => Promise<Answer>]>([
    ['of a new name', true, (id) => viewer.nova('PUT', `/servers/${id}`, { server: { name: 'another' } })],
    ['of a lock', true, (id) => viewer.act(id, { lock: null })],
    ['of metadata', true, (id) => viewer.nova('POST', `/servers/${id}/metadata`, { metadata: { a: 'b' } })],
    ['of tags', false, (id) => viewer.nova('PUT', `/servers/${id}/tags`, { tags: ['another'] })],
  ])('%s: it does, %p', async (_, shows, change) => {
    const id = await active();
    const before = (await get(id))!;
    await quiet(id);
    accepted(await change(id));
    const after = (await get(id))!;
    expect(after).not.toEqual(before);
    expect(after.updated !== before.updated).toBe(shows);
  });

  test('when a build has begun: until it has a row of its own, it is in each list', async () => {
    const inAnHour = Date.now() + 3_600_000;
    for (let build = 1; ; build++) {
      const found = await listed(await create(), inAnHour);
      if (found !== undefined)
        return expect(found).toMatchObject({ status: 'BUILD', 'OS-EXT-STS:task_state': 'scheduling' });
      expect(build).toBeLessThan(10);
    }
  });

  test('of the deletion of a build that had no host yet', async () => {
    for (let build = 1; ; build++) {
      const id = await create();
      accepted(await viewer.nova('DELETE', `/servers/${id}`));
      await until('it is gone', async () => ((await get(id)) === null ? true : undefined));
      if ((await listed(id, Date.now() - 60_000)) === undefined) return;
      expect(build).toBeLessThan(10);
    }
  });

  test('of another project’s server, an administrator neither', async () => {
    if (!cloud.hasTwoUsers()) return;
    const id = await cloud.active();
    expect(await get(id)).toMatchObject({ tenant_id: cloud.owner.projectId });
    expect(await listed(id)).toBeUndefined();
  });

  test('of servers in a cell that is down', async () => {
    if (cloud.simulated === undefined) return void skipped('nothing here can take a cell down');
    const id = await active();
    cloud.simulated.setState(id, { downCell: true });
    expect(await get(id)).toMatchObject({ status: 'UNKNOWN', tenant_id: viewer.projectId });
    expect(await listed(id)).toBeUndefined();
    cloud.simulated.setState(id, { downCell: false });
  });
});
