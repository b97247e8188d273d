/**
 * The worker process: `node lib/worker.js` polls until SIGINT or SIGTERM, then drains and exits 0. What it needs comes
 * from the environment, see the README.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { WorkerDeploymentVersion } from '@temporalio/common';
import { loadClientConnectConfig } from '@temporalio/envconfig';
import {
  NativeConnection,
  Runtime,
  TransportError,
  Worker,
  type NativeConnectionOptions,
  type TelemetryOptions,
  type WorkerOptions,
} from '@temporalio/worker';
import { createNovaActivities } from './activities';
import { DEFAULT_TASK_QUEUE } from './client';
import { createCloudClients, loadClouds, type CloudClients, type CloudConfigs } from './clouds';
import { dataConverter, loadCodecKeys, type CodecKey } from './codec';
import { createLogger, toTemporalLogger, type Logger } from './logger';
import { HISTOGRAM_BUCKETS } from './metrics';
import { NovaError, type ComputeClient } from './nova';
import { PREBUILT_BUNDLE, PREBUILT_BUNDLE_WITH_ENCODED_FAILURES, WORKER_DEFAULTS } from './worker-defaults';

export interface NovaWorkerOptions {
  connection: NativeConnection;
  namespace: string;
  taskQueue: string;
  /** The worker's own cloud: of inputs without `cloud`. */
  compute: ComputeClient;
  /** Those that inputs can name as `cloud`. Default: none. */
  clouds?: Readonly<Record<string, ComputeClient>>;
  /** Aborted when the shutdown begins, so that watches are given up for another worker. */
  shutdownSignal: AbortSignal;
  /**
   * Where workflow code comes from; default: the bundle that was built with this package. A bundle of your own, with
   * `codecKeys`, is made with the `failureConverterPath` of `dataConverter(codecKeys)`.
   */
  workflows?: Pick<WorkerOptions, 'workflowBundle' | 'workflowsPath'>;
  /** How Temporal names this worker; default: process id and host name. */
  identity?: string;
  /**
   * The version of a worker deployment that this worker is one of (Worker Versioning): workflows that began on it end on
   * it. Default: none, so workflows go on with whatever worker takes them.
   */
  version?: WorkerDeploymentVersion;
  /** Encrypt what Temporal stores, see `loadCodecKeys`. Default: none, so nothing is encrypted. */
  codecKeys?: readonly CodecKey[];
}

/** A worker for this package's workflows and activities, with settings for hundreds of waiting servers. */
export function createNovaWorker(options: NovaWorkerOptions): Promise<Worker> {
  const { connection, namespace, taskQueue, identity, version, codecKeys = [] } = options;
  const { compute, clouds, shutdownSignal } = options;
  return Worker.create({
    ...(identity !== undefined && { identity }),
    // The workflows themselves leave it open, so that a worker that hosts them beside its own decides for all of them.
    ...(version && {
      workerDeploymentOptions: { version, useWorkerVersioning: true, defaultVersioningBehavior: 'PINNED' },
    }),
    connection,
    namespace,
    taskQueue,
    ...(options.workflows ?? {
      workflowBundle: codecKeys.length > 0 ? PREBUILT_BUNDLE_WITH_ENCODED_FAILURES : PREBUILT_BUNDLE,
    }),
    dataConverter: dataConverter(codecKeys),
    activities: createNovaActivities({ compute, clouds, shutdownSignal }),
    ...WORKER_DEFAULTS,
    // Else a heartbeat goes out each minute, however long its timeout.
    maxHeartbeatThrottleInterval: '4m',
    maxConcurrentWorkflowTaskExecutions: 100,
    workflowTaskPollerBehavior: { type: 'autoscaling', minimum: 2, initial: 5, maximum: 20 },
    activityTaskPollerBehavior: { type: 'autoscaling', minimum: 2, initial: 5, maximum: 20 },
  });
}

/** Ends a process with one clear line instead of a stack trace. */
class BadConfiguration extends Error {}

interface WorkerConfig {
  connectionOptions: NativeConnectionOptions;
  namespace: string;
  taskQueue: string;
  metricsAddress: string | undefined;
  version: WorkerDeploymentVersion | undefined;
  codecKeys: CodecKey[];
  /** Names in `clouds.yaml` of the clouds beside the worker's own. */
  clouds: string[];
}

function loadWorkerConfig(env: NodeJS.ProcessEnv): WorkerConfig {
  try {
    const { connectionOptions, namespace } = loadClientConnectConfig({
      overrideEnvVars: env as Record<string, string>,
    });
    return {
      connectionOptions: connectionOptions as NativeConnectionOptions,
      namespace: namespace ?? 'default',
      taskQueue: env.TEMPORAL_TASK_QUEUE || DEFAULT_TASK_QUEUE,
      metricsAddress: checkMetricsAddress(env.TEMPORAL_METRICS_ADDRESS),
      version: loadVersion(env),
      codecKeys: loadCodecKeys(env),
      clouds: loadCloudNames(env),
    };
  } catch (error) {
    if (error instanceof BadConfiguration) throw error;
    throw new BadConfiguration(`The Temporal configuration is wrong: ${messageOf(error)}`);
  }
}

function loadCloudNames({ TEMPORAL_NOVA_CLOUDS: value }: NodeJS.ProcessEnv): string[] {
  const names = (value || '').split(',').map((name) => name.trim());
  if (value && names.includes('')) {
    throw new BadConfiguration(
      `TEMPORAL_NOVA_CLOUDS must be names of clouds in clouds.yaml with a comma between each two, not "${value}"`,
    );
  }
  return value ? names : [];
}

/** '9464' and ':9464' listen on loopback; another host has to be named. */
function checkMetricsAddress(value: string | undefined): string | undefined {
  if (!value) return undefined;
  const match = /^(?:(?<host>\[[0-9a-fA-F:]+\]|[\w.-]+):|:)?(?<port>\d{1,5})$/.exec(value);
  if (!match?.groups || Number(match.groups.port) > 65_535) {
    throw new BadConfiguration(`TEMPORAL_METRICS_ADDRESS must be host:port or a port, not "${value}"`);
  }
  const { host = '127.0.0.1', port } = match.groups;
  return `${host === 'localhost' ? '127.0.0.1' : host}:${port}`;
}

const DEFAULT_DEPLOYMENT = 'temporal-nova';

/**
 * The variables that Temporal's worker controller for Kubernetes sets. Temporal would refuse a bad name too, but only
 * one poll after the other, in the log (temporal/service/worker/workerdeployment/util.go, `validateVersionWfParams`).
 */
function loadVersion(env: NodeJS.ProcessEnv): WorkerDeploymentVersion | undefined {
  const { TEMPORAL_WORKER_BUILD_ID: buildId, TEMPORAL_DEPLOYMENT_NAME: deploymentName } = env;
  if (!buildId) {
    if (!deploymentName) return undefined;
    throw new BadConfiguration(
      `TEMPORAL_DEPLOYMENT_NAME is "${deploymentName}", but TEMPORAL_WORKER_BUILD_ID is not set: a version needs both`,
    );
  }
  const name = deploymentName || DEFAULT_DEPLOYMENT;
  const rule = 'at most 255 characters, without spaces, not beginning with "__"';
  if (!/^(?!__)\S{1,255}$/.test(buildId)) {
    throw new BadConfiguration(`TEMPORAL_WORKER_BUILD_ID must be ${rule}, not "${buildId}"`);
  }
  if (!/^(?!__)[^\s.:]{1,255}$/.test(name)) {
    throw new BadConfiguration(`TEMPORAL_DEPLOYMENT_NAME must be ${rule}, without "." and ":", not "${name}"`);
  }
  return { deploymentName: name, buildId };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error);
}

const RETRY_EVERY = 2_000;
/** How long the start waits for Keystone and Nova before it polls without having heard from them. */
const CHECK_FOR = 5_000;

/** All at once; rejects for the first that is refused. */
async function checkClouds({ compute, clouds }: CloudClients, logger: Logger, signal: AbortSignal): Promise<void> {
  const others = Object.entries(clouds).filter(([, client]) => client !== compute);
  await Promise.all([
    checkCloud(compute, undefined, logger, signal),
    ...others.map(([name, client]) => checkCloud(client, name, logger, signal)),
  ]);
}

/**
 * Logs in, negotiates the microversion; keeps trying while Keystone or Nova is down. Rejects with BadConfiguration.
 *
 * @param cloud its name; undefined for the worker's own
 */
async function checkCloud(
  compute: ComputeClient,
  cloud: string | undefined,
  logger: Logger,
  signal: AbortSignal,
): Promise<void> {
  const of = cloud === undefined ? '' : ` of cloud "${cloud}"`;
  for (let attempt = 1; !signal.aborted; attempt++) {
    try {
      await compute.check({ signal });
      logger.info({ cloud, microversion: await compute.microversion({ signal }) }, `logged in to OpenStack${of}`);
      return;
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof NovaError)) throw error;
      if (!error.retryable)
        throw new BadConfiguration(cloud === undefined ? error.message : `cloud "${cloud}": ${error.message}`);
      logger.warn({ cloud, attempt }, `OpenStack${of} can't be reached, trying again: ${error.message}`);
      await delay(RETRY_EVERY, undefined, { signal }).catch(() => undefined);
    }
  }
}

/** Connects to Temporal, or registers there; keeps trying while it is down. Undefined once `signal` is aborted. */
async function reach<T>(
  config: WorkerConfig,
  logger: Logger,
  signal: AbortSignal,
  attempt: () => Promise<T>,
): Promise<T | undefined> {
  const address = config.connectionOptions.address ?? 'localhost:7233';
  while (!signal.aborted) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof TransportError)) throw error;
      const words = statusWords(error);
      if (isRefusal(words)) throw new BadConfiguration(`Temporal at ${address} refused: ${words}`);
      logger.warn(`Temporal at ${address} can't be reached, trying again: ${words}`);
      await delay(RETRY_EVERY, undefined, { signal }).catch(() => undefined);
    }
  }
  return undefined;
}

/** The SDK's message can hold a whole gRPC status; a person wants the words in it. */
function statusWords(error: Error): string {
  const [, words] = /message: "((?:[^"\\\\]|\\\\.)*)"/.exec(error.message) ?? [];
  return words || messageOf(error);
}

/** What waiting won't change: a refused key or certificate, a namespace that is not there, an address that is none. */
function isRefusal(words: string): boolean {
  return /unauthenticated|unauthorized|permission.?denied|invalid (uri|url|certificate)|InvalidUri|not found|RelativeUrl/i.test(
    words,
  );
}

function telemetryOptions({ metricsAddress }: WorkerConfig): TelemetryOptions {
  if (metricsAddress === undefined) return {};
  return {
    metrics: { prometheus: { bindAddress: metricsAddress, histogramBucketOverrides: { ...HISTOGRAM_BUCKETS } } },
  };
}

function warnOfInsecure({ own, named }: CloudConfigs, logger: Logger): void {
  const verified = 'TLS certificates of OpenStack are not verified';
  if (own.insecure) logger.warn(`OS_INSECURE is set: ${verified}`);
  for (const [cloud, config] of Object.entries(named)) {
    if (config.insecure && config !== own) logger.warn({ cloud }, `cloud "${cloud}" is set so: ${verified}`);
  }
}

/** Runs a worker until `signal` is aborted. Rejects with one clear message when the configuration is wrong. */
export async function runWorker(env: NodeJS.ProcessEnv, logger: Logger, signal: AbortSignal): Promise<void> {
  const config = loadWorkerConfig(env);
  const { clouds } = config;
  const configs = loadClouds(undefined, Object.fromEntries(clouds.map((name) => [name, name])), env);
  warnOfInsecure(configs, logger);
  Runtime.install({
    logger: toTemporalLogger(logger),
    shutdownSignals: [],
    telemetryOptions: telemetryOptions(config),
  });
  const clients = createCloudClients(configs, Runtime.instance().metricMeter);

  const stop = new AbortController();
  const stopSignal = AbortSignal.any([signal, stop.signal]);
  let refused: unknown;
  const checked = checkClouds(clients, logger, stopSignal).catch((error: unknown) => {
    refused = error;
    stop.abort();
  });
  await Promise.race([checked, delay(CHECK_FOR)]);

  const connection = await reach(config, logger, stopSignal, () => NativeConnection.connect(config.connectionOptions));
  try {
    if (connection && !stopSignal.aborted) await poll(config, connection, clients, logger, stopSignal);
  } finally {
    stop.abort();
    await checked;
    clients.close();
    await connection?.close();
  }
  if (refused) throw refused;
}

async function poll(
  config: WorkerConfig,
  connection: NativeConnection,
  { compute, clouds }: CloudClients,
  logger: Logger,
  signal: AbortSignal,
): Promise<void> {
  const { namespace, taskQueue, connectionOptions, version, codecKeys } = config;
  const worker = await reach(config, logger, signal, () =>
    createNovaWorker({ connection, namespace, taskQueue, compute, clouds, shutdownSignal: signal, version, codecKeys }),
  );
  if (!worker) return;
  const running = worker.run();
  const shutdown = () => worker.getState() === 'RUNNING' && worker.shutdown();
  signal.addEventListener('abort', shutdown, { once: true });
  if (signal.aborted) shutdown();
  logger.info(
    { namespace, taskQueue, address: connectionOptions.address ?? 'localhost:7233', ...version },
    `polling task queue "${taskQueue}"${version ? ` as ${version.deploymentName} version ${version.buildId}` : ''}`,
  );
  await running;
  logger.info('drained, all polling has ended');
}

/**
 * The whole worker process, its log and its signals included: until SIGINT or SIGTERM.
 *
 * @returns the exit code; whatever still holds the process open then has nothing left to do
 */
export async function workerProcess(env: NodeJS.ProcessEnv = process.env): Promise<number> {
  const logger = createLogger();
  const controller = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => controller.abort());
  }
  try {
    await runWorker(env, logger, controller.signal);
    return 0;
  } catch (error) {
    const expected = error instanceof BadConfiguration || error instanceof NovaError;
    logger.fatal(expected ? {} : { err: error }, `the worker can't run: ${messageOf(error)}`);
    return 1;
  }
}

if (require.main === module) void workerProcess().then((exitCode) => process.exit(exitCode));
