/** `RecoverInstanceWorkflow` end to end, on the cloud under test: each vm_state that it can reach. */
import { randomUUID } from 'node:crypto';
import { CancelledFailure, WorkflowFailedError } from '@temporalio/client';
import { startRecoverInstance, type RecoverInstanceInput, type RecoverInstanceResult } from '../../src/client';
import { failureOf, progress } from '../support/bed';
import { endService, startService, type Service } from '../support/service';
import { connect, type TestTemporal } from '../support/temporal';
import { CloudUnderTest, skipped, until, type Look, type Session } from './cloud-under-test';

/** A worker whose requests to the cloud are one user's. */
let cloud: CloudUnderTest;
let temporal: TestTemporal;
/** The servers' owner. */
let member: Service;
/** Where there is no administrator, the owner's too: tests that need one are skipped. */
let operator: Service;
const shutdown = new AbortController();

function service(user: Session): Promise<Service> {
  return startService(temporal, cloud.environment(user), shutdown.signal);
}

beforeAll(async () => {
  cloud = await CloudUnderTest.open();
  temporal = await connect();
  member = await service(cloud.owner);
  operator = cloud.admin && cloud.admin !== cloud.owner ? await service(cloud.admin) : member;
});
afterEach(() => cloud.sweep());
afterAll(async () => {
  shutdown.abort();
  for (const one of new Set([member, operator].filter(Boolean))) await endService(one);
  await temporal?.close();
  await cloud?.close();
});

const POLLING = { initialInterval: 200, maximumInterval: 1_000 };
const RUNNING = { vmState: 'active', taskState: null, powerState: 'running' };

type Input = Partial<Omit<RecoverInstanceInput, 'instanceId'>>;

function start(instanceId: string, input: Input = {}, by = member) {
  return startRecoverInstance(
    temporal.client,
    { instanceId, polling: POLLING, ...input },
    { taskQueue: by.taskQueue, staticSummary: undefined },
  );
}

async function recover(id: string, input: Input = {}, by = member): Promise<RecoverInstanceResult> {
  return (await start(id, input, by)).result();
}

/** What was done to a server after its creation, oldest first. */
async function done(id: string): Promise<string[]> {
  return (await cloud.owner.actions(id))
    .map(({ action }) => action)
    .reverse()
    .slice(1);
}

/** A server that got there from ACTIVE by its owner's actions. */
async function reached(...way: [action: object, status: string][]): Promise<string> {
  const id = await cloud.active();
  for (const [action, status] of way) await cloud.take(id, action, status);
  return id;
}

const paused = () => reached([{ pause: null }, 'PAUSED']);
const rescued = () => reached([{ rescue: {} }, 'RESCUE']);
const resized = () => reached([{ resize: { flavorRef: cloud.otherFlavor?.id } }, 'VERIFY_RESIZE']);

const canResize = (): boolean => cloud.otherFlavor !== undefined || skipped('needs a second flavor');

/**
 * The guest of a server ends by itself, and Nova's power sync finds out. How soon is the cloud's own setting
 * (`sync_power_state_interval`, 600 s by default): undefined, said aloud, where that is too long for a test.
 */
async function dies(id: string): Promise<Look | undefined> {
  const from = await cloud.owner.look(id);
  await setMetadata(id, { anchor_power: 'shutdown' });
  cloud.simulated?.runPowerSync();
  try {
    const look = await until(
      'its power sync',
      async () => {
        const now = await cloud.owner.look(id);
        return now.taskState === null && now.powerState !== from.powerState ? now : undefined;
      },
      SYNC_SECONDS,
    );
    // A stop by Nova itself follows within a moment, where it does.
    return await until(
      'what follows the sync',
      async () => {
        const now = await cloud.owner.look(id);
        return now.vmState !== from.vmState && now.taskState === null ? now : undefined;
      },
      3,
    ).catch(() => look);
  } catch {
    skipped(`its power sync does not come within ${SYNC_SECONDS} s (sync_power_state_interval)`);
    return undefined;
  } finally {
    // The next guest is to run.
    await cloud.owner.nova('DELETE', `/servers/${id}/metadata/anchor_power`);
  }
}

const SYNC_SECONDS = 25;

async function setMetadata(id: string, metadata: Record<string, string>): Promise<void> {
  const { status, text } = await cloud.owner.nova('POST', `/servers/${id}/metadata`, { metadata });
  if (status !== 200) throw new Error(`metadata of ${id}: HTTP ${status} ${text}`);
}

describe('a server that should run', () => {
  test('ACTIVE: it is stopped and started, although it looks healthy', async () => {
    const id = await cloud.active();
    const result = await recover(id, { notification: { event: 'LIFECYCLE', virDomainEvent: 'STOPPED_FAILED' } });
    expect(result).toMatchObject({
      instanceId: id,
      outcome: 'recovered',
      path: 'stop-start',
      reason: 'instance-failure',
      before: RUNNING,
      after: RUNNING,
      steps: [{ action: 'stop' }, { action: 'start' }],
    });
    expect(await done(id)).toEqual(['stop', 'start']);
    expect(await cloud.owner.look(id)).toMatchObject({ status: 'ACTIVE', taskState: null, powerState: 1 });
  });

  test('ACTIVE, and Nova knows that its guest is gone', async () => {
    if (!(await cloud.hasAnchorDriver())) return;
    const id = await cloud.active({ metadata: { anchor_power: 'shutdown' } });
    await cloud.owner.nova('DELETE', `/servers/${id}/metadata/anchor_power`);
    expect(await recover(id)).toMatchObject({ reason: 'instance-failure', after: RUNNING });
    expect((await done(id)).at(-1)).toBe('start');
  });

  test('ERROR', async () => {
    if (!cloud.hasAdmin()) return;
    const id = await cloud.active();
    await cloud.take(id, { 'os-resetState': { state: 'error' } }, 'ERROR', cloud.admin);
    expect(await recover(id)).toMatchObject({ path: 'stop-start', before: { status: 'ERROR' }, after: RUNNING });
    expect(await done(id)).toEqual(['resetState', 'stop', 'start']);
  });

  test('stopped by Nova itself, after its guest died: started', async () => {
    if (!(await cloud.hasAnchorDriver())) return;
    const id = await cloud.active();
    const look = await dies(id);
    if (look === undefined) return;
    expect(look).toMatchObject({ status: 'SHUTOFF', powerState: 4 });
    expect((await cloud.owner.actions(id))[0]).toMatchObject({ action: 'stop', user_id: null, message: null });
    expect(await recover(id)).toMatchObject({ path: 'start', reason: 'instance-failure', after: RUNNING });
    expect(await done(id)).toEqual(['stop', 'start']);
  });

  test('stopped by a user: left alone, or started where the policy says so', async () => {
    if (!cloud.hasTwoUsers()) return;
    const id = await cloud.active();
    await cloud.take(id, { 'os-stop': null }, 'SHUTOFF', cloud.admin);
    expect(await recover(id)).toMatchObject({ outcome: 'skipped', path: 'none', reason: 'stopped-by-user' });
    expect(await done(id)).toEqual(['stop']);
    expect(await recover(id, { policy: { stoppedByUser: 'start' } })).toMatchObject({
      outcome: 'recovered',
      path: 'start',
      reason: 'stopped-by-user',
      after: RUNNING,
    });
    expect(await done(id)).toEqual(['stop', 'start']);
  });

  test('stopped by its owner, seen by a service that is another user: left alone', async () => {
    if (!cloud.hasTwoUsers()) return;
    const id = await reached([{ 'os-stop': null }, 'SHUTOFF']);
    expect(await recover(id, {}, operator)).toMatchObject({ outcome: 'skipped', reason: 'stopped-by-user' });
  });

  test('stopped by this service’s own user: started', async () => {
    const id = await reached([{ 'os-stop': null }, 'SHUTOFF']);
    expect(await recover(id)).toMatchObject({ path: 'start', reason: 'instance-failure', after: RUNNING });
  });
});

describe('a server in a state of its own', () => {
  test('PAUSED: skipped with a warning, restarted, or paused again', async () => {
    const id = await paused();
    expect(await recover(id)).toMatchObject({
      outcome: 'skipped',
      path: 'none',
      reason: 'paused',
      before: { status: 'PAUSED' },
      after: { status: 'PAUSED' },
    });
    expect(await recover(id, { policy: { paused: 'restore' } })).toMatchObject({
      outcome: 'recovered',
      path: 'hard-reboot',
      message: expect.stringContaining('ran for a while'),
      after: { vmState: 'paused', taskState: null },
    });
    expect((await cloud.owner.look(id)).status).toBe('PAUSED');
    expect(await recover(id, { policy: { paused: 'restart' } })).toMatchObject({ path: 'hard-reboot', after: RUNNING });
    expect(await done(id)).toEqual(['pause', 'reboot', 'pause', 'reboot']);
  });

  test('PAUSED, and its guest dies: Nova’s power sync stops it, and it is started', async () => {
    if (!(await cloud.hasAnchorDriver())) return;
    const id = await paused();
    const look = await dies(id);
    if (look === undefined) return;
    expect(look).toMatchObject({ status: 'SHUTOFF', powerState: 4 });
    expect((await cloud.owner.actions(id))[0]).toMatchObject({ action: 'stop', user_id: null });
    expect(await recover(id)).toMatchObject({ path: 'start', reason: 'instance-failure', after: RUNNING });
  });

  test('RESCUE: skipped with a warning, restarted, or rescued again', async () => {
    const id = await rescued();
    expect(await recover(id)).toMatchObject({ outcome: 'skipped', path: 'none', reason: 'rescued' });
    expect(await recover(id, { policy: { rescued: 'restore' } })).toMatchObject({
      outcome: 'recovered',
      path: 'unrescue',
      message: expect.stringContaining('default rescue image'),
      after: { vmState: 'rescued', taskState: null },
    });
    expect((await cloud.owner.look(id)).status).toBe('RESCUE');
    expect(await recover(id, { policy: { rescued: 'restart' } })).toMatchObject({ path: 'unrescue', after: RUNNING });
    expect(await done(id)).toEqual(['rescue', 'unrescue', 'rescue', 'unrescue']);
  });

  test('SUSPENDED: skipped', async () => {
    const id = await reached([{ suspend: null }, 'SUSPENDED']);
    expect(await recover(id)).toMatchObject({ outcome: 'skipped', reason: 'suspended' });
    expect(await done(id)).toEqual(['suspend']);
  });

  test('VERIFY_RESIZE: reset by an administrator', async () => {
    if (!cloud.hasTwoUsers() || !canResize()) return;
    const id = await resized();
    expect(await recover(id, {}, operator)).toMatchObject({
      path: 'reset-stop-start',
      reason: 'resized',
      after: RUNNING,
      steps: [{ action: 'reset-state' }, { action: 'stop' }, { action: 'start' }],
    });
    expect(await done(id)).toEqual(['resize', 'resetState', 'stop', 'start']);
  });

  test('VERIFY_RESIZE: a member may not reset its state, and hears which policy says so', async () => {
    if (!cloud.hasTwoUsers() || !canResize()) return;
    const failure = await failureOf(await start(await resized()));
    expect(failure).toMatchObject({ type: 'NovaForbidden', details: { step: 'reset-state', httpStatus: 403 } });
    expect(failure.message).toContain('os_compute_api:os-admin-actions:reset_state');
  });

  test('VERIFY_RESIZE: confirmed, then stopped and started', async () => {
    if (!canResize()) return;
    const id = await resized();
    expect(await recover(id, { policy: { resized: 'confirm' } })).toMatchObject({
      path: 'confirm-stop-start',
      after: RUNNING,
    });
    expect(await done(id)).toEqual(['resize', 'confirmResize', 'stop', 'start']);
  });

  test('VERIFY_RESIZE: reverted', async () => {
    if (!canResize()) return;
    const id = await resized();
    expect(await recover(id, { policy: { resized: 'revert' } })).toMatchObject({ path: 'revert', after: RUNNING });
    expect(await done(id)).toEqual(['resize', 'revertResize']);
  });

  test('VERIFY_RESIZE of a server that was stopped: reverted and started', async () => {
    if (!canResize()) return;
    const id = await reached(
      [{ 'os-stop': null }, 'SHUTOFF'],
      [{ resize: { flavorRef: cloud.otherFlavor?.id } }, 'VERIFY_RESIZE'],
    );
    expect(await recover(id, { policy: { resized: 'revert' } })).toMatchObject({ path: 'revert', after: RUNNING });
    expect(await done(id)).toEqual(['stop', 'resize', 'revertResize', 'start']);
  });

  test('VERIFY_RESIZE: skipped by policy', async () => {
    if (!canResize()) return;
    expect(await recover(await resized(), { policy: { resized: 'skip' } })).toMatchObject({
      outcome: 'skipped',
      reason: 'resized',
    });
  });

  test('shelved: skipped', async () => {
    const id = await cloud.active();
    await cloud.owner.act(id, { shelve: null });
    await until('it is shelved', async () =>
      (await cloud.owner.look(id)).status.startsWith('SHELVED') ? true : undefined,
    );
    expect(await recover(id)).toMatchObject({ outcome: 'skipped', reason: 'shelved' });
  });

  test('building: skipped', async () => {
    if (!(await cloud.hasAnchorDriver())) return;
    const id = await cloud.create({ metadata: { anchor_spawn_seconds: '4' } });
    expect(await recover(id)).toMatchObject({ outcome: 'skipped', reason: 'building' });
    await cloud.settled(id, 'ACTIVE');
  });

  test('deleted, or never there: skipped', async () => {
    const id = await cloud.active();
    await cloud.owner.nova('DELETE', `/servers/${id}`);
    const at = await recover(id);
    expect(at.outcome).toBe('skipped');
    expect(['being-deleted', 'not-found']).toContain(at.reason);
    await until('it is gone', async () => ((await cloud.owner.look(id)).status === '404' ? true : undefined));
    for (const gone of [id, randomUUID()]) {
      expect(await recover(gone)).toMatchObject({ outcome: 'skipped', reason: 'not-found', before: null, after: null });
    }
  });

  test('busy: its task is waited for, then it is decided', async () => {
    if (!(await cloud.hasAnchorDriver())) return;
    const id = await cloud.active({ metadata: { anchor_power_off_seconds: '3' } });
    await cloud.owner.act(id, { 'os-stop': null });
    expect(await recover(id)).toMatchObject({
      path: 'start',
      before: { status: 'ACTIVE', taskState: 'powering-off' },
      after: RUNNING,
    });
    expect(await done(id)).toEqual(['stop', 'start']);
  });
});

describe('policies and permissions', () => {
  test('locked by an administrator: a member’s recovery is skipped, an administrator’s passes the lock', async () => {
    if (!cloud.hasTwoUsers()) return;
    const id = await cloud.active();
    expect((await cloud.admin!.act(id, { lock: {} })).status).toBe(202);
    expect(await recover(id, { policy: { locked: 'skip' } }, operator)).toMatchObject({ reason: 'locked' });
    const refused = await recover(id);
    expect(refused).toMatchObject({ outcome: 'skipped', path: 'none', reason: 'locked', before: { locked: true } });
    expect(refused.message).toContain(`Instance ${id} is locked`);
    expect(await done(id)).toEqual(['lock']);
    expect(await recover(id, {}, operator)).toMatchObject({ path: 'stop-start', after: { ...RUNNING, locked: true } });
    expect(await done(id)).toEqual(['lock', 'stop', 'start']);
  });

  test('locked by its owner: a member’s recovery is skipped all the same', async () => {
    const id = await cloud.active();
    await cloud.owner.act(id, { lock: {} });
    const result = await recover(id);
    // Nova asks who acts, not who locked: only an administrator passes a lock (nova/compute/api.py, check_instance_lock).
    expect(result).toMatchObject(
      cloud.owner.isAdmin ? { outcome: 'recovered' } : { outcome: 'skipped', reason: 'locked' },
    );
  });

  test('HA_Enabled, where it is required', async () => {
    const policy = { requireHaEnabled: true };
    const without = await cloud.active({ metadata: { HA_Enabled: 'False' } });
    expect(await recover(without, { policy })).toMatchObject({ outcome: 'skipped', reason: 'not-ha-enabled' });
    expect(await done(without)).toEqual([]);
    const enabled = await cloud.active({ metadata: { HA_Enabled: 'True' } });
    expect(await recover(enabled, { policy })).toMatchObject({ outcome: 'recovered', after: RUNNING });
  });

  test('a dry run plans and changes nothing', async () => {
    const plans: [string, object][] = [
      [await cloud.active(), { path: 'stop-start', reason: 'instance-failure' }],
      [await paused(), { path: 'none', reason: 'paused' }],
    ];
    for (const [id, plan] of plans) {
      const before = await done(id);
      expect(await recover(id, { dryRun: true })).toMatchObject({
        outcome: 'planned',
        after: null,
        steps: [],
        ...plan,
      });
      expect(await done(id)).toEqual(before);
    }
  });
});

describe('reports', () => {
  test('of a failure before the last restart cause nothing; later ones do', async () => {
    const id = await cloud.active();
    const at = (time: number) => ({
      notification: { event: 'LIFECYCLE', generatedTime: new Date(time).toISOString() },
    });
    const noticed = Date.now() - 1_000;
    await cloud.take(id, { reboot: { type: 'HARD' } }, 'ACTIVE');
    expect(await recover(id, at(noticed))).toMatchObject({ outcome: 'skipped', reason: 'already-recovered' });
    expect(await recover(id, at(Date.now() + 2_000))).toMatchObject({ outcome: 'recovered' });
    expect(await done(id)).toEqual(['reboot', 'stop', 'start']);
  });

  test('by several monitors at once are one stop and one start', async () => {
    const id = await cloud.active();
    const notification = { event: 'LIFECYCLE', generatedTime: new Date().toISOString() };
    const handles = await Promise.all(Array.from({ length: 10 }, () => start(id, { notification })));
    for (const handle of handles) expect((await handle.result()).outcome).toBe('recovered');
    expect(await done(id)).toEqual(['stop', 'start']);
  });
});

describe('what can go wrong on the host', () => {
  test('an accepted stop that fails there: fails at once, with the request to look for', async () => {
    if (!(await cloud.hasAnchorDriver())) return;
    const id = await cloud.active({ metadata: { anchor_power_off: 'fail' } });
    const failure = await failureOf(await start(id));
    const [stop] = await cloud.owner.actions(id);
    expect(stop).toMatchObject({ action: 'stop', message: 'Error' });
    expect(failure).toMatchObject({ type: 'InstanceRecoveryFailed', details: { step: 'stop', serverId: id } });
    expect(failure.message).toContain(stop!.request_id);
    expect(await done(id)).toEqual(['stop']);
  });

  test('an accepted start that fails there', async () => {
    if (!(await cloud.hasAnchorDriver())) return;
    const id = await cloud.active({ metadata: { anchor_power_on: 'fail' } });
    expect(await failureOf(await start(id))).toMatchObject({
      type: 'InstanceRecoveryFailed',
      details: { step: 'start', state: { vmState: 'stopped' } },
    });
    expect(await done(id)).toEqual(['stop', 'start']);
  });

  test('a hard reboot that fails there with the guest gone: ERROR, with Nova’s fault', async () => {
    if (!(await cloud.hasAnchorDriver())) return;
    const id = await cloud.active({ metadata: { anchor_reboot: 'fail' } });
    await cloud.take(id, { pause: null }, 'PAUSED');
    const handle = await start(id, { policy: { paused: 'restart' }, timeouts: { start: '20s' } });
    // Its fake guest is not gone, so Nova may take the reboot for done: either way the outcome is Nova's own.
    const outcome = await handle.result().catch((error: unknown) => error);
    const { status } = await cloud.owner.look(id);
    if (status === 'ACTIVE') expect(outcome).toMatchObject({ path: 'hard-reboot', after: RUNNING });
    else expect(outcome).toBeInstanceOf(WorkflowFailedError);
  });

  test('a guest that ends again as soon as it is started is not confirmed', async () => {
    if (!(await cloud.hasAnchorDriver())) return;
    const id = await cloud.active({ metadata: { anchor_power: 'shutdown' } });
    const failure = await failureOf(await start(id, { timeouts: { start: '3s' } }));
    expect(failure).toMatchObject({ type: 'InstanceRecoveryFailed', details: { step: 'start' } });
  });
});

test('cancelled after the stop was sent: the server is started again first', async () => {
  if (!(await cloud.hasAnchorDriver())) return;
  const id = await cloud.active({ metadata: { anchor_power_off_seconds: '3' } });
  const handle = await start(id);
  await until('the stop is sent', async () =>
    (await progress(handle)).state?.taskState === 'powering-off' ? true : undefined,
  );
  await handle.cancel();
  const error: unknown = await handle.result().catch((reason: unknown) => reason);
  expect((error as WorkflowFailedError).cause).toBeInstanceOf(CancelledFailure);
  expect(await cloud.owner.look(id)).toMatchObject({ status: 'ACTIVE', taskState: null, powerState: 1 });
  expect(await done(id)).toEqual(['stop', 'start']);
});
