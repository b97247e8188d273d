/** What an operator of the cloud looks at: flavors, hosts, quotas. */
import { NOT_FOUND, Refusal, json, type Answer } from './message';
import type { Flavor } from './model';
import { authorize, forbid } from './policies';
import { FLAVORS, type Context, type Host, type Store } from './store';

export function flavors({ root, version }: Context, id: string | undefined): Answer {
  const links = (flavor: Flavor) => [
    { rel: 'self', href: `${root}/v2.1/flavors/${flavor.id}` },
    { rel: 'bookmark', href: `${root}/flavors/${flavor.id}` },
  ];
  const detail = (flavor: Flavor) => ({
    ...flavor,
    swap: version < 275 ? '' : 0,
    'OS-FLV-EXT-DATA:ephemeral': 0,
    'OS-FLV-DISABLED:disabled': false,
    'os-flavor-access:is_public': true,
    rxtx_factor: 1,
    links: links(flavor),
    ...(version >= 255 ? { description: null } : {}),
    ...(version >= 261 ? { extra_specs: {} } : {}),
  });
  const brief = (flavor: Flavor) => ({ id: flavor.id, name: flavor.name, links: links(flavor) });
  if (id === undefined) return { status: 200, body: { flavors: FLAVORS.map(brief) } };
  if (id === 'detail') return { status: 200, body: { flavors: FLAVORS.map(detail) } };
  const flavor = FLAVORS.find((one) => one.id === id);
  if (flavor === undefined) throw new Refusal(404, `Flavor ${id} could not be found.`);
  return { status: 200, body: { flavor: detail(flavor) } };
}

/** `GET /os-services`, and `PUT /os-services/{id}` with `forced_down`, as before an evacuation. */
export function services(store: Store, context: Context, id: string | undefined): Answer {
  const { method } = context.request;
  if (method === 'GET' && id === undefined) {
    authorize(context, 'os_compute_api:os-services:list');
    return { status: 200, body: { services: store.hosts.map((host) => service(host, context.now)) } };
  }
  if (method !== 'PUT' || id === undefined) return NOT_FOUND;
  authorize(context, 'os_compute_api:os-services:update');
  const host = store.hosts.find((one) => one.id === id);
  if (host === undefined) throw new Refusal(404, `Service ${id} not found.`);
  const { forced_down: down } = (json(context.request) ?? {}) as { forced_down?: boolean };
  if (down !== undefined) host.forcedDown = down;
  return { status: 200, body: { service: service(host, context.now) } };
}

function service(host: Host, now: number): object {
  return {
    binary: 'nova-compute',
    host: host.name,
    id: host.id,
    zone: 'nova',
    status: 'enabled',
    state: host.forcedDown ? 'down' : 'up',
    updated_at: `${new Date(now).toISOString().slice(0, 19)}.000000`,
    disabled_reason: null,
    forced_down: host.forcedDown,
  };
}

/** Nova's number for a quota without limit. */
const UNLIMITED = -1;

const shown = (quota: number): number => (quota === Infinity ? UNLIMITED : quota);

export function limits(store: Store, { caller: { projectId } }: Context): Answer {
  const absolute = { maxTotalInstances: shown(store.quotaOf(projectId)), totalInstancesUsed: store.used(projectId) };
  return { status: 200, body: { limits: { rate: [], absolute } } };
}

/** `/os-quota-sets/{project}`, for the number of instances. */
export function quotaSet(store: Store, context: Context, projectId: string): Answer {
  switch (context.request.method) {
    case 'GET':
      // Another project's is an administrator's to see.
      if (projectId !== context.caller.projectId && !context.caller.isAdmin) {
        forbid('os_compute_api:os-quota-sets:show');
      }
      break;
    case 'PUT': {
      authorize(context, 'os_compute_api:os-quota-sets:update');
      const { quota_set: wanted } = (json(context.request) ?? {}) as { quota_set?: { instances?: number } };
      if (wanted?.instances !== undefined) store.setQuotaOf(projectId, Number(wanted.instances));
      break;
    }
    case 'DELETE':
      authorize(context, 'os_compute_api:os-quota-sets:delete');
      store.setQuotaOf(projectId, undefined);
      return { status: 202 };
    default:
      return NOT_FOUND;
  }
  return { status: 200, body: { quota_set: { id: projectId, instances: shown(store.quotaOf(projectId)) } } };
}
