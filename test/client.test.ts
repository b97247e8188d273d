/** `temporal-nova/client`, as a service meets it. */
import {
  CancelledFailure,
  isGrpcDeadlineError,
  TerminatedFailure,
  WorkflowExecutionAlreadyStartedError,
  WorkflowFailedError,
  WorkflowUpdateFailedError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';
import {
  failureOf,
  startCreateServer,
  startCreateServerAndGetId,
  startRecoverInstance,
  type CreateServerInput,
  type StartCreateServerOptions,
} from '../src/client';
import { eventually, FAST, TestBed } from './support/bed';
import { uniqueTaskQueue } from './support/temporal';

let bed: TestBed;
let count = 0;
let workflowId: string;

beforeAll(async () => {
  bed = await TestBed.make({ buildSeconds: Infinity });
});
beforeEach(() => {
  workflowId = `client-${bed.taskQueue}-${++count}`;
});
afterEach(async () => {
  const left = bed.client.workflow.getHandle(workflowId);
  await left.terminate().catch(() => undefined);
  bed.cloud.setQuota(undefined);
  bed.cloud.clearFaults();
});
afterAll(() => bed.stop());

const input = (extra: Record<string, unknown> = {}): CreateServerInput => ({
  server: bed.server({ name: workflowId, ...extra }),
  polling: FAST,
});
const options = (more: Partial<StartCreateServerOptions> = {}) => ({ workflowId, taskQueue: bed.taskQueue, ...more });
const start = (more: Partial<StartCreateServerOptions> = {}) =>
  startCreateServerAndGetId(bed.client, input(), options(more));
const servers = () => bed.cloud.servers({ deleted: true }).filter(({ name }) => name === workflowId);

function thrownBy(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    (value) => new Error(`it did not throw: ${JSON.stringify(value)}`),
    (error: unknown) => error,
  );
}

describe('startCreateServerAndGetId', () => {
  test('gives the id while the server is built, and a handle to wait for ACTIVE', async () => {
    const { handle, serverId } = await start();
    expect(servers()).toMatchObject([{ id: serverId, status: 'BUILD' }]);
    bed.cloud.finishBuild(serverId);
    expect(await handle.result()).toMatchObject({ serverId, status: 'ACTIVE' });
  });

  test('two at once, and one later with the same id, get the same server', async () => {
    const ids = await Promise.all([start(), start()]);
    ids.push(await start());
    expect(new Set(ids.map(({ serverId }) => serverId)).size).toBe(1);
    bed.cloud.finishBuild(ids[0]!.serverId);
    for (const { handle } of ids) expect((await handle.result()).serverId).toBe(ids[0]!.serverId);
    expect(servers()).toHaveLength(1);
  });

  test('after the creation succeeded, the same id gets the server that it made', async () => {
    const first = await start();
    bed.cloud.finishBuild(first.serverId);
    await first.handle.result();
    const second = await start();
    expect(second.serverId).toBe(first.serverId);
    expect(await second.handle.result()).toMatchObject({ serverId: first.serverId, status: 'ACTIVE' });
    expect(servers()).toHaveLength(1);
  });

  test('after it failed, the same id creates anew', async () => {
    const first = await start();
    bed.cloud.failBuild(first.serverId);
    expect(failureOf(await thrownBy(first.handle.result()))).toMatchObject({
      type: 'ServerInError',
      details: { serverId: first.serverId, fault: { message: 'No valid host was found. ' } },
    });
    const second = await start();
    expect(second.serverId).not.toBe(first.serverId);
    expect(servers()).toHaveLength(2);
  });

  test('a refusal by Nova is thrown as handle.result() throws it, and says why', async () => {
    bed.cloud.setQuota(0);
    const error = await thrownBy(start());
    expect(error).toBeInstanceOf(WorkflowFailedError);
    const ofResult = await thrownBy(bed.client.workflow.getHandle(workflowId).result());
    expect(failureOf(error)).toEqual(failureOf(ofResult));
    expect(failureOf(error)).toMatchObject({ type: 'QuotaExceeded', details: { httpStatus: 403 } });
    expect(failureOf(error)?.message).toContain('Quota exceeded for instances');
  });

  test('so is a wrong input', async () => {
    const wrong = { ...input(), attempts: 11 };
    const error = await thrownBy(startCreateServerAndGetId(bed.client, wrong, options()));
    expect(failureOf(error)).toMatchObject({ type: 'InvalidInput', message: expect.stringContaining('attempts') });
  });

  test.each([
    ['cancelled', 'cancel', CancelledFailure],
    ['terminated', 'terminate', TerminatedFailure],
  ] as const)('a creation that is %s before it has an id', async (_, end, cause) => {
    bed.cloud.inject({ method: 'POST', path: /\/servers$/, times: Infinity, answer: { status: 503 } });
    const error = thrownBy(start());
    const handle = bed.client.workflow.getHandle(workflowId);
    await eventually(() => handle.describe().catch(() => undefined));
    await handle[end]();
    expect(await error).toBeInstanceOf(WorkflowFailedError);
    expect((await error) as WorkflowFailedError).toMatchObject({ cause: expect.any(cause) });
    expect(failureOf(await error)).toBeUndefined();
  });

  test('a creation that is terminated before a worker has it', async () => {
    const error = thrownBy(start({ taskQueue: uniqueTaskQueue() }));
    const handle = bed.client.workflow.getHandle(workflowId);
    await eventually(() => handle.describe().catch(() => undefined));
    await handle.terminate();
    expect((await error) as WorkflowFailedError).toMatchObject({ cause: expect.any(TerminatedFailure) });
  });

  test('where no worker runs, a deadline ends the wait and not the creation', async () => {
    const later = options({ taskQueue: uniqueTaskQueue() });
    const error = await thrownBy(
      bed.client.withDeadline(Date.now() + 500, () => startCreateServerAndGetId(bed.client, input(), later)),
    );
    expect(error instanceof WorkflowUpdateRPCTimeoutOrCancelledError || isGrpcDeadlineError(error)).toBe(true);
    const { status } = await bed.client.workflow.getHandle(workflowId).describe();
    expect(status.name).toBe('RUNNING');
  });

  test('an id that a workflow of another kind runs under is refused, not waited for', async () => {
    const id = '5f2a6ac8-5f5a-4bb4-9c5b-5d9a3a4a5e0b';
    bed.cloud.inject({ path: /\/servers\//, times: Infinity, answer: { status: 503 } });
    await startRecoverInstance(bed.client, { instanceId: id, polling: FAST }, options());
    expect(await thrownBy(start())).toBeInstanceOf(WorkflowUpdateFailedError);
  });

  test('workflowIdConflictPolicy FAIL refuses to join', async () => {
    await start();
    expect(await thrownBy(start({ workflowIdConflictPolicy: 'FAIL' }))).toBeInstanceOf(
      WorkflowExecutionAlreadyStartedError,
    );
  });
});

test('startCreateServer refuses the id of a running creation', async () => {
  await startCreateServer(bed.client, input(), options());
  const second = startCreateServer(bed.client, input(), options());
  await expect(second).rejects.toBeInstanceOf(WorkflowExecutionAlreadyStartedError);
});

describe('what a person finds in the list', () => {
  test.each([
    ['startCreateServer', startCreateServer],
    ['startCreateServerAndGetId', startCreateServerAndGetId],
  ])('of %s: name, flavor and image beside the caller’s own memo, and no secret', async (_, starter) => {
    const secrets = {
      user_data: Buffer.from('S3CRET').toString('base64'),
      adminPass: 'S3CRET',
      metadata: { k: 'S3CRET' },
    };
    await starter(bed.client, input(secrets), options({ memo: { team: 'blue' } }));
    const { memo, staticSummary, staticDetails, raw } = await bed.client.workflow.getHandle(workflowId).describe();
    const { flavorId: flavor, imageId: image } = bed.cloud;
    expect(memo).toEqual({ name: workflowId, flavor, image, team: 'blue' });
    expect(await staticSummary()).toBe(`Create server ${workflowId}`.slice(0, 14 + 80));
    expect(await staticDetails()).toContain(image);
    expect(visible(raw)).not.toMatch(/S3CRET|UzNDUkVU/);
  });

  test('of startRecoverInstance: the instance and what was reported', async () => {
    const instanceId = '5f2a6ac8-5f5a-4bb4-9c5b-5d9a3a4a5e0b';
    const notification = { event: 'LIFECYCLE', generatedTime: '2026-11-30T19:50:55Z' };
    const handle = await startRecoverInstance(bed.client, { instanceId, notification }, options());
    const { memo, staticSummary } = await handle.describe();
    expect(memo).toEqual({ instanceId, event: 'LIFECYCLE' });
    expect(await staticSummary()).toBe(`Recover instance ${instanceId}`);
  });
});

/** All that describing a workflow gives, payloads decoded. */
function visible(raw: unknown): string {
  return JSON.stringify(raw, (_, value: unknown) =>
    value instanceof Uint8Array ? Buffer.from(value).toString() : value,
  );
}
