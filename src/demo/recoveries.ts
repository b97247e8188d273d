/** The demo's second part: an instance whose process died is recovered; a paused one is left alone, with a warning. */
import type { CreateServerResult, RecoverInstanceResult, RecoveryNotification } from '../client';
import { describeState, type ServerState } from '../policy/server-state';
import type { DemoSession, DemoWorkflow } from './session';
import { announce, say, showRecovery } from './show';
import type { Log } from './tool-cache';

export type DemoRecovery = DemoWorkflow<RecoverInstanceResult>;

/** @returns the recoveries, and whether each ended as it should */
export async function showRecoveries(
  session: DemoSession,
  server: CreateServerResult,
  show: Log,
): Promise<{ recoveries: DemoRecovery[]; asExpected: boolean }> {
  const recoveries: DemoRecovery[] = [];
  const outcomeOf = async (notification: RecoveryNotification): Promise<string | undefined> => {
    const recovery = await session.recover({ instanceId: server.serverId, notification });
    recoveries.push(recovery);
    announce(recovery, show);
    return (await showRecovery(recovery, show))?.outcome;
  };

  const failure = await fail(session, server, show);
  if ((await outcomeOf(failure)) !== 'recovered') return { recoveries, asExpected: false };

  const failureOfPaused = await failPaused(session, server, show);
  if (!failureOfPaused) return { recoveries, asExpected: true };
  if ((await outcomeOf(failureOfPaused)) !== 'skipped') return { recoveries, asExpected: false };
  say(
    show,
    'Restore',
    'the policy paused=restore recovers it all the same: a hard reboot, then paused again; the guest runs in between',
    `from a shell: ${restoreCommand(server.serverId)}`,
  );
  return { recoveries, asExpected: true };
}

/** For a shell with the demo's TEMPORAL_* settings. */
export function restoreCommand(instanceId: string): string {
  return `npx temporal-nova recover ${instanceId} --policy paused=restore --wait`;
}

/**
 * What a monitor on a host reports of an instance, here in the words of Masakari's: its process died, or, of one that
 * looks healthy, the agent in the guest does not answer.
 */
export function notificationOf(died: boolean, host: string | null | undefined): RecoveryNotification {
  return {
    ...(died ? { event: 'LIFECYCLE', virDomainEvent: 'STOPPED_FAILED' } : { event: 'QEMU_GUEST_AGENT_ERROR' }),
    ...(host && { host }),
    generatedTime: new Date().toISOString(),
  };
}

async function fail(
  { cloud }: DemoSession,
  { serverId, name, host }: CreateServerResult,
  show: Log,
): Promise<RecoveryNotification> {
  show('');
  if (!cloud.simulated) {
    say(
      show,
      'Recovery',
      `no process can be killed on this cloud from here: ${name} is healthy, Nova shows ${states(await cloud.look(serverId))};`,
      'the recovery of a healthy ACTIVE instance stops and starts it',
    );
    return reported(notificationOf(false, host), show);
  }
  cloud.simulated.crash(serverId);
  const state = await cloud.look(serverId);
  say(
    show,
    'Crash',
    `the hypervisor process of ${name} dies; Nova goes on showing ${states(state)}:`,
    'it looks after its power states every 10 minutes',
  );
  return reported(notificationOf(true, cloud.simulated.server(serverId).host), show);
}

/** Undefined where the cloud does not pause it. */
async function failPaused(
  { cloud }: DemoSession,
  { serverId, name, host }: CreateServerResult,
  show: Log,
): Promise<RecoveryNotification | undefined> {
  show('');
  try {
    await cloud.pause(serverId);
  } catch (error) {
    say(show, 'Pause', `this cloud does not pause ${name}: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  }
  if (!cloud.simulated) {
    say(show, 'Pause', `${name} was paused; Nova shows ${states(await cloud.look(serverId))}`);
    return reported(notificationOf(false, host), show);
  }
  cloud.simulated.crash(serverId);
  const state = await cloud.look(serverId);
  say(show, 'Crash', `an operator has paused ${name}, and its process dies; Nova goes on showing ${states(state)}`);
  return reported(notificationOf(true, cloud.simulated.server(serverId).host), show);
}

function reported(notification: RecoveryNotification, show: Log): RecoveryNotification {
  const { event, virDomainEvent, host } = notification;
  const what = virDomainEvent ? `${event} ${virDomainEvent}` : event;
  say(show, '', `reported as a monitor${host ? ` on ${host}` : ''} would: ${what}`);
  return notification;
}

function states(state: ServerState): string {
  return `${describeState(state)}, power_state ${state.powerState}`;
}
