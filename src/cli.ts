#!/usr/bin/env node
/**
 * `temporal-nova`: the workflows of this package from a shell; see docs/command-line.md. Each command loads what it
 * needs when it runs: only `worker` and `demo` load Temporal's native module.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { Command, CommanderError, Option } from 'commander';
import type { CodecServerOptions } from './cli/codec-server';
import type { CreateOptions } from './cli/create';
import { EXIT, explain } from './cli/errors';
import type { RecoverOptions } from './cli/recover';
import type { StatusOptions } from './cli/status';

const collect = (value: string, before: string[] = []): string[] => [...before, value];

const taskQueue = () => new Option('--task-queue <name>', 'default: TEMPORAL_TASK_QUEUE, else nova');
const json = () => new Option('--json', 'print one JSON document on standard output, and everything else beside it');
const cloud = () => new Option('--cloud <name>', "one of the worker's other clouds, by its name; default: its own");
const repeated = (flags: string, description: string) =>
  new Option(flags, `${description}; repeatable`).argParser(collect);

/** Runs a command that resolves to its exit code. */
type Run = (command: Promise<number>) => Promise<void>;

function program(run: Run): Command {
  const { version } = JSON.parse(readFileSync(path.join(__dirname, '../package.json'), 'utf8')) as { version: string };
  const temporalNova = new Command('temporal-nova')
    .description('Durable OpenStack Nova workflows for Temporal, from a shell')
    .version(version)
    .enablePositionalOptions()
    .configureOutput({ outputError: (text, write) => write(`temporal-nova: ${text.replace(/^error: /, '')}`) })
    .showHelpAfterError('(--help lists what there is)')
    .exitOverride()
    .addHelpText('after', SETTINGS);
  addCreate(temporalNova, run);
  addRecover(temporalNova, run);
  addStatus(temporalNova, run);
  addWorker(temporalNova, run);
  addCodecServer(temporalNova, run);
  addDemo(temporalNova, run);
  return temporalNova;
}

const SETTINGS = `
Temporal is found as by every Temporal client: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_PROFILE, …
The cloud is that of OS_CLOUD, or of OS_AUTH_URL and the other OS_* settings. TEMPORAL_UI_URL is the Web UI, for links.

Exit codes: 0 created, recovered, planned or started; 1 failed; 2 wrong usage; 3 skipped; 130 Ctrl-C.`;

function addCreate(temporalNova: Command, run: Run): void {
  temporalNova
    .command('create')
    .description('create a server: starts CreateServerWorkflow')
    .requiredOption('--name <name>', "the server's")
    .requiredOption('--flavor <name or id>', 'flavor')
    .requiredOption('--image <name or id>', 'image')
    .addOption(repeated('--network <none|auto|name or id>', 'network').makeOptionMandatory())
    .addOption(repeated('--metadata <key=value>', "the server's metadata"))
    .option('--timeout <duration>', 'from start to ACTIVE, all attempts together: 90s, 10m, 1h (default: 1h)')
    .option('--attempts <number>', 'creations in all, 1 to 10; another one only after ERROR (default: 1)')
    .addOption(
      new Option('--on-failure <keep|delete>', 'what becomes of a server that did not come up (default: keep)').choices(
        ['keep', 'delete'],
      ),
    )
    .option('--workflow-id <id>', 'default: create-<name>-<random>; a second start with the same id is refused')
    .addOption(cloud())
    .option('--wait', 'wait until the server is ACTIVE, and show how it gets there')
    .addOption(taskQueue())
    .addOption(json())
    .addHelpText(
      'after',
      `
Examples:
  temporal-nova create --name web-1 --flavor m1.small --image debian-12 --network private --wait
  temporal-nova create --name web-2 --flavor m1.small --image debian-12 --network auto \\
    --metadata HA_Enabled=True --timeout 30m --attempts 2 --on-failure delete --workflow-id order-4711
  temporal-nova create --name web-3 --flavor 1 --image tiny --network none --wait --json | jq -r .result.serverId`,
    )
    .action(async (options: CreateOptions) => {
      await run(import('./cli/create.js').then(({ create }) => create(options)));
    });
}

function addRecover(temporalNova: Command, run: Run): void {
  temporalNova
    .command('recover')
    .description('recover an instance whose hypervisor process died: starts RecoverInstanceWorkflow, or joins it')
    .argument('<uuid>', "the server's id")
    .addOption(repeated('--policy <key=value>', 'what to do with instances that are not simply running or stopped'))
    .option('--dry-run', 'say what would be done, and change nothing; waits for it')
    .option('--event <name>', 'what a monitor noticed, such as LIFECYCLE')
    .option('--generated-time <time>', 'when it noticed, ISO 8601: an instance started since is left alone')
    .option('--host <name>', 'where it noticed')
    .addOption(cloud())
    .option('--wait', 'wait for the end, and show how it gets there')
    .addOption(taskQueue())
    .addOption(json())
    .addHelpText(
      'after',
      `
Policies, the defaults first:
  paused=skip|restart|restore       rescued=skip|restart|restore    resized=reset|confirm|revert|skip
  stoppedByUser=skip|start          locked=recover|skip
  requireHaEnabled=false|true       haEnabledMetadataKey=HA_Enabled

Examples:
  temporal-nova recover 8a6bd0a8-0e0e-4d9c-9e7f-5d0c3f6d1b2a --dry-run
  temporal-nova recover 8a6bd0a8-0e0e-4d9c-9e7f-5d0c3f6d1b2a --policy paused=restore --policy resized=confirm --wait
  temporal-nova recover 8a6bd0a8-0e0e-4d9c-9e7f-5d0c3f6d1b2a --event LIFECYCLE --generated-time 2026-11-30T21:04:05Z`,
    )
    .action(async (uuid: string, options: RecoverOptions) => {
      await run(import('./cli/recover.js').then(({ recover }) => recover(uuid, options)));
    });
}

function addStatus(temporalNova: Command, run: Run): void {
  temporalNova
    .command('status')
    .description('how a workflow stands; or a server as Nova shows it, and its recovery')
    .argument('<id>', "a workflow's id, or a server's UUID")
    .addOption(json())
    .addHelpText(
      'after',
      `
Examples:
  temporal-nova status create-web-1-5f3a9c
  temporal-nova status 8a6bd0a8-0e0e-4d9c-9e7f-5d0c3f6d1b2a`,
    )
    .action(async (id: string, options: StatusOptions) => {
      await run(import('./cli/status.js').then(({ status }) => status(id, options)));
    });
}

function addWorker(temporalNova: Command, run: Run): void {
  temporalNova
    .command('worker')
    .description('run a worker until SIGINT or SIGTERM, then drain')
    .addOption(taskQueue())
    .addHelpText(
      'after',
      `
Examples:
  OS_CLOUD=mycloud TEMPORAL_ADDRESS=temporal.example.com:7233 temporal-nova worker
  temporal-nova worker --task-queue nova-west`,
    )
    .action(async (options: { taskQueue?: string }) => {
      const env = { ...process.env, ...(options.taskQueue && { TEMPORAL_TASK_QUEUE: options.taskQueue }) };
      await run(import('./worker.js').then(({ workerProcess }) => workerProcess(env)));
    });
}

function addCodecServer(temporalNova: Command, run: Run): void {
  temporalNova
    .command('codec-server')
    .description('decrypt for the Web UI and the temporal command, with the keys of TEMPORAL_NOVA_CODEC_KEYS')
    .option('--host <address>', 'where it listens', '127.0.0.1')
    .option('--port <number>', '0: a free one', '8888')
    .addOption(
      repeated('--web-ui-origin <url>', "the Web UI's; default: TEMPORAL_UI_URL, else a dev server's, on port 8233"),
    )
    .option('--behind-proxy', 'something in front checks who asks: needs no token, and takes any host name')
    .addHelpText(
      'after',
      `
Beyond this machine every request has to bring TEMPORAL_NOVA_CODEC_TOKEN, as "Authorization: Bearer …".

Examples:
  export TEMPORAL_NOVA_CODEC_KEYS="2026-12:$(openssl rand -base64 32)"
  temporal-nova codec-server
  temporal workflow show --codec-endpoint http://127.0.0.1:8888 --workflow-id order-4711
  temporal-nova codec-server --host 0.0.0.0 --behind-proxy --web-ui-origin https://temporal.example.com`,
    )
    .action(async (options: CodecServerOptions) => {
      await run(import('./cli/codec-server.js').then(({ codecServer }) => codecServer(options)));
    });
}

/** Its options are the demo's own business, `--help` too. */
function addDemo(temporalNova: Command, run: Run): void {
  temporalNova
    .command('demo')
    .description('see it all on this machine, with nothing prepared; "temporal-nova demo --help" lists its options')
    .argument('[options...]')
    .helpOption(false)
    .allowUnknownOption()
    .passThroughOptions()
    .action(async (args: string[]) => {
      await run(import('./demo/main.js').then(({ runDemo }) => runDemo(args)));
    });
}

async function main(args: string[]): Promise<number> {
  let exitCode: number = EXIT.done;
  try {
    await program(async (command) => void (exitCode = await command)).parseAsync(args, { from: 'user' });
    return exitCode;
  } catch (error) {
    // Commander has said it already, and ends with 0 after --help and --version.
    const said = error instanceof CommanderError;
    if (said && error.exitCode === 0) return EXIT.done;
    const { message, exitCode: failed } = said
      ? { message: error.message.replace(/^error: /, ''), exitCode: EXIT.usage }
      : explain(error);
    if (!said) process.stderr.write(`temporal-nova: ${message}\n`);
    if (args.includes('--json')) {
      process.stdout.write(`${JSON.stringify({ status: 'failed', error: message }, null, 2)}\n`);
    }
    return failed;
  }
}

// `temporal-nova … | head`: nobody reads on
process.stdout.on('error', () => process.exit(141));

// Whatever still holds the process open then has nothing left to do; what was printed has to be out first.
void main(process.argv.slice(2)).then((exitCode) =>
  process.stdout.write('', () => process.stderr.write('', () => process.exit(exitCode))),
);
