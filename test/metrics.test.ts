/** A worker process is scraped after a creation, a failed one, a wait and a recovery. */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { startCreateServer, startRecoverInstance } from '../src/client';
import { SimulatedCloud } from '../src/simulator';
import { eventually, FAST, serverIdOf } from './support/bed';
import { connect, uniqueTaskQueue, type TestTemporal } from './support/temporal';
import { WorkerProcess } from './support/worker-process';

interface Series {
  name: string;
  labels: Record<string, string>;
  value: number;
}

interface Dashboard {
  panels: { title: string; targets: { expr: string; legendFormat: string }[] }[];
  templating: { list: { name: string; query: string }[] };
}

const dashboard = JSON.parse(
  readFileSync(path.join(__dirname, '../dashboards/temporal-nova.json'), 'utf8'),
) as Dashboard;

const taskQueue = uniqueTaskQueue();
let temporal: TestTemporal;
let cloud: SimulatedCloud;
let worker: WorkerProcess;
let port: number;
let series: Series[];
let serverId: string;

beforeAll(async () => {
  temporal = await connect();
  cloud = await SimulatedCloud.start({ buildSeconds: 0.3 });
  port = await freePort();
  worker = await WorkerProcess.polling({
    ...cloud.env(),
    TEMPORAL_ADDRESS: temporal.address,
    TEMPORAL_NAMESPACE: temporal.namespace,
    TEMPORAL_TASK_QUEUE: taskQueue,
    TEMPORAL_METRICS_ADDRESS: String(port),
  });

  ({ serverId } = await (await create('made')).result());
  await (await startRecoverInstance(temporal.client, { instanceId: serverId, polling: FAST }, { taskQueue })).result();
  cloud.setQuota(1);
  await (await create('refused')).result().catch(() => undefined);
  cloud.setQuota(undefined);
  cloud.setTimes({ buildSeconds: Infinity });
  const headers = { 'X-Openstack-Request-Id': `req-${serverId}` };
  const answer = { status: 503, headers };
  const outage = cloud.inject({ method: 'GET', path: /\/servers\/[0-9a-f-]+$/, times: 2, answer });
  const waiting = await create('waiting');
  await serverIdOf(waiting);
  await eventually(() => outage.hits === 2);
  series = await eventually(async () => {
    const found = parse(await scrape());
    return valueOf(found, 'temporal_nova_waits', { status: 'BUILD' }) === 1 && found;
  });
  await waiting.terminate();
});
afterAll(async () => {
  await worker.end();
  await cloud.stop();
  await temporal.close();
});

function create(name: string) {
  const { flavorId, imageId } = cloud;
  return startCreateServer(
    temporal.client,
    { server: { name, flavorRef: flavorId, imageRef: imageId, networks: 'none' }, polling: FAST },
    { workflowId: `${name}-${taskQueue}`, taskQueue },
  );
}

async function freePort(): Promise<number> {
  const holder = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => holder.once('listening', resolve));
  const { port: free } = holder.address() as AddressInfo;
  await new Promise((resolve) => holder.close(resolve));
  return free;
}

async function scrape(): Promise<string> {
  return (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
}

/** Prometheus' text format. */
function parse(text: string): Series[] {
  return [...text.matchAll(/^(\w+)(?:\{(.*)\})? (\S+)$/gm)].map(([, name = '', labels = '', value]) => ({
    name,
    labels: Object.fromEntries([...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, key = '', word = '']) => [key, word])),
    value: Number(value),
  }));
}

/** The sum of the series with these labels; undefined without one. */
function valueOf(of: Series[], name: string, labels: Record<string, string>): number | undefined {
  const found = of.filter(
    (one) => one.name === name && Object.entries(labels).every(([key, value]) => one.labels[key] === value),
  );
  return found.length === 0 ? undefined : found.reduce((sum, { value }) => sum + value, 0);
}

test.each<[string, Record<string, string>, number]>([
  ['temporal_nova_creations_total', { outcome: 'active', failure_type: 'none' }, 1],
  ['temporal_nova_creations_total', { outcome: 'failed', failure_type: 'QuotaExceeded' }, 1],
  ['temporal_nova_time_to_active_seconds_count', { workflowType: 'CreateServerWorkflow' }, 1],
  ['temporal_nova_recoveries_total', { outcome: 'recovered', reason: 'instance-failure', failure_type: 'none' }, 1],
  ['temporal_nova_waits', { status: 'BUILD', cloud: 'default' }, 1],
  ['temporal_nova_waits', { status: 'ACTIVE', cloud: 'default' }, 0],
  ['temporal_nova_retries_total', { code: '503', cloud: 'default' }, 1],
  ['temporal_nova_request_duration_seconds_count', { method: 'POST', route: '/servers', code: '202' }, 2],
  ['temporal_nova_request_duration_seconds_count', { method: 'POST', route: '/servers', code: '403' }, 1],
  ['temporal_nova_request_duration_seconds_count', { method: 'GET', route: '/servers/{server_id}', code: '503' }, 2],
  ['temporal_nova_request_duration_seconds_count', { route: '/servers/{server_id}/action', code: '202' }, 2],
  ['temporal_nova_request_duration_seconds_count', { route: '/servers/{server_id}/os-instance-actions' }, 1],
  ['temporal_nova_request_duration_seconds_count', { service: 'Keystone', route: '/v3/auth/tokens', code: '201' }, 1],
])('%s %j is %d', (name, labels, value) => {
  expect(valueOf(series, name, labels)).toBe(value);
});

test('durations are in seconds, and the buckets are made for them', () => {
  const active = valueOf(series, 'temporal_nova_time_to_active_seconds_sum', {});
  expect(active).toBeGreaterThan(0.3);
  expect(active).toBeLessThan(30);
  expect(valueOf(series, 'temporal_nova_time_to_active_seconds_bucket', { le: '3600' })).toBe(1);
  expect(valueOf(series, 'temporal_nova_request_duration_seconds_bucket', { le: '0.025' })).toBeGreaterThan(0);
});

test('no label is one server’s or one workflow’s', () => {
  const words = series.flatMap(({ name, labels }) => (name.startsWith('temporal_nova') ? Object.values(labels) : []));
  expect(words.filter((word) => word.includes(serverId) || /^(made|refused|waiting)-/.test(word))).toEqual([]);
});

describe('what the dashboard asks for is in the scrape', () => {
  const targets = dashboard.panels.flatMap(({ title, targets }) => targets.map((target) => ({ title, ...target })));

  /** `metric{label="…"}`, and the labels of `by (…)`, which all metrics of an expression must have. */
  function asked(expr: string): { metric: string; labels: string[] }[] {
    const by = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, names = '']) => names.split(', '));
    return [...expr.matchAll(/\b(temporal_\w+)(?:\{([^}]*)\})?/g)].map(([, metric = '', selector = '']) => ({
      metric,
      labels: [...by, ...[...selector.matchAll(/(\w+)=/g)].map(([, label = '']) => label)],
    }));
  }

  test.each(targets)('$title: $expr', ({ expr, legendFormat }) => {
    const metrics = asked(expr);
    expect(metrics.length).toBeGreaterThan(0);
    const shown = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label]) => label);
    for (const { metric, labels } of metrics) {
      const found = series.filter(({ name }) => name === metric);
      expect([metric, found.length]).not.toEqual([metric, 0]);
      for (const label of [...labels, ...shown]) {
        expect([metric, label, found.some(({ labels: has }) => label !== undefined && label in has)]).toEqual([
          metric,
          label,
          true,
        ]);
      }
    }
  });

  test.each(dashboard.templating.list.filter(({ query }) => query.startsWith('label_values')))(
    'variable $name: $query',
    ({ query }) => {
      const [, metric = '', label = ''] = /^label_values\((\w+), (\w+)\)$/.exec(query) ?? [];
      expect(series.some(({ name, labels }) => name === metric && label in labels)).toBe(true);
    },
  );
});

describe('its log', () => {
  const line = (words: string): unknown =>
    JSON.parse(worker.output.split('\n').find((text) => text.includes(words)) ?? '{}');
  const id = expect.stringMatching(/^[0-9a-f-]{36}$/) as string;
  const requestId = expect.stringMatching(/^req-[0-9a-f-]{36}$/) as string;

  test.each([
    ['what Nova took', 'Nova took POST /servers'],
    ['what Nova did to a server', 'Nova took stop'],
    ['an activity that failed', '"httpStatus":503'],
  ])('%s carries the ids of the workflow, of the server and of Nova’s request', (_, words) => {
    expect(line(words)).toMatchObject({ workflowId: expect.any(String) as string, serverId: id, requestId });
  });

  test('a workflow that ended: which server, and how', () => {
    expect(line('"status":"ACTIVE","msg":"Ended"')).toMatchObject({ serverId });
    expect(line('"failureType":"QuotaExceeded"')).toMatchObject({ requestId });
  });

  test('no task token', () => {
    expect(worker.output).not.toContain('taskToken');
  });
});
