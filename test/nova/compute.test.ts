import { setTimeout as sleep } from 'node:timers/promises';

import type { ComputeClient } from '../../src/nova';
import { createComputeClient, loadCloudConfig, NEWEST_MICROVERSION } from '../../src/nova';
import type { SimulatedCloudOptions } from '../../src/simulator';
import { SimulatedCloud } from '../../src/simulator';
import { failureOf } from './support/failure';
import { json, ScriptedCloud } from './support/scripted-cloud';

let cloud: SimulatedCloud;
let client: ComputeClient;

async function start(options: SimulatedCloudOptions = {}): Promise<void> {
  cloud = await SimulatedCloud.start({ buildSeconds: 0.05, actionSeconds: 0.01, ...options });
  client = createComputeClient(loadCloudConfig(cloud.env()), { timeoutMs: 5_000 });
}
afterEach(async () => {
  client?.close();
  await cloud?.stop();
  await ScriptedCloud.stopAll();
});

const request = (name: string) => ({
  name,
  flavorRef: cloud.flavorId,
  imageRef: cloud.imageId,
  networks: 'none' as const,
});

async function create(name: string, tags: string[] = []): Promise<string> {
  return (await client.createServer(request(name), { tags })).id;
}

async function until(id: string, status: string): Promise<void> {
  for (let i = 0; i < 200 && (await client.getServer(id)).status !== status; i++) await sleep(20);
  expect(cloud.server(id).status).toBe(status);
}

test('a server from its creation to its end', async () => {
  await start();
  const { id, requestId } = await client.createServer(
    { ...request('web'), tags: ['mine', 'both'], metadata: { a: 'b' } },
    { tags: ['both', 'ours'], schedulerHints: { different_host: [] } },
  );
  expect(requestId).toMatch(/^req-/);
  expect([...cloud.server(id).tags].sort()).toEqual(['both', 'mine', 'ours']);
  await until(id, 'ACTIVE');
  await expect(client.getServer(id)).resolves.toMatchObject({
    id,
    name: 'web',
    status: 'ACTIVE',
    metadata: { a: 'b' },
    locked: false,
    'OS-EXT-STS:vm_state': 'active',
    'OS-EXT-STS:task_state': null,
    'OS-EXT-STS:power_state': 1,
  });

  const stop = await client.serverAction(id, { 'os-stop': null });
  await until(id, 'SHUTOFF');
  const [newest, oldest] = await client.listInstanceActions(id);
  expect(newest).toMatchObject({ action: 'stop', request_id: stop.requestId, user_id: cloud.userId('demo') });
  expect(oldest).toMatchObject({ action: 'create', request_id: requestId, message: null });
  await expect(client.getInstanceAction(id, stop.requestId ?? '')).resolves.toMatchObject({ action: 'stop' });
  await expect(client.ownUserId()).resolves.toBe(newest?.user_id);

  await client.deleteServer(id);
  await sleep(200);
  await expect(failureOf(client.getServer(id))).resolves.toMatchObject({
    kind: 'NotFound',
    message: `Nova answered GET /servers/${id} with 404: Instance ${id} could not be found.`,
    details: { httpStatus: 404 },
  });
});

test('an action that does not fit the state is a Conflict, in words of Nova', async () => {
  await start();
  const id = await create('a');
  await until(id, 'ACTIVE');
  await expect(failureOf(client.serverAction(id, { 'os-start': null }))).resolves.toMatchObject({
    kind: 'Conflict',
    message: expect.stringContaining(`Cannot 'start' instance ${id} while it is in vm_state active`) as string,
  });
});

test('quota is told from what is forbidden', async () => {
  await start({ quotaInstances: 1 });
  const id = await create('a');
  await expect(failureOf(client.createServer(request('b'), { tags: [] }))).resolves.toMatchObject({
    kind: 'QuotaExceeded',
    message: expect.stringMatching(/403: Quota exceeded for instances: Requested 1, but already used 1 of 1/) as string,
    details: { httpStatus: 403, requestId: expect.stringMatching(/^req-/) as string },
  });
  const reset = client.serverAction(id, { 'os-resetState': { state: 'active' } });
  await expect(failureOf(reset)).resolves.toMatchObject({ kind: 'Forbidden' });
});

test('a fault is shown without its traceback, to an administrator too', async () => {
  await start({ buildSeconds: Infinity });
  const id = await create('a');
  cloud.failBuild(id);
  const admin = createComputeClient(loadCloudConfig(cloud.env('admin')));
  const { fault } = await admin.getServer(id);
  admin.close();
  expect(fault).toEqual({ code: 500, message: 'No valid host was found. ', created: expect.any(String) as string });
});

test('servers are found by their tag as soon as they are made', async () => {
  await start({ buildSeconds: Infinity });
  const [a] = await Promise.all([create('a', ['one', 'all']), create('b', ['two', 'all'])]);
  expect((await client.listServers({ tags: 'one' })).map(({ id }) => id)).toEqual([a]);
  expect(await client.listServers({ tags: 'all' })).toHaveLength(2);
  expect(await client.listServers({ tags: 'none' })).toEqual([]);
});

test('a list is followed over all its pages', async () => {
  await start({ buildSeconds: Infinity });
  const ids = await Promise.all(Array.from({ length: 7 }, (_, i) => create(`s${i}`)));
  cloud.clearRequests();
  const found = await client.listServers({ limit: '3' });
  expect(found.map(({ id }) => id).sort()).toEqual(ids.sort());
  expect(cloud.requests).toHaveLength(3);
});

test('flavors, images and networks by name', async () => {
  await start();
  expect(await client.listFlavors()).toContainEqual({
    id: cloud.flavorId,
    name: expect.any(String) as string,
    ram: expect.any(Number) as number,
    vcpus: expect.any(Number) as number,
    disk: expect.any(Number) as number,
  });
  expect(await client.listImages()).toEqual([{ id: cloud.imageId, name: 'tiny', status: 'active' }]);
  expect(await client.listNetworks()).toEqual([{ id: cloud.networkId, name: 'private' }]);
});

test('a network service that is not there is a matter of configuration', async () => {
  const scripted = await ScriptedCloud.start();
  const lone = createComputeClient(loadCloudConfig(scripted.env()));
  await expect(failureOf(lone.listNetworks())).resolves.toMatchObject({
    kind: 'Configuration',
    message: expect.stringContaining("no public endpoint of service 'network' (it has none of this service)") as string,
  });
  lone.close();
});

describe('the microversion', () => {
  test.each([
    ['2.60', '2.60'],
    ['2.52', '2.52'],
    ['2.93', '2.93'],
    ['2.104', NEWEST_MICROVERSION],
  ])('of a Nova up to %s is %s', async (maxVersion, expected) => {
    await start({ maxVersion });
    await expect(client.microversion()).resolves.toBe(expected);
    await expect(client.listServers({})).resolves.toEqual([]);
  });

  test.each([
    ['2.1', '2.51', 'this Nova has microversions 2.1 to 2.51, and temporal-nova needs one from 2.52 to 2.96'],
    ['2.97', '2.104', 'this Nova has microversions 2.97 to 2.104, and temporal-nova needs one from 2.52 to 2.96'],
  ])('of a Nova from %s to %s does not exist', async (minVersion, maxVersion, message) => {
    await start({ minVersion, maxVersion });
    await expect(failureOf(client.check())).resolves.toMatchObject({ kind: 'Configuration', message });
  });

  test('can be pinned within the range of the cloud only', async () => {
    await start({ maxVersion: '2.104' });
    const pinned = (version: string) =>
      createComputeClient(loadCloudConfig({ ...cloud.env(), OS_COMPUTE_API_VERSION: version }));
    await expect(pinned('2.60').microversion()).resolves.toBe('2.60');
    await expect(pinned('2.104').microversion()).resolves.toBe('2.104');
    await expect(failureOf(pinned('2.105').check())).resolves.toMatchObject({
      kind: 'Configuration',
      message:
        'microversion 2.105 is pinned (OS_COMPUTE_API_VERSION), and this Nova has 2.1 to 2.104: pin one of these, or none',
    });
  });

  test('is negotiated once, and again after a failure', async () => {
    await start();
    cloud.inject({ method: 'GET', path: /\/v2\.1\/$/, answer: { status: 503 } });
    await expect(failureOf(client.check())).resolves.toMatchObject({ kind: 'Unavailable' });
    await Promise.all([client.check(), client.listServers({}), client.microversion()]);
    expect(cloud.requests.filter(({ path }) => path.endsWith('/v2.1/'))).toHaveLength(2);
  });

  test('is negotiated again when Nova does not know it any more', async () => {
    const scripted = await ScriptedCloud.start();
    const upgraded = createComputeClient(loadCloudConfig(scripted.env()));
    scripted.nova = ({ headers }, response) =>
      headers['openstack-api-version'] === 'compute 2.90'
        ? json(response, 200, { servers: [] })
        : json(response, 406, { computeFault: { code: 406, message: 'Version 2.93 is not supported by the API.' } });
    await expect(failureOf(upgraded.listServers({}))).resolves.toMatchObject({ kind: 'BadRequest' });
    scripted.version = (_, response) =>
      json(response, 200, { version: { id: 'v2.1', version: '2.90', min_version: '2.1' } });
    await expect(upgraded.listServers({})).resolves.toEqual([]);
    await expect(upgraded.microversion()).resolves.toBe('2.90');
    upgraded.close();
  });

  test.each([
    ['is not there', 404, '<html>', 'Configuration'],
    ['says nothing', 200, '{}', 'Unavailable'],
    ['has no microversions', 200, '{"version": {"id": "v2.0", "version": "", "min_version": ""}}', 'Configuration'],
    ['is a proxy out of order', 502, '<html>', 'Unavailable'],
  ])('of a compute endpoint that %s: nothing else was sent', async (_, status, body, kind) => {
    const scripted = await ScriptedCloud.start();
    scripted.version = (__, response) => void response.writeHead(status).end(body);
    const lost = createComputeClient(loadCloudConfig(scripted.env()));
    const error = await failureOf(lost.createServer({ name: 'a', flavorRef: '1' }, { tags: [] }));
    expect(error).toMatchObject({ kind, details: { outcomeUnknown: false } });
    expect(scripted.of('/v2.1/servers')).toEqual([]);
    lost.close();
  });
});

test('what Glance and Neutron have in pages is followed, and their addresses may end in a version', async () => {
  const scripted = await ScriptedCloud.start();
  const keystone = { ...scripted.token() } as { catalog: object[] };
  const at = (type: string, path: string) => ({ type, endpoints: [{ interface: 'public', url: scripted.url + path }] });
  scripted.keystone = (_, response) =>
    json(
      response,
      201,
      { token: { ...keystone, catalog: [at('image', '/image/v2/'), at('network', '/net/v2.0')] } },
      { 'X-Subject-Token': 't' },
    );
  scripted.nova = ({ path }, response) => {
    const isLast = path.includes('marker=1');
    if (path.startsWith('/image/v2/images')) {
      return json(
        response,
        200,
        isLast ? { images: [image('2')] } : { images: [image('1')], next: '/v2/images?marker=1' },
      );
    }
    json(response, 200, {
      networks: [{ id: isLast ? '2' : '1', name: 'n' }],
      ...(!isLast && { networks_links: [{ rel: 'next', href: 'x' }] }),
    });
  };
  const paging = createComputeClient(loadCloudConfig(scripted.env()));
  expect((await paging.listImages()).map(({ id }) => id)).toEqual(['1', '2']);
  expect((await paging.listNetworks()).map(({ id }) => id)).toEqual(['1', '2']);
  expect(scripted.requests.at(-1)?.path).toBe('/net/v2.0/networks?marker=1');
  paging.close();
});

function image(id: string): object {
  return { id, name: null, status: 'active' };
}
