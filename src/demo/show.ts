/** What a person sees of the demo's workflows: where they are, live how they go on, and how they end. */
import { describeAddresses, labelled } from '../cli/output';
import type { CreateServerResult, RecoverInstanceResult, RecoveryReason } from '../client';
import { describeState } from '../policy/server-state';
import type { DemoWorkflow } from './session';
import { timeline } from './timeline';
import type { Log } from './tool-cache';

/** Skips that leave an instance behind which may have failed: somebody should look at it. */
const LEFT_FAILED: ReadonlySet<RecoveryReason> = new Set(['paused', 'rescued', 'resized']);

/** A label, and lines beside it. */
export function say(show: Log, label: string, ...lines: string[]): void {
  for (const line of labelled(label, lines)) show(line);
}

/** Where a workflow is found. */
export function announce({ workflowId, link }: DemoWorkflow, show: Log): void {
  say(show, 'Workflow', workflowId, ...(link ? [link] : []));
  show('');
}

/** Shows one creation to its end. Undefined when it failed, which is shown. */
export function showCreation(creation: DemoWorkflow<CreateServerResult>, show: Log) {
  return showToEnd(creation, show, ({ serverId, name, status, host, addresses, attempts }, { events }) => {
    say(
      show,
      'Result',
      `server ${name} is ${status} after ${attempts === 1 ? '1 attempt' : `${attempts} attempts`}`,
      `id ${serverId}`,
      ...(host ? [`host ${host}`] : []),
      describeAddresses(addresses),
      `${events} events in the workflow's history`,
    );
  });
}

/** Shows one recovery to its end. Undefined when it failed, which is shown. */
export function showRecovery(recovery: DemoWorkflow<RecoverInstanceResult>, show: Log) {
  return showToEnd(recovery, show, (result, { events, startedAt, seconds }) => {
    const { outcome, path, reason, message, after } = result;
    const steps = result.steps.map(({ action, at, note }) => {
      const after = ((Date.parse(at) - startedAt) / 1_000).toFixed(1);
      return `${action} after ${after} s${note ? ` (${note})` : ''}`;
    });
    say(
      show,
      outcome === 'recovered' ? 'Recovered' : 'Skipped',
      ...sentences(`${outcome === 'skipped' && LEFT_FAILED.has(reason) ? '⚠ ' : ''}${message}`),
      `path ${path}, reason ${reason}`,
      `steps ${steps.join(', ') || 'none'}; ${after ? describeState(after) : 'gone'} after ${seconds.toFixed(1)} s`,
      `${events} events in the workflow's history`,
    );
  });
}

function sentences(text: string): string[] {
  return text.split(/(?<=\.) /);
}

/** What Temporal says of an ended workflow. */
interface Described {
  events: number;
  /** Milliseconds since 1970. */
  startedAt: number;
  seconds: number;
}

async function showToEnd<T>(
  workflow: DemoWorkflow<T>,
  show: Log,
  tell: (result: T, described: Described) => void,
): Promise<T | undefined> {
  const outcome = await workflow.follow(timeline(show));
  switch (outcome.kind) {
    case 'completed': {
      const { historyLength, startTime, closeTime = new Date() } = await workflow.handle.describe();
      show('');
      tell(outcome.result, {
        events: historyLength,
        startedAt: startTime.getTime(),
        seconds: (closeTime.getTime() - startTime.getTime()) / 1_000,
      });
      return outcome.result;
    }
    case 'failed':
      show('');
      say(show, 'Failed', `${outcome.failure.type}: ${outcome.failure.message}`);
      return undefined;
    case 'interrupted':
      throw new Error('the demo is ending');
  }
}
