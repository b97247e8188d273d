/** These workflows and activities in a worker of somebody else's, beside its own. */
import path from 'node:path';
import { SimplePlugin } from '@temporalio/plugin';
import {
  Runtime,
  type BundleOptions,
  type ReplayWorkerOptions,
  type Worker,
  type WorkerOptions,
} from '@temporalio/worker';
import { createNovaActivities, type NovaActivities } from './activities';
import { createCloudClients, loadClouds, type CloudClients, type CloudSource } from './clouds';
import { hasOwnWorkflows, PREBUILT_BUNDLE, WORKER_DEFAULTS } from './worker-defaults';

export interface NovaPluginOptions {
  /**
   * The cloud: its name in `clouds.yaml`; or `OS_*` settings; or a configuration that `loadCloudConfig` made. Default:
   * what the process's environment says, which is read when a worker is created.
   */
  cloud?: CloudSource;
  /**
   * More clouds, by the names that inputs give as `cloud`. A name in `clouds.yaml` stands for what is written there:
   * `OS_*` variables are about the worker's own cloud. Default: none.
   */
  clouds?: Readonly<Record<string, CloudSource>>;
  /** False: the activities alone, for a worker next to the OpenStack network. Default true. */
  workflows?: boolean;
}

/** What one worker holds. */
interface Held {
  clients: CloudClients;
  shutdown: AbortController;
}

const OUR_WORKFLOWS = path.join(__dirname, 'workflows/index.js');
const HOST = path.join(__dirname, 'workflows/host.js');
const PAYLOAD_CONVERTER = path.join(__dirname, 'workflows/payload-converter.js');

/** How often a worker is asked whether its shutdown has begun: the SDK tells nobody. */
const STATE_EVERY_MS = 100;

/**
 * Adds the activities, and the workflows, of this package to a worker.
 *
 * - without `workflowsPath` and `workflowBundle`, the worker runs the bundle that comes with the package;
 * - with a `workflowsPath`, these workflows are bundled beside the user's own;
 * - a `workflowBundle` is taken as it is: make it with `bundleWorkflowCode({ plugins: [new NovaPlugin()], … })`.
 *
 * Bundles that it takes part in read arguments with `temporal-nova/payload-converter`, unless the host has a payload
 * converter of its own.
 *
 * Where the worker does not say otherwise, it gets 35 s of `shutdownGraceTime` (a POST to Nova is waited for), 20,000
 * activity slots (a wait holds one) and a `stickyQueueScheduleToStartTimeout` of 1 s.
 *
 * @throws NovaError `Configuration` from `Worker.create` when the cloud's settings are wrong
 * @example
 * const worker = await Worker.create({
 *   plugins: [new NovaPlugin({ cloud: 'west' })],
 *   workflowsPath: require.resolve('./workflows'),
 *   taskQueue: 'mine',
 * });
 */
export class NovaPlugin extends SimplePlugin {
  private readonly cloud: NovaPluginOptions['cloud'];
  private readonly clouds: NonNullable<NovaPluginOptions['clouds']>;
  private readonly workflows: boolean;
  /** By an activity function, which a worker and its options have in common. */
  private readonly held = new WeakMap<NovaActivities['novaWatchServer'], Held>();

  constructor({ cloud, clouds = {}, workflows = true }: NovaPluginOptions = {}) {
    super({ name: 'temporal-nova' });
    this.cloud = cloud;
    this.clouds = clouds;
    this.workflows = workflows;
  }

  override configureWorker(options: WorkerOptions): WorkerOptions {
    const clients = createCloudClients(loadClouds(this.cloud, this.clouds), Runtime.instance().metricMeter);
    const shutdown = new AbortController();
    const activities = createNovaActivities({ ...clients, shutdownSignal: shutdown.signal });
    this.held.set(activities.novaWatchServer, { clients, shutdown });
    const { shutdownGraceTime, stickyQueueScheduleToStartTimeout, maxConcurrentActivityTaskExecutions } =
      WORKER_DEFAULTS;
    return {
      shutdownGraceTime,
      stickyQueueScheduleToStartTimeout,
      ...(options.tuner === undefined && { maxConcurrentActivityTaskExecutions }),
      ...this.withWorkflows(options),
      activities: { ...options.activities, ...activities },
    };
  }

  override configureReplayWorker(options: ReplayWorkerOptions): ReplayWorkerOptions {
    return this.withWorkflows(options);
  }

  override configureBundler(options: BundleOptions): BundleOptions {
    if (!this.workflows) return options;
    const { workflowsPath = OUR_WORKFLOWS, payloadConverterPath = PAYLOAD_CONVERTER, webpackConfigHook } = options;
    return {
      ...options,
      workflowsPath: HOST,
      payloadConverterPath,
      webpackConfigHook: (config) => {
        const hooked = webpackConfigHook?.(config) ?? config;
        const alias = {
          '@temporalio/workflow': workflowSdkOf(workflowsPath),
          ...hooked.resolve?.alias,
          'temporal-nova-host/user-workflows$': workflowsPath,
        };
        return { ...hooked, resolve: { ...hooked.resolve, alias } };
      },
    };
  }

  override async runWorker(worker: Worker, next: (worker: Worker) => Promise<void>): Promise<void> {
    const held = this.heldBy(worker);
    const timer = setInterval(() => {
      if (worker.getState() !== 'RUNNING' && worker.getState() !== 'INITIALIZED') held?.shutdown.abort();
    }, STATE_EVERY_MS);
    try {
      await super.runWorker(worker, next);
    } finally {
      clearInterval(timer);
      held?.shutdown.abort();
      held?.clients.close();
    }
  }

  private heldBy(worker: Worker): Held | undefined {
    const watch = worker.options.activities.get('novaWatchServer');
    return watch && this.held.get(watch as NovaActivities['novaWatchServer']);
  }

  /** A worker that reads payloads or writes failures in a way of its own needs a bundle that was made for it. */
  private withWorkflows<T extends WorkerOptions | ReplayWorkerOptions>(options: T): T {
    if (!this.workflows || hasOwnWorkflows(options)) return options;
    const { payloadConverterPath, failureConverterPath } = options.dataConverter ?? {};
    return payloadConverterPath || failureConverterPath
      ? { ...options, workflowsPath: OUR_WORKFLOWS }
      : { ...options, workflowBundle: PREBUILT_BUNDLE };
  }
}

/**
 * The host's copy of the SDK, for its workflows and for ours. A package that is linked finds another copy beside itself,
 * and the cancellation scopes of two copies don't take each other.
 */
function workflowSdkOf(workflowsPath: string): string {
  return path.dirname(require.resolve('@temporalio/workflow/package.json', { paths: [workflowsPath, __dirname] }));
}
