/**
 * `npm run demo`: from nothing to a server that one workflow created and another recovered, on one machine. Starts a
 * Temporal server, a simulated cloud and a worker, shows what happens, and ends all it started.
 */
import { EXIT, explain } from '../cli/errors';
import { HELP, parseOptions, type DemoOptions } from './options';
import { showRecoveries } from './recoveries';
import { DemoSession, type DemoWorkflow } from './session';
import { announce, say, showCreation } from './show';
import { stay } from './stay';
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
  announce(creation, show);
  const server = await showCreation(creation, show);
  const { recoveries, asExpected } = server
    ? await showRecoveries(session, server, show)
    : { recoveries: [], asExpected: false };
  showLinks([creation, ...recoveries], options);
  if (!options.keep) return asExpected ? 0 : 1;
  staying = true;
  return stay(session, creation, server, show);
}

function showLinks(workflows: DemoWorkflow[], { keep }: DemoOptions): void {
  const links = workflows.flatMap(({ link }) => link ?? []);
  if (links.length === 0) return;
  show('');
  say(show, 'Web UI', ...links, ...(keep ? [] : ['(as long as the demo runs: see --keep)']));
}

function report(error: unknown): number {
  const { exitCode } = explain(error);
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  if (exitCode === EXIT.usage) process.stderr.write('npm run demo -- --help lists the options\n');
  return exitCode;
}

// `npm run demo | head`: nobody reads on
process.stdout.on('error', () => process.exit(141));

if (require.main === module) void runDemo(process.argv.slice(2)).then((exitCode) => process.exit(exitCode));
