import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { runFolder } from './run';

const ROOT = path.join(__dirname, '../..');

/**
 * Builds the project, once a run of the tests: for tests of what is started by `node lib/…`. Takes ten seconds and
 * more, so give `beforeAll` the time.
 *
 * @returns the path of `lib/`
 */
export async function built(): Promise<string> {
  const done = path.join(runFolder(), 'built');
  try {
    await mkdir(`${done}.lock`); // fails for all but the first
  } catch {
    for (let waited = 0; !existsSync(done) && waited < 120_000; waited += 100) await sleep(100);
    if (!existsSync(done)) throw new Error('the build in another test failed');
    return path.join(ROOT, 'lib');
  }
  await promisify(execFile)('npm', ['run', '--silent', 'build'], { cwd: ROOT }).catch((error: { stdout: string }) => {
    throw new Error(`npm run build failed:\n${error.stdout}`, { cause: error });
  });
  await writeFile(done, '');
  return path.join(ROOT, 'lib');
}
