/**
 * `npm run demo`: from nothing to a server that a workflow created, on one machine. Starts a Temporal server, a
 * simulated cloud and a worker, creates a server while showing what happens, and ends all it started.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { WorkflowFailedError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { follow } from './follow';
import { driveBy, help } from './keyboard';
import { HELP, parseOptions, UsageError, type DemoOptions } from './options';
import { DemoSession, type DemoCreation } from './session';
import type { Log } from './tool-cache';

/** The exit code that a shell expects of a process that a signal ended. */
const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

const show: Log = (line) => void process.stdout.write(`${line}\n`);

/**
 * The whole demo: its signals and what it says of errors included.
 *
 * @param args as after `npm run demo --`
 * @returns the exit code; whatever still holds the process open then has nothing left to do
 */
export async function runDemo(args: string[]): Promise<number> {
  return main(args).catch(report);
}

async function main(args: string[]): Promise<number> {
  const options = parseOptions(args, process.env);
  if (options.help) {
    show(HELP);
    return 0;
  }
  let fail!: (error: Error) => void;
  const failed = new Promise<never>((_, reject) => (fail = reject));
  const session = new DemoSession(options, show, fail);
  try {
    return await Promise.race([run(session, options), failed, interrupted()]);
  } finally {
    await session.end();
  }
}

let staying = false;

/** Resolves at the first signal; a second one doesn't wait for the end. */
function interrupted(): Promise<number> {
  return new Promise((resolve) => {
    for (const [signal, exitCode] of Object.entries(SIGNALS)) {
      process.once(signal, () => {
        process.once(signal, () => process.exit(exitCode));
        show(`\n${signal}: ending`);
        resolve(staying ? 0 : exitCode);
      });
    }
  });
}

async function run(session: DemoSession, options: DemoOptions): Promise<number> {
  await session.start();
  const creation = await session.create();
  show(`Workflow   ${creation.workflowId}`);
  if (creation.link) show(`           ${creation.link}`);
  show('');
  const created = await showCreation(creation, show);
  if (creation.link)
    show(`Web UI     ${creation.link}${options.keep ? '' : '\n           (as long as the demo runs: see --keep)'}`);
  if (!options.keep) return created ? 0 : 1;
  staying = true;
  return stay(session, creation);
}

/** Shows one creation to its end, and returns whether it has created a server. */
async function showCreation(creation: DemoCreation, show: Log): Promise<boolean> {
  try {
    const { serverId, name, status, host, addresses, attempts } = await follow(creation, show);
    const { historyLength } = await creation.handle.describe();
    const networks = Object.entries(addresses).map(([network, list]) =>
      [network, ...list.map(({ addr }) => addr)].join(' '),
    );
    show('');
    show(`Result     server ${name} is ${status} after ${attempts === 1 ? '1 attempt' : `${attempts} attempts`}`);
    show(`           id ${serverId}`);
    if (host) show(`           host ${host}`);
    show(`           addresses ${networks.join(', ') || 'none'}`);
    show(`           ${historyLength} events in the workflow's history`);
    return true;
  } catch (error) {
    if (!(error instanceof WorkflowFailedError)) throw error;
    const { cause } = error;
    show('');
    show(
      `Failed     ${cause instanceof ApplicationFailure ? `${cause.type}: ` : ''}${cause?.message ?? error.message}`,
    );
    return false;
  }
}

/** Stays up until a signal comes. */
async function stay(session: DemoSession, creation: DemoCreation): Promise<never> {
  const { simulated } = session.cloud;
  show(`\nIn another terminal:\n${commandsToTry(session, creation).join('\n')}`);
  if (simulated) {
    show('\nDrive the simulated cloud by typing here:');
    help(show);
  }
  show(`\nAll this stays up until Ctrl-C${simulated ? '' : '; servers made on the cloud are kept'}.`);
  if (simulated) {
    await driveBy(
      process.stdin,
      {
        cloud: simulated,
        create: (name) => createAnother(session, name),
        replaceWorker: () => session.replaceWorker(),
      },
      show,
    );
  }
  for (;;) await sleep(60_000);
}

async function createAnother(session: DemoSession, name: string | undefined): Promise<void> {
  const creation = await session.create(name);
  show(`${creation.workflowId}${creation.link ? `  ${creation.link}` : ''}`);
  const prefixed: Log = (line) => show(`${creation.name}: ${line}`);
  void showCreation(creation, prefixed).catch((error: unknown) => prefixed(String(error)));
}

function commandsToTry({ temporal, taskQueue, cloud }: DemoSession, { workflowId }: DemoCreation): string[] {
  const { address, namespace, cli } = temporal;
  const input = JSON.stringify({ server: cloud.server('web-1'), timeout: '30m' });
  const one = '--workflow-id create-web-1';
  return [
    ...(cli ? [`alias temporal='${cli}'`] : []),
    `export TEMPORAL_ADDRESS=${address} TEMPORAL_NAMESPACE=${namespace}`,
    'temporal workflow list',
    `temporal workflow show --workflow-id ${workflowId}`,
    `temporal workflow start --type CreateServerWorkflow --task-queue ${taskQueue} ${one} --input '${input}'`,
    `temporal workflow query ${one} --type progress`,
    `temporal workflow signal ${one} --name wake`,
    `temporal workflow update execute ${one} --name extendTimeout --input '"10m"'`,
    `temporal workflow update execute ${one} --name serverId`,
    `temporal workflow cancel ${one}`,
  ].map((line) => `  ${line}`);
}

function report(error: unknown): number {
  const usage = error instanceof UsageError;
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  if (usage) process.stderr.write('npm run demo -- --help lists the options\n');
  return usage ? 2 : 1;
}

// `npm run demo | head`: nobody reads on
process.stdout.on('error', () => process.exit(141));

if (require.main === module) void runDemo(process.argv.slice(2)).then((exitCode) => process.exit(exitCode));
