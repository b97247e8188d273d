/**
 * The examples of README.md and docs/, and examples/python, as they are printed.
 *
 * Each `ts` block is a module of its own that is type-checked against the package as it is built, where the names in
 * GIVEN may be taken for granted; a piece of something larger is marked `ts fragment`, and left out. Each `python` block
 * is compiled. The first of either kind in README.md is run, against a real Temporal server and a simulated cloud.
 */
import { execFile, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import ts from 'typescript';
import { SimulatedCloud } from '../src/simulator';
import { noteSkipped, REQUIRE_ALL, runFolder } from './support/run';
import { connect, type TestTemporal } from './support/temporal';
import { WorkerProcess } from './support/worker-process';

const GIVEN = `
  import type * as temporal from '@temporalio/client';
  import type { CreateServerInput } from 'temporal-nova/client';
  declare global {
    const client: temporal.Client;
    const connection: temporal.Connection;
    const input: CreateServerInput;
  }`;

const root = path.join(__dirname, '..');

interface Block {
  /** `README.md:34` */
  at: string;
  code: string;
}

function blocks(language: string): Block[] {
  const docs = readdirSync(path.join(root, 'docs'), { recursive: true, encoding: 'utf8' });
  const pages = ['README.md', ...docs.filter((file) => file.endsWith('.md')).map((file) => path.join('docs', file))];
  return pages.flatMap((page) => {
    const text = readFileSync(path.join(root, page), 'utf8');
    const fences = text.matchAll(new RegExp(`^( *)\`\`\`${language}\n(.*?)^\\1\`\`\`$`, 'gms'));
    return [...fences].map(({ 1: indent = '', 2: code = '', index }) => ({
      at: `${page}:${text.slice(0, index).split('\n').length}`,
      code: code.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
    }));
  });
}

const typescript = blocks('ts');
const python = blocks('python');

describe('TypeScript', () => {
  let program: ts.Program;
  const fileOf = ({ at }: Block): string => path.join(root, `${at.replace(/\W/g, '-')}.mts`);

  beforeAll(() => {
    const options: ts.CompilerOptions = {
      target: ts.ScriptTarget.ES2022,
      module: ts.ModuleKind.NodeNext,
      moduleResolution: ts.ModuleResolutionKind.NodeNext,
      types: ['node'],
      strict: true,
      skipLibCheck: true,
      noEmit: true,
    };
    const files = new Map([[path.join(root, 'given.d.ts'), GIVEN]]);
    for (const block of typescript) files.set(fileOf(block), block.code);
    const host = ts.createCompilerHost(options);
    const { fileExists, readFile, getSourceFile } = host;
    host.fileExists = (name) => files.has(name) || fileExists(name);
    host.readFile = (name) => files.get(name) ?? readFile(name);
    host.getSourceFile = (name, version, ...more) => {
      const text = files.get(name);
      return text === undefined ? getSourceFile(name, version, ...more) : ts.createSourceFile(name, text, version);
    };
    program = ts.createProgram([...files.keys()], options, host);
  });

  test('there are some', () => expect(typescript.length).toBeGreaterThan(4));

  test.each(typescript)('$at has the right types', (block) => {
    const diagnostics = ts.getPreEmitDiagnostics(program, program.getSourceFile(fileOf(block)));
    expect(diagnostics.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'))).toEqual([]);
  });
});

describe('run', () => {
  let temporal: TestTemporal;
  let cloud: SimulatedCloud;
  let worker: WorkerProcess;

  beforeAll(async () => {
    temporal = await connect();
    const imageId = /imageRef: '(.*?)'/.exec(typescript[0]!.code)?.[1];
    cloud = await SimulatedCloud.start({ buildSeconds: 0.2, imageId });
    // On the default task queue, which no other test uses.
    worker = await WorkerProcess.polling({ ...cloud.env('admin'), TEMPORAL_ADDRESS: temporal.address });
  });
  afterEach(() => cloud.setQuota(undefined));
  afterAll(async () => {
    await worker.end();
    await cloud.stop();
    await temporal.close();
  });

  async function run(program: string, args: string[]): Promise<string> {
    const { PATH, HOME } = process.env;
    const env = { PATH, HOME, TEMPORAL_ADDRESS: temporal.address };
    const { stdout, stderr } = await promisify(execFile)(program, args, { cwd: root, env, timeout: 50_000 });
    expect(stderr).toBe('');
    return stdout;
  }

  test('README.md: the first TypeScript example', async () => {
    const { at, code } = typescript[0]!;
    expect(at).toMatch(/^README/);
    const after = 'console.log(JSON.stringify({ serverId, addresses })); process.exit();';
    const args = ['--import', temporalElsewhere(temporal.address), '--input-type=module', '--eval', code + after];
    const { serverId, addresses } = JSON.parse(await run(process.execPath, args)) as Record<string, string>;
    expect(cloud.server(serverId!)).toMatchObject({ name: 'web-1', status: 'ACTIVE' });
    expect(addresses).toEqual({ private: [expect.objectContaining({ version: 4 })] });
  });

  const venv = pythonWithTemporal();
  (venv ? describe : describe.skip)('Python', () => {
    const inPython = (...args: string[]) => run(venv!, args);
    const example = path.join(root, 'examples/python/start.py');

    test('README.md: the first Python example', async () => {
      const { at, code } = python[0]!;
      expect(at).toMatch(/^README/);
      const { serverId, status } = JSON.parse(await inPython('-c', RUN_PYTHON, code)) as Record<string, string>;
      expect(status).toBe('ACTIVE');
      expect(cloud.server(serverId!)).toMatchObject({ name: 'web-1', status: 'ACTIVE' });
    });

    test('all others can be compiled', async () => {
      await inPython('-c', COMPILE_PYTHON, ...python.map(({ code }) => code));
    });

    test('examples/python creates a server once, and recovers it', async () => {
      const create = ['create', 'python-1', 'web-python', cloud.flavorId, cloud.imageId];
      const created = await inPython(example, ...create);
      const { id } = cloud.servers().find(({ name }) => name === 'web-python')!;
      expect(created).toMatch(`web-python has the id ${id}\n${id} is ACTIVE`);
      expect(await inPython(example, ...create)).toMatch(`web-python was created before\n${id} is ACTIVE`);
      expect(await inPython(example, 'recover', id)).toMatch('recovered, instance-failure: ');
      expect(cloud.server(id).actions.map(({ action }) => action)).toEqual(['create', 'stop', 'start']);
    });

    test('examples/python says why there is no server', async () => {
      cloud.setQuota(0);
      const create = inPython(example, 'create', 'python-2', 'web-python', cloud.flavorId, cloud.imageId);
      await expect(create).rejects.toMatchObject({ code: 1, stderr: expect.stringMatching(/^QuotaExceeded: .*\n$/) });
    });
  });
});

/** A module for `node --import`: connections to the usual port of Temporal go to the server of this run. */
function temporalElsewhere(address: string): string {
  const [host, port] = address.split(':');
  return `data:text/javascript,
    import { Socket } from 'node:net';
    const { connect } = Socket.prototype;
    Socket.prototype.connect = function (...args) {
      const options = [args[0]].flat()[0];
      if (Number(options.port) === 7233) Object.assign(options, { host: '${host}', port: ${port} });
      return connect.apply(this, args);
    };`;
}

const COMPILE_PYTHON = `
import ast, sys
for code in sys.argv[1:]:
    compile(code, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
`;

const RUN_PYTHON = `
import ast, asyncio, json, os, sys
from temporalio.client import Client
connect, scope = Client.connect, {}
Client.connect = lambda usual, **more: connect(os.environ["TEMPORAL_ADDRESS"], **more)
code = sys.argv[1] + "\\nimport asyncio; await asyncio.sleep(0.1)" # as examples/python/start.py ends, and why
asyncio.run(eval(compile(code, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), scope))
print(json.dumps(scope["result"]))
`;

/** The Python of a virtual environment with what examples/python needs; undefined where it can't be made. */
function pythonWithTemporal(): string | undefined {
  const venv = path.join(runFolder(), 'python');
  const executable = path.join(venv, 'bin/python');
  const requirements = path.join(root, 'examples/python/requirements.txt');
  for (const [command, ...args] of [
    ['python3', '-m', 'venv', venv],
    [executable, '-m', 'pip', 'install', '-q', '--disable-pip-version-check', '--no-compile', '-r', requirements],
  ] as [string, ...string[]][]) {
    const { status, stderr, error } = spawnSync(command, args, { encoding: 'utf8' });
    if (status === 0) continue;
    const why = `${command} ${args.join(' ')}: ${error?.message ?? stderr.trim()}`;
    if (process.env[REQUIRE_ALL]) throw new Error(why);
    noteSkipped(`the examples in Python\n    ${why}`);
    return undefined;
  }
  return executable;
}
