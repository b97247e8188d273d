/** What `CreateServerWorkflow` takes and gives, and the checks of it. */
import type { Duration } from '@temporalio/common';
import type { NovaAddresses, NovaServerRequest } from '../nova';
import type { Polling } from '../policy/polling';
import type { Observation } from '../policy/server-state';
import {
  checkChoice,
  checkCloud,
  checkDuration,
  checkFreeObject,
  checkInteger,
  checkObject,
  checkPolling,
  checkStrings,
  refuse,
  required,
  type PollingOptions,
} from './input';

export interface CreateServerInput {
  /** The `server` object of Nova's `POST /servers`, passed on as it is. */
  server: NovaServerRequest;
  /** Nova's `os:scheduler_hints`. */
  schedulerHints?: Record<string, unknown>;
  /** Start to ACTIVE, all attempts together; default '1h'. */
  timeout?: Duration;
  /** Statuses to wait on besides the built-in ones. */
  transientStatuses?: string[];
  /** Creations in all, 1 to 10; default 1. Another one only after ERROR, once the failed server is deleted. */
  attempts?: number;
  /** What becomes of the last server on ERROR, timeout or cancellation; default 'keep'. */
  onFailure?: 'keep' | 'delete';
  /** The name of one of the worker's clouds; default: its own. */
  cloud?: string;
  polling?: PollingOptions;
}

export interface CreateServerResult {
  serverId: string;
  name: string;
  status: 'ACTIVE';
  addresses: NovaAddresses;
  /** Null where the caller may not see it. */
  host: string | null;
  /** Creations that it took. */
  attempts: number;
  /** Of all attempts. */
  observations: Observation[];
}

export interface CheckedCreateInput {
  server: NovaServerRequest;
  schedulerHints: Record<string, unknown> | undefined;
  timeout: number;
  transientStatuses: string[];
  attempts: number;
  onFailure: 'keep' | 'delete';
  cloud: string | undefined;
  polling: Polling;
}

const DEFAULT_TIMEOUT = 3_600_000;

export function checkCreateServerInput(input: unknown): CheckedCreateInput {
  const fields = checkObject(input, '', [
    'server',
    'schedulerHints',
    'timeout',
    'transientStatuses',
    'attempts',
    'onFailure',
    'cloud',
    'polling',
  ]);
  const server = required(checkFreeObject(fields.server, 'server'), 'server');
  for (const key of ['min_count', 'max_count']) {
    const count = server[key];
    const isCount = typeof count === 'number' || typeof count === 'string';
    refuse(isCount && Number(count) > 1, `server.${key} must not be above 1: one workflow creates one server.`);
  }
  refuse(
    'return_reservation_id' in server,
    'server.return_reservation_id is not supported: Nova would answer without the server.',
  );
  checkStrings(server.tags, 'server.tags');
  return {
    server: server as NovaServerRequest,
    schedulerHints: checkFreeObject(fields.schedulerHints, 'schedulerHints'),
    timeout: checkDuration(fields.timeout, 'timeout') ?? DEFAULT_TIMEOUT,
    transientStatuses: checkStrings(fields.transientStatuses, 'transientStatuses') ?? [],
    attempts: checkInteger(fields.attempts, 'attempts', 1, 10) ?? 1,
    onFailure: checkChoice(fields.onFailure, 'onFailure', ['keep', 'delete']) ?? 'keep',
    cloud: checkCloud(fields.cloud),
    polling: checkPolling(fields.polling),
  };
}
