/**
 * Makes docs/pictures/: what Temporal's Web UI shows of this package's workflows. `npm run docs:pictures` takes a headless
 * Chromium from the PATH, or that of CHROMIUM_PATH. Look at each picture afterwards: does it tell the story?
 */
import { access, mkdir } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { DefaultLogger, NativeConnection, Runtime } from '@temporalio/worker';
import { chromium, type Page } from 'playwright-core';
import {
  startCreateServer,
  startRecoverInstance,
  type CreateServerInput,
  type CreateServerResult,
  type RecoveryNotification,
} from '../src/client';
import { startTemporalServer } from '../src/demo/temporal-server';
import { createComputeClient, loadCloudConfig } from '../src/nova';
import { SimulatedCloud } from '../src/simulator';
import { createNovaWorker } from '../src/worker';

const folder = path.join(__dirname, '../docs/pictures');
const TASK_QUEUE = 'nova';
const WIDTH = 1280;
/** Of the Web UI, left out of the pictures. */
const NAVIGATION = 64;
const TOP_BAR = 50;
const COMMANDS = ['chromium', 'chromium-browser', 'google-chrome'];

type Tab = 'history' | 'user-metadata' | 'pending-activities';

interface Story {
  /** Workflow ids. */
  waits: string;
  failed: string;
  recovered: string;
  skipped: string;
  /** From here on Nova answers 503, until the waiting one has met that a few times. */
  novaGoesAway(): Promise<void>;
}

async function main(): Promise<void> {
  await mkdir(folder, { recursive: true });
  await onStage(async (webUi, story) => {
    const browser = await chromium.launch({ executablePath: await findChromium() });
    try {
      const page = await browser.newPage({ viewport: { width: WIDTH, height: 1400 } });
      const workflows = `${webUi}/namespaces/default/workflows`;
      const picture = async (name: string, workflowId: string, tab: Tab, bottom: number, top?: number) => {
        await page.goto(`${workflows}/${workflowId}`);
        await page.waitForURL(/\/history$/); // with the run's id
        await page.goto(page.url().replace(/history$/, tab));
        await take(page, name, bottom, top);
      };
      await page.goto(workflows);
      // The run ids would leave no room for the types.
      await page.addStyleTag({ content: 'th:nth-child(5), td:nth-child(5) { display: none }' });
      await take(page, 'list', 500);
      await picture('waits', story.waits, 'history', 760);
      await picture('waits-details', story.waits, 'user-metadata', 640);
      await picture('failed', story.failed, 'user-metadata', 640);
      await picture('recovered', story.recovered, 'history', 1075, 365);
      await picture('skipped', story.skipped, 'user-metadata', 715);
      await story.novaGoesAway();
      await picture('nova-away', story.waits, 'pending-activities', 730);
    } finally {
      await browser.close();
    }
  });
}

async function take(page: Page, name: string, bottom: number, top = TOP_BAR): Promise<void> {
  await delay(3_000); // it asks for one thing after the other
  const clip = { x: NAVIGATION, y: top, width: WIDTH - NAVIGATION, height: bottom - top };
  await page.screenshot({ path: path.join(folder, `${name}.png`), clip });
  console.log(`docs/pictures/${name}.png`);
}

async function findChromium(): Promise<string> {
  const onPath = (process.env.PATH ?? '').split(path.delimiter);
  const files = process.env.CHROMIUM_PATH
    ? [process.env.CHROMIUM_PATH]
    : COMMANDS.flatMap((command) => onPath.map((directory) => path.join(directory, command)));
  for (const file of files) {
    const found = await access(file).then(
      () => true,
      () => false,
    );
    if (found) return file;
  }
  throw new Error(`no Chromium: ${COMMANDS.join(', ')} are not on the PATH; CHROMIUM_PATH says where one is`);
}

/** A Temporal server, a cloud and a worker, with workflows in each state that there is a picture of. */
async function onStage(show: (webUi: string, story: Story) => Promise<void>): Promise<void> {
  Runtime.install({ logger: new DefaultLogger('ERROR') });
  const server = await startTemporalServer({ ui: true, port: 0, uiPort: 0 });
  const { address, namespace, uiUrl = '' } = server;
  const cloud = await SimulatedCloud.start({ actionSeconds: 2 });
  const connection = await NativeConnection.connect({ address });
  const client = new Client({ connection: await Connection.connect({ address }), namespace });
  const compute = createComputeClient(loadCloudConfig(cloud.env()));
  const shutdown = new AbortController();
  const worker = await createNovaWorker({
    connection,
    namespace,
    taskQueue: TASK_QUEUE,
    compute,
    shutdownSignal: shutdown.signal,
    identity: 'nova-worker-1',
  });
  const running = worker.run();
  try {
    await show(uiUrl, await tell(client, cloud));
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

async function tell(client: Client, cloud: SimulatedCloud): Promise<Story> {
  const create = (name: string) => {
    const server: CreateServerInput['server'] = {
      name,
      flavorRef: cloud.flavorId,
      imageRef: cloud.imageId,
      networks: 'none',
    };
    return startCreateServer(client, { server }, { workflowId: `create-${name}` });
  };
  const report = ({ serverId }: CreateServerResult) => {
    cloud.crash(serverId);
    const host = cloud.server(serverId).host ?? '';
    const generatedTime = new Date().toISOString();
    const notification: RecoveryNotification = {
      event: 'LIFECYCLE',
      virDomainEvent: 'STOPPED_FAILED',
      host,
      generatedTime,
    };
    return startRecoverInstance(client, { instanceId: serverId, notification });
  };

  cloud.setTimes({ buildSeconds: 4 });
  const [web, db] = await Promise.all(['web-1', 'db-1'].map(async (name) => (await create(name)).result()));
  if (!web || !db) throw new Error('both were asked for');
  const recovery = await report(web);
  await recovery.result();

  cloud.action(db.serverId, { pause: null });
  while (cloud.server(db.serverId).vmState !== 'paused') await delay(100);
  const skip = await report(db);
  await skip.result();

  cloud.setTimes({ buildSeconds: 600 });
  const waiting = await create('web-2');
  await delay(14_000); // a watch hands over the steps of a build 12 s after the first

  cloud.setQuota(cloud.servers().length);
  const failing = await create('web-3');
  await failing.result().catch(() => undefined);

  return {
    waits: waiting.workflowId,
    failed: failing.workflowId,
    recovered: recovery.workflowId,
    skipped: skip.workflowId,
    async novaGoesAway() {
      cloud.inject({ service: 'compute', times: Infinity, answer: { status: 503, body: 'Service Unavailable' } });
      const attempts = async () => (await waiting.describe()).raw.pendingActivities?.[0]?.attempt ?? 0;
      while ((await attempts()) < 4) await delay(500);
    },
  };
}

void main();
