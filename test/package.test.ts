/** The package as it is published, in an empty project of somebody else's. */
import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { SimulatedCloud } from '../src/simulator';
import { connect, uniqueTaskQueue, type TestTemporal } from './support/temporal';

const root = path.join(__dirname, '..');
let project: string;
let files: string[];
let temporal: TestTemporal;
let cloud: SimulatedCloud;

beforeAll(async () => {
  project = mkdtempSync(path.join(tmpdir(), 'temporal-nova-consumer-'));
  // Without scripts: `npm test` has built it.
  const packed = execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', project], {
    cwd: root,
    encoding: 'utf8',
  });
  const [{ filename, files: listed }] = JSON.parse(packed) as [{ filename: string; files: { path: string }[] }];
  files = listed.map((file) => file.path);
  const modules = path.join(project, 'node_modules');
  mkdirSync(path.join(modules, 'temporal-nova'), { recursive: true });
  execFileSync('tar', ['xzf', path.join(project, filename), '-C', path.join(modules, 'temporal-nova'), '--strip', '1']);
  // Its dependencies are those that are installed here already.
  for (const name of readdirSync(path.join(root, 'node_modules'))) {
    if (!name.startsWith('.')) symlinkSync(path.join(root, 'node_modules', name), path.join(modules, name));
  }
  temporal = await connect();
  cloud = await SimulatedCloud.start({ buildSeconds: 0.2 });
});
afterAll(async () => {
  await cloud.stop();
  await temporal.close();
  rmSync(project, { recursive: true, force: true });
});

async function run(file: string, text: string): Promise<string> {
  writeFileSync(path.join(project, file), text);
  const { PATH, HOME } = process.env;
  const env = { PATH, HOME, ...cloud.env(), TEMPORAL_ADDRESS: temporal.address, QUEUE: uniqueTaskQueue() };
  const { stdout } = await promisify(execFile)(process.execPath, [file], { cwd: project, env, timeout: 50_000 });
  return stdout;
}

const body = (require: string) => `
  const worker = await Worker.create({
    connection: await NativeConnection.connect({ address: process.env.TEMPORAL_ADDRESS }),
    plugins: [new NovaPlugin()],
    workflowsPath: ${require},
    taskQueue: process.env.QUEUE,
  });
  const client = new Client({ connection: await Connection.connect({ address: process.env.TEMPORAL_ADDRESS }) });
  await worker.runUntil(async () => {
    const server = {
      name: 'web-1', flavorRef: '${cloud.flavorId}', imageRef: '${cloud.imageId}', networks: 'none',
    };
    const options = { workflowId: process.env.QUEUE, taskQueue: process.env.QUEUE };
    const { status } = await (await startCreateServer(client, { server }, options)).result();
    const mine = await client.workflow.execute('mine', { ...options, workflowId: process.env.QUEUE + '-mine' });
    console.log(status, mine);
  });
  process.exit(0);
`;

test.each([
  [
    'CommonJS',
    'index.cjs',
    'workflows.cjs',
    () => `
const { NativeConnection, Worker } = require('@temporalio/worker');
const { Client, Connection } = require('@temporalio/client');
const { NovaPlugin } = require('temporal-nova');
const { startCreateServer } = require('temporal-nova/client');
(async () => {${body("require.resolve('./workflows.cjs')")}})();`,
    "exports.mine = async () => 'mine';",
  ],
  [
    'ESM',
    'index.mjs',
    'workflows.mjs',
    () => `
import { fileURLToPath } from 'node:url';
import { NativeConnection, Worker } from '@temporalio/worker';
import { Client, Connection } from '@temporalio/client';
import { NovaPlugin } from 'temporal-nova';
import { startCreateServer } from 'temporal-nova/client';
${body("fileURLToPath(new URL('./workflows.mjs', import.meta.url))")}`,
    "export * from 'temporal-nova/workflows';\nexport async function mine() { return 'mine'; }",
  ],
])('a worker with NovaPlugin beside workflows of its own, from %s', async (_kind, file, workflows, main, own) => {
  writeFileSync(path.join(project, workflows), own);
  expect(await run(file, main())).toContain('ACTIVE mine');
});

test('the starters load without the worker and its native module', async () => {
  const loads = `
    const { startCreateServer, startRecoverInstance } = require('temporal-nova/client');
    const loaded = Object.keys(require.cache).filter((name) => /temporalio.(worker|core-bridge)/.test(name));
    console.log(typeof startCreateServer, typeof startRecoverInstance, loaded.length);`;
  expect(await run('client.cjs', loads)).toBe('function function 0\n');
});

test('workflows and activities have entries of their own', async () => {
  const names = `
    console.log(Object.keys(require('temporal-nova/workflows')).sort().join());
    console.log(typeof require('temporal-nova/activities').createNovaActivities);`;
  expect(await run('entries.cjs', names)).toBe('CreateServerWorkflow,RecoverInstanceWorkflow\nfunction\n');
});

test('it holds what is needed, and nothing else', () => {
  expect(files).toEqual(expect.arrayContaining(['README.md', 'LICENSE', 'lib/index.js', 'lib/workflow-bundle.js']));
  expect(files.filter((file) => /^(test|scripts|bench|\.ci)\//.test(file) || /\.test\./.test(file))).toEqual([]);
});

test('source maps point to files that are in it', () => {
  for (const file of files.filter((name) => name.endsWith('.js.map'))) {
    const { sources } = JSON.parse(readFileSync(path.join(root, file), 'utf8')) as { sources: string[] };
    for (const source of sources) expect(files).toContain(path.posix.join(path.posix.dirname(file), source));
  }
});
