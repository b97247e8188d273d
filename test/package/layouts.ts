/** The ways in which package managers lay a project's dependencies out, and how each is got. */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdir, rename, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { promisify } from 'node:util';

const root = path.join(__dirname, '../..');
const run = promisify(execFile);

/** What a host installs beside this package: docs/hosting.md. */
const PEERS = ['activity', 'client', 'common', 'envconfig', 'plugin', 'proto', 'worker', 'workflow'];
const PACKAGE_MANAGERS = ['pnpm@12', 'yarn@1', '@yarnpkg/cli-dist@4'];

const NPM = ['npm', 'install', '--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline', '--loglevel=error'];
const PNPM = ['pnpm/bin/pnpm.mjs', 'install', '--ignore-scripts', '--prefer-offline'];
const YARN = ['yarn/bin/yarn.js', 'install', '--ignore-scripts', '--prefer-offline', '--non-interactive'];
const YARN_4 = ['@yarnpkg/cli-dist/bin/yarn.js', 'install', '--mode=skip-build', '--no-immutable'];

export interface Layout {
  /** npm, or a file in the package managers' folder; and its arguments. */
  install: string[];
  /** Files that say how, beside package.json. */
  settings?: Record<string, string>;
  /** By `file:` to its folder, instead of to its tarball. */
  linked?: boolean;
}

export const LAYOUTS: [string, Layout][] = [
  ['npm', { install: NPM }],
  ['pnpm, isolated', { install: PNPM }],
  ['pnpm, hoisted', { install: PNPM, settings: { 'pnpm-workspace.yaml': 'nodeLinker: hoisted\n' } }],
  ['yarn 1', { install: YARN }],
  [
    'yarn 4, node-modules',
    {
      install: YARN_4,
      settings: { '.yarnrc.yml': 'nodeLinker: node-modules\nenableTelemetry: false\n', 'yarn.lock': '' },
    },
  ],
  ['npm, linked by file:', { install: NPM, linked: true }],
];

/** For a service that starts workflows, and has no worker. */
export const WITHOUT_PEERS: Layout = { install: [...NPM, '--omit=peer'] };

/**
 * Packs what `npm run build` made. Under a name of its own: yarn 1 remembers a tarball by its relative path, and would
 * take that of another run.
 */
export async function pack(folder: string): Promise<{ tarball: string; files: string[] }> {
  const options = ['--json', '--ignore-scripts', '--pack-destination', folder];
  const { stdout } = await run('npm', ['pack', ...options], { cwd: root, maxBuffer: 1e7 });
  const [{ filename, files }] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
  const tarball = path.join(folder, `${randomUUID()}.tgz`);
  await rename(path.join(folder, filename), tarball);
  return { tarball, files: files.map((file) => file.path) };
}

/** The folder of the package managers that don't come with Node. */
export async function packageManagers(folder: string): Promise<string> {
  await mkdir(folder);
  await writeFile(path.join(folder, 'package.json'), '{ "private": true }');
  await inFolder(folder, [...NPM, ...PACKAGE_MANAGERS]);
  return path.join(folder, 'node_modules');
}

/** Makes the folder a project that depends on the tarball and on its peers, and installs them. */
export async function install(
  folder: string,
  layout: Layout,
  tarball: string,
  managers: string,
  peers: string[] = PEERS,
): Promise<void> {
  await mkdir(folder);
  const target = layout.linked ? await unpacked(tarball, `${folder}-package`) : tarball;
  const versions = peers.map((name) => [`@temporalio/${name}`, versionHere(`@temporalio/${name}`)]);
  const dependencies = { 'temporal-nova': `file:${target}`, ...Object.fromEntries(versions) };
  const manifest = { name: 'consumer', version: '1.0.0', private: true, dependencies };
  const settings = { 'package.json': JSON.stringify(manifest), ...layout.settings };
  for (const [name, text] of Object.entries(settings)) await writeFile(path.join(folder, name), text);
  const [command, ...args] = layout.install;
  const program = command === 'npm' ? [command] : [process.execPath, path.join(managers, command!)];
  await inFolder(folder, [...program, ...args]);
}

/** As in a clone of this repository: with dependencies of its own. */
async function unpacked(tarball: string, folder: string): Promise<string> {
  await mkdir(folder);
  await run('tar', ['xzf', tarball, '-C', folder, '--strip', '1']);
  await symlink(path.join(root, 'node_modules'), path.join(folder, 'node_modules'));
  return folder;
}

function versionHere(name: string): string {
  return (createRequire(__filename)(`${name}/package.json`) as { version: string }).version;
}

async function inFolder(cwd: string, [command, ...args]: string[]): Promise<void> {
  await run(command!, args, { cwd, timeout: 180_000, maxBuffer: 1e7 }).catch((error: unknown) => {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`${command} ${args.join(' ')}\n${stdout}${stderr}`, { cause: error });
  });
}
