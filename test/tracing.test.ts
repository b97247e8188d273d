/** What docs/observability.md says of OpenTelemetry: one trace from the caller to the request's activity. */
import { Resource } from '@opentelemetry/resources';
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';
import { Client } from '@temporalio/client';
import { OpenTelemetryPlugin } from '@temporalio/interceptors-opentelemetry';
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker';
import type * as Package from '../src';
import { startCreateServer } from '../src/client';
import { SimulatedCloud } from '../src/simulator';
import { connect, uniqueTaskQueue } from './support/temporal';

// As it is published: `npm test` builds it first.
// eslint-disable-next-line @typescript-eslint/no-require-imports
const { NovaPlugin } = require('../lib') as typeof Package;

test('start, workflow and activities are one trace, from the span that the caller is in', async () => {
  Runtime.install({ logger: new DefaultLogger('ERROR') });
  const exporter = new InMemorySpanExporter();
  const resource = new Resource({ 'service.name': 'orders' });
  const spanProcessor = new SimpleSpanProcessor(exporter);
  const provider = new NodeTracerProvider({ resource, spanProcessors: [spanProcessor] });
  provider.register();
  const tracing = new OpenTelemetryPlugin({ resource, spanProcessor });

  const temporal = await connect();
  const cloud = await SimulatedCloud.start({ buildSeconds: 0.2 });
  const taskQueue = uniqueTaskQueue();
  const { nativeConnection: connection, namespace } = temporal;
  const client = new Client({ connection: temporal.client.connection, namespace, plugins: [tracing] });
  const worker = await Worker.create({
    plugins: [tracing, new NovaPlugin({ cloud: cloud.env() })],
    workflowsPath: require.resolve('../lib/workflows'),
    connection,
    namespace,
    taskQueue,
  });
  try {
    await worker.runUntil(
      provider.getTracer('orders').startActiveSpan('order', async (span) => {
        const { flavorId, imageId } = cloud;
        const server = { name: 'web-1', flavorRef: flavorId, imageRef: imageId, networks: 'none' as const };
        const handle = await startCreateServer(client, { server }, { workflowId: `traced-${taskQueue}`, taskQueue });
        await handle.result();
        span.end();
      }),
    );
  } finally {
    await cloud.stop();
    await temporal.close();
  }

  const spans = exporter.getFinishedSpans();
  const one = (name: string) => spans.find((span) => span.name === name);
  const parentOf = (name: string) => spans.find((span) => span.spanContext().spanId === one(name)?.parentSpanId)?.name;
  expect(parentOf('StartWorkflow:CreateServerWorkflow')).toBe('order');
  expect(parentOf('RunWorkflow:CreateServerWorkflow')).toBe('StartWorkflow:CreateServerWorkflow');
  expect(parentOf('StartActivity:novaCreateServer')).toBe('RunWorkflow:CreateServerWorkflow');
  expect(parentOf('RunActivity:novaCreateServer')).toBe('StartActivity:novaCreateServer');
  expect(new Set(spans.map((span) => span.spanContext().traceId)).size).toBe(1);
});
