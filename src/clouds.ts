/** The clouds of one worker: its own, and those that an input can choose by their names. */
import type { MetricMeter } from '@temporalio/common';
import { requestMetrics } from './metrics';
import {
  createComputeClient,
  loadCloudConfig,
  loadNamedCloud,
  NovaError,
  type CloudConfig,
  type ComputeClient,
} from './nova';

/** A cloud: its name in `clouds.yaml`; or `OS_*` settings; or a configuration that `loadCloudConfig` made. */
export type CloudSource = string | Record<string, string | undefined> | CloudConfig;

export interface CloudConfigs {
  own: CloudConfig;
  /** By the names that inputs have; the worker's own too, where it has one. */
  named: Record<string, CloudConfig>;
}

/**
 * @param own default: what `env` says
 * @param others by the names that inputs will have
 * @throws NovaError `Configuration`; about one of the others, the message begins with its name
 */
export function loadClouds(
  own: CloudSource | undefined,
  others: Record<string, CloudSource>,
  env: NodeJS.ProcessEnv = process.env,
): CloudConfigs {
  // What OS_* variables say is about the worker's own cloud.
  const settings = typeof own === 'string' ? { ...env, OS_CLOUD: own } : (own ?? env);
  const config = isCloudConfig(settings) ? settings : loadCloudConfig(settings);
  const ownName = isCloudConfig(settings) ? undefined : settings.OS_CLOUD;
  const named = Object.entries(others).map(([name, source]) => [
    name,
    source === ownName ? config : loadOther(name, source, env),
  ]);
  return { own: config, named: { ...(ownName && { [ownName]: config }), ...Object.fromEntries(named) } };
}

function loadOther(name: string, source: CloudSource, env: NodeJS.ProcessEnv): CloudConfig {
  try {
    if (typeof source === 'string') return loadNamedCloud(source, env);
    return isCloudConfig(source) ? source : loadCloudConfig(source);
  } catch (error) {
    if (!(error instanceof NovaError)) throw error;
    throw new NovaError(error.kind, `cloud "${name}": ${error.message}`, error.details);
  }
}

function isCloudConfig(source: object): source is CloudConfig {
  return 'auth' in source && typeof source.auth === 'object';
}

/** One client for each cloud, under as many names as it has. */
export interface CloudClients {
  compute: ComputeClient;
  clouds: Record<string, ComputeClient>;
  close(): void;
}

/** @param meter counts the requests, by cloud */
export function createCloudClients({ own, named }: CloudConfigs, meter: MetricMeter): CloudClients {
  const compute = createComputeClient(own, { onRequest: requestMetrics(meter) });
  const clouds = Object.fromEntries(
    Object.entries(named).map(([name, config]) => [
      name,
      config === own ? compute : createComputeClient(config, { onRequest: requestMetrics(meter, name) }),
    ]),
  );
  const close = () => {
    for (const client of new Set([compute, ...Object.values(clouds)])) client.close();
  };
  return { compute, clouds, close };
}
