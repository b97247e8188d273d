/**
 * What goes wrong behind an accepted request. It takes a hypervisor that fails on demand, as it reads `anchor_...` from
 * a server's metadata: the simulator's, or a driver of that kind in a real Nova.
 */
import { CloudUnderTest, type Look } from './cloud-under-test';

let cloud: CloudUnderTest;
let able: boolean;

beforeAll(async () => {
  cloud = await CloudUnderTest.open();
  able = await cloud.hasAnchorDriver();
});
afterEach(async () => cloud.sweep());
afterAll(async () => cloud?.close());

const faultOf = async (id: string) => (await cloud.owner.nova('GET', `/servers/${id}`)).body.server.fault;
const steps = (seen: Look[]) => seen.map(({ status, taskState }) => [status, taskState]);

/** On a hypervisor that can't fail on demand a test says so and ends. */
const failing = (name: string, body: () => Promise<void>) =>
  test(name, async () => {
    if (able || (await cloud.hasAnchorDriver())) await body();
  });

describe('an action that fails on the host', () => {
  failing('a stop: the old status, no fault, and only the instance action says Error', async () => {
    const id = await cloud.active({ metadata: { anchor_power_off: 'fail' } });
    expect((await cloud.owner.act(id, { 'os-stop': null })).status).toBe(202);
    expect(await cloud.settled(id)).toMatchObject({ status: 'ACTIVE', vmState: 'active', powerState: 1 });
    expect(await faultOf(id)).toBeUndefined();
    const [stop] = await cloud.owner.actions(id);
    expect(stop).toMatchObject({ action: 'stop', message: 'Error' });
    const detail = await cloud.owner.nova('GET', `/servers/${id}/os-instance-actions/${stop!.request_id}`);
    expect(detail.body.instanceAction.events[0]).toMatchObject({ event: 'compute_stop_instance', result: 'Error' });
  });

  failing('a start: SHUTOFF as before', async () => {
    const id = await cloud.active({ metadata: { anchor_power_on: 'fail' } });
    await cloud.take(id, { 'os-stop': null }, 'SHUTOFF');
    expect((await cloud.owner.act(id, { 'os-start': null })).status).toBe(202);
    expect(await cloud.settled(id)).toMatchObject({ status: 'SHUTOFF', powerState: 4 });
    expect((await cloud.owner.actions(id))[0]).toMatchObject({ action: 'start', message: 'Error' });
  });

  failing('a reboot of a guest that goes on running counts as none', async () => {
    const id = await cloud.active({ metadata: { anchor_reboot: 'fail' } });
    expect((await cloud.owner.act(id, { reboot: { type: 'HARD' } })).status).toBe(202);
    expect(await cloud.settled(id)).toMatchObject({ status: 'ACTIVE', powerState: 1 });
    expect((await cloud.owner.actions(id))[0]).toMatchObject({ action: 'reboot', message: null });
  });

  failing('a hard reboot of a stopped server: ERROR with a fault', async () => {
    const id = await cloud.active({ metadata: { anchor_reboot: 'fail' } });
    await cloud.take(id, { 'os-stop': null }, 'SHUTOFF');
    expect((await cloud.owner.act(id, { reboot: { type: 'HARD' } })).status).toBe(202);
    expect(await cloud.settled(id)).toMatchObject({ status: 'ERROR', powerState: 4 });
    expect(await faultOf(id)).toMatchObject({ code: 500, message: 'anchor_reboot = fail' });
    expect((await cloud.owner.actions(id))[0]).toMatchObject({ action: 'reboot', message: 'Error' });
  });

  failing('a rescue: ERROR with a fault', async () => {
    const id = await cloud.active({ metadata: { anchor_rescue: 'fail' } });
    expect((await cloud.owner.act(id, { rescue: {} })).status).toBe(200);
    expect(await cloud.settled(id)).toMatchObject({ status: 'ERROR' });
    expect(await faultOf(id)).toMatchObject({
      code: 400,
      message: `Instance ${id} cannot be rescued: Driver Error: anchor_rescue = fail`,
    });
  });

  failing('a deletion: it comes back as ERROR, and can be deleted again', async () => {
    if (!cloud.hasAdmin()) return;
    const id = await cloud.active({ metadata: { anchor_destroy: 'fail' } });
    expect((await cloud.owner.nova('DELETE', `/servers/${id}`)).status).toBe(204);
    const seen = await cloud.watch(id, (look) => look.status === 'ERROR' && look.taskState === null);
    expect(steps(seen)[0]).toEqual(['ACTIVE', 'deleting']);
    expect(await faultOf(id)).toMatchObject({ code: 500, message: 'anchor_destroy = fail' });
    expect((await cloud.owner.actions(id))[0]).toMatchObject({ action: 'delete', message: 'Error' });
    await cloud.take(id, { 'os-resetState': { state: 'active' } }, 'ACTIVE', cloud.admin);
    expect((await cloud.owner.nova('DELETE', `/servers/${id}/metadata/anchor_destroy`)).status).toBe(204);
    expect((await cloud.owner.nova('DELETE', `/servers/${id}`)).status).toBe(204);
    await cloud.watch(id, (look) => look.status === '404');
  });
});

describe('a build', () => {
  failing('that the host gives up: ERROR with its reason, and no host any more', async () => {
    const id = await cloud.create({ metadata: { anchor_spawn: 'abort' } });
    const seen = await cloud.watch(id, (look) => look.status === 'ERROR');
    expect(seen.at(-1)).toMatchObject({ vmState: 'error', taskState: null, powerState: 0 });
    expect(seen.at(-1)!.host ?? null).toBeNull();
    expect(await faultOf(id)).toMatchObject({
      code: 500,
      message: `Build of instance ${id} aborted: anchor_spawn = abort`,
    });
    expect(await cloud.owner.actions(id)).toMatchObject([{ action: 'create', message: null }]);
  });

  failing('that every host gives back: scheduled anew, then ERROR', async () => {
    const id = await cloud.create({ metadata: { anchor_spawn: 'reschedule', anchor_spawn_seconds: '0.3' } });
    const seen = await cloud.watch(id, (look) => look.status === 'ERROR');
    const tasks = seen.map((look) => look.taskState);
    expect(tasks.lastIndexOf('scheduling')).toBeGreaterThan(tasks.indexOf('spawning'));
    if (cloud.hasAdmin()) expect(new Set(seen.map((look) => look.host)).size).toBeGreaterThan(2);
    expect(await faultOf(id)).toMatchObject({
      code: 500,
      message: `Exceeded maximum number of retries. Exhausted all hosts available for retrying build failures for instance ${id}.`,
    });
  });

  failing('refuses actions while it spawns, naming vm_state building', async () => {
    const id = await cloud.create({ metadata: { anchor_spawn_seconds: '3' } });
    await cloud.watch(id, (look) => look.taskState === 'spawning');
    const busy = (action: string) => `Cannot '${action}' instance ${id} while it is in vm_state building`;
    for (const [action, body] of [
      ['stop', { 'os-stop': null }],
      ['start', { 'os-start': null }],
      ['reboot', { reboot: { type: 'HARD' } }],
      ['rescue', { rescue: {} }],
      ['pause', { pause: null }],
    ] as const) {
      expect((await cloud.owner.act(id, body)).body.conflictingRequest.message).toBe(busy(action));
    }
    await cloud.settled(id, 'ACTIVE');
  });

  failing('reset to error while it spawns ends in ERROR, and may be ACTIVE for a moment', async () => {
    if (!cloud.hasAdmin()) return;
    const id = await cloud.create({ metadata: { anchor_spawn_seconds: '2' } });
    await cloud.watch(id, (look) => look.taskState === 'spawning');
    expect((await cloud.admin!.act(id, { 'os-resetState': { state: 'error' } })).status).toBe(202);
    const seen = await cloud.watch(id, (look) => look.status === 'ERROR' && look.host === null);
    expect(steps(seen)[0]).toEqual(['ERROR', null]);
    for (const { status } of seen) expect(['ERROR', 'ACTIVE']).toContain(status);
    expect((await faultOf(id)).message).toMatch(
      /^Conflict updating instance .* Expected: {'task_state': \['spawning'\]}/,
    );
  });

  failing('deleted while it spawns is gone once the spawn is over, and may be ACTIVE for a moment', async () => {
    const id = await cloud.create({ metadata: { anchor_spawn_seconds: '2' } });
    await cloud.watch(id, (look) => look.taskState === 'spawning');
    const before = Date.now();
    expect((await cloud.owner.nova('DELETE', `/servers/${id}`)).status).toBe(204);
    expect((await cloud.owner.nova('DELETE', `/servers/${id}`)).status).toBe(204);
    const seen = await cloud.watch(id, (look) => look.status === '404');
    expect(Date.now() - before).toBeGreaterThan(1000);
    const allowed = [
      ['BUILD', 'deleting'],
      ['ACTIVE', null],
      ['ACTIVE', 'deleting'],
      ['DELETED', null],
      ['404', null],
    ];
    expect(steps(seen)[0]).toEqual(['BUILD', 'deleting']);
    for (const step of steps(seen)) expect(allowed).toContainEqual(step);
    expect((await cloud.owner.actions(id)).map((action) => action.action)).toEqual(['delete', 'create']);
  });

  failing('whose guest stops by itself is ACTIVE with power_state 4, until the power sync', async () => {
    const id = await cloud.active({ metadata: { anchor_power: 'shutdown' } });
    expect(await cloud.owner.look(id)).toMatchObject({ status: 'ACTIVE', vmState: 'active', powerState: 4 });
  });
});
