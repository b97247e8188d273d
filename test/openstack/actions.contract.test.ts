/** Every action in every state: what is accepted and where it leads, what is refused and in which words. */
import { randomUUID } from 'node:crypto';
import { CloudUnderTest, skipped, until, type Answer, type Look } from './cloud-under-test';

let cloud: CloudUnderTest;

beforeAll(async () => {
  cloud = await CloudUnderTest.open();
});
afterEach(async () => cloud.sweep());
afterAll(async () => cloud?.close());

/** Requests, by the name of Nova's documentation and the kind of reboot. */
const ACTIONS = {
  'os-stop': () => ({ 'os-stop': null }),
  'os-start': () => ({ 'os-start': null }),
  pause: () => ({ pause: null }),
  unpause: () => ({ unpause: null }),
  suspend: () => ({ suspend: null }),
  resume: () => ({ resume: null }),
  rescue: () => ({ rescue: {} }),
  unrescue: () => ({ unrescue: null }),
  'reboot SOFT': () => ({ reboot: { type: 'SOFT' } }),
  'reboot HARD': () => ({ reboot: { type: 'HARD' } }),
  resize: () => ({ resize: { flavorRef: cloud.otherFlavor!.id } }),
  confirmResize: () => ({ confirmResize: null }),
  revertResize: () => ({ revertResize: null }),
  rebuild: () => ({ rebuild: { imageRef: cloud.imageId } }),
  shelve: () => ({ shelve: null }),
  unshelve: () => ({ unshelve: null }),
  restore: () => ({ restore: null }),
} as const;

type Action = keyof typeof ACTIONS;

/** Nova's name for it in its messages. */
const nameOf = (action: Action): string => action.replace(/^os-/, '').replace(/ .*/, '');

interface State {
  vmState: string;
  /** Actions that lead there from ACTIVE, each with the status that it ends in. */
  way: [object | (() => object), string][];
  accepted: Partial<Record<Action, string>>;
  /** Start and stop are refused as there is no host; it goes a moment after the status has come. */
  notReady?: boolean;
  needsAdmin?: boolean;
}

const STATES: Record<string, State> = {
  ACTIVE: {
    vmState: 'active',
    way: [],
    accepted: {
      'os-stop': 'SHUTOFF',
      pause: 'PAUSED',
      suspend: 'SUSPENDED',
      rescue: 'RESCUE',
      'reboot SOFT': 'ACTIVE',
      'reboot HARD': 'ACTIVE',
      resize: 'VERIFY_RESIZE',
      rebuild: 'ACTIVE',
      shelve: 'SHELVED_OFFLOADED',
    },
  },
  PAUSED: {
    vmState: 'paused',
    way: [[{ pause: null }, 'PAUSED']],
    accepted: { unpause: 'ACTIVE', 'reboot HARD': 'ACTIVE', shelve: 'SHELVED_OFFLOADED' },
  },
  SUSPENDED: {
    vmState: 'suspended',
    way: [[{ suspend: null }, 'SUSPENDED']],
    accepted: { resume: 'ACTIVE', 'reboot HARD': 'ACTIVE', shelve: 'SHELVED_OFFLOADED' },
  },
  RESCUE: { vmState: 'rescued', way: [[{ rescue: {} }, 'RESCUE']], accepted: { unrescue: 'ACTIVE' } },
  SHUTOFF: {
    vmState: 'stopped',
    way: [[{ 'os-stop': null }, 'SHUTOFF']],
    accepted: {
      'os-start': 'ACTIVE',
      rescue: 'RESCUE',
      'reboot HARD': 'ACTIVE',
      resize: 'VERIFY_RESIZE',
      rebuild: 'SHUTOFF',
      shelve: 'SHELVED_OFFLOADED',
    },
  },
  ERROR: {
    vmState: 'error',
    way: [[{ 'os-resetState': { state: 'error' } }, 'ERROR']],
    needsAdmin: true,
    accepted: { 'os-stop': 'SHUTOFF', rescue: 'RESCUE', 'reboot HARD': 'ACTIVE', rebuild: 'ACTIVE' },
  },
  VERIFY_RESIZE: {
    vmState: 'resized',
    way: [[() => ACTIONS.resize(), 'VERIFY_RESIZE']],
    accepted: { confirmResize: 'ACTIVE', revertResize: 'ACTIVE' },
  },
  SHELVED_OFFLOADED: {
    vmState: 'shelved_offloaded',
    way: [[{ shelve: null }, 'SHELVED_OFFLOADED']],
    notReady: true,
    accepted: { unshelve: 'ACTIVE' },
  },
};

const codeOf = (action: Action): number => ({ rescue: 200, confirmResize: 204 })[action as string] ?? 202;

const conflict = (message: string) => ({ status: 409, body: { conflictingRequest: { code: 409, message } } });

async function reach(state: State): Promise<string> {
  const id = await cloud.active();
  for (const [action, status] of state.way) {
    const body = typeof action === 'function' ? (action as () => object)() : action;
    await cloud.take(id, body, status, state.needsAdmin === true ? cloud.admin : cloud.owner);
  }
  return id;
}

async function notReady(id: string, action: object): Promise<void> {
  await until(`its host is gone, so that ${JSON.stringify(action)} is refused for that`, async () => {
    const answer = await cloud.owner.act(id, action);
    expect(answer.status).toBe(409);
    return answer.body.conflictingRequest.message === `Instance ${id} is not ready` ? true : undefined;
  });
}

function possible(state: State, action?: Action): boolean {
  if (state.needsAdmin === true && !cloud.hasAdmin()) return false;
  const resizes = action === 'resize' || state.vmState === 'resized';
  return !resizes || cloud.otherFlavor !== undefined || skipped('needs a second flavor to resize to');
}

describe.each(Object.entries(STATES))('%s', (_, state) => {
  test('refuses all other actions, naming its vm_state', async () => {
    if (!possible(state)) return;
    const id = await reach(state);
    const others = (Object.keys(ACTIONS) as Action[]).filter((action) => state.accepted[action] === undefined);
    for (const action of others) {
      if (action === 'resize' && cloud.otherFlavor === undefined) continue;
      const powers = action === 'os-stop' || action === 'os-start';
      if (state.notReady === true && powers) await notReady(id, ACTIONS[action]());
      else {
        expect(await cloud.owner.act(id, ACTIONS[action]())).toMatchObject(
          conflict(`Cannot '${nameOf(action)}' instance ${id} while it is in vm_state ${state.vmState}`),
        );
      }
    }
    expect((await cloud.owner.look(id)).vmState).toBe(state.vmState);
  });

  test.each(Object.entries(state.accepted) as [Action, string][])(
    'takes %s, and becomes %s',
    async (action, status) => {
      if (!possible(state, action)) return;
      const id = await reach(state);
      const answer = await cloud.owner.act(id, ACTIONS[action]());
      expect(answer.status).toBe(codeOf(action));
      if (action === 'rescue') expect(answer.body).toEqual({ adminPass: expect.any(String) });
      else if (action !== 'rebuild') expect(answer.text).toBe('');
      expect(answer.headers['x-openstack-request-id']).toMatch(/^req-/);
      const look = await cloud.settled(id, status);
      if (status === 'ACTIVE' && state.vmState !== 'error') expect(look.powerState).toBe(1);
      if (status === 'SHUTOFF') expect(look.powerState).toBe(4);
      expect((await cloud.owner.actions(id))[0]).toMatchObject({
        action: nameOf(action),
        message: null,
        user_id: cloud.owner.userId,
        request_id: answer.headers['x-openstack-request-id'],
      });
    },
  );

  test('takes os-resetState from an administrator, whatever its state', async () => {
    if (!cloud.hasAdmin() || !possible(state)) return;
    const id = await reach(state);
    const before = await cloud.owner.look(id);
    expect(await cloud.admin!.act(id, { 'os-resetState': { state: 'error' } })).toMatchObject({
      status: 202,
      text: '',
    });
    expect(await cloud.owner.look(id)).toMatchObject({
      status: 'ERROR',
      taskState: null,
      powerState: before.powerState,
    });
    expect((await cloud.admin!.act(id, { 'os-resetState': { state: 'active' } })).status).toBe(202);
    expect(await cloud.owner.look(id)).toMatchObject({
      status: 'ACTIVE',
      taskState: null,
      powerState: before.powerState,
    });
    expect((await cloud.owner.actions(id)).slice(0, 2).map((one) => one.action)).toEqual(['resetState', 'resetState']);
  });

  test('can be deleted', async () => {
    if (!possible(state)) return;
    const id = await reach(state);
    expect(await cloud.owner.nova('DELETE', `/servers/${id}`)).toMatchObject({ status: 204, text: '' });
    await cloud.watch(id, (look) => look.status === '404');
  });
});

describe('a server that never ran (no valid host)', () => {
  test('refuses every action, in words of three kinds', async () => {
    if (cloud.impossibleFlavor === undefined) return skipped('needs a flavor that fits no host');
    const id = await cloud.create({ flavorRef: cloud.impossibleFlavor.id });
    await cloud.settled(id, 'ERROR');
    for (const action of ['os-stop', 'os-start'] as const) {
      expect(await cloud.owner.act(id, ACTIONS[action]())).toMatchObject(conflict(`Instance ${id} is not ready`));
    }
    for (const action of ['rescue', 'reboot HARD', 'rebuild'] as const) {
      expect(await cloud.owner.act(id, ACTIONS[action]())).toMatchObject(
        conflict(`Instance ${id} is in an invalid state for '${nameOf(action)}'`),
      );
    }
    expect(await cloud.owner.act(id, { pause: null })).toMatchObject(
      conflict(`Cannot 'pause' instance ${id} while it is in vm_state error`),
    );
  });
});

describe('a server in its first moments of BUILD', () => {
  test('is there to GET, and could not be found to start and stop', async () => {
    const id = await cloud.create();
    const [stop, shown] = await Promise.all([cloud.owner.act(id, { 'os-stop': null }), cloud.owner.look(id)]);
    if (shown.taskState !== 'scheduling') return skipped('it was scheduled too fast to be caught');
    expect(stop).toMatchObject({
      status: 404,
      body: { itemNotFound: { code: 404, message: `Instance ${id} could not be found.` } },
    });
  });

  test('refuses the other actions, as it is building', async () => {
    const id = await cloud.create();
    expect(await cloud.owner.act(id, { pause: null })).toMatchObject(
      conflict(`Cannot 'pause' instance ${id} while it is in vm_state building`),
    );
  });
});

describe('while a task runs', () => {
  test('another action is refused, naming the task', async () => {
    if (!(await cloud.hasAnchorDriver())) return;
    const id = await cloud.active({ metadata: { anchor_power_off_seconds: '2' } });
    expect((await cloud.owner.act(id, { 'os-stop': null })).status).toBe(202);
    expect(await cloud.owner.look(id)).toMatchObject({
      status: 'ACTIVE',
      vmState: 'active',
      taskState: 'powering-off',
    });
    for (const action of ['os-stop', 'pause', 'reboot HARD'] as const) {
      expect(await cloud.owner.act(id, ACTIONS[action]())).toMatchObject(
        conflict(`Cannot '${nameOf(action)}' instance ${id} while it is in task_state powering-off`),
      );
    }
    expect(await cloud.settled(id, 'SHUTOFF')).toMatchObject({ vmState: 'stopped', powerState: 4 });
  });
});

describe('the states between', () => {
  const statuses = (seen: Look[]) => seen.map((look) => [look.status, look.taskState]);

  test.each<[string, object, string, [string, string | null][]]>([
    [
      'os-stop',
      { 'os-stop': null },
      'SHUTOFF',
      [
        ['ACTIVE', 'powering-off'],
        ['SHUTOFF', null],
      ],
    ],
    [
      'pause',
      { pause: null },
      'PAUSED',
      [
        ['ACTIVE', 'pausing'],
        ['PAUSED', null],
      ],
    ],
    [
      'suspend',
      { suspend: null },
      'SUSPENDED',
      [
        ['ACTIVE', 'suspending'],
        ['SUSPENDED', null],
      ],
    ],
    [
      'rescue',
      { rescue: {} },
      'RESCUE',
      [
        ['ACTIVE', 'rescuing'],
        ['RESCUE', null],
      ],
    ],
    [
      'reboot HARD',
      { reboot: { type: 'HARD' } },
      'ACTIVE',
      [
        ['HARD_REBOOT', 'rebooting_hard'],
        ['HARD_REBOOT', 'reboot_pending_hard'],
        ['HARD_REBOOT', 'reboot_started_hard'],
        ['ACTIVE', null],
      ],
    ],
    [
      'reboot SOFT',
      { reboot: { type: 'SOFT' } },
      'ACTIVE',
      [
        ['REBOOT', 'rebooting'],
        ['REBOOT', 'reboot_pending'],
        ['REBOOT', 'reboot_started'],
        ['ACTIVE', null],
      ],
    ],
    [
      'shelve',
      { shelve: null },
      'SHELVED_OFFLOADED',
      [
        ['ACTIVE', 'shelving'],
        ['ACTIVE', 'shelving_image_pending_upload'],
        ['ACTIVE', 'shelving_image_uploading'],
        ['SHELVED', 'shelving_offloading'],
        ['SHELVED_OFFLOADED', null],
      ],
    ],
  ])('of %s are these, in this order', async (_, action, end, allowed) => {
    const id = await cloud.active();
    expect((await cloud.owner.act(id, action)).status).toBeLessThan(300);
    const seen = statuses(await cloud.watch(id, (look) => look.status === end && look.taskState === null));
    const known = allowed.map((one) => JSON.stringify(one));
    const places = seen.map((one) => known.indexOf(JSON.stringify(one)));
    expect(places).not.toContain(-1);
    expect(places).toEqual([...places].sort((a, b) => a - b));
    expect(places.length).toBeGreaterThan(1);
  });

  test('of resize and its confirmation are these; the host changes on the way', async () => {
    if (!cloud.hasAdmin() || !possible(STATES['VERIFY_RESIZE']!)) return;
    const id = await cloud.active();
    const from = (await cloud.admin!.look(id)).host;
    expect((await cloud.owner.act(id, ACTIONS.resize())).status).toBe(202);
    const seen = await cloud.watch(id, (look) => look.status === 'VERIFY_RESIZE');
    const order = ['resize_prep', 'resize_migrating', 'resize_migrated', 'resize_finish', null];
    const tasks = [...new Set(seen.map((look) => look.taskState))];
    expect(tasks).toEqual(order.filter((task) => tasks.includes(task)));
    expect(seen.slice(0, -1).every((look) => look.status === 'RESIZE')).toBe(true);
    const { server } = (await cloud.owner.nova('GET', `/servers/${id}`)).body;
    expect(server.flavor.original_name).toBe(cloud.otherFlavor!.name);
    expect((await cloud.owner.act(id, { revertResize: null })).status).toBe(202);
    const back = await cloud.watch(id, (look) => look.status === 'ACTIVE' && look.taskState === null);
    expect(
      back.slice(0, -1).every((look) => look.status === 'REVERT_RESIZE' && look.taskState === 'resize_reverting'),
    ).toBe(true);
    expect(back.at(-1)!.host).toBe(from);
  });

  test('of a resize of a stopped server end in SHUTOFF once it is confirmed', async () => {
    if (!possible(STATES['VERIFY_RESIZE']!)) return;
    const id = await cloud.active();
    await cloud.take(id, { 'os-stop': null }, 'SHUTOFF');
    expect(await cloud.take(id, ACTIONS.resize(), 'VERIFY_RESIZE')).toMatchObject({
      vmState: 'resized',
      powerState: 4,
    });
    expect((await cloud.owner.act(id, { confirmResize: null })).status).toBe(204);
    await cloud.settled(id, 'SHUTOFF');
  });
});

describe('an action that is wrong', () => {
  const bad = (message: unknown) => ({ status: 400, body: { badRequest: { code: 400, message } } });
  let id: string;
  beforeAll(async () => {
    id = cloud.keep(await cloud.active());
  });

  test('of a server that is none is 404; start and stop say it in other words', async () => {
    const none = randomUUID();
    const missing = (message: string) => ({ status: 404, body: { itemNotFound: { code: 404, message } } });
    expect(await cloud.owner.act(none, { 'os-stop': null })).toMatchObject(
      missing(`Instance ${none} has no mapping to a cell.`),
    );
    expect(await cloud.owner.act(none, { pause: null })).toMatchObject(missing(`Instance ${none} could not be found.`));
  });

  test.each<[object, unknown]>([
    [{ nope: null }, 'There is no such action: nope'],
    [{ 'os-stop': null, 'os-start': null }, 'Malformed request body'],
    [{}, 'Malformed request body'],
    [
      { reboot: { type: 'WARM' } },
      expect.stringMatching(/^Invalid input for field\/attribute type\. Value: WARM\. 'WARM' is not one of \[/),
    ],
    [{ reboot: {} }, "Invalid input for field/attribute reboot. Value: {}. 'type' is a required property"],
    [{ resize: { flavorRef: 'nope' } }, 'Flavor nope could not be found.'],
    [{ resize: {} }, "Invalid input for field/attribute resize. Value: {}. 'flavorRef' is a required property"],
  ])('%j is 400', async (action, message) => {
    expect(await cloud.owner.act(id, action)).toMatchObject(bad(message));
  });

  test('a resize to the same flavor is 400', async () => {
    expect(await cloud.owner.act(id, { resize: { flavorRef: cloud.flavor.id } })).toMatchObject(
      bad('When resizing, instances must change flavor!'),
    );
  });

  test('an evacuation from a host that is up, or of a server without one, is 400', async () => {
    if (!cloud.hasAdmin()) return;
    const { host } = await cloud.admin!.look(id);
    expect(await cloud.admin!.act(id, { evacuate: {} })).toMatchObject(
      bad(`Compute service of ${host} is still in use.`),
    );
    expect(await cloud.admin!.act(id, { evacuate: { host: 'nope' } })).toMatchObject({
      status: 404,
      body: { itemNotFound: { code: 404, message: 'Compute host nope not found.' } },
    });
    expect(await cloud.admin!.act(id, { evacuate: { host } })).toMatchObject(
      bad("The target host can't be the same one."),
    );
  });

  test.each([
    [{ 'os-resetState': { state: 'error' } }, 'os_compute_api:os-admin-actions:reset_state'],
    [{ evacuate: {} }, 'os_compute_api:os-evacuate'],
    [{ migrate: null }, 'os_compute_api:os-migrate-server:migrate'],
  ])('%j of an ordinary user is 403', async (action, policy) => {
    if (!cloud.hasTwoUsers()) return;
    expect(await cloud.owner.act(id, action)).toMatchObject({
      status: 403,
      body: { forbidden: { code: 403, message: `Policy doesn't allow ${policy} to be performed.` } },
    });
  });
});

describe('a lock', () => {
  const locked = (id: string) => conflict(`Instance ${id} is locked`);
  const act = (id: string, action: object): Promise<Answer> => cloud.owner.act(id, action);

  test("of an owner stops the owner's own actions, until it is taken off", async () => {
    if (!cloud.hasTwoUsers()) return;
    const id = await cloud.active();
    expect(await act(id, { lock: { locked_reason: 'upgrade' } })).toMatchObject({ status: 202, text: '' });
    const { server } = (await cloud.owner.nova('GET', `/servers/${id}`)).body;
    expect(server).toMatchObject({ locked: true, locked_reason: 'upgrade', status: 'ACTIVE' });
    for (const action of [{ 'os-stop': null }, { reboot: { type: 'HARD' } }, { pause: null }, { forceDelete: null }]) {
      expect(await act(id, action)).toMatchObject(locked(id));
    }
    expect(await cloud.owner.nova('DELETE', `/servers/${id}`)).toMatchObject(locked(id));
    expect((await cloud.owner.nova('GET', `/servers?locked=true&tags=${cloud.runTag}`)).body.servers).toHaveLength(1);
    expect(await act(id, { unlock: null })).toMatchObject({ status: 202, text: '' });
    await cloud.take(id, { 'os-stop': null }, 'SHUTOFF');
    const actions = (await cloud.owner.actions(id)).map((action) => action.action);
    expect(actions).toEqual(['stop', 'unlock', 'lock', 'create']);
  });

  test("of an administrator is not the owner's to take off, and does not stop the administrator", async () => {
    if (!cloud.hasTwoUsers()) return;
    const id = await cloud.active();
    expect((await cloud.admin!.act(id, { lock: null })).status).toBe(202);
    expect(await act(id, { 'os-stop': null })).toMatchObject(locked(id));
    expect(await act(id, { unlock: null })).toMatchObject({
      status: 403,
      body: {
        forbidden: {
          message: "Policy doesn't allow os_compute_api:os-lock-server:unlock:unlock_override to be performed.",
        },
      },
    });
    await cloud.take(id, { 'os-stop': null }, 'SHUTOFF', cloud.admin);
    expect((await cloud.owner.actions(id))[0]).toMatchObject({ action: 'stop', user_id: cloud.admin!.userId });
    expect((await cloud.admin!.act(id, { unlock: null })).status).toBe(202);
    await cloud.take(id, { 'os-start': null }, 'ACTIVE');
  });
});

describe('the instance actions', () => {
  let id: string;
  beforeAll(async () => {
    id = cloud.keep(await cloud.active());
    await cloud.take(id, { 'os-stop': null }, 'SHUTOFF');
  });

  test('are newest first, with who asked and when', async () => {
    const { body } = await cloud.owner.nova('GET', `/servers/${id}/os-instance-actions`);
    const entry = (action: string) => ({
      action,
      instance_uuid: id,
      request_id: expect.stringMatching(/^req-/),
      user_id: cloud.owner.userId,
      project_id: cloud.owner.projectId,
      start_time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$/),
      message: null,
      updated_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$/),
    });
    expect(body).toEqual({ instanceActions: [entry('stop'), entry('create')] });
  });

  test('have no updated_at before 2.58', async () => {
    const { body } = await cloud.owner.nova('GET', `/servers/${id}/os-instance-actions`, undefined, {
      version: '2.57',
    });
    expect(body.instanceActions[0]).not.toHaveProperty('updated_at');
  });

  test('are shown one by one with their events; host and traceback for administrators', async () => {
    const [stop] = await cloud.owner.actions(id);
    const path = `/servers/${id}/os-instance-actions/${stop!.request_id}`;
    const event = {
      event: 'compute_stop_instance',
      start_time: expect.any(String),
      finish_time: expect.any(String),
      result: 'Success',
      hostId: expect.stringMatching(/^[0-9a-f]{56}$/),
    };
    const { instanceAction } = (await cloud.owner.nova('GET', path)).body;
    expect(instanceAction).toMatchObject({ action: 'stop', request_id: stop!.request_id, message: null });
    if (!cloud.owner.isAdmin) expect(instanceAction.events).toEqual([event]);
    if (!cloud.hasAdmin()) return;
    const { instanceAction: full } = (await cloud.admin!.nova('GET', path)).body;
    expect(full.events).toEqual([{ ...event, host: expect.any(String), traceback: null, details: null }]);
  });

  test('of a request that is none: 404', async () => {
    expect(await cloud.owner.nova('GET', `/servers/${id}/os-instance-actions/req-none`)).toMatchObject({
      status: 404,
      body: { itemNotFound: { code: 404, message: 'Action req-none not found' } },
    });
  });
});

describe('metadata', () => {
  test('can be changed, other than in ERROR', async () => {
    const id = await cloud.active({ metadata: { a: '1' } });
    const path = `/servers/${id}/metadata`;
    expect(await cloud.owner.nova('POST', path, { metadata: { b: '2' } })).toMatchObject({
      status: 200,
      body: { metadata: { a: '1', b: '2' } },
    });
    expect(await cloud.owner.nova('PUT', `${path}/b`, { meta: { b: '3' } })).toMatchObject({
      status: 200,
      body: { meta: { b: '3' } },
    });
    expect((await cloud.owner.nova('DELETE', `${path}/a`)).status).toBe(204);
    expect((await cloud.owner.nova('GET', path)).body).toEqual({ metadata: { b: '3' } });
    if (!cloud.hasAdmin()) return;
    await cloud.take(id, { 'os-resetState': { state: 'error' } }, 'ERROR', cloud.admin);
    expect(await cloud.owner.nova('POST', path, { metadata: { c: '4' } })).toMatchObject(
      conflict(`Cannot 'update metadata' instance ${id} while it is in vm_state error`),
    );
  });
});
