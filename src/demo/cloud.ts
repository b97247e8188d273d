/** The cloud that the demo creates its server on: the simulated one, or the one that OS_* settings name. */
import { setTimeout as sleep } from 'node:timers/promises';
import { choose } from '../cli/cloud';
import { UsageError } from '../cli/errors';
import { createComputeClient, loadCloudConfig, NovaError, type ComputeClient, type NovaServerRequest } from '../nova';
import { toServerState, type ServerState } from '../policy/server-state';
import { SimulatedCloud, type SimulatedServer } from '../simulator';
import type { DemoOptions } from './options';

export interface DemoCloud {
  /** What it is, for a person. */
  description: string;
  /** OS_* settings for the worker. */
  env: NodeJS.ProcessEnv;
  /** Undefined for a real cloud. */
  simulated: SimulatedCloud | undefined;
  /** What to send to CreateServerWorkflow for one small server. */
  server(name: string): NovaServerRequest;
  /** What Nova shows of a server. */
  look(id: string): Promise<ServerState>;
  /** Pauses a server and waits until it is PAUSED. Rejects where the cloud refuses that, or its hypervisor can't. */
  pause(id: string): Promise<void>;
  /** Deletes a server and waits until it is gone. */
  deleteServer(id: string): Promise<void>;
  close(): Promise<void>;
}

const GONE_WITHIN_MS = 120_000;
const PAUSED_WITHIN_MS = 30_000;
/** Long enough for a person to see what an action does. */
const ACTION_SECONDS = 0.7;

export async function simulatedCloud(buildSeconds: number): Promise<DemoCloud> {
  const cloud = await SimulatedCloud.start({ buildSeconds, actionSeconds: ACTION_SECONDS });
  const look = (id: string): Promise<ServerState> => Promise.resolve(stateOf(cloud.server(id)));
  return {
    description: `a simulated cloud, ${cloud.authUrl}`,
    env: cloud.env(),
    simulated: cloud,
    server: (name) => ({ name, flavorRef: cloud.flavorId, imageRef: cloud.imageId, networks: 'none' }),
    look,
    pause: async (id) => {
      cloud.action(id, { pause: null });
      await untilPaused(id, look);
    },
    deleteServer: (id) => Promise.resolve(cloud.delete(id)),
    close: () => cloud.stop(),
  };
}

/** A server of the simulated cloud in the words of the rest. */
export function stateOf(server: SimulatedServer): ServerState {
  return toServerState({
    status: server.status,
    locked: server.locked,
    'OS-EXT-STS:vm_state': server.vmState,
    'OS-EXT-STS:task_state': server.taskState,
    'OS-EXT-STS:power_state': server.powerState,
    'OS-EXT-SRV-ATTR:host': server.host,
  });
}

/**
 * @throws UsageError when the cloud has no such flavor, image or network
 * @throws NovaError `Configuration` when the settings are wrong; others when it refuses or can't be reached
 */
export async function realCloud(options: DemoOptions, env: NodeJS.ProcessEnv): Promise<DemoCloud> {
  const config = loadCloudConfig(env);
  const compute = createComputeClient(config);
  try {
    const request = await chooseServer(compute, options);
    const { flavorRef, imageRef, networks } = request;
    const look = async (id: string): Promise<ServerState> => toServerState(await compute.getServer(id));
    return {
      description:
        `${config.authUrl}, Nova ${await compute.microversion()}, flavor ${flavorRef}, image ${imageRef}, ` +
        `network ${typeof networks === 'string' ? networks : networks?.[0]?.uuid}`,
      env: Object.fromEntries(Object.entries(env).filter(([name]) => name.startsWith('OS_'))),
      simulated: undefined,
      server: (name) => ({ name, ...request }),
      look,
      pause: async (id) => {
        await compute.serverAction(id, { pause: null });
        await untilPaused(id, look);
      },
      deleteServer: (id) => deleteServer(compute, id),
      close: () => Promise.resolve(compute.close()),
    };
  } catch (error) {
    compute.close();
    throw error;
  }
}

type Chosen = Pick<NovaServerRequest, 'flavorRef' | 'imageRef' | 'networks'>;

async function chooseServer(compute: ComputeClient, options: DemoOptions): Promise<Chosen> {
  const [flavors, images] = [await compute.listFlavors(), await compute.listImages()];
  const smallest = [...flavors].sort((a, b) => size(a) - size(b));
  const active = images.filter((image) => image.status === 'active');
  return {
    flavorRef: chooseOrFirst('flavor', smallest, options.flavor),
    imageRef: chooseOrFirst('image', active, options.image),
    networks: await chooseNetworks(compute, options.network),
  };
}

/** Memory decides, then cores, then disk. */
function size({ ram = 0, vcpus = 0, disk = 0 }: { ram?: number; vcpus?: number; disk?: number }): number {
  return (ram * 1_000 + vcpus) * 1_000_000 + disk;
}

/** With microversion 2.37 and later `networks` has to be there. */
async function chooseNetworks(compute: ComputeClient, wanted?: string): Promise<NovaServerRequest['networks']> {
  if (wanted === 'auto' || wanted === 'none') return wanted;
  const networks = await compute.listNetworks();
  if (wanted === undefined && networks.length === 0) return 'none';
  return [{ uuid: chooseOrFirst('network', networks, wanted) }];
}

function chooseOrFirst(what: string, items: { id: string; name: string | null }[], wanted?: string): string {
  if (wanted !== undefined) return choose(what, wanted, items);
  if (!items[0]) throw new UsageError(`this cloud has no ${what} that can be used`);
  return items[0].id;
}

async function untilPaused(id: string, look: DemoCloud['look']): Promise<void> {
  const deadline = Date.now() + PAUSED_WITHIN_MS;
  for (;;) {
    const { vmState, taskState } = await look(id);
    if (vmState === 'paused' && taskState === null) return;
    if (Date.now() > deadline) throw new Error(`it is not paused after ${PAUSED_WITHIN_MS / 1_000} s`);
    await sleep(100);
  }
}

async function deleteServer(compute: ComputeClient, id: string): Promise<void> {
  const deadline = Date.now() + GONE_WITHIN_MS;
  try {
    await compute.deleteServer(id);
    while ((await compute.getServer(id)).status !== 'SOFT_DELETED') {
      if (Date.now() > deadline) throw new Error(`server ${id} is not gone after ${GONE_WITHIN_MS / 1_000} s`);
      await sleep(500);
    }
  } catch (error) {
    if (!(error instanceof NovaError && error.kind === 'NotFound')) throw error;
  }
}
