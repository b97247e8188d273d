/** Making servers: `POST /servers`. */
import { randomBytes, randomInt } from 'node:crypto';
import { Instance } from './instance';
import { Refusal, json, type Answer } from './message';
import type { Flavor, InstanceSpec } from './model';
import { authorize } from './policies';
import { FLAVORS, type Context, type Store } from './store';
import { isTrue, isUuid, validateCreate, type CreateRequest } from './validation';
import { serverLinks } from './views';

/** `POST /servers`. */
export function create(store: Store, context: Context): Answer {
  const wanted = validateCreate(json(context.request), context.version);
  const count = Number(wanted.max_count ?? wanted.min_count ?? 1);
  if (Number(wanted.min_count ?? 1) > count) throw new Refusal(400, 'min_count must be <= max_count');
  authorize(context, 'os_compute_api:servers:create');
  if (wanted.networks !== undefined && wanted.networks !== 'none' && wanted.networks.length > 0) {
    authorize(context, 'os_compute_api:servers:create:attach_network');
  }
  const [, forcedHost] = (wanted.availability_zone ?? '').split(':');
  if (forcedHost) authorize(context, 'os_compute_api:servers:create:forced_host');
  if (wanted.host !== undefined) authorize(context, 'compute:servers:create:requested_destination');
  checkReferences(store, wanted, forcedHost || wanted.host);
  const flavor = flavorOf(wanted.flavorRef);
  const networked = wantsNetwork(store, wanted);
  checkQuota(store, context.caller.projectId, Number(wanted.min_count ?? 1));
  const reservationId = `r-${randomBytes(6).toString('hex').slice(0, 8)}`;
  const made = Array.from({ length: count }, (_, index) => {
    const spec = { ...specOf(context, wanted, networked), flavor, reservationId, launchIndex: index };
    if (count > 1) spec.name += `-${index + 1}`;
    const host = (forcedHost || wanted.host) ?? store.hosts[store.live.size % store.hosts.length]!.name;
    const instance = new Instance(spec, context.now, context.requestId, store.options, host);
    store.add(instance);
    return instance;
  });
  if (isTrue(wanted.return_reservation_id)) return { status: 202, body: { reservation_id: reservationId } };
  const { id } = made[0]!;
  const server = {
    id,
    links: serverLinks(id, store.root),
    'OS-DCF:diskConfig': 'MANUAL',
    security_groups: wanted.security_groups ?? [{ name: 'default' }],
    adminPass: wanted.adminPass ?? password(),
  };
  return { status: 202, headers: { Location: `${store.root}/v2.1/servers/${id}` }, body: { server } };
}

/** Whether it shall be on a network. Throws for one that there is not. */
function wantsNetwork(store: Store, wanted: CreateRequest): boolean {
  if (wanted.networks === 'none') return false;
  if (wanted.networks === undefined || wanted.networks === 'auto') return true;
  for (const { uuid, port } of wanted.networks) {
    if (port !== undefined && port !== null) throw new Refusal(400, `Port ${port} could not be found.`);
    if (uuid === undefined) throw new Refusal(400, "Bad network format: missing 'uuid'");
    if (!isUuid(uuid)) throw new Refusal(400, `Bad networks format: network uuid is not in proper format (${uuid})`);
    if (uuid !== store.options.networkId) throw new Refusal(400, `Network ${uuid} could not be found.`);
  }
  return wanted.networks.length > 0;
}

/** Throws for an image or a host that there is not. */
function checkReferences(store: Store, wanted: CreateRequest, wantedHost: string | undefined): void {
  const hasDevices = (wanted.block_device_mapping_v2 ?? wanted.block_device_mapping ?? []).length > 0;
  if (wanted.imageRef === undefined && !hasDevices) throw new Refusal(400, 'Missing imageRef attribute');
  if (wanted.imageRef === '' && !hasDevices) throw new Refusal(400, 'Invalid imageRef provided.');
  if (wanted.imageRef !== undefined && wanted.imageRef !== '' && wanted.imageRef !== store.options.imageId) {
    throw new Refusal(400, 'Can not find requested image');
  }
  if (wantedHost !== undefined && store.hosts.every((host) => host.name !== wantedHost)) {
    throw new Refusal(400, `Compute host ${wantedHost} could not be found.`);
  }
}

/** Throws Nova's 400 for a flavor that there is not. */
export function flavorOf(reference: string | number): Flavor {
  const flavor = FLAVORS.find((one) => one.id === String(reference));
  if (flavor === undefined) throw new Refusal(400, `Flavor ${reference} could not be found.`);
  return flavor;
}

function specOf(
  context: Context,
  wanted: CreateRequest,
  networked: boolean,
): Omit<InstanceSpec, 'flavor' | 'reservationId' | 'launchIndex'> {
  const name = wanted.name.trim();
  return {
    name,
    caller: context.caller,
    imageId: wanted.imageRef ?? '',
    metadata: wanted.metadata ?? {},
    tags: wanted.tags ?? [],
    addresses: networked ? { private: [address()] } : {},
    description: wanted.description ?? (context.version < 219 ? name : null),
    hostname: wanted.hostname ?? hostnameOf(name),
    availabilityZone: wanted.availability_zone?.split(':')[0] || null,
    keyName: wanted.key_name ?? null,
    userData: wanted.user_data ?? null,
    configDrive: isTrue(wanted.config_drive) ? 'True' : '',
    securityGroups: wanted.security_groups ?? [{ name: 'default' }],
  };
}

function checkQuota(store: Store, projectId: string | null, requested: number): void {
  const quota = store.quotaOf(projectId);
  if (quota === Infinity) return;
  const used = store.used(projectId);
  if (used + requested <= quota) return;
  throw new Refusal(
    403,
    `Quota exceeded for instances: Requested ${requested}, but already used ${used} of ${quota} instances`,
  );
}

function hostnameOf(name: string): string {
  const label = name.toLowerCase().replace(/[^a-z0-9-]+/g, '-');
  return label.slice(0, 63);
}

export function password(): string {
  return randomBytes(9).toString('base64url');
}

function address(): object {
  const mac = ['fa', '16', '3e', ...Array.from(randomBytes(3), (byte) => byte.toString(16).padStart(2, '0'))].join(':');
  const addr = `10.0.${randomInt(256)}.${randomInt(2, 255)}`;
  return { version: 4, addr, 'OS-EXT-IPS:type': 'fixed', 'OS-EXT-IPS-MAC:mac_addr': mac };
}
