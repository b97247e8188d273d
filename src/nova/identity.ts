/** Keystone v3: the login, its token for as long as it is good, and the catalog that comes with it. */

import type { CloudAuth, CloudConfig } from './config';
import { withoutSlashes } from './config';
import { NovaError } from './errors';
import type { HttpClient, HttpRequest } from './http';
import { unexpectedAnswer } from './http';
import { isId } from './parse';

/** How long before its end a token is replaced; a tenth of its life where that is shorter. */
const REFRESH_MARGIN_MS = 60_000;

/**
 * A login that worked before and is refused now is, for so long, like a Keystone that is away: somebody changes the
 * password, and this worker, or another one, gets the new one in a moment. Waits must not end for that.
 */
const PASSWORD_CHANGE_MS = 30_000;

/** A refused login is not tried again at once: Keystone locks users out (`lockout_failure_attempts`). */
const FIRST_AFTER_REFUSAL_MS = 5_000;
const LONGEST_AFTER_REFUSAL_MS = 60_000;
/** Nor is a Keystone that is away asked by each of hundreds of waits: one login serves all, also one that failed. */
const AFTER_FAILURE_MS = 500;

export type ServiceType = 'compute' | 'image' | 'network';

export interface Logger {
  debug(message: string, fields?: Record<string, unknown>): void;
}

/** One token and what Keystone said with it. */
export interface Session {
  token: string;
  userId: string;
  projectId: string;
  catalog: CatalogService[];
}

export interface CatalogService {
  type: string;
  endpoints: { interface: string; region?: string; url: string }[];
}

export interface Identity {
  /**
   * The current session, after a login where there is none. All who wait share one login; a waiter's `signal` ends
   * its own waiting only.
   *
   * @throws NovaError | Keystone's answer | kind |
   * |---|---|
   * | 401, 403; 404 that names what was not found, such as an application credential | Unauthorized; Unavailable for 30 s where the login has worked before |
   * | no answer, 408, 413, 429, 5xx, not JSON, without token | Unavailable |
   * | any other, such as 404 for a wrong address, or a redirect | Configuration |
   *
   * A login that failed stands for all who want one in the next 0.5 s; a refused one for 5 s, then 10, 20, … up to 60 s.
   *
   * `outcomeUnknown` is false: whatever the session was for was not sent.
   */
  session(signal?: AbortSignal): Promise<Session>;
  /** A session other than `refused`, whose token a service answered with 401. At most one login for all who ask. */
  replace(refused: Session, signal?: AbortSignal): Promise<Session>;
}

export function createIdentity(config: CloudConfig, http: HttpClient, logger?: Logger): Identity {
  let current: { session: Session; refreshAt: number; expiresAt: number } | undefined;
  let login: Promise<Session> | undefined;
  let hasWorked = false;
  /** The last login, where it failed; it stands for all who want one before `askAgainAt`. */
  let failed: { error: NovaError; refusedSince?: number; pause: number; askAgainAt: number } | undefined;

  const failure = (): NovaError | undefined => {
    if (failed?.refusedSince === undefined || !hasWorked) return failed?.error;
    if (Date.now() >= failed.refusedSince + PASSWORD_CHANGE_MS) return failed.error;
    const { message, details } = failed.error;
    return new NovaError('Unavailable', `${message}; it worked before: was the password changed?`, details);
  };
  const remember = (error: NovaError): void => {
    const now = Date.now();
    if (error.kind === 'Unauthorized') {
      const before = failed?.refusedSince === undefined ? undefined : failed;
      const pause = before ? Math.min(before.pause * 2, LONGEST_AFTER_REFUSAL_MS) : FIRST_AFTER_REFUSAL_MS;
      failed = { error, refusedSince: before?.refusedSince ?? now, pause, askAgainAt: now + pause };
    } else {
      failed = { error, pause: AFTER_FAILURE_MS, askAgainAt: now + AFTER_FAILURE_MS };
    }
  };

  const fresh = (): Promise<Session> => {
    login ??= (async () => {
      const asked = Date.now();
      if (failed && asked < failed.askAgainAt) throw failure()!;
      const { session, lifetimeMs } = await logIn(config, http).catch((error: unknown) => {
        if (!(error instanceof NovaError)) throw error;
        remember(error);
        throw failure()!;
      });
      hasWorked = true;
      failed = undefined;
      const margin = Math.min(REFRESH_MARGIN_MS, lifetimeMs / 10);
      current = { session, refreshAt: asked + lifetimeMs - margin, expiresAt: asked + lifetimeMs };
      logger?.debug('Logged in to Keystone', { userId: session.userId, projectId: session.projectId, lifetimeMs });
      return session;
    })().finally(() => {
      login = undefined;
    });
    return login;
  };

  const session = async (signal?: AbortSignal): Promise<Session> => {
    if (current !== undefined && Date.now() < current.refreshAt) return current.session;
    try {
      return await withSignal(fresh(), signal);
    } catch (error) {
      // Keystone can't be asked just now: the token is good for the margin still.
      if (current !== undefined && Date.now() < current.expiresAt && isUnavailable(error)) return current.session;
      throw error;
    }
  };

  return {
    session,
    replace(refused, signal) {
      if (current?.session === refused) current = undefined;
      return session(signal);
    },
  };
}

function isUnavailable(error: unknown): boolean {
  return error instanceof NovaError && error.kind === 'Unavailable';
}

/** `shared`, or the reason of `signal` as soon as that is aborted; `shared` goes on for the others. */
export async function withSignal<T>(shared: Promise<T>, signal?: AbortSignal): Promise<T> {
  if (signal === undefined) return shared;
  // Once nobody waits for it any more, its failure is nobody's.
  shared.catch(() => undefined);
  signal.throwIfAborted();
  let onAbort: (() => void) | undefined;
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(signal.reason as Error);
    signal.addEventListener('abort', onAbort, { once: true });
  });
  try {
    return await Promise.race([shared, aborted]);
  } finally {
    if (onAbort) signal.removeEventListener('abort', onAbort);
  }
}

async function logIn(config: CloudConfig, http: HttpClient): Promise<{ session: Session; lifetimeMs: number }> {
  const request: HttpRequest = {
    service: 'Keystone',
    method: 'POST',
    url: `${config.authUrl}/auth/tokens`,
    path: '/v3/auth/tokens',
    route: '/v3/auth/tokens',
    body: { auth: authBody(config.auth) },
    secrets: [loginSecret(config.auth)],
  };
  try {
    const answer = await http.request(request);
    const token = answer.header('X-Subject-Token');
    const login = parseToken(answer.body);
    if (!token || login === undefined) throw unexpectedAnswer(request, answer, 'without a token');
    if (login.projectId === undefined) {
      throw new NovaError(
        'Configuration',
        'Keystone gave a token without a project: set OS_PROJECT_NAME or OS_PROJECT_ID',
      );
    }
    const { userId, projectId, catalog, lifetimeMs } = login;
    return { session: { token, userId, projectId, catalog }, lifetimeMs };
  } catch (error) {
    throw error instanceof NovaError ? loginError(error, config.authUrl) : error;
  }
}

/** `POST /v3/auth/tokens`; an application credential must not ask for a scope, it has its own. */
function authBody(auth: CloudAuth): object {
  switch (auth.type) {
    case 'password':
      return {
        identity: { methods: ['password'], password: { user: { ...auth.user, password: auth.password } } },
        scope: { project: auth.project },
      };
    case 'token':
      return { identity: { methods: ['token'], token: { id: auth.token } }, scope: { project: auth.project } };
    case 'applicationCredential':
      return {
        identity: {
          methods: ['application_credential'],
          application_credential: { ...auth.credential, secret: auth.secret },
        },
      };
  }
}

function loginSecret(auth: CloudAuth): string {
  switch (auth.type) {
    case 'password':
      return auth.password;
    case 'token':
      return auth.token;
    case 'applicationCredential':
      return auth.secret;
  }
}

function loginError(error: NovaError, authUrl: string): NovaError {
  const details = { ...error.details, outcomeUnknown: false };
  // "Could not find Application Credential: ...", "Could not recognize Fernet token": measured on Keystone 22.
  const isRefusal = error.kind === 'NotFound' && error.message.includes(': Could not ');
  switch (isRefusal ? 'Unauthorized' : error.kind) {
    case 'Unavailable':
      return new NovaError('Unavailable', error.message, details);
    case 'Unauthorized':
    case 'Forbidden':
    case 'QuotaExceeded':
      return new NovaError(
        'Unauthorized',
        `${error.message} (the login was refused: check the user, its password or secret, its domain and the project)`,
        details,
      );
    case 'Configuration':
    case 'BadRequest':
    case 'NotFound':
    case 'Conflict':
      return new NovaError('Configuration', `${error.message} (OS_AUTH_URL is ${authUrl})`, details);
  }
}

interface Login {
  userId: string;
  projectId?: string;
  catalog: CatalogService[];
  lifetimeMs: number;
}

function parseToken(body: unknown): Login | undefined {
  const token = field(body, 'token');
  const userId = field(field(token, 'user'), 'id');
  if (!isId(userId)) return undefined;
  const projectId = field(field(token, 'project'), 'id');
  return {
    userId,
    ...(isId(projectId) && { projectId }),
    catalog: list(field(token, 'catalog')).flatMap(catalogService),
    lifetimeMs: lifetime(field(token, 'issued_at'), field(token, 'expires_at')),
  };
}

/** Both times are on Keystone's clock, so that ours need not agree. A token that doesn't say is used until a 401. */
function lifetime(issuedAt: unknown, expiresAt: unknown): number {
  if (typeof issuedAt !== 'string' || typeof expiresAt !== 'string') return Infinity;
  const ms = Date.parse(expiresAt) - Date.parse(issuedAt);
  return Number.isNaN(ms) ? Infinity : Math.max(ms, 0);
}

function catalogService(service: unknown): CatalogService[] {
  const type = field(service, 'type');
  if (typeof type !== 'string') return [];
  const endpoints = list(field(service, 'endpoints')).flatMap((endpoint) => {
    const name = field(endpoint, 'interface');
    const url = field(endpoint, 'url');
    const region = field(endpoint, 'region_id') ?? field(endpoint, 'region');
    if (typeof name !== 'string' || typeof url !== 'string') return [];
    return [{ interface: name.replace(/URL$/, ''), url, ...(typeof region === 'string' && { region }) }];
  });
  return [{ type, endpoints }];
}

function field(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[key] : undefined;
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? (value as unknown[]) : [];
}

/**
 * The service's address in the catalog, without a slash at its end, and without anything but host and path.
 *
 * @throws NovaError `Configuration`, which says what the catalog has instead.
 */
export function endpointOf(
  session: Session,
  type: ServiceType,
  { regionName, interface: wanted }: Pick<CloudConfig, 'regionName' | 'interface'>,
): string {
  const all = session.catalog.filter((service) => service.type === type).flatMap(({ endpoints }) => endpoints);
  const found = all.find(
    (endpoint) => endpoint.interface === wanted && (regionName === undefined || endpoint.region === regionName),
  );
  if (found !== undefined && /^https?:\/\//i.test(found.url) && URL.canParse(found.url)) {
    const { origin, pathname } = new URL(found.url);
    return origin + withoutSlashes(pathname);
  }
  const where = regionName === undefined ? '' : ` in region '${regionName}'`;
  if (found !== undefined) {
    throw new NovaError('Configuration', `the catalog's ${wanted} endpoint of service '${type}'${where} is not a URL`);
  }
  const known = all.map(({ interface: name, region }) => `${name} in ${region ?? 'no region'}`.slice(0, 100));
  throw new NovaError(
    'Configuration',
    `the catalog has no ${wanted} endpoint of service '${type}'${where} ` +
      `(it has ${[...new Set(known)].slice(0, 20).join(', ') || 'none of this service'}): ` +
      'set OS_REGION_NAME and OS_INTERFACE to one that is there',
  );
}
