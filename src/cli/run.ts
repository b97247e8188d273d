/** What `create` and `recover` have in common once the workflow is started: say so, wait, tell how it ended. */
import { describeState } from '../policy/server-state';
import { EXIT } from './errors';
import { follow, onHost, standing, type Followed, type View } from './follow';
import type { Live, Output } from './output';
import { noWorker, type Temporal } from './temporal';

export interface CommonOptions {
  taskQueue?: string;
  /** Of the input. */
  cloud?: string;
  wait?: boolean;
  json?: boolean;
}

export interface Started<R> {
  handle: Followed<R> & { workflowId: string };
  runId: string;
  /** Where it is not the command's own. */
  taskQueue?: string;
  /** More for the document of `--json`. */
  more?: Record<string, unknown>;
}

/** @returns the exit code */
export async function run<R>(
  temporal: Temporal,
  output: Output,
  { handle, runId, taskQueue = temporal.taskQueue, more }: Started<R>,
  wait: boolean,
  tell: (result: R) => number,
): Promise<number> {
  const { workflowId } = handle;
  const webUi = await temporal.page(workflowId, runId);
  const { namespace } = temporal;
  const document = { workflowId, runId, namespace, taskQueue, webUi: webUi ?? null, ...more };
  output.say('Workflow', workflowId, webUi);
  if (!wait) {
    output.say('Started', `temporal-nova status ${quoted(workflowId)} shows how it goes`);
    const idle = await temporal.lastPoll(taskQueue).then(
      (last) => last === undefined,
      () => false, // it is started, whatever that answers
    );
    if (idle) output.warn(`It has to wait: ${noWorker(taskQueue)}`);
    output.document({ ...document, status: 'started' });
    return EXIT.done;
  }

  const live = await output.live();
  const interrupted = new AbortController();
  const interrupt = () => interrupted.abort();
  process.once('SIGINT', interrupt); // a second one ends this process at once
  live.now('waiting for a worker');
  const options = { taskQueue, view: toView(live), signal: interrupted.signal };
  const outcome = await follow(temporal, handle, options).finally(() => {
    live.end();
    process.off('SIGINT', interrupt);
  });
  switch (outcome.kind) {
    case 'completed':
      output.document({ ...document, status: 'completed', result: outcome.result });
      return tell(outcome.result);
    case 'failed':
      output.document({ ...document, status: 'failed', failure: outcome.failure });
      output.warn(`Failed     ${outcome.failure.type}: ${outcome.failure.message}`);
      return EXIT.failed;
    case 'interrupted':
      output.document({ ...document, status: 'running' });
      output.warn(
        `The workflow goes on without this command. "temporal-nova status ${quoted(workflowId)}" shows how it stands, ` +
          `"temporal workflow cancel --workflow-id ${quoted(workflowId)}" ends it.`,
      );
      return EXIT.interrupted;
  }
}

/** A line for each change in a pipe; on a terminal, how it stands. */
function toView(live: Live): View {
  return {
    show(progress, fresh, before) {
      const { phase } = progress;
      for (const seen of fresh) live.change(describeState(seen) + onHost(seen), new Date(seen.at));
      if (phase !== before && phase !== 'done') live.change(`phase ${phase}`, new Date());
      live.now(standing(progress));
    },
    note: (text) => live.note(text),
  };
}

/** As a shell takes it. */
function quoted(id: string): string {
  return /^[\w.:@/-]+$/.test(id) ? id : `'${id.replaceAll("'", `'\\''`)}'`;
}
