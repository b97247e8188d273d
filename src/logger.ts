/** Structured logs: one line an event, JSON in a pipe, readable on a terminal. */
import { ApplicationFailure } from '@temporalio/common';
import { DefaultLogger, type Logger as TemporalLogger, type LogEntry } from '@temporalio/worker';
import pino, { type Logger } from 'pino';
import pretty from 'pino-pretty';
import type { FailureDetails } from './activities';

export type { Logger } from 'pino';

/** @param level 'trace' to 'error'; default from `LOG_LEVEL`, else 'info' */
export function createLogger(level: string = process.env.LOG_LEVEL ?? 'info'): Logger {
  const known = Object.hasOwn(pino.levels.values, level) || level === 'silent';
  const options = { level: known ? level : 'info', base: undefined, timestamp: pino.stdTimeFunctions.isoTime };
  return process.stdout.isTTY
    ? pino(options, pretty({ sync: true, ignore: 'sdkComponent' }))
    : pino(options, pino.destination({ sync: true }));
}

const LEVELS = { TRACE: 'trace', DEBUG: 'debug', INFO: 'info', WARN: 'warn', ERROR: 'error' } as const;

/** The SDK's own log lines, and those of workflows and activities, through the same logger. */
export function toTemporalLogger(logger: Logger): TemporalLogger {
  return new DefaultLogger('DEBUG', ({ level, message, meta }: LogEntry) => {
    logger[LEVELS[level]](plain(meta), message);
  });
}

/**
 * The SDK logs an activity task that it can't begin with all its input, which holds what the server is to be given; and
 * with each line of an activity what Temporal knows it by, which says nothing to a person.
 */
const NEVER_LOGGED = new Set(['task', 'taskEncoded', 'taskToken']);

/** bigint and errors as JSON takes them. */
function plain(meta: Record<string | symbol, unknown> | undefined): Record<string, unknown> {
  const entries = Object.entries(meta ?? {})
    .filter(([key]) => !NEVER_LOGGED.has(key))
    .map(([key, value]) => [key === 'error' ? 'err' : key, typeof value === 'bigint' ? String(value) : value]);
  return { ...idsOf(meta?.error), ...Object.fromEntries(entries) };
}

/** What a failure of an activity is about, beside the workflow's id, so that a search finds it. */
function idsOf(error: unknown): { serverId?: string; requestId?: string } {
  if (!(error instanceof ApplicationFailure)) return {};
  const { serverId, requestId } = (error.details?.[0] ?? {}) as FailureDetails;
  return { ...(serverId !== undefined && { serverId }), ...(requestId !== undefined && { requestId }) };
}
