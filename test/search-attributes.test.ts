import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { WorkflowHandle } from '@temporalio/client';
import {
  NOVA_SEARCH_ATTRIBUTES,
  startCreateServer,
  startCreateServerAndGetId,
  startRecoverInstance,
  type CreateServerInput,
} from '../src/client';
import { startTemporalServer, type TemporalServer } from '../src/demo/temporal-server';
import { eventually, FAST, serverIdOf, TestBed } from './support/bed';
import { RUN } from './support/run';

let server: TemporalServer;
let bed: TestBed;
let count = 0;

/** A server of its own, which begins without the attributes, and where workflows continue as new soon. */
beforeAll(async () => {
  server = await startTemporalServer({
    port: 0,
    log: () => undefined,
    dynamicConfig: { 'limit.historyCount.suggestContinueAsNew': 20 },
  });
  process.env[RUN.address] = server.address; // for the bed
  bed = await TestBed.make({ buildSeconds: Infinity });
});
afterAll(async () => {
  await bed.stop();
  await server.stop();
});

const searchable = () => ({
  workflowId: `searchable-${++count}`,
  taskQueue: bed.taskQueue,
  typedSearchAttributes: NOVA_SEARCH_ATTRIBUTES,
});
const input = (): CreateServerInput => ({ server: bed.server(), polling: FAST });

/** As a search sees it: `[NovaServerId, NovaServerStatus]`. */
async function attributesOf(handle: Pick<WorkflowHandle, 'describe'>): Promise<unknown[]> {
  const { typedSearchAttributes } = await handle.describe();
  return NOVA_SEARCH_ATTRIBUTES.map(({ key }) => typedSearchAttributes.get(key));
}

async function found(query: string): Promise<string[]> {
  const ids: string[] = [];
  for await (const { workflowId } of bed.client.workflow.list({ query })) ids.push(workflowId);
  return ids.sort();
}

const COMMAND = /temporal (operator search-attribute create(?: --name \w+ --type Keyword)+)$/;

test.each([
  ['startCreateServer', () => startCreateServer(bed.client, input(), searchable())],
  ['startCreateServerAndGetId', () => startCreateServerAndGetId(bed.client, input(), searchable())],
  ['startRecoverInstance', () => startRecoverInstance(bed.client, { instanceId: bed.cloud.imageId }, searchable())],
])('%s: where they are not registered, the start fails and says the command that registers them', async (_, start) => {
  const error = await start().then(
    () => undefined,
    (reason: unknown) => reason as Error,
  );
  expect(error?.message).toMatch(/no mapping defined for search attribute NovaServer/);
  expect(error?.message).toMatch(COMMAND);
  expect(await found('ExecutionStatus = "Running"')).toEqual([]);
});

describe('once that command has run', () => {
  beforeAll(async () => {
    const error = (await startCreateServer(bed.client, input(), searchable()).catch((e: unknown) => e)) as Error;
    const [, command = ''] = COMMAND.exec(error.message) ?? [];
    await promisify(execFile)(server.cli ?? 'temporal', [...command.split(' '), '--address', server.address]);
    await eventually(async () => {
      const { customAttributes } = await bed.client.connection.operatorService.listSearchAttributes({
        namespace: server.namespace,
      });
      return 'NovaServerStatus' in customAttributes;
    });
  });

  test('a creation can be found by what Nova shows of its server, also after it continued as new', async () => {
    const handle = await startCreateServer(bed.client, input(), searchable());
    expect(await attributesOf(handle)).toEqual(['NONE', 'NONE']);
    const id = await serverIdOf(handle);
    await eventually(async () => (await attributesOf(handle))[1] === 'BUILD');
    expect(await attributesOf(handle)).toEqual([id, 'BUILD']);
    await eventually(async () => (await found(`NovaServerId = "${id}"`)).includes(handle.workflowId));

    bed.cloud.setState(id, { vmState: 'active', taskState: 'rebooting' });
    await eventually(async () => (await found('NovaServerStatus = "REBOOT"')).includes(handle.workflowId));
    const runs = async () => (await handle.describe()).runId;
    await eventually(async () => {
      await handle.signal('wake');
      return (await runs()) !== handle.firstExecutionRunId;
    });
    expect(await attributesOf(handle)).toEqual([id, 'REBOOT']);

    bed.cloud.setState(id, { vmState: 'active', taskState: null });
    await handle.result();
    expect(await attributesOf(handle)).toEqual([id, 'ACTIVE']);
    await eventually(async () => (await found(`NovaServerId = "${id}"`)).length > 1); // a run each
  });

  test('a recovery says which instance from its first task on, and its status at the end', async () => {
    const { handle: creation, serverId } = await startCreateServerAndGetId(bed.client, input(), searchable());
    bed.cloud.finishBuild(serverId);
    await creation.result();
    const handle = await startRecoverInstance(bed.client, { instanceId: serverId, polling: FAST }, searchable());
    await handle.result();
    expect(await attributesOf(handle)).toEqual([serverId, 'ACTIVE']);
  });

  test('a workflow that was started without them has none, and no event of its history is about them', async () => {
    const handle = await bed.create();
    bed.cloud.finishBuild(await serverIdOf(handle));
    await handle.result();
    expect(await attributesOf(handle)).toEqual([undefined, undefined]);
    const { events } = await handle.fetchHistory();
    expect(events?.filter((event) => event.upsertWorkflowSearchAttributesEventAttributes)).toEqual([]);
  });

  test('one that was started with the status alone keeps that one alone', async () => {
    const [, status] = NOVA_SEARCH_ATTRIBUTES;
    const handle = await startCreateServer(bed.client, input(), {
      ...searchable(),
      typedSearchAttributes: status ? [status] : [],
    });
    bed.cloud.finishBuild(await serverIdOf(handle));
    await handle.result();
    expect(await attributesOf(handle)).toEqual([undefined, 'ACTIVE']);
  });
});
