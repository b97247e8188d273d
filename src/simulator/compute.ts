/** Nova's API as it meets a request: token, microversion, URL, and the form of its answers. */
import { action } from './actions';
import { create } from './create';
import { list } from './list';
import { NOT_FOUND, Refusal, header, type Answer, type ServiceRequest } from './message';
import { newRequestId, type Caller } from './model';
import { isAllowed } from './policies';
import { flavors, limits, quotaSet, services } from './operations';
import { instanceActions, metadata, remove, show, tag, tags, update } from './servers';
import type { Context, Store } from './store';
import { microversion, type Microversion } from './validation';

/** The key under which Nova puts a fault into its body (nova/api/openstack/wsgi.py); others: computeFault. */
const FAULT_NAMES: Record<number, string> = {
  400: 'badRequest',
  401: 'unauthorized',
  403: 'forbidden',
  404: 'itemNotFound',
  405: 'badMethod',
  409: 'conflictingRequest',
  413: 'overLimit',
  415: 'badMediaType',
  429: 'overLimit',
  501: 'notImplemented',
  503: 'serviceUnavailable',
};

/** `caller` is undefined where the request's token is not good. */
export function compute(
  store: Store,
  request: ServiceRequest,
  caller: Caller | undefined,
  keystoneUrl: string,
): Answer {
  const requestId = newRequestId();
  const ids = { 'X-Openstack-Request-Id': requestId, 'X-Compute-Request-Id': requestId };
  const answer = versionDocument(store, request) ?? answerOf(store, request, caller, requestId, keystoneUrl);
  return { ...answer, headers: { ...answer.headers, ...ids } };
}

function answerOf(
  store: Store,
  request: ServiceRequest,
  caller: Caller | undefined,
  requestId: string,
  keystoneUrl: string,
): Answer {
  if (caller === undefined) return unauthorized(keystoneUrl);
  let versioned: Record<string, string> = {};
  try {
    const asked = requestedVersion(store, request);
    versioned = versionHeaders(asked);
    const version = supported(store, asked);
    const can = (rule: string) => isAllowed(rule, caller, store.policies);
    const answer = route(store, { caller, version, requestId, request, now: store.clock(), root: store.root, can });
    if (answer === NOT_FOUND) return noSuchUrl(request);
    return { ...answer, headers: { ...answer.headers, ...versioned } };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const { status, message } = error;
    const body = { [FAULT_NAMES[status] ?? 'computeFault']: { code: status, message } };
    return { status, headers: versioned, body };
  }
}

function route(store: Store, context: Context): Answer {
  const { request } = context;
  const [version, collection, id, member, key, ...rest] = request.segments;
  if (version !== 'v2.1' || rest.length > 0) return NOT_FOUND;
  const isGet = request.method === 'GET';
  switch (collection) {
    case 'servers':
      if (id === undefined) return servers(store, context);
      if (id === 'detail' && member === undefined && isGet) return list(store, context, true);
      return server(store, context, id, member, key);
    case 'flavors':
      return isGet && member === undefined ? flavors(context, id) : NOT_FOUND;
    case 'limits':
      return isGet && id === undefined ? limits(store, context) : NOT_FOUND;
    case 'os-quota-sets':
      return id === undefined ? NOT_FOUND : quotaSet(store, context, id);
    case 'os-services':
      return services(store, context, id);
    default:
      return NOT_FOUND;
  }
}

function servers(store: Store, context: Context): Answer {
  switch (context.request.method) {
    case 'GET':
      return list(store, context, false);
    case 'POST':
      return create(store, context);
    default:
      return NOT_FOUND;
  }
}

function server(
  store: Store,
  context: Context,
  id: string,
  member: string | undefined,
  key: string | undefined,
): Answer {
  switch (`${context.request.method} ${member ?? ''}`) {
    case 'GET ':
      return show(store, context, id);
    case 'PUT ':
      return update(store, context, id);
    case 'DELETE ':
      return remove(store, context, id);
    case 'POST action':
      return action(store, context, id);
    case 'GET os-instance-actions':
      return instanceActions(store, context, id, key);
  }
  if (member === 'tags') return key === undefined ? tags(store, context, id) : tag(store, context, id, key);
  if (member === 'metadata') return metadata(store, context, id, key);
  return NOT_FOUND;
}

/** The documents at `/` and `/v2.1`, for which no token is needed. */
function versionDocument({ options, root }: Store, { method, segments }: ServiceRequest): Answer | undefined {
  const [version] = segments;
  if (method !== 'GET' || segments.length > 1 || (version !== undefined && version !== 'v2.1')) return undefined;
  const { minVersion, maxVersion } = options;
  const self = { rel: 'self', href: `${root}/v2.1/` };
  const about = {
    id: 'v2.1',
    status: 'CURRENT',
    version: maxVersion,
    min_version: minVersion,
    updated: '2013-07-23T11:33:21Z',
  };
  if (version === undefined) return { status: 200, body: { versions: [{ ...about, links: [self] }] } };
  const links = [self, { rel: 'describedby', type: 'text/html', href: 'http://docs.openstack.org/' }];
  const types = [{ base: 'application/json', type: 'application/vnd.openstack.compute+json;version=2.1' }];
  const body = { version: { ...about, links, 'media-types': types } };
  return { status: 200, headers: versionHeaders(minVersion), body };
}

/** 'OpenStack-API-Version: compute 2.90', perhaps among other services', or Nova's older header. */
function requestedVersion({ options }: Store, request: ServiceRequest): string {
  const entry = (header(request, 'openstack-api-version') ?? '')
    .split(',')
    .map((one) => one.trim().split(/\s+/))
    .find(([service]) => service === 'compute');
  const asked = entry?.[1] ?? header(request, 'x-openstack-nova-api-version') ?? options.minVersion;
  if (asked === 'latest') return options.maxVersion;
  if (/^[1-9]\d*\.([1-9]\d*|0)$/.test(asked)) return asked;
  throw new Refusal(400, `API Version String ${asked} is of invalid format. Must be of format MajorNum.MinorNum.`);
}

function supported({ options: { minVersion, maxVersion } }: Store, asked: string): Microversion {
  const version = microversion(asked);
  if (version >= microversion(minVersion) && version <= microversion(maxVersion)) return version;
  const range = `Minimum is ${minVersion} and maximum is ${maxVersion}.`;
  throw new Refusal(406, `Version ${asked} is not supported by the API. ${range}`);
}

function versionHeaders(version: string): Record<string, string> {
  return {
    'Openstack-Api-Version': `compute ${version}`,
    'X-Openstack-Nova-Api-Version': version,
    Vary: 'OpenStack-API-Version, X-OpenStack-Nova-API-Version',
  };
}

/** keystonemiddleware's answer: it knows of no microversion. */
export function unauthorized(keystoneUrl: string): Answer {
  const error = { code: 401, title: 'Unauthorized', message: 'The request you have made requires authentication.' };
  return { status: 401, headers: { 'Www-Authenticate': `Keystone uri="${keystoneUrl}"` }, body: { error } };
}

function noSuchUrl(request: ServiceRequest): Answer {
  const message = 'The resource could not be found.<br /><br />\n\n\n';
  if ((header(request, 'accept') ?? '').includes('application/json')) {
    return { status: 404, body: { message, code: '404 Not Found', title: 'Not Found' } };
  }
  const title = '404 Not Found';
  const page = `<html>\n <head>\n  <title>${title}</title>\n </head>\n <body>\n  <h1>${title}</h1>\n  ${message}\n </body>\n</html>`;
  return { status: 404, body: page };
}
