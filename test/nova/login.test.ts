import type { ComputeClient } from '../../src/nova';
import { createComputeClient, loadCloudConfig } from '../../src/nova';
import { SimulatedCloud } from '../../src/simulator';
import { failureOf } from './support/failure';
import type { Script } from './support/scripted-cloud';
import { endpoint, json, ScriptedCloud } from './support/scripted-cloud';

const clients: ComputeClient[] = [];
function clientFor(env: Record<string, string>, timeoutMs = 5_000): ComputeClient {
  const client = createComputeClient(loadCloudConfig(env), { timeoutMs });
  clients.push(client);
  return client;
}
afterEach(() => {
  for (const client of clients.splice(0)) client.close();
});

describe('against the simulated cloud', () => {
  let cloud: SimulatedCloud;
  beforeAll(async () => (cloud = await SimulatedCloud.start()));
  afterAll(() => cloud.stop());
  beforeEach(() => {
    cloud.clearRequests();
    cloud.clearFaults();
  });
  const logins = () => cloud.requests.filter(({ method, path }) => method === 'POST' && /auth\/tokens$/.test(path));

  test.each(['password', 'v3password', undefined])('logs in by password (OS_AUTH_TYPE %s)', async (type) => {
    const client = clientFor({ ...cloud.env(), ...(type && { OS_AUTH_TYPE: type }) });
    await expect(client.ownUserId()).resolves.toBe(cloud.userId('demo'));
    await expect(client.check()).resolves.toBeUndefined();
  });

  test("logs in by the ids of a user and a project, without their domains' names", async () => {
    const env = cloud.env();
    const admin = clientFor(cloud.env('admin'));
    await admin.check();
    const client = clientFor({
      OS_AUTH_URL: env.OS_AUTH_URL ?? '',
      OS_PASSWORD: env.OS_PASSWORD ?? '',
      OS_USER_ID: cloud.userId('demo'),
      OS_PROJECT_NAME: 'demo',
      OS_PROJECT_DOMAIN_ID: 'default',
    });
    await expect(client.ownUserId()).resolves.toBe(cloud.userId('demo'));
  });

  test('logs in by application credential, by id and by name, without a scope', async () => {
    const { id, name, secret } = cloud.createApplicationCredential('demo', 'worker');
    // The project in the environment is the one of an openrc file that was sourced before: it is not asked for.
    const env = { ...cloud.env(), OS_AUTH_TYPE: 'v3applicationcredential', OS_APPLICATION_CREDENTIAL_SECRET: secret };
    for (const [by, value] of [
      ['ID', id],
      ['NAME', name],
    ]) {
      const client = clientFor({ ...env, [`OS_APPLICATION_CREDENTIAL_${by}`]: value ?? '' });
      await expect(client.ownUserId()).resolves.toBe(cloud.userId('demo'));
    }
  });

  test.each(['token', 'v3token'])('logs in by token (OS_AUTH_TYPE %s)', async (type) => {
    const client = clientFor({
      ...cloud.env(),
      OS_USERNAME: '',
      OS_PASSWORD: '',
      OS_AUTH_TYPE: type,
      OS_TOKEN: await tokenOf(cloud),
    });
    await expect(client.ownUserId()).resolves.toBe(cloud.userId('demo'));
    await expect(client.listServers({})).resolves.toEqual([]);
  });

  test.each<[string, Record<string, string>]>([
    ['a wrong password', { OS_PASSWORD: 'wrong-secret' }],
    ['an unknown user', { OS_USERNAME: 'nobody' }],
    ['a project without a role', { OS_PROJECT_NAME: 'admin' }],
    [
      'an application credential that is gone',
      {
        OS_AUTH_TYPE: 'v3applicationcredential',
        OS_APPLICATION_CREDENTIAL_ID: 'gone',
        OS_APPLICATION_CREDENTIAL_SECRET: 'wrong-secret',
      },
    ],
    ['a token that is no more', { OS_AUTH_TYPE: 'v3token', OS_TOKEN: 'wrong-secret' }],
  ])('%s is Unauthorized', async (_, env) => {
    const error = await failureOf(clientFor({ ...cloud.env(), ...env }).check());
    expect(error).toMatchObject({ kind: 'Unauthorized', details: { outcomeUnknown: false } });
    expect(error.message).toMatch(/^Keystone answered POST \/v3\/auth\/tokens with 40[14]: .*the login was refused/);
    expect(error.message).not.toContain('wrong-secret');
  });

  test.each(['/v3', '/v3/', '', '/', '///'])('the address of Keystone may end in %j', async (end) => {
    const root = cloud.authUrl.replace(/\/v3$/, '');
    await expect(clientFor({ ...cloud.env(), OS_AUTH_URL: root + end }).check()).resolves.toBeUndefined();
  });

  test('one login serves all calls', async () => {
    const client = clientFor(cloud.env());
    await Promise.all(Array.from({ length: 20 }, () => client.listServers({})));
    await client.listFlavors();
    expect(logins()).toHaveLength(1);
  });

  test('50 requests that meet a 401 together make one token request, and all succeed', async () => {
    const client = clientFor(cloud.env());
    await client.check();
    cloud.clearRequests();
    cloud.expireTokens();
    await Promise.all(Array.from({ length: 50 }, () => client.listServers({})));
    expect(cloud.requests.filter(({ status }) => status === 401)).toHaveLength(50);
    expect(logins()).toHaveLength(1);
  });

  test('a token that Nova refuses although it is fresh makes two requests and one login, and is Unauthorized', async () => {
    const client = clientFor(cloud.env());
    await client.check();
    cloud.clearRequests();
    cloud.inject({ service: 'compute', times: Infinity, answer: { status: 401, body: 'Authentication required' } });
    await expect(failureOf(client.getServer('x'))).resolves.toMatchObject({
      kind: 'Unauthorized',
      message: "Nova answered GET /servers/x with 401 Unauthorized (an answer that is not Nova's JSON)",
    });
    expect(cloud.requests.map(({ service }) => service)).toEqual(['compute', 'identity', 'compute']);
    cloud.clearFaults();
    await expect(client.listServers({})).resolves.toEqual([]);
  });

  test('a creation that met a 401 is sent once more, and makes one server', async () => {
    const client = clientFor(cloud.env());
    await client.check();
    cloud.revokeTokens();
    await client.createServer(
      { name: 'a', flavorRef: cloud.flavorId, imageRef: cloud.imageId, networks: 'none' },
      { tags: [] },
    );
    expect(cloud.servers()).toHaveLength(1);
  });
});

describe('against a scripted Keystone', () => {
  let cloud: ScriptedCloud;
  beforeEach(async () => {
    cloud = await ScriptedCloud.start();
    cloud.nova = (_, response) => json(response, 200, { servers: [] });
  });
  afterEach(() => ScriptedCloud.stopAll());

  test('a slow 401 for a token that was replaced meanwhile starts no login', async () => {
    const client = clientFor(cloud.env());
    await client.check();
    let slow: (() => void) | undefined;
    cloud.nova = ({ path, headers }, response) => {
      if (headers['x-auth-token'] !== 'token-1') return json(response, 200, { servers: [] });
      const refuse = () => json(response, 401, { error: { message: 'no' } });
      if (path.includes('slow')) slow = refuse;
      else refuse();
    };
    const slowCall = client.listServers({ name: 'slow' });
    await client.listServers({});
    expect(cloud.logins).toBe(2);
    slow?.();
    await expect(slowCall).resolves.toEqual([]);
    expect(cloud.logins).toBe(2);
  });

  test('a token is replaced before it ends: a minute before, or a tenth of a short life', async () => {
    cloud.tokenSeconds = 1;
    const client = clientFor(cloud.env());
    await client.check();
    await client.listServers({});
    expect(cloud.logins).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 920));
    await client.listServers({});
    expect(cloud.logins).toBe(2);

    jest.useFakeTimers({
      doNotFake: ['setTimeout', 'setInterval', 'setImmediate', 'nextTick', 'queueMicrotask', 'performance'],
    });
    try {
      cloud.tokenSeconds = 3600;
      const other = clientFor(cloud.env());
      await other.check();
      const before = cloud.logins;
      jest.setSystemTime(Date.now() + 3_539_000);
      await other.listServers({});
      expect(cloud.logins).toBe(before);
      jest.setSystemTime(Date.now() + 2_000);
      await other.listServers({});
      expect(cloud.logins).toBe(before + 1);
    } finally {
      jest.useRealTimers();
    }
  });

  test("the clocks need not agree: a token's life is counted on Keystone's", async () => {
    const now = Date.now() - 86_400_000;
    cloud.keystone = (_, response) => {
      const times = { issued_at: new Date(now).toISOString(), expires_at: new Date(now + 3_600_000).toISOString() };
      json(response, 201, { token: { ...cloud.token(), ...times } }, { 'X-Subject-Token': `token-${++cloud.logins}` });
    };
    const client = clientFor(cloud.env());
    await client.listServers({});
    await client.listServers({});
    expect(cloud.logins).toBe(1);
  });

  test('while Keystone is down, a token is used to its end', async () => {
    cloud.tokenSeconds = 2;
    const client = clientFor(cloud.env());
    await client.check();
    cloud.keystone = (_, response) => json(response, 503, {});
    await new Promise((resolve) => setTimeout(resolve, 1_850));
    await expect(client.listServers({})).resolves.toEqual([]);
    await new Promise((resolve) => setTimeout(resolve, 250));
    await expect(failureOf(client.listServers({}))).resolves.toMatchObject({ kind: 'Unavailable' });
  });

  test('a login that worked and is refused now: Unavailable for 30 s, and Keystone is asked seldom', async () => {
    jest.useFakeTimers({
      doNotFake: ['setTimeout', 'setInterval', 'setImmediate', 'nextTick', 'queueMicrotask', 'performance'],
    });
    try {
      const client = clientFor(cloud.env());
      await client.check();
      cloud.nova = (_, response) => json(response, 401, {});
      const ofOld = cloud.keystone;
      let asked = 0;
      cloud.keystone = (_, response) => {
        asked++;
        json(response, 401, { error: { message: 'The request you have made requires authentication.' } });
      };
      const kinds: string[] = [];
      for (let second = 0; second < 60; second++) {
        kinds.push((await failureOf(client.listServers({}))).kind);
        jest.setSystemTime(Date.now() + 1_000);
      }
      expect(kinds).toEqual([...Array(30).fill('Unavailable'), ...Array(30).fill('Unauthorized')]);
      expect(asked).toBe(4); // at 0, 5, 15 and 35 s

      // the password is changed back
      cloud.keystone = ofOld;
      cloud.nova = (_, response) => json(response, 200, { servers: [] });
      jest.setSystemTime(Date.now() + 60_000);
      await expect(client.listServers({})).resolves.toEqual([]);
    } finally {
      jest.useRealTimers();
    }
  });

  test('a login that never worked is Unauthorized at once', async () => {
    cloud.keystone = (_, response) => json(response, 401, {});
    await expect(failureOf(clientFor(cloud.env()).listServers({}))).resolves.toMatchObject({ kind: 'Unauthorized' });
  });

  test('a creation whose token could not be replaced was not sent', async () => {
    const client = clientFor(cloud.env());
    await client.check();
    cloud.nova = (_, response) => json(response, 401, {});
    cloud.keystone = (_, __, socket) => void socket.resetAndDestroy();
    const error = await failureOf(client.createServer({ name: 'a', flavorRef: '1' }, { tags: [] }));
    expect(error).toMatchObject({ kind: 'Unavailable', details: { outcomeUnknown: false } });
  });

  test("one waiter's abort ends its own waiting, not the login of the others", async () => {
    const answer = cloud.keystone;
    cloud.keystone = async (request, response, socket) => {
      await new Promise((resolve) => setTimeout(resolve, 200));
      await answer(request, response, socket);
    };
    const client = clientFor(cloud.env());
    const reason = new Error('cancelled');
    const controller = new AbortController();
    const first = client.listServers({}, { signal: controller.signal });
    const second = client.listServers({});
    setTimeout(() => controller.abort(reason), 50);
    await expect(first).rejects.toBe(reason);
    expect(cloud.logins).toBe(0);
    await expect(second).resolves.toEqual([]);
    expect(cloud.logins).toBe(1);
  });

  test('a failed login is shared by all who wait, and by those of the next half second; then it is tried anew', async () => {
    const answer = cloud.keystone;
    let tries = 0;
    cloud.keystone = (_, response) => {
      tries++;
      json(response, 500, { error: { code: 500, message: 'An unexpected error prevented the server.' } });
    };
    const client = clientFor(cloud.env());
    const errors = await Promise.all(Array.from({ length: 10 }, () => failureOf(client.listServers({}))));
    expect(new Set(errors.map(({ kind }) => kind))).toEqual(new Set(['Unavailable']));
    await expect(failureOf(client.listServers({}))).resolves.toMatchObject({ kind: 'Unavailable' });
    expect(tries).toBe(1);
    cloud.keystone = answer;
    await new Promise((resolve) => setTimeout(resolve, 510));
    await expect(client.listServers({})).resolves.toEqual([]);
  });

  test.each<[string, Script, object, RegExp]>([
    ['403', (_, r) => json(r, 403, { error: { message: 'disabled' } }), { kind: 'Unauthorized' }, /403: disabled/],
    [
      '400',
      (_, r) => json(r, 400, { error: { message: 'bad' } }),
      { kind: 'Configuration' },
      /400: bad .*OS_AUTH_URL is http/,
    ],
    [
      'a wrong address',
      (_, r) => void r.writeHead(404).end('<html>'),
      { kind: 'Configuration' },
      /404 Not Found .*OS_AUTH_URL/,
    ],
    ["Nova's address", (_, r) => json(r, 300, { choices: [] }), { kind: 'Configuration' }, /300 Multiple Choices/],
    [
      'a redirect for good',
      (_, r) => void r.writeHead(301, { Location: 'https://k/' }).end(),
      { kind: 'Configuration' },
      /to https:\/\/k\//,
    ],
    ['a redirect for now', (_, r) => void r.writeHead(302).end(), { kind: 'Unavailable' }, /302/],
    [
      '429',
      (_, r) => void r.writeHead(429, { 'Retry-After': '4' }).end(),
      { kind: 'Unavailable', details: { retryAfterMs: 4000 } },
      /429/,
    ],
    ['500', (_, r) => json(r, 500, {}), { kind: 'Unavailable' }, /500/],
    [
      '502 with HTML',
      (_, r) => void r.writeHead(502).end('<html>'),
      { kind: 'Unavailable' },
      /that is not Keystone's JSON/,
    ],
    ['a reset', (_, __, socket) => void socket.resetAndDestroy(), { kind: 'Unavailable' }, /ECONNRESET/],
    ['silence', () => undefined, { kind: 'Unavailable' }, /has not answered POST \/v3\/auth\/tokens/],
    ['a token without its header', (_, r) => json(r, 201, { token: {} }), { kind: 'Unavailable' }, /without a token/],
    [
      '201 with an HTML page',
      (_, r) => void r.writeHead(201).end('<html>'),
      { kind: 'Unavailable' },
      /not Keystone's JSON/,
    ],
    [
      'a token of no project',
      (_, r) => json(r, 201, { token: { user: { id: 'u' } } }, { 'X-Subject-Token': 't' }),
      { kind: 'Configuration' },
      /without a project: set OS_PROJECT_NAME/,
    ],
  ])('Keystone answers %s', async (_, script, expected, message) => {
    cloud.keystone = script;
    // A creation: whatever the login ends in, Nova was not asked for a server.
    const call = clientFor(cloud.env(), 300).createServer({ name: 'a', flavorRef: '1' }, { tags: [] });
    const error = await failureOf(call);
    expect(error).toMatchObject({ ...expected });
    expect(error.details.outcomeUnknown ?? false).toBe(false);
    expect(error.message).toMatch(message);
    expect(error.message).not.toContain('the-password');
    expect(cloud.of('/v2.1')).toEqual([]);
  });

  test.each<[string, Record<string, string>, string]>([
    ['the first of the service', {}, '/one/servers/detail'],
    ['the region', { OS_REGION_NAME: 'RegionTwo' }, '/two/servers/detail'],
    ['the interface', { OS_INTERFACE: 'internal' }, '/three/servers/detail'],
    ['the interface by its old name', { OS_INTERFACE: 'internalURL' }, '/three/servers/detail'],
  ])('the endpoint is chosen by %s', async (_, env, path) => {
    cloud.endpoints = [
      endpoint(`${cloud.url}/v2.1/one/`),
      endpoint(`${cloud.url}/v2.1/two`, { region_id: 'RegionTwo' }),
      endpoint(`${cloud.url}/v2.1/three`, { interface: 'internal' }),
    ];
    await clientFor(cloud.env(env)).listServers({});
    expect(cloud.requests.at(-1)?.path).toBe(`/v2.1${path}`);
    expect(cloud.of('/v2.1')[0]?.path).toBe('/v2.1/');
  });

  test.each<[string, Record<string, string>]>([
    ["in region 'Nowhere' (it has public in RegionOne)", { OS_REGION_NAME: 'Nowhere' }],
    ['(it has public in RegionOne)', { OS_INTERFACE: 'admin' }],
  ])('an endpoint that the catalog lacks is a matter of configuration: %s', async (what, env) => {
    const error = await failureOf(clientFor(cloud.env(env)).check());
    expect(error.kind).toBe('Configuration');
    expect(error.message).toContain(what);
  });

  test('a catalog of odd things is read as far as it goes', async () => {
    cloud.endpoints = [7, null, { interface: 'public' }, { interface: 'public', url: 'ftp://x' }] as never;
    await expect(failureOf(clientFor(cloud.env()).check())).resolves.toMatchObject({
      kind: 'Configuration',
      message: "the catalog's public endpoint of service 'compute' is not a URL",
    });
  });

  test.each<[string, string]>([
    ['/v2.1', '/v2.1/servers/detail'],
    ['/v2.1/', '/v2.1/servers/detail'],
    ['/v2.1/0123abcd', '/v2.1/0123abcd/servers/detail'],
    ['/compute/v2.1/0123abcd/', '/compute/v2.1/0123abcd/servers/detail'],
    ['/v2/0123abcd', '/v2.1/0123abcd/servers/detail'],
    ['/compute', '/compute/v2.1/servers/detail'],
    ['', '/v2.1/servers/detail'],
    ['/v2.1/%(project_id)s', '/v2.1/project-id/servers/detail'],
  ])('OS_COMPUTE_ENDPOINT_OVERRIDE may end in %j', async (end, path) => {
    await clientFor(cloud.env({ OS_COMPUTE_ENDPOINT_OVERRIDE: cloud.url + end })).listServers({});
    expect(cloud.requests.at(-1)?.path).toBe(path);
    expect(cloud.requests.at(-2)?.path).toMatch(/\/v2\.1\/$/);
  });
});

async function tokenOf(cloud: SimulatedCloud): Promise<string> {
  const domain = { name: 'Default' };
  const user = { name: 'demo', domain, password: cloud.env().OS_PASSWORD };
  const identity = { methods: ['password'], password: { user } };
  const answer = await fetch(`${cloud.authUrl}/auth/tokens`, {
    method: 'POST',
    body: JSON.stringify({ auth: { identity, scope: { project: { name: 'demo', domain } } } }),
  });
  return answer.headers.get('X-Subject-Token') ?? '';
}
