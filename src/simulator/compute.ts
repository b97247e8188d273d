/** Nova's API: what each request is answered, and what it does to the instances. */
import { randomBytes, randomInt } from 'node:crypto';
import { Instance, newRequestId, type Caller, type Flavor, type Surroundings } from './instance';
import { Refusal, header, type Answer, type ServiceRequest } from './message';
import { ACTIONS, vmStatesOf, type ActionRule } from './states';
import {
  isUuid,
  microversion,
  parseTime,
  regex,
  tag as validTag,
  validateAction,
  validateCreate,
  validateList,
  type CreateRequest,
  type Microversion,
} from './validation';
import { actionDetail, actionView, serverDetail, serverLinks, serverSummary, type Viewer } from './views';

export const FLAVORS: readonly Flavor[] = [
  { id: '1', name: 'm1.nano', vcpus: 1, ram: 64, disk: 1 },
  { id: '2', name: 'm1.micro', vcpus: 1, ram: 128, disk: 1 },
  { id: '3', name: 'm1.small', vcpus: 2, ram: 2048, disk: 20 },
  { id: '99', name: 'm1.impossible', vcpus: 1, ram: 64, disk: 1_000_000 },
];

/** Nova's `osapi_max_limit`. */
const MAX_LIMIT = 1000;

/** The key under which Nova puts a fault into its body (nova/api/openstack/wsgi.py). */
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

export interface ComputeOptions extends Surroundings {
  minVersion: string;
  maxVersion: string;
  quotaInstances: number;
  imageId: string;
  networkId: string;
  powerSyncMs: number;
}

interface Host {
  id: string;
  name: string;
  forcedDown: boolean;
}

/** A request once it is known who asks, and in which microversion. */
interface Context extends Viewer {
  requestId: string;
  request: ServiceRequest;
  now: number;
}

export class Compute {
  /** The service's root as clients reach it; known once the listener has its port. */
  root = '';
  readonly hosts: Host[];
  private readonly live = new Map<string, Instance>();
  private readonly gone = new Map<string, Instance>();
  private readonly byTag = new Map<string, Set<Instance>>();
  private readonly quotas = new Map<string, number>();

  constructor(
    private readonly clock: () => number,
    readonly options: ComputeOptions,
  ) {
    this.hosts = options.hosts.map((name) => ({ id: newRequestId().slice(4), name, forcedDown: false }));
  }

  // ---- what the control interface uses

  /** All instances, settled: oldest first. */
  instances(withDeleted = false): Instance[] {
    this.settleAll(this.clock());
    const live = [...this.live.values()];
    return withDeleted ? [...this.gone.values(), ...live].sort((a, b) => a.createdAt - b.createdAt) : live;
  }

  find(id: string): Instance | undefined {
    const now = this.clock();
    const instance = this.live.get(id);
    if (instance === undefined) return this.gone.get(id);
    this.settle(instance, now);
    return instance;
  }

  forget(id: string): void {
    const instance = this.live.get(id) ?? this.gone.get(id);
    if (instance !== undefined) this.untag(instance, instance.tags);
    this.live.delete(id);
    this.gone.delete(id);
  }

  crash(id: string): void {
    const now = this.clock();
    const instance = this.find(id);
    if (instance === undefined || instance.gone) throw new Error(`no server ${id}`);
    instance.crash();
    const every = this.options.powerSyncMs;
    if (every === 0) instance.syncPower(now);
    else instance.syncPowerAt(now + every);
  }

  syncPower(): void {
    const now = this.clock();
    for (const instance of this.instances()) instance.syncPower(now);
  }

  /** An action, or DELETE for 'DELETE', as it would be over HTTP. Throws `Refusal`. */
  actAs(caller: Caller, id: string, body: object | 'DELETE'): void {
    const now = this.clock();
    const context: Context = {
      caller,
      now,
      requestId: newRequestId(),
      version: microversion(this.options.maxVersion),
      root: this.root,
      request: { method: 'POST', segments: [], query: new URLSearchParams(), headers: {}, body: '' },
    };
    if (body === 'DELETE') this.delete(context, id);
    else this.act(context, id, body as Record<string, unknown>);
  }

  // ---- requests

  /** `caller` is undefined where the request's token is not good. */
  handle(request: ServiceRequest, caller: Caller | undefined, keystoneUrl: string): Answer {
    const requestId = newRequestId();
    const ids = { 'X-Openstack-Request-Id': requestId, 'X-Compute-Request-Id': requestId };
    const open = this.withoutToken(request);
    if (open !== undefined) return { ...open, headers: { ...open.headers, ...ids } };
    if (caller === undefined) {
      const body = {
        error: { code: 401, title: 'Unauthorized', message: 'The request you have made requires authentication.' },
      };
      return { status: 401, headers: { 'Www-Authenticate': `Keystone uri="${keystoneUrl}"`, ...ids }, body };
    }
    let versioned: Record<string, string> = {};
    let answer: Answer;
    try {
      const { version, asked } = this.negotiate(request);
      versioned = versionHeaders(asked);
      if (version === undefined) {
        const { minVersion, maxVersion } = this.options;
        throw new Refusal(
          406,
          `Version ${asked} is not supported by the API. Minimum is ${minVersion} and maximum is ${maxVersion}.`,
        );
      }
      answer = this.route({ caller, version, requestId, request, now: this.clock(), root: this.root });
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      answer = refused(error);
    }
    if (answer === NOT_FOUND) return { ...notFound(request), headers: { ...ids } };
    return { ...answer, headers: { ...answer.headers, ...versioned, ...ids } };
  }

  /** The version documents, which need no token. */
  private withoutToken(request: ServiceRequest): Answer | undefined {
    const [version, ...rest] = request.segments;
    if (request.method !== 'GET' || rest.length > 0) return undefined;
    const { minVersion, maxVersion } = this.options;
    const current = {
      id: 'v2.1',
      status: 'CURRENT',
      version: maxVersion,
      min_version: minVersion,
      updated: '2013-07-23T11:33:21Z',
    };
    const self = { rel: 'self', href: `${this.root}/v2.1/` };
    if (version === undefined) return { status: 200, body: { versions: [{ ...current, links: [self] }] } };
    if (version !== 'v2.1') return undefined;
    const links = [self, { rel: 'describedby', type: 'text/html', href: 'http://docs.openstack.org/' }];
    const types = [{ base: 'application/json', type: 'application/vnd.openstack.compute+json;version=2.1' }];
    return {
      status: 200,
      headers: versionHeaders(minVersion),
      body: { version: { ...current, links, 'media-types': types } },
    };
  }

  private negotiate(request: ServiceRequest): { version: Microversion | undefined; asked: string } {
    const { minVersion, maxVersion } = this.options;
    const entry = (header(request, 'openstack-api-version') ?? '')
      .split(',')
      .map((one) => one.trim().split(/\s+/))
      .find(([service]) => service === 'compute');
    const asked = entry?.[1] ?? header(request, 'x-openstack-nova-api-version') ?? minVersion;
    if (asked === 'latest') return { version: microversion(maxVersion), asked: maxVersion };
    if (!/^[1-9]\d*\.([1-9]\d*|0)$/.test(asked)) {
      throw new Refusal(400, `API Version String ${asked} is of invalid format. Must be of format MajorNum.MinorNum.`);
    }
    const version = microversion(asked);
    const supported = version >= microversion(minVersion) && version <= microversion(maxVersion);
    return { version: supported ? version : undefined, asked };
  }

  private route(context: Context): Answer {
    const { request } = context;
    const [version, collection, id, member, key, ...rest] = request.segments;
    if (version !== 'v2.1' || rest.length > 0) return NOT_FOUND;
    switch (collection) {
      case 'servers':
        if (id === undefined) return this.servers(context);
        if (id === 'detail' && member === undefined && request.method === 'GET') return this.list(context, true);
        return this.oneServer(context, id, member, key);
      case 'flavors':
        return request.method === 'GET' && member === undefined ? this.flavors(context, id) : NOT_FOUND;
      case 'limits':
        return request.method === 'GET' && id === undefined ? this.limits(context) : NOT_FOUND;
      case 'os-quota-sets':
        return id === undefined ? NOT_FOUND : this.quotaSet(context, id);
      case 'os-services':
        return this.services(context, id);
      default:
        return NOT_FOUND;
    }
  }

  private servers(context: Context): Answer {
    switch (context.request.method) {
      case 'GET':
        return this.list(context, false);
      case 'POST':
        return this.create(context);
      default:
        return NOT_FOUND;
    }
  }

  private oneServer(context: Context, id: string, member: string | undefined, key: string | undefined): Answer {
    const { method } = context.request;
    switch (`${method} ${member ?? ''}`) {
      case 'GET ':
        return this.show(context, id);
      case 'PUT ':
        return this.update(context, id);
      case 'DELETE ':
        this.delete(context, id);
        return { status: 204 };
      case 'POST action':
        return this.action(context, id);
      case 'GET os-instance-actions':
        return this.instanceActions(context, id, key);
    }
    if (member === 'tags') return this.tags(context, id, key);
    if (member === 'metadata') return this.metadata(context, id, key);
    return NOT_FOUND;
  }

  // ---- look-up

  private settle(instance: Instance, now: number): void {
    instance.settle(now);
    if (!instance.gone) return;
    this.live.delete(instance.id);
    this.gone.set(instance.id, instance);
    this.untag(instance, instance.tags);
  }

  private settleAll(now: number): void {
    for (const instance of this.live.values()) this.settle(instance, now);
  }

  /** What the caller may see: an owner sees only the own project's. */
  private seen(context: Context, id: string, from: Map<string, Instance>): Instance | undefined {
    const instance = from.get(id);
    if (instance === undefined) return undefined;
    return context.caller.isAdmin || instance.projectId === context.caller.projectId ? instance : undefined;
  }

  private show(context: Context, id: string): Answer {
    const instance = this.live.get(id);
    // A build request is found by everyone, and then forbidden (measured on Nova 26).
    if (instance !== undefined && this.seen(context, id, this.live) === undefined) {
      this.settle(instance, context.now);
      if (!instance.inCell) this.requireAdmin(context, 'os_compute_api:servers:show');
    }
    return { status: 200, body: { server: serverDetail(this.get(context, id), context) } };
  }

  private get(context: Context, id: string): Instance {
    const instance = this.seen(context, id, this.live);
    if (instance !== undefined) this.settle(instance, context.now);
    if (instance === undefined || instance.gone) throw new Refusal(404, `Instance ${id} could not be found.`);
    if (instance.downCell && context.version < 269) throw unexpectedError('nova.exception.NovaException');
    return instance;
  }

  /** From 2.21 on a deleted server's actions can still be read. */
  private getActed(context: Context, id: string): Instance {
    this.find(id);
    const deleted = context.version >= 221 ? this.seen(context, id, this.gone) : undefined;
    return deleted ?? this.get(context, id);
  }

  // ---- create

  private create(context: Context): Answer {
    const wanted = validateCreate(json(context.request), context.version);
    const count = Number(wanted.max_count ?? wanted.min_count ?? 1);
    if (Number(wanted.min_count ?? 1) > count) throw new Refusal(400, 'min_count must be <= max_count');
    if (wanted.host !== undefined) this.requireAdmin(context, 'compute:servers:create:requested_destination');
    const hasDevices = (wanted.block_device_mapping_v2 ?? wanted.block_device_mapping ?? []).length > 0;
    if (wanted.imageRef === undefined && !hasDevices) throw new Refusal(400, 'Missing imageRef attribute');
    if (wanted.imageRef === '' && !hasDevices) throw new Refusal(400, 'Invalid imageRef provided.');
    const flavor = FLAVORS.find((one) => one.id === String(wanted.flavorRef));
    if (flavor === undefined) throw new Refusal(400, `Flavor ${String(wanted.flavorRef)} could not be found.`);
    if (wanted.imageRef !== undefined && wanted.imageRef !== '' && wanted.imageRef !== this.options.imageId) {
      throw new Refusal(400, 'Can not find requested image');
    }
    if (wanted.host !== undefined && this.hosts.every((host) => host.name !== wanted.host)) {
      throw new Refusal(400, `Compute host ${wanted.host} could not be found.`);
    }
    const networks = this.requestedNetworks(wanted);
    this.checkQuota(context.caller.projectId, Number(wanted.min_count ?? 1));
    const reservationId = `r-${randomBytes(6).toString('base64url').toLowerCase().slice(0, 8)}`;
    const made = Array.from({ length: count }, (_, index) =>
      this.add(context, wanted, flavor, networks, reservationId, index, count),
    );
    if (isTrue(wanted.return_reservation_id)) return { status: 202, body: { reservation_id: reservationId } };
    const { id } = made[0]!;
    const server = {
      id,
      links: serverLinks(id, this.root),
      'OS-DCF:diskConfig': 'MANUAL',
      security_groups: wanted.security_groups ?? [{ name: 'default' }],
      adminPass: wanted.adminPass ?? password(),
    };
    return { status: 202, headers: { Location: `${this.root}/v2.1/servers/${id}` }, body: { server } };
  }

  private requestedNetworks(wanted: CreateRequest): boolean {
    if (wanted.networks === 'none') return false;
    if (wanted.networks === undefined || wanted.networks === 'auto') return true;
    for (const { uuid, port } of wanted.networks) {
      if (port !== undefined && port !== null) throw new Refusal(400, `Port ${port} could not be found.`);
      if (uuid === undefined) throw new Refusal(400, "Bad network format: missing 'uuid'");
      if (!isUuid(uuid)) throw new Refusal(400, `Bad networks format: network uuid is not in proper format (${uuid})`);
      if (uuid !== this.options.networkId) throw new Refusal(400, `Network ${uuid} could not be found.`);
    }
    return wanted.networks.length > 0;
  }

  private add(
    context: Context,
    wanted: CreateRequest,
    flavor: Flavor,
    networked: boolean,
    reservationId: string,
    index: number,
    count: number,
  ): Instance {
    const name = count > 1 ? `${wanted.name.trim()}-${index + 1}` : wanted.name.trim();
    const host = wanted.host ?? this.hosts[this.live.size % this.hosts.length]!.name;
    const instance = new Instance(
      {
        name,
        caller: context.caller,
        flavor,
        imageId: wanted.imageRef ?? '',
        metadata: wanted.metadata ?? {},
        tags: wanted.tags ?? [],
        addresses: networked ? { private: [address()] } : {},
        description: wanted.description ?? (context.version < 219 ? name : null),
        hostname:
          wanted.hostname ??
          name
            .toLowerCase()
            .replace(/[^a-z0-9-]+/g, '-')
            .slice(0, 63),
        availabilityZone: wanted.availability_zone ?? null,
        reservationId,
        launchIndex: index,
        keyName: wanted.key_name ?? null,
        userData: wanted.user_data ?? null,
        configDrive: isTrue(wanted.config_drive) ? 'True' : '',
        securityGroups: wanted.security_groups ?? [{ name: 'default' }],
      },
      context.now,
      context.requestId,
      this.options,
      host,
    );
    this.live.set(instance.id, instance);
    for (const tag of instance.tags) this.addTag(instance, tag);
    return instance;
  }

  // ---- quota

  setQuota(instances: number | undefined): void {
    this.quotas.clear();
    this.options.quotaInstances = instances ?? Infinity;
  }

  private quotaOf(projectId: string | null): number {
    return this.quotas.get(projectId ?? '') ?? this.options.quotaInstances;
  }

  private used(projectId: string | null): number {
    this.settleAll(this.clock());
    let used = 0;
    for (const instance of this.live.values()) if (instance.projectId === projectId) used++;
    return used;
  }

  private checkQuota(projectId: string | null, requested: number): void {
    const quota = this.quotaOf(projectId);
    if (quota === Infinity) return;
    const used = this.used(projectId);
    if (used + requested <= quota) return;
    throw new Refusal(
      403,
      `Quota exceeded for instances: Requested ${requested}, but already used ${used} of ${quota} instances`,
    );
  }

  private limits({ caller }: Context): Answer {
    const quota = this.quotaOf(caller.projectId);
    const absolute = {
      maxTotalInstances: quota === Infinity ? -1 : quota,
      totalInstancesUsed: this.used(caller.projectId),
    };
    return { status: 200, body: { limits: { rate: [], absolute } } };
  }

  private quotaSet(context: Context, projectId: string): Answer {
    const { method } = context.request;
    const view = () => {
      const quota = this.quotaOf(projectId);
      return { quota_set: { id: projectId, instances: quota === Infinity ? -1 : quota } };
    };
    switch (method) {
      case 'GET':
        return { status: 200, body: view() };
      case 'PUT': {
        this.requireAdmin(context, 'os_compute_api:os-quota-sets:update');
        const wanted = (json(context.request) as { quota_set?: { instances?: number } } | null)?.quota_set?.instances;
        if (wanted !== undefined) this.quotas.set(projectId, Number(wanted) < 0 ? Infinity : Number(wanted));
        return { status: 200, body: view() };
      }
      case 'DELETE':
        this.requireAdmin(context, 'os_compute_api:os-quota-sets:delete');
        this.quotas.delete(projectId);
        return { status: 202 };
      default:
        return NOT_FOUND;
    }
  }

  // ---- list

  private list(context: Context, detail: boolean): Answer {
    const { request, caller, version, now } = context;
    const { query } = request;
    validateList(query, version);
    const statuses = query.getAll('status');
    const vmStates = statuses.length === 0 ? undefined : statuses.flatMap(vmStatesOf);
    if (vmStates?.length === 0) {
      if (version >= 238) throw new Refusal(400, 'Invalid status value');
      return { status: 200, body: { servers: [] } };
    }
    const onlyDeleted = vmStates !== undefined && vmStates.every((state) => state === 'deleted');
    if (onlyDeleted && !caller.isAdmin) throw new Refusal(403, 'Only administrators may list deleted instances');
    const everyone =
      query.has('all_tenants') && query.get('all_tenants') !== '0' && isTrue(query.get('all_tenants') || '1');
    if (everyone) {
      this.requireAdmin(context, `os_compute_api:servers:${detail ? 'detail' : 'index'}:get_all_tenants`);
    }
    const since = query.get('changes-since');
    const before = query.get('changes-before');
    const deletedToo = since !== null || before !== null;
    const deletedOnly = onlyDeleted || (caller.isAdmin && isTrue(query.get('deleted')));
    const filters = this.filters(context, everyone, vmStates);
    const pool = deletedOnly ? this.deleted(now) : this.candidates(context, deletedToo);
    const found = pool.filter((instance) => filters.every((fits) => fits(instance)));
    return this.page(context, found, detail);
  }

  private deleted(now: number): Instance[] {
    this.settleAll(now);
    return [...this.gone.values()].reverse();
  }

  /** Newest first. One tag asked for: only those that carry it. */
  private candidates({ request: { query }, now, version }: Context, deletedToo: boolean): Instance[] {
    const wanted = version >= 226 ? query.get('tags')?.split(',') : undefined;
    if (wanted !== undefined && !deletedToo) {
      const tagged = [...(this.byTag.get(wanted[0]!) ?? [])];
      for (const instance of tagged) this.settle(instance, now);
      return tagged.filter((instance) => !instance.gone).reverse();
    }
    this.settleAll(now);
    const live = [...this.live.values()].reverse();
    if (!deletedToo) return live;
    return [...live, ...this.gone.values()].sort((a, b) => b.createdAt - a.createdAt);
  }

  private filters(
    context: Context,
    everyone: boolean,
    vmStates: string[] | undefined,
  ): ((instance: Instance) => boolean)[] {
    const { caller, version } = context;
    const { query } = context.request;
    const filters: ((instance: Instance) => boolean)[] = [];
    const on = (key: string, fits: (value: string) => (instance: Instance) => boolean) => {
      const value = query.get(key);
      if (value !== null) filters.push(fits(value));
    };
    const list = (value: string) => value.split(',');
    if (!everyone) filters.push((instance) => instance.projectId === caller.projectId);
    if (vmStates !== undefined) {
      const wanted = query.getAll('status').map((one) => one.toUpperCase());
      filters.push((instance) => wanted.includes(instance.status));
    }
    on('name', (value) => (instance) => regex(value)!.test(instance.name));
    on('uuid', (value) => (instance) => instance.id === value);
    on('flavor', (value) => (instance) => instance.flavor.id === value);
    on('image', (value) => (instance) => instance.spec.imageId === value);
    on('reservation_id', (value) => (instance) => instance.spec.reservationId === value);
    on('changes-since', (value) => (instance) => wholeSeconds(instance.updatedAt) >= parseTime(value));
    on('changes-before', (value) => (instance) => wholeSeconds(instance.updatedAt) <= parseTime(value));
    if (version >= 226) {
      on('tags', (value) => (instance) => list(value).every((one) => instance.tags.includes(one)));
      on('tags-any', (value) => (instance) => list(value).some((one) => instance.tags.includes(one)));
      on('not-tags', (value) => (instance) => !list(value).every((one) => instance.tags.includes(one)));
      on('not-tags-any', (value) => (instance) => !list(value).some((one) => instance.tags.includes(one)));
    }
    if (version >= 273) on('locked', (value) => (instance) => (instance.lockedBy !== null) === isTrue(value));
    if (version >= 283 || caller.isAdmin) {
      on('vm_state', (value) => (instance) => instance.vmState === value);
      on('task_state', (value) => (instance) => instance.taskState === value);
    }
    if (caller.isAdmin) on('host', (value) => (instance) => instance.host === value);
    // Nova can't look into a down cell for a filter, and leaves its servers out.
    if ([...query.keys()].some((key) => key !== 'all_tenants')) filters.push((instance) => !instance.downCell);
    return filters;
  }

  private page(context: Context, found: Instance[], detail: boolean): Answer {
    const { query } = context.request;
    const limit = Math.min(Number(query.get('limit') ?? MAX_LIMIT), MAX_LIMIT);
    const marker = query.get('marker');
    let start = 0;
    if (marker !== null) {
      start = found.findIndex((instance) => instance.id === marker) + 1;
      if (start === 0) throw new Refusal(400, `marker [${marker}] not found`);
    }
    const shown = limit === 0 ? [] : found.slice(start, start + limit);
    const servers = shown.map((one) => (detail ? serverDetail(one, context, true) : serverSummary(one, context)));
    if (shown.length < limit || limit === 0) return { status: 200, body: { servers } };
    const next = new URLSearchParams(query);
    next.set('marker', shown.at(-1)!.id);
    const href = `${this.root}/v2.1/servers${detail ? '/detail' : ''}?${next.toString()}`;
    return { status: 200, body: { servers, servers_links: [{ rel: 'next', href }] } };
  }

  // ---- one server

  private update(context: Context, id: string): Answer {
    const instance = this.get(context, id);
    const wanted = (json(context.request) as { server?: { name?: string; description?: string } } | null)?.server;
    if (wanted === undefined) throw new Refusal(400, "'server' is a required property");
    if (wanted.name !== undefined) instance.name = wanted.name.trim();
    if (wanted.description !== undefined) instance.description = wanted.description;
    instance.updatedAt = context.now;
    return { status: 200, body: { server: serverDetail(instance, context) } };
  }

  private delete(context: Context, id: string, force = false): void {
    const instance = this.get(context, id);
    this.checkLock(context, instance);
    instance.delete(context.now, context.requestId, context.caller, force);
    this.settle(instance, context.now);
  }

  private instanceActions(context: Context, id: string, requestId: string | undefined): Answer {
    const instance = this.getActed(context, id);
    if (requestId === undefined) {
      const views = instance.actions.map((action) => actionView(instance, action, context.version)).reverse();
      return { status: 200, body: { instanceActions: views } };
    }
    const action = instance.actions.find((one) => one.requestId === requestId);
    if (action === undefined) throw new Refusal(404, `Action ${requestId} not found`);
    return { status: 200, body: { instanceAction: actionDetail(instance, action, context) } };
  }

  private tags(context: Context, id: string, tag: string | undefined): Answer {
    if (context.version < 226) return NOT_FOUND;
    const instance = this.get(context, id);
    const { method } = context.request;
    if (tag === undefined) {
      if (method === 'PUT')
        this.replaceTags(instance, (json(context.request) as { tags?: string[] } | null)?.tags ?? [], context.now);
      else if (method === 'DELETE') this.replaceTags(instance, [], context.now);
      else if (method !== 'GET') return NOT_FOUND;
      return method === 'DELETE' ? { status: 204 } : { status: 200, body: { tags: instance.tags } };
    }
    const has = instance.tags.includes(tag);
    const missing = new Refusal(404, `Server ${id} has no tag '${tag}'`);
    switch (method) {
      case 'GET':
        if (!has) throw missing;
        return { status: 204 };
      case 'PUT':
        validTag(tag, 0);
        if (has) return { status: 204 };
        this.replaceTags(instance, [...instance.tags, tag], context.now);
        return { status: 201, headers: { Location: `${this.root}/v2.1/servers/${id}/tags/${tag}` } };
      case 'DELETE':
        if (!has) throw missing;
        this.replaceTags(
          instance,
          instance.tags.filter((one) => one !== tag),
          context.now,
        );
        return { status: 204 };
      default:
        return NOT_FOUND;
    }
  }

  private replaceTags(instance: Instance, tags: string[], now: number): void {
    this.untag(instance, instance.tags);
    instance.tags = [...tags];
    for (const tag of tags) this.addTag(instance, tag);
    instance.updatedAt = now;
  }

  private addTag(instance: Instance, tag: string): void {
    const tagged = this.byTag.get(tag);
    if (tagged === undefined) this.byTag.set(tag, new Set([instance]));
    else tagged.add(instance);
  }

  private untag(instance: Instance, tags: readonly string[]): void {
    for (const tag of tags) {
      const tagged = this.byTag.get(tag);
      tagged?.delete(instance);
      if (tagged?.size === 0) this.byTag.delete(tag);
    }
  }

  private metadata(context: Context, id: string, key: string | undefined): Answer {
    const instance = this.get(context, id);
    const { method } = context.request;
    if (method === 'GET') {
      if (key === undefined) return { status: 200, body: { metadata: instance.metadata } };
      if (instance.metadata[key] === undefined) throw new Refusal(404, 'Metadata item was not found');
      return { status: 200, body: { meta: { [key]: instance.metadata[key] } } };
    }
    this.checkLock(context, instance);
    this.checkState(instance, METADATA_RULE, method === 'DELETE' ? 'delete metadata' : 'update metadata');
    const body =
      method === 'DELETE'
        ? {}
        : (json(context.request) as { metadata?: Record<string, string>; meta?: Record<string, string> });
    const before = instance.metadata;
    const rest = Object.fromEntries(Object.entries(before).filter(([name]) => name !== key));
    if (method === 'DELETE') instance.metadata = rest;
    else if (key !== undefined) instance.metadata = { ...before, ...body.meta };
    else instance.metadata = method === 'PUT' ? { ...body.metadata } : { ...before, ...body.metadata };
    instance.updatedAt = context.now;
    if (method === 'DELETE') return { status: 204 };
    return {
      status: 200,
      body: key === undefined ? { metadata: instance.metadata } : { meta: { [key]: instance.metadata[key] } },
    };
  }

  // ---- actions

  private action(context: Context, id: string): Answer {
    const body = json(context.request);
    if (typeof body !== 'object' || body === null || Object.keys(body).length !== 1)
      throw new Refusal(400, 'Malformed request body');
    return this.act(context, id, body as Record<string, unknown>);
  }

  private act(context: Context, id: string, body: Record<string, unknown>): Answer {
    const [name, value] = Object.entries(body)[0] ?? ['', undefined];
    const known = name === 'reboot' || name in SPECIAL || ACTIONS[name] !== undefined;
    if (!known) throw new Refusal(400, `There is no such action: ${name}`);
    validateAction(name, value);
    const instance = this.findForAction(context, id, name);
    const special = SPECIAL[name];
    if (special !== undefined) return special(this, context, instance, value);
    const rule =
      name === 'reboot' ? ACTIONS[`reboot ${String((value as { type: string }).type).toUpperCase()}`]! : ACTIONS[name]!;
    if (rule.adminPolicy !== undefined) this.requireAdmin(context, rule.adminPolicy);
    if (name === 'evacuate') this.checkTarget(instance, value as { host?: string });
    if (rule.ignoresLock !== true) this.checkLock(context, instance);
    if (rule.needsHost === true && instance.host === null) throw new Refusal(409, `Instance ${id} is not ready`);
    this.checkState(instance, rule, rule.name);
    if (name === 'evacuate') this.checkHostIsDown(instance);
    const flavor = name === 'resize' ? this.newFlavor(instance, value as { flavorRef: string }) : undefined;
    instance.act(rule, context.now, context.requestId, context.caller, flavor);
    return this.answerTo(name, rule, instance, context, value);
  }

  private answerTo(name: string, rule: ActionRule, instance: Instance, context: Context, value: unknown): Answer {
    if (name === 'rescue')
      return { status: 200, body: { adminPass: (value as { adminPass?: string } | null)?.adminPass ?? password() } };
    if (name === 'rebuild') {
      const server = {
        ...serverDetail(instance, context),
        adminPass: (value as { adminPass?: string }).adminPass ?? password(),
      };
      return {
        status: rule.answer,
        headers: { Location: `${this.root}/v2.1/servers/${instance.id}` },
        body: { server },
      };
    }
    return { status: rule.answer };
  }

  /** The instance of an action: start and stop look for its cell first, and say so in other words. */
  private findForAction(context: Context, id: string, action: string): Instance {
    const byCell = action === 'os-start' || action === 'os-stop';
    if (byCell && !this.live.has(id) && !this.gone.has(id))
      throw new Refusal(404, `Instance ${id} has no mapping to a cell.`);
    const instance = this.get(context, id);
    if (instance.downCell) throw unexpectedError('oslo_db.exception.DBConnectionError');
    if (byCell && !instance.inCell) throw new Refusal(404, `Instance ${id} could not be found.`);
    return instance;
  }

  requireAdmin({ caller }: Context, policy: string): void {
    if (!caller.isAdmin) throw new Refusal(403, `Policy doesn't allow ${policy} to be performed.`);
  }

  checkLock({ caller }: Context, instance: Instance): void {
    if (instance.lockedBy !== null && !caller.isAdmin) throw new Refusal(409, `Instance ${instance.id} is locked`);
  }

  /** `check_instance_state` of nova/compute/api.py. */
  private checkState(
    instance: Instance,
    rule: Pick<ActionRule, 'vmStates' | 'taskStates' | 'neverLaunched'>,
    action: string,
  ): void {
    const refuse = (attribute: string, state: string) =>
      new Refusal(409, `Cannot '${action}' instance ${instance.id} while it is in ${attribute} ${state}`);
    const { vmStates, taskStates = [null] } = rule;
    if (vmStates !== 'any' && !(vmStates as readonly string[]).includes(instance.vmState))
      throw refuse('vm_state', instance.vmState);
    if (taskStates !== 'any' && !taskStates.includes(instance.taskState))
      throw refuse('task_state', String(instance.taskState));
    if (rule.neverLaunched !== true && instance.launchedAt === null) {
      throw new Refusal(409, `Instance ${instance.id} is in an invalid state for '${action}'`);
    }
  }

  private checkTarget(instance: Instance, { host }: { host?: string }): void {
    if (host !== undefined && this.hosts.every((one) => one.name !== host))
      throw new Refusal(404, `Compute host ${host} not found.`);
    if ((host ?? null) === instance.host) throw new Refusal(400, "The target host can't be the same one.");
  }

  private checkHostIsDown(instance: Instance): void {
    const host = this.hosts.find((one) => one.name === instance.host);
    if (host?.forcedDown !== true)
      throw new Refusal(400, `Compute service of ${instance.host ?? 'none'} is still in use.`);
  }

  private newFlavor(instance: Instance, { flavorRef }: { flavorRef: string | number }): Flavor {
    const flavor = FLAVORS.find((one) => one.id === String(flavorRef));
    if (flavor === undefined) throw new Refusal(400, `Flavor ${flavorRef} could not be found.`);
    if (flavor === instance.flavor) throw new Refusal(400, 'When resizing, instances must change flavor!');
    return flavor;
  }

  removeWithForce(context: Context, instance: Instance): void {
    this.delete(context, instance.id, true);
  }

  // ---- flavors and services

  private flavors({ version }: Context, id: string | undefined): Answer {
    const links = (flavor: Flavor) => [
      { rel: 'self', href: `${this.root}/v2.1/flavors/${flavor.id}` },
      { rel: 'bookmark', href: `${this.root}/flavors/${flavor.id}` },
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
    if (id === undefined) {
      return {
        status: 200,
        body: { flavors: FLAVORS.map((one) => ({ id: one.id, name: one.name, links: links(one) })) },
      };
    }
    if (id === 'detail') return { status: 200, body: { flavors: FLAVORS.map(detail) } };
    const flavor = FLAVORS.find((one) => one.id === id);
    if (flavor === undefined) throw new Refusal(404, `Flavor ${id} could not be found.`);
    return { status: 200, body: { flavor: detail(flavor) } };
  }

  private services(context: Context, id: string | undefined): Answer {
    const view = (host: Host) => ({
      binary: 'nova-compute',
      host: host.name,
      id: host.id,
      zone: 'nova',
      status: 'enabled',
      state: host.forcedDown ? 'down' : 'up',
      updated_at: `${new Date(context.now).toISOString().slice(0, 19)}.000000`,
      disabled_reason: null,
      forced_down: host.forcedDown,
    });
    if (context.request.method === 'GET' && id === undefined) {
      this.requireAdmin(context, 'os_compute_api:os-services:list');
      return { status: 200, body: { services: this.hosts.map(view) } };
    }
    if (context.request.method !== 'PUT' || id === undefined) return NOT_FOUND;
    this.requireAdmin(context, 'os_compute_api:os-services:update');
    const host = this.hosts.find((one) => one.id === id);
    if (host === undefined) throw new Refusal(404, `Service ${id} not found.`);
    const { forced_down: down } = json(context.request) as { forced_down?: boolean };
    if (down !== undefined) host.forcedDown = down;
    return { status: 200, body: { service: view(host) } };
  }
}

type Special = (compute: Compute, context: Context, instance: Instance, value: unknown) => Answer;

/** Actions that end at once, and forceDelete. */
const SPECIAL: Record<string, Special> = {
  'os-resetState': (compute, context, instance, value) => {
    compute.requireAdmin(context, 'os_compute_api:os-admin-actions:reset_state');
    if (!instance.inCell) throw unexpectedError('oslo_db.exception.DBReferenceError');
    instance.resetState((value as { state: 'active' | 'error' }).state, context.now, context.requestId, context.caller);
    return { status: 202 };
  },
  lock: (_compute, context, instance, value) => {
    const isOwner = instance.projectId === context.caller.projectId;
    const reason = (value as { locked_reason?: string } | null)?.locked_reason ?? null;
    // An owner's lock on a locked server changes nothing, an administrator's takes it over.
    if (instance.lockedBy === null || !isOwner) {
      instance.lock(isOwner ? 'owner' : 'admin', reason, context.now, context.requestId, context.caller);
    }
    return { status: 202 };
  },
  unlock: (compute, context, instance) => {
    const expected = instance.projectId === context.caller.projectId ? 'owner' : 'admin';
    if (instance.lockedBy !== null && instance.lockedBy !== expected) {
      compute.requireAdmin(context, 'os_compute_api:os-lock-server:unlock:unlock_override');
    }
    instance.unlock(context.now, context.requestId, context.caller);
    return { status: 202 };
  },
  forceDelete: (compute, context, instance) => {
    compute.removeWithForce(context, instance);
    return { status: 202 };
  },
};

/** Metadata can't be changed while building or in error, whatever the task. */
const METADATA_RULE = {
  vmStates: ['active', 'paused', 'suspended', 'stopped'],
  taskStates: 'any',
  neverLaunched: true,
} as const;

/** No such URL, or no such method on it: Nova's router answers that, in the form that the client asked for. */
const NOT_FOUND: Answer = { status: 404 };

function notFound(request: ServiceRequest): Answer {
  const text = 'The resource could not be found.<br /><br />\n\n\n';
  if ((header(request, 'accept') ?? '').includes('application/json')) {
    return { status: 404, body: { message: text, code: '404 Not Found', title: 'Not Found' } };
  }
  return {
    status: 404,
    body: `<html>\n <head>\n  <title>404 Not Found</title>\n </head>\n <body>\n  <h1>404 Not Found</h1>\n  ${text}\n </body>\n</html>`,
  };
}

function refused({ status, message }: Refusal): Answer {
  return { status, body: { [FAULT_NAMES[status] ?? 'computeFault']: { code: status, message } } };
}

function unexpectedError(type: string): Refusal {
  return new Refusal(
    500,
    'Unexpected API Error. Please report this at http://bugs.launchpad.net/nova/ and attach the Nova API log if possible.\n' +
      `<class '${type}'>`,
  );
}

function versionHeaders(version: string): Record<string, string> {
  return {
    'Openstack-Api-Version': `compute ${version}`,
    'X-Openstack-Nova-Api-Version': version,
    Vary: 'OpenStack-API-Version, X-OpenStack-Nova-API-Version',
  };
}

function json(request: ServiceRequest): unknown {
  const type = (header(request, 'content-type') ?? '').split(';')[0]!.trim();
  if (
    type !== '' &&
    type !== 'text/plain' &&
    type !== 'application/json' &&
    type !== 'application/vnd.openstack.compute+json'
  ) {
    throw new Refusal(415, 'Unsupported Content-Type');
  }
  if (request.body === '') return null;
  try {
    return JSON.parse(request.body);
  } catch {
    throw new Refusal(400, 'Malformed request body');
  }
}

const TRUE = ['1', 't', 'true', 'on', 'y', 'yes'];

function isTrue(value: unknown): boolean {
  return TRUE.includes(String(value ?? '').toLowerCase());
}

function wholeSeconds(at: number): number {
  return Math.floor(at / 1000) * 1000;
}

function password(): string {
  return randomBytes(9).toString('base64url');
}

function address(): object {
  const mac = ['fa', '16', '3e', ...Array.from(randomBytes(3), (byte) => byte.toString(16).padStart(2, '0'))].join(':');
  const addr = `10.0.${randomInt(256)}.${randomInt(2, 255)}`;
  return { version: 4, addr, 'OS-EXT-IPS:type': 'fixed', 'OS-EXT-IPS-MAC:mac_addr': mac };
}
