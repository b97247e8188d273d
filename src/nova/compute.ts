/** The Compute API, as far as this project uses it, and the look-ups that turn names into ids. */

import type { CloudConfig } from './config';
import { minorOf, OLDEST_MICROVERSION, withoutSlashes } from './config';
import { NovaError } from './errors';
import type { EndedRequest, HttpAnswer, HttpRequest } from './http';
import { createHttpClient, httpDate, unexpectedAnswer } from './http';
import type { Logger, ServiceType, Session } from './identity';
import { createIdentity, endpointOf, withSignal } from './identity';
import {
  isId,
  isRecord,
  parseFlavor,
  parseImage,
  parseInstanceAction,
  parseInstanceActionDetail,
  parseNetwork,
  parseServer,
  parseVersion,
} from './parse';
import type { NovaInstanceAction, NovaInstanceActionDetail, NovaServer, NovaServerRequest } from './types';

/**
 * The newest microversion whose requests and answers this client was written for (Nova 28, 2023.2). A newer one may
 * change the meaning of what a caller sends, so it is used only where a caller pins it.
 */
export const NEWEST_MICROVERSION = '2.96';

/** A list that has not ended after so many pages (1,000 servers each, by Nova's default) is taken for a loop. */
const MAX_PAGES = 200;

export interface RequestOptions {
  /** Ends the request; the call then throws the signal's reason. */
  signal?: AbortSignal;
}

export interface NovaFlavor {
  id: string;
  name: string;
  /** MiB */
  ram?: number;
  vcpus?: number;
  /** GiB */
  disk?: number;
}

export interface NovaImage {
  id: string;
  name: string | null;
  status: string;
}

export interface NovaNetwork {
  id: string;
  name: string;
}

/**
 * Every call logs in and negotiates when that is needed. All throw NovaError (`errors.ts` and the table at
 * `HttpClient.request`), or the reason of an aborted signal. A 401 gets one fresh token; a second one is
 * `Unauthorized`. Answers are read leniently: only what a caller can't do without must be there and of the right type,
 * else the answer is not Nova's (`Unavailable`); any other field of a wrong type is left out.
 */
export interface ComputeClient {
  /** The microversion in use, pinned or negotiated, such as '2.90'. */
  microversion(options?: RequestOptions): Promise<string>;
  /**
   * `POST /servers` with `tags` besides the request's own. Nova's `adminPass` is not returned.
   *
   * After a NovaError whose `details.outcomeUnknown` is true the server may exist.
   */
  createServer(
    request: NovaServerRequest,
    options: RequestOptions & { tags: string[]; schedulerHints?: Record<string, unknown> },
  ): Promise<{ id: string; requestId?: string }>;
  /** An answer about another server than the one that was asked for is not Nova's (`Unavailable`). */
  getServer(id: string, options?: RequestOptions): Promise<NovaServer>;
  /** `GET /servers/detail`, all pages; a `limit` in the query is the size of a page. */
  listServers(query: Record<string, string>, options?: RequestOptions): Promise<NovaServer[]>;
  /**
   * The servers of the own project that changed since then, deleted ones too: `changes-since`, all pages.
   *
   * @param since milliseconds by this process's clock; the difference to Nova's is known from its answers' `Date`
   */
  listChangedServers(since: number, options?: RequestOptions): Promise<NovaServer[]>;
  deleteServer(id: string, options?: RequestOptions): Promise<{ requestId?: string }>;
  /** `POST /servers/{id}/action`; `requestId` is the key of the instance action that Nova records for it. */
  serverAction(id: string, body: Record<string, unknown>, options?: RequestOptions): Promise<{ requestId?: string }>;
  /** Newest first, the first page of it (1,000 by Nova's default). */
  listInstanceActions(id: string, options?: RequestOptions): Promise<NovaInstanceAction[]>;
  getInstanceAction(id: string, requestId: string, options?: RequestOptions): Promise<NovaInstanceActionDetail>;
  /** Of the user that is logged in. */
  ownUserId(options?: RequestOptions): Promise<string>;
  /** Of the project that the login is for. */
  ownProjectId(options?: RequestOptions): Promise<string>;
  /** `GET /flavors/detail`: those that the project may use. */
  listFlavors(options?: RequestOptions): Promise<NovaFlavor[]>;
  /** From the image service's v2 API. */
  listImages(options?: RequestOptions): Promise<NovaImage[]>;
  /** From the network service's v2.0 API. */
  listNetworks(options?: RequestOptions): Promise<NovaNetwork[]>;
  /** Logs in and negotiates the microversion. */
  check(options?: RequestOptions): Promise<void>;
  /** Ends all connections; calls under way fail, and so do later ones. */
  close(): void;
}

export interface ComputeClientOptions {
  /** For each request, from the connection to the end of the answer; default 30,000. */
  timeoutMs?: number;
  /** Told about logins and the microversion. */
  logger?: Logger;
  /** Told about each request when it has ended, logins included: for metrics, see `requestMetrics`. */
  onRequest?: (request: EndedRequest) => void;
}

export function createComputeClient(config: CloudConfig, options: ComputeClientOptions = {}): ComputeClient {
  const http = createHttpClient({
    insecure: config.insecure,
    ...(config.caCertificates !== undefined && { caCertificates: config.caCertificates }),
    ...(options.timeoutMs !== undefined && { timeoutMs: options.timeoutMs }),
    ...(options.onRequest && { onRequest: options.onRequest }),
  });
  const identity = createIdentity(config, http, options.logger);
  let negotiation: Promise<string> | undefined;
  /** Milliseconds, by the `Date` of its last answer. */
  let novaIsAheadBy = 0;

  /** The one way to a service: token, a fresh one after a 401, messages that name the path within the service. */
  async function send(call: Call, signal?: AbortSignal): Promise<{ request: HttpRequest; answer: HttpAnswer }> {
    const attempt = async (session: Session) => {
      const request: HttpRequest = {
        service: SERVICE_NAMES[call.type],
        method: call.method,
        url: call.url(session),
        path: call.path,
        route: routeOf(call.path),
        headers: { 'X-Auth-Token': session.token, ...call.headers },
        secrets: [session.token],
        ...(call.query && { query: call.query }),
        ...(call.body !== undefined && { body: call.body }),
        ...(signal && { signal }),
      };
      return { request, answer: await http.request(request) };
    };
    const session = await identity.session(signal);
    try {
      return await attempt(session);
    } catch (error) {
      if (!isStatus(error, 401)) throw error;
      const fresh = await identity.replace(session, signal);
      return attempt(fresh).catch((error: unknown) => {
        throw isStatus(error, 401) && config.auth.type === 'applicationCredential' ? accessRulesError(error) : error;
      });
    }
  }

  function microversion(signal?: AbortSignal): Promise<string> {
    negotiation ??= negotiate().catch((error: unknown) => {
      negotiation = undefined;
      throw error;
    });
    return withSignal(negotiation, signal);
  }

  async function negotiate(): Promise<string> {
    try {
      const url = (session: Session) => `${computeUrl(session).root}/`;
      const { request, answer } = await send({ type: 'compute', method: 'GET', path: '/v2.1/', url });
      const range = parseVersion(answer.body);
      if (range === undefined) throw unexpectedAnswer(request, answer, "without the API's version");
      const chosen = chooseMicroversion(range, config.computeApiVersion);
      options.logger?.debug('Chose the microversion', { microversion: chosen, ...range });
      return chosen;
    } catch (error) {
      throw error instanceof NovaError ? negotiationError(error) : error;
    }
  }

  function computeUrl(session: Session): { root: string; base: string } {
    const override = config.computeEndpointOverride?.replace(/%\((?:project|tenant)_id\)s/g, session.projectId);
    return computeUrls(override ?? endpointOf(session, 'compute', config));
  }

  async function nova(
    method: HttpRequest['method'],
    path: string,
    { signal }: RequestOptions = {},
    more: Pick<Call, 'query' | 'body'> = {},
  ): Promise<{ request: HttpRequest; answer: HttpAnswer }> {
    const call = (version: string): Call => ({
      ...more,
      type: 'compute',
      method,
      path,
      url: (session) => computeUrl(session).base + path,
      headers: { 'OpenStack-API-Version': `compute ${version}` },
    });
    const version = await microversion(signal);
    try {
      const answered = await send(call(version), signal);
      novaIsAheadBy = aheadBy(answered.answer.header('Date')) ?? novaIsAheadBy;
      return answered;
    } catch (error) {
      // 406: the range is another one since it was asked for, after an upgrade or its undoing.
      if (!isStatus(error, 406)) throw error;
      negotiation = undefined;
      const other = await microversion(signal);
      if (other === version) throw error;
      return send(call(other), signal);
    }
  }

  /** The item under `key`, as `parse` reads it. */
  async function one<T>(
    path: string,
    key: string,
    parse: (item: unknown) => T | undefined,
    requestOptions?: RequestOptions,
  ): Promise<T> {
    const { request, answer } = await nova('GET', path, requestOptions);
    const item = isRecord(answer.body) ? parse(answer.body[key]) : undefined;
    if (item === undefined) throw unexpectedAnswer(request, answer, `without a usable '${key}'`);
    return item;
  }

  /**
   * All pages of a list. The next page's address in the answer says only that there is one: it is asked for by marker
   * at the address already in use, so that no answer can send the token elsewhere.
   */
  async function all<T extends { id: string }>(
    ask: (query: Record<string, string>) => Promise<{ request: HttpRequest; answer: HttpAnswer }>,
    key: string,
    parse: (item: unknown) => T | undefined,
    query: Record<string, string> = {},
  ): Promise<T[]> {
    const items = new Map<string, T>();
    let marker: string | undefined;
    for (let page = 0; page < MAX_PAGES; page++) {
      const { request, answer } = await ask({ ...query, ...(marker !== undefined && { marker }) });
      const found = parseList(answer.body, key, parse);
      if (found === undefined) throw unexpectedAnswer(request, answer, `without a usable list '${key}'`);
      const before = items.size;
      for (const item of found) items.set(item.id, item);
      if (!hasNextPage(answer.body, key) || found.length === 0) return [...items.values()];
      if (items.size === before) throw unexpectedAnswer(request, answer, 'with a page that it had given before');
      marker = found.at(-1)?.id;
    }
    throw new NovaError('Unavailable', `the list of ${key} has more than ${MAX_PAGES} pages`, {
      outcomeUnknown: false,
    });
  }

  function listOf<T extends { id: string }>(
    type: 'image' | 'network',
    version: string,
    key: string,
    parse: (item: unknown) => T | undefined,
    requestOptions: RequestOptions = {},
  ): Promise<T[]> {
    const path = `/${version}/${key}`;
    const url = (session: Session) => `${withoutVersion(endpointOf(session, type, config))}${path}`;
    return all((query) => send({ type, method: 'GET', path, url, query }, requestOptions.signal), key, parse);
  }

  const listServers: ComputeClient['listServers'] = (query, requestOptions) =>
    all((page) => nova('GET', '/servers/detail', requestOptions, { query: page }), 'servers', parseServer, query);

  return {
    microversion: (requestOptions) => microversion(requestOptions?.signal),

    async createServer(server, { tags, schedulerHints, signal }) {
      const own: unknown = server.tags ?? [];
      if (!Array.isArray(own)) {
        throw new NovaError('BadRequest', 'server.tags must be a list of strings', { outcomeUnknown: false });
      }
      const body = {
        server: { ...server, tags: [...new Set([...(own as unknown[]), ...tags])] },
        ...(schedulerHints !== undefined && { 'os:scheduler_hints': schedulerHints }),
      };
      const { request, answer } = await nova('POST', '/servers', { ...(signal && { signal }) }, { body });
      const created = isRecord(answer.body) ? answer.body.server : undefined;
      if (!isRecord(created) || !isId(created.id)) {
        throw unexpectedAnswer(request, answer, "without a usable 'server'");
      }
      return { id: created.id, ...withRequestId(answer) };
    },

    getServer: async (id, requestOptions) =>
      one(
        serverPath(id),
        'server',
        (item) => {
          const server = parseServer(item);
          return server?.id.toLowerCase() === id.toLowerCase() ? server : undefined;
        },
        requestOptions,
      ),

    listServers,

    listChangedServers: (since, requestOptions) =>
      listServers({ 'changes-since': new Date(since + novaIsAheadBy).toISOString() }, requestOptions),

    async deleteServer(id, requestOptions) {
      const { answer } = await nova('DELETE', serverPath(id), requestOptions);
      return withRequestId(answer);
    },

    async serverAction(id, body, requestOptions) {
      const { answer } = await nova('POST', `${serverPath(id)}/action`, requestOptions, { body });
      return withRequestId(answer);
    },

    async listInstanceActions(id, requestOptions) {
      const { request, answer } = await nova('GET', `${serverPath(id)}/os-instance-actions`, requestOptions);
      const actions = parseList(answer.body, 'instanceActions', parseInstanceAction);
      if (actions === undefined) throw unexpectedAnswer(request, answer, "without a usable list 'instanceActions'");
      return actions;
    },

    getInstanceAction: async (id, requestId, requestOptions) =>
      one(
        `${serverPath(id)}/os-instance-actions/${pathSegment(requestId)}`,
        'instanceAction',
        parseInstanceActionDetail,
        requestOptions,
      ),

    async ownUserId(requestOptions) {
      return (await identity.session(requestOptions?.signal)).userId;
    },

    async ownProjectId(requestOptions) {
      return (await identity.session(requestOptions?.signal)).projectId;
    },

    listFlavors: (requestOptions) =>
      all((query) => nova('GET', '/flavors/detail', requestOptions, { query }), 'flavors', parseFlavor),

    listImages: (requestOptions) => listOf('image', 'v2', 'images', parseImage, requestOptions),

    listNetworks: (requestOptions) => listOf('network', 'v2.0', 'networks', parseNetwork, requestOptions),

    async check(requestOptions) {
      await microversion(requestOptions?.signal);
    },

    close: () => http.close(),
  };
}

interface Call {
  type: ServiceType;
  method: HttpRequest['method'];
  /** Within the service. */
  path: string;
  url: (session: Session) => string;
  query?: Record<string, string>;
  headers?: Record<string, string>;
  body?: unknown;
}

const SERVICE_NAMES: Record<ServiceType, string> = { compute: 'Nova', image: 'Glance', network: 'Neutron' };

/**
 * From the catalog's address, with or without a version or a project's id at its end, the versioned root (which needs
 * a slash at its end when asked: `nova/api/openstack/compute/routes.py` redirects without) and the base of all paths.
 * `/v2` is the same API without microversions, so `/v2.1` is taken instead.
 */
function computeUrls(endpoint: string): { root: string; base: string } {
  const url = withoutSlashes(endpoint);
  const match = /^(.*)\/v2(?:\.[01])?(\/[^/]+)?$/.exec(url);
  if (match === null) return { root: `${url}/v2.1`, base: `${url}/v2.1` };
  const root = `${match[1]}/v2.1`;
  return { root, base: root + (match[2] ?? '') };
}

function withoutVersion(endpoint: string): string {
  return endpoint.replace(/\/v\d+(?:\.\d+)?$/, '');
}

/** The older of Nova's newest and this client's, or the pinned one; else `Configuration`. */
function chooseMicroversion(nova: { oldest: string; newest: string }, pinned: string | undefined): string {
  const range = `${nova.oldest} to ${nova.newest}`;
  if (pinned !== undefined) {
    if (minorOf(pinned) < minorOf(nova.oldest) || minorOf(pinned) > minorOf(nova.newest)) {
      throw new NovaError(
        'Configuration',
        `microversion ${pinned} is pinned (OS_COMPUTE_API_VERSION), and this Nova has ${range}: pin one of these, or none`,
      );
    }
    return pinned;
  }
  if (minorOf(nova.newest) < minorOf(OLDEST_MICROVERSION) || minorOf(nova.oldest) > minorOf(NEWEST_MICROVERSION)) {
    throw new NovaError(
      'Configuration',
      `this Nova has microversions ${range}, and temporal-nova needs one from ${OLDEST_MICROVERSION} ` +
        `to ${NEWEST_MICROVERSION}`,
    );
  }
  return minorOf(nova.newest) < minorOf(NEWEST_MICROVERSION) ? nova.newest : NEWEST_MICROVERSION;
}

/** Whatever the negotiation was for was not sent. */
function negotiationError(error: NovaError): NovaError {
  const isWrongAddress = error.kind === 'NotFound' || error.kind === 'BadRequest' || error.kind === 'Conflict';
  return isWrongAddress
    ? new NovaError(
        'Configuration',
        `${error.message} (is the compute endpoint, in the catalog or OS_COMPUTE_ENDPOINT_OVERRIDE, Nova's?)`,
        { ...error.details, outcomeUnknown: false },
      )
    : new NovaError(error.kind, error.message, { ...error.details, outcomeUnknown: false });
}

/** `Date` has whole seconds: half a one is added. */
function aheadBy(date: string | undefined): number | undefined {
  const ms = httpDate(date);
  return ms === undefined ? undefined : ms + 500 - Date.now();
}

function isStatus(error: unknown, status: number): error is NovaError {
  return error instanceof NovaError && error.details.httpStatus === status;
}

/** keystonemiddleware answers a request that they don't allow as it answers a bad token. */
function accessRulesError({ kind, message, details }: NovaError): NovaError {
  return new NovaError(
    kind,
    `${message} The login was good: the application credential's access rules may not allow this request.`,
    details,
  );
}

function serverPath(id: string): string {
  return `/servers/${pathSegment(id)}`;
}

/** A path of this file without its ids: of routes there are a dozen, of ids any number. */
function routeOf(path: string): string {
  return path
    .replace(/^\/servers\/(?!detail$)[^/]+/, '/servers/{server_id}')
    .replace(/\/os-instance-actions\/[^/]+$/, '/os-instance-actions/{request_id}');
}

/** `.` and `..` would be another path, nothing would be the list, and half of a character can't be written in a path. */
function pathSegment(id: string): string {
  if (/^\.{0,2}$|\p{Cs}/u.test(id))
    throw new NovaError('BadRequest', `'${id}' is not an id`, { outcomeUnknown: false });
  return encodeURIComponent(id);
}

function withRequestId({ requestId }: HttpAnswer): { requestId?: string } {
  return requestId === undefined ? {} : { requestId };
}

/** Undefined when one item is not what it should be: a list with a gap could hide the server that is looked for. */
function parseList<T>(body: unknown, key: string, parse: (item: unknown) => T | undefined): T[] | undefined {
  const list = isRecord(body) ? body[key] : undefined;
  if (!Array.isArray(list)) return undefined;
  const items: T[] = [];
  for (const item of list as unknown[]) {
    const parsed = parse(item);
    if (parsed === undefined) return undefined;
    items.push(parsed);
  }
  return items;
}

/** Nova and Neutron: `servers_links: [{ rel: 'next', href }]`; Glance: `next`. */
function hasNextPage(body: unknown, key: string): boolean {
  if (!isRecord(body)) return false;
  const links = body[`${key}_links`];
  return (
    typeof body.next === 'string' ||
    (Array.isArray(links) && (links as unknown[]).some((link) => isRecord(link) && link.rel === 'next'))
  );
}
