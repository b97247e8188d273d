/** Gets the peers, each in a pinned version, into the cache folder; nothing of them is in the repository. */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { cached, run, type Log } from '../../src/demo/tool-cache';

const OPENSTACKSDK = '4.22.0';
const OPENSTACKCLIENT = '10.5.0';

export const OPENSTACKSDK_PROGRAM = path.join(__dirname, 'openstacksdk.py');
const GOPHERCLOUD_PROGRAM = path.join(__dirname, 'gophercloud');

export interface Installed {
  /** Of the package, as it was installed. */
  version: string;
  /** What runs it: the Python of its virtual environment, or the program itself. */
  executable: string;
}

/** openstacksdk and python-openstackclient share one virtual environment: the one is a dependency of the other. */
export async function installPython(log: Log): Promise<{ openstacksdk: Installed; openstackclient: Installed }> {
  const name = `bench-openstacksdk-${OPENSTACKSDK}-openstackclient-${OPENSTACKCLIENT}`;
  const folder = await cached(
    name,
    async (empty) => {
      const venv = path.join(empty, 'venv');
      await run('making a virtual environment', 'python3', ['-m', 'venv', venv], log);
      const packages = [`openstacksdk==${OPENSTACKSDK}`, `python-openstackclient==${OPENSTACKCLIENT}`];
      // By `python -m`, not by its script: that holds the path of this folder, which is renamed.
      const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...packages];
      await run(`installing ${packages.join(' and ')}`, path.join(venv, 'bin', 'python'), pip, log);
      return venv;
    },
    log,
  );
  const executable = path.join(folder, 'bin', 'python');
  return {
    openstacksdk: { version: OPENSTACKSDK, executable },
    openstackclient: { version: OPENSTACKCLIENT, executable },
  };
}

/** Builds our small program around gophercloud; anew when it has changed. */
export async function buildGophercloud(log: Log): Promise<Installed> {
  const sources = await Promise.all(
    ['go.mod', 'go.sum', 'main.go'].map((file) => readFile(path.join(GOPHERCLOUD_PROGRAM, file), 'utf8')),
  );
  const version = /gophercloud\/v2 v(\S+)/.exec(sources[0] ?? '')?.[1] ?? 'unknown';
  const hash = createHash('sha256').update(sources.join('\0')).digest('hex').slice(0, 12);
  const executable = await cached(
    `bench-gophercloud-${version}-${hash}`,
    async (empty) => {
      const program = path.join(empty, 'program');
      const options = { cwd: GOPHERCLOUD_PROGRAM };
      await run(`building with gophercloud ${version}`, 'go', ['build', '-trimpath', '-o', program, '.'], log, options);
      return program;
    },
    log,
  );
  return { version, executable };
}
