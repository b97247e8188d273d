/** What the simulated cloud offers its tests beyond being a cloud. That it is one, `test/openstack` proves. */
import { SimulatedCloud, type SimulatedCloudOptions, type UserName } from '../../src/simulator';

let cloud: SimulatedCloud;
const tokens = new Map<UserName, string>();

async function start(options: SimulatedCloudOptions = {}): Promise<void> {
  tokens.clear();
  cloud = await SimulatedCloud.start({ buildSeconds: 0, actionSeconds: 0, ...options });
}

afterEach(async () => cloud.stop());

async function login(user: UserName): Promise<Response> {
  const { OS_PASSWORD: password } = cloud.env(user);
  const domain = { id: 'default' };
  const auth = {
    identity: { methods: ['password'], password: { user: { name: user, domain, password } } },
    scope: { project: { name: user, domain } },
  };
  return fetch(`${cloud.authUrl}/auth/tokens`, { method: 'POST', body: JSON.stringify({ auth }) });
}

/** Status and body of a request to Nova. */
async function nova(method: string, path: string, body?: object, options: { version?: string; user?: UserName } = {}) {
  const { version = '2.90', user = 'demo' } = options;
  let token = tokens.get(user);
  if (token === undefined) tokens.set(user, (token = (await login(user)).headers.get('x-subject-token')!));
  const answer = await fetch(cloud.computeUrl + path, {
    method,
    body: body === undefined ? undefined : JSON.stringify(body),
    headers: {
      'X-Auth-Token': token,
      'OpenStack-API-Version': `compute ${version}`,
      'Content-Type': 'application/json',
    },
    signal: AbortSignal.timeout(5000),
  });
  const text = await answer.text();
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  return { status: answer.status, body: (text.startsWith('{') ? JSON.parse(text) : text) as any };
}

async function create(more: object = {}): Promise<string> {
  const server = { name: 'one', flavorRef: cloud.flavorId, imageRef: cloud.imageId, networks: 'none', ...more };
  const { status, body } = await nova('POST', '/servers', { server });
  expect(status).toBe(202);
  return body.server.id as string;
}

const show = async (id: string, version?: string) =>
  (await nova('GET', `/servers/${id}`, undefined, { version })).body.server;
const act = async (id: string, action: object, user?: UserName) =>
  (await nova('POST', `/servers/${id}/action`, action, { user })).status;
const sleep = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

describe('a build', () => {
  test('of no seconds is ACTIVE at the first look', async () => {
    await start();
    expect(await show(await create())).toMatchObject({ status: 'ACTIVE', 'OS-EXT-STS:power_state': 1 });
  });

  test('is ACTIVE exactly in its time, however late that is looked at', async () => {
    await start({ buildSeconds: 0.2 });
    const id = await create();
    expect(cloud.server(id)).toMatchObject({ status: 'BUILD', activeAt: undefined });
    await sleep(400);
    const server = cloud.server(id);
    expect(server.status).toBe('ACTIVE');
    expect(server.activeAt! - server.createdAt).toBe(200);
  });

  test('without end ends when it is told to', async () => {
    await start({ buildSeconds: Infinity });
    const [good, bad] = [await create(), await create()];
    await sleep(600);
    expect(cloud.server(good)).toMatchObject({ status: 'BUILD', taskState: 'spawning' });
    cloud.finishBuild(good);
    cloud.failBuild(bad, { code: 500, message: 'out of luck' });
    expect((await show(good)).status).toBe('ACTIVE');
    expect(await show(bad)).toMatchObject({ status: 'ERROR', fault: { code: 500, message: 'out of luck' } });
    expect(() => cloud.finishBuild(good)).toThrow(/not building/);
  });

  test('without end does not hold its deletion up', async () => {
    await start({ buildSeconds: Infinity });
    const id = await create();
    await sleep(600);
    expect((await nova('DELETE', `/servers/${id}`)).status).toBe(204);
    expect((await nova('GET', `/servers/${id}`)).status).toBe(404);
  });

  test('on the network has an address once it is done', async () => {
    await start({ buildSeconds: Infinity });
    const id = await create({ networks: [{ uuid: cloud.networkId }] });
    expect((await show(id)).addresses).toEqual({});
    cloud.finishBuild(id);
    expect((await show(id)).addresses).toEqual({
      private: [
        {
          version: 4,
          addr: expect.stringMatching(/^10\./),
          'OS-EXT-IPS:type': 'fixed',
          'OS-EXT-IPS-MAC:mac_addr': expect.any(String),
        },
      ],
    });
  });
});

describe('setState', () => {
  test.each([
    ['ACTIVE', { vmState: 'active' }, 1],
    ['ACTIVE', { vmState: 'active', taskState: 'powering-off' }, 1],
    ['BUILD', { vmState: 'building', taskState: 'spawning' }, 0],
    ['DELETED', { vmState: 'deleted' }, 0],
    ['ERROR', { vmState: 'error' }, 0],
    ['HARD_REBOOT', { vmState: 'active', taskState: 'reboot_started_hard' }, 1],
    ['MIGRATING', { vmState: 'paused', taskState: 'migrating' }, 3],
    ['PASSWORD', { vmState: 'active', taskState: 'updating_password' }, 1],
    ['PAUSED', { vmState: 'paused' }, 3],
    ['REBOOT', { vmState: 'active', taskState: 'reboot_pending' }, 1],
    ['REBUILD', { vmState: 'error', taskState: 'rebuild_spawning' }, 0],
    ['RESCUE', { vmState: 'rescued' }, 1],
    ['RESIZE', { vmState: 'stopped', taskState: 'resize_finish' }, 4],
    ['REVERT_RESIZE', { vmState: 'resized', taskState: 'resize_reverting' }, 1],
    ['SHELVED', { vmState: 'shelved' }, 4],
    ['SHELVED_OFFLOADED', { vmState: 'shelved_offloaded' }, 4],
    ['SHUTOFF', { vmState: 'stopped', taskState: 'rebooting_hard' }, 4],
    ['SOFT_DELETED', { vmState: 'soft-delete' }, 4],
    ['SUSPENDED', { vmState: 'suspended' }, 4],
    ['UNKNOWN', { vmState: 'none that Nova knows' }, 0],
    ['VERIFY_RESIZE', { vmState: 'resized', taskState: 'resize_confirming' }, 1],
    ['BUILD(spawning)', { status: 'BUILD(spawning)' }, 0],
    ['NEW_STATUS', { vmState: 'active', status: 'NEW_STATUS' }, 1],
  ])('shows %s for %j', async (status, state, powerState) => {
    await start({ buildSeconds: Infinity });
    const id = await create();
    cloud.setState(id, state);
    expect(await show(id)).toMatchObject({ status, 'OS-EXT-STS:power_state': powerState });
  });

  test('ends what was under way', async () => {
    await start({ buildSeconds: 0.1 });
    const id = await create();
    cloud.setState(id, { vmState: 'building', taskState: 'networking' });
    await sleep(200);
    expect((await show(id))['OS-EXT-STS:task_state']).toBe('networking');
  });

  test('leaves alone what it does not name', async () => {
    await start({ buildSeconds: 0.1 });
    const id = await create({ metadata: { a: 'b' } });
    cloud.setState(id, { locked: true, metadata: { HA_Enabled: 'True' } });
    expect(await show(id)).toMatchObject({ status: 'BUILD', locked: true, metadata: { HA_Enabled: 'True' } });
    await sleep(150);
    expect(await show(id)).toMatchObject({ status: 'ACTIVE', locked: true });
  });

  test('can take its cell down: little is shown from 2.69 on, nothing before', async () => {
    await start();
    const id = await create({ tags: ['lost'] });
    cloud.setState(id, { downCell: true });
    const server = await show(id);
    expect(server).toMatchObject({ id, status: 'UNKNOWN', 'OS-EXT-STS:power_state': 0 });
    expect(server).not.toHaveProperty('OS-EXT-STS:vm_state');
    expect(server).not.toHaveProperty('name');
    expect((await nova('GET', `/servers/${id}`, undefined, { version: '2.68' })).status).toBe(500);
    expect((await nova('GET', '/servers/detail')).body.servers).toEqual([
      expect.objectContaining({ id, status: 'UNKNOWN' }),
    ]);
    expect((await nova('GET', '/servers?tags=lost')).body.servers).toEqual([]);
    cloud.setState(id, { downCell: false });
    expect((await show(id)).status).toBe('ACTIVE');
  });
});

describe('an operator', () => {
  test('acts by the rules of the API', async () => {
    await start();
    const id = await create();
    cloud.action(id, { 'os-stop': null });
    expect(cloud.server(id)).toMatchObject({ status: 'SHUTOFF' });
    expect(cloud.server(id).actions.at(-1)).toMatchObject({ action: 'stop', userId: cloud.userId('admin') });
    expect(() => cloud.action(id, { 'os-stop': null })).toThrow(
      `Cannot 'stop' instance ${id} while it is in vm_state stopped`,
    );
    expect(() => cloud.action(id, { 'os-resetState': { state: 'active' } }, 'demo')).toThrow(/Policy doesn't allow/);
    cloud.delete(id);
    expect((await nova('GET', `/servers/${id}`)).status).toBe(404);
  });

  test('can have a server vanish', async () => {
    await start();
    const id = await create({ tags: ['a'] });
    cloud.forget(id);
    expect((await nova('GET', `/servers/${id}`)).status).toBe(404);
    expect((await nova('GET', '/servers?tags=a')).body.servers).toEqual([]);
    expect(cloud.servers({ deleted: true })).toEqual([]);
    expect(() => cloud.server(id)).toThrow(/no server/);
  });

  test('has the next stops of a server fail on the host', async () => {
    await start();
    const id = await create();
    cloud.failAction(id, 'os-stop');
    expect(await act(id, { 'os-stop': null })).toBe(202);
    expect(cloud.server(id)).toMatchObject({ status: 'ACTIVE', taskState: null, fault: null });
    expect(cloud.server(id).actions.at(-1)).toMatchObject({ action: 'stop', message: 'Error' });
    expect(await act(id, { 'os-stop': null })).toBe(202);
    expect(cloud.server(id).status).toBe('SHUTOFF');
  });

  test('evacuates once the host is marked as down', async () => {
    await start({ actionSeconds: 0.1 });
    const id = await create();
    const { host } = cloud.server(id);
    expect(await act(id, { evacuate: {} }, 'admin')).toBe(400);
    const { services } = (await nova('GET', '/os-services', undefined, { user: 'admin' })).body;
    const service = services.find((one: { host: string }) => one.host === host);
    await nova('PUT', `/os-services/${service.id}`, { forced_down: true }, { user: 'admin' });
    expect(await act(id, { evacuate: {} }, 'admin')).toBe(200);
    expect(cloud.server(id)).toMatchObject({ status: 'REBUILD', host });
    await sleep(120);
    expect(cloud.server(id).status).toBe('ACTIVE');
    expect(cloud.server(id).host).not.toBe(host);
  });
});

describe('a guest that crashes', () => {
  test.each([
    ['active', 'SHUTOFF', 4],
    ['paused', 'SHUTOFF', 4],
    ['rescued', 'RESCUE', 4],
    ['resized', 'VERIFY_RESIZE', 4],
    ['suspended', 'SUSPENDED', 4],
    ['error', 'ERROR', 4],
    ['stopped', 'SHUTOFF', 4],
  ])('of an instance that is %s ends as %s, at the power sync', async (vmState, status, powerState) => {
    await start();
    const id = await create();
    cloud.setState(id, { vmState });
    const before = cloud.server(id);
    cloud.crash(id);
    expect(cloud.server(id)).toMatchObject({ status: before.status, powerState: before.powerState });
    cloud.runPowerSync();
    expect(cloud.server(id)).toMatchObject({ status, powerState, taskState: null });
  });

  test('is stopped by Nova itself, which is no user', async () => {
    await start({ powerSyncSeconds: 0 });
    const id = await create();
    cloud.crash(id);
    expect(await show(id)).toMatchObject({ status: 'SHUTOFF' });
    const { instanceActions } = (await nova('GET', `/servers/${id}/os-instance-actions`)).body;
    expect(instanceActions[0]).toMatchObject({
      action: 'stop',
      user_id: null,
      project_id: null,
      request_id: expect.stringMatching(/^req-/),
    });
  });

  test('is noticed in its time, and not while a task runs', async () => {
    await start({ powerSyncSeconds: 0.2, actionSeconds: 0.3 });
    const [idle, busy] = [await create(), await create()];
    cloud.crash(idle);
    cloud.crash(busy);
    expect(await act(busy, { pause: null })).toBe(202);
    await sleep(250);
    expect(cloud.server(idle)).toMatchObject({ status: 'ACTIVE', taskState: 'powering-off', powerState: 4 });
    expect(cloud.server(busy)).toMatchObject({ taskState: 'pausing', powerState: 1 });
  });
});

describe('as it was set up', () => {
  test('with a reclaim interval a deleted server can be restored for a while', async () => {
    await start({ reclaimInstanceInterval: 0.3 });
    const [kept, lost] = [await create(), await create()];
    for (const id of [kept, lost]) expect((await nova('DELETE', `/servers/${id}`)).status).toBe(204);
    expect((await show(kept)).status).toBe('SOFT_DELETED');
    expect(await act(kept, { restore: null })).toBe(202);
    await sleep(350);
    expect((await show(kept)).status).toBe('ACTIVE');
    expect((await nova('GET', `/servers/${lost}`)).status).toBe(404);
    expect(await act(kept, { forceDelete: null })).toBe(202);
    expect((await nova('GET', `/servers/${kept}`)).status).toBe(404);
  });

  test('without offload time servers stay SHELVED, until they are offloaded', async () => {
    await start({ shelvedOffloadTime: -1 });
    const id = await create();
    expect(await act(id, { shelve: null })).toBe(202);
    expect((await show(id)).status).toBe('SHELVED');
    expect(await act(id, { shelveOffload: null })).toBe(403);
    expect(await act(id, { shelveOffload: null }, 'admin')).toBe(202);
    expect(cloud.server(id)).toMatchObject({ status: 'SHELVED_OFFLOADED', host: null });
  });

  test('a quota counts per project, and can be lifted', async () => {
    await start({ quotaInstances: 1 });
    await create();
    const server = { name: 'two', flavorRef: '1', imageRef: cloud.imageId, networks: 'none' };
    expect((await nova('POST', '/servers', { server })).status).toBe(403);
    expect((await nova('POST', '/servers', { server }, { user: 'admin' })).status).toBe(202);
    cloud.setQuota(undefined);
    expect((await nova('POST', '/servers', { server })).status).toBe(202);
  });

  test('an older cloud knows its own microversions only', async () => {
    await start({ maxVersion: '2.60' });
    expect((await nova('GET', '/servers', undefined, { version: '2.61' })).body.computeFault.message).toBe(
      'Version 2.61 is not supported by the API. Minimum is 2.1 and maximum is 2.60.',
    );
  });
});

describe('the versions of Glance and Neutron', () => {
  test.each([
    ['/image', 'images'],
    ['/network', 'networks'],
  ])('lead to %s, where openstacksdk goes on from', async (service, collection) => {
    await start();
    const { versions } = (await (await fetch(cloud.url + service)).json()) as {
      versions: { links: { href: string }[] }[];
    };
    const token = (await login('demo')).headers.get('x-subject-token')!;
    const list = await fetch(new URL(collection, versions[0]?.links[0]?.href), { headers: { 'X-Auth-Token': token } });
    expect([list.status, Object.keys((await list.json()) as object)]).toEqual([
      200,
      expect.arrayContaining([collection]),
    ]);
  });
});

describe('a fault', () => {
  test('answers in place of Nova, as often as asked', async () => {
    await start();
    const fault = cloud.inject({
      method: 'GET',
      path: /^\/compute\/v2\.1\/servers$/,
      times: 2,
      answer: { status: 503 },
    });
    expect((await nova('GET', '/flavors')).status).toBe(200);
    expect((await nova('GET', '/servers')).status).toBe(503);
    expect(fault).toMatchObject({ remaining: 1, hits: 1 });
    expect((await nova('GET', '/servers')).status).toBe(503);
    expect((await nova('GET', '/servers')).status).toBe(200);
  });

  test('has headers and a body that is JSON or not', async () => {
    await start();
    await nova('GET', '/servers');
    cloud.inject({ answer: { status: 429, headers: { 'Retry-After': '3' }, body: { overLimit: { code: 429 } } } });
    cloud.inject({
      answer: { status: 502, headers: { 'Content-Type': 'text/html' }, body: '<html>Bad Gateway</html>' },
    });
    const headers = { 'X-Auth-Token': tokens.get('demo')! };
    const limited = await fetch(`${cloud.computeUrl}/servers`, { headers });
    expect(limited.headers.get('retry-after')).toBe('3');
    expect(await limited.json()).toEqual({ overLimit: { code: 429 } });
    const gateway = await fetch(`${cloud.computeUrl}/servers`, { headers });
    expect([gateway.headers.get('content-type'), await gateway.text()]).toEqual([
      'text/html',
      '<html>Bad Gateway</html>',
    ]);
  });

  test('loses the answer of a request that was carried out', async () => {
    await start();
    await nova('GET', '/servers');
    cloud.inject({ method: 'POST', carriedOut: true, answer: { status: 504 } });
    const server = { name: 'one', flavorRef: '1', imageRef: cloud.imageId, networks: 'none' };
    expect((await nova('POST', '/servers', { server })).status).toBe(504);
    expect(cloud.servers()).toHaveLength(1);
    cloud.inject({ method: 'POST', carriedOut: true, reset: true });
    await expect(nova('POST', '/servers', { server })).rejects.toThrow();
    expect(cloud.servers()).toHaveLength(2);
  });

  test('that is not carried out does nothing', async () => {
    await start();
    await nova('GET', '/servers');
    cloud.inject({ method: 'POST', reset: true });
    await expect(nova('POST', '/servers', { server: {} })).rejects.toThrow();
    expect(cloud.requests.at(-1)).toMatchObject({ method: 'POST', status: 'reset' });
    expect(cloud.servers()).toEqual([]);
  });

  test('hangs until the cloud stops', async () => {
    await start();
    await nova('GET', '/servers');
    cloud.inject({ hang: true });
    const hanging = nova('GET', '/servers');
    const outcome = expect(hanging).rejects.toThrow();
    await sleep(100);
    expect(cloud.requests.at(-1)).toMatchObject({ status: 'hang' });
    await cloud.stop();
    await outcome;
  });

  test('delays', async () => {
    await start();
    await nova('GET', '/servers');
    cloud.inject({ delaySeconds: 0.2 });
    const before = Date.now();
    expect((await nova('GET', '/servers')).status).toBe(200);
    expect(Date.now() - before).toBeGreaterThanOrEqual(190);
  });

  test('is chosen by service and by body, and can be taken back', async () => {
    await start();
    cloud.inject({ service: 'identity', answer: { status: 500 } });
    expect((await login('demo')).status).toBe(500);
    expect((await login('demo')).status).toBe(201);
    const fault = cloud.inject({
      match: ({ body }) => body.includes('os-stop'),
      times: Infinity,
      answer: { status: 500 },
    });
    const id = await create();
    expect(await act(id, { 'os-stop': null })).toBe(500);
    expect(await act(id, { pause: null })).toBe(202);
    fault.remove();
    expect(await act(id, { unpause: null })).toBe(202);
    expect(await act(id, { 'os-stop': null })).toBe(202);
  });

  test('of some probability hits some', async () => {
    await start();
    await nova('GET', '/servers');
    const fault = cloud.inject({ probability: 0.5, times: Infinity, answer: { status: 500 } });
    for (let i = 0; i < 50; i++) await nova('GET', '/servers');
    expect(fault.hits).toBeGreaterThan(5);
    expect(fault.hits).toBeLessThan(45);
  });
});

describe('its record of requests', () => {
  test('names method, service, path and outcome, and can be cleared', async () => {
    await start();
    await nova('GET', '/servers?limit=1');
    expect(cloud.requests).toMatchObject([
      { method: 'POST', service: 'identity', path: '/identity/v3/auth/tokens', status: 201, at: expect.any(Number) },
      { method: 'GET', service: 'compute', path: '/compute/v2.1/servers?limit=1', status: 200 },
    ]);
    cloud.clearRequests();
    expect(cloud.requests).toEqual([]);
    expect(cloud.requestsReceived).toBe(2);
  });
});

describe('a token', () => {
  test.each([
    ['expired', () => cloud.expireTokens()],
    ['revoked', () => cloud.revokeTokens()],
  ])('that was %s is 401, and a new one is good', async (_, spoil) => {
    await start();
    expect((await nova('GET', '/servers')).status).toBe(200);
    spoil();
    expect((await nova('GET', '/servers')).status).toBe(401);
    tokens.clear();
    expect((await nova('GET', '/servers')).status).toBe(200);
  });

  test('lives as long as set', async () => {
    await start({ tokenSeconds: 0.2 });
    expect((await nova('GET', '/servers')).status).toBe(200);
    await sleep(250);
    expect((await nova('GET', '/servers')).status).toBe(401);
  });

  test('is not given for a password that was changed', async () => {
    await start();
    const { OS_PASSWORD: old } = cloud.env('demo');
    cloud.setPassword('demo', 'another');
    const auth = {
      identity: {
        methods: ['password'],
        password: { user: { name: 'demo', domain: { id: 'default' }, password: old } },
      },
    };
    const answer = await fetch(`${cloud.authUrl}/auth/tokens`, { method: 'POST', body: JSON.stringify({ auth }) });
    expect(answer.status).toBe(401);
    expect((await login('demo')).status).toBe(201);
  });

  test('brings a catalog whose endpoints are in no order', async () => {
    await start();
    const orders = new Set<string>();
    for (let i = 0; i < 30; i++) {
      const { token } = (await (await login('demo')).json()) as {
        token: { catalog: { type: string; endpoints: { interface: string }[] }[] };
      };
      const compute = token.catalog.find((entry) => entry.type === 'compute')!;
      orders.add(compute.endpoints.map((endpoint) => endpoint.interface).join());
    }
    expect(orders.size).toBeGreaterThan(1);
  });
});

test('goes away and comes back on the same port, with all that it held', async () => {
  await start();
  const id = await create();
  const { url } = cloud;
  await cloud.goAway();
  await expect(nova('GET', `/servers/${id}`)).rejects.toThrow();
  await cloud.comeBack();
  expect(cloud.url).toBe(url);
  expect((await show(id)).status).toBe('ACTIVE');
});
