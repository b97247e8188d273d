/** Keystone: logins, tokens, the catalog. */
import { CloudUnderTest, Session } from './cloud-under-test';

let cloud: CloudUnderTest;

beforeAll(async () => {
  cloud = await CloudUnderTest.open();
});
afterAll(async () => cloud?.close());

async function login(auth: object) {
  return cloud.owner.request('POST', `${cloud.authUrl}/auth/tokens`, { auth });
}

const byPassword = (password: string, more: object = {}) => {
  const { name, userDomain } = cloud.owner.login;
  return {
    identity: { methods: ['password'], password: { user: { name, domain: { name: userDomain }, password } } },
    ...more,
  };
};

const REFUSED = { code: 401, message: 'The request you have made requires authentication.', title: 'Unauthorized' };

test('a password gives a token with roles and catalog', async () => {
  const { body, token } = await Session.open(cloud.http, cloud.authUrl, cloud.owner.login);
  expect(token.length).toBeGreaterThan(20);
  expect(body).toMatchObject({
    methods: ['password'],
    user: { id: cloud.owner.userId, name: cloud.owner.login.name },
    project: { id: cloud.owner.projectId, name: cloud.owner.login.project },
    is_domain: false,
    expires_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/),
    issued_at: expect.stringMatching(/Z$/),
  });
  expect(Date.parse(body.expires_at)).toBeGreaterThan(Date.now());
  const compute = body.catalog.find((entry: { type: string }) => entry.type === 'compute');
  const sides = compute.endpoints.map((endpoint: { interface: string }) => endpoint.interface).sort();
  expect(sides).toContain('public');
  for (const endpoint of compute.endpoints) {
    expect(endpoint).toEqual({
      id: expect.any(String),
      interface: expect.any(String),
      region: expect.any(String),
      region_id: expect.any(String),
      url: expect.stringMatching(/\/v2\.1$/),
    });
  }
});

test('without a scope the token has no project, roles or catalog', async () => {
  const { status, body } = await login(byPassword(cloud.owner.login.password));
  expect(status).toBe(201);
  expect(Object.keys(body.token).sort()).toEqual(['audit_ids', 'expires_at', 'issued_at', 'methods', 'user']);
});

test('a wrong password is 401, with nothing said about it', async () => {
  const answer = await login(byPassword('not-the-password'));
  expect(answer).toMatchObject({ status: 401, body: { error: REFUSED } });
  expect(answer.headers['www-authenticate']).toMatch(/^Keystone uri="/);
});

test('a project that the user has no role on is 401', async () => {
  const scope = { project: { name: 'no-such-project', domain: { name: 'Default' } } };
  expect(await login(byPassword(cloud.owner.login.password, { scope }))).toMatchObject({
    status: 401,
    body: { error: REFUSED },
  });
});

test('a token buys another one, that lives no longer', async () => {
  const old = await Session.open(cloud.http, cloud.authUrl, cloud.owner.login);
  const auth = {
    identity: { methods: ['token'], token: { id: old.token } },
    scope: { project: { id: cloud.owner.projectId } },
  };
  const { status, headers, body } = await login(auth);
  expect(status).toBe(201);
  expect(headers['x-subject-token']).toBeDefined();
  expect(body.token.expires_at).toBe(old.body.expires_at);
  expect([...body.token.methods].sort()).toEqual(['password', 'token']); // Keystone keeps them in a set
});

test('a token that is none: 404', async () => {
  expect((await login({ identity: { methods: ['token'], token: { id: 'none' } } })).status).toBe(404);
});

test('a body that is no login: 400', async () => {
  const url = `${cloud.authUrl}/auth/tokens`;
  expect((await cloud.owner.request('POST', url, '{')).body.error).toMatchObject({ code: 400, title: 'Bad Request' });
  expect((await cloud.owner.request('POST', url, {})).body.error.message).toMatch(
    /^Expecting to find auth in request body\./,
  );
});

test('an application credential logs in by id and secret, and may not ask for a scope', async () => {
  const path = `${cloud.authUrl}/users/${cloud.owner.userId}/application_credentials`;
  const made = await cloud.owner.request('POST', path, { application_credential: { name: cloud.runTag } });
  expect(made.status).toBe(201);
  const { id, secret } = made.body.application_credential as { id: string; secret: string };
  try {
    const auth = { identity: { methods: ['application_credential'], application_credential: { id, secret } } };
    const good = await login(auth);
    expect(good.status).toBe(201);
    expect(good.body.token).toMatchObject({
      methods: ['application_credential'],
      project: { id: cloud.owner.projectId },
      application_credential: { id, name: cloud.runTag, restricted: true },
    });
    expect(good.body.token.catalog.length).toBeGreaterThan(0);

    const scoped = await login({ ...auth, scope: { project: { id: cloud.owner.projectId } } });
    expect(scoped.status).toBe(401);
    expect(scoped.body.error.message).toMatch(/Application credentials cannot request a scope\./);

    const wrong = {
      identity: { methods: ['application_credential'], application_credential: { id, secret: 'wrong' } },
    };
    expect(await login(wrong)).toMatchObject({ status: 401, body: { error: REFUSED } });
  } finally {
    expect((await cloud.owner.request('DELETE', `${path}/${id}`)).status).toBe(204);
  }
});

test('a token that was revoked before Nova saw it is 401 there', async () => {
  const { token } = await Session.open(cloud.http, cloud.authUrl, cloud.owner.login);
  const revoke = await cloud.owner.request('DELETE', `${cloud.authUrl}/auth/tokens`, undefined, {
    'X-Subject-Token': token,
  });
  expect(revoke.status).toBe(204);
  const answer = await cloud.owner.nova('GET', '/servers', undefined, { headers: { 'X-Auth-Token': token } });
  expect(answer.status).toBe(401);
});

test.each([
  ['a token that is none', 'none'],
  ['no token', ''],
])('%s is 401 at Nova, without a microversion', async (_, token) => {
  const answer = await cloud.owner.nova('GET', '/servers', undefined, { headers: { 'X-Auth-Token': token } });
  expect(answer.status).toBe(401);
  expect(answer.body).toEqual({
    error: { code: 401, title: 'Unauthorized', message: 'The request you have made requires authentication.' },
  });
  expect(answer.headers['www-authenticate']).toMatch(/^Keystone uri="/);
  expect(answer.headers['openstack-api-version']).toBeUndefined();
});
