/** Finding servers: the lists, their filters and pages. */
import type { Instance } from './instance';
import { Refusal, type Answer } from './message';
import { vmStatesOf } from './states';
import { authorize } from './policies';
import type { Context, Store } from './store';
import { isTrue, parseTime, regex, validateList } from './validation';
import { serverDetail, serverSummary } from './views';

/** Nova's `osapi_max_limit`. */
const MAX_LIMIT = 1000;

type Filter = (instance: Instance) => boolean;

/** `GET /servers` and `GET /servers/detail`. */
export function list(store: Store, context: Context, detail: boolean): Answer {
  const { caller, version, request } = context;
  const { query } = request;
  const rule = `os_compute_api:servers:${detail ? 'detail' : 'index'}`;
  authorize(context, rule);
  validateList(query, version);
  const statuses = query.getAll('status').map((status) => status.toUpperCase());
  const vmStates = statuses.flatMap(vmStatesOf);
  if (statuses.length > 0 && vmStates.length === 0) {
    if (version >= 238) throw new Refusal(400, 'Invalid status value');
    return { status: 200, body: { servers: [] } };
  }
  const onlyDeleted = vmStates.length > 0 && vmStates.every((vmState) => vmState === 'deleted');
  if (onlyDeleted && !caller.isAdmin) throw new Refusal(403, 'Only administrators may list deleted instances');
  const everyone = wantsEveryone(query);
  if (everyone) authorize(context, `${rule}:get_all_tenants`);
  const fits = filters(context, everyone, statuses);
  const deleted = onlyDeleted || (caller.isAdmin && isTrue(query.get('deleted')));
  const found = (deleted ? deletedOnes(store, context.now) : candidates(store, context)).filter((instance) =>
    fits.every((filter) => filter(instance)),
  );
  return page(store, context, found, detail);
}

/** `all_tenants` counts without a value, too. */
function wantsEveryone(query: URLSearchParams): boolean {
  const value = query.get('all_tenants');
  return value !== null && isTrue(value === '' ? '1' : value);
}

/** Newest first. */
function deletedOnes(store: Store, now: number): Instance[] {
  store.settleAll(now);
  return [...store.deleted.values()].reverse();
}

/** Newest first; with a time of change asked for also deleted ones; where a tag is, only those that carry it. */
function candidates(store: Store, { request: { query }, now, version }: Context): Instance[] {
  if (query.has('changes-since') || query.has('changes-before')) {
    store.settleAll(now);
    return [...store.live.values(), ...store.deleted.values()].sort((a, b) => b.createdAt - a.createdAt);
  }
  const tag = version >= 226 ? query.get('tags')?.split(',')[0] : undefined;
  if (tag !== undefined) return store.tagged(tag, now).reverse();
  store.settleAll(now);
  return [...store.live.values()].reverse();
}

/** Filters by query key, from the microversion (and, before it, for administrators) that knows them. */
const FILTERS: Record<string, { from?: number; adminFrom?: number; make: (value: string) => Filter }> = {
  name: { make: (value) => matches(value, (instance) => instance.name) },
  uuid: { adminFrom: 0, from: Infinity, make: (value) => (instance) => instance.id === value },
  host: { adminFrom: 0, from: Infinity, make: (value) => (instance) => instance.host === value },
  flavor: { make: (value) => (instance) => instance.flavor.id === value },
  image: { make: (value) => (instance) => instance.spec.imageId === value },
  reservation_id: { make: (value) => (instance) => instance.spec.reservationId === value },
  'changes-since': { make: (value) => after(parseTime(value)) },
  'changes-before': { from: 266, make: (value) => before(parseTime(value)) },
  tags: { from: 226, make: (value) => tagged(value, (wanted, tags) => wanted.every((tag) => tags.includes(tag))) },
  'tags-any': { from: 226, make: (value) => tagged(value, (wanted, tags) => wanted.some((tag) => tags.includes(tag))) },
  'not-tags': {
    from: 226,
    make: (value) => tagged(value, (wanted, tags) => !wanted.every((tag) => tags.includes(tag))),
  },
  'not-tags-any': {
    from: 226,
    make: (value) => tagged(value, (wanted, tags) => !wanted.some((tag) => tags.includes(tag))),
  },
  locked: { from: 273, make: (value) => (instance) => (instance.lockedBy !== null) === isTrue(value) },
  vm_state: { adminFrom: 0, from: 283, make: (value) => (instance) => instance.vmState === value },
  task_state: { adminFrom: 0, from: 283, make: (value) => (instance) => instance.taskState === value },
};

function filters({ caller, version, request }: Context, everyone: boolean, statuses: string[]): Filter[] {
  const found: Filter[] = [];
  if (!everyone) found.push((instance) => instance.projectId === caller.projectId);
  if (statuses.length > 0) found.push((instance) => statuses.includes(instance.status));
  for (const [key, value] of request.query) {
    const filter = FILTERS[key];
    if (filter === undefined) continue;
    const from = caller.isAdmin ? (filter.adminFrom ?? filter.from ?? 0) : (filter.from ?? 0);
    if (version >= from) found.push(filter.make(value));
  }
  // Nova can't look into a down cell to filter or to page, and leaves its servers out.
  if ([...request.query.keys()].some((key) => key !== 'all_tenants')) found.push((instance) => !instance.downCell);
  return found;
}

function matches(value: string, textOf: (instance: Instance) => string): Filter {
  const pattern = regex(value)!;
  return (instance) => pattern.test(textOf(instance));
}

function tagged(value: string, fits: (wanted: string[], tags: string[]) => boolean): Filter {
  const wanted = value.split(',');
  return (instance) => fits(wanted, instance.tags);
}

/** The database keeps whole seconds, and nothing of a build request, which therefore fits any time. */
const changed = (instance: Instance): number => Math.floor(instance.updatedAt / 1000) * 1000;
const after =
  (time: number): Filter =>
  (instance) =>
    !instance.goneUntold && (!instance.inCell || changed(instance) >= time);
const before =
  (time: number): Filter =>
  (instance) =>
    changed(instance) <= time;

function page(store: Store, context: Context, found: Instance[], detail: boolean): Answer {
  const { query } = context.request;
  const limit = Math.min(Number(query.get('limit') ?? MAX_LIMIT), MAX_LIMIT);
  const marker = query.get('marker');
  const start = marker === null ? 0 : found.findIndex((instance) => instance.id === marker) + 1;
  if (marker !== null && start === 0) throw new Refusal(400, `marker [${marker}] not found`);
  const shown = found.slice(start, start + limit);
  const servers = shown.map((one) => (detail ? serverDetail(one, context, true) : serverSummary(one, context)));
  if (shown.length < limit || limit === 0) return { status: 200, body: { servers } };
  const next = new URLSearchParams(query);
  next.set('marker', shown.at(-1)!.id);
  const href = `${store.root}/v2.1/servers${detail ? '/detail' : ''}?${next.toString()}`;
  return { status: 200, body: { servers, servers_links: [{ rel: 'next', href }] } };
}
