import type { ServerResponse } from 'node:http';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';

import type { ComputeClient, NovaErrorDetails, NovaErrorKind } from '../../src/nova';
import { createComputeClient, loadCloudConfig, NovaError } from '../../src/nova';
import { failureOf } from './support/failure';
import { json, ScriptedCloud } from './support/scripted-cloud';
import type { Script } from './support/scripted-cloud';

const SERVER = { name: 'web', flavorRef: '1', networks: 'none' } as const;
const GATEWAY_PAGE = '<html><head><title>502 Bad Gateway</title></head><body><h1>haproxy</h1></body></html>';

let cloud: ScriptedCloud;
let client: ComputeClient;

beforeEach(async () => {
  cloud = await ScriptedCloud.start();
  client = createComputeClient(loadCloudConfig(cloud.env()), { timeoutMs: 300 });
});
afterEach(async () => {
  client.close();
  await ScriptedCloud.stopAll();
});

function create(): Promise<unknown> {
  return client.createServer(SERVER, { tags: ['ours'] });
}

function html(response: ServerResponse, status: number): void {
  response.writeHead(status, { 'Content-Type': 'text/html' });
  response.end(GATEWAY_PAGE);
}

function nova(status: number, message: string, key = 'badRequest', headers: Record<string, string> = {}): Script {
  return (_, response) => json(response, status, { [key]: { code: status, message } }, headers);
}

interface Row {
  name: string;
  nova: Script;
  kind: NovaErrorKind;
  outcomeUnknown: boolean;
  message: string | RegExp;
  details?: NovaErrorDetails;
}

const ROWS: Row[] = [
  {
    name: '400',
    nova: nova(400, 'Flavor nope could not be found.', 'badRequest', { 'X-Openstack-Request-Id': 'req-1' }),
    kind: 'BadRequest',
    outcomeUnknown: false,
    message: 'Nova answered POST /servers with 400: Flavor nope could not be found.',
    details: { httpStatus: 400, requestId: 'req-1' },
  },
  {
    name: '401 twice',
    nova: (_, response) =>
      json(response, 401, { error: { code: 401, title: 'Unauthorized', message: 'requires authentication.' } }),
    kind: 'Unauthorized',
    outcomeUnknown: false,
    message: 'Nova answered POST /servers with 401: requires authentication.',
  },
  {
    name: '403',
    nova: nova(403, "Policy doesn't allow os_compute_api:servers:create to be performed.", 'forbidden'),
    kind: 'Forbidden',
    outcomeUnknown: false,
    message:
      "Nova answered POST /servers with 403: Policy doesn't allow os_compute_api:servers:create to be performed. " +
      "By Nova's defaults that takes the role member in the project: give it to this service's user, " +
      "or allow the rule in Nova's policy.yaml.",
    details: { httpStatus: 403, policyRule: 'os_compute_api:servers:create' },
  },
  {
    name: "403 of a rule that is an administrator's",
    nova: nova(403, "Policy doesn't allow os_compute_api:servers:create:forced_host to be performed.", 'forbidden'),
    kind: 'Forbidden',
    outcomeUnknown: false,
    message: /to be performed\. By Nova's defaults that is an administrator's: log in as one, or allow the rule/,
    details: { httpStatus: 403, policyRule: 'os_compute_api:servers:create:forced_host' },
  },
  {
    name: '403 that names no rule',
    nova: nova(403, 'Only volume-backed servers are allowed for flavors with zero disk.', 'forbidden'),
    kind: 'Forbidden',
    outcomeUnknown: false,
    message: 'Nova answered POST /servers with 403: Only volume-backed servers are allowed for flavors with zero disk.',
    details: { httpStatus: 403 },
  },
  {
    name: '403 quota',
    nova: nova(403, 'Quota exceeded for instances: Requested 1, but already used 1 of 1 instances', 'forbidden'),
    kind: 'QuotaExceeded',
    outcomeUnknown: false,
    message: /Requested 1, but already used 1 of 1 instances$/,
  },
  {
    name: '403 quota of unified limits',
    nova: nova(403, 'Resource servers is over limit of 1 due to current usage 1 and delta 1', 'forbidden'),
    kind: 'QuotaExceeded',
    outcomeUnknown: false,
    message: /over limit of 1/,
  },
  {
    name: '403 of the port quota',
    nova: nova(403, 'Maximum number of ports exceeded', 'forbidden'),
    kind: 'QuotaExceeded',
    outcomeUnknown: false,
    message: /Maximum number of ports/,
  },
  {
    name: "404 in WebOb's shape",
    nova: (_, response) =>
      json(response, 404, {
        message: 'The resource could not be found.<br /><br />\n\n\n',
        code: '404 Not Found',
        title: 'Not Found',
      }),
    kind: 'NotFound',
    outcomeUnknown: false,
    message: 'Nova answered POST /servers with 404: The resource could not be found.',
  },
  {
    name: '408',
    nova: (_, response) => void response.writeHead(408).end(),
    kind: 'Unavailable',
    outcomeUnknown: true,
    message: 'Nova answered POST /servers with 408 Request Timeout and no message',
  },
  {
    name: '409',
    nova: nova(409, 'Instance x is locked', 'conflictingRequest'),
    kind: 'Conflict',
    outcomeUnknown: false,
    message: /409: Instance x is locked$/,
  },
  {
    name: '413 with Retry-After',
    nova: nova(413, 'This request was rate-limited.', 'overLimit', { 'Retry-After': '3' }),
    kind: 'Unavailable',
    outcomeUnknown: false,
    message: /rate-limited/,
    details: { retryAfterMs: 3000 },
  },
  {
    name: '418',
    nova: nova(418, 'tea', 'teapot'),
    kind: 'BadRequest',
    outcomeUnknown: false,
    message: /418: tea/,
  },
  {
    name: '429 with Retry-After in seconds',
    nova: nova(429, 'slow down', 'overLimit', { 'Retry-After': '7' }),
    kind: 'Unavailable',
    outcomeUnknown: false,
    message: /429: slow down/,
    details: { retryAfterMs: 7000 },
  },
  {
    name: "429 with Retry-After as a date, on the server's clock",
    nova: nova(429, 'slow down', 'overLimit', {
      Date: 'Sun, 06 Nov 1994 08:49:37 GMT',
      'Retry-After': 'Sun, 06 Nov 1994 08:49:52 GMT',
    }),
    kind: 'Unavailable',
    outcomeUnknown: false,
    message: /429/,
    details: { retryAfterMs: 15_000 },
  },
  {
    name: '429 without Retry-After',
    nova: nova(429, 'slow down', 'overLimit'),
    kind: 'Unavailable',
    outcomeUnknown: false,
    message: /429/,
  },
  {
    name: '500',
    nova: nova(500, "Unexpected API Error.\n<class 'oslo_db.exception.DBReferenceError'>", 'computeFault'),
    kind: 'Unavailable',
    outcomeUnknown: true,
    message: "Nova answered POST /servers with 500: Unexpected API Error. <class 'oslo_db.exception.DBReferenceError'>",
  },
  {
    name: '502 with an HTML page',
    nova: (_, response) => html(response, 502),
    kind: 'Unavailable',
    outcomeUnknown: true,
    message: "Nova answered POST /servers with 502 Bad Gateway (an answer that is not Nova's JSON)",
  },
  {
    name: '503 with Retry-After',
    nova: (_, response) => void response.writeHead(503, { 'Retry-After': '2' }).end(),
    kind: 'Unavailable',
    outcomeUnknown: true,
    message: /503 Service Unavailable and no message/,
    details: { retryAfterMs: 2000 },
  },
  {
    name: '504 with nothing',
    nova: (_, response) => void response.writeHead(504).end(),
    kind: 'Unavailable',
    outcomeUnknown: true,
    message: 'Nova answered POST /servers with 504 Gateway Timeout and no message',
  },
  {
    name: 'a connection that is reset',
    nova: (_, __, socket) => void socket.resetAndDestroy(),
    kind: 'Unavailable',
    outcomeUnknown: true,
    message: /broke the connection off \(ECONNRESET\) before it had answered POST \/servers$/,
  },
  {
    name: 'a connection that is closed',
    nova: (_, __, socket) => void socket.end(),
    kind: 'Unavailable',
    outcomeUnknown: true,
    message: /broke the connection off \(ECONNRESET\)/,
  },
  {
    name: 'half an answer',
    nova: (_, response, socket) => {
      response.writeHead(202, { 'Content-Length': '1000' });
      response.write('{"server": {"id": "x"');
      setTimeout(() => socket.destroy(), 20);
    },
    kind: 'Unavailable',
    outcomeUnknown: true,
    message: /broke the connection off/,
  },
  {
    name: 'a request that is never answered',
    nova: () => undefined,
    kind: 'Unavailable',
    outcomeUnknown: true,
    message: /has not answered POST \/servers completely within 0.3 s$/,
  },
  {
    name: 'an answer that trickles',
    nova: (_, response) => {
      response.writeHead(202);
      const timer = setInterval(() => response.write(' '), 20);
      response.on('close', () => clearInterval(timer));
    },
    kind: 'Unavailable',
    outcomeUnknown: true,
    message: /has not answered POST \/servers completely within 0.3 s$/,
  },
  {
    name: 'a 202 that is not JSON',
    nova: (_, response) => html(response, 202),
    kind: 'Unavailable',
    outcomeUnknown: true,
    message: "Nova answered POST /servers with 202 Accepted (an answer that is not Nova's JSON)",
  },
  {
    name: 'a 202 with nothing',
    nova: (_, response) => void response.writeHead(202).end(),
    kind: 'Unavailable',
    outcomeUnknown: true,
    message: "Nova answered POST /servers with 202, but without a usable 'server'",
  },
  ...[
    null,
    [],
    'text',
    7,
    { server: null },
    { server: { id: 7 } },
    { server: { id: '' } },
    { reservation_id: 'r-1' },
  ].map((body): Row => ({
    name: `a 202 that says ${JSON.stringify(body)}`,
    nova: (_, response) => json(response, 202, body),
    kind: 'Unavailable',
    outcomeUnknown: true,
    message: "Nova answered POST /servers with 202, but without a usable 'server'",
  })),
  {
    name: 'a 202 nested without end',
    nova: (_, response) => void response.writeHead(202).end('['.repeat(1_000_000)),
    kind: 'Unavailable',
    outcomeUnknown: true,
    message: /not Nova's JSON|without a usable/,
  },
  {
    name: 'an error whose message is no string',
    nova: (_, response) => json(response, 400, { badRequest: { message: { a: 1 } } }),
    kind: 'BadRequest',
    outcomeUnknown: false,
    message: 'Nova answered POST /servers with 400 Bad Request and no message',
  },
  {
    name: '302 to another place',
    nova: (_, response) => void response.writeHead(302, { Location: 'http://127.0.0.1:9/x?secret=1' }).end(),
    kind: 'Unavailable',
    outcomeUnknown: true,
    message: 'Nova answered POST /servers with 302, a redirect to http://127.0.0.1:9/x, which is not followed',
  },
  {
    name: '308 to another place',
    nova: (_, response) => void response.writeHead(308, { Location: '/elsewhere' }).end(),
    kind: 'Configuration',
    outcomeUnknown: false,
    message: 'Nova answered POST /servers with 308, a redirect, which is not followed',
  },
];

test.each(ROWS)('$name is $kind, outcome unknown: $outcomeUnknown', async (row) => {
  cloud.nova = row.nova;
  const error = await failureOf(create());
  expect(error).toMatchObject({ kind: row.kind, retryable: row.kind === 'Unavailable' });
  expect(error.details.outcomeUnknown).toBe(row.outcomeUnknown);
  expect(error.details).toMatchObject(row.details ?? {});
  if (!row.details?.retryAfterMs) expect(error.details).not.toHaveProperty('retryAfterMs');
  if (typeof row.message === 'string') expect(error.message).toBe(row.message);
  else expect(error.message).toMatch(row.message);
});

test.each([
  ['an address where nobody listens', 'http://127.0.0.1:9/v2.1', /refused the connection \(ECONNREFUSED\)/],
  ['a name with nobody listening on any of its addresses', 'http://localhost:9/v2.1', /refused .*\(ECONNREFUSED\)/],
  ['a host that does not exist', 'http://nova.invalid/v2.1', /\((ENOTFOUND|EAI_AGAIN)\)/],
  ['a server that does not speak TLS', '', /does not speak TLS/],
])('%s: nothing was sent', async (_, url, message) => {
  const override = url || `${cloud.url.replace('http', 'https')}/v2.1`;
  const config = loadCloudConfig(cloud.env({ OS_COMPUTE_ENDPOINT_OVERRIDE: override }));
  const lost = createComputeClient(config, { timeoutMs: 5_000 });
  const error = await failureOf(lost.check());
  lost.close();
  expect(error).toMatchObject({ kind: 'Unavailable', details: { outcomeUnknown: false } });
  expect(error.message).toMatch(message);
});

test.each<[string, string, string | undefined, number | undefined]>([
  ['a year', '31536000', undefined, 3_600_000],
  ['a date long ago', 'Sun, 06 Nov 1994 08:49:37 GMT', undefined, 0],
  ['a date far ahead', 'Fri, 31 Dec 2999 23:59:59 GMT', undefined, 3_600_000],
  ['a date of RFC 850', 'Sunday, 06-Nov-94 08:49:39 GMT', 'Sun, 06 Nov 1994 08:49:37 GMT', 2_000],
  ['a date of asctime', 'Sun Nov  6 08:49:39 1994', 'Sun, 06 Nov 1994 08:49:37 GMT', 2_000],
  ['zero', '0', undefined, 0],
  ['a negative number', '-5', undefined, undefined],
  ['rubbish', 'soon 1', undefined, undefined],
  ['a number beyond all bounds', '9'.repeat(400), undefined, 3_600_000],
])('Retry-After: %s', async (_, value, date, expected) => {
  cloud.nova = (__, response) =>
    void response.writeHead(503, { 'Retry-After': value, ...(date && { Date: date }) }).end();
  expect((await failureOf(create())).details.retryAfterMs).toBe(expected);
});

test('a redirect to another host gets neither token nor body', async () => {
  const stranger = await ScriptedCloud.start();
  cloud.nova = (_, response) => void response.writeHead(307, { Location: `${stranger.url}/v2.1/servers` }).end();
  await failureOf(create());
  await failureOf(client.getServer('x'));
  expect(stranger.requests).toEqual([]);
});

test('a next page at another host is asked for at the same one', async () => {
  const stranger = await ScriptedCloud.start();
  const servers_links = [{ rel: 'next', href: `${stranger.url}/v2.1/servers/detail?marker=1` }];
  cloud.nova = ({ path }, response) =>
    path.includes('marker=1')
      ? json(response, 200, { servers: [{ id: '2', status: 'ACTIVE' }] })
      : json(response, 200, { servers: [{ id: '1', status: 'ACTIVE' }], servers_links });
  await expect(client.listServers({ tags: 'a b' })).resolves.toEqual([
    { id: '1', status: 'ACTIVE' },
    { id: '2', status: 'ACTIVE' },
  ]);
  expect(cloud.of('/v2.1/servers').map(({ path }) => path)).toEqual([
    '/v2.1/servers/detail?tags=a+b',
    '/v2.1/servers/detail?tags=a+b&marker=1',
  ]);
  expect(stranger.requests).toEqual([]);
});

test('a list that goes round in circles ends', async () => {
  const servers_links = [{ rel: 'next', href: 'x' }];
  cloud.nova = (_, response) => json(response, 200, { servers: [{ id: '1', status: 'ACTIVE' }], servers_links });
  const error = await failureOf(client.listServers({}));
  expect(error.message).toMatch(/a page that it had given before$/);
  expect(cloud.of('/v2.1/servers')).toHaveLength(2);
});

test.each([[{ servers: [{ id: '1', status: 'ACTIVE' }, { id: '2' }] }], [{ servers: {} }], [{ server: [] }], [[]]])(
  'a list with a gap, %j, is not taken for the whole list',
  async (body) => {
    cloud.nova = (_, response) => json(response, 200, body);
    await expect(failureOf(client.listServers({}))).resolves.toMatchObject({ kind: 'Unavailable' });
  },
);

test.each([
  [{ server: { id: 'x' } }],
  [{ server: { status: 'ACTIVE' } }],
  [{ server: { id: 'x', status: ['ACTIVE'] } }],
  [{ server: 'x' }],
  [{ server: { id: 'y', status: 'ACTIVE' } }],
  ['<html>'],
])('a server without id or status, or another one, %j, is no server', async (body) => {
  cloud.nova = (_, response) => json(response, 200, body);
  await expect(failureOf(client.getServer('x'))).resolves.toMatchObject({
    kind: 'Unavailable',
    message: "Nova answered GET /servers/x with 200, but without a usable 'server'",
    details: { outcomeUnknown: true },
  });
});

test('fields of wrong types are left out, and so are secrets and tracebacks', async () => {
  cloud.nova = (_, response) =>
    json(response, 200, {
      server: {
        id: 'x',
        status: 'ERROR',
        name: 7,
        locked: 'yes',
        tags: ['a', 7],
        metadata: { a: 'b', c: 1 },
        addresses: { net: [{ addr: '10.0.0.1', version: 4 }, 'odd', { addr: 1 }], odd: 7 },
        fault: { code: 500, message: 'No valid host was found. ', details: 'Traceback', created: 'then' },
        adminPass: 'hunter2',
        'OS-EXT-SRV-ATTR:user_data': 'c2VjcmV0',
        'OS-EXT-STS:vm_state': 'error',
        'OS-EXT-STS:task_state': null,
        'OS-EXT-STS:power_state': '1',
      },
    });
  await expect(client.getServer('x')).resolves.toEqual({
    id: 'x',
    status: 'ERROR',
    tags: ['a'],
    metadata: { a: 'b' },
    addresses: { net: [{ addr: '10.0.0.1', version: 4 }], odd: [] },
    fault: { code: 500, message: 'No valid host was found. ', created: 'then' },
    'OS-EXT-STS:vm_state': 'error',
    'OS-EXT-STS:task_state': null,
  });
});

test('what is in a down cell has id and status only', async () => {
  cloud.nova = (_, response) => json(response, 200, { server: { id: 'x', status: 'UNKNOWN', links: [] } });
  await expect(client.getServer('x')).resolves.toEqual({ id: 'x', status: 'UNKNOWN' });
});

test('an answer without end is given up', async () => {
  const patient = createComputeClient(loadCloudConfig(cloud.env()));
  const bomb = gzipSync(Buffer.alloc(80 * 1024 * 1024, ' '));
  cloud.nova = (_, response) => void response.writeHead(200, { 'Content-Encoding': 'gzip' }).end(bomb);
  const error = await failureOf(patient.getServer('x'));
  patient.close();
  expect(error).toMatchObject({ kind: 'Unavailable', details: { outcomeUnknown: true } });
  expect(error.message).toMatch(/answered GET \/servers\/x with more than 67108864 bytes$/);
});

test('a deletion answered with an HTML page has not surely happened', async () => {
  cloud.nova = (_, response) => html(response, 200);
  const error = await failureOf(client.deleteServer('x'));
  expect(error).toMatchObject({ kind: 'Unavailable', details: { outcomeUnknown: true } });
});

test("what Nova repeats of the request is cut out, and the request's secrets are nowhere", async () => {
  const server = {
    ...SERVER,
    user_data: 'I2Nsb3VkLWNvbmZpZw==',
    adminPass: 'it\'s a "p\\ss. word\nü',
    personality: [{ path: '/etc/motd', contents: 'aHVudGVyMg==' }],
  };
  const repr =
    "{'name': 'web', 'user_data': 'I2Nsb3VkLWNvbmZpZw==', 'adminPass': 'it\\'s a \"p\\\\ss. word\\nü', " +
    "'personality': [{'path': '/etc/motd', 'contents': 'aHVudGVyMg=='}]}";
  for (const message of [
    `Invalid input for field/attribute server. Value: ${repr}. 'flavorRef' is a required property`,
    `Invalid input for field/attribute server. Value: ${repr}. ${repr} is not of type 'string'`,
    `${repr} is not valid under any of the given schemas`,
    `Invalid input for field/attribute server. Value: ${repr}`,
    `Invalid input for field/attribute adminPass. Value: ${server.adminPass}. ${JSON.stringify(server.adminPass)} is bad`,
    `bad &quot;I2Nsb3VkLWNvbmZpZw==&quot;`,
    'x'.repeat(990) + server.user_data,
    `${'x'.repeat(2_000_000)}${server.user_data}`,
  ]) {
    cloud.nova = nova(400, message);
    const { message: shown } = await failureOf(client.createServer(server, { tags: [] }));
    expect(shown).not.toMatch(/I2Nsb3|Y29uZm|p\\+ss|word|aHVudGVy/);
    expect(shown.length).toBeLessThan(1_100);
    expect(shown).not.toMatch(/\n/);
  }
  cloud.nova = nova(400, `Invalid input for field/attribute server. Value: ${repr}. 'x' is a required property`);
  expect((await failureOf(client.createServer(server, { tags: [] }))).message).toBe(
    "Nova answered POST /servers with 400: Invalid input for field/attribute server. 'x' is a required property",
  );
});

test("secrets of actions, of the login and the token don't show either", async () => {
  cloud.nova = ({ body, headers }, response) =>
    json(response, 400, { badRequest: { message: `${body} ${String(headers['x-auth-token'])} and abc is abcd` } });
  const error = await failureOf(client.serverAction('x', { rescue: { adminPass: 'abc' } }));
  expect(error.message).toBe(
    'Nova answered POST /servers/x/action with 400: {"rescue":{"adminPass":"***"}} *** and *** is abcd',
  );

  cloud.keystone = ({ body }, response) => json(response, 401, { error: { code: 401, message: body } });
  const refused = createComputeClient(loadCloudConfig(cloud.env()));
  const { message } = await failureOf(refused.check());
  refused.close();
  expect(message).toContain('"password":"***"');
  expect(message).toContain('"name":"demo"');
  expect(message).not.toContain('the-password');
});

test('an abort ends the call with its own reason', async () => {
  cloud.nova = () => undefined;
  const reason = new Error('cancelled by the activity');
  const controller = new AbortController();
  const calls = [
    client.getServer('x', { signal: controller.signal }),
    client.listServers({}, { signal: controller.signal }),
    client.createServer(SERVER, { tags: [], signal: controller.signal }),
    client.deleteServer('x', { signal: controller.signal }),
  ].map((call) => expect(call).rejects.toBe(reason));
  setTimeout(() => controller.abort(reason), 50);
  await Promise.all(calls);
  await expect(client.getServer('x', { signal: controller.signal })).rejects.toBe(reason);
  await expect(client.ownUserId({ signal: AbortSignal.abort(reason) })).resolves.toBe('user-id');
});

test('a closed client ends what is under way, and starts nothing', async () => {
  cloud.nova = () => client.close();
  await expect(failureOf(create())).resolves.toMatchObject({
    message: 'The client for OpenStack is closed',
    details: { outcomeUnknown: true },
  });
  await expect(failureOf(create())).resolves.toMatchObject({ details: { outcomeUnknown: false } });
});

test('requests go out as this program, with the microversion, on a connection that is kept', async () => {
  const sockets = new Set<number | undefined>();
  cloud.nova = (_, response, socket) => {
    sockets.add(socket.remotePort);
    json(response, 200, { server: { id: 'x', status: 'ACTIVE' } });
  };
  await client.getServer('x');
  await client.getServer('x');
  expect(sockets.size).toBe(1);
  expect(cloud.of('/v2.1/servers/x')[0]?.headers).toMatchObject({
    'user-agent': expect.stringMatching(/^temporal-nova\/\d/) as string,
    'openstack-api-version': 'compute 2.93',
    'x-auth-token': 'token-1',
    accept: 'application/json',
  });
});

test('a proxy of the environment is not used for a host in no_proxy', async () => {
  const proxied: string[] = [];
  const proxy = createServer((socket) => socket.once('data', (data) => proxied.push(data.toString())));
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const saved = { ...process.env };
  process.env.http_proxy = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  process.env.no_proxy = '127.0.0.1,localhost';
  try {
    await expect(client.check()).resolves.toBeUndefined();
    expect(proxied).toEqual([]);
  } finally {
    process.env = saved;
    proxy.close();
  }
});

test('tags that are no list are refused before anything is sent', async () => {
  const error = await failureOf(client.createServer({ ...SERVER, tags: 'a' as never }, { tags: ['ours'] }));
  expect(error).toMatchObject({ kind: 'BadRequest', details: { outcomeUnknown: false } });
  expect(cloud.requests).toEqual([]);
});

test.each(['', '.', '..'])('%j is no id of a server', async (id) => {
  await expect(failureOf(client.deleteServer(id))).resolves.toMatchObject({ kind: 'BadRequest' });
  await expect(failureOf(client.getServer(id))).resolves.toMatchObject({ kind: 'BadRequest' });
});

test('an id is one segment of the path, whatever is in it', async () => {
  await failureOf(client.getServer('../flavors?x=1#y'));
  expect(cloud.requests.at(-1)?.path).toBe('/v2.1/servers/..%2Fflavors%3Fx%3D1%23y');
});

test('NovaError says whether repeating may help', () => {
  expect(new NovaError('Unavailable', 'x').retryable).toBe(true);
  expect(new NovaError('Conflict', 'x').retryable).toBe(false);
});
