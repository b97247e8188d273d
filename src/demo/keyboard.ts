/** Lets a person drive the simulated cloud by lines: on a terminal, or piped in. */
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { policyOf } from '../cli/recover';
import type { RecoverInstanceInput } from '../client';
import { describeState } from '../policy/server-state';
import type { SimulatedCloud, SimulatedServer } from '../simulator';
import { stateOf } from './cloud';
import type { Log } from './tool-cache';

export interface Driven {
  cloud: SimulatedCloud;
  /** Starts another creation. */
  create(name: string | undefined): Promise<void>;
  /** Starts a recovery, or joins the one that runs. @param policy as in RecoverInstanceInput, as far as it was typed */
  recover(id: string, policy: RecoverInstanceInput['policy']): Promise<void>;
  /** Kills the worker, and starts another one. */
  replaceWorker(): Promise<void>;
}

interface Command {
  arguments: string;
  does: string;
  run(driven: Driven, words: string[], show: Log): Promise<void> | void;
}

/** What is done to a server that a person names. */
function onServer(does: string, act: (cloud: SimulatedCloud, id: string) => void): Command {
  return {
    arguments: '[server]',
    does,
    async run({ cloud }, [wanted], show) {
      const server = findServer(cloud, wanted);
      act(cloud, server.id);
      show(`${server.name} is now ${shown(await settled(cloud, server.id))}`);
    },
  };
}

const action = (name: string) => (cloud: SimulatedCloud, id: string) => cloud.action(id, { [name]: null });

const COMMANDS: Record<string, Command> = {
  list: { arguments: '', does: 'the servers of the simulated cloud', run: ({ cloud }, _, show) => list(cloud, show) },
  create: {
    arguments: '[name]',
    does: 'start another CreateServerWorkflow',
    run: (driven, [name]) => driven.create(name),
  },
  recover: {
    arguments: '[server] [policy]',
    does: 'a monitor reports its failure: start RecoverInstanceWorkflow; policy: as paused=restore',
    run: (driven, words) => {
      const wanted = words.find((word) => !word.includes('='));
      const policy = policyOf(words.filter((word) => word.includes('=')));
      return driven.recover(findServer(driven.cloud, wanted).id, policy);
    },
  },
  pause: onServer('an operator pauses it', action('pause')),
  unpause: onServer('an operator lets it go on', action('unpause')),
  stop: onServer('an operator stops it', action('os-stop')),
  start: onServer('an operator starts it', action('os-start')),
  crash: onServer('its hypervisor process dies, which Nova notices', (cloud, id) => {
    cloud.crash(id);
    cloud.runPowerSync();
  }),
  fail: onServer('its build fails on the host', (cloud, id) => cloud.failBuild(id)),
  delete: onServer('somebody deletes it', (cloud, id) => cloud.delete(id)),
  'kill-worker': {
    arguments: '',
    does: 'SIGKILL to the worker, and another one is started: what it did goes on',
    run: (driven) => driven.replaceWorker(),
  },
  help: { arguments: '', does: 'this list', run: (_, __, show) => help(show) },
};

export function help(show: Log): void {
  for (const [name, command] of Object.entries(COMMANDS)) {
    show(`  ${`${name} ${command.arguments}`.padEnd(25)} ${command.does}`);
  }
  show('  A server is named by its name, its id or the beginning of it; without one, the newest is meant.');
  show(
    '  Try "recover paused=restore"; "stop", then "recover" and "recover stoppedByUser=start"; "crash", then "recover".',
  );
}

/** Carries out the lines of an input, one after the other, until it ends. */
export async function driveBy(input: Readable, driven: Driven, show: Log): Promise<void> {
  for await (const line of createInterface({ input })) {
    const [name, ...words] = line.trim().split(/\s+/);
    if (!name) continue;
    const command = COMMANDS[name];
    try {
      if (command) await command.run(driven, words, show);
      else show(`no such command: ${name}; "help" lists them`);
    } catch (error) {
      show(error instanceof Error ? error.message : String(error));
    }
  }
}

function list(cloud: SimulatedCloud, show: Log): void {
  const servers = cloud.servers();
  if (servers.length === 0) show('no servers');
  for (const server of servers) show(`  ${server.id}  ${server.name.padEnd(24)} ${shown(server)}`);
}

function findServer(cloud: SimulatedCloud, wanted: string | undefined): SimulatedServer {
  const servers = cloud.servers();
  if (wanted === undefined) {
    const newest = servers.at(-1);
    if (!newest) throw new Error('the simulated cloud has no server');
    return newest;
  }
  const exact = servers.filter(({ id, name }) => id === wanted || name === wanted);
  const found =
    exact.length > 0 ? exact : servers.filter(({ id, name }) => id.startsWith(wanted) || name.startsWith(wanted));
  if (found.length > 1) throw new Error(`${wanted} could be ${found.map(({ id }) => id).join(' or ')}`);
  if (!found[0]) throw new Error(`the simulated cloud has no server ${wanted}; "list" shows them`);
  return found[0];
}

/** The server once nothing is under way on it any more, or as it is after 3 s. */
async function settled(cloud: SimulatedCloud, id: string): Promise<SimulatedServer> {
  for (let waited = 0; cloud.server(id).taskState !== null && waited < 3_000; waited += 50) await sleep(50);
  return cloud.server(id);
}

function shown(server: SimulatedServer): string {
  return describeState(stateOf(server));
}
