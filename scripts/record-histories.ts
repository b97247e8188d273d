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
import { startCreateServer, type CreateServerInput } from '../src/client';
import { startTemporalServer } from '../src/demo/temporal-server';
import { createComputeClient, loadCloudConfig } from '../src/nova';
import { SimulatedCloud } from '../src/simulator';
import { createNovaWorker } from '../src/worker';

const folder = path.join(__dirname, '../test/histories');
const TASK_QUEUE = 'record';
const POLLING = { initialInterval: 50, maximumInterval: 200 };

interface Stage {
  cloud: SimulatedCloud;
  create(input?: Partial<CreateServerInput>): Promise<WorkflowHandle>;
  /** Puts an intermediate result into a handle's progress. */
  serverId(handle: WorkflowHandle): Promise<string>;
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
    const handle = await create({ polling: { initialInterval: 20_000, maximumInterval: 20_000 } });
    const id = await serverId(handle);
    for (let wake = 0; wake < 6; wake++) {
      await handle.signal('wake');
      await delay(300);
    }
    cloud.finishBuild(id);
    await handle.signal('wake');
    return handle;
  },
  async 'create-invalid-input'({ create }) {
    return create({ timeout: 'soon' as never });
  },
};

async function main(names: string[]): Promise<void> {
  Runtime.install({ logger: new DefaultLogger('ERROR'), shutdownSignals: [] });
  const server = await startTemporalServer({
    port: 0,
    dynamicConfig: { 'limit.historyCount.suggestContinueAsNew': 40 },
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
  const running = worker.run();
  await mkdir(folder, { recursive: true });
  try {
    for (const [name, record] of Object.entries(RECORDINGS)) {
      if (names.length > 0 && !names.includes(name)) continue;
      cloud.setTimes({ buildSeconds: Infinity });
      const handle = await record({
        cloud,
        create: (input = {}) =>
          startCreateServer(
            client,
            {
              server: { name, flavorRef: cloud.flavorId, imageRef: cloud.imageId, networks: 'none' },
              polling: POLLING,
              ...input,
            },
            { workflowId: name, taskQueue: TASK_QUEUE },
          ),
        serverId: (handle) =>
          eventually(async () => {
            const { serverId, state } = await handle.query<{ serverId: string | null; state: object | null }>(
              'progress',
            );
            return state ? serverId : null;
          }),
      });
      await client.workflow
        .getHandle(name)
        .result()
        .catch(() => undefined);
      for (const [run, runId] of (
        await runsOf(client, handle as WorkflowHandle & { firstExecutionRunId: string })
      ).entries()) {
        const history = await client.workflow.getHandle(name, runId).fetchHistory();
        const file = path.join(folder, `${name}${run === 0 ? '' : `.${run + 1}`}.json`);
        await writeFile(file, `${JSON.stringify(JSON.parse(historyToJSON(history)), withoutStacks, 1)}\n`);
        console.log(`${path.basename(file)}: ${history.events?.length} events`);
      }
    }
  } finally {
    shutdown.abort();
    worker.shutdown();
    await running;
    compute.close();
    await connection.close();
    await client.connection.close();
    await cloud.stop();
    await server.stop();
  }
}

/** Stack traces name folders of the machine that recorded them. */
function withoutStacks(key: string, value: unknown): unknown {
  return key === 'stackTrace' ? '' : value;
}

/** The runs of a workflow, oldest first. */
async function runsOf(
  client: Client,
  { workflowId, firstExecutionRunId }: WorkflowHandle & { firstExecutionRunId: string },
) {
  const runs = [firstExecutionRunId];
  for (;;) {
    const { events } = await client.workflow.getHandle(workflowId, runs.at(-1)).fetchHistory();
    const next = events?.at(-1)?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId;
    if (!next) return runs;
    runs.push(next);
  }
}

async function eventually(check: () => Promise<string | null>): Promise<string> {
  for (;;) {
    const value = await check();
    if (value !== null) return value;
    await delay(20);
  }
}

void main(process.argv.slice(2));
