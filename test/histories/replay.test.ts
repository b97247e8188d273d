import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { historyFromJSON } from '@temporalio/common/lib/proto-utils';
import { Worker } from '@temporalio/worker';
import { quietRuntime, workflowBundle } from '../support/temporal';

quietRuntime();

const histories = readdirSync(__dirname)
  .filter((file) => file.endsWith('.json'))
  .map((file) => ({ name: path.basename(file, '.json'), text: readFileSync(path.join(__dirname, file), 'utf8') }));

/** A change that breaks one of these breaks workflows that are running at the time it is deployed: guard it by `patched`. */
describe('workflows that were begun by an earlier version go on with this one', () => {
  test.each(histories)('$name', async ({ name, text }) => {
    const history = historyFromJSON(JSON.parse(text));
    await Worker.runReplayHistory({ workflowBundle: await workflowBundle() }, history, name);
  });
});

describe('there are histories of', () => {
  test.each(['CreateServerWorkflow', 'RecoverInstanceWorkflow'])('%s: every kind of end', (type) => {
    const ends = histories
      .filter(({ text }) => text.includes(`"name": "${type}"`))
      .map(({ text }) => (JSON.parse(text) as { events: { eventType: string }[] }).events.at(-1)?.eventType);
    expect([...new Set(ends)].map((end) => end?.replace('EVENT_TYPE_WORKFLOW_EXECUTION_', '')).sort()).toEqual([
      'CANCELED',
      'COMPLETED',
      'CONTINUED_AS_NEW',
      'FAILED',
    ]);
  });

  test('a worker with a version', () => {
    expect(histories.some(({ text }) => text.includes('VERSIONING_BEHAVIOR_PINNED'))).toBe(true);
  });
});
