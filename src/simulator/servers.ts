/** `/servers/{id}` and what is below it, other than actions. */
import { checkState } from './actions';
import type { Instance } from './instance';
import { NOT_FOUND, Refusal, json, type Answer } from './message';
import { authorize, forbid } from './policies';
import { checkLock, maySee, type Context, type Store } from './store';
import { tag as validTag } from './validation';
import { actionDetail, actionView, serverDetail } from './views';

export function show(store: Store, context: Context, id: string): Answer {
  const instance = store.find(id);
  // A build request is found by everyone, and then forbidden (measured on Nova 26).
  if (instance?.inCell === false && !instance.gone && !maySee(context.caller, instance)) {
    forbid('os_compute_api:servers:show');
  }
  const shown = store.get(context, id);
  authorize(context, 'os_compute_api:servers:show');
  return { status: 200, body: { server: serverDetail(shown, context) } };
}

export function update(store: Store, context: Context, id: string): Answer {
  const instance = store.get(context, id);
  authorize(context, 'os_compute_api:servers:update');
  const wanted = (json(context.request) as { server?: { name?: string; description?: string } } | null)?.server;
  if (wanted === undefined) throw new Refusal(400, "'server' is a required property");
  if (wanted.name !== undefined) instance.name = wanted.name.trim();
  if (wanted.description !== undefined) instance.description = wanted.description;
  instance.updatedAt = context.now;
  return { status: 200, body: { server: serverDetail(instance, context) } };
}

export function remove(store: Store, context: Context, id: string): Answer {
  const instance = store.get(context, id);
  authorize(context, 'os_compute_api:servers:delete');
  checkLock(context, instance);
  instance.delete(context.now, context.requestId, context.caller, false);
  store.settle(instance, context.now);
  return { status: 204 };
}

/** From 2.21 on those of a deleted server can still be read. */
export function instanceActions(store: Store, context: Context, id: string, requestId: string | undefined): Answer {
  const found = store.find(id);
  const deleted = context.version >= 221 && found?.gone === true && maySee(context.caller, found);
  const instance = deleted ? found : store.get(context, id);
  authorize(context, `os_compute_api:os-instance-actions:${requestId === undefined ? 'list' : 'show'}`);
  if (requestId === undefined) {
    const views = instance.actions.map((action) => actionView(instance, action, context.version)).reverse();
    return { status: 200, body: { instanceActions: views } };
  }
  const action = instance.actions.find((one) => one.requestId === requestId);
  if (action === undefined) throw new Refusal(404, `Action ${requestId} not found`);
  return { status: 200, body: { instanceAction: actionDetail(instance, action, context) } };
}

const TAGS_RULES: Partial<Record<string, string>> = { GET: 'index', PUT: 'update_all', DELETE: 'delete_all' };
const TAG_RULES: Partial<Record<string, string>> = { GET: 'show', PUT: 'update', DELETE: 'delete' };

/** Tags are found by the server's cell mapping: those of another project's are not hidden, but forbidden. */
function ownTags(store: Store, context: Context, id: string, rule = 'index'): Instance {
  const found = store.find(id);
  if (found !== undefined && !found.gone && !maySee(context.caller, found)) {
    forbid(`os_compute_api:os-server-tags:${rule}`);
  }
  const instance = store.get(context, id);
  authorize(context, `os_compute_api:os-server-tags:${rule}`);
  return instance;
}

/** All tags of a server. */
export function tags(store: Store, context: Context, id: string): Answer {
  if (context.version < 226) return NOT_FOUND;
  const { method } = context.request;
  const instance = ownTags(store, context, id, TAGS_RULES[method]);
  switch (method) {
    case 'GET':
      return { status: 200, body: { tags: instance.tags } };
    case 'PUT': {
      const { tags = [] } = (json(context.request) ?? {}) as { tags?: string[] };
      tags.forEach((one, index) => validTag(one, index));
      store.replaceTags(instance, tags);
      return { status: 200, body: { tags } };
    }
    case 'DELETE':
      store.replaceTags(instance, []);
      return { status: 204 };
    default:
      return NOT_FOUND;
  }
}

/** One tag of a server. */
export function tag(store: Store, context: Context, id: string, name: string): Answer {
  if (context.version < 226) return NOT_FOUND;
  const { method } = context.request;
  const instance = ownTags(store, context, id, TAG_RULES[method]);
  const has = instance.tags.includes(name);
  if (method === 'PUT') {
    validTag(name, 0);
    if (has) return { status: 204 };
    store.replaceTags(instance, [...instance.tags, name]);
    return { status: 201, headers: { Location: `${store.root}/v2.1/servers/${id}/tags/${name}` } };
  }
  if (method !== 'GET' && method !== 'DELETE') return NOT_FOUND;
  if (!has) throw new Refusal(404, `Server ${id} has no tag '${name}'`);
  if (method === 'DELETE') {
    const left = instance.tags.filter((one) => one !== name);
    store.replaceTags(instance, left);
  }
  return { status: 204 };
}

/** Metadata can't be changed while building or in error; a running task does not matter. */
const METADATA_RULE = {
  vmStates: ['active', 'paused', 'suspended', 'stopped'],
  taskStates: 'any',
  neverLaunched: true,
} as const;

type Metadata = Record<string, string>;

/** Rules by method, for one key and for all of it. */
const METADATA_RULES: Record<string, [one: string, all: string]> = {
  GET: ['show', 'index'],
  PUT: ['update', 'update_all'],
  POST: ['create', 'create'],
  DELETE: ['delete', 'delete'],
};

export function metadata(store: Store, context: Context, id: string, key: string | undefined): Answer {
  const instance = store.get(context, id);
  const { method } = context.request;
  const rules = METADATA_RULES[method];
  if (rules === undefined) return NOT_FOUND;
  authorize(context, `os_compute_api:server-metadata:${rules[key === undefined ? 1 : 0]}`);
  const view = () =>
    key === undefined ? { metadata: instance.metadata } : { meta: { [key]: instance.metadata[key] } };
  if (key !== undefined && method !== 'PUT' && instance.metadata[key] === undefined) {
    throw new Refusal(404, 'Metadata item was not found');
  }
  if (method === 'GET') return { status: 200, body: view() };
  checkLock(context, instance);
  checkState(instance, METADATA_RULE, method === 'DELETE' ? 'delete metadata' : 'update metadata');
  instance.updatedAt = context.now;
  if (method === 'DELETE') {
    const left = Object.entries(instance.metadata).filter(([name]) => name !== key);
    instance.metadata = Object.fromEntries(left);
    return { status: 204 };
  }
  const body = (json(context.request) ?? {}) as { metadata?: Metadata; meta?: Metadata };
  const replaced = key === undefined && method === 'PUT';
  instance.metadata = { ...(replaced ? {} : instance.metadata), ...(key === undefined ? body.metadata : body.meta) };
  return { status: 200, body: view() };
}
