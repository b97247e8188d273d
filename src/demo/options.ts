import { parseArgs } from 'node:util';
import { hasCloud } from '../cli/cloud';
import { UsageError } from '../cli/errors';

export interface DemoOptions {
  /** Stay up until Ctrl-C. */
  keep: boolean;
  /** Use the cloud of OS_CLOUD or OS_AUTH_URL instead of the simulated one. */
  cloud: boolean;
  /** Ids or names; default: found through the API. Only with `cloud`. */
  flavor?: string;
  image?: string;
  network?: string;
  /** How long the simulated cloud takes to build a server. */
  buildSeconds: number;
  help: boolean;
}

export const HELP = `npm run demo -- [options]

Creates a server through CreateServerWorkflow, lets its process die, recovers it through RecoverInstanceWorkflow, and
shows what happens. Needs nothing prepared: it starts a Temporal server with its Web UI, a worker, and a simulated cloud,
and ends them all.

  --keep               stay up until Ctrl-C, with the Web UI and commands to try
  --build-seconds N    how long the simulated cloud builds a server; default 8
  --cloud              use the cloud of OS_CLOUD or OS_AUTH_URL. No process is killed there: the healthy server is
                       stopped and started, and paused. It is deleted at the end, unless --keep
  --flavor ID|NAME     default: the smallest
  --image ID|NAME      default: the first active one
  --network ID|NAME|auto|none
                       default: the first one, or none where there is none
  --help

TEMPORAL_ADDRESS names a Temporal server that runs already, TEMPORAL_CLI_PATH a Temporal CLI to start one with.`;

/** @throws UsageError that says what is wrong with the arguments */
export function parseOptions(args: string[], env: NodeJS.ProcessEnv): DemoOptions {
  const values = parse(args);
  const buildSeconds = Number(values['build-seconds'] ?? 8);
  if (!(buildSeconds >= 0)) throw new UsageError(`--build-seconds takes a number, not ${values['build-seconds']}`);
  const { keep = false, cloud = false, help = false, flavor, image, network } = values;
  if (cloud && !hasCloud(env)) throw new UsageError('--cloud needs OS_CLOUD or OS_AUTH_URL');
  if (cloud && values['build-seconds'] !== undefined) throw new UsageError('--build-seconds can’t be had with --cloud');
  for (const [name, value] of Object.entries({ flavor, image, network })) {
    if (value !== undefined && !cloud)
      throw new UsageError(`--${name} needs --cloud: the simulated cloud has one only`);
    if (value === '') throw new UsageError(`--${name} is empty`);
  }
  return { keep, cloud, help, flavor, image, network, buildSeconds };
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      options: {
        keep: { type: 'boolean' },
        cloud: { type: 'boolean' },
        flavor: { type: 'string' },
        image: { type: 'string' },
        network: { type: 'string' },
        'build-seconds': { type: 'string' },
        help: { type: 'boolean', short: 'h' },
      },
    }).values;
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}
