/** What a person sees of the demo's workflows: where they are, live how they go on, and how they end. */
import { WorkflowFailedError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import type { CreateServerResult, RecoverInstanceResult, RecoveryReason } from '../client';
import { describeState } from '../policy/server-state';
import { follow } from './follow';
import type { DemoWorkflow } from './session';
import type { Log } from './tool-cache';

/** Width of the labels at the beginning of lines. */
const LABEL = 11;

/** Skips that leave an instance behind which may have failed: somebody should look at it. */
const LEFT_FAILED: ReadonlySet<RecoveryReason> = new Set(['paused', 'rescued', 'resized']);

/** A label, and lines beside it. */
export function say(show: Log, label: string, ...lines: string[]): void {
  lines.forEach((line, index) => show(`${(index === 0 ? label : '').padEnd(LABEL)}${line}`));
}

/** Where a workflow is found. */
export function announce({ workflowId, link }: DemoWorkflow, show: Log): void {
  say(show, 'Workflow', workflowId, ...(link ? [link] : []));
  show('');
}

/** Shows one creation to its end. Undefined when it failed, which is shown. */
export function showCreation(creation: DemoWorkflow<CreateServerResult>, show: Log) {
  return showToEnd(creation, show, ({ serverId, name, status, host, addresses, attempts }, { events }) => {
    const networks = Object.entries(addresses).map(([network, list]) =>
      [network, ...list.map(({ addr }) => addr)].join(' '),
    );
    say(
      show,
      'Result',
      `server ${name} is ${status} after ${attempts === 1 ? '1 attempt' : `${attempts} attempts`}`,
      `id ${serverId}`,
      ...(host ? [`host ${host}`] : []),
      `addresses ${networks.join(', ') || 'none'}`,
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
  try {
    const result = await follow(workflow, show);
    const { historyLength, startTime, closeTime = new Date() } = await workflow.handle.describe();
    show('');
    tell(result, {
      events: historyLength,
      startedAt: startTime.getTime(),
      seconds: (closeTime.getTime() - startTime.getTime()) / 1_000,
    });
    return result;
  } catch (error) {
    if (!(error instanceof WorkflowFailedError)) throw error;
    const { cause, message } = error;
    show('');
    say(show, 'Failed', `${cause instanceof ApplicationFailure ? `${cause.type}: ` : ''}${cause?.message ?? message}`);
    return undefined;
  }
}
