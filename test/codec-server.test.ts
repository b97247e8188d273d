/** `temporal-nova codec-server` in a process of its own, asked as the Web UI and the `temporal` command ask. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { request, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import path from 'node:path';
import { promisify } from 'node:util';
import { Client } from '@temporalio/client';
import { startCreateServer } from '../src/client';
import { dataConverter, loadCodecKeys } from '../src/codec';
import { findTemporalCli } from '../src/demo/temporal-server';
import { eventually } from './support/bed';
import { connect, uniqueTaskQueue } from './support/temporal';

const cliPath = path.join(__dirname, '../lib/cli.js');
const UI = 'http://localhost:8233';

const newKey = () => randomBytes(32).toString('base64');
const [k1, k2] = [newKey(), newKey()];
const RING = { TEMPORAL_NOVA_CODEC_KEYS: `k2:${k2},k1:${k1}` };

class CodecServer {
  output = '';
  url = '';
  private constructor(readonly child: ChildProcess) {
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
    }
  }

  static run(args: string[] = [], settings: Record<string, string> = RING): CodecServer {
    const { PATH, HOME } = process.env;
    const child = spawn(process.execPath, [cliPath, 'codec-server', ...args], { env: { PATH, HOME, ...settings } });
    const server = new CodecServer(child);
    servers.push(server);
    return server;
  }

  static async listening(args: string[] = [], settings: Record<string, string> = RING): Promise<CodecServer> {
    const server = CodecServer.run(['--port', '0', ...args], settings);
    server.url = await eventually(() => /server at (http:\S+),/.exec(server.output)?.[1]);
    return server;
  }

  get running(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  async exit(): Promise<number | null> {
    if (this.running) await once(this.child, 'close');
    return this.child.exitCode;
  }

  async ask(operation: string, body: unknown, headers: Record<string, string> = {}, method = 'POST'): Promise<Answer> {
    const url = new URL(this.url + operation);
    const sent = request(url, { method, headers: { 'Content-Type': 'application/json', ...headers } });
    sent.on('error', () => undefined); // it may answer, and hang up, before all is sent
    sent.end(typeof body === 'string' ? body : JSON.stringify(body));
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    let text = '';
    for await (const chunk of response) text += String(chunk);
    return {
      status: response.statusCode ?? 0,
      headers: response.headers,
      json: text ? (JSON.parse(text) as Answer['json']) : {},
    };
  }
}

interface JsonPayload {
  metadata?: Record<string, string>;
  data?: string;
}

interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  json: { payloads?: JsonPayload[]; error?: string };
}

const servers: CodecServer[] = [];
/** With the settings that it has by itself. */
let server: CodecServer;

beforeAll(async () => {
  server = await CodecServer.listening();
});
beforeEach(() => void (server.output = ''));
afterAll(async () => {
  for (const one of servers) one.child.kill('SIGKILL');
  await Promise.all(servers.map((one) => one.exit()));
});

const encode64 = (text: string) => Buffer.from(text).toString('base64');
const decode64 = (text: string | undefined) => Buffer.from(text ?? '', 'base64').toString();
const json = (value: unknown): JsonPayload => ({
  metadata: { encoding: encode64('json/plain') },
  data: encode64(JSON.stringify(value)),
});

describe('/encode and /decode', () => {
  test('there and back: the newest key encrypts, what is decrypted is what was sent', async () => {
    const payloads = [json({ adminPass: 'planted' }), { metadata: { encoding: encode64('binary/null') } }];
    const encoded = await server.ask('/encode', { payloads });
    expect(encoded).toMatchObject({ status: 200, headers: { 'content-type': 'application/json' } });
    for (const { metadata, data } of encoded.json.payloads ?? []) {
      expect(decode64(metadata?.encoding)).toBe('binary/encrypted');
      expect(decode64(metadata?.['encryption-key-id'])).toBe('k2');
      expect(decode64(data)).not.toContain('planted');
    }
    expect(encoded.json.payloads).toHaveLength(2);
    const decoded = await server.ask('/decode', encoded.json);
    expect(decoded).toMatchObject({ status: 200, json: { payloads } });
    expect(server.output).not.toContain('planted');
  });

  test('only the end of the path counts: any prefix, and a namespace in it', async () => {
    const { json: encoded } = await server.ask('/some/default/encode', { payloads: [json(1)] });
    expect((await server.ask('/default/decode?x=1', encoded)).json.payloads).toEqual([json(1)]);
  });

  test('what an older key encrypted is decrypted; what none did comes back as it was, whatever it holds', async () => {
    const old = await CodecServer.listening([], { TEMPORAL_NOVA_CODEC_KEYS: `k1:${k1}` });
    const { json: encoded } = await old.ask('/encode', { payloads: [json('old')] });
    const other = { ...json('plain'), externalPayloads: [{ sizeBytes: '7' }] };
    const { json: decoded } = await server.ask('/decode', { payloads: [...(encoded.payloads ?? []), other] });
    expect(decoded.payloads).toEqual([json('old'), other]);
    const { json: back } = await server.ask('/decode', (await server.ask('/encode', { payloads: [other] })).json);
    expect(back.payloads).toEqual([other]);
  });

  test.each<[string, unknown]>([
    ['{}', {}],
    ['{"payloads":null}', { payloads: null }],
    ['{"payloads":[]}', { payloads: [] }],
  ])('%s: no payloads', async (_name, body) => {
    expect(await server.ask('/decode', body)).toMatchObject({ status: 200, json: { payloads: [] } });
  });

  test('a payload whose key is not there: 400 that names it, in the log too', async () => {
    const other = await CodecServer.listening([], { TEMPORAL_NOVA_CODEC_KEYS: `k9:${newKey()}` });
    const { json: encoded } = await other.ask('/encode', { payloads: [json(1)] });
    const { status, json: said } = await server.ask('/decode', encoded, { Origin: UI });
    expect(status).toBe(400);
    expect(said.error).toMatch(/encrypted with the key "k9", and TEMPORAL_NOVA_CODEC_KEYS holds only "k2", "k1"/);
    expect(server.output).toContain(said.error);
  });
});

describe('bad requests get an answer that says why, in JSON, and repeats nothing of them', () => {
  const bad: [string, string, string, unknown, number, RegExp][] = [
    ['no JSON', 'POST', '/decode', 'planted', 400, /not JSON/],
    ['an array', 'POST', '/decode', ['planted'], 400, /not \{"payloads"/],
    ['payloads that are none', 'POST', '/decode', { payloads: ['planted'] }, 400, /payloads\.0/],
    [
      'data that is not base64',
      'POST',
      '/encode',
      { payloads: [{ data: '*planted*' }] },
      400,
      /payloads\.0\.data.*base64/,
    ],
    ['metadata that is not', 'POST', '/encode', { payloads: [{ metadata: { a: 'ä' } }] }, 400, /metadata\.a.*base64/],
    ['another path', 'POST', '/download', {}, 404, /encode and \/decode/],
    ['GET', 'GET', '/decode', '', 405, /POST/],
    ['a body of 17 MiB', 'POST', '/decode', `"${'planted'.repeat((17 * 1024 * 1024) / 7)}"`, 413, /16777216 bytes/],
  ];
  test.each(bad)('%s', async (_name, method, operation, body, status, words) => {
    const answer = await server.ask(operation, body, {}, method);
    expect(answer.status).toBe(status);
    expect(answer.json.error).toMatch(words);
    expect(answer.json.error + server.output).not.toContain('planted');
  });
});

describe('who may ask', () => {
  const preflight = (origin: string, more: Record<string, string> = {}) => ({
    Origin: origin,
    'Access-Control-Request-Method': 'POST',
    'Access-Control-Request-Headers': 'content-type,x-namespace,authorization',
    ...more,
  });

  test.each([UI, 'http://127.0.0.1:8233'])('the Web UI of a dev server, %s', async (origin) => {
    const { status, headers } = await server.ask('/decode', '', preflight(origin), 'OPTIONS');
    expect(status).toBe(204);
    expect(headers['access-control-allow-origin']).toBe(origin);
    expect(headers['access-control-allow-methods']).toContain('POST');
    expect(headers['access-control-allow-headers']).toBe('content-type, x-namespace, authorization');
    const answer = await server.ask('/decode', { payloads: [] }, { Origin: origin, 'X-Namespace': 'default' });
    expect(answer).toMatchObject({ status: 200, headers: { 'access-control-allow-origin': origin, vary: 'Origin' } });
  });

  test('another page: 403, and nothing that lets it read the answer', async () => {
    for (const origin of ['https://evil.example', 'http://localhost:8234', 'null', `${UI}.evil.example`]) {
      for (const method of ['OPTIONS', 'POST']) {
        const answer = await server.ask('/decode', '', preflight(origin), method);
        expect(answer.status).toBe(403);
        expect(answer.headers['access-control-allow-origin']).toBeUndefined();
      }
    }
    expect(server.output).toContain('"https://evil.example" is not the Web UI\'s (--web-ui-origin says what is)');
  });

  test('the Web UI that --web-ui-origin or TEMPORAL_UI_URL names, and no dev server then', async () => {
    const settings = { ...RING, TEMPORAL_UI_URL: 'https://temporal.example.com/some/path' };
    const named = await CodecServer.listening([], settings);
    const listed = await CodecServer.listening([
      '--web-ui-origin',
      'https://temporal.example.com',
      '--web-ui-origin',
      UI,
    ]);
    const status = async (server: CodecServer, origin: string) =>
      (await server.ask('/decode', { payloads: [] }, { Origin: origin })).status;
    for (const server of [named, listed]) expect(await status(server, 'https://temporal.example.com')).toBe(200);
    expect([await status(named, UI), await status(listed, UI)]).toEqual([403, 200]);
  });

  test("a public page's Web UI may come to this machine, where Chrome asks", async () => {
    const server = await CodecServer.listening(['--web-ui-origin', 'https://cloud.temporal.io']);
    const asked = preflight('https://cloud.temporal.io', { 'Access-Control-Request-Private-Network': 'true' });
    const { headers } = await server.ask('/decode', '', asked, 'OPTIONS');
    expect(headers['access-control-allow-private-network']).toBe('true');
  });

  test('a name that was rebound to this machine: 403', async () => {
    const status = async (host: string) => (await server.ask('/decode', { payloads: [] }, { Host: host })).status;
    expect(await status('evil.example')).toBe(403);
    expect(await status('127.0.0.1.evil.example:8888')).toBe(403);
    for (const host of ['localhost:8888', '127.0.0.1', '[::1]:8888']) expect(await status(host)).toBe(200);
  });

  test('with TEMPORAL_NOVA_CODEC_TOKEN, only who brings it; the preflight needs none', async () => {
    const server = await CodecServer.listening([], { ...RING, TEMPORAL_NOVA_CODEC_TOKEN: 'planted-token' });
    const status = async (headers: Record<string, string>, method = 'POST') =>
      (await server.ask('/decode', method === 'POST' ? { payloads: [] } : '', headers, method)).status;
    expect(await status({})).toBe(401);
    expect(await status({ Authorization: 'Bearer planted-toke' })).toBe(401);
    expect(await status({ Authorization: 'Basic planted-token' })).toBe(401);
    expect(await status({ Authorization: 'Bearer planted-token', Host: 'codec.example.com' })).toBe(200);
    expect(await status(preflight(UI), 'OPTIONS')).toBe(204);
    expect(server.output).not.toContain('planted');
  });

  test('beyond this machine: not without a token, unless something in front checks', async () => {
    const open = CodecServer.run(['--host', '0.0.0.0', '--port', '0']);
    expect(await open.exit()).toBe(2);
    expect(open.output).toMatch(
      /^temporal-nova: on 0\.0\.0\.0 others could decrypt.*TEMPORAL_NOVA_CODEC_TOKEN.*--behind-proxy/,
    );
    await CodecServer.listening(['--host', '0.0.0.0'], { ...RING, TEMPORAL_NOVA_CODEC_TOKEN: 'a-token' });
    const proxied = await CodecServer.listening(['--host', '0.0.0.0', '--behind-proxy']);
    const answer = await proxied.ask('/decode', { payloads: [] }, { Host: 'codec.example.com' });
    expect(answer.status).toBe(200);
  });
});

describe('the process', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)(
    '%s: exit code 0, also with a connection that is kept open',
    async (signal) => {
      const ending = await CodecServer.listening();
      await fetch(`${ending.url}/decode`, { method: 'POST', body: '{}' });
      const began = Date.now();
      ending.child.kill(signal);
      expect(await ending.exit()).toBe(0);
      expect(Date.now() - began).toBeLessThan(2_000);
    },
  );

  test.each<[string, string[], Record<string, string>, RegExp]>([
    ['no keys', [], {}, /TEMPORAL_NOVA_CODEC_KEYS is not set/],
    [
      'a bad key',
      [],
      { TEMPORAL_NOVA_CODEC_KEYS: 'k1:planted' },
      /TEMPORAL_NOVA_CODEC_KEYS: the key of entry 1 has 5 bytes/,
    ],
    ['a bad port', ['--port', '70000'], RING, /--port must be 0 to 65535/],
    ['an origin that is none', ['--web-ui-origin', 'temporal.example.com'], RING, /Web UI's origin must be like/],
  ])('%s: exit code 2, one line', async (_name, args, settings, words) => {
    const server = CodecServer.run(args, settings);
    expect(await server.exit()).toBe(2);
    expect(server.output).toMatch(words);
    expect(server.output.trim().split('\n')).toHaveLength(1);
    expect(server.output).not.toContain('planted');
  });

  test('a port that is in use: exit code 1, one line', async () => {
    const { url } = await CodecServer.listening();
    const second = CodecServer.run(['--port', new URL(url).port]);
    expect(await second.exit()).toBe(1);
    expect(second.output).toMatch(/^temporal-nova: port \d+ of 127\.0\.0\.1 is in use \(--port\)\n$/);
  });
});

test('the temporal command reads and writes through it', async () => {
  const temporal = await connect();
  const { address, namespace } = temporal;
  const client = new Client({
    connection: temporal.client.connection,
    namespace,
    dataConverter: dataConverter(loadCodecKeys(RING)),
  });
  const cli = await findTemporalCli();
  const codec = ['--codec-endpoint', `${server.url}/{namespace}`];
  const temporalCli = async (...args: string[]) => {
    const { stdout } = await promisify(execFile)(cli, [...args, '--address', address, '--namespace', namespace]);
    return stdout;
  };
  const inputOf = (shown: string) => decode64(/"input": \{[^}]*\},\s+"data": "([^"]*)"/.exec(shown)?.[1]);
  try {
    const taskQueue = uniqueTaskQueue();
    const input = { server: { name: 'planted-name', flavorRef: '1', imageRef: '', networks: 'none' as const } };
    const handle = await startCreateServer(client, input, { workflowId: taskQueue, taskQueue });
    const show = ['workflow', 'show', '--workflow-id', taskQueue, '--output', 'json'];
    expect(inputOf(await temporalCli(...show))).not.toContain('planted-name');
    expect(inputOf(await temporalCli(...show, ...codec))).toBe(JSON.stringify(input));

    const start = ['workflow', 'start', '--type', 'CreateServerWorkflow', '--task-queue', taskQueue];
    await temporalCli(...start, '--workflow-id', `${taskQueue}-2`, '--input', '{"from":"the shell"}', ...codec);
    const written = client.workflow.getHandle(`${taskQueue}-2`);
    const [event] = (await written.fetchHistory()).events ?? [];
    const payloads = event?.workflowExecutionStartedEventAttributes?.input?.payloads ?? [];
    const [payload] = await client.options.loadedDataConverter.payloadCodecs[0]!.decode(payloads);
    expect(Buffer.from(payloads[0]!.metadata!.encoding!).toString()).toBe('binary/encrypted');
    expect(Buffer.from(payload!.data!).toString()).toBe('{"from":"the shell"}');
    await Promise.all([handle.terminate(), written.terminate()]);
  } finally {
    await temporal.close();
  }
});
