/**
 * `temporal-nova codec-server`: decrypts for the Web UI and the `temporal` command, by Temporal's codec server protocol
 * (https://docs.temporal.io/codec-server). What it decrypts goes into its answers and nowhere else.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { temporal } from '@temporalio/proto';
import { z } from 'zod';
import { CodecError, EncryptionCodec, isEncrypted, loadCodecKeys, type CodecKey } from '../codec';
import { CommandError, EXIT, firstLine, UsageError } from './errors';
import { Output } from './output';

export interface CodecServerOptions {
  host: string;
  port: string;
  /** Default: `TEMPORAL_UI_URL`, else a dev server's. */
  webUiOrigin?: string[];
  behindProxy?: boolean;
}

interface Settings {
  keys: CodecKey[];
  host: string;
  port: number;
  origins: string[];
  /** What every request has to bring as `Authorization: Bearer`. */
  token: string | undefined;
  /** Only names of this machine are taken for `Host`: a page whose name was rebound to 127.0.0.1 sends its own. */
  onlyLocalNames: boolean;
}

const DEV_SERVER = ['http://localhost:8233', 'http://127.0.0.1:8233'];
/** A page of the Web UI's history is 4 MB at most, gRPC's limit, and base64 adds a third. */
const MAX_BODY_BYTES = 16 * 1024 * 1024;
const END_WITHIN_MS = 3_000;

/**
 * Serves until SIGINT or SIGTERM.
 *
 * @returns the exit code
 * @throws UsageError when a setting is wrong, or would let everybody decrypt
 */
export async function codecServer(options: CodecServerOptions): Promise<number> {
  const settings = readSettings(options, process.env);
  const output = new Output(false);
  const server = createServer((request, response) => {
    void serve(settings, request, response, (refusal) => output.warn(refusal));
  });
  await listen(server, settings);
  const stopped = Promise.race(['SIGINT', 'SIGTERM'].map((signal) => once(process, signal)));
  tell(output, settings, urlOf(server));
  await stopped;
  await close(server);
  return EXIT.done;
}

function readSettings(options: CodecServerOptions, env: NodeJS.ProcessEnv): Settings {
  const keys = readKeys(env);
  const { host, behindProxy = false } = options;
  const port = Number(options.port);
  if (!/^\d+$/.test(options.port) || port > 65_535)
    throw new UsageError(`--port must be 0 to 65535, not "${options.port}"`);
  const token = env.TEMPORAL_NOVA_CODEC_TOKEN?.trim() || undefined;
  if (!isLocal(host) && !token && !behindProxy) {
    throw new UsageError(
      `on ${host} others could decrypt everything: set TEMPORAL_NOVA_CODEC_TOKEN, which each request then has to bring, ` +
        'or say --behind-proxy where something in front checks who asks',
    );
  }
  const given = options.webUiOrigin ?? (env.TEMPORAL_UI_URL ? [env.TEMPORAL_UI_URL] : DEV_SERVER);
  const origins = given.map(originOf);
  return { keys, host, port, origins, token, onlyLocalNames: isLocal(host) && !token && !behindProxy };
}

function readKeys(env: NodeJS.ProcessEnv): CodecKey[] {
  let keys: CodecKey[];
  try {
    keys = loadCodecKeys(env);
  } catch (error) {
    throw new UsageError(firstLine(error));
  }
  if (keys.length === 0) throw new UsageError('TEMPORAL_NOVA_CODEC_KEYS is not set: there is nothing to decrypt with');
  return keys;
}

function originOf(url: string): string {
  const { origin, protocol } = URL.canParse(url) ? new URL(url) : { origin: '', protocol: '' };
  if (/^https?:$/.test(protocol)) return origin;
  throw new UsageError(`the Web UI's origin must be like https://temporal.example.com, not "${url}"`);
}

/** Whether a host name, as in a URL, is this machine's own for itself. */
function isLocal(host: string): boolean {
  return /^(localhost|127(\.\d{1,3}){3}|\[?::1\]?)$/i.test(host);
}

async function listen(server: Server, { host, port }: Settings): Promise<void> {
  server.listen(port, host.replace(/^\[(.*)\]$/, '$1'));
  await once(server, 'listening').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EADDRINUSE') throw new CommandError(`port ${port} of ${host} is in use (--port)`);
    throw new CommandError(`can't listen on ${host}, port ${port}: ${firstLine(error)}`);
  });
}

function urlOf(server: Server): string {
  const { address, family, port } = server.address() as AddressInfo;
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`;
}

function tell(output: Output, { keys, origins, token }: Settings, url: string): void {
  const [newest, ...older] = keys.map(({ id }) => `"${id}"`);
  output.say(
    'Codec',
    `server at ${url}, until Ctrl-C`,
    `encrypts with the key ${newest}${older.length > 0 ? `, decrypts with ${older.join(', ')} too` : ''}`,
    `for the Web UI at ${origins.join(', ')}: enter ${url} there as Codec Server endpoint`,
    `for the shell: temporal workflow show --codec-endpoint ${url}` +
      `${token ? ' --codec-auth "Bearer $TEMPORAL_NOVA_CODEC_TOKEN"' : ''} --workflow-id …`,
  );
}

async function close(server: Server): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  setTimeout(() => server.closeAllConnections(), END_WITHIN_MS).unref();
  await closed;
}

/** A request that is not answered with payloads; the message is the asker's, and the log's. */
class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly headers: Record<string, string> = {},
  ) {
    super(message);
  }
}

async function serve(
  settings: Settings,
  request: IncomingMessage,
  response: ServerResponse,
  log: (line: string) => void,
): Promise<void> {
  const headers: Record<string, string> = { 'Cache-Control': 'no-store', Vary: 'Origin' };
  try {
    Object.assign(headers, corsHeaders(settings, request));
    const answer = await handle(settings, request);
    response.writeHead(answer ? 200 : 204, { ...headers, ...(answer && { 'Content-Type': 'application/json' }) });
    response.end(answer);
  } catch (error) {
    const { status, message, headers: more } = toRefusal(error);
    log(`${status} ${request.method}: ${message}`);
    // What is left of a body that was not read would be taken for the next request.
    const all = { ...headers, ...more, 'Content-Type': 'application/json', Connection: 'close' };
    response.writeHead(status, all).end(JSON.stringify({ error: message }));
  }
}

function toRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  if (error instanceof CodecError) return new Refusal(400, error.message);
  return new Refusal(500, 'unexpected error');
}

/** @returns the body of a 200; nothing for a preflight */
async function handle(settings: Settings, request: IncomingMessage): Promise<string | undefined> {
  if (request.method === 'OPTIONS') return undefined;
  checkToken(settings, request);
  // Only the end of the path counts, as the protocol says: `--codec-endpoint https://…/{namespace}` works too.
  const [, operation] = /\/(encode|decode)\/?$/.exec((request.url ?? '').split('?')[0] ?? '') ?? [];
  if (!operation) throw new Refusal(404, 'there is /encode and /decode only');
  if (request.method !== 'POST') throw new Refusal(405, 'only POST is answered here', { Allow: 'POST, OPTIONS' });
  const payloads = parse(await readBody(request));
  const codec = new EncryptionCodec(settings.keys);
  return JSON.stringify({
    payloads: await (operation === 'encode' ? encode(codec, payloads) : decode(codec, payloads)),
  });
}

/** @throws Refusal for a page that is not the Web UI */
function corsHeaders({ origins, onlyLocalNames }: Settings, { headers }: IncomingMessage): Record<string, string> {
  const { host = '', origin } = headers;
  if (onlyLocalNames && !isLocal(host.replace(/:\d+$/, ''))) {
    throw new Refusal(403, `the host ${JSON.stringify(host)} is not this machine's (--behind-proxy takes any)`);
  }
  if (origin === undefined) return {};
  if (!origins.includes(origin)) {
    throw new Refusal(403, `the origin ${JSON.stringify(origin)} is not the Web UI's (--web-ui-origin says what is)`);
  }
  return {
    'Access-Control-Allow-Origin': origin,
    'Access-Control-Allow-Methods': 'POST, OPTIONS',
    'Access-Control-Allow-Headers': 'content-type, x-namespace, authorization',
    // The Web UI may be told to send cookies, for a proxy in front.
    'Access-Control-Allow-Credentials': 'true',
    // Chrome asks before a public page, such as Temporal Cloud's, may talk to this machine.
    ...(headers['access-control-request-private-network'] && { 'Access-Control-Allow-Private-Network': 'true' }),
    'Access-Control-Max-Age': '600',
  };
}

function checkToken({ token }: Settings, { headers }: IncomingMessage): void {
  if (token === undefined) return;
  const [, given = ''] = /^Bearer +(.*)$/i.exec(headers.authorization ?? '') ?? [];
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  if (timingSafeEqual(digest(given), digest(token))) return;
  throw new Refusal(401, 'the token of TEMPORAL_NOVA_CODEC_TOKEN is needed', { 'WWW-Authenticate': 'Bearer' });
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    chunks.push(chunk as Buffer);
    bytes += (chunk as Buffer).length;
    if (bytes > MAX_BODY_BYTES) throw new Refusal(413, `the body has more than ${MAX_BODY_BYTES} bytes`);
  }
  return Buffer.concat(chunks).toString();
}

const base64 = z.string().regex(/^[\w+/-]*={0,2}$/, 'must be base64');
/** temporal.api.common.v1.Payloads as protobuf's JSON has it; what else a payload holds is kept. */
const payloadsSchema = z.object({
  payloads: z
    .array(z.looseObject({ metadata: z.record(z.string(), base64).nullish(), data: base64.nullish() }))
    .nullish(),
});
type JsonPayload = NonNullable<z.infer<typeof payloadsSchema>['payloads']>[number];

function parse(body: string): JsonPayload[] {
  let json: unknown;
  try {
    json = JSON.parse(body);
  } catch {
    throw new Refusal(400, 'the body is not JSON'); // the parser's own words quote it
  }
  const { data, error } = payloadsSchema.safeParse(json);
  if (data) return data.payloads ?? [];
  const [issue] = error.issues;
  throw new Refusal(
    400,
    `the body is not {"payloads":[…]}: ${issue?.path.join('.') || 'the document'}: ${issue?.message}`,
  );
}

const PayloadProto = temporal.api.common.v1.Payload;
type Payload = Parameters<EncryptionCodec['decode']>[0][number];

async function encode(codec: EncryptionCodec, payloads: JsonPayload[]): Promise<object[]> {
  return (await codec.encode(payloads.map(fromJson))).map(toJson);
}

/** What is not encrypted goes back as it came. */
function decode(codec: EncryptionCodec, payloads: JsonPayload[]): Promise<object[]> {
  return Promise.all(
    payloads.map(async (json) => {
      const payload = fromJson(json);
      return isEncrypted(payload) ? toJson((await codec.decode([payload]))[0] ?? {}) : json;
    }),
  );
}

function fromJson({ metadata, data, ...more }: JsonPayload): Payload {
  const bytes = (text: string | null | undefined): Buffer => Buffer.from(text ?? '', 'base64');
  return {
    ...PayloadProto.fromObject(more),
    metadata: Object.fromEntries(Object.entries(metadata ?? {}).map(([key, value]) => [key, bytes(value)])),
    data: bytes(data),
  };
}

function toJson(payload: Payload): object {
  return PayloadProto.toObject(PayloadProto.fromObject(payload), { bytes: String, longs: String });
}
