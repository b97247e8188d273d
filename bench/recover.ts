/**
 * Recoveries one after another: from the start's call to the result, which says ACTIVE and running; and how much of that
 * is Nova's own. Nova's own is the time in which the server shows a task (powering-off, powering-on), seen by a watch
 * beside it: the events of the instance actions tell whole seconds only. On a cloud that has Masakari, the same failure
 * is then posted there. `BENCH_RECOVERIES` is how many; default 10.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { startRecoverInstance, type PollingOptions } from '../src/client';
import { createComputeClient, loadCloudConfig, type ComputeClient, type NovaServer } from '../src/nova';
import type { Measure } from './main';
import { findMasakari, finished, postFailure, type Masakari } from './masakari';
import { quantile, Stage } from './stage';

const RECOVERIES = Number(process.env.BENCH_RECOVERIES ?? 10);

/** Looks twice a second: what a service sets that wants its instances back soon. */
const SOON: PollingOptions = { initialInterval: '500ms', maximumInterval: '500ms' };

/** Milliseconds between looks of the watch: more of them would slow down what they measure. */
const LOOK_EVERY = 50;

/** Seconds. */
interface Run {
  /** Until the caller knows. */
  total: number;
  /** Until the server was ACTIVE and running again, as the watch saw it. */
  active: number;
  /** In tasks of Nova's. */
  nova: number;
}

export async function benchRecover(): Promise<Measure[]> {
  const onCloud = process.env.OS_AUTH_URL !== undefined;
  const stage = await Stage.open(onCloud ? 'environment' : { buildSeconds: 0.2, actionSeconds: 0.2 }, 'admin');
  const compute = createComputeClient(loadCloudConfig(stage.cloudEnv));
  const servers: NovaServer[] = [];
  try {
    servers.push(...(await makeServers(compute, RECOVERIES + 1)));
    const [first, ...rest] = servers.map(({ id }) => id);
    await ours(stage, compute, first!, undefined);
    const where = onCloud ? 'the cloud of OS_*' : 'the simulator (0.2 s an action)';
    const measures = [
      ...table(`recovery on ${where}, default polling`, await each(rest, (id) => ours(stage, compute, id, undefined))),
      ...table('looking every 0.5 s', await each(rest, (id) => ours(stage, compute, id, SOON))),
    ];
    const masakari = onCloud ? await findMasakari(process.env) : undefined;
    const known = servers.slice(1).filter((server) => masakari?.hosts.has(hostOf(server)));
    if (masakari !== undefined && known.length > 0) {
      const runs: Run[] = [];
      for (const server of known) runs.push(await theirs(masakari, compute, server));
      measures.push(...table('Masakari, the same failure on the same cloud', runs, false));
    }
    return measures;
  } finally {
    for (const { id } of servers) await compute.deleteServer(id).catch(() => undefined);
    compute.close();
    await stage.close();
  }
}

function table(what: string, runs: Run[], isOurs = true): Measure[] {
  const sorted = (of: (run: Run) => number) => runs.map(of).sort((a, b) => a - b);
  const middle = (of: (run: Run) => number) => `${quantile(sorted(of), 0.5)} s`;
  const total = sorted((run) => run.total);
  const share = sorted((run) => run.total - run.nova);
  return [
    {
      what: `${runs.length} × ${what}: from start to result, p50 · most`,
      value: `${quantile(total, 0.5)} · ${quantile(total, 1)} s`,
      aim: '',
    },
    { what: '  of that, until ACTIVE and running, p50', value: middle((run) => run.active), aim: '' },
    { what: '  Nova’s own, p50', value: middle((run) => run.nova), aim: '' },
    {
      what: `  ${isOurs ? 'our' : 'its'} share, p50 · most`,
      value: `${quantile(share, 0.5)} · ${quantile(share, 1)} s`,
      aim: isOurs ? '1 s' : '',
    },
  ];
}

async function each(ids: string[], recover: (id: string) => Promise<Run>): Promise<Run[]> {
  const runs: Run[] = [];
  for (const id of ids) runs.push(await recover(id));
  return runs;
}

async function ours(
  { client, taskQueue }: Stage,
  compute: ComputeClient,
  instanceId: string,
  polling: PollingOptions | undefined,
): Promise<Run> {
  return timed(compute, instanceId, async () => {
    const handle = await startRecoverInstance(client, { instanceId, ...(polling && { polling }) }, { taskQueue });
    const { outcome, message } = await handle.result();
    if (outcome !== 'recovered') throw new Error(`${outcome}: ${message}`);
  });
}

async function theirs(masakari: Masakari, compute: ComputeClient, server: NovaServer): Promise<Run> {
  return timed(compute, server.id, async () =>
    finished(masakari, await postFailure(masakari, server.id, hostOf(server))),
  );
}

/** Watches the server beside what recovers it. */
async function timed(compute: ComputeClient, id: string, recover: () => Promise<void>): Promise<Run> {
  const began = performance.now();
  let isOver = false;
  const watch = (async () => {
    let [nova, active, busySince, wasStopped] = [0, NaN, NaN, false];
    for (;;) {
      const last = isOver;
      const server = await compute.getServer(id);
      const now = performance.now();
      const { 'OS-EXT-STS:task_state': task, 'OS-EXT-STS:vm_state': vmState } = server;
      if (task && Number.isNaN(busySince)) busySince = now;
      if (!task && !Number.isNaN(busySince)) [nova, busySince] = [nova + now - busySince, NaN];
      wasStopped ||= vmState === 'stopped';
      if (wasStopped && isUp(server) && Number.isNaN(active)) active = now;
      if (last) return { nova, active };
      await delay(LOOK_EVERY);
    }
  })();
  try {
    await recover();
  } finally {
    isOver = true;
  }
  const total = performance.now() - began;
  const { nova, active } = await watch;
  return { total: total / 1000, active: (active - began) / 1000, nova: nova / 1000 };
}

async function makeServers(compute: ComputeClient, count: number): Promise<NovaServer[]> {
  const { OS_TEST_FLAVOR: flavorName, OS_TEST_IMAGE: imageName } = process.env;
  const flavors = (await compute.listFlavors()).sort((a, b) => (a.ram ?? 0) - (b.ram ?? 0));
  const flavor = flavors.find(({ id, name }) => flavorName === undefined || id === flavorName || name === flavorName);
  const image = (await compute.listImages()).find(({ id, name, status }) =>
    imageName === undefined ? status === 'active' : id === imageName || name === imageName,
  );
  if (flavor === undefined || image === undefined) throw new Error('the cloud has no flavor or no image to boot from');
  const run = `bench-${randomBytes(4).toString('hex')}`;
  const ids: string[] = [];
  for (let i = 0; i < count; i++) {
    const request = { name: `${run}-${i}`, flavorRef: flavor.id, imageRef: image.id, networks: 'none' as const };
    // Masakari recovers those only that say so.
    const { id } = await compute.createServer({ ...request, metadata: { HA_Enabled: 'True' } }, { tags: [run] });
    ids.push(id);
  }
  return Promise.all(ids.map((id) => up(compute, id)));
}

async function up(compute: ComputeClient, id: string): Promise<NovaServer> {
  for (;;) {
    const server = await compute.getServer(id);
    if (isUp(server)) return server;
    if (server.status === 'ERROR') throw new Error(`server ${id} went to ERROR: ${server.fault?.message}`);
    await delay(500);
  }
}

function isUp(server: NovaServer): boolean {
  const { 'OS-EXT-STS:vm_state': vmState, 'OS-EXT-STS:task_state': task, 'OS-EXT-STS:power_state': power } = server;
  return vmState === 'active' && !task && power === 1;
}

function hostOf(server: NovaServer): string {
  return server['OS-EXT-SRV-ATTR:host'] ?? '';
}
