/** `--keep`: all that was started stays up, with commands to try. */
import { setTimeout as sleep } from 'node:timers/promises';
import { DEFAULT_TASK_QUEUE, recoveryWorkflowId, type CreateServerResult, type RecoverInstanceInput } from '../client';
import { driveBy, help, type Driven } from './keyboard';
import { notificationOf, restoreCommand } from './recoveries';
import type { DemoSession, DemoWorkflow } from './session';
import { showCreation, showRecovery } from './show';
import type { Log } from './tool-cache';

/**
 * Never resolves: a signal ends the demo.
 *
 * @param server undefined when its creation failed
 */
export async function stay(
  session: DemoSession,
  creation: DemoWorkflow,
  server: CreateServerResult | undefined,
  show: Log,
): Promise<never> {
  const { simulated } = session.cloud;
  show(`\nIn another terminal, in this folder:\n${commandsToTry(session, creation, server).join('\n')}`);
  if (simulated) {
    show('\nDrive the simulated cloud by typing here:');
    help(show);
  }
  show(`\nAll this stays up until Ctrl-C${simulated ? '' : '; servers made on the cloud are kept'}.`);
  if (simulated) {
    const driven: Driven = {
      cloud: simulated,
      create: (name) => createAnother(session, name, show),
      recover: (id, policy) => recover(session, id, policy, show),
      replaceWorker: () => session.replaceWorker(),
    };
    await driveBy(process.stdin, driven, show);
  }
  for (;;) await sleep(60_000);
}

async function createAnother(session: DemoSession, name: string | undefined, show: Log): Promise<void> {
  const creation = await session.create(name);
  beside(creation, show, (prefixed) => showCreation(creation, prefixed));
}

async function recover(
  session: DemoSession,
  id: string,
  policy: RecoverInstanceInput['policy'],
  show: Log,
): Promise<void> {
  const notification = notificationOf(true, session.cloud.simulated?.server(id).host);
  const recovery = await session.recover({ instanceId: id, notification, policy });
  beside(recovery, show, (prefixed) => showRecovery(recovery, prefixed));
}

/** Shows a workflow while other lines are typed. */
function beside({ workflowId, name, link }: DemoWorkflow, show: Log, showIt: (show: Log) => Promise<unknown>): void {
  const prefixed: Log = (line) => show(`${name}: ${line}`);
  show(`${workflowId}${link ? `  ${link}` : ''}`);
  void showIt(prefixed).catch((error: unknown) => prefixed(String(error)));
}

function commandsToTry(
  { temporal, taskQueue, cloud }: DemoSession,
  { workflowId }: DemoWorkflow,
  server: CreateServerResult | undefined,
): string[] {
  const { address, namespace, cli } = temporal;
  const creating = JSON.stringify({ server: cloud.server('web-1'), timeout: '30m' });
  const one = '--workflow-id create-web-1';
  const ownQueue = taskQueue === DEFAULT_TASK_QUEUE ? '' : ` TEMPORAL_TASK_QUEUE=${taskQueue}`;
  return [
    ...(cli ? [`alias temporal='${cli}'`] : []),
    `export TEMPORAL_ADDRESS=${address} TEMPORAL_NAMESPACE=${namespace}${ownQueue}`,
    'temporal workflow list',
    `temporal workflow show --workflow-id ${workflowId}`,
    `temporal workflow start --type CreateServerWorkflow --task-queue ${taskQueue} ${one} --input '${creating}'`,
    `temporal workflow query ${one} --type progress`,
    `temporal workflow signal ${one} --name wake`,
    `temporal workflow update execute ${one} --name extendTimeout --input '"10m"'`,
    `temporal workflow update execute ${one} --name serverId`,
    `temporal workflow cancel ${one}`,
    ...(server ? recoveriesToTry(taskQueue, server.serverId) : []),
  ].map((line) => `  ${line}`);
}

function recoveriesToTry(taskQueue: string, instanceId: string): string[] {
  const id = recoveryWorkflowId(instanceId);
  const recovering = JSON.stringify({ instanceId, policy: { paused: 'restart' } });
  return [
    `npx temporal-nova status ${id}`,
    `npx temporal-nova recover ${instanceId} --dry-run`,
    restoreCommand(instanceId),
    `temporal workflow start --type RecoverInstanceWorkflow --task-queue ${taskQueue} --workflow-id ${id} --input '${recovering}'`,
  ];
}
