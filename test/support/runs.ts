/** The runs of a workflow that continued as new, as their histories tell. */
import type { Client } from '@temporalio/client';
import type { Progress } from '../../src/client';
import { progress } from './bed';

export interface Run {
  runId: string;
  events: number;
  /** How many of each signal and update came in this run. */
  messages: Record<string, number>;
  /** What it answers now, closed or not. */
  progress: Progress;
  /** What it handed to the next one besides the caller's input; undefined for the last one. */
  carriedBytes: number | undefined;
}

/** The handle and the events of each run, oldest first. */
export async function historiesOf(client: Client, workflowId: string) {
  const { raw } = await client.workflow.getHandle(workflowId).describe();
  const histories = [];
  for (let runId = raw.workflowExecutionInfo?.firstRunId || undefined; runId;) {
    const handle = client.workflow.getHandle(workflowId, runId);
    const events = (await handle.fetchHistory()).events ?? [];
    histories.push({ runId, handle, events });
    runId = events.at(-1)?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId || undefined;
  }
  return histories;
}

/** Oldest first. */
export async function runsOf(client: Client, workflowId: string): Promise<Run[]> {
  const runs: Run[] = [];
  for (const { runId, handle, events } of await historiesOf(client, workflowId)) {
    const messages: Record<string, number> = {};
    for (const event of events) {
      const name =
        event.workflowExecutionSignaledEventAttributes?.signalName ??
        event.workflowExecutionUpdateAcceptedEventAttributes?.acceptedRequest?.input?.name;
      if (name) messages[name] = (messages[name] ?? 0) + 1;
    }
    const continued = events.at(-1)?.workflowExecutionContinuedAsNewEventAttributes;
    runs.push({
      runId,
      events: events.length,
      messages,
      progress: await progress(handle),
      carriedBytes: continued?.input?.payloads?.[1]?.data?.length,
    });
  }
  return runs;
}
