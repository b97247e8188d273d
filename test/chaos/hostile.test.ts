/**
 * A Nova whose answers nobody expects, through whole workflows: a creation ends ACTIVE or with a failure that it
 * promises, with one server, a small history and no failing workflow task. And answers without end, which must not
 * take the worker's memory.
 */
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { startRecoverInstance } from '../../src/client';
import { createComputeClient, loadCloudConfig, NovaError } from '../../src/nova';
import { hostileText, like, runs } from '../support/property';
import type { FaultHandle } from '../../src/simulator';
import { eventually, FAST, serverIdOf, TestBed } from '../support/bed';
import { expectSound, outcome } from '../support/soundness';

let bed: TestBed;
beforeAll(async () => {
  bed = await TestBed.make();
});
afterAll(() => bed?.stop());

const BUILD = {
  name: 'web-1',
  status: 'BUILD',
  user_id: 'u',
  tenant_id: 'p',
  created: '2026-11-30T12:00:00Z',
  updated: '2026-11-30T12:00:00Z',
  addresses: { private: [{ addr: '10.0.0.1', version: 4 }] },
  fault: { code: 500, message: 'No valid host was found. ', created: '2026-11-30T12:00:00Z' },
  metadata: { HA_Enabled: 'True' },
  tags: [],
  locked: false,
  'OS-EXT-STS:vm_state': 'building',
  'OS-EXT-STS:task_state': 'spawning',
  'OS-EXT-STS:power_state': 0,
  'OS-EXT-SRV-ATTR:host': 'compute1',
};
const ACTIVE = { status: 'ACTIVE', 'OS-EXT-STS:vm_state': 'active', 'OS-EXT-STS:task_state': null };

describe('answers', () => {
  afterEach(() => bed.cloud.clearFaults());

  /** A creation whose server is being built until it is told that it is ready. */
  async function creation() {
    const handle = await bed.create({
      server: bed.server({ metadata: { anchor_spawn_seconds: '600' } }),
      timeout: '60s',
    });
    return { handle, id: await serverIdOf(handle) };
  }

  /** One GET of the server is answered so. */
  function answer(id: string, body: string): FaultHandle {
    return bed.cloud.inject({
      method: 'GET',
      path: new RegExp(`^/compute/v2\\.1/servers/${id}$`),
      answer: { status: 200, body },
    });
  }
  async function given(...answers: FaultHandle[]): Promise<void> {
    await eventually(() => answers.every(({ remaining }) => remaining === 0));
  }
  async function ready(id: string, handle: { signal(name: string): Promise<void> }): Promise<void> {
    bed.cloud.finishBuild(id);
    await handle.signal('wake').catch(() => undefined); // it may have ended
  }

  const MB = 1_000_000;
  const HUGE: [string, Record<string, unknown>][] = [
    ['addresses of 5 MB', { addresses: { ['x'.repeat(5 * MB)]: [] } }],
    ['10,000 addresses', { addresses: { net: Array(10_000).fill({ addr: '10.0.0.1', version: 4 }) } }],
    ['a name of 1 MB', { name: 'x'.repeat(MB) }],
    ['a fault of 3 MB', { fault: { code: 500, message: 'x'.repeat(3 * MB), created: 'y'.repeat(MB) } }],
    ['a vm_state of 1 MB', { 'OS-EXT-STS:vm_state': 'x'.repeat(MB) }],
    ['a task_state that is an object', { 'OS-EXT-STS:task_state': { a: 1 } }],
    ['a host of 1 MB', { 'OS-EXT-SRV-ATTR:host': '😀'.repeat(MB / 4) }],
    ['metadata of 1 MB', { metadata: Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [`k${i}`, 'v'])) }],
    ['tags of 3 MB', { tags: Array(300_000).fill('tag') }],
    ['a project of 1 MB', { tenant_id: 'x'.repeat(MB), user_id: 'x'.repeat(MB), updated: 'x'.repeat(MB) }],
  ];

  test.each(HUGE)('%s: the history does not grow', async (_, more) => {
    const { handle, id } = await creation();
    const body = JSON.stringify({ server: { ...BUILD, id, ...more } });
    await given(answer(id, body), answer(id, body), answer(id, body));
    await ready(id, handle);
    expect(await outcome(handle)).toBe('ok');
    await expectSound(handle, 60_000);

    answer(id, JSON.stringify({ server: { ...BUILD, id, ...ACTIVE, ...more } }));
    const input = { instanceId: id, dryRun: true, polling: FAST, timeouts: { task: '3s' } as const };
    const recovery = await startRecoverInstance(bed.client, input, { taskQueue: bed.taskQueue });
    expect(['ok', 'UnknownServerStatus']).toContain(await outcome(recovery));
    await expectSound(recovery, 300_000);
  });

  test('a status of 1 MB, ACTIVE with all of it, and an ERROR with all of it', async () => {
    const all = Object.assign({}, ...HUGE.map(([, more]) => more)) as Record<string, unknown>;
    for (const [status, expected] of [
      ['('.repeat(MB), 'UnknownServerStatus'],
      ['ß'.repeat(MB), 'UnknownServerStatus'],
      ['ACTIVE', 'ok'],
      ['ERROR', 'ServerInError'],
    ]) {
      const { handle, id } = await creation();
      answer(id, JSON.stringify({ server: { ...BUILD, ...all, id, status } }));
      expect(await outcome(handle)).toBe(expected);
      await expectSound(handle, 60_000);
    }
  });

  /** What a list of changed servers says, too: where many wait, they share one. */
  const answers = fc.record({
    gets: fc.array(like({ server: BUILD }), { minLength: 2, maxLength: 2 }),
    lists: fc.array(like({ servers: [BUILD, { ...BUILD, ...ACTIVE }] }), { minLength: 1, maxLength: 1 }),
  });

  test('answers that nobody expects: one server each, ACTIVE or a failure as promised', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(answers, { minLength: 10, maxLength: 10, size: 'max' }), async (all) => {
        const before = bed.cloud.servers().length;
        const ends = all.map(async ({ gets, lists }) => {
          const { handle, id } = await creation();
          for (const body of gets) answer(id, withId(body, id));
          for (const body of lists) {
            bed.cloud.inject({ path: /servers\/detail\?/, answer: { status: 200, body: withId(body, id) } });
          }
          await delay(3_000);
          await ready(id, handle);
          expect(['ok', 'UnknownServerStatus', 'ServerInError']).toContain(await outcome(handle, 60_000));
          await expectSound(handle);
        });
        await Promise.all(ends);
        expect(bed.cloud.servers().length - before).toBe(10);
        bed.cloud.clearFaults();
      }),
      { numRuns: runs(3), endOnFailure: true },
    );
  });

  /** The document with the server's id in it, where it still has a place for one. */
  function withId(document: unknown, id: string): string {
    return hostileText(document).replaceAll('"name":"web-1"', `"name":"web-1","id":"${id}"`);
  }
});

describe('answers without end', () => {
  const CHUNK = Buffer.alloc(64 * 1024, ' ');
  /** 256 MB of spaces in 260 kB. */
  const BOMB = gzipSync(Buffer.alloc(256 * 1024 * 1024, ' '));

  function pour(chunk: Buffer, headers: Record<string, string>, status = 200): RequestListener {
    return (_, response) => {
      response.writeHead(status, headers);
      const more = (): void => {
        while (!response.destroyed && response.write(chunk));
      };
      response.on('drain', more);
      more();
    };
  }

  test.each<[string, RequestListener, RegExp]>([
    ['text', pour(CHUNK, {}), /with more than 67108864 bytes/],
    ['text, with a length', pour(CHUNK, { 'Content-Length': '999999999999' }), /with more than 67108864 bytes/],
    [
      'gzip',
      (_, response) => void response.writeHead(200, { 'Content-Encoding': 'gzip' }).end(BOMB),
      /with more than 67108864 bytes/,
    ],
    ['gzips one after the other', pour(BOMB, { 'Content-Encoding': 'gzip' }), /with more than 67108864 bytes|broke/],
    ['a redirect', pour(CHUNK, { Location: '/x' }, 302), /with more than 67108864 bytes/],
  ])('%s', async (_, listener, message) => {
    const server = createServer(listener);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const env = bed.cloud.env('demo');
    env.OS_AUTH_URL = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const client = createComputeClient(loadCloudConfig(env));
    global.gc?.();
    const before = memory();
    let most = 0;
    const timer = setInterval(() => (most = Math.max(most, memory() - before)), 5);
    try {
      await expect(client.check()).rejects.toThrow(NovaError);
      await expect(client.check()).rejects.toThrow(message);
    } finally {
      clearInterval(timer);
      client.close();
      server.closeAllConnections();
      server.close();
    }
    // Twice what is allowed: as it came, and put together.
    expect(most / 1024 / 1024).toBeLessThan(350);
  });

  function memory(): number {
    const { arrayBuffers, heapUsed } = process.memoryUsage();
    return arrayBuffers + heapUsed;
  }
});
