/** What went wrong at Keystone or Nova, in the one shape the rest of the project sees. */

/**
 * | kind | when |
 * |---|---|
 * | `BadRequest` | 400, or another 4xx that repeating won't help |
 * | `Unauthorized` | 401 again with a fresh token, or Keystone refused the login |
 * | `Forbidden` | 403 |
 * | `QuotaExceeded` | 403 "Quota exceeded for …" |
 * | `NotFound` | 404 |
 * | `Conflict` | 409 |
 * | `Unavailable` | may clear by itself: no connection, no answer in time, 408, 413, 429, 5xx, an answer that is not Nova's JSON |
 * | `Configuration` | the configuration is wrong: a setting, a file, a region or service that the catalog lacks, a microversion below 2.52 |
 */
export type NovaErrorKind =
  | 'BadRequest'
  | 'Unauthorized'
  | 'Forbidden'
  | 'QuotaExceeded'
  | 'NotFound'
  | 'Conflict'
  | 'Unavailable'
  | 'Configuration';

export interface NovaErrorDetails {
  /** HTTP status, absent when there was no answer. */
  httpStatus?: number;
  /** Nova's `X-Openstack-Request-Id`, to be found in Nova's logs. */
  requestId?: string;
  /** The rule of Nova's policy that a 403 names, such as 'os_compute_api:servers:create'. */
  policyRule?: string;
  /** From `Retry-After`, in milliseconds, never negative. */
  retryAfterMs?: number;
  /**
   * True when the request may have been carried out although it failed: no answer after it was sent, 408, 5xx, or a
   * 2xx that is not Nova's JSON. False when it surely was not: refused connection, failed look-up of the host, 4xx.
   */
  outcomeUnknown?: boolean;
}

/** Never holds a token, a password, a request's body or its headers. */
export class NovaError extends Error {
  override readonly name = 'NovaError';

  constructor(
    readonly kind: NovaErrorKind,
    message: string,
    readonly details: NovaErrorDetails = {},
  ) {
    super(message);
  }

  /** True when repeating the same request may help. */
  get retryable(): boolean {
    return this.kind === 'Unavailable';
  }
}
