import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { historyFromJSON } from '@temporalio/common/lib/proto-utils';
import { Worker } from '@temporalio/worker';
import { quietRuntime, workflowBundle } from '../support/temporal';

quietRuntime();

const files = readdirSync(__dirname).filter((file) => file.endsWith('.json'));

/** A change that breaks one of these breaks workflows that are running at the time it is deployed: guard it by `patched`. */
describe('workflows that were begun by an earlier version go on with this one', () => {
  test.each(files)('%s', async (file) => {
    const history = historyFromJSON(JSON.parse(readFileSync(path.join(__dirname, file), 'utf8')));
    await Worker.runReplayHistory({ workflowBundle: await workflowBundle() }, history, path.basename(file, '.json'));
  });

  test('there are histories to replay', () => expect(files.length).toBeGreaterThan(5));
});
