/** How Nova shows servers and instance actions (nova/api/openstack/compute/views/), by microversion and by caller. */
import { createHash } from 'node:crypto';
import type { InstanceAction } from './action-log';
import type { Instance } from './instance';
import type { Caller } from './model';
import type { Microversion } from './validation';

/** What a view depends on besides what it shows. */
export interface Viewer {
  caller: Caller;
  version: Microversion;
  /** The service's root, without a slash at its end. */
  root: string;
  /** Whether Nova's policy allows it to the caller. */
  can: (rule: string) => boolean;
}

const FAULT_STATUSES = ['ERROR', 'DELETED'];
const PROGRESS_STATUSES = ['ACTIVE', 'BUILD', 'REBUILD', 'RESIZE', 'VERIFY_RESIZE', 'MIGRATING'];

const seconds = (at: number): string => new Date(at).toISOString().slice(0, 19);
/** '2026-11-30T19:45:38Z' */
const zulu = (at: number): string => `${seconds(at)}Z`;
/** '2026-11-30T19:45:38.000000': the database keeps whole seconds, and this format has no zone. */
const naive = (at: number | null): string | null => (at === null ? null : `${seconds(at)}.000000`);

const hostIds = new Map<string, string>();

/** The same host of another project has another id, so that tenants can't compare (nova.utils.generate_hostid). */
function hostId(host: string | null, projectId: string | null): string {
  if (host === null) return '';
  const key = `${projectId}${host}`;
  let id = hostIds.get(key);
  if (id === undefined) {
    id = createHash('sha224').update(key).digest('hex');
    hostIds.set(key, id);
  }
  return id;
}

export function serverLinks(id: string, root: string): object[] {
  return [
    { rel: 'self', href: `${root}/v2.1/servers/${id}` },
    { rel: 'bookmark', href: `${root}/servers/${id}` },
  ];
}

export function serverSummary(instance: Instance, { root, version }: Viewer): object {
  const links = serverLinks(instance.id, root);
  if (instance.downCell && version >= 269) return { id: instance.id, status: 'UNKNOWN', links };
  return { id: instance.id, name: instance.name, links };
}

/** `list`: in a list some keys are missing. */
export function serverDetail(instance: Instance, viewer: Viewer, list = false): object {
  const { version, root, can } = viewer;
  if (instance.downCell && version >= 269) return fromDownCell(instance, viewer, list);
  const { spec, status } = instance;
  const view: Record<string, unknown> = {
    id: instance.id,
    name: instance.name,
    status,
    tenant_id: instance.projectId ?? '',
    user_id: instance.userId ?? '',
    metadata: instance.gone ? {} : instance.metadata,
    hostId: hostId(instance.host, instance.projectId),
    image: image(instance, root),
    flavor: flavor(instance, version, root),
    created: zulu(instance.createdAt),
    updated: zulu(instance.updatedAt),
    addresses: instance.vmState === 'building' || instance.gone ? {} : spec.addresses,
    accessIPv4: '',
    accessIPv6: '',
    links: serverLinks(instance.id, root),
    'OS-DCF:diskConfig': 'MANUAL',
  };
  // A list looks for faults in one database only, not in each cell's (nova/objects/instance.py, `fill_faults`).
  const isHidden = list && instance.inCell0;
  if (FAULT_STATUSES.includes(status) && instance.fault !== null && !isHidden) {
    const { code, message, created, details } = instance.fault;
    view['fault'] = { code, created: zulu(created), message };
    if (details !== undefined && (viewer.caller.isAdmin || code !== 500))
      (view['fault'] as Record<string, unknown>)['details'] = details;
  }
  if (PROGRESS_STATUSES.includes(status)) view['progress'] = 0;
  view['OS-EXT-AZ:availability_zone'] = instance.host === null ? (spec.availabilityZone ?? '') : 'nova';
  view['config_drive'] = spec.configDrive;
  view['key_name'] = spec.keyName;
  view['OS-SRV-USG:launched_at'] = naive(instance.launchedAt);
  view['OS-SRV-USG:terminated_at'] = naive(instance.terminatedAt);
  if (can('os_compute_api:os-extended-server-attributes')) Object.assign(view, extendedAttributes(instance, version));
  view['OS-EXT-STS:task_state'] = instance.taskState;
  view['OS-EXT-STS:vm_state'] = instance.vmState;
  view['OS-EXT-STS:power_state'] = instance.powerState;
  view['os-extended-volumes:volumes_attached'] = [];
  if (version >= 216 && can('os_compute_api:servers:show:host_status'))
    view['host_status'] = instance.host === null ? '' : 'UP';
  if (version >= 209) view['locked'] = instance.lockedBy !== null;
  if (version >= 273) view['locked_reason'] = instance.lockedReason;
  if (version >= 219) view['description'] = instance.description;
  if (version >= 226) view['tags'] = instance.gone ? [] : instance.tags;
  if (version >= 263) view['trusted_image_certificates'] = null;
  if (version >= 290) view['OS-EXT-SRV-ATTR:hostname'] = spec.hostname;
  if (version >= 271 && !list) view['server_groups'] = [];
  if (Object.keys(spec.addresses).length > 0 && instance.vmState !== 'building')
    view['security_groups'] = spec.securityGroups;
  return view;
}

/** All that is known of a server whose cell does not answer: `_show_from_down_cell`. */
function fromDownCell(instance: Instance, { root, version }: Viewer, list: boolean): object {
  const known = {
    id: instance.id,
    status: 'UNKNOWN',
    tenant_id: instance.projectId,
    created: zulu(instance.createdAt),
    links: serverLinks(instance.id, root),
  };
  if (list) return known;
  return {
    ...known,
    image: image(instance, root),
    flavor: flavor(instance, version, root),
    'OS-EXT-AZ:availability_zone': instance.spec.availabilityZone ?? 'UNKNOWN',
    'OS-EXT-STS:power_state': 0,
    user_id: instance.userId,
    ...(version >= 271 ? { server_groups: [] } : {}),
  };
}

function image(instance: Instance, root: string): object | string {
  const { imageId } = instance.spec;
  if (imageId === '') return '';
  return { id: imageId, links: [{ rel: 'bookmark', href: `${root}/images/${imageId}` }] };
}

function flavor(instance: Instance, version: Microversion, root: string): object {
  const { id, name, vcpus, ram, disk } = instance.flavor;
  if (version < 247) return { id, links: [{ rel: 'bookmark', href: `${root}/flavors/${id}` }] };
  return { vcpus, ram, disk, ephemeral: 0, swap: 0, original_name: name, extra_specs: {} };
}

function extendedAttributes(instance: Instance, version: Microversion): object {
  const { spec } = instance;
  const basic = {
    'OS-EXT-SRV-ATTR:host': instance.host,
    'OS-EXT-SRV-ATTR:instance_name': `instance-${instance.id.slice(0, 8)}`,
    'OS-EXT-SRV-ATTR:hypervisor_hostname': instance.host,
  };
  if (version < 203) return basic;
  return {
    ...basic,
    'OS-EXT-SRV-ATTR:reservation_id': spec.reservationId,
    'OS-EXT-SRV-ATTR:launch_index': spec.launchIndex,
    'OS-EXT-SRV-ATTR:hostname': spec.hostname,
    'OS-EXT-SRV-ATTR:kernel_id': '',
    'OS-EXT-SRV-ATTR:ramdisk_id': '',
    'OS-EXT-SRV-ATTR:root_device_name': '/dev/sda',
    'OS-EXT-SRV-ATTR:user_data': spec.userData,
  };
}

export function actionView(instance: Instance, action: InstanceAction, version: Microversion): object {
  const view = {
    action: action.action,
    instance_uuid: instance.id,
    request_id: action.requestId,
    user_id: action.userId,
    project_id: action.projectId,
    start_time: naive(action.startTime),
    message: action.message,
  };
  return version >= 258 ? { ...view, updated_at: naive(action.updatedAt) } : view;
}

/** One action with its events: for all from 2.51 on, with traceback, host and details for administrators. */
export function actionDetail(instance: Instance, action: InstanceAction, viewer: Viewer): object {
  const { version, can } = viewer;
  const view = actionView(instance, action, version);
  if (version < 251 && !can('os_compute_api:os-instance-actions:events')) return view;
  return { ...view, events: action.event === null ? [] : [event(instance, action, viewer)] };
}

function event(instance: Instance, action: InstanceAction, { version, can }: Viewer): object {
  const showsAll = can('os_compute_api:os-instance-actions:events');
  const { event: name, finishTime, result, host, details } = action.event!;
  const view: Record<string, unknown> = {
    event: name,
    start_time: naive(action.startTime),
    finish_time: naive(finishTime),
    result,
  };
  if (showsAll) view['traceback'] = result === 'Error' ? `Traceback (most recent call last): ${details ?? ''}` : null;
  if (showsAll && version >= 262) view['host'] = host;
  if (version >= 262) view['hostId'] = hostId(host, instance.projectId);
  if (version >= 284 && can('os_compute_api:os-instance-actions:events:details')) view['details'] = details;
  return view;
}
