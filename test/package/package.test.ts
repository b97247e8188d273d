/** The package as it is published, in empty projects of somebody else's: docs/hosting.md. */
import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { SimulatedCloud } from '../../src/simulator';
import { connect, uniqueTaskQueue, type TestTemporal } from '../support/temporal';
import { install, LAYOUTS, pack, packageManagers, WITHOUT_PEERS } from './layouts';

const root = path.join(__dirname, '../..');
let folder: string;
let managers: string;
let tarball: string;
let files: string[];
let temporal: TestTemporal;
let cloud: SimulatedCloud;

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'temporal-nova-consumers-'));
  ({ tarball, files } = await pack(folder));
  managers = await packageManagers(path.join(folder, 'managers'));
  temporal = await connect();
  cloud = await SimulatedCloud.start({ buildSeconds: 0.2 });
});
afterAll(async () => {
  await cloud.stop();
  await temporal.close();
  rmSync(folder, { recursive: true, force: true });
});

async function node(project: string, file: string, more: Record<string, string> = {}): Promise<string> {
  const { PATH, HOME } = process.env;
  const consumer = { QUEUE: uniqueTaskQueue(), FLAVOR: cloud.flavorId, IMAGE: cloud.imageId };
  const env = { PATH, HOME, ...cloud.env(), TEMPORAL_ADDRESS: temporal.address, ...consumer, ...more };
  const { stdout } = await promisify(execFile)(process.execPath, [file], { cwd: project, env, timeout: 60_000 });
  return stdout;
}

const WORKED = ['ACTIVE', 'hello you', 'InvalidInput'];
const WAYS = {
  'no workflowsPath': ['ACTIVE', true, 'InvalidInput'],
  'own workflowsPath': WORKED,
  'own workflowsPath that re-exports ours': WORKED,
  'prebuilt workflowBundle': WORKED,
};

test.each(LAYOUTS)('installed with %s, each way to host the workflows, from CommonJS and ESM', async (name, layout) => {
  const project = path.join(folder, name.replaceAll(/\W+/g, '-'));
  await install(project, layout, tarball, managers);
  cpSync(path.join(__dirname, 'consumer'), project, { recursive: true });
  // A linked package has an SDK of its own beside it: only NovaPlugin makes that one.
  const [ways, env] = layout.linked
    ? [WAYS, { WITHOUT_PLUGIN: 'no' }]
    : [{ ...WAYS, 'without NovaPlugin': WORKED }, { WITHOUT_PLUGIN: 'yes' }];
  const became = await Promise.all(['main.cjs', 'main.mjs'].map((main) => node(project, main, env)));
  // The SDK logs failing workflow tasks to stdout too.
  const result = (text: string) => JSON.parse(/^\{.*\}$/m.exec(text)?.[0] ?? 'null') as unknown;
  expect(became.map(result)).toEqual([ways, ways]);
});

test('a service that only starts workflows needs no worker: its native module is not even installed', async () => {
  const project = path.join(folder, 'starter');
  await install(project, WITHOUT_PEERS, tarball, managers, ['client', 'common']);
  writeFileSync(
    path.join(project, 'main.cjs'),
    `const { startCreateServer } = require('temporal-nova/client');
    const installed = require('node:fs').readdirSync('node_modules/@temporalio');
    console.log(typeof startCreateServer, installed.sort().join());`,
  );
  expect(await node(project, 'main.cjs')).toBe('function client,common,proto\n');
});

test('workflows and activities have entries of their own', async () => {
  const project = path.join(folder, 'npm');
  writeFileSync(
    path.join(project, 'entries.cjs'),
    `console.log(Object.keys(require('temporal-nova/workflows')).sort().join());
    console.log(typeof require('temporal-nova/activities').createNovaActivities);`,
  );
  expect(await node(project, 'entries.cjs')).toBe('CreateServerWorkflow,RecoverInstanceWorkflow\nfunction\n');
});

test('it holds what is needed, and nothing else', () => {
  expect(files).toEqual(expect.arrayContaining(['README.md', 'LICENSE', 'lib/index.js', 'lib/workflow-bundle.js']));
  const needed = /^(lib\/.*\.(js|d\.ts)(\.map)?|src\/.*\.ts|package\.json|README\.md|LICENSE|CHANGELOG\.md)$/;
  expect(files.filter((file) => !needed.test(file) || /\.test\./.test(file))).toEqual([]);
});

test('source maps point to files that are in it', () => {
  const maps = files.filter((file) => file.endsWith('.map'));
  expect(maps.length).toBeGreaterThan(0);
  for (const map of maps) {
    const { sources } = JSON.parse(readFileSync(path.join(root, map), 'utf8')) as { sources: string[] };
    for (const source of sources) expect(files).toContain(path.posix.join(path.posix.dirname(map), source));
  }
});
