/** What a person reads in the Web UI of workflows that failed, recover, or can't reach Nova. */
import type { WorkflowHandle } from '@temporalio/client';
import { startRecoverInstance } from '../../src/client';
import { eventually, FAST, failureOf, progress, serverIdOf, TestBed } from '../support/bed';
import { historiesOf } from '../support/runs';

let bed: TestBed;
beforeAll(async () => {
  bed = await TestBed.make({ buildSeconds: 0, actionSeconds: 0.3 });
});
afterAll(() => bed.stop());

async function currentDetails(handle: WorkflowHandle): Promise<string | undefined> {
  return (await handle.query<{ currentDetails?: string }>('__temporal_workflow_metadata')).currentDetails;
}

/** Of all runs: a short history makes more than one. */
async function summaries({ workflowId }: WorkflowHandle): Promise<string[]> {
  const events = (await historiesOf(bed.client, workflowId)).flatMap(({ events }) => events);
  return events.flatMap(({ userMetadata }) => {
    const data = userMetadata?.summary?.data;
    return data ? [JSON.parse(Buffer.from(data).toString()) as string] : [];
  });
}

test('one that failed: its current details say why', async () => {
  bed.cloud.setQuota(0);
  const handle = await bed.create();
  const { message } = await failureOf(handle);
  bed.cloud.setQuota(undefined);
  expect(message).toContain('Quota exceeded for instances');
  expect(await currentDetails(handle)).toContain(`QuotaExceeded: ${message}`);
});

test('one that was cancelled: its current details say so', async () => {
  bed.cloud.setTimes({ buildSeconds: Infinity });
  const handle = await bed.create();
  await serverIdOf(handle);
  await handle.cancel();
  await handle.result().catch(() => undefined);
  bed.cloud.setTimes({ buildSeconds: 0 });
  expect(await currentDetails(handle)).toContain('The creation was cancelled');
});

test('a recovery: the timeline says what is looked at, done and waited for', async () => {
  const { serverId } = await (await bed.create()).result();
  const options = { taskQueue: bed.taskQueue };
  const handle = await startRecoverInstance(bed.client, { instanceId: serverId, polling: FAST }, options);
  await handle.result();
  const shown = await summaries(handle);
  expect(shown).toEqual(
    expect.arrayContaining([
      'deciding · look, and read what was done to it before',
      'stop · it is ACTIVE',
      expect.stringMatching(/^stopping · looking every \S+ s · until/),
      'start · it is SHUTOFF',
      expect.stringMatching(/^starting · looking every \S+ s · until/),
    ]),
  );
  expect(shown.join()).not.toContain('not seen yet');
});

test('what a watch has seen outlasts attempts that can’t reach Nova', async () => {
  bed.cloud.setTimes({ buildSeconds: Infinity });
  const handle = await bed.create();
  const id = await serverIdOf(handle);
  await eventually(async () => (await progress(handle)).state?.status === 'BUILD');
  // A step of a build is held back by the watch: until something that matters is seen, only its heartbeat has it.
  bed.cloud.setState(id, { taskState: 'block_device_mapping' });
  const asked = () => bed.cloud.requests.filter(({ path }) => path.includes('/servers/')).length;
  const before = asked();
  await eventually(() => asked() > before + 2);
  bed.cloud.inject({ service: 'compute', times: 3, answer: { status: 503 } });
  await eventually(async () => {
    const { raw } = await handle.describe();
    return (raw.pendingActivities?.[0]?.attempt ?? 0) > 2;
  });
  bed.cloud.finishBuild(id);
  const { observations } = await handle.result();
  expect(observations.map(({ taskState }) => taskState)).toContain('block_device_mapping');
});
