/** The connection to Temporal: settings as every Temporal client takes them, and errors as a person reads them. */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  Client,
  Connection,
  isGrpcServiceError,
  WorkflowExecutionAlreadyStartedError,
  WorkflowNotFoundError,
  type ConnectionOptions,
} from '@temporalio/client';
import { NamespaceNotFoundError, type ProtoFailure } from '@temporalio/common';
import { decodeOptionalFailureToOptionalError } from '@temporalio/common/lib/internal-non-workflow';
import { loadClientConnectConfig } from '@temporalio/envconfig';
import { DEFAULT_TASK_QUEUE } from '../client';
import { CodecError, dataConverter, loadCodecKeys, type CodecKey } from '../codec';
import { findWebUi, workflowPage } from '../web-ui';
import { CommandError, firstLine, UsageError } from './errors';

const CONNECT_WITHIN = '5s';
/** A worker's long poll takes a minute: one that was heard of less long ago polls still. */
const POLLED_WITHIN_MS = 90_000;

/** temporal.api.enums.v1.TaskQueueType */
const WORKFLOW_TASK_QUEUE = 1;

interface TemporalOptions {
  address: string;
  namespace: string;
  codecKeys: CodecKey[];
  /** Default: looked for, as findWebUi does. */
  webUi?: string;
}

interface Settings extends TemporalOptions {
  connectionOptions: ConnectionOptions;
}

export class Temporal {
  readonly client: Client;
  readonly address: string;
  readonly namespace: string;
  private readonly webUi: Promise<string | undefined>;

  constructor(
    readonly connection: Connection,
    { address, namespace, codecKeys, webUi }: TemporalOptions,
    /** `--task-queue`, else `TEMPORAL_TASK_QUEUE`, else `nova`. */
    readonly taskQueue: string,
  ) {
    this.client = new Client({ connection, namespace, dataConverter: dataConverter(codecKeys) });
    this.address = address;
    this.namespace = namespace;
    this.webUi = webUi === undefined ? findWebUi(address) : Promise.resolve(webUi);
  }

  /** The page of a run in the Web UI, where that is known. */
  async page(workflowId: string, runId: string): Promise<string | undefined> {
    const webUi = await this.webUi;
    return webUi && workflowPage(webUi, this.namespace, workflowId, runId);
  }

  /** Of a failure as Temporal holds it, which may be encrypted. */
  async messageOf(failure: ProtoFailure | null | undefined): Promise<string> {
    const error = await decodeOptionalFailureToOptionalError(this.client.options.loadedDataConverter, failure);
    return error?.message ?? '';
  }

  /** Calls that take longer end with DEADLINE_EXCEEDED. */
  within<T>(ms: number, call: () => Promise<T>): Promise<T> {
    return this.connection.withDeadline(Date.now() + ms, call);
  }

  /** When a worker polled the queue last; undefined when none did lately. */
  async lastPoll(taskQueue: string): Promise<Date | undefined> {
    const { pollers } = await this.client.workflowService.describeTaskQueue({
      namespace: this.namespace,
      taskQueue: { name: taskQueue },
      taskQueueType: WORKFLOW_TASK_QUEUE,
    });
    const polls = (pollers ?? []).map(({ lastAccessTime }) => Number(lastAccessTime?.seconds ?? 0) * 1_000);
    const last = Math.max(0, ...polls);
    return Date.now() - last < POLLED_WITHIN_MS ? new Date(last) : undefined;
  }
}

export function noWorker(taskQueue: string): string {
  return `no worker polls the task queue "${taskQueue}"; "temporal-nova worker --task-queue ${taskQueue}" starts one`;
}

/**
 * @throws UsageError when the settings are wrong
 * @throws CommandError for everything of Temporal's, the address named
 */
export async function withTemporal<T>(
  taskQueue: string | undefined,
  work: (temporal: Temporal) => Promise<T>,
): Promise<T> {
  const settings = readSettings();
  let connection: Connection | undefined;
  try {
    connection = await Connection.connect({ ...settings.connectionOptions, connectTimeout: CONNECT_WITHIN });
    const queue = taskQueue || process.env.TEMPORAL_TASK_QUEUE || DEFAULT_TASK_QUEUE;
    return await work(new Temporal(connection, settings, queue));
  } catch (error) {
    if (!connection && !isGrpcServiceError(error)) throw unreachable(settings, firstLine(error));
    throw readable(error, settings);
  } finally {
    await connection?.close();
  }
}

function readSettings(): Settings {
  try {
    const { connectionOptions, namespace } = loadClientConnectConfig();
    return {
      connectionOptions,
      address: connectionOptions.address ?? 'localhost:7233',
      namespace: namespace ?? 'default',
      codecKeys: loadCodecKeys(),
    };
  } catch (error) {
    throw new UsageError(`the Temporal configuration is wrong: ${firstLine(error)}`);
  }
}

function unreachable({ address }: Pick<Settings, 'address'>, why: string): CommandError {
  return new CommandError(`Temporal at ${address} can't be reached: ${why} (TEMPORAL_ADDRESS says where it is)`);
}

/** gRPC's status codes, as far as something can be said about them: https://grpc.io/docs/guides/status-codes/ */
const STATUS = { deadlineExceeded: 4, permissionDenied: 7, unavailable: 14, unauthenticated: 16 } as const;

function readable(error: unknown, settings: Settings): unknown {
  const { address, namespace } = settings;
  if (error instanceof WorkflowNotFoundError) {
    return new CommandError(`there is no workflow "${error.workflowId}" in namespace "${namespace}" at ${address}`);
  }
  if (error instanceof WorkflowExecutionAlreadyStartedError) {
    const look = `temporal-nova status ${error.workflowId}`;
    return new CommandError(`a workflow "${error.workflowId}" is running already: nothing was started (${look})`);
  }
  if (error instanceof NamespaceNotFoundError) {
    return new CommandError(`Temporal at ${address} has no namespace "${namespace}" (TEMPORAL_NAMESPACE)`);
  }
  if (error instanceof CodecError) return new CommandError(error.message);
  const status = grpcStatus(error);
  if (!status) return error;
  switch (status.code) {
    case STATUS.unavailable:
    case STATUS.deadlineExceeded:
      return unreachable(settings, status.details);
    case STATUS.permissionDenied:
    case STATUS.unauthenticated:
      return new CommandError(
        `Temporal at ${address} refuses these credentials for namespace "${namespace}": ${status.details}`,
      );
    default:
      return new CommandError(`Temporal at ${address} answered: ${status.details}`);
  }
}

function grpcStatus(error: unknown): { code: number; details: string } | undefined {
  if (isGrpcServiceError(error)) {
    const details = firstLine(error.details || error.message).replace(/\.? *Resolution note: *$/, '');
    return { code: error.code, details };
  }
  return error instanceof Error && error.cause !== undefined ? grpcStatus(error.cause) : undefined;
}

/** Repeats a call for as long as Temporal can't be reached: a wait goes on through its restart. */
export async function persistently<T>(call: () => Promise<T>, onTrouble: (why: string) => unknown): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      const status = grpcStatus(error);
      if (status?.code !== STATUS.unavailable && status?.code !== STATUS.deadlineExceeded) throw error;
      onTrouble(status.details);
      await sleep(2_000, undefined, { ref: false });
    }
  }
}
