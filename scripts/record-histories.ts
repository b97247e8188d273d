/**
 * Records the histories of the main paths into test/histories/, where test/histories/replay.test.ts replays them with
 * the workflow code of the day. Run after a change that is meant to alter histories, and keep the old files: running
 * workflows have them. `npm run record-histories [-- name …]` records all, or those named.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection, type WorkflowHandle } from '@temporalio/client';
import { historyToJSON } from '@temporalio/common/lib/proto-utils';
import { DefaultLogger, NativeConnection, Runtime } from '@temporalio/worker';
import {
  NOVA_SEARCH_ATTRIBUTES,
  startCreateServer,
  startRecoverInstance,
  type CreateServerInput,
  type Progress,
  type RecoverInstanceInput,
  type ServerState,
  type StartCreateServerOptions,
} from '../src/client';
import { startTemporalServer } from '../src/demo/temporal-server';
import { createComputeClient, loadCloudConfig } from '../src/nova';
import { SimulatedCloud } from '../src/simulator';
import { createNovaWorker } from '../src/worker';

const folder = path.join(__dirname, '../test/histories');
const TASK_QUEUE = 'record';
/** Its worker is a version of a deployment. */
const VERSIONED_TASK_QUEUE = 'record-versioned';
const VERSION = { deploymentName: 'recorder', buildId: 'v1' };
const POLLING = { initialInterval: 50, maximumInterval: 200 };
/** Looks that only `wake` brings about: how a history gets long in seconds. */
const SELDOM = { initialInterval: 20_000, maximumInterval: 20_000 };

interface Stage {
  cloud: SimulatedCloud;
  create(input?: Partial<CreateServerInput>, options?: Partial<StartCreateServerOptions>): Promise<WorkflowHandle>;
  /** Puts an intermediate result into a handle's progress. */
  serverId(handle: WorkflowHandle): Promise<string>;
  /** A server that is ACTIVE, or in the state that these actions of its owner lead to. */
  server(...actions: object[]): Promise<string>;
  recover(instanceId: string, input?: Partial<RecoverInstanceInput>): Promise<WorkflowHandle>;
}

type Recording = (stage: Stage) => Promise<WorkflowHandle>;

const RECORDINGS: Record<string, Recording> = {
  async 'create-active'({ cloud, create }) {
    cloud.setTimes({ buildSeconds: 1 });
    return create();
  },
  async 'create-by-way-of-reboot'({ cloud, create, serverId }) {
    const handle = await create();
    const id = await serverId(handle);
    cloud.setState(id, { vmState: 'active', taskState: 'rebooting' });
    await delay(500);
    cloud.setState(id, { vmState: 'active', taskState: null });
    return handle;
  },
  /** Two rounds of a watch that see nothing new. */
  async 'create-silent-rounds'({ cloud, create, serverId }) {
    const handle = await create({ polling: { initialInterval: '1s', maximumInterval: '5s' } });
    const id = await serverId(handle);
    await delay(50_000);
    cloud.finishBuild(id);
    return handle;
  },
  async 'create-searchable'({ cloud, create }) {
    cloud.setTimes({ buildSeconds: 1 });
    return create({}, { typedSearchAttributes: NOVA_SEARCH_ATTRIBUTES });
  },
  async 'create-error'({ cloud, create, serverId }) {
    const handle = await create();
    cloud.failBuild(await serverId(handle));
    return handle;
  },
  async 'create-second-attempt'({ cloud, create, serverId }) {
    const handle = await create({ attempts: 2 });
    const first = await serverId(handle);
    cloud.setTimes({ buildSeconds: 0.5 });
    cloud.failBuild(first);
    return handle;
  },
  async 'create-timeout-delete'({ create }) {
    return create({ timeout: '1s', onFailure: 'delete' });
  },
  async 'create-cancel-delete'({ create, serverId }) {
    const handle = await create({ onFailure: 'delete' });
    await serverId(handle);
    await handle.cancel();
    return handle;
  },
  async 'create-lost-answer'({ cloud, create }) {
    cloud.setTimes({ buildSeconds: 0.5 });
    cloud.inject({ method: 'POST', path: /\/servers$/, carriedOut: true, answer: { status: 504 } });
    return create();
  },
  async 'create-messages'({ cloud, create, serverId }) {
    const handle = await create({ polling: { initialInterval: '1h', maximumInterval: '1h' } });
    const id = await handle.executeUpdate<string, []>('serverId');
    await serverId(handle);
    await handle.executeUpdate('extendTimeout', { args: ['1h'] });
    cloud.finishBuild(id);
    await handle.signal('wake');
    return handle;
  },
  async 'create-continued'({ cloud, create, serverId }) {
    const handle = await create({ polling: SELDOM });
    const id = await serverId(handle);
    for (let wake = 0; wake < 12; wake++) {
      await handle.signal('wake');
      await delay(300);
    }
    cloud.finishBuild(id);
    await handle.signal('wake');
    return handle;
  },
  async 'create-extended-and-continued'({ cloud, create, serverId }) {
    const handle = await create({ polling: SELDOM });
    const id = await serverId(handle);
    for (let round = 0; round < 12; round++) {
      await handle.executeUpdate('extendTimeout', { args: ['1m'], updateId: `extension-${round % 11}` });
      await handle.signal('wake');
      await delay(300);
    }
    cloud.finishBuild(id);
    await handle.signal('wake');
    return handle;
  },
  async 'create-continued-before-it-began'({ cloud, create, serverId }) {
    cloud.inject({ method: 'POST', path: /\/servers$/, carriedOut: true, answer: { status: 504 } });
    const away = cloud.inject({ method: 'GET', path: /\/servers\b/, times: Infinity, answer: { status: 503 } });
    const handle = await create();
    await eventually(async () => (away.hits > 0 ? 'away' : null));
    for (let wake = 0; wake < 12; wake++) {
      await handle.signal('wake');
      await delay(300);
    }
    cloud.clearFaults();
    await handle.signal('wake');
    cloud.finishBuild(await serverId(handle));
    return handle;
  },
  async 'create-while-nova-is-away'({ cloud, create, serverId }) {
    const handle = await create();
    const id = await serverId(handle);
    await cloud.goAway();
    await delay(3_000);
    cloud.finishBuild(id);
    await cloud.comeBack();
    return handle;
  },
  async 'create-late-while-nova-is-away'({ cloud, create, serverId }) {
    const handle = await create({ timeout: '3s' });
    await serverId(handle);
    cloud.inject({ method: 'GET', path: /\/servers\b/, times: Infinity, answer: { status: 503 } });
    return handle;
  },
  async 'create-quota'({ cloud, create }) {
    cloud.setQuota(0);
    return create();
  },
  async 'create-gone'({ cloud, create, serverId }) {
    const handle = await create();
    cloud.forget(await serverId(handle));
    return handle;
  },
  async 'create-unknown-status'({ cloud, create, serverId }) {
    const handle = await create();
    cloud.setState(await serverId(handle), { vmState: 'paused', taskState: null });
    return handle;
  },
  async 'create-cancel-in-post'({ cloud, create }) {
    const post = cloud.inject({ method: 'POST', path: /\/servers$/, delaySeconds: 1 });
    const handle = await create({ onFailure: 'delete' });
    await eventually(async () => (post.hits > 0 ? 'posted' : null));
    await handle.cancel();
    return handle;
  },
  async 'create-versioned'({ cloud, create, serverId }) {
    const handle = await create({ polling: SELDOM }, { taskQueue: VERSIONED_TASK_QUEUE });
    const id = await serverId(handle);
    await handle.executeUpdate('extendTimeout', { args: ['1h'] });
    cloud.finishBuild(id);
    await handle.signal('wake');
    return handle;
  },
  async 'create-invalid-input'({ create }) {
    return create({ timeout: 'soon' as never });
  },
  async 'recover-stop-start'({ server, recover }) {
    return recover(await server());
  },
  async 'recover-start'({ cloud, server, recover }) {
    const id = await server();
    cloud.crash(id);
    cloud.runPowerSync();
    await eventually(async () => (cloud.server(id).vmState === 'stopped' ? id : null));
    return recover(id);
  },
  async 'recover-paused-skip'({ server, recover }) {
    return recover(await server({ pause: null }));
  },
  async 'recover-paused-restore'({ server, recover }) {
    return recover(await server({ pause: null }), { policy: { paused: 'restore' } });
  },
  async 'recover-rescued-restore'({ server, recover }) {
    return recover(await server({ rescue: {} }), { policy: { rescued: 'restore' } });
  },
  async 'recover-resized-confirm'({ server, recover }) {
    return recover(await server({ resize: { flavorRef: '2' } }), { policy: { resized: 'confirm' } });
  },
  async 'recover-busy'({ cloud, server, recover }) {
    const id = await server();
    cloud.setState(id, { taskState: 'image_uploading' });
    const handle = await recover(id);
    await seen(handle, (state) => state.taskState === 'image_uploading');
    cloud.setState(id, { vmState: 'suspended', taskState: null });
    return handle;
  },
  async 'recover-lost-answer'({ cloud, server, recover }) {
    const id = await server();
    cloud.inject({ method: 'POST', path: /\/action$/, carriedOut: true, answer: { status: 504 } });
    return recover(id);
  },
  async 'recover-conflict'({ cloud, server, recover }) {
    const id = await server();
    cloud.inject({
      method: 'POST',
      path: /\/action$/,
      match: () => (cloud.setState(id, { vmState: 'stopped', taskState: null, powerState: 4 }), true),
      answer: { status: 409, body: { conflictingRequest: { code: 409, message: `Cannot 'stop' instance ${id}` } } },
    });
    return recover(id);
  },
  async 'recover-failed-on-host'({ cloud, server, recover }) {
    const id = await server();
    cloud.failAction(id, 'stop');
    return recover(id);
  },
  async 'recover-cancelled-after-stop'({ cloud, server, recover }) {
    const id = await server();
    cloud.setTimes({ actionSeconds: 0.5 });
    const handle = await recover(id);
    await seen(handle, (state) => state.taskState === 'powering-off');
    await handle.cancel();
    return handle;
  },
  async 'recover-again'({ cloud, server, recover }) {
    const id = await server();
    cloud.setTimes({ actionSeconds: 0.5 });
    const handle = await recover(id);
    await seen(handle, (state) => state.taskState === 'powering-on');
    await handle.signal('notified', {
      event: 'LIFECYCLE',
      generatedTime: new Date(Date.now() + 1_000).toISOString(),
    });
    return handle;
  },
  async 'recover-extended-and-continued'({ cloud, server, recover }) {
    const id = await server();
    cloud.setState(id, { taskState: 'image_uploading' });
    const handle = await recover(id, { polling: SELDOM });
    await seen(handle, (state) => state.taskState === 'image_uploading');
    for (let round = 0; round < 12; round++) {
      await handle.executeUpdate('extendTimeout', { args: ['1m'] });
      await handle.signal('wake');
      await delay(300);
    }
    cloud.setState(id, { vmState: 'suspended', taskState: null });
    await handle.signal('wake');
    return handle;
  },
  async 'recover-while-nova-is-away'({ cloud, server, recover }) {
    const id = await server();
    cloud.setTimes({ actionSeconds: 1 });
    const handle = await recover(id);
    await seen(handle, (state) => state.taskState === 'powering-off');
    await cloud.goAway();
    await delay(3_000);
    await cloud.comeBack();
    return handle;
  },
  async 'recover-late'({ cloud, server, recover }) {
    const id = await server();
    cloud.setState(id, { taskState: 'image_uploading' });
    return recover(id, { timeouts: { task: '1s' } });
  },
  async 'recover-gone'({ recover }) {
    return recover('5f2a6ac8-5f5a-4bb4-9c5b-5d9a3a4a5e0b');
  },
  async 'recover-gone-after-stop'({ cloud, server, recover }) {
    const id = await server();
    cloud.setTimes({ actionSeconds: 1 });
    const handle = await recover(id);
    await seen(handle, (state) => state.taskState === 'powering-off');
    cloud.forget(id);
    return handle;
  },
  async 'recover-kept-changing'({ cloud, server, recover }) {
    const id = await server();
    const body = { conflictingRequest: { code: 409, message: `Cannot 'stop' instance ${id}` } };
    cloud.inject({ method: 'POST', path: /\/action$/, times: Infinity, answer: { status: 409, body } });
    return recover(id);
  },
  async 'recover-dry-run'({ server, recover }) {
    return recover(await server(), { dryRun: true });
  },
  async 'recover-paused-restart'({ server, recover }) {
    return recover(await server({ pause: null }), { policy: { paused: 'restart' } });
  },
  async 'recover-reset-refused'({ server, recover }) {
    return recover(await server({ resize: { flavorRef: '2' } }));
  },
  async 'recover-resized-revert'({ server, recover }) {
    return recover(await server({ resize: { flavorRef: '2' } }), { policy: { resized: 'revert' } });
  },
  async 'recover-invalid-input'({ recover }) {
    return recover('not-a-uuid');
  },
  async 'recover-continued'({ cloud, server, recover }) {
    const id = await server();
    cloud.setState(id, { taskState: 'image_uploading' });
    const handle = await recover(id, { polling: SELDOM });
    await seen(handle, (state) => state.taskState === 'image_uploading');
    for (let wake = 0; wake < 12; wake++) {
      await handle.signal('wake');
      await delay(300);
    }
    cloud.setState(id, { taskState: null });
    await handle.signal('wake');
    await eventually(async () => (cloud.server(id).actions.some(({ action }) => action === 'stop') ? id : null));
    for (const vmState of ['stopped', 'active']) {
      await eventually(async () => (cloud.server(id).vmState === vmState ? id : null));
      await handle.signal('wake');
    }
    return handle;
  },
};

async function main(names: string[]): Promise<void> {
  Runtime.install({ logger: new DefaultLogger('ERROR'), shutdownSignals: [] });
  const server = await startTemporalServer({
    port: 0,
    dynamicConfig: { 'limit.historyCount.suggestContinueAsNew': 80 },
    searchAttributes: { NovaServerId: 'Keyword', NovaServerStatus: 'Keyword' },
  });
  const cloud = await SimulatedCloud.start();
  const compute = createComputeClient(loadCloudConfig(cloud.env()));
  const connection = await NativeConnection.connect({ address: server.address });
  const client = new Client({
    connection: await Connection.connect({ address: server.address }),
    identity: 'recorder',
  });
  const shutdown = new AbortController();
  const worker = await createNovaWorker({
    connection,
    namespace: server.namespace,
    taskQueue: TASK_QUEUE,
    compute,
    shutdownSignal: shutdown.signal,
    identity: 'recorder',
  });
  const versioned = await createNovaWorker({
    connection,
    namespace: server.namespace,
    taskQueue: VERSIONED_TASK_QUEUE,
    compute,
    shutdownSignal: shutdown.signal,
    identity: 'recorder',
    version: VERSION,
  });
  const running = Promise.all([worker.run(), versioned.run()]);
  await makeCurrent(client, server.namespace);
  await mkdir(folder, { recursive: true });
  try {
    for (const [name, record] of Object.entries(RECORDINGS)) {
      if (names.length > 0 && !names.includes(name)) continue;
      cloud.clearFaults();
      cloud.setQuota(undefined);
      cloud.setTimes({ buildSeconds: Infinity, actionSeconds: 0.1 });
      await record({
        cloud,
        create: (input = {}, options = {}) =>
          startCreateServer(
            client,
            {
              server: { name, flavorRef: cloud.flavorId, imageRef: cloud.imageId, networks: 'none' },
              polling: POLLING,
              ...input,
            },
            { workflowId: name, taskQueue: TASK_QUEUE, ...options },
          ),
        serverId: (handle) =>
          eventually(async () => {
            const { serverId, state } = await handle.query<{ serverId: string | null; state: object | null }>(
              'progress',
            );
            return state ? serverId : null;
          }),
        async server(...actions) {
          const request = { name, flavorRef: cloud.flavorId, imageRef: cloud.imageId, networks: 'none' as const };
          const { id } = await compute.createServer(request, { tags: [] });
          cloud.finishBuild(id);
          for (const action of actions) {
            cloud.action(id, action, 'demo');
            await eventually(async () => (cloud.server(id).taskState === null ? id : null));
          }
          return id;
        },
        recover: (instanceId, input = {}) =>
          startRecoverInstance(
            client,
            { instanceId, polling: POLLING, ...input },
            { workflowId: name, taskQueue: TASK_QUEUE },
          ),
      });
      await client.workflow
        .getHandle(name)
        .result()
        .catch(() => undefined);
      for (const [run, runId] of (await runsOf(client, name)).entries()) {
        const history = await client.workflow.getHandle(name, runId).fetchHistory();
        const file = path.join(folder, `${name}${run === 0 ? '' : `.${run + 1}`}.json`);
        await writeFile(file, `${JSON.stringify(JSON.parse(historyToJSON(history)), withoutStacks, 1)}\n`);
        console.log(`${path.basename(file)}: ${history.events?.length} events`);
      }
    }
  } finally {
    shutdown.abort();
    worker.shutdown();
    versioned.shutdown();
    await running;
    compute.close();
    await connection.close();
    await client.connection.close();
    await cloud.stop();
    await server.stop();
  }
}

/** A version is known to Temporal a moment after its worker's first poll. */
async function makeCurrent(client: Client, namespace: string): Promise<void> {
  await eventually(() =>
    client.workflowService.setWorkerDeploymentCurrentVersion({ namespace, ...VERSION }).then(
      () => 'current',
      () => null,
    ),
  );
}

/** Stack traces name folders of the machine that recorded them. */
function withoutStacks(key: string, value: unknown): unknown {
  return key === 'stackTrace' ? '' : value;
}

/** The runs of a workflow, oldest first. */
async function runsOf(client: Client, workflowId: string): Promise<string[]> {
  const runs = [(await client.workflow.getHandle(workflowId).describe()).raw.workflowExecutionInfo?.firstRunId ?? ''];
  for (;;) {
    const { events } = await client.workflow.getHandle(workflowId, runs.at(-1)).fetchHistory();
    const next = events?.at(-1)?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId;
    if (!next) return runs;
    runs.push(next);
  }
}

/** Waits until a workflow has seen its server in such a state. */
async function seen(handle: WorkflowHandle, fits: (state: ServerState) => boolean): Promise<void> {
  await eventually(async () => {
    const { state } = await handle.query<Progress>('progress');
    return state !== null && fits(state) ? state.status : null;
  });
}

async function eventually(check: () => Promise<string | null>): Promise<string> {
  for (;;) {
    const value = await check();
    if (value !== null) return value;
    await delay(20);
  }
}

void main(process.argv.slice(2));
