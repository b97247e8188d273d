import { WorkflowFailedError, WorkflowUpdateFailedError } from '@temporalio/client';
import { CancelledFailure, type WorkflowHandle } from '@temporalio/client';
import { creationTag } from '../../src/activities/creation';
import { eventually, failureOf, progress, serverIdOf, TestBed } from '../support/bed';

let bed: TestBed;
beforeAll(async () => {
  bed = await TestBed.make({ buildSeconds: Infinity, actionSeconds: 0 });
});
afterEach(() => {
  bed.cloud.clearFaults();
  bed.cloud.setTimes({ buildSeconds: Infinity });
});
afterAll(() => bed.stop());

const serversNamed = (name: string) => bed.cloud.servers().filter((server) => server.name === name);

/** The id of a server that the workflow waits for; it has been seen by the workflow. */
async function building(handle: WorkflowHandle): Promise<string> {
  const id = await serverIdOf(handle);
  await eventually(async () => (await progress(handle)).state?.status === 'BUILD');
  return id;
}

async function isCancelled(handle: WorkflowHandle): Promise<boolean> {
  const error: unknown = await handle.result().catch((reason: unknown) => reason);
  return error instanceof WorkflowFailedError && error.cause instanceof CancelledFailure;
}

describe('a server that comes up', () => {
  test('is ACTIVE, and the result says what a service wants to know', async () => {
    bed.cloud.setTimes({ buildSeconds: 0.5 });
    const handle = await bed.create({ server: bed.server({ tags: ['mine'], networks: 'none' }) });
    const result = await handle.result();
    expect(result).toMatchObject({ name: 'web-1', status: 'ACTIVE', host: null, attempts: 1, addresses: {} });
    expect(result.observations.map(({ status }) => status)).toEqual(expect.arrayContaining(['BUILD', 'ACTIVE']));
    expect(bed.cloud.server(result.serverId)).toMatchObject({ status: 'ACTIVE', name: 'web-1' });
  });

  test('keeps the caller’s tags beside the creation’s own', async () => {
    bed.cloud.setTimes({ buildSeconds: 0 });
    const handle = await bed.create({ server: bed.server({ tags: ['mine', 'yours'] }) });
    const { serverId } = await handle.result();
    const tag = creationTag({
      namespace: bed.temporal.namespace,
      workflowId: handle.workflowId,
      firstRunId: handle.firstExecutionRunId,
      attempt: 1,
    });
    expect(bed.cloud.server(serverId).tags.sort()).toEqual(['mine', tag, 'yours'].sort());
    expect(tag).toMatch(/^[^,/]{1,60}$/);
  });

  test('takes few history events: a build of seconds is one watch', async () => {
    bed.cloud.setTimes({ buildSeconds: 3 });
    const handle = await bed.create({ polling: undefined });
    await handle.result();
    expect((await handle.fetchHistory()).events?.length).toBeLessThanOrEqual(20);
  });

  test('passes scheduler hints on', async () => {
    const bodies: string[] = [];
    const spy = { method: 'POST', path: /\/servers$/, match: ({ body }: { body: string }) => bodies.push(body) < 0 };
    bed.cloud.inject(spy);
    bed.cloud.setTimes({ buildSeconds: 0 });
    const handle = await bed.create({ schedulerHints: { group: '5f2a6ac8-5f5a-4bb4-9c5b-5d9a3a4a5e0b' } });
    await handle.result();
    expect(JSON.parse(bodies[0] ?? '')).toMatchObject({
      'os:scheduler_hints': { group: '5f2a6ac8-5f5a-4bb4-9c5b-5d9a3a4a5e0b' },
    });
  });

  test('shows its host to who may see it', async () => {
    const admin = await TestBed.make({ buildSeconds: 0, user: 'admin' });
    try {
      const { serverId, host } = await (await admin.create()).result();
      expect(host).toBe(admin.cloud.server(serverId).host);
    } finally {
      await admin.stop();
    }
  });

  test('a new start of an ended workflow’s id creates anew', async () => {
    bed.cloud.setTimes({ buildSeconds: 0 });
    const first = await (await bed.create({}, `again-${bed.taskQueue}`)).result();
    const second = await (await bed.create({}, `again-${bed.taskQueue}`)).result();
    expect(second.serverId).not.toBe(first.serverId);
  });
});

describe('the status table', () => {
  /** Statuses to wait on, and the states that Nova shows them for. */
  const WAITED = {
    BUILD: { vmState: 'building', taskState: 'networking', powerState: 4 },
    HARD_REBOOT: { vmState: 'active', taskState: 'rebooting_hard' },
    PASSWORD: { vmState: 'active', taskState: 'updating_password' },
    REBOOT: { vmState: 'active', taskState: 'rebooting' },
    RESCUE: { vmState: 'rescued', taskState: null },
    RESIZE: { vmState: 'active', taskState: 'resize_prep' },
    REVERT_RESIZE: { vmState: 'resized', taskState: 'resize_reverting' },
    SHUTOFF: { vmState: 'stopped', taskState: null },
    SUSPENDED: { vmState: 'suspended', taskState: null },
    VERIFY_RESIZE: { vmState: 'resized', taskState: null },
    MIGRATING: { vmState: 'active', taskState: 'migrating' },
    REBUILD: { vmState: 'active', taskState: 'rebuilding' },
  };

  test.each(Object.entries(WAITED))('%s is waited on, until ACTIVE', async (status, state) => {
    const handle = await bed.create();
    const id = await building(handle);
    bed.cloud.setState(id, state);
    await eventually(async () => {
      const seen = (await progress(handle)).state;
      return seen?.status === status && seen.taskState === state.taskState;
    });
    bed.cloud.setState(id, { vmState: 'active', taskState: null, powerState: 1 });
    const { observations } = await handle.result();
    expect(observations.map((observation) => observation.status)).toContain(status);
    expect(observations.at(-1)).toMatchObject({ status: 'ACTIVE', vmState: 'active', powerState: 'running' });
  });

  test.each([
    ['PAUSED', { vmState: 'paused', taskState: null }, 'UnknownServerStatus'],
    ['SHELVED', { vmState: 'shelved', taskState: null }, 'UnknownServerStatus'],
    ['SHELVED_OFFLOADED', { vmState: 'shelved_offloaded', taskState: null }, 'UnknownServerStatus'],
    ['UNKNOWN', { status: 'UNKNOWN' }, 'UnknownServerStatus'],
    ['TELEPORTING', { status: 'TELEPORTING(far)' }, 'UnknownServerStatus'],
    ['DELETED', { status: 'DELETED' }, 'ServerNotFound'],
    ['SOFT_DELETED', { vmState: 'soft-delete', taskState: null }, 'ServerNotFound'],
  ])('%s ends the wait', async (status, state, type) => {
    const handle = await bed.create();
    const id = await building(handle);
    bed.cloud.setState(id, state);
    const failure = await failureOf(handle);
    expect(failure).toMatchObject({ type, nonRetryable: true, details: { serverId: id, state: { status } } });
    expect(failure.message).toContain(id);
    expect(failure.message).toContain(status);
  });

  test('ERROR fails at once, with Nova’s fault', async () => {
    const handle = await bed.create();
    const id = await building(handle);
    bed.cloud.failBuild(id, { code: 500, message: 'No valid host was found. ' });
    const failure = await failureOf(handle);
    expect(failure).toMatchObject({
      type: 'ServerInError',
      nonRetryable: true,
      details: { serverId: id, state: { status: 'ERROR', vmState: 'error' }, fault: { code: 500 } },
    });
    expect(failure.message).toBe(`The server ${id} went to ERROR. Nova's fault 500: No valid host was found.`);
  });

  test('404 to two looks in a row is a server gone; one 404 is not', async () => {
    const handle = await bed.create();
    const id = await building(handle);
    const once = bed.cloud.inject({ method: 'GET', path: new RegExp(id), answer: { status: 404, body: '{}' } });
    await eventually(() => once.hits === 1);
    await eventually(() => bed.cloud.requests.filter(({ path }) => path.includes(id)).at(-1)?.status === 200);
    expect((await handle.describe()).status.name).toBe('RUNNING');
    bed.cloud.forget(id);
    expect(await failureOf(handle)).toMatchObject({ type: 'ServerNotFound', details: { serverId: id } });
  });

  test('a status with something appended is the status', async () => {
    const handle = await bed.create();
    const id = await building(handle);
    bed.cloud.setState(id, { status: 'REBOOT(rebooting)' });
    await eventually(async () => (await progress(handle)).state?.status === 'REBOOT');
    bed.cloud.setState(id, { status: 'ACTIVE(none)' });
    expect((await handle.result()).status).toBe('ACTIVE');
  });

  test('a status named as transient is waited on', async () => {
    const handle = await bed.create({ transientStatuses: ['PAUSED', 'TELEPORTING'] });
    const id = await building(handle);
    for (const state of [{ vmState: 'paused', taskState: null }, { status: 'TELEPORTING' }]) {
      bed.cloud.setState(id, state);
      const status = state.status ?? 'PAUSED';
      await eventually(async () => (await progress(handle)).state?.status === status);
    }
    bed.cloud.setState(id, { status: 'ACTIVE' });
    await handle.result();
  });

  test('a server in a down cell is waited on', async () => {
    const handle = await bed.create();
    const id = await building(handle);
    bed.cloud.setState(id, { downCell: true });
    await eventually(async () => (await progress(handle)).state?.status === 'UNKNOWN');
    bed.cloud.setState(id, { downCell: false, vmState: 'active', taskState: null });
    expect((await handle.result()).status).toBe('ACTIVE');
  });
});

describe('what Nova refuses fails at once, in its own words', () => {
  test.each([
    [
      'QuotaExceeded',
      403,
      {
        forbidden: {
          code: 403,
          message: 'Quota exceeded for instances: Requested 1, but already used 1 of 1 instances',
        },
      },
      'Quota exceeded for instances',
    ],
    [
      'NovaForbidden',
      403,
      { forbidden: { code: 403, message: "Policy doesn't allow os_compute_api:servers:create to be performed." } },
      'servers:create',
    ],
    ['NovaBadRequest', 400, { badRequest: { code: 400, message: 'Flavor nope could not be found.' } }, 'Flavor nope'],
    ['NovaBadRequest', 422, { x: { code: 422, message: 'Unprocessable' } }, 'Unprocessable'],
    [
      'NovaNotFound',
      404,
      { itemNotFound: { code: 404, message: 'The resource could not be found.' } },
      'could not be found',
    ],
    ['NovaConflict', 409, { conflictingRequest: { code: 409, message: 'Port 1 is still in use.' } }, 'still in use'],
  ])('%s (%i)', async (type, status, body, words) => {
    bed.cloud.inject({
      method: 'POST',
      path: /\/servers$/,
      answer: { status, body, headers: { 'X-Openstack-Request-Id': 'req-1' } },
    });
    const failure = await failureOf(await bed.create({ onFailure: 'delete' }));
    expect(failure).toMatchObject({
      type,
      nonRetryable: true,
      details: { serverId: null, httpStatus: status, requestId: 'req-1' },
    });
    expect(failure.message).toContain(words);
  });

  test('NovaUnauthorized, when a fresh token does not help either', async () => {
    bed.cloud.inject({ method: 'POST', path: /\/servers$/, times: 2, answer: { status: 401 } });
    expect(await failureOf(await bed.create())).toMatchObject({
      type: 'NovaUnauthorized',
      details: { httpStatus: 401 },
    });
  });

  test('a 401 alone costs nothing but a fresh token', async () => {
    bed.cloud.setTimes({ buildSeconds: 0 });
    bed.cloud.inject({ method: 'POST', path: /\/servers$/, answer: { status: 401 } });
    expect((await (await bed.create()).result()).status).toBe('ACTIVE');
  });

  test('what the server object held back stays out of the failure', async () => {
    const userData = Buffer.from('#cloud-config: planted-secret').toString('base64');
    const server = { ...bed.server({ user_data: userData, adminPass: 'planted-password' }), name: undefined };
    const failure = await failureOf(await bed.create({ server: server as never }));
    expect(failure.type).toBe('NovaBadRequest');
    expect(failure.message).toContain("'name' is a required property");
    expect(JSON.stringify(failure)).not.toContain(userData);
    expect(JSON.stringify(failure)).not.toContain('planted-password');
  });
});

describe('exactly one server', () => {
  const html = { status: 502, headers: { 'Content-Type': 'text/html' }, body: '<html>Bad Gateway</html>' };
  const LOST = {
    'a 502 from a proxy': { answer: html },
    'a 504 with nothing': { answer: { status: 504 } },
    'a 500': { answer: { status: 500, body: { computeFault: { code: 500, message: 'Unexpected API Error.' } } } },
    'a 408': { answer: { status: 408 } },
    'a 202 that is not JSON': { answer: { status: 202, body: 'OK' } },
    'a 202 without the server': { answer: { status: 202, body: {} } },
    'a reset connection': { reset: true },
  };

  test.each(Object.entries(LOST))('%s after the server was made: it is adopted', async (_what, fault) => {
    bed.cloud.setTimes({ buildSeconds: 0 });
    const name = `lost-${Math.random()}`;
    const { remaining } = bed.cloud.inject({ method: 'POST', path: /\/servers$/, carriedOut: true, ...fault });
    const { serverId } = await (await bed.create({ server: bed.server({ name }) })).result();
    expect(remaining).toBe(1);
    expect(serversNamed(name).map(({ id }) => id)).toEqual([serverId]);
  });

  test('no answer at all, and no server: it is made after two looks at the tag', async () => {
    bed.cloud.setTimes({ buildSeconds: 0 });
    const name = `reset-${Math.random()}`;
    bed.cloud.inject({ method: 'POST', path: /\/servers$/, reset: true });
    bed.cloud.clearRequests();
    const { serverId } = await (await bed.create({ server: bed.server({ name }) })).result();
    expect(serversNamed(name).map(({ id }) => id)).toEqual([serverId]);
    const looks = bed.cloud.requests.filter(({ path }) => path.includes('tags='));
    const posts = bed.cloud.requests.filter(({ method, path }) => method === 'POST' && path.endsWith('/servers'));
    expect(posts).toHaveLength(2);
    const before = looks.filter(({ at }) => at < (posts[1]?.at ?? 0));
    expect(before).toHaveLength(2);
    expect((before[1]?.at ?? 0) - (before[0]?.at ?? 0)).toBeGreaterThanOrEqual(2_000);
  });

  test('refusals for a while (429, 503) end in one server', async () => {
    bed.cloud.setTimes({ buildSeconds: 0 });
    const name = `busy-${Math.random()}`;
    bed.cloud.inject({ method: 'POST', path: /\/servers$/, answer: { status: 429, headers: { 'Retry-After': '1' } } });
    bed.cloud.inject({ method: 'POST', path: /\/servers$/, answer: { status: 503 } });
    const { serverId } = await (await bed.create({ server: bed.server({ name }) })).result();
    expect(serversNamed(name).map(({ id }) => id)).toEqual([serverId]);
  });

  test('a repeated POST that is refused because the first was carried out late: its server is adopted', async () => {
    bed.cloud.setTimes({ buildSeconds: 0 });
    const name = `late-${Math.random()}`;
    bed.cloud.inject({ method: 'POST', path: /\/servers$/, carriedOut: true, answer: { status: 504 } });
    // Not to be found yet by the two looks before the second POST.
    bed.cloud.inject({ path: /tags=/, times: 2, answer: { status: 200, body: { servers: [] } } });
    const body = {
      forbidden: { code: 403, message: 'Quota exceeded for instances: Requested 1, but already used 1 of 1' },
    };
    const refused = bed.cloud.inject({ method: 'POST', path: /\/servers$/, answer: { status: 403, body } });
    const { serverId } = await (await bed.create({ server: bed.server({ name }) })).result();
    expect(refused.hits).toBe(1);
    expect(serversNamed(name).map(({ id }) => id)).toEqual([serverId]);
  });

  test('a workflow that is reset to its beginning goes on with the server it had made', async () => {
    const name = `reset-workflow-${Math.random()}`;
    const handle = await bed.create({ server: bed.server({ name }) });
    const id = await building(handle);
    const { runId } = (await bed.client.workflowService.resetWorkflowExecution({
      namespace: bed.temporal.namespace,
      workflowExecution: { workflowId: handle.workflowId, runId: handle.firstExecutionRunId },
      workflowTaskFinishEventId: 4 as never, // typed as a Long, which a number serves for
      reason: 'test',
      requestId: name,
    })) as { runId?: string };
    const again = bed.client.workflow.getHandle(handle.workflowId, runId);
    expect(await serverIdOf(again)).toBe(id);
    bed.cloud.finishBuild(id);
    expect(await again.result()).toMatchObject({ serverId: id, attempts: 1 });
    expect(serversNamed(name)).toHaveLength(1);
  });

  test('a look-up that is refused does not say that no server was made', async () => {
    const name = `hidden-${Math.random()}`;
    bed.cloud.inject({ method: 'POST', path: /\/servers$/, carriedOut: true, answer: { status: 504 } });
    const hidden = bed.cloud.inject({ path: /tags=/, times: Infinity, answer: { status: 403 } });
    const failure = await failureOf(await bed.create({ server: bed.server({ name }) }));
    expect(failure).toMatchObject({ type: 'NovaForbidden' });
    expect(failure.message).toContain('may have been created');
    expect(hidden.hits).toBeGreaterThan(0);
    expect(serversNamed(name)).toHaveLength(1);
  });

  test('two servers with the tag: nothing more is created or deleted', async () => {
    const name = `twice-${Math.random()}`;
    const request = { method: 'POST', path: /\/servers$/, carriedOut: true, reset: true };
    // The first request is carried out twice, as by a proxy that repeats it.
    bed.cloud.inject(request);
    const handle = await bed.create({ server: bed.server({ name }), onFailure: 'delete' });
    const [first] = await eventually(() => serversNamed(name).length === 1 && serversNamed(name));
    await fetch(`${bed.cloud.computeUrl}/servers`, {
      method: 'POST',
      headers: {
        'X-Auth-Token': await token(),
        'OpenStack-API-Version': 'compute 2.90',
        'Content-Type': 'application/json',
      },
      body: JSON.stringify({ server: bed.server({ name, tags: first?.tags }) }),
    });
    const failure = await failureOf(handle);
    expect(failure.type).toBe('AmbiguousServer');
    for (const { id } of serversNamed(name)) expect(failure.message).toContain(id);
    expect(serversNamed(name)).toHaveLength(2);
  });

  async function token(): Promise<string> {
    const { OS_AUTH_URL, OS_PASSWORD } = bed.cloud.env();
    const domain = { id: 'default' };
    const user = { name: 'demo', domain, password: OS_PASSWORD };
    const answer = await fetch(`${OS_AUTH_URL}/auth/tokens`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({
        auth: { identity: { methods: ['password'], password: { user } }, scope: { project: { name: 'demo', domain } } },
      }),
    });
    return answer.headers.get('X-Subject-Token') ?? '';
  }
});

describe('trouble with Nova while it builds', () => {
  test('is waited out, and told', async () => {
    const handle = await bed.create();
    const id = await building(handle);
    const down = bed.cloud.inject({ method: 'GET', path: new RegExp(id), times: Infinity, answer: { status: 503 } });
    await eventually(() => down.hits > 0);
    const pending = await eventually(async () => {
      const { raw } = await handle.describe();
      return raw.pendingActivities?.find(({ lastFailure }) => lastFailure);
    });
    expect(pending.lastFailure?.message).toMatch(/503.*trying again in \d+ s/);
    down.remove();
    bed.cloud.finishBuild(id);
    expect((await handle.result()).serverId).toBe(id);
  });

  test('does not end it before its own deadline, and is named then', async () => {
    const handle = await bed.create({ timeout: '3s' });
    const id = await building(handle);
    bed.cloud.inject({ method: 'GET', path: new RegExp(id), times: Infinity, answer: { status: 503 } });
    const failure = await failureOf(handle);
    expect(failure).toMatchObject({ type: 'ServerWaitTimeout', details: { serverId: id, state: { status: 'BUILD' } } });
    expect(failure.message).toContain('503');
  });
});

describe('the deadline', () => {
  test('says what was last seen, and keeps the server by default', async () => {
    const handle = await bed.create({ timeout: '2s' });
    const failure = await failureOf(handle);
    expect(failure).toMatchObject({ type: 'ServerWaitTimeout', details: { state: { status: 'BUILD' } } });
    expect(failure.message).toMatch(/did not become ACTIVE within 2 s .*last seen: BUILD/);
    expect(bed.cloud.server(failure.details.serverId ?? '').status).toBe('BUILD');
  });

  test('takes a last look, at which ACTIVE counts', async () => {
    const handle = await bed.create({ timeout: '4s', polling: { initialInterval: '3h', maximumInterval: '3h' } });
    const id = await building(handle);
    bed.cloud.finishBuild(id);
    expect((await handle.result()).serverId).toBe(id);
  });

  test('passes while Nova takes no creation at all: nothing was created', async () => {
    bed.cloud.inject({ method: 'POST', path: /\/servers$/, times: Infinity, answer: { status: 503 } });
    const name = `never-${Math.random()}`;
    const failure = await failureOf(await bed.create({ timeout: '2s', server: bed.server({ name }) }));
    expect(failure).toMatchObject({ type: 'ServerWaitTimeout', details: { serverId: null, state: null } });
    expect(failure.message).toMatch(/was not created within 2 s.*503/);
    expect(serversNamed(name)).toEqual([]);
  });

  test('finds and deletes the server of a POST whose answer never came', async () => {
    const name = `unknown-${Math.random()}`;
    bed.cloud.inject({
      method: 'POST',
      path: /\/servers$/,
      times: Infinity,
      carriedOut: true,
      answer: { status: 504 },
    });
    // Until the deadline, nothing can be looked up either.
    const blind = bed.cloud.inject({ path: /tags=/, times: Infinity, answer: { status: 503 } });
    const handle = await bed.create({ timeout: '2s', onFailure: 'delete', server: bed.server({ name }) });
    await eventually(async () => (await progress(handle)).phase === 'cleaning-up');
    blind.remove();
    const failure = await failureOf(handle);
    expect(failure.type).toBe('ServerWaitTimeout');
    expect(failure.details.serverId).toBeTruthy();
    expect(serversNamed(name)).toEqual([]);
  });

  test('can be extended while the last look is under way', async () => {
    const handle = await bed.create({ timeout: '2s', polling: { initialInterval: '1h', maximumInterval: '1h' } });
    const id = await building(handle);
    const last = bed.cloud.inject({ method: 'GET', path: new RegExp(id), delaySeconds: 2 });
    await eventually(() => last.hits === 1);
    await handle.executeUpdate('extendTimeout', { args: ['1h'] });
    await eventually(() => bed.cloud.requests.at(-1)?.path.includes(id));
    bed.cloud.finishBuild(id);
    await handle.signal('wake');
    expect((await handle.result()).serverId).toBe(id);
  });

  test('takes ACTIVE for an answer also where the id was not known before', async () => {
    bed.cloud.setTimes({ buildSeconds: 0 });
    bed.cloud.inject({
      method: 'POST',
      path: /\/servers$/,
      carriedOut: true,
      answer: { status: 503, headers: { 'Retry-After': '600' } },
    });
    const handle = await bed.create({ timeout: '2s', onFailure: 'delete' });
    const { serverId } = await handle.result();
    expect(bed.cloud.server(serverId).status).toBe('ACTIVE');
  });

  test('can be extended', async () => {
    const handle = await bed.create({ timeout: '3s' });
    const before = (await progress(handle)).deadline ?? '';
    const after = await handle.executeUpdate<string, [string]>('extendTimeout', { args: ['1h'] });
    expect(Date.parse(after) - Date.parse(before)).toBe(3_600_000);
    expect((await progress(handle)).deadline).toBe(after);
    const id = await building(handle);
    await new Promise((resolve) => setTimeout(resolve, 3_500));
    bed.cloud.finishBuild(id);
    expect((await handle.result()).status).toBe('ACTIVE');
  });

  test.each([['nonsense'], [0], [-5], ['11y'], [null], [{}]])('is not extended by %p', async (duration) => {
    const handle = await bed.create();
    await building(handle);
    const refused = handle.executeUpdate('extendTimeout', { args: [duration] });
    await expect(refused).rejects.toThrow(WorkflowUpdateFailedError);
    expect((await handle.describe()).status.name).toBe('RUNNING');
    await handle.terminate();
  });
});

describe('messages', () => {
  test('wake looks at once, in the middle of a long interval', async () => {
    const handle = await bed.create({ polling: { initialInterval: '1h', maximumInterval: '1h' } });
    const id = await building(handle);
    bed.cloud.finishBuild(id);
    await handle.signal('wake');
    expect((await handle.result()).serverId).toBe(id);
  });

  test('wake looks at once, in the middle of a watch', async () => {
    const handle = await bed.create({ polling: { initialInterval: '14s', maximumInterval: '14s' } });
    const id = await building(handle);
    await eventually(
      async () => (await handle.describe()).raw.pendingActivities?.[0]?.activityType?.name === 'novaWatchServer',
    );
    bed.cloud.finishBuild(id);
    const woken = Date.now();
    await handle.signal('wake');
    await handle.result();
    expect(Date.now() - woken).toBeLessThan(5_000);
  });

  test('wake asks Nova again at once, in the middle of a long Retry-After', async () => {
    bed.cloud.setTimes({ buildSeconds: 0 });
    const headers = { 'Retry-After': '600' };
    const busy = bed.cloud.inject({ method: 'POST', path: /\/servers$/, answer: { status: 429, headers } });
    const handle = await bed.create();
    await eventually(() => busy.hits === 1);
    await eventually(async () => (await handle.describe()).raw.pendingActivities?.[0]?.lastFailure);
    await handle.signal('wake');
    expect((await handle.result()).status).toBe('ACTIVE');
  });

  test('progress tells where it stands, also afterwards', async () => {
    const handle = await bed.create();
    const id = await building(handle);
    expect(await progress(handle)).toMatchObject({ phase: 'waiting', serverId: id, state: { status: 'BUILD' } });
    expect(Date.parse((await progress(handle)).deadline ?? '')).toBeGreaterThan(Date.now() + 3_500_000);
    bed.cloud.finishBuild(id);
    const { observations } = await handle.result();
    expect(await progress(handle)).toMatchObject({ phase: 'done', serverId: id, observations });
  });

  test('serverId answers as soon as Nova has given one, before the server is up', async () => {
    const handle = await bed.create();
    const id = await handle.executeUpdate<string, []>('serverId');
    expect(bed.cloud.server(id).status).toBe('BUILD');
    await handle.terminate();
  });

  test('serverId fails as the workflow does, when none comes', async () => {
    bed.cloud.inject({
      method: 'POST',
      path: /\/servers$/,
      delaySeconds: 1,
      answer: { status: 400, body: { badRequest: { code: 400, message: 'No.' } } },
    });
    const handle = await bed.create();
    const error: unknown = await handle.executeUpdate('serverId').catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(WorkflowUpdateFailedError);
    expect((error as WorkflowUpdateFailedError).cause).toMatchObject({ type: 'NovaBadRequest' });
    expect((await failureOf(handle)).type).toBe('NovaBadRequest');
  });

  test('serverId with the start, in one call', async () => {
    const handle = await bed.create({ timeout: 0 } as never);
    const error: unknown = await handle.executeUpdate('serverId').catch((reason: unknown) => reason);
    // The workflow may be over before the update arrives; either way nobody hangs.
    expect(error).toBeInstanceOf(Error);
    expect((await failureOf(handle)).type).toBe('InvalidInput');
  });
});

describe('cancellation', () => {
  test('while it waits: the server is kept by default', async () => {
    const handle = await bed.create();
    const id = await building(handle);
    await handle.cancel();
    expect(await isCancelled(handle)).toBe(true);
    expect(bed.cloud.server(id).status).toBe('BUILD');
  });

  test('while it waits, with deletion: the server is gone', async () => {
    const handle = await bed.create({ onFailure: 'delete' });
    const id = await building(handle);
    await handle.cancel();
    expect(await isCancelled(handle)).toBe(true);
    expect(bed.cloud.server(id).deleted).toBe(true);
  });

  test('in the middle of a POST: it is waited for, and its server deleted', async () => {
    const name = `cancel-post-${Math.random()}`;
    const slow = bed.cloud.inject({ method: 'POST', path: /\/servers$/, delaySeconds: 2 });
    const handle = await bed.create({ onFailure: 'delete', server: bed.server({ name }) });
    await eventually(() => slow.hits === 1);
    await handle.cancel();
    expect(await isCancelled(handle)).toBe(true);
    expect(bed.cloud.servers({ deleted: true }).filter((server) => server.name === name)).toHaveLength(1);
    expect(serversNamed(name)).toEqual([]);
  });

  test('after a POST whose answer was lost: its server is found and deleted', async () => {
    const name = `cancel-lost-${Math.random()}`;
    bed.cloud.inject({
      method: 'POST',
      path: /\/servers$/,
      carriedOut: true,
      answer: { status: 503, headers: { 'Retry-After': '600' } },
    });
    const handle = await bed.create({ onFailure: 'delete', server: bed.server({ name }) });
    await eventually(() => serversNamed(name).length === 1);
    await eventually(async () => (await handle.describe()).raw.pendingActivities?.[0]?.lastFailure);
    await handle.cancel();
    expect(await isCancelled(handle)).toBe(true);
    expect(serversNamed(name)).toEqual([]);
  });

  test('while Nova can’t be had: it does not hang', async () => {
    bed.cloud.inject({ method: 'POST', path: /\/servers$/, times: Infinity, answer: { status: 503 } });
    const handle = await bed.create();
    await eventually(async () => (await handle.describe()).raw.pendingActivities?.[0]?.lastFailure);
    await handle.cancel();
    expect(await isCancelled(handle)).toBe(true);
  });
});

describe('attempts', () => {
  test('another server after ERROR, once the failed one is gone', async () => {
    const name = `attempts-${Math.random()}`;
    const handle = await bed.create({ attempts: 3, server: bed.server({ name }) });
    const first = await building(handle);
    bed.cloud.failBuild(first);
    const second = await eventually(async () => {
      const { serverId } = await progress(handle);
      return serverId !== null && serverId !== first && serverId;
    });
    expect(bed.cloud.server(first).deleted).toBe(true);
    expect(bed.cloud.server(second).tags).not.toEqual(bed.cloud.server(first).tags);
    bed.cloud.finishBuild(second);
    const result = await handle.result();
    expect(result).toMatchObject({ serverId: second, attempts: 2 });
    expect(result.observations.map(({ status }) => status)).toEqual(expect.arrayContaining(['ERROR', 'ACTIVE']));
  });

  test.each(['keep', 'delete'] as const)(
    'the last one’s failure ends it; onFailure: %s',
    async (onFailure) => {
      const handle = await bed.create({
        attempts: 2,
        onFailure,
        server: bed.server({ metadata: { anchor_spawn: 'abort' } }),
      });
      bed.cloud.setTimes({ buildSeconds: 0.2 });
      const { type, details } = await failureOf(handle);
      expect(type).toBe('ServerInError');
      expect(bed.cloud.server(details.serverId ?? '').deleted).toBe(onFailure === 'delete');
    },
    30_000,
  );

  test('no other attempt after anything but ERROR', async () => {
    const handle = await bed.create({ attempts: 3 });
    const id = await building(handle);
    bed.cloud.setState(id, { vmState: 'paused', taskState: null });
    expect(await failureOf(handle)).toMatchObject({ type: 'UnknownServerStatus', details: { serverId: id } });
  });
});

describe('deletion', () => {
  async function failing(): Promise<{ handle: WorkflowHandle; id: string }> {
    const handle = await bed.create({ onFailure: 'delete' });
    return { handle, id: await building(handle) };
  }

  /** The next DELETE of it leaves it in that state. */
  function answerDelete(id: string, state: { vmState: string; taskState: string | null }): void {
    const match = () => {
      bed.cloud.setState(id, state);
      return true;
    };
    bed.cloud.inject({ method: 'DELETE', path: new RegExp(id), match, answer: { status: 204 } });
  }

  test('waits while the server is deleting', async () => {
    const { handle, id } = await failing();
    answerDelete(id, { vmState: 'error', taskState: 'deleting' });
    bed.cloud.failBuild(id);
    await eventually(async () => (await progress(handle)).state?.taskState === 'deleting');
    expect((await handle.describe()).status.name).toBe('RUNNING');
    bed.cloud.forget(id);
    expect((await failureOf(handle)).type).toBe('ServerInError');
  });

  test('SOFT_DELETED counts as gone', async () => {
    const { handle, id } = await failing();
    answerDelete(id, { vmState: 'soft-delete', taskState: null });
    bed.cloud.failBuild(id);
    const { type, message } = await failureOf(handle);
    expect(type).toBe('ServerInError');
    expect(message).not.toContain('could not be deleted');
  });

  test('one that comes back to ERROR is repeated, three times at most', async () => {
    const { handle, id } = await failing();
    const deleted = bed.cloud.inject({
      method: 'DELETE',
      path: new RegExp(id),
      times: Infinity,
      answer: { status: 204 },
    });
    bed.cloud.failBuild(id);
    const { type, message } = await failureOf(handle);
    expect(type).toBe('ServerInError');
    expect(message).toMatch(/went to ERROR.*could not be deleted: 3 deletions in a row ended in ERROR/);
    expect(deleted.hits).toBe(3);
  });

  test('a refusal is added to the message, the type stays', async () => {
    const { handle, id } = await failing();
    bed.cloud.setState(id, { locked: true });
    bed.cloud.failBuild(id);
    const { type, message } = await failureOf(handle);
    expect(type).toBe('ServerInError');
    expect(message).toMatch(/could not be deleted:.*locked/);
  });
});

describe('wrong input fails the workflow at once, and says which field', () => {
  const server = { name: 'x', flavorRef: '1' };
  test.each<[string, unknown, string]>([
    ['nothing', undefined, 'the input'],
    ['null', null, 'the input'],
    ['a text', 'server', 'the input'],
    ['a list', [server], 'the input'],
    ['no server', {}, 'server is missing'],
    ['a server that is none', { server: 'x' }, 'server must be an object'],
    ['an unknown key', { server, timeoutt: 1, other: 2 }, 'timeoutt, other'],
    ['min_count', { server: { ...server, min_count: 2 } }, 'min_count'],
    ['a min_count that is no number', { server: { ...server, min_count: { toString: 1 } }, attempts: 0 }, 'attempts'],
    [
      'a request encoded twice',
      JSON.stringify({ server: { ...server, adminPass: 'x' } }),
      'must be an object, not a text',
    ],
    ['max_count', { server: { ...server, max_count: '3' } }, 'max_count'],
    ['return_reservation_id', { server: { ...server, return_reservation_id: true } }, 'return_reservation_id'],
    ['tags', { server: { ...server, tags: 'mine' } }, 'server.tags'],
    ['hints', { server, schedulerHints: [] }, 'schedulerHints'],
    ['a timeout of words', { server, timeout: 'soon' }, 'timeout'],
    ['a timeout of 0', { server, timeout: 0 }, 'timeout'],
    ['a timeout below 0', { server, timeout: '-1s' }, 'timeout'],
    ['a timeout above 10 years', { server, timeout: '11 years' }, 'timeout'],
    ['a timeout of null', { server, timeout: null }, 'timeout'],
    ['a timeout of an object', { server, timeout: { hours: 1 } }, 'timeout'],
    ['statuses', { server, transientStatuses: 'PAUSED' }, 'transientStatuses'],
    ['statuses of numbers', { server, transientStatuses: [1] }, 'transientStatuses'],
    ['no attempts', { server, attempts: 0 }, 'attempts'],
    ['11 attempts', { server, attempts: 11 }, 'attempts'],
    ['half an attempt', { server, attempts: 1.5 }, 'attempts'],
    ['attempts of text', { server, attempts: '2' }, 'attempts'],
    ['onFailure', { server, onFailure: 'retry' }, 'onFailure'],
    ['polling', { server, polling: '1s' }, 'polling'],
    ['a key of polling', { server, polling: { interval: '1s' } }, 'polling.interval'],
    ['an interval', { server, polling: { initialInterval: 'x' } }, 'polling.initialInterval'],
    [
      'intervals the wrong way round',
      { server, polling: { initialInterval: '1m', maximumInterval: '1s' } },
      'polling.initialInterval',
    ],
    ['a coefficient below 1', { server, polling: { backoffCoefficient: 0.5 } }, 'polling.backoffCoefficient'],
  ])('%s', async (_name, input, words) => {
    const handle = await bed.client.workflow.start('CreateServerWorkflow', {
      workflowId: `invalid-${Math.random()}`,
      taskQueue: bed.taskQueue,
      args: input === undefined ? [] : [input],
    });
    const failure = await failureOf(handle);
    expect(failure).toMatchObject({ type: 'InvalidInput', nonRetryable: true });
    expect(failure.message).toContain(words);
    expect(await progress(handle)).toMatchObject({ phase: 'done', serverId: null });
  });

  test('one of two intervals moves the other’s default', async () => {
    bed.cloud.setTimes({ buildSeconds: 0 });
    for (const polling of [{ initialInterval: '1m' }, { maximumInterval: 100 }] as const) {
      expect((await (await bed.create({ polling })).result()).status).toBe('ACTIVE');
    }
  });
});

test('what the Web UI shows: summaries of the start, the activities and timers, and where it stands', async () => {
  const handle = await bed.create({ polling: { initialInterval: '1h', maximumInterval: '1h' } });
  const id = await building(handle);
  const description = await handle.describe();
  expect(await description.staticSummary()).toBe('Create server web-1');
  expect(await description.staticDetails()).toContain('within 1h, 1 attempt');

  const details = await handle.query<{ currentDetails?: string }>('__temporal_workflow_metadata');
  expect(details.currentDetails).toContain(`**waiting** · server \`${id}\``);
  expect(details.currentDetails).toMatch(/Seen: BUILD\/\w+ since/);

  const texts = await eventually(async () => {
    const { events } = await handle.fetchHistory();
    const found = events?.flatMap(({ userMetadata }) => {
      const data = userMetadata?.summary?.data;
      return data ? [JSON.parse(Buffer.from(data).toString()) as string] : [];
    });
    return found?.some((text) => text.includes('look again')) && found;
  });
  expect(texts).toEqual(
    expect.arrayContaining([
      'create web-1 · attempt 1 of 1',
      expect.stringMatching(/^BUILD\/\w+ · look again in 1 h · until \d\d:\d\d:\d\dZ$/),
    ]),
  );
  await handle.terminate();
});
