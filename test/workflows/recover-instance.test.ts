import { randomUUID } from 'node:crypto';
import { WorkflowFailedError, CancelledFailure, type WorkflowHandle } from '@temporalio/client';
import { startRecoverInstance, type RecoverInstanceInput } from '../../src/client';
import { eventually, FAST, failureOf, progress, TestBed } from '../support/bed';

let bed: TestBed;
let admin: TestBed;
beforeAll(async () => {
  bed = await TestBed.make({
    buildSeconds: 0,
    actionSeconds: 0.15,
    shelvedOffloadTime: -1,
    reclaimInstanceInterval: 3600,
  });
  // The same cloud for an administrator, on a task queue of its own.
  admin = await bed.beside('admin');
});
afterEach(() => bed.cloud.clearFaults());
afterAll(async () => {
  await admin.stopWorkers();
  await bed.stop();
});

/** An ACTIVE server of the project's, made by hand. */
async function active(extra: Record<string, unknown> = {}): Promise<string> {
  const { serverId } = await (await bed.create({ server: bed.server(extra) })).result();
  return serverId;
}

async function inState(...actions: object[]): Promise<string> {
  const id = await active();
  for (const action of actions) {
    bed.cloud.action(id, action, 'demo');
    await eventually(() => bed.cloud.server(id).taskState === null);
  }
  return id;
}

function recover(instanceId: string, input: Partial<RecoverInstanceInput> & Record<string, unknown> = {}, on = bed) {
  const full = { instanceId, polling: FAST, ...input } as RecoverInstanceInput;
  return startRecoverInstance(bed.client, full, { taskQueue: on.taskQueue });
}

async function recovered(instanceId: string, input: Partial<RecoverInstanceInput> = {}, on = bed) {
  return (await recover(instanceId, input, on)).result();
}

/** What was done to a server since a number of actions, by name. */
const done = (id: string, since = 1) =>
  bed.cloud
    .server(id)
    .actions.slice(since)
    .map(({ action }) => action);
const running = { vmState: 'active', taskState: null, powerState: 'running' };

async function isCancelled(handle: { result(): Promise<unknown> }): Promise<boolean> {
  const error: unknown = await handle.result().catch((reason: unknown) => reason);
  return error instanceof WorkflowFailedError && error.cause instanceof CancelledFailure;
}

describe('the table, row by row', () => {
  test('an instance that Nova does not know is skipped', async () => {
    const id = randomUUID();
    expect(await recovered(id)).toMatchObject({
      instanceId: id,
      outcome: 'skipped',
      path: 'none',
      reason: 'not-found',
      before: null,
      after: null,
      steps: [],
    });
  });

  test('one that is being deleted, or was soft-deleted', async () => {
    const id = await active();
    bed.cloud.setState(id, { taskState: 'deleting' });
    expect(await recovered(id)).toMatchObject({ outcome: 'skipped', reason: 'being-deleted' });
    bed.cloud.setState(id, { vmState: 'soft-delete', taskState: null });
    expect(await recovered(id)).toMatchObject({ outcome: 'skipped', reason: 'being-deleted' });
    bed.cloud.setState(id, { vmState: 'deleted' });
    expect(await recovered(id)).toMatchObject({ outcome: 'skipped', reason: 'not-found' });
  });

  test('HA_Enabled, where it is required', async () => {
    const without = await active();
    const policy = { requireHaEnabled: true };
    expect(await recovered(without, { policy })).toMatchObject({ outcome: 'skipped', reason: 'not-ha-enabled' });
    expect(done(without)).toEqual([]);
    const enabled = await active({ metadata: { HA_Enabled: 'True', ha: 'no' } });
    expect(await recovered(enabled, { policy })).toMatchObject({ outcome: 'recovered' });
    expect(await recovered(enabled, { policy: { ...policy, haEnabledMetadataKey: 'ha' } })).toMatchObject({
      reason: 'not-ha-enabled',
    });
  });

  test('a locked one: skipped by policy, or because this service may not pass the lock; an administrator recovers it', async () => {
    const id = await active();
    bed.cloud.setState(id, { locked: true });
    expect(await recovered(id, { policy: { locked: 'skip' } })).toMatchObject({ outcome: 'skipped', reason: 'locked' });
    const refused = await recovered(id);
    expect(refused).toMatchObject({ outcome: 'skipped', path: 'none', reason: 'locked', steps: [] });
    expect(refused.message).toContain('is locked');
    expect(done(id)).toEqual([]);
    expect(await recovered(id, {}, admin)).toMatchObject({ outcome: 'recovered', path: 'stop-start' });
    expect(done(id)).toEqual(['stop', 'start']);
  });

  test('one that is building', async () => {
    bed.cloud.setTimes({ buildSeconds: Infinity });
    const handle = await bed.create();
    const id = await eventually(async () => (await progress(handle)).serverId ?? undefined);
    bed.cloud.setTimes({ buildSeconds: 0 });
    expect(await recovered(id)).toMatchObject({ outcome: 'skipped', reason: 'building' });
    await handle.terminate();
  });

  test('a shelved one', async () => {
    expect(await recovered(await inState({ shelve: null }))).toMatchObject({ outcome: 'skipped', reason: 'shelved' });
    const offloaded = await active();
    bed.cloud.setState(offloaded, { vmState: 'shelved_offloaded' });
    expect(await recovered(offloaded)).toMatchObject({ outcome: 'skipped', reason: 'shelved' });
  });

  test('a running task is waited for, then it is decided afresh', async () => {
    const id = await active();
    bed.cloud.setState(id, { taskState: 'image_uploading' });
    const handle = await recover(id);
    await eventually(async () => (await progress(handle)).state?.taskState === 'image_uploading');
    expect((await progress(handle)).phase).toBe('deciding');
    bed.cloud.setState(id, { vmState: 'paused', taskState: null });
    expect(await handle.result()).toMatchObject({ outcome: 'skipped', reason: 'paused' });
  });

  test('a task that does not end fails the recovery, step task', async () => {
    const id = await active();
    bed.cloud.setState(id, { taskState: 'image_uploading' });
    const failure = await failureOf(await recover(id, { timeouts: { task: '1s' } }));
    expect(failure).toMatchObject({ type: 'InstanceRecoveryFailed', details: { step: 'task', serverId: id } });
    expect(failure.message).toContain('image_uploading');
  });

  test('a down cell is waited for', async () => {
    const id = await active();
    bed.cloud.setState(id, { downCell: true });
    const handle = await recover(id);
    await eventually(async () => (await progress(handle)).state?.status === 'UNKNOWN');
    bed.cloud.setState(id, { downCell: false });
    expect(await handle.result()).toMatchObject({ outcome: 'recovered' });
  });

  test('one that was started after the failure was noticed is recovered already', async () => {
    const id = await active();
    const generatedTime = new Date().toISOString().replace('Z', '');
    bed.cloud.action(id, { reboot: { type: 'HARD' } }, 'demo');
    await eventually(() => bed.cloud.server(id).taskState === null);
    const notification = { event: 'LIFECYCLE', virDomainEvent: 'STOPPED_FAILED', generatedTime };
    expect(await recovered(id, { notification })).toMatchObject({ outcome: 'skipped', reason: 'already-recovered' });
    // Nova keeps the times of actions in whole seconds: within one, the restart counts as the later of the two.
    const later = { ...notification, generatedTime: new Date(Date.now() + 1_000).toISOString() };
    expect(await recovered(id, { notification: later })).toMatchObject({ outcome: 'recovered' });
  });

  test('a notification that says it was started causes nothing', async () => {
    const id = await active();
    const notification = {
      event: 'LIFECYCLE',
      virDomainEvent: 'STARTED_BOOTED',
      generatedTime: new Date().toISOString(),
    };
    expect(await recovered(id, { notification })).toMatchObject({ outcome: 'skipped', reason: 'already-recovered' });
    expect(done(id)).toEqual([]);
  });

  test('a paused one is skipped with a warning, which is told in the Web UI', async () => {
    const id = await inState({ pause: null });
    const handle = await recover(id);
    expect(await handle.result()).toMatchObject({
      outcome: 'skipped',
      path: 'none',
      reason: 'paused',
      message: expect.stringContaining('left alone'),
      before: { status: 'PAUSED', vmState: 'paused' },
      after: { status: 'PAUSED' },
    });
    expect(done(id)).toEqual(['pause']);
    const { currentDetails } = await handle.query<{ currentDetails: string }>('__temporal_workflow_metadata');
    expect(currentDetails).toContain('⚠ Skipped: The instance is PAUSED and was left alone');
  });

  test('paused=restart ends ACTIVE, paused=restore ends PAUSED again', async () => {
    const restarted = await inState({ pause: null });
    expect(await recovered(restarted, { policy: { paused: 'restart' } })).toMatchObject({
      outcome: 'recovered',
      path: 'hard-reboot',
      reason: 'paused',
      after: running,
    });
    expect(done(restarted)).toEqual(['pause', 'reboot']);
    const restored = await inState({ pause: null });
    expect(await recovered(restored, { policy: { paused: 'restore' } })).toMatchObject({
      outcome: 'recovered',
      message: expect.stringContaining('ran for a while'),
      after: { vmState: 'paused', taskState: null },
      steps: [{ action: 'reboot' }, { action: 'pause' }],
    });
    expect(done(restored)).toEqual(['pause', 'reboot', 'pause']);
  });

  test('a rescued one: skipped, restarted, or rescued again', async () => {
    const id = await inState({ rescue: {} });
    expect(await recovered(id)).toMatchObject({ outcome: 'skipped', reason: 'rescued' });
    expect(await recovered(id, { policy: { rescued: 'restore' } })).toMatchObject({
      outcome: 'recovered',
      path: 'unrescue',
      after: { vmState: 'rescued' },
      message: expect.stringContaining('default rescue image'),
    });
    expect(await recovered(id, { policy: { rescued: 'restart' } })).toMatchObject({ path: 'unrescue', after: running });
    expect(done(id)).toEqual(['rescue', 'unrescue', 'rescue', 'unrescue']);
  });

  test('a suspended one has no process to fail', async () => {
    const id = await inState({ suspend: null });
    expect(await recovered(id)).toMatchObject({ outcome: 'skipped', reason: 'suspended' });
  });

  test('one that a user stopped: skipped, or started by policy', async () => {
    const id = await inState();
    bed.cloud.action(id, { 'os-stop': null }, 'admin');
    await eventually(() => bed.cloud.server(id).taskState === null);
    expect(await recovered(id)).toMatchObject({ outcome: 'skipped', reason: 'stopped-by-user' });
    expect(await recovered(id, { policy: { stoppedByUser: 'start' } })).toMatchObject({
      outcome: 'recovered',
      path: 'start',
      reason: 'stopped-by-user',
      after: running,
    });
  });

  test('one that Nova itself stopped, after its process died, is started', async () => {
    const id = await active();
    bed.cloud.crash(id);
    bed.cloud.runPowerSync();
    await eventually(() => bed.cloud.server(id).vmState === 'stopped');
    expect(await recovered(id)).toMatchObject({ path: 'start', reason: 'instance-failure', after: running });
    expect(done(id)).toEqual(['stop', 'start']);
  });

  test('one that this service itself stopped is started', async () => {
    const id = await inState({ 'os-stop': null });
    expect(await recovered(id)).toMatchObject({ path: 'start', reason: 'instance-failure' });
  });

  test('an active one is stopped and started', async () => {
    const id = await active();
    bed.cloud.crash(id);
    const result = await recovered(id);
    expect(result).toMatchObject({
      outcome: 'recovered',
      path: 'stop-start',
      reason: 'instance-failure',
      before: { vmState: 'active' },
      after: running,
      steps: [{ action: 'stop' }, { action: 'start' }],
    });
    expect(done(id)).toEqual(['stop', 'start']);
  });

  test('one in ERROR is stopped and started', async () => {
    const id = await active();
    bed.cloud.setState(id, { vmState: 'error' });
    expect(await recovered(id)).toMatchObject({ path: 'stop-start', before: { status: 'ERROR' }, after: running });
  });

  test('a resized one: confirmed, reverted, reset by an administrator, or skipped', async () => {
    const resized = () => inState({ resize: { flavorRef: '2' } });
    expect(await recovered(await resized(), { policy: { resized: 'skip' } })).toMatchObject({
      outcome: 'skipped',
      reason: 'resized',
    });
    const confirmed = await resized();
    expect(await recovered(confirmed, { policy: { resized: 'confirm' } })).toMatchObject({
      path: 'confirm-stop-start',
      after: running,
    });
    expect(done(confirmed)).toEqual(['resize', 'confirmResize', 'stop', 'start']);
    const reverted = await resized();
    expect(await recovered(reverted, { policy: { resized: 'revert' } })).toMatchObject({
      path: 'revert',
      after: running,
    });
    const reset = await resized();
    expect(await recovered(reset, {}, admin)).toMatchObject({
      path: 'reset-stop-start',
      reason: 'resized',
      after: running,
    });
    expect(done(reset)).toEqual(['resize', 'resetState', 'stop', 'start']);
  });

  test('what needs an administrator and was refused says which policy was missing', async () => {
    const id = await inState({ resize: { flavorRef: '2' } });
    const failure = await failureOf(await recover(id));
    expect(failure).toMatchObject({ type: 'NovaForbidden', details: { step: 'reset-state', httpStatus: 403 } });
    expect(failure.message).toContain('os_compute_api:os-admin-actions:reset_state');
  });

  test('a vm_state that this version does not know fails', async () => {
    const id = await active();
    bed.cloud.setState(id, { vmState: 'teleported' });
    expect(await failureOf(await recover(id))).toMatchObject({ type: 'UnknownServerStatus' });
  });
});

describe('a dry run', () => {
  test.each([
    ['active', [], 'stop-start', 'instance-failure'],
    ['paused', [{ pause: null }], 'none', 'paused'],
    ['suspended', [{ suspend: null }], 'none', 'suspended'],
  ])('of a server that is %s says what would be done, and does nothing', async (_state, actions, path, reason) => {
    const id = await inState(...actions);
    const before = bed.cloud.server(id).actions.length;
    expect(await recovered(id, { dryRun: true })).toMatchObject({
      outcome: 'planned',
      path,
      reason,
      after: null,
      steps: [],
    });
    expect(bed.cloud.server(id).actions).toHaveLength(before);
  });
});

describe('duplicates', () => {
  test('20 starts within a moment are one stop and one start', async () => {
    const id = await active();
    const notification = { event: 'LIFECYCLE', generatedTime: new Date().toISOString() };
    const handles = await Promise.all(Array.from({ length: 20 }, () => recover(id, { notification })));
    const results = await Promise.all(handles.map((handle) => handle.result()));
    expect(new Set(results.map(({ outcome }) => outcome))).toEqual(new Set(['recovered']));
    expect(done(id)).toEqual(['stop', 'start']);
  });

  test('a notification of a failure after our restart recovers it again', async () => {
    const id = await active();
    const handle = await recover(id);
    await eventually(() => done(id).includes('start'));
    await recover(id, {
      notification: { event: 'LIFECYCLE', generatedTime: new Date(Date.now() + 1_000).toISOString() },
    });
    await handle.result();
    expect(done(id)).toEqual(['stop', 'start', 'stop', 'start']);
  });

  test('notifications that our own stop and start give rise to cause nothing', async () => {
    const id = await active();
    const handle = await recover(id);
    const notify = (virDomainEvent: string) =>
      recover(id, { notification: { event: 'LIFECYCLE', virDomainEvent, generatedTime: new Date().toISOString() } });
    await eventually(() => bed.cloud.server(id).taskState === 'powering-off');
    await notify('STOPPED_SHUTDOWN');
    await eventually(() => done(id).includes('start'));
    await notify('STARTED_BOOTED');
    await handle.result();
    expect(done(id)).toEqual(['stop', 'start']);
  });

  test('a notification whose clock is ahead of ours is recovered once', async () => {
    const id = await active();
    const generatedTime = new Date(Date.now() + 60_000).toISOString();
    expect(await recovered(id, { notification: { event: 'LIFECYCLE', generatedTime } })).toMatchObject({
      outcome: 'recovered',
    });
    expect(done(id)).toEqual(['stop', 'start']);
  });

  test('a notification that is none is ignored', async () => {
    const id = await active();
    const handle = await recover(id);
    for (const nonsense of [null, 5, 'x', { event: 1 }, { generatedTime: 'noon' }])
      await handle.signal('notified', nonsense);
    expect(await handle.result()).toMatchObject({ outcome: 'recovered' });
  });
});

describe('refusals and surprises', () => {
  const conflict = (message: string) => ({ status: 409, body: { conflictingRequest: { code: 409, message } } });

  test('409 because Nova’s own power sync was faster: go on', async () => {
    const id = await active();
    bed.cloud.inject({
      method: 'POST',
      path: new RegExp(`${id}/action`),
      match: () => {
        bed.cloud.setState(id, { vmState: 'stopped', taskState: null, powerState: 4 });
        return true;
      },
      answer: conflict(`Cannot 'stop' instance ${id} while it is in vm_state stopped`),
    });
    expect(await recovered(id)).toMatchObject({ outcome: 'recovered', path: 'stop-start', after: running });
    expect(done(id)).toEqual(['start']);
  });

  test('409 because Nova stops it just now: its end is waited for', async () => {
    const id = await active();
    bed.cloud.inject({
      method: 'POST',
      path: new RegExp(`${id}/action`),
      match: () => {
        bed.cloud.setState(id, { taskState: 'powering-off' });
        return true;
      },
      answer: conflict(`Cannot 'stop' instance ${id} while it is in task_state powering-off`),
    });
    const handle = await recover(id);
    await eventually(async () => (await progress(handle)).state?.taskState === 'powering-off');
    bed.cloud.setState(id, { vmState: 'stopped', taskState: null, powerState: 4 });
    expect(await handle.result()).toMatchObject({ outcome: 'recovered', after: running });
  });

  test('409 because it was paused meanwhile: decided afresh', async () => {
    const id = await active();
    bed.cloud.inject({
      method: 'POST',
      path: new RegExp(`${id}/action`),
      match: () => {
        bed.cloud.setState(id, { vmState: 'paused', powerState: 3 });
        return true;
      },
      answer: conflict(`Cannot 'stop' instance ${id} while it is in vm_state paused`),
    });
    expect(await recovered(id)).toMatchObject({ outcome: 'skipped', reason: 'paused', path: 'none' });
  });

  test('409 again and again ends with Nova’s words, after three decisions afresh', async () => {
    const id = await active();
    const refused = bed.cloud.inject({
      method: 'POST',
      path: new RegExp(`${id}/action`),
      times: Infinity,
      answer: conflict(`Instance ${id} is not ready`),
    });
    const failure = await failureOf(await recover(id));
    expect(failure).toMatchObject({ type: 'NovaConflict', details: { step: 'stop', httpStatus: 409 } });
    expect(failure.message).toContain('is not ready');
    expect(refused.hits).toBe(4);
  });

  test('404 to an action is no proof that it is gone', async () => {
    const id = await active();
    const body = { itemNotFound: { code: 404, message: `Instance ${id} could not be found.` } };
    bed.cloud.inject({ method: 'POST', path: new RegExp(`${id}/action`), answer: { status: 404, body } });
    expect(await recovered(id)).toMatchObject({ outcome: 'recovered' });
  });

  test('gone before anything was changed is a skip, gone half-way a failure', async () => {
    const first = await active();
    bed.cloud.inject({
      method: 'POST',
      path: new RegExp(`${first}/action`),
      match: () => (bed.cloud.forget(first), false),
    });
    expect(await recovered(first)).toMatchObject({ outcome: 'skipped', reason: 'not-found' });
    const second = await active();
    const handle = await recover(second);
    await eventually(() => done(second).includes('stop'));
    bed.cloud.forget(second);
    expect(await failureOf(handle)).toMatchObject({
      type: 'ServerNotFound',
      details: { serverId: second, step: 'stop' },
    });
  });

  test('deleted between stop and start is a failure too, not a skip', async () => {
    const id = await active();
    bed.cloud.inject({
      method: 'POST',
      path: new RegExp(`${id}/action`),
      match: ({ body }) => {
        if (!body.includes('os-start')) return false;
        bed.cloud.setState(id, { taskState: 'deleting' });
        return true;
      },
      answer: conflict(`Cannot 'start' instance ${id} while it is in task_state deleting`),
    });
    expect(await failureOf(await recover(id))).toMatchObject({ type: 'ServerNotFound', details: { serverId: id } });
  });

  test.each([
    ['stop', 'stop', ['stop']],
    ['start', 'start', ['stop', 'start']],
  ])('an accepted %s that failed on the host fails at once', async (action, step, actions) => {
    const id = await active();
    bed.cloud.failAction(id, action);
    const began = Date.now();
    const failure = await failureOf(await recover(id));
    expect(Date.now() - began).toBeLessThan(15_000);
    expect(failure).toMatchObject({ type: 'InstanceRecoveryFailed', details: { step } });
    expect(failure.message).toMatch(/accepted.*failed on the host.*says Error/);
    expect(done(id)).toEqual(actions);
  });

  test.each(['stop', 'start'])('ERROR after %s fails at once, with Nova’s fault', async (action) => {
    const id = await active();
    const handle = await recover(id);
    await eventually(() => done(id).includes(action));
    bed.cloud.setState(id, { vmState: 'error', taskState: null, fault: { code: 500, message: 'libvirtError: gone' } });
    const failure = await failureOf(handle);
    expect(failure).toMatchObject({ type: 'InstanceRecoveryFailed', details: { step: action, fault: { code: 500 } } });
    expect(failure.message).toContain('libvirtError: gone');
  });

  test('a power state that lags is waited for', async () => {
    const id = await active();
    const handle = await recover(id);
    await eventually(() => done(id).includes('start'));
    bed.cloud.setState(id, { vmState: 'active', taskState: null, powerState: 4 });
    await eventually(async () => {
      const { state } = await progress(handle);
      return state?.vmState === 'active' && state.powerState === 'shutdown';
    });
    expect((await handle.describe()).status.name).toBe('RUNNING');
    bed.cloud.setState(id, { powerState: 1 });
    expect(await handle.result()).toMatchObject({ outcome: 'recovered', after: running });
  });

  test('a reboot that leaves it as it was, without a word of an error, fails at its own timeout', async () => {
    const id = await inState({ pause: null });
    const handle = await recover(id, { policy: { paused: 'restart' }, timeouts: { start: '1s' } });
    await eventually(() => done(id).includes('reboot'));
    bed.cloud.setState(id, { vmState: 'paused', taskState: null });
    expect(await failureOf(handle)).toMatchObject({
      type: 'InstanceRecoveryFailed',
      details: { step: 'reboot', state: { vmState: 'paused' } },
    });
  });

  test('a stop that does not end fails at its own timeout', async () => {
    const id = await active();
    bed.cloud.setTimes({ actionSeconds: 60 });
    try {
      const failure = await failureOf(await recover(id, { timeouts: { stop: '1s' } }));
      expect(failure).toMatchObject({
        type: 'InstanceRecoveryFailed',
        details: { step: 'stop', state: { taskState: 'powering-off' } },
      });
    } finally {
      bed.cloud.setTimes({ actionSeconds: 0.15 });
    }
  });
});

describe('a Nova behind a proxy that drops the request id of an answer', () => {
  const dropped = (id: string) =>
    bed.cloud.inject({
      method: 'POST',
      path: new RegExp(`${id}/action`),
      times: Infinity,
      carriedOut: true,
      answer: { status: 202 },
    });

  test('is stopped and started once', async () => {
    const id = await active();
    dropped(id);
    expect(await recovered(id)).toMatchObject({ outcome: 'recovered' });
    expect(done(id)).toEqual(['stop', 'start']);
  });

  test('and an action that fails on the host is known to be ours', async () => {
    const id = await active();
    dropped(id);
    bed.cloud.failAction(id, 'stop');
    expect(await failureOf(await recover(id))).toMatchObject({
      type: 'InstanceRecoveryFailed',
      details: { step: 'stop' },
    });
    expect(done(id)).toEqual(['stop']);
  });
});

test('a reverted resize whose power state lags is only confirmed', async () => {
  const id = await inState({ resize: { flavorRef: '2' } });
  const handle = await recover(id, { policy: { resized: 'revert' } });
  await eventually(() => done(id).includes('revertResize'));
  bed.cloud.setState(id, { vmState: 'active', taskState: null, powerState: 0 });
  await eventually(async () => (await progress(handle)).phase === 'starting');
  bed.cloud.setState(id, { powerState: 1 });
  expect(await handle.result()).toMatchObject({ path: 'revert', after: running, steps: [{ action: 'revert-resize' }] });
  expect(done(id)).toEqual(['resize', 'revertResize']);
});

describe('answers that are lost', () => {
  test.each(['os-stop', 'os-start'])('of %s, carried out: it is not sent again', async (key) => {
    const id = await active();
    bed.cloud.inject({
      method: 'POST',
      path: new RegExp(`${id}/action`),
      match: ({ body }) => body.includes(key),
      carriedOut: true,
      reset: true,
    });
    const result = await recovered(id);
    expect(result.outcome).toBe('recovered');
    expect(done(id)).toEqual(['stop', 'start']);
    expect(result.steps.find(({ note }) => note)?.note).toContain('answer was lost');
  });

  test.each(['os-stop', 'os-start'])('of %s, never carried out: it is sent after looking', async (key) => {
    const id = await active();
    bed.cloud.inject({
      method: 'POST',
      path: new RegExp(`${id}/action`),
      match: ({ body }) => body.includes(key),
      answer: { status: 503 },
    });
    expect(await recovered(id)).toMatchObject({ outcome: 'recovered' });
    expect(done(id)).toEqual(['stop', 'start']);
  });

  test('Nova away for a while: nothing fails, nothing is done twice', async () => {
    const id = await active();
    const handle = await recover(id);
    await eventually(() => done(id).includes('stop'));
    const away = bed.cloud.inject({
      service: 'compute',
      path: new RegExp(id),
      times: Infinity,
      answer: { status: 503 },
    });
    await eventually(() => away.hits > 2);
    away.remove();
    expect(await handle.result()).toMatchObject({ outcome: 'recovered' });
    expect(done(id)).toEqual(['stop', 'start']);
  });
});

describe('cancellation', () => {
  test('before the first change ends at once', async () => {
    const id = await active();
    bed.cloud.setState(id, { taskState: 'image_uploading' });
    const handle = await recover(id);
    await eventually(async () => (await progress(handle)).state?.taskState === 'image_uploading');
    await handle.cancel();
    expect(await isCancelled(handle)).toBe(true);
    expect(done(id)).toEqual([]);
  });

  test('after the stop: the instance is started again first', async () => {
    const id = await active();
    bed.cloud.setTimes({ actionSeconds: 1 });
    const handle = await recover(id);
    await eventually(() => bed.cloud.server(id).taskState === 'powering-off');
    await handle.cancel();
    expect(await isCancelled(handle)).toBe(true);
    bed.cloud.setTimes({ actionSeconds: 0.15 });
    expect(done(id)).toEqual(['stop', 'start']);
    expect(bed.cloud.server(id)).toMatchObject({ vmState: 'active', taskState: null });
  });

  test('after a stop, while it is decided afresh: it is started again all the same', async () => {
    const id = await active();
    bed.cloud.inject({
      method: 'POST',
      path: new RegExp(`${id}/action`),
      match: ({ body }) => {
        if (!body.includes('os-start')) return false;
        bed.cloud.setState(id, { taskState: 'image_uploading' });
        return true;
      },
      answer: { status: 409, body: { conflictingRequest: { code: 409, message: 'busy' } } },
    });
    const handle = await recover(id);
    await eventually(async () => (await progress(handle)).state?.taskState === 'image_uploading');
    await handle.cancel();
    await eventually(async () => (await progress(handle)).phase === 'starting');
    bed.cloud.setState(id, { taskState: null });
    expect(await isCancelled(handle)).toBe(true);
    expect(done(id)).toEqual(['stop', 'start']);
    expect(bed.cloud.server(id)).toMatchObject({ vmState: 'active', taskState: null });
  });

  test('in the middle of a stop whose answer is late', async () => {
    const id = await active();
    const slow = bed.cloud.inject({
      method: 'POST',
      path: new RegExp(`${id}/action`),
      carriedOut: true,
      delaySeconds: 1,
    });
    const handle = await recover(id);
    await eventually(() => slow.hits === 1);
    await handle.cancel();
    expect(await isCancelled(handle)).toBe(true);
    expect(done(id)).toEqual(['stop', 'start']);
    expect(bed.cloud.server(id)).toMatchObject({ vmState: 'active', taskState: null });
  });
});

describe('messages', () => {
  test('extendTimeout moves the current step’s deadline, wake looks at once', async () => {
    const id = await active();
    bed.cloud.setState(id, { taskState: 'image_uploading' });
    const handle: WorkflowHandle = await recover(id, { polling: { initialInterval: '1h', maximumInterval: '1h' } });
    await eventually(async () => (await progress(handle)).state?.taskState === 'image_uploading');
    const before = (await progress(handle)).deadline ?? '';
    const after = await handle.executeUpdate<string, [string]>('extendTimeout', { args: ['10m'] });
    expect(Date.parse(after) - Date.parse(before)).toBe(600_000);
    bed.cloud.setState(id, { vmState: 'suspended', taskState: null });
    await handle.signal('wake');
    expect(await handle.result()).toMatchObject({ reason: 'suspended' });
    expect(await progress(handle)).toMatchObject({ phase: 'done', serverId: id, state: { vmState: 'suspended' } });
  });
});

describe('wrong input fails the workflow at once, and says which field', () => {
  const instanceId = '5f2a6ac8-5f5a-4bb4-9c5b-5d9a3a4a5e0b';
  test.each<[string, unknown, string]>([
    ['nothing', undefined, 'the input'],
    ['no instance', {}, 'instanceId'],
    ['an instance that is no UUID', { instanceId: 'web-1' }, 'instanceId'],
    ['an unknown key', { instanceId, force: true }, 'force'],
    ['a notification without event', { instanceId, notification: {} }, 'notification.event'],
    [
      'a time that is none',
      { instanceId, notification: { event: 'x', generatedTime: 'noon' } },
      'notification.generatedTime',
    ],
    ['an unknown policy', { instanceId, policy: { pause: 'skip' } }, 'policy.pause'],
    ['a choice that is none', { instanceId, policy: { paused: 'stop' } }, 'policy.paused'],
    ['a flag that is none', { instanceId, policy: { requireHaEnabled: 'yes' } }, 'policy.requireHaEnabled'],
    ['a timeout', { instanceId, timeouts: { stop: 0 } }, 'timeouts.stop'],
    ['an unknown timeout', { instanceId, timeouts: { reboot: '1m' } }, 'timeouts.reboot'],
    ['null timeouts', { instanceId, timeouts: null }, 'timeouts'],
    ['dryRun', { instanceId, dryRun: 1 }, 'dryRun'],
  ])('%s', async (_name, input, words) => {
    const handle = await bed.client.workflow.start('RecoverInstanceWorkflow', {
      workflowId: `invalid-${randomUUID()}`,
      taskQueue: bed.taskQueue,
      args: input === undefined ? [] : [input],
    });
    const failure = await failureOf(handle);
    expect(failure).toMatchObject({ type: 'InvalidInput', nonRetryable: true });
    expect(failure.message).toContain(words);
  });
});
