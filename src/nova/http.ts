/** The one way to a cloud over HTTP, and the one place where an answer, or none, becomes a NovaError. */

import { readFileSync } from 'node:fs';
import { Agent as HttpAgent, STATUS_CODES } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { join } from 'node:path';

import type { AxiosResponse } from 'axios';
import axios from 'axios';

import type { NovaErrorKind } from './errors';
import { NovaError } from './errors';
import { redact, secretsIn, serviceMessage } from './message';
import { adviceOn, policyRuleOf } from './policy-rule';

/** For the connection, the request and the whole answer together. */
const DEFAULT_TIMEOUT_MS = 30_000;
/** A page of 1,000 servers with everything in it has about 5 MB. */
const MAX_BODY_BYTES = 64 * 1024 * 1024;
/** Below the 5 s after which Apache closes an idle connection, so that no request meets a connection being closed. */
const IDLE_SOCKET_MS = 4_000;
/** A `Retry-After` is believed up to an hour: what waits has a deadline of its own and looks again now and then. */
const MAX_RETRY_AFTER_MS = 3_600_000;

const CLOSED = 'The client for OpenStack is closed';

const { version } = JSON.parse(readFileSync(join(__dirname, '../../package.json'), 'utf8')) as { version: string };

export interface HttpClientOptions {
  /** PEM text of the CA certificates to trust. */
  caCertificates?: string;
  insecure?: boolean;
  timeoutMs?: number;
  /** Told about each request that was sent, when it has ended: for metrics. */
  onRequest?: (request: EndedRequest) => void;
}

/** Nothing in it that is one server's or one person's. */
export interface EndedRequest {
  service: string;
  method: HttpRequest['method'];
  route: string;
  /** The answer's status; 'none' when no answer came, 'cancelled' when nobody waited for it any more. */
  code: string;
  /** From the connection to the end of the answer. */
  seconds: number;
}

export interface HttpRequest {
  /** Who is asked, for messages: 'Nova', 'Keystone', ... */
  service: string;
  method: 'GET' | 'POST' | 'DELETE';
  url: string;
  /** What messages call the request's target; without it, the path of `url`. */
  path?: string;
  /** What metrics call it: a path with placeholders for ids. Default 'other'. */
  route?: string;
  query?: Record<string, string>;
  headers?: Record<string, string>;
  /** Sent as JSON. What it holds under keys like `user_data` and `adminPass` never shows in an error. */
  body?: unknown;
  /** Further strings that must not show in an error. */
  secrets?: string[];
  signal?: AbortSignal;
}

export interface HttpAnswer {
  status: number;
  /** What the JSON says; undefined for an answer without a body. */
  body: unknown;
  requestId?: string;
  header(name: string): string | undefined;
}

export interface HttpClient {
  /**
   * Resolves for any 2xx that is empty or JSON.
   *
   * | what came | kind | outcomeUnknown |
   * |---|---|---|
   * | 2xx, but not JSON | Unavailable | true |
   * | 300, 301, 308 (redirects are never followed: the token would go with them) | Configuration | false |
   * | any other 3xx | Unavailable | true |
   * | 400, and any 4xx that is not below | BadRequest | false |
   * | 401 · 403 · 404 · 409 | Unauthorized · Forbidden or QuotaExceeded · NotFound · Conflict | false |
   * | 408 | Unavailable | true |
   * | 413, 429 | Unavailable | false |
   * | 5xx | Unavailable | true |
   * | no connection: refused, no such host, no route, a certificate that is not trusted | Unavailable | false |
   * | no answer, or half of one: reset, hung up, too late, too large | Unavailable | true |
   * | `signal` aborted | throws the signal's reason | |
   */
  request(request: HttpRequest): Promise<HttpAnswer>;
  /** Ends all connections; requests under way fail, and so do later ones. */
  close(): void;
}

/** Respects `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` as axios does. */
export function createHttpClient(options: HttpClientOptions = {}): HttpClient {
  const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
  const sockets = { keepAlive: true, timeout: IDLE_SOCKET_MS };
  const httpAgent = new HttpAgent(sockets);
  const httpsAgent = new HttpsAgent({
    ...sockets,
    rejectUnauthorized: options.insecure !== true,
    ...(options.caCertificates !== undefined && { ca: options.caCertificates }),
  });
  const client = axios.create({
    httpAgent,
    httpsAgent,
    maxRedirects: 0,
    maxContentLength: MAX_BODY_BYTES,
    maxBodyLength: MAX_BODY_BYTES,
    validateStatus: () => true,
    responseType: 'text',
    transformResponse: [(data: unknown) => data],
    headers: { 'User-Agent': `temporal-nova/${version}`, Accept: 'application/json' },
  });

  let closed = false;
  const underWay = new Set<AbortController>();

  return {
    async request(request) {
      request.signal?.throwIfAborted();
      if (closed) throw new NovaError('Unavailable', CLOSED, { outcomeUnknown: false });
      const path = request.path ?? new URL(request.url).pathname;
      const target = { ...request, path, secrets: [...(request.secrets ?? []), ...secretsIn(request.body)] };
      // axios's own timeout starts anew with each byte, so that a trickle never ends.
      const ending = new AbortController();
      underWay.add(ending);
      const begun = performance.now();
      let code = 'none';
      let late = false;
      const timer = setTimeout(() => {
        late = true;
        ending.abort();
      }, timeoutMs);
      const onAbort = () => ending.abort();
      request.signal?.addEventListener('abort', onAbort, { once: true });
      try {
        const response = await client.request<string>({
          method: request.method,
          url: request.url,
          params: request.query,
          headers: { ...request.headers, ...(request.body !== undefined && { 'Content-Type': 'application/json' }) },
          ...(request.body !== undefined && { data: JSON.stringify(request.body) }),
          signal: ending.signal,
        });
        code = String(response.status);
        return toAnswer(target, response);
      } catch (error) {
        if (error instanceof NovaError) throw error;
        if (late) {
          throw unavailable(target, `has not answered ${named(target)} completely within ${timeoutMs / 1000} s`, true);
        }
        if (request.signal?.aborted) code = 'cancelled';
        request.signal?.throwIfAborted();
        if (closed) throw new NovaError('Unavailable', CLOSED, { outcomeUnknown: true });
        throw fromFailure(target, error);
      } finally {
        clearTimeout(timer);
        underWay.delete(ending);
        request.signal?.removeEventListener('abort', onAbort);
        const { service, method, route = 'other' } = request;
        options.onRequest?.({ service, method, route, code, seconds: (performance.now() - begun) / 1000 });
      }
    },
    close() {
      closed = true;
      for (const ending of underWay) ending.abort();
      httpAgent.destroy();
      httpsAgent.destroy();
    },
  };
}

type Target = HttpRequest & { path: string; secrets: string[] };

/** An answer that has not the shape it should have: it may clear by itself (a proxy's page, an upgrade half done). */
export function unexpectedAnswer(request: HttpRequest, answer: HttpAnswer, what: string): NovaError {
  const path = request.path ?? new URL(request.url).pathname;
  const message = `${request.service} answered ${request.method} ${path} with ${answer.status}, but ${what}`;
  return new NovaError('Unavailable', message, {
    httpStatus: answer.status,
    ...(answer.requestId !== undefined && { requestId: answer.requestId }),
    outcomeUnknown: true,
  });
}

function toAnswer(request: Target, response: AxiosResponse<string>): HttpAnswer {
  const header = (name: string): string | undefined => {
    const value = response.headers[name.toLowerCase()] as unknown;
    return typeof value === 'string' ? value : undefined;
  };
  const requestId = requestIdOf(header, request.secrets);
  const body = parseJson(response.data);
  const { status } = response;
  if (status >= 200 && status < 300 && body.ok) {
    return { status, body: body.value, header, ...(requestId !== undefined && { requestId }) };
  }
  const words = body.ok ? serviceMessage(body.value, request.secrets) : undefined;
  const { kind, outcomeUnknown } = verdict(status, words ?? '');
  const policyRule = kind === 'Forbidden' && words !== undefined ? policyRuleOf(words) : undefined;
  const retryAfterMs = kind === 'Unavailable' ? retryAfter(header('Retry-After'), header('Date')) : undefined;
  throw new NovaError(kind, sentence(request, status, words, body.ok, header), {
    httpStatus: status,
    ...(requestId !== undefined && { requestId }),
    ...(policyRule !== undefined && { policyRule }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    outcomeUnknown,
  });
}

/** See the table at HttpClient.request. */
function verdict(status: number, words: string): { kind: NovaErrorKind; outcomeUnknown: boolean } {
  switch (status) {
    case 300:
    case 301:
    case 308:
      return { kind: 'Configuration', outcomeUnknown: false };
    case 401:
      return { kind: 'Unauthorized', outcomeUnknown: false };
    case 403:
      return { kind: OVER_QUOTA.test(words) ? 'QuotaExceeded' : 'Forbidden', outcomeUnknown: false };
    case 404:
      return { kind: 'NotFound', outcomeUnknown: false };
    case 408:
      return { kind: 'Unavailable', outcomeUnknown: true };
    case 409:
      return { kind: 'Conflict', outcomeUnknown: false };
    case 413:
    case 429:
      return { kind: 'Unavailable', outcomeUnknown: false };
    default:
      return status >= 400 && status < 500
        ? { kind: 'BadRequest', outcomeUnknown: false }
        : { kind: 'Unavailable', outcomeUnknown: true };
  }
}

/** `OverQuota` and its kin in `nova/exception.py`; the second is oslo.limit's text, used with unified limits. */
const OVER_QUOTA = /quota exceeded|is over (?:a )?limit|^maximum number of \w+ exceeded/i;

function sentence(
  request: Target,
  status: number,
  words: string | undefined,
  isJson: boolean,
  header: (name: string) => string | undefined,
): string {
  const answered = `${request.service} answered ${named(request)} with ${status}`;
  if (status > 300 && status < 400) {
    return `${answered}, a redirect${redirectTarget(header('Location'), request.secrets)}, which is not followed`;
  }
  if (words !== undefined) {
    const rule = status === 403 ? policyRuleOf(words) : undefined;
    return `${answered}: ${words}${rule === undefined ? '' : ` ${adviceOn(rule)}`}`;
  }
  const withReason = [answered, STATUS_CODES[status]].filter(Boolean).join(' ');
  return isJson ? `${withReason} and no message` : `${withReason} (an answer that is not ${request.service}'s JSON)`;
}

/** Host and path only: what follows in the address may hold anything. */
function redirectTarget(location: string | undefined, secrets: readonly string[]): string {
  if (location === undefined || !URL.canParse(location)) return '';
  const { origin, pathname } = new URL(location);
  return ` to ${redact(origin + pathname, secrets).slice(0, 200)}`;
}

function named({ method, path }: Target): string {
  return `${method} ${path}`;
}

/** The answer's body; an empty one is JSON's undefined. */
function parseJson(text: unknown): { ok: true; value: unknown } | { ok: false } {
  if (typeof text !== 'string' || text.trim() === '') return { ok: true, value: undefined };
  try {
    return { ok: true, value: JSON.parse(text) as unknown };
  } catch {
    return { ok: false };
  }
}

function requestIdOf(header: (name: string) => string | undefined, secrets: readonly string[]): string | undefined {
  const id = header('X-Openstack-Request-Id') ?? header('X-Compute-Request-Id');
  return id !== undefined && /^[\w.-]{1,128}$/.test(id) && redact(id, secrets) === id ? id : undefined;
}

/**
 * Milliseconds from a `Retry-After` of seconds or of an HTTP date, which is taken relative to the answer's own `Date`,
 * so that a clock that is off does not count. 0 for a date in the past, at most an hour, undefined for rubbish.
 */
function retryAfter(value: string | undefined, date?: string): number | undefined {
  if (value === undefined) return undefined;
  const seconds = /^\s*(\d+)\s*$/.exec(value)?.[1];
  const until = seconds === undefined ? httpDate(value) : undefined;
  const ms = seconds === undefined ? until && until - (httpDate(date) ?? Date.now()) : Number(seconds) * 1000;
  return ms === undefined ? undefined : Math.min(Math.max(ms, 0), MAX_RETRY_AFTER_MS);
}

/** Date.parse alone takes nearly anything for a date; all three forms of an HTTP date begin with the day's name. */
export function httpDate(value: string | undefined): number | undefined {
  if (value === undefined || !/^\s*(mon|tue|wed|thu|fri|sat|sun)[a-z]*,?\s/i.test(value)) return undefined;
  const ms = Date.parse(/gmt|utc/i.test(value) ? value : `${value} GMT`);
  return Number.isNaN(ms) ? undefined : ms;
}

/** Failures in which the request was not sent, whatever the system call was. */
const NOT_SENT = new Map([
  ['ECONNREFUSED', 'refused the connection'],
  ['ENOTFOUND', 'has no address: the host is unknown'],
  ['EAI_AGAIN', "has no address for now: the host's look-up failed"],
]);
const CERTIFICATE = /CERT|UNABLE_TO_|SELF_SIGNED/;

function fromFailure(request: Target, error: unknown): NovaError {
  const code = failureCode(error);
  const notSent = NOT_SENT.get(code);
  if (notSent !== undefined) return unavailable(request, `${notSent} (${code}), for ${named(request)}`, false);
  if (CERTIFICATE.test(code)) {
    const advice = /EXPIRED|NOT_YET_VALID|ALTNAME/.test(code) ? '' : '; OS_CACERT can name a file of CA certificates';
    return unavailable(
      request,
      `has a certificate that is not trusted (${code}), for ${named(request)}${advice}`,
      false,
    );
  }
  if (/wrong.version.number/i.test(`${code} ${(error as Error).message}`)) {
    return unavailable(request, `does not speak TLS (${code}), for ${named(request)}`, false);
  }
  if (isConnectFailure(error)) return unavailable(request, `can't be reached (${code}), for ${named(request)}`, false);
  if (axios.isAxiosError(error) && /maxContentLength/.test(error.message)) {
    return unavailable(request, `answered ${named(request)} with more than ${MAX_BODY_BYTES} bytes`, true);
  }
  return unavailable(request, `broke the connection off (${code}) before it had answered ${named(request)}`, true);
}

/** Node's code, such as ECONNRESET: axios puts some of its own in its place. */
function failureCode(error: unknown): string {
  const cause = error instanceof Error ? (error.cause as NodeJS.ErrnoException | undefined) : undefined;
  const code = cause?.code ?? (error as NodeJS.ErrnoException | undefined)?.code;
  return typeof code === 'string' ? code : 'unknown error';
}

/** No route, a timeout of the system's: only of a connection being made is it sure that nothing was sent. */
function isConnectFailure(error: unknown): boolean {
  const cause = (error instanceof Error && error.cause) || error;
  const attempts = cause instanceof AggregateError ? (cause.errors as unknown[]) : [cause];
  return attempts.every((attempt) => (attempt as NodeJS.ErrnoException | undefined)?.syscall === 'connect');
}

function unavailable(request: Target, what: string, outcomeUnknown: boolean): NovaError {
  return new NovaError('Unavailable', `${request.service} at ${new URL(request.url).host} ${what}`, { outcomeUnknown });
}
