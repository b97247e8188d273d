/** Shows live what a workflow of this package sees and does, by its `progress` query. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { WorkflowHandle } from '@temporalio/client';
import type { Phase, Progress, ServerState } from '../client';
import { describeState } from '../policy/server-state';
import type { Log } from './tool-cache';

const LOOK_EVERY_MS = 150;
/** A long wait says now and then that it still waits. */
const REMIND_EVERY_MS = 30_000;

/** What is followed, in terms of a workflow's handle. */
export interface Followed<T> {
  handle: Pick<WorkflowHandle, 'query'>;
  result: Promise<T>;
}

/** Shows one line for each change, and resolves to the workflow's result, or rejects with its failure. */
export async function follow<T>({ handle, result }: Followed<T>, show: Log): Promise<T> {
  const view = new View(show);
  // no worker answers while one is being restarted
  const look = async (): Promise<void> => {
    const progress = await handle.query<Progress>('progress').catch(() => undefined);
    if (progress) view.show(progress);
  };
  let over = false;
  const ended = result.then(
    () => (over = true),
    () => (over = true),
  );
  while (!over) {
    await look();
    await Promise.race([ended, sleep(LOOK_EVERY_MS)]);
  }
  await look();
  return result;
}

/** Remembers what was shown, so that each change is shown once. */
class View {
  private readonly started = Date.now();
  private lastLine = this.started;
  private newest = '';
  private phase: Phase | undefined;

  constructor(private readonly log: Log) {
    log(`           ${columns('phase', 'status/task_state', 'vm_state', 'power_state')}`);
  }

  show({ phase, observations, deadline }: Progress): void {
    const last = observations.at(-1);
    const fresh = observations.filter(({ at }) => at > this.newest);
    for (const observation of fresh) {
      // the last one led to the phase it is in now; those before it came earlier
      this.line(seen(observation === last ? phase : (this.phase ?? phase), observation), Date.parse(observation.at));
    }
    if (fresh.length === 0 && phase !== this.phase)
      if (last) this.line(seen(phase, last));
      else this.line(phase, this.started);
    if (Date.now() - this.lastLine > REMIND_EVERY_MS) {
      this.line(`${phase}: still ${describeState(last ?? null)}; until ${deadline ?? 'it is over'}`);
    }
    this.newest = last?.at ?? '';
    this.phase = phase;
  }

  private line(text: string, at = Date.now()): void {
    this.log(`${(Math.max(0, at - this.started) / 1_000).toFixed(1).padStart(7)} s  ${text}`);
    this.lastLine = Date.now();
  }
}

function seen(phase: Phase, state: ServerState): string {
  return columns(phase, describeState(state), state.vmState ?? '-', state.powerState ?? '-');
}

function columns(phase: string, status: string, vmState: string, powerState: string): string {
  return `${phase.padEnd(11)} ${status.padEnd(26)} ${vmState.padEnd(12)} ${powerState}`;
}
