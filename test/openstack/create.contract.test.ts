/** Creating, finding and deleting servers, and what Nova says to requests that are wrong. */
import { randomUUID } from 'node:crypto';
import { CloudUnderTest, GONE, skipped, until, type Look } from './cloud-under-test';

let cloud: CloudUnderTest;
let standing: string;

beforeAll(async () => {
  cloud = await CloudUnderTest.open();
  standing = cloud.keep(
    await cloud.active({ name: `${cloud.runTag}-standing`, metadata: { a: 'b' }, tags: ['standing'] }),
  );
});
afterEach(async () => cloud.sweep());
afterAll(async () => cloud?.close());

const post = (server: unknown, options?: { version?: string }) =>
  cloud.owner.nova('POST', '/servers', { server }, options);

const fault = (code: number, message: unknown) => ({
  status: code,
  body: { [{ 400: 'badRequest', 403: 'forbidden', 404: 'itemNotFound' }[code]!]: { code, message } },
});

describe('a creation', () => {
  test('is answered 202 with id, links and a password, and where to look', async () => {
    const { status, body, headers } = await post(cloud.request());
    expect(status).toBe(202);
    const { id } = body.server as { id: string };
    expect(body).toEqual({
      server: {
        id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        links: [
          { rel: 'self', href: expect.stringMatching(new RegExp(`/v2\\.1/servers/${id}$`)) },
          { rel: 'bookmark', href: expect.stringMatching(new RegExp(`/servers/${id}$`)) },
        ],
        'OS-DCF:diskConfig': 'MANUAL',
        security_groups: [{ name: 'default' }],
        adminPass: expect.stringMatching(/./),
      },
    });
    expect(headers['location']).toMatch(new RegExp(`/servers/${id}$`));
    expect(headers['openstack-api-version']).toBe('compute 2.90');
    expect(headers['x-openstack-nova-api-version']).toBe('2.90');
    expect(headers['x-openstack-request-id']).toMatch(/^req-/);
    expect(headers['x-compute-request-id']).toBe(headers['x-openstack-request-id']);
    expect(headers['vary']).toMatch(/OpenStack-API-Version/);
  });

  test('is found by its tag in the same moment', async () => {
    const id = await cloud.create({ tags: ['at-once'] });
    const { body } = await cloud.owner.nova('GET', `/servers?tags=${cloud.runTag},at-once`);
    expect(body.servers.map((server: { id: string }) => server.id)).toEqual([id]);
  });

  test('goes through BUILD, with a moment of no task and no host, to ACTIVE', async () => {
    const seen = await cloud.watch(await cloud.create(), (look) => look.status === 'ACTIVE');
    expect(seen[0]).toMatchObject({ status: 'BUILD', vmState: 'building', taskState: 'scheduling', powerState: 0 });
    const tasks = [...new Set(seen.slice(0, -1).map((look) => look.taskState))];
    const order = ['scheduling', null, 'networking', 'block_device_mapping', 'spawning'];
    expect(tasks).toEqual(order.filter((task) => tasks.includes(task)));
    expect(tasks.length).toBeGreaterThan(1);
    expect(seen.slice(0, -1).every((look) => look.status === 'BUILD')).toBe(true);
    expect(seen.at(-1)).toMatchObject({ status: 'ACTIVE', vmState: 'active', taskState: null, powerState: 1 });
    if (cloud.admin === undefined) return;
    expect(seen[0]!.host).toBeNull();
    expect(seen.at(-1)!.host).toEqual(expect.any(String));
  });

  test('that no host can take ends in ERROR with a fault, and never has a host', async () => {
    if (cloud.impossibleFlavor === undefined) return skipped('needs a flavor with a disk of 100 TB or more');
    const id = await cloud.create({ flavorRef: cloud.impossibleFlavor.id });
    const seen = await cloud.watch(id, (look) => look.status === 'ERROR');
    expect(seen.at(-1)).toMatchObject({ vmState: 'error', taskState: null, powerState: 0 });
    expect(seen.every((look) => look.host == null)).toBe(true);
    const { server } = (await cloud.owner.nova('GET', `/servers/${id}`)).body;
    expect(server.fault).toEqual({
      code: 500,
      created: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
      message: 'No valid host was found. ',
    });
    expect(server.hostId).toBe('');
    if (cloud.admin !== undefined) {
      const { server: shown } = (await cloud.admin.nova('GET', `/servers/${id}`)).body;
      expect(shown.fault.details).toEqual(expect.any(String));
    }
    expect(await cloud.owner.actions(id)).toMatchObject([{ action: 'create', message: 'Error' }]);
    expect((await cloud.owner.nova('DELETE', `/servers/${id}`)).status).toBe(204);
    expect((await cloud.watch(id, (look) => look.status === '404')).at(-1)).toEqual(GONE);
  });

  test('of several servers numbers their names', async () => {
    const name = `${cloud.runTag}-several`;
    expect((await post(cloud.request({ name, min_count: 2, max_count: 2 }))).status).toBe(202);
    const { body } = await cloud.owner.nova('GET', `/servers?name=^${name}-[12]$`);
    expect(body.servers.map((server: { name: string }) => server.name).sort()).toEqual([`${name}-1`, `${name}-2`]);
  });

  test('beyond the quota is 403', async () => {
    if (!cloud.hasTwoUsers()) return;
    const { owner, admin } = cloud;
    const path = `/os-quota-sets/${owner.projectId}`;
    expect((await admin!.nova('PUT', path, { quota_set: { instances: 0, force: true } })).status).toBe(200);
    try {
      const answer = await post(cloud.request());
      expect(answer).toMatchObject(
        fault(
          403,
          expect.stringMatching(/^Quota exceeded for instances: Requested 1, but already used \d+ of 0 instances$/),
        ),
      );
      expect(answer.headers['retry-after']).toBeUndefined();
    } finally {
      expect((await admin!.nova('DELETE', path)).status).toBe(202);
    }
  });
});

describe('a creation that is wrong is 400', () => {
  test.each<[string, (right: Record<string, unknown>) => unknown, unknown]>([
    [
      'no name',
      ({ name: _, ...rest }) => rest,
      expect.stringMatching(
        /^Invalid input for field\/attribute server\. Value: \{.*\}\. 'name' is a required property$/,
      ),
    ],
    ['no flavor', ({ flavorRef: _, ...rest }) => rest, expect.stringMatching(/'flavorRef' is a required property$/)],
    ['no networks', ({ networks: _, ...rest }) => rest, expect.stringMatching(/'networks' is a required property$/)],
    [
      'a key that is none',
      (right) => ({ ...right, nonsense: 1 }),
      expect.stringMatching(
        /^Invalid input for field\/attribute server\. .*Additional properties are not allowed \('nonsense' was unexpected\)$/,
      ),
    ],
    [
      'an empty name',
      (right) => ({ ...right, name: '' }),
      "Invalid input for field/attribute name. Value: . '' is too short",
    ],
    [
      'a long name',
      (right) => ({ ...right, name: 'x'.repeat(256) }),
      expect.stringMatching(/^Invalid input for field\/attribute name\. Value: x+\. 'x+' is too long$/),
    ],
    [
      'a name that is none',
      (right) => ({ ...right, name: 7 }),
      "Invalid input for field/attribute name. Value: 7. 7 is not of type 'string'",
    ],
    ['a flavor that is none', (right) => ({ ...right, flavorRef: 'nope' }), 'Flavor nope could not be found.'],
    ['an image that is none', (right) => ({ ...right, imageRef: randomUUID() }), 'Can not find requested image'],
    [
      'an image that is no uuid',
      (right) => ({ ...right, imageRef: 'nope' }),
      "Invalid input for field/attribute imageRef. Value: nope. 'nope' is not valid under any of the given schemas",
    ],
    ['no image', ({ imageRef: _, ...rest }) => rest, 'Missing imageRef attribute'],
    [
      'networks that are none',
      (right) => ({ ...right, networks: 'some' }),
      "Invalid input for field/attribute networks. Value: some. 'some' is not valid under any of the given schemas",
    ],
    [
      'a tag with a comma',
      (right) => ({ ...right, tags: ['a,b'] }),
      "Invalid input for field/attribute 0. Value: a,b. 'a,b' does not match '^[^,/]*$'",
    ],
    [
      'a long tag',
      (right) => ({ ...right, tags: ['x'.repeat(61)] }),
      expect.stringMatching(/^Invalid input for field\/attribute 0\. Value: x+\. 'x+' is too long$/),
    ],
    [
      '51 tags',
      (right) => ({ ...right, tags: Array.from({ length: 51 }, (_, i) => `${i}`) }),
      expect.stringMatching(/^Invalid input for field\/attribute tags\. .* is too long$/),
    ],
    [
      'metadata that is no text',
      (right) => ({ ...right, metadata: { a: 1 } }),
      "Invalid input for field/attribute a. Value: 1. 1 is not of type 'string'",
    ],
    [
      'min_count 0',
      (right) => ({ ...right, min_count: 0 }),
      'Invalid input for field/attribute min_count. Value: 0. 0 is less than the minimum of 1',
    ],
    [
      'min_count above max_count',
      (right) => ({ ...right, min_count: 3, max_count: 2 }),
      'min_count must be <= max_count',
    ],
  ])('%s', async (_, change, message) => {
    expect(await post(change(cloud.request()))).toMatchObject(fault(400, message));
  });

  test('a network that is none', async () => {
    const uuid = randomUUID();
    expect(await post(cloud.request({ networks: [{ uuid }] }))).toMatchObject(
      fault(400, `Network ${uuid} could not be found.`),
    );
  });

  test.each([
    ['tags before 2.52', '2.51', (right: Record<string, unknown>) => right, /\('tags' was unexpected\)$/],
    [
      'networks none before 2.37',
      '2.36',
      ({ tags: _, ...rest }: Record<string, unknown>) => rest,
      /'none' is not of type 'array'$/,
    ],
  ])('%s', async (_, version, change, message) => {
    expect(await post(change(cloud.request()), { version })).toMatchObject(fault(400, expect.stringMatching(message)));
  });

  test.each([
    ['{', 'Malformed request body'],
    ['{}', "'server' is a required property"],
  ])('the body %s', async (body, message) => {
    expect(await cloud.owner.nova('POST', '/servers', body)).toMatchObject(fault(400, message));
  });
});

describe('a server', () => {
  test('is shown to its owner with its states, and without its host', async () => {
    const { status, body } = await cloud.owner.nova('GET', `/servers/${standing}`);
    expect(status).toBe(200);
    expect(body.server).toMatchObject({
      id: standing,
      name: `${cloud.runTag}-standing`,
      status: 'ACTIVE',
      tenant_id: cloud.owner.projectId,
      user_id: cloud.owner.userId,
      metadata: { a: 'b' },
      hostId: expect.stringMatching(/^[0-9a-f]{56}$/),
      image: { id: cloud.imageId, links: [{ rel: 'bookmark', href: expect.any(String) }] },
      flavor: { original_name: cloud.flavor.name, vcpus: expect.any(Number), ram: expect.any(Number) },
      created: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
      updated: expect.stringMatching(/Z$/),
      addresses: {},
      progress: 0,
      'OS-SRV-USG:launched_at': expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$/),
      'OS-SRV-USG:terminated_at': null,
      'OS-EXT-STS:vm_state': 'active',
      'OS-EXT-STS:task_state': null,
      'OS-EXT-STS:power_state': 1,
      locked: false,
      locked_reason: null,
      description: null,
      tags: expect.arrayContaining([cloud.runTag, 'standing']),
      server_groups: [],
    });
    expect(body.server).not.toHaveProperty('fault');
    if (cloud.owner.isAdmin) return;
    expect(body.server).not.toHaveProperty('OS-EXT-SRV-ATTR:host');
    expect(body.server).not.toHaveProperty('host_status');
  });

  test('is shown to an administrator with its host, also from another project', async () => {
    if (!cloud.hasAdmin()) return;
    const { body } = await cloud.admin!.nova('GET', `/servers/${standing}`);
    expect(body.server).toMatchObject({ 'OS-EXT-SRV-ATTR:host': expect.any(String), host_status: 'UP' });
  });

  test.each<[string, string[], string[]]>([
    ['2.1', [], ['locked', 'tags', 'description', 'locked_reason', 'server_groups']],
    ['2.25', ['locked', 'description'], ['tags', 'locked_reason']],
    ['2.52', ['locked', 'tags'], ['locked_reason', 'server_groups', 'trusted_image_certificates']],
    ['2.73', ['locked_reason', 'server_groups'], []],
  ])('of microversion %s has the keys of its time', async (version, present, absent) => {
    const { server } = (await cloud.owner.nova('GET', `/servers/${standing}`, undefined, { version })).body;
    for (const key of present) expect(server).toHaveProperty(key);
    for (const key of absent) expect(server).not.toHaveProperty(key);
    expect('id' in server.flavor).toBe(Number(version.slice(2)) < 47);
  });

  test.each([randomUUID(), 'no-uuid'])('that is none (%s) is 404', async (id) => {
    const missing = fault(404, `Instance ${id} could not be found.`);
    expect(await cloud.owner.nova('GET', `/servers/${id}`)).toMatchObject(missing);
    expect(await cloud.owner.nova('DELETE', `/servers/${id}`)).toMatchObject(missing);
  });

  test("of another project is 404 to a user who isn't its administrator", async () => {
    if (!cloud.hasTwoUsers()) return;
    const { admin, owner } = cloud;
    const answer = await admin!.nova('POST', '/servers', { server: cloud.request() });
    const { id } = answer.body.server as { id: string };
    try {
      await until('it is ACTIVE', async () => ((await admin!.look(id)).status === 'ACTIVE' ? true : undefined));
      expect(await owner.nova('GET', `/servers/${id}`)).toMatchObject(fault(404, `Instance ${id} could not be found.`));
      const { servers } = (await owner.nova('GET', '/servers')).body;
      expect(servers.map((server: { id: string }) => server.id)).not.toContain(id);
    } finally {
      expect((await admin!.act(id, { forceDelete: null })).status).toBe(202);
    }
  });
});

describe('the list', () => {
  const ids = async (query: string, version?: string): Promise<string[]> => {
    const { status, body, text } = await cloud.owner.nova('GET', `/servers${query}`, undefined, { version });
    if (status !== 200) throw new Error(text);
    return body.servers.map((server: { id: string }) => server.id);
  };

  test('shows id, name and links; detail shows all', async () => {
    const { body } = await cloud.owner.nova('GET', '/servers?tags=standing');
    expect(body.servers).toEqual([
      {
        id: standing,
        name: `${cloud.runTag}-standing`,
        links: [
          { rel: 'self', href: expect.any(String) },
          { rel: 'bookmark', href: expect.any(String) },
        ],
      },
    ]);
    const detail = (await cloud.owner.nova('GET', '/servers/detail?tags=standing')).body.servers[0];
    expect(detail).toMatchObject({ id: standing, status: 'ACTIVE', 'OS-EXT-STS:vm_state': 'active' });
    expect(detail).not.toHaveProperty('server_groups');
  });

  test('is filtered by tags, all of them or any', async () => {
    expect(await ids(`?tags=${cloud.runTag},standing`)).toEqual([standing]);
    expect(await ids(`?tags=${cloud.runTag},none-such`)).toEqual([]);
    expect(await ids(`?tags-any=standing,none-such`)).toEqual([standing]);
    expect(await ids(`?tags=${cloud.runTag}&not-tags=standing`)).not.toContain(standing);
  });

  test('does not know tags before 2.26', async () => {
    expect(await ids('?tags=none-such', '2.25')).toContain(standing);
  });

  test('is filtered by name, as a regular expression', async () => {
    expect(await ids(`?name=${cloud.runTag}-stand`)).toEqual([standing]);
    expect(await ids(`?name=^${cloud.runTag.toUpperCase()}-STANDING$`)).toEqual([standing]);
    expect(await ids('?name=^standing$')).toEqual([]);
  });

  test('is filtered by status', async () => {
    expect(await ids(`?tags=standing&status=ACTIVE`)).toEqual([standing]);
    expect(await ids(`?tags=standing&status=SHUTOFF`)).toEqual([]);
  });

  test('pages, newest first', async () => {
    const newer = await cloud.active({ tags: ['standing'] });
    const first = (await cloud.owner.nova('GET', '/servers?tags=standing&limit=1')).body;
    expect(first.servers.map((server: { id: string }) => server.id)).toEqual([newer]);
    const next = new URL(first.servers_links[0].href as string);
    expect(first.servers_links[0].rel).toBe('next');
    expect(next.searchParams.get('marker')).toBe(newer);
    const second = (await cloud.owner.nova('GET', `/servers${next.search}`)).body;
    expect(second.servers.map((server: { id: string }) => server.id)).toEqual([standing]);
    expect((await cloud.owner.nova('GET', '/servers?tags=standing&limit=5')).body).not.toHaveProperty('servers_links');
    expect((await cloud.owner.nova('DELETE', `/servers/${newer}`)).status).toBe(204);
    await cloud.watch(newer, (look) => look.status === '404');
  });

  test('with changes-since also shows what was deleted, as DELETED', async () => {
    const since = new Date(Date.now() - 5000).toISOString().slice(0, 19) + 'Z';
    const id = await cloud.active();
    await cloud.owner.nova('DELETE', `/servers/${id}`);
    await cloud.watch(id, (look) => look.status === '404');
    expect(await ids('')).not.toContain(id);
    const { body } = await cloud.owner.nova('GET', `/servers/detail?changes-since=${since}`);
    const found = body.servers.find((server: { id: string }) => server.id === id);
    expect(found).toMatchObject({ status: 'DELETED', 'OS-EXT-STS:vm_state': 'deleted', tags: [], metadata: {} });
    const later = new Date(Date.now() + 60_000).toISOString().slice(0, 19) + 'Z';
    expect(await ids(`?changes-since=${later}`)).toEqual([]);
  });

  test.each([
    ['marker=none', 'marker [none] not found'],
    ['limit=x', "Invalid input for query parameters limit. Value: x. 'x' does not match '^[0-9]*$'"],
    ['changes-since=x', "Invalid input for query parameters changes-since. Value: x. 'x' is not a 'date-time'"],
    ['name=(', "Invalid input for query parameters name. Value: (. '(' is not a 'regex'"],
    ['status=NONE', 'Invalid status value'],
    ['nonsense=1', "'nonsense' does not match any of the regexes: '^_'"],
  ])('refuses %s', async (query, message) => {
    expect(await cloud.owner.nova('GET', `/servers?${query}`)).toMatchObject(fault(400, message));
  });

  test("shows everyone's servers to administrators only", async () => {
    if (!cloud.hasTwoUsers()) return;
    const all = await cloud.admin!.nova('GET', '/servers?all_tenants=1&tags=standing');
    expect(all.body.servers.map((server: { id: string }) => server.id)).toEqual([standing]);
    expect((await cloud.admin!.nova('GET', '/servers?tags=standing')).body.servers).toEqual([]);
    expect(await cloud.owner.nova('GET', '/servers?all_tenants=1')).toMatchObject(
      fault(403, "Policy doesn't allow os_compute_api:servers:index:get_all_tenants to be performed."),
    );
    expect(await cloud.owner.nova('GET', '/servers?status=DELETED')).toMatchObject(
      fault(403, 'Only administrators may list deleted instances'),
    );
  });
});

describe('a deletion', () => {
  test('is 204, passes through deleting and perhaps DELETED, and ends in 404', async () => {
    const id = await cloud.active();
    const { status, text } = await cloud.owner.nova('DELETE', `/servers/${id}`);
    expect([status, text]).toEqual([204, '']);
    const seen = await cloud.watch(id, (look) => look.status === '404');
    for (const look of seen.slice(0, -1)) {
      expect([look.status, look.vmState, look.taskState]).toEqual(
        look.status === 'DELETED' ? ['DELETED', 'deleted', null] : ['ACTIVE', 'active', 'deleting'],
      );
    }
    expect(await cloud.owner.nova('DELETE', `/servers/${id}`)).toMatchObject(
      fault(404, `Instance ${id} could not be found.`),
    );
    expect(await cloud.owner.act(id, { 'os-stop': null })).toMatchObject(
      fault(404, `Instance ${id} could not be found.`),
    );
    expect((await cloud.owner.actions(id)).map((action) => action.action)).toEqual(['delete', 'create']);
  });

  test('of a build request leaves nothing', async () => {
    const id = await cloud.create();
    expect((await cloud.owner.nova('DELETE', `/servers/${id}`)).status).toBe(204);
    await cloud.watch(id, (look: Look) => look.status === '404');
  });
});

describe('the microversion', () => {
  test('is 2.1 where none is asked for', async () => {
    const { headers } = await cloud.owner.nova('GET', '/servers', undefined, { version: null });
    expect(headers['openstack-api-version']).toBe('compute 2.1');
  });

  test('latest is the newest that the version document names', async () => {
    const { version } = (await cloud.owner.nova('GET', '', undefined, { version: null })).body as {
      version: { id: string; version: string; min_version: string };
    };
    expect(version).toMatchObject({ id: 'v2.1', min_version: '2.1', version: expect.stringMatching(/^2\.\d+$/) });
    const { headers } = await cloud.owner.nova('GET', '/servers', undefined, { version: 'latest' });
    expect(headers['openstack-api-version']).toBe(`compute ${version.version}`);
  });

  test('the version document needs no token', async () => {
    const answer = await cloud.owner.request('GET', cloud.owner.service('compute'), undefined, { 'X-Auth-Token': '' });
    expect(answer.status).toBe(200);
    expect(answer.body.version.id).toBe('v2.1');
  });

  test('too high is 406', async () => {
    const { version } = (await cloud.owner.nova('GET', '', undefined, { version: null })).body as {
      version: { version: string };
    };
    const answer = await cloud.owner.nova('GET', '/servers', undefined, { version: '2.999' });
    expect(answer.status).toBe(406);
    expect(answer.body).toEqual({
      computeFault: {
        code: 406,
        message: `Version 2.999 is not supported by the API. Minimum is 2.1 and maximum is ${version.version}.`,
      },
    });
    expect(answer.headers['openstack-api-version']).toBe('compute 2.999');
  });

  test('that is none is 400', async () => {
    expect(await cloud.owner.nova('GET', '/servers', undefined, { version: 'abc' })).toMatchObject(
      fault(400, 'API Version String abc is of invalid format. Must be of format MajorNum.MinorNum.'),
    );
  });
});

test.each([
  ['GET', '/nope'],
  ['PUT', '/servers'],
])('%s %s is 404, and no item', async (method, path) => {
  const { status, body } = await cloud.owner.nova(method, path, method === 'PUT' ? {} : undefined);
  expect(status).toBe(404);
  expect(body).toEqual({
    message: 'The resource could not be found.<br /><br />\n\n\n',
    code: '404 Not Found',
    title: 'Not Found',
  });
});
