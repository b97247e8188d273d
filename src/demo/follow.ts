/** Shows live what a CreateServerWorkflow sees, by its `progress` query. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { WorkflowHandle } from '@temporalio/client';
import type { CreateServerResult, Observation, Progress } from '../client';
import { describeState } from '../policy/server-state';
import type { Log } from './tool-cache';

const LOOK_EVERY_MS = 200;
/** A long wait says now and then that it still waits. */
const REMIND_EVERY_MS = 30_000;

/** What is followed, in terms of a workflow's handle. */
export interface Followed {
  handle: Pick<WorkflowHandle, 'query'>;
  result: Promise<CreateServerResult>;
}

/** Shows one line for each change, and resolves to the workflow's result, or rejects with its failure. */
export async function follow({ handle, result }: Followed, show: Log): Promise<CreateServerResult> {
  const started = Date.now();
  let shown = '';
  let lastLine = started;
  const line = (text: string, at = Date.now()): void => {
    show(`${((at - started) / 1_000).toFixed(1).padStart(7)} s  ${text}`);
    lastLine = Date.now();
  };
  const showChanges = async (): Promise<void> => {
    // no worker answers while one is being restarted
    const progress = await handle.query<Progress>('progress').catch(() => undefined);
    for (const observation of progress?.observations ?? []) {
      if (observation.at <= shown) continue;
      line(columns(observation), Date.parse(observation.at));
      shown = observation.at;
    }
    if (progress && Date.now() - lastLine > REMIND_EVERY_MS) {
      line(`${progress.phase}: still ${describeState(progress.state)}; until ${progress.deadline ?? 'it is over'}`);
    }
  };

  show(`           ${'status/task_state'.padEnd(30)} ${'vm_state'.padEnd(12)} power_state`);
  let over = false;
  const ended = result.then(
    () => (over = true),
    () => (over = true),
  );
  while (!over) {
    await showChanges();
    await Promise.race([ended, sleep(LOOK_EVERY_MS)]);
  }
  await showChanges();
  return result;
}

function columns(observation: Observation): string {
  const { vmState, powerState } = observation;
  return `${describeState(observation).padEnd(30)} ${(vmState ?? '-').padEnd(12)} ${powerState ?? '-'}`;
}
