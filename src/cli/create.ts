/** `temporal-nova create` */
import { randomBytes } from 'node:crypto';
import type { Duration } from '@temporalio/common';
import { startCreateServer, type CreateServerInput, type CreateServerResult } from '../client';
import { checkCreateServerInput } from '../workflows/create-server-input';
import { chooseServer } from './cloud';
import { EXIT } from './errors';
import { checked, checkNotEmpty, checkUnit, toRecord } from './input';
import { describeAddresses, Output } from './output';
import { run, type CommonOptions } from './run';
import { withTemporal } from './temporal';

export interface CreateOptions extends CommonOptions {
  name: string;
  flavor: string;
  image: string;
  network: string[];
  timeout?: string;
  attempts?: string;
  onFailure?: string;
  metadata?: string[];
  workflowId?: string;
}

/** @returns the exit code */
export async function create(options: CreateOptions): Promise<number> {
  const { name, flavor, image, network: networks, cloud, taskQueue, wait = false, json = false } = options;
  const output = new Output(json);
  checkNotEmpty({ name, flavor, image, network: networks, cloud, workflowId: options.workflowId });
  const settings = settingsOf(options);
  const metadata = options.metadata && toRecord('--metadata', options.metadata);
  checked(checkCreateServerInput, { server: { name }, ...settings });
  const chosen = await chooseServer({ flavor, image, networks, cloud });
  const input: CreateServerInput = { server: { name, ...chosen, ...(metadata && { metadata }) }, ...settings };
  const workflowId = options.workflowId ?? `create-${name.replace(/\s+/g, '-')}-${randomBytes(3).toString('hex')}`;
  return withTemporal(taskQueue, async (temporal) => {
    const handle = await startCreateServer(temporal.client, input, { workflowId, taskQueue: temporal.taskQueue });
    return run(temporal, output, { handle, runId: handle.firstExecutionRunId }, wait, (result) => tell(output, result));
  });
}

function settingsOf({ timeout, attempts, onFailure, cloud }: CreateOptions): Omit<CreateServerInput, 'server'> {
  checkUnit('--timeout', timeout);
  return {
    ...(timeout !== undefined && { timeout: timeout as Duration }),
    ...(attempts !== undefined && { attempts: Number(attempts) }),
    ...(onFailure !== undefined && { onFailure: onFailure as CreateServerInput['onFailure'] }),
    ...(cloud !== undefined && { cloud }),
  };
}

function tell(output: Output, { serverId, name, status, host, addresses, attempts }: CreateServerResult): number {
  output.say(
    'Created',
    `server ${name} is ${status}${attempts > 1 ? ` after ${attempts} attempts` : ''}`,
    `id ${serverId}`,
    host !== null && `host ${host}`,
    describeAddresses(addresses),
  );
  return EXIT.done;
}
