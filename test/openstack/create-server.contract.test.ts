/** `CreateServerWorkflow` end to end, on the cloud under test. */
import { startCreateServer, type CreateServerInput } from '../../src/client';
import { failureOf, progress, serverIdOf } from '../support/bed';
import { endService, startService, type Service } from '../support/service';
import { connect, type TestTemporal } from '../support/temporal';
import { CloudUnderTest } from './cloud-under-test';

let cloud: CloudUnderTest;
let temporal: TestTemporal;
let service: Service | undefined;
const shutdown = new AbortController();

beforeAll(async () => {
  cloud = await CloudUnderTest.open();
  temporal = await connect();
  service = await startService(temporal, cloud.environment(), shutdown.signal);
});
afterAll(async () => {
  shutdown.abort();
  if (service) await endService(service);
  await temporal?.close();
  await cloud?.close();
});

let count = 0;

function create(server: Record<string, unknown> = {}, input: Partial<CreateServerInput> = {}) {
  return startCreateServer(
    temporal.client,
    { server: cloud.request(server) as unknown as CreateServerInput['server'], ...input },
    { workflowId: `${cloud.runTag}-create-${++count}`, taskQueue: service?.taskQueue },
  );
}

test('a server comes up, with the creation’s tag beside the caller’s', async () => {
  const handle = await create({ tags: ['mine'] });
  const { serverId, status, observations } = await handle.result();
  expect(status).toBe('ACTIVE');
  expect(observations[0]?.status).toBe('BUILD');
  expect(observations.at(-1)).toMatchObject({ status: 'ACTIVE', vmState: 'active', powerState: 'running' });
  const { server } = (await cloud.owner.nova('GET', `/servers/${serverId}`)).body as {
    server: { status: string; tags: string[] };
  };
  expect(server.status).toBe('ACTIVE');
  expect(server.tags).toEqual(expect.arrayContaining([cloud.runTag, 'mine', expect.stringMatching(/^temporal-nova:/)]));
});

test('one that no host can take ends in ServerInError with Nova’s fault, and is deleted where asked', async () => {
  const flavor = cloud.impossibleFlavor;
  if (!flavor) return console.log('skipped: the cloud has no flavor that fits no host');
  const failure = await failureOf(await create({ flavorRef: flavor.id }, { attempts: 2, onFailure: 'delete' }));
  expect(failure.type).toBe('ServerInError');
  expect(failure.message).toContain('No valid host was found');
  expect(failure.details).toMatchObject({ state: { status: 'ERROR' }, fault: { code: 500 } });
  expect((await cloud.owner.look(failure.details.serverId ?? '')).status).toBe('404');
});

test('a flavor that is not there is refused in Nova’s words', async () => {
  const failure = await failureOf(await create({ flavorRef: 'nope' }));
  expect(failure).toMatchObject({ type: 'NovaBadRequest', details: { httpStatus: 400 } });
  expect(failure.message).toContain('Flavor nope could not be found');
});

test('a slow build is waited for, and one that passes its deadline is deleted', async () => {
  if (!(await cloud.hasAnchorDriver())) return;
  const slow = await create({ metadata: { anchor_spawn_seconds: '4' } });
  const late = await create({ metadata: { anchor_spawn_seconds: '20' } }, { timeout: '6s', onFailure: 'delete' });
  const id = await serverIdOf(slow);
  expect(await progress(slow)).toMatchObject({ phase: 'waiting', serverId: id, state: { status: 'BUILD' } });
  const { serverId, observations } = await slow.result();
  expect(serverId).toBe(id);
  expect(observations.map(({ taskState }) => taskState)).toContain('spawning');
  const failure = await failureOf(late);
  expect(failure).toMatchObject({ type: 'ServerWaitTimeout', details: { state: { status: 'BUILD' } } });
  expect((await cloud.owner.look(failure.details.serverId ?? '')).status).toBe('404');
});

test('a cancelled creation leaves no server, where asked', async () => {
  if (!(await cloud.hasAnchorDriver())) return;
  const handle = await create({ metadata: { anchor_spawn_seconds: '5' } }, { onFailure: 'delete' });
  const id = await serverIdOf(handle);
  await handle.cancel();
  await handle.result().catch(() => undefined);
  expect((await handle.describe()).status.name).toBe('CANCELLED');
  expect((await cloud.owner.look(id)).status).toBe('404');
});
