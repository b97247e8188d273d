/** Whatever answers in Nova's or Keystone's place: a value of the promised type or a NovaError, and no secret leaves. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { deflateSync, gzipSync } from 'node:zlib';

import { ApplicationFailure } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import fc from 'fast-check';
import { z } from 'zod';

import {
  createNovaActivities,
  type Creation,
  type InstanceReading,
  type Look,
  type NovaActivities,
} from '../../src/activities';
import { creationTag, findServer } from '../../src/activities/creation';
import type { ComputeClient } from '../../src/nova';
import { createComputeClient, loadCloudConfig, NovaError } from '../../src/nova';
import { judgeCreation } from '../../src/policy/creation';
import { decideRecovery, DEFAULT_RECOVERY_POLICY } from '../../src/policy/recovery';
import { describeState } from '../../src/policy/server-state';
import { describeFault } from '../../src/workflows/failures';
import { hostileText, like, runs } from '../support/property';
import { failureOf } from './support/failure';
import { json, ScriptedCloud } from './support/scripted-cloud';
import type { Script } from './support/scripted-cloud';

const ID = '5f2a6ac8-5f5a-4bb4-9c5b-5d9a3a4a5e0b';
const SERVER = {
  id: ID,
  name: 'web-1',
  status: 'ERROR',
  user_id: 'user-id',
  tenant_id: 'project-id',
  created: '2026-11-30T12:00:00Z',
  updated: '2026-11-30T12:00:00Z',
  locked: false,
  metadata: { HA_Enabled: 'True', constructor: 'x' },
  tags: ['temporal-nova:x'],
  addresses: { private: [{ addr: '10.0.0.1', version: 4, 'OS-EXT-IPS:type': 'fixed' }] },
  fault: { code: 500, message: 'No valid host was found. ', created: '2026-11-30T12:00:00Z' },
  'OS-EXT-STS:vm_state': 'error',
  'OS-EXT-STS:task_state': null,
  'OS-EXT-STS:power_state': 0,
  'OS-EXT-SRV-ATTR:host': 'compute1',
  'OS-SRV-USG:launched_at': null,
};
const ACTION = {
  action: 'start',
  instance_uuid: ID,
  message: null,
  project_id: 'project-id',
  request_id: 'req-1',
  start_time: '2026-11-30T12:00:00.000000',
  user_id: 'user-id',
  updated_at: null,
  events: [{ event: 'compute_start_instance', start_time: 'x', finish_time: null, result: null }],
};

/** Short, as some answers never end. */
const TIMEOUT_MS = 250;
let cloud: ScriptedCloud;
let client: ComputeClient;

beforeEach(async () => {
  cloud = await ScriptedCloud.start();
  client = createComputeClient(loadCloudConfig(cloud.env()), { timeoutMs: TIMEOUT_MS });
});
afterEach(async () => {
  client.close();
  await ScriptedCloud.stopAll();
});

function send(status: number, value: unknown, headers: Record<string, string> = {}): Script {
  return (_, response) => void response.writeHead(status, headers).end(hostileText(value));
}

/** What a call came to. A failure must be one of the promised kinds, small, and without a secret. */
async function outcome<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (!(error instanceof NovaError || error instanceof ApplicationFailure)) throw error;
    expect(error.message).not.toMatch(/the-password|token-\d/);
    expect(error.message.length).toBeLessThan(2_500);
    return undefined;
  }
}

const logger = new DefaultLogger('ERROR');

function activity<T>(run: (activities: NovaActivities) => Promise<T>): Promise<T | undefined> {
  const info = { scheduledTimestampMs: Date.now(), currentAttemptScheduledTimestampMs: Date.now() };
  // A worker of its own: after some failures in a row, a worker leaves Nova alone for a moment.
  const activities = createNovaActivities({ compute: client });
  return outcome(new MockActivityEnvironment(info, { logger }).run(() => run(activities)) as Promise<T>);
}

const name = z.string().max(255).nullable();
const stateType = z.strictObject({
  status: z.string().max(100),
  vmState: name,
  taskState: name,
  powerState: name,
  host: name,
  locked: z.boolean(),
});
const addressType = z.strictObject({
  addr: z.string(),
  version: z.number(),
  'OS-EXT-IPS:type': z.string().optional(),
  'OS-EXT-IPS-MAC:mac_addr': z.string().optional(),
});
const lookType = z.strictObject({
  at: z.iso.datetime(),
  state: stateType,
  name,
  addresses: z.record(z.string(), z.array(addressType)).nullable(),
  fault: z
    .strictObject({ code: z.int(), message: z.string().max(2_000), created: z.string().max(255).optional() })
    .nullable(),
});
const readingType = z.strictObject({
  look: lookType.nullable(),
  metadata: z.record(z.string(), z.string()),
  actions: z
    .array(
      z.strictObject({
        action: z.string().max(255),
        startTime: z.union([z.number(), z.nan()]),
        userId: name,
        failed: z.boolean(),
        requestId: z.string().min(1).max(255),
      }),
    )
    .max(30)
    .nullable(),
  ownUserId: name,
});
const serverType = z.strictObject({
  id: z.string().min(1).max(255),
  name: z.string().optional(),
  status: z.string().min(1),
  addresses: z.record(z.string(), z.array(addressType)).optional(),
  fault: z.strictObject({ code: z.int(), message: z.string(), created: z.string().optional() }).optional(),
  locked: z.boolean().optional(),
  metadata: z.record(z.string(), z.string()).optional(),
  tags: z.array(z.string()).optional(),
  user_id: z.string().optional(),
  tenant_id: z.string().optional(),
  created: z.string().optional(),
  updated: z.string().optional(),
  'OS-EXT-STS:vm_state': z.string().nullable().optional(),
  'OS-EXT-STS:task_state': z.string().nullable().optional(),
  'OS-EXT-STS:power_state': z.number().nullable().optional(),
  'OS-EXT-SRV-ATTR:host': z.string().nullable().optional(),
  'OS-SRV-USG:launched_at': z.string().nullable().optional(),
});

/** A history entry: Temporal takes 2 MB, a workflow keeps many. */
const LARGEST_RESULT = 400_000;

/** What a workflow does with a look must not throw: it would hang on a failing workflow task. */
function useLook(look: Look | null): void {
  lookType.nullable().parse(look);
  expect(JSON.stringify(look).length).toBeLessThan(LARGEST_RESULT);
  if (look === null) return;
  expect(judgeCreation(look.state, ['BUILD'])).toEqual(expect.any(String));
  expect(`${describeState(look.state)} ${describeFault(look.fault)}`.length).toBeLessThan(3_000);
}

function useReading(reading: InstanceReading): void {
  readingType.parse(reading);
  expect(JSON.stringify(reading).length).toBeLessThan(LARGEST_RESULT);
  useLook(reading.look);
  for (const haEnabledMetadataKey of ['HA_Enabled', 'constructor', '__proto__', 'toString']) {
    const facts = { ...reading, state: reading.look?.state ?? null, failedAt: 1, reportsRunning: false };
    const policy = { ...DEFAULT_RECOVERY_POLICY, requireHaEnabled: true, haEnabledMetadataKey };
    expect(decideRecovery(facts, policy)).toHaveProperty('kind');
  }
}

/** 404 is two looks a second apart: see the table of answers. */
const status = fc.oneof(
  { weight: 5, arbitrary: fc.constantFrom(200, 202) },
  fc.integer({ min: 200, max: 999 }).filter((code) => code !== 404),
);
const retryAfter = fc.constantFrom(
  '31536000',
  '-1',
  '0',
  '1e309',
  '9'.repeat(400),
  'soon',
  '',
  'Sun, 06 Nov 1994 08:49:37 GMT',
  'Fri, 31 Dec 2999 23:59:59 GMT',
  'Mon, 99 Foo 99999 99:99:99',
);
const headers = fc.record(
  {
    'Retry-After': retryAfter,
    Date: fc.constantFrom('never', 'Fri, 31 Dec 2999 23:59:59 GMT'),
    'X-Openstack-Request-Id': fc.constantFrom('', 'req-1', 'x'.repeat(500), 'a b'),
    Location: fc.constantFrom('http://127.0.0.1:9/x', '//', 'http://[', 'x'.repeat(2_000)),
    'Content-Type': fc.constantFrom('text/html', 'application/json; charset=utf-16', ''),
  },
  { requiredKeys: [] },
);
const answer = (document: unknown) =>
  fc.tuple(status, like(document), headers).map(([code, body, more]) => send(code, body, more));

test('any answer to GET of a server is a look or a typed failure', async () => {
  await fc.assert(
    fc.asyncProperty(answer({ server: SERVER }), async (script) => {
      cloud.nova = script;
      const server = await outcome(client.getServer(ID));
      if (server) serverType.parse(server);
      const look = await activity(({ novaGetServer }) => novaGetServer({ serverId: ID }));
      if (look !== undefined) useLook(look);
    }),
    { numRuns: runs(300) },
  );
});

test('any answer to what a recovery reads is a reading or a typed failure', async () => {
  await fc.assert(
    fc.asyncProperty(answer({ server: SERVER }), answer({ instanceActions: [ACTION, ACTION] }), async (get, list) => {
      cloud.nova = (request, ...rest) => (request.path.includes('os-instance-actions') ? list : get)(request, ...rest);
      const reading = await activity(({ novaReadInstance }) => novaReadInstance({ serverId: ID }));
      if (reading !== undefined) useReading(reading);
    }),
    { numRuns: runs(200) },
  );
});

const creation: Creation = {
  namespace: 'n',
  workflowId: 'w',
  firstRunId: '00000000-0000-0000-0000-000000000000',
  attempt: 1,
};

test('any answer to a creation is a server or a typed failure', async () => {
  const server = { name: 'web', flavorRef: '1', networks: 'none' } as const;
  await fc.assert(
    fc.asyncProperty(answer({ server: SERVER }), answer({ server: SERVER }), async (post, get) => {
      cloud.nova = (request, ...rest) => (request.method === 'POST' ? post : get)(request, ...rest);
      const created = await activity(({ novaCreateServer }) =>
        novaCreateServer({ creation, server, within: 60_000, mayExist: false }),
      );
      if (created === undefined) return;
      expect(created.serverId).toMatch(/^[^]{1,255}$/);
      useLook(created.look);
    }),
    { numRuns: runs(200) },
  );
});

test('any answer to a list, an action or a deletion is a value or a typed failure', async () => {
  const document = fc.oneof(
    answer({ servers: [SERVER, { ...SERVER, id: 'other' }], servers_links: [{ rel: 'next', href: 'x' }] }),
    answer({ instanceAction: ACTION }),
    answer({ flavors: [{ id: '1', name: 'm1', ram: 1, vcpus: 1, disk: 1 }], images: [{ id: 'i', status: 'active' }] }),
  );
  await fc.assert(
    fc.asyncProperty(document, async (script) => {
      cloud.nova = script;
      const servers = await outcome(client.listServers({ tags: 'x' }));
      if (servers) z.array(serverType).parse(servers);
      await outcome(client.getInstanceAction(ID, 'req-1'));
      await outcome(client.listFlavors());
      const taken = await activity(({ novaServerAction }) =>
        novaServerAction({ serverId: ID, action: 'stop', known: [], vmState: 'active' }),
      );
      if (taken) z.strictObject({ requestId: name, found: z.literal(false) }).parse(taken);
      await activity(({ novaDeleteServer }) => novaDeleteServer({ serverId: ID }));
    }),
    { numRuns: runs(100) },
  );
});

test('any answer to a login, and any description of the API, is a session or a typed failure', async () => {
  const token = cloud.token() as { catalog: object[] };
  token.catalog.push({ type: 'image', endpoints: [{ interface: 'publicURL', region: 'R', url: `${cloud.url}/v2/` }] });
  const login = fc
    .tuple(status, like({ token }), fc.constantFrom('token-1', '', ' ', 'a\tb', 'é', 'x'.repeat(9_000)), headers)
    .map(([code, body, subject, more]) => send(code, body, { ...more, 'X-Subject-Token': subject }));
  const version = answer({ version: { id: 'v2.1', status: 'CURRENT', version: '2.93', min_version: '2.1' } });
  const { keystone } = cloud;
  await fc.assert(
    fc.asyncProperty(fc.oneof(login, fc.constant(keystone)), version, async (loginScript, versionScript) => {
      cloud.keystone = loginScript;
      cloud.version = versionScript;
      cloud.nova = send(200, { server: SERVER, images: [] });
      const fresh = createComputeClient(loadCloudConfig(cloud.env()), { timeoutMs: TIMEOUT_MS });
      try {
        await outcome(fresh.check());
        const server = await outcome(fresh.getServer(ID));
        if (server) serverType.parse(server);
        await outcome(fresh.listImages());
        const user = await outcome(fresh.ownUserId());
        expect(user ?? '').toMatch(/^[^]{0,255}$/);
      } finally {
        fresh.close();
      }
    }),
    { numRuns: runs(200) },
  );
});

test('a list that was not filtered by the tag does not make the server of another one ours', async () => {
  const tag = creationTag(creation);
  const others = Array.from({ length: 50 }, (_, i) => ({ id: `s${i}`, status: 'ACTIVE', tags: ['web'] }));
  cloud.nova = send(200, { servers: others });
  await expect(findServer(client, creation)).resolves.toBeNull();
  cloud.nova = send(200, { servers: [...others, { id: 'ours', status: 'ACTIVE', tags: ['web', tag] }] });
  await expect(findServer(client, creation)).resolves.toMatchObject({ id: 'ours' });
  cloud.nova = send(200, { servers: others.map((server) => ({ ...server, id: server.id.padEnd(255), tags: [tag] })) });
  const error = await findServer(client, creation).catch((reason: unknown) => reason as ApplicationFailure);
  expect(error).toMatchObject({ type: 'AmbiguousServer', message: expect.stringMatching(/^50 servers/) as string });
  expect(JSON.stringify(error)?.length).toBeLessThan(20_000);
});

/** Nothing that a setting or an answer holds becomes a header, or a request, of its own. */
const HEADERS = [
  'accept',
  'accept-encoding',
  'connection',
  'content-length',
  'content-type',
  'host',
  'openstack-api-version',
  'user-agent',
  'x-auth-token',
];

test('settings with line ends and NULs in them are data, not headers', async () => {
  const value = fc.oneof(
    fc.constantFrom('a\r\nX-Injected: 1', 'a\nX-Injected: 1\n\n', 'a\0b', 'é\u2028', '\ud800', '%0d%0aX-Injected: 1'),
    fc.string({ unit: 'binary', minLength: 1, maxLength: 20 }),
  );
  const path = fc.constantFrom(
    '',
    '/v2.1',
    '/a%0d%0aX-Injected: 1/v2.1',
    '/a\r\nb',
    '/%(project_id)s/v2.1',
    '/é/v2.1/ ',
  );
  await fc.assert(
    fc.asyncProperty(value, value, value, path, async (user, password, project, override) => {
      const { token } = cloud;
      cloud.token = () => ({ ...token.call(cloud), project: { id: project } });
      cloud.nova = send(200, { server: { ...SERVER, name: user } });
      const env = cloud.env({
        OS_USERNAME: user,
        OS_PASSWORD: password,
        OS_PROJECT_NAME: project,
        OS_COMPUTE_ENDPOINT_OVERRIDE: cloud.url + override,
      });
      const fresh = createComputeClient(loadCloudConfig(env), { timeoutMs: TIMEOUT_MS });
      await outcome(fresh.getServer(user));
      await outcome(fresh.createServer({ name: user, flavorRef: password }, { tags: [project] }));
      fresh.close();
      cloud.token = token;
    }),
    { numRuns: runs(100) },
  );
  expect(cloud.requests.length).toBeGreaterThan(100);
  for (const { headers: seen, method } of cloud.requests) {
    expect(HEADERS).toEqual(expect.arrayContaining(Object.keys(seen)));
    expect(['GET', 'POST']).toContain(method);
  }
});

test('an address of slashes in the catalog is not read for ever', async () => {
  cloud.endpoints = [{ interface: 'public', url: `${cloud.url}${'/'.repeat(300_000)}x` }];
  const begun = Date.now();
  await failureOf(client.check());
  expect(Date.now() - begun).toBeLessThan(2_000);
});

// ---- below JSON

const OK = JSON.stringify({ server: { id: ID, status: 'ACTIVE' } });
const utf16 = Buffer.from(`\ufeff${OK}`, 'utf16le');

function wire(text: string | Buffer, end: 'end' | 'open' = 'end'): Script {
  return (_, __, socket) => {
    socket.on('error', () => undefined);
    socket.write(text);
    if (end === 'end') socket.end();
  };
}
function framed(body: string | Buffer, headers: string, statusLine = '200 OK'): Script {
  const bytes = Buffer.from(body);
  const head = `HTTP/1.1 ${statusLine}\r\nContent-Length: ${bytes.length}\r\n${headers}Connection: close\r\n\r\n`;
  return wire(Buffer.concat([Buffer.from(head), bytes]));
}
const endless = (chunk: string, every: number): Script => {
  return (_, __, socket) => {
    socket.on('error', () => undefined);
    socket.write('HTTP/1.1 200 OK\r\n');
    const timer = setInterval(() => socket.write(chunk), every);
    socket.on('close', () => clearInterval(timer));
  };
};

test.each<[string, Script, 'taken' | RegExp]>([
  ['a byte order mark', framed(`\ufeff${OK}`, ''), 'taken'],
  ['206', framed(OK, '', '206 Partial Content'), 'taken'],
  ['gzip', framed(gzipSync(OK), 'Content-Encoding: gzip\r\n'), 'taken'],
  ['deflate', framed(deflateSync(OK), 'Content-Encoding: deflate\r\n'), 'taken'],
  [
    '102 and 103 before the answer',
    wire(`HTTP/1.1 102 P\r\n\r\nHTTP/1.1 103 E\r\n\r\nHTTP/1.1 200 OK\r\n\r\n${OK}`),
    'taken',
  ],
  [
    'two answers at once',
    wire(`HTTP/1.1 200 OK\r\nContent-Length: ${OK.length}\r\n\r\n${OK}`.repeat(2), 'open'),
    'taken',
  ],
  ['another header of the same name', framed(OK, 'X: 1\r\nX: 2\r\nRetry-After: 1\r\nRetry-After: x\r\n'), 'taken'],
  ['100 and nothing more', wire('HTTP/1.1 100 Continue\r\n\r\n', 'open'), /has not answered .* completely/],
  ['100 without end', endless('\r\nHTTP/1.1 100 Continue\r\n', 5), /./],
  ['101', wire(`HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n${OK}`, 'open'), /./],
  ['199', wire('HTTP/1.1 199 What\r\n\r\n', 'open'), /has not answered/],
  ['204 with a body', framed(OK, '', '204 No Content'), /without a usable 'server'|broke the connection off/],
  ['205 with a body', framed(OK, '', '205 Reset'), 'taken'],
  ['304 with a body', framed(OK, '', '304 Not Modified'), /304, a redirect|broke the connection off/],
  ['600', framed(OK, '', '600 What'), /answered GET .* with 600/],
  ['999', framed(OK, '', '999 What'), /answered GET .* with 999/],
  ['a status of two digits', wire('HTTP/1.1 20 OK\r\n\r\n{}'), /broke the connection off/],
  ['a status of four digits', wire('HTTP/1.1 2000 OK\r\n\r\n{}'), /broke the connection off/],
  ['HTTP/0.9', wire(OK), /broke the connection off/],
  ['TLS', wire(Buffer.from('15030100020228', 'hex')), /broke the connection off/],
  ['nothing', wire(''), /broke the connection off/],
  ['a NUL in a header', framed(OK, 'X: a\0b\r\n'), /broke the connection off/],
  ['a bare carriage return in a header', framed(OK, 'X: a\rY: b\r\n'), /broke the connection off/],
  ['headers of 100 KB', framed(OK, `X: ${'x'.repeat(100_000)}\r\n`), /broke the connection off/],
  [
    'two lengths',
    wire(`HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n${OK}`),
    /broke the connection off/,
  ],
  [
    'a length and chunks',
    wire(`HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n${OK}`),
    /broke the connection off/,
  ],
  [
    'a length that is too short',
    wire(`HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\n${OK}`),
    /not Nova's JSON|broke the connection off/,
  ],
  [
    'a length that is too long',
    wire(`HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n${OK}`),
    /broke the connection off/,
  ],
  [
    'a length that is no number',
    wire(`HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n${OK}`),
    /broke the connection off/,
  ],
  [
    'a length beyond all memory',
    wire(`HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n${OK}`, 'open'),
    /has not answered/,
  ],
  [
    'chunks that are none',
    wire(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${OK}`),
    /broke the connection off/,
  ],
  [
    'a chunk beyond all memory',
    wire('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n{'),
    /broke the connection off/,
  ],
  [
    'chunks that do not end',
    wire('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n'),
    /broke the connection off/,
  ],
  ['headers that trickle', endless('X-A: 1\r\n', 5), /has not answered .* completely within 0.25 s/],
  ['a body that trickles', endless('\r\n ', 5), /has not answered .* completely within 0.25 s/],
  ['plain text called gzip', framed(OK, 'Content-Encoding: gzip\r\n'), /broke the connection off|not Nova's JSON/],
  ['plain text called br', framed(OK, 'Content-Encoding: br\r\n'), /broke the connection off|not Nova's JSON/],
  ['gzip called nothing', framed(gzipSync(OK), ''), /not Nova's JSON/],
  [
    'half of a gzip',
    framed(gzipSync(OK).subarray(0, 30), 'Content-Encoding: gzip\r\n'),
    /without a usable|not Nova's JSON|broke/,
  ],
  ['an encoding that nobody knows', framed(OK, 'Content-Encoding: x-foo\r\n'), 'taken'],
  ['UTF-16', framed(utf16, 'Content-Type: application/json; charset=utf-16le\r\n'), /not Nova's JSON/],
  ['bytes that are no UTF-8', framed(Buffer.from([0xff, 0xfe, 0x22, 0x80]), ''), /not Nova's JSON/],
  ['100,000 lists in one another', framed('['.repeat(100_000) + ']'.repeat(100_000), ''), /without a usable 'server'/],
  [
    '100,000 objects in one another',
    framed('{"server":'.repeat(100_000) + '1' + '}'.repeat(100_000), ''),
    /without a usable 'server'/,
  ],
  [
    'a number beyond all numbers',
    framed(`{"server":{"id":"${ID}","status":"ACTIVE","OS-EXT-STS:power_state":1e999}}`, ''),
    'taken',
  ],
])('%s', async (_, script, expected) => {
  cloud.nova = script;
  const call = client.getServer(ID);
  if (expected === 'taken') {
    useLook({ ...(await activity(({ novaGetServer }) => novaGetServer({ serverId: ID }))) } as Look);
    expect(serverType.parse(await call).status).toBe('ACTIVE');
  } else {
    const error = await failureOf(call);
    expect(error).toMatchObject({ kind: 'Unavailable' });
    expect(error.message).toMatch(expected);
  }
  // Nothing of it is left over for the next request.
  cloud.nova = send(200, { server: { id: 'next', status: 'ACTIVE' } });
  await expect(client.getServer('next')).resolves.toMatchObject({ id: 'next' });
});

test('any bytes at all in place of an answer are a value or a NovaError', async () => {
  const head = fc.constantFrom(
    '',
    'HTTP/1.1 ',
    'HTTP/1.1 200 OK\r\n',
    'HTTP/1.1 200 OK\r\n\r\n{',
    'HTTP/1.1 202 A\r\nTransfer-Encoding: chunked\r\n\r\n',
    'HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\u001f',
    'HTTP/1.1 302 F\r\nLocation: ',
    'HTTP/1.1 429 F\r\nRetry-After: ',
  );
  await fc.assert(
    fc.asyncProperty(head, fc.uint8Array({ maxLength: 60 }), async (start, rest) => {
      cloud.nova = wire(Buffer.concat([Buffer.from(start, 'latin1'), rest]));
      await outcome(client.getServer(ID));
      await outcome(client.deleteServer(ID));
    }),
    { numRuns: runs(200) },
  );
});

// ---- to another host

/** Another host: notes whatever comes. */
class Stranger {
  readonly seen: string[] = [];
  private constructor(private readonly server: Server) {}

  static async start(): Promise<Stranger> {
    const server = createServer((_, response) => void response.writeHead(200).end('{}'));
    const stranger = new Stranger(server);
    server.on('connection', (socket) => {
      stranger.seen.push('a connection');
      socket.on('data', (data: Buffer) => stranger.seen.push(data.toString('latin1')));
      socket.on('error', () => undefined);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return stranger;
  }

  get host(): string {
    return `127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

describe('to another host', () => {
  let stranger: Stranger;
  beforeEach(async () => (stranger = await Stranger.start()));
  afterEach(() => stranger.stop());

  const calls: [string, (client: ComputeClient) => Promise<unknown>][] = [
    ['GET of a server', (compute) => compute.getServer(ID)],
    ['list', (compute) => compute.listServers({ tags: 'x' })],
    ['creation', (compute) => compute.createServer({ name: 'x', flavorRef: '1', user_data: 'c2VjcmV0' }, { tags: [] })],
    ['action', (compute) => compute.serverAction(ID, { rescue: { adminPass: 'hunter22' } })],
    ['deletion', (compute) => compute.deleteServer(ID)],
    ['instance actions', (compute) => compute.listInstanceActions(ID)],
    ['images', (compute) => compute.listImages()],
  ];
  const codes = [300, 301, 302, 303, 305, 307, 308, 399];
  const places = (host: string): string[] => [`http://${host}/v3`, `//${host}/`, `http://cloud@${host}/token-1`];

  function redirecting(code: number, location: string): Script {
    const more = { Location: location, Refresh: `0; url=${location}`, Link: `<${location}>; rel="next"` };
    return (_, response) =>
      json(response, code, { location, servers: [], links: [{ rel: 'self', href: location }] }, more);
  }

  test.each(calls)('a redirect of a %s is not followed', async (_, call) => {
    const { token } = cloud;
    cloud.token = () => ({
      ...token.call(cloud),
      catalog: ['compute', 'image'].map((type) => ({ type, endpoints: [{ interface: 'public', url: cloud.url }] })),
    });
    for (const code of codes) {
      for (const place of places(stranger.host)) {
        cloud.nova = redirecting(code, place);
        const error = await failureOf(call(client));
        expect(error.message).toMatch(new RegExp(`${code}`));
        expect(error.message).not.toMatch(/token-1|cloud@/);
      }
    }
    expect(stranger.seen).toEqual([]);
  });

  test.each(['keystone', 'version'] as const)('a redirect by %s is not followed', async (who) => {
    for (const code of codes) {
      for (const place of places(stranger.host)) {
        cloud[who] = redirecting(code, place);
        const fresh = createComputeClient(loadCloudConfig(cloud.env()), { timeoutMs: TIMEOUT_MS });
        await failureOf(fresh.check());
        await failureOf(fresh.getServer(ID));
        fresh.close();
      }
    }
    expect(stranger.seen).toEqual([]);
  });

  test('addresses in the body of an answer are not followed either', async () => {
    const href = `http://${stranger.host}/v2.1/servers/detail?marker=x`;
    const links = [{ rel: 'next', href }];
    cloud.version = (_, response) =>
      json(response, 200, {
        version: { id: 'v2.1', version: '2.93', min_version: '2.1', links: [{ rel: 'self', href }] },
        versions: [{ links: [{ href }] }],
      });
    let page = 0;
    cloud.nova = (_, response) =>
      json(
        response,
        202,
        {
          server: { ...SERVER, links, href },
          servers: [{ id: `s${++page}`, status: 'ACTIVE', links }],
          servers_links: page % 3 === 0 ? [] : links,
          next: page % 3 === 0 ? undefined : href,
          instanceActions: [],
          links,
        },
        { Location: href, Link: `<${href}>; rel="next"` },
      );
    for (const [, call] of calls.slice(0, -1)) await call(client);
    expect(page).toBeGreaterThan(3);
    expect(stranger.seen).toEqual([]);
  });

  test('the catalog is trusted with the token: Keystone gave both; with the password it is not', async () => {
    cloud.endpoints = [{ interface: 'public', url: `http://${stranger.host}/v2.1` }];
    await failureOf(client.check());
    expect(stranger.seen.join('')).toContain('X-Auth-Token: token-1');
    expect(stranger.seen.join('')).not.toContain('the-password');
  });
});

test('what an answer repeats of the token shows nowhere', async () => {
  for (const [code, more] of [
    [302, { Location: `${cloud.url}/token-1` }],
    [500, { 'X-Openstack-Request-Id': 'token-1' }],
    [429, { 'Retry-After': 'token-1' }],
  ] as [number, Record<string, string>][]) {
    cloud.nova = send(code, { error: { message: 'token-1' } }, more);
    const error = await failureOf(client.getServer(ID));
    expect(`${error.message} ${JSON.stringify(error.details)}`).not.toContain('token-1');
  }
});
