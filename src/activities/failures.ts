/** What a failed request becomes for Temporal: a type, retryable or not, when to try again, and picked details. */
import { ApplicationFailure } from '@temporalio/common';
import type { NovaError, NovaErrorKind } from '../nova';

/** `details[0]` of every failure. Known parts only; never a token, a password, a body or a header. */
export interface FailureDetails {
  serverId?: string;
  httpStatus?: number;
  requestId?: string;
  /** The rule of Nova's policy that a 403 names. */
  policyRule?: string;
  /** Nova asked to be left alone for this long, in milliseconds. */
  retryAfterMs?: number;
  /** True when a server may have been made although this failed. */
  mayExist?: boolean;
}

/** Failure types of interface and design, by the kind of error. `NovaUnavailable` is the one that is retried. */
const TYPES: Record<NovaErrorKind, string> = {
  BadRequest: 'NovaBadRequest',
  Unauthorized: 'NovaUnauthorized',
  Forbidden: 'NovaForbidden',
  QuotaExceeded: 'QuotaExceeded',
  NotFound: 'NovaNotFound',
  Conflict: 'NovaConflict',
  Configuration: 'NovaBadRequest',
  Unavailable: 'NovaUnavailable',
};

const FIRST_DELAY = 1_000;
const LONGEST_DELAY = 15_000;

/**
 * Waits longer with each attempt, up to 15 s, and never at the same moment as others: hundreds of waits that failed
 * together must not come back together.
 */
function retryDelay(attempt: number, retryAfterMs: number | undefined, random = Math.random): number {
  const backoff = Math.min(FIRST_DELAY * 1.5 ** Math.min(attempt - 1, 20), LONGEST_DELAY);
  const spread = backoff * (0.75 + random() / 2);
  return Math.round(retryAfterMs === undefined ? spread : retryAfterMs + random() * Math.min(backoff, 1_000));
}

export interface FailureContext {
  /** Of the activity, from 1. */
  attempt: number;
  serverId?: string;
  /** Don't wait longer than this many milliseconds for the next attempt. Default: no limit. */
  within?: number;
  mayExist?: boolean;
}

export function toApplicationFailure(error: NovaError, context: FailureContext): ApplicationFailure {
  const { attempt, serverId, within = Infinity, mayExist } = context;
  const { httpStatus, requestId, policyRule, retryAfterMs } = error.details;
  const details: FailureDetails = { serverId, httpStatus, requestId, policyRule, retryAfterMs, mayExist };
  const delay = Math.max(0, Math.min(retryDelay(attempt, retryAfterMs), within));
  return ApplicationFailure.create({
    type: TYPES[error.kind],
    message: error.retryable ? `${error.message} (trying again in ${Math.ceil(delay / 1000)} s)` : error.message,
    nonRetryable: !error.retryable,
    nextRetryDelay: error.retryable ? delay : undefined,
    details: [details],
  });
}
