/** The simulated cloud as its tests and the demo hold it: started, looked into, driven, broken. */
import { randomUUID } from 'node:crypto';
import { image, network } from './catalog';
import { act } from './actions';
import { compute } from './compute';
import { Listener, type Fault, type FaultHandle, type RecordedRequest, type ServiceName } from './http';
import { Identity, PROJECT_OF, type AccessRule, type Token, type UserName } from './identity';
import type { Instance } from './instance';
import { header, type Answer, type ServiceRequest } from './message';
import { newRequestId, type Caller, type ForcedState } from './model';
import { isAllowed, type PolicyOverrides } from './policies';
import { remove } from './servers';
import { FLAVORS, Store, type Context } from './store';
import { microversion } from './validation';

export interface SimulatedCloudOptions {
  /** Default '127.0.0.1'. */
  host?: string;
  /** One port serves all services, below /identity, /compute, /image and /network. Default 0: a free one. */
  port?: number;
  /**
   * Seconds from POST to ACTIVE; Infinity: until `finishBuild`. Default 1. A deletion does not wait for it, other than
   * for the metadata key `anchor_spawn_seconds`.
   */
  buildSeconds?: number;
  /** Seconds from an action's answer to its end. Default 0.1. */
  actionSeconds?: number;
  /** Of the one image. Default: a new UUID. */
  imageId?: string;
  /** Servers a project may have. Default: no limit. */
  quotaInstances?: number;
  /** Life of a token in seconds. Default 3600. */
  tokenSeconds?: number;
  /** Default '2.1'. */
  minVersion?: string;
  /** Default '2.93', as Nova 26 (Zed). */
  maxVersion?: string;
  /** Nova's `reclaim_instance_interval` in seconds: above 0, DELETE ends in SOFT_DELETED for that long. Default 0. */
  reclaimInstanceInterval?: number;
  /** Nova's `shelved_offload_time` in seconds; -1: servers stay SHELVED. Default 0. */
  shelvedOffloadTime?: number;
  /** Seconds from a guest's crash to the power sync that notices; 0: at once; Infinity: `runPowerSync` only. Default 600. */
  powerSyncSeconds?: number;
  /**
   * Nova's `[oslo_policy] enforce_new_defaults`: the role reader may only read. Default false, as in Nova 26 (Zed):
   * any role in a project may do what a member may. True from Nova 27 on.
   */
  enforceNewDefaults?: boolean;
  /** Password of all users. Default 'anchor'. */
  password?: string;
  /** At least 0, below 1: decides which requests a fault with a `probability` hits. Default Math.random. */
  random?: () => number;
}

/** One server at the moment of looking. Times in milliseconds since the epoch. */
export interface SimulatedServer {
  id: string;
  name: string;
  status: string;
  vmState: string;
  taskState: string | null;
  /** Nova's number: 0 nostate, 1 running, 3 paused, 4 shutdown. */
  powerState: number;
  host: string | null;
  locked: boolean;
  tags: string[];
  metadata: Record<string, string>;
  projectId: string | null;
  fault: { code: number; message: string } | null;
  createdAt: number;
  /** When it became ACTIVE for the first time, exactly, whenever that was looked at. */
  activeAt: number | undefined;
  launchedAt: number | null;
  deletedAt: number | null;
  deleted: boolean;
  /** Oldest first. */
  actions: SimulatedAction[];
}

export interface SimulatedAction {
  action: string;
  requestId: string;
  userId: string | null;
  startTime: number;
  message: string | null;
}

/**
 * Keystone, Nova and a little of Glance and Neutron over HTTP on one port of this machine. Users: `admin` in the project
 * `admin`, and in the project `demo` `demo`, a member, and `reader`, with that role alone. A server's metadata makes its hypervisor slow or faulty, for the operations `spawn`, `power_off`,
 * `power_on`, `reboot`, `rescue` and `destroy`:
 *
 * - `anchor_<operation>_seconds`: it takes that long, 600 at most
 * - `anchor_<operation>` = `fail`: it fails once its time is over
 * - `anchor_spawn` = `abort`: ERROR at once; `reschedule`: tried on the other host first
 * - `anchor_power` = `shutdown`: the guest stops by itself as soon as it runs
 */
export class SimulatedCloud {
  /** All that was asked, oldest first; the newest 100,000. */
  readonly requests: readonly RecordedRequest[];
  readonly flavorId = FLAVORS[0]!.id;
  /** A flavor too big for every host: "No valid host was found. " */
  readonly impossibleFlavorId = FLAVORS.at(-1)!.id;
  readonly imageId: string;
  readonly networkId: string;
  private readonly identity: Identity;
  private readonly enforceNewDefaults: boolean;
  private readonly store: Store;
  private readonly listener: Listener;

  private constructor(options: SimulatedCloudOptions) {
    this.imageId = options.imageId ?? randomUUID();
    this.networkId = randomUUID();
    this.identity = new Identity(now, (options.tokenSeconds ?? 3600) * 1000, options.password ?? 'anchor');
    this.enforceNewDefaults = options.enforceNewDefaults ?? false;
    const offload = options.shelvedOffloadTime ?? 0;
    this.store = new Store(now, {
      hosts: ['compute1', 'compute2'],
      fits: (flavor) => flavor.id !== this.impossibleFlavorId,
      buildMs: (options.buildSeconds ?? 1) * 1000,
      actionMs: (options.actionSeconds ?? 0.1) * 1000,
      reclaimMs: (options.reclaimInstanceInterval ?? 0) * 1000,
      shelvedOffloadMs: offload < 0 ? -1 : offload * 1000,
      powerSyncMs: (options.powerSyncSeconds ?? 600) * 1000,
      quotaInstances: options.quotaInstances ?? Infinity,
      minVersion: options.minVersion ?? '2.1',
      maxVersion: options.maxVersion ?? '2.93',
      imageId: this.imageId,
      networkId: this.networkId,
    });
    this.listener = new Listener(
      options.host ?? '127.0.0.1',
      options.port ?? 0,
      now,
      (service, request) => this.dispatch(service, request),
      options.random,
    );
    this.requests = this.listener.requests;
  }

  static async start(options: SimulatedCloudOptions = {}): Promise<SimulatedCloud> {
    const cloud = new SimulatedCloud(options);
    await cloud.listener.open();
    cloud.store.root = `${cloud.url}/compute`;
    cloud.identity.publish([
      { type: 'identity', name: 'keystone', url: cloud.authUrl },
      { type: 'image', name: 'glance', url: `${cloud.url}/image` },
      { type: 'network', name: 'neutron', url: `${cloud.url}/network` },
      { type: 'compute', name: 'nova', url: cloud.computeUrl },
    ]);
    return cloud;
  }

  /** Closes the listener and every connection. */
  async stop(): Promise<void> {
    await this.listener.close();
  }

  /** Refuses every connection, as when Nova is down, until `comeBack`. */
  async goAway(): Promise<void> {
    await this.listener.close();
  }

  /** On the same port, with all that it held. */
  async comeBack(): Promise<void> {
    await this.listener.open();
  }

  get url(): string {
    return this.listener.url;
  }

  get authUrl(): string {
    return `${this.url}/identity/v3`;
  }

  get computeUrl(): string {
    return `${this.url}/compute/v2.1`;
  }

  /** `OS_*` settings of a user, in the project that is theirs. */
  env(user: UserName = 'demo'): Record<string, string> {
    return {
      OS_AUTH_URL: this.authUrl,
      OS_IDENTITY_API_VERSION: '3',
      OS_USERNAME: user,
      OS_PASSWORD: this.identity.password(user),
      OS_PROJECT_NAME: PROJECT_OF[user],
      OS_USER_DOMAIN_NAME: 'Default',
      OS_PROJECT_DOMAIN_NAME: 'Default',
      OS_REGION_NAME: 'RegionOne',
      OS_INTERFACE: 'public',
    };
  }

  /** The id by which instance actions name a user. */
  userId(user: UserName): string {
    return this.identity.userId(user);
  }

  // ---- servers

  /** Oldest first. */
  servers(options: { deleted?: boolean } = {}): SimulatedServer[] {
    this.store.settleAll(now());
    const live = [...this.store.live.values()];
    if (options.deleted !== true) return live.map(view);
    return [...this.store.deleted.values(), ...live].sort((a, b) => a.createdAt - b.createdAt).map(view);
  }

  /** Throws when there is none, also for one that was forgotten; a deleted one is found. */
  server(id: string): SimulatedServer {
    return view(this.find(id));
  }

  /** Puts a server into any state at once: what was under way ends where it stands. */
  setState(id: string, state: ForcedState): void {
    this.find(id).force(state, now());
  }

  finishBuild(id: string): void {
    this.find(id).finishBuild(now());
  }

  failBuild(id: string, fault = { code: 500, message: 'No valid host was found. ' }): void {
    this.find(id).failBuild(now(), fault);
  }

  /** Gone without a trace: 404 from now on, with no deletion that one could see. */
  forget(id: string): void {
    this.store.forget(this.find(id));
  }

  /** An operator acts, by the same rules as over HTTP: `action(id, { 'os-stop': null })`. Throws what Nova would say. */
  action(id: string, body: object, user: UserName = 'admin'): void {
    act(this.store, this.contextOf(user), id, body as Record<string, unknown>);
  }

  /** An operator deletes it, as over HTTP. */
  delete(id: string, user: UserName = 'admin'): void {
    remove(this.store, this.contextOf(user), id);
  }

  /**
   * Its hypervisor's process dies. Nova goes on showing what it knew until its power sync; then power_state is 4 in
   * every vm_state, and an active or paused server is stopped by Nova itself (an instance action without user), as
   * `_sync_instance_power_state` does.
   */
  crash(id: string): void {
    this.find(id).crash(now());
  }

  /** Nova's power sync, now, of all servers. */
  runPowerSync(): void {
    const at = now();
    this.store.settleAll(at);
    for (const instance of this.store.live.values()) instance.syncPower(at);
  }

  /** The next `times` actions of that name on it are accepted and fail on the host. 'stop' or 'os-stop'. */
  failAction(id: string, action: string, times = 1): void {
    this.find(id).failing.set(action.replace(/^os-/, ''), times);
  }

  /** For every project; undefined: no limit. */
  setQuota(instances: number | undefined): void {
    this.store.setQuota(instances);
  }

  /** Seconds that a build (of a server made later) and an action (of any server) take from now on. */
  setTimes(times: { buildSeconds?: number; actionSeconds?: number }): void {
    const { options } = this.store;
    if (times.buildSeconds !== undefined) options.buildMs = times.buildSeconds * 1000;
    if (times.actionSeconds !== undefined) options.actionMs = times.actionSeconds * 1000;
  }

  // ---- identity

  /** Every token given so far has expired. */
  expireTokens(): void {
    this.identity.expireTokens();
  }

  /** Every token given so far is refused from now on (a real Nova knows one it has seen for up to five minutes). */
  revokeTokens(): void {
    this.identity.revokeTokens();
  }

  setPassword(user: UserName, password: string): void {
    this.identity.setPassword(user, password);
  }

  createApplicationCredential(
    user: UserName = 'demo',
    name = 'temporal',
    accessRules?: AccessRule[],
  ): { id: string; name: string; secret: string } {
    return this.identity.createApplicationCredential(user, name, accessRules);
  }

  /** What Nova's policy.yaml says from now on; rules that are not named keep their defaults. */
  setPolicies(policies: PolicyOverrides): void {
    this.store.policies = policies;
  }

  // ---- requests and faults

  inject(fault: Fault): FaultHandle {
    return this.listener.inject(fault);
  }

  clearFaults(): void {
    this.listener.clearFaults();
  }

  clearRequests(): void {
    this.listener.requests.length = 0;
  }

  /** How many requests came since the start, also those that are no longer in `requests`. */
  get requestsReceived(): number {
    return this.listener.received;
  }

  private dispatch(service: ServiceName | undefined, request: ServiceRequest): Answer {
    if (service === 'identity') return this.identity.handle(request);
    const token = this.tokenOf(service, request);
    switch (service) {
      case 'compute':
        return compute(this.store, request, token && this.callerOf(token), this.authUrl);
      case 'image':
        return image(request, this.imageId, token !== undefined, this.authUrl, `${this.url}/image`);
      case 'network':
        return network(request, this.networkId, token !== undefined, this.authUrl, `${this.url}/network`);
      default:
        return { status: 404, body: 'No service of this cloud: /identity, /compute, /image and /network are.' };
    }
  }

  /** Undefined where it is not good, also because its credential's access rules don't allow the request. */
  private tokenOf(service: ServiceName | undefined, request: ServiceRequest): Token | undefined {
    const token = this.identity.validate(header(request, 'x-auth-token'));
    if (token === undefined || service === undefined) return undefined;
    const path = ['', service, ...request.segments].join('/');
    return this.identity.allows(token, service, request.method, path) ? token : undefined;
  }

  private callerOf(token: Token): Caller {
    return {
      userId: token.user.id,
      projectId: token.project?.id ?? null,
      isAdmin: token.roles.includes('admin'),
      isMember: token.roles.includes('member') || !this.enforceNewDefaults,
    };
  }

  private find(id: string): Instance {
    const instance = this.store.find(id);
    if (instance === undefined) throw new Error(`the simulated cloud has no server ${id}`);
    return instance;
  }

  /** As the newest microversion has it, in the user's own project. */
  private contextOf(user: UserName): Context {
    const caller: Caller = {
      userId: this.identity.userId(user),
      projectId: this.identity.projects[PROJECT_OF[user]].id,
      isAdmin: user === 'admin',
      isMember: user !== 'reader' || !this.enforceNewDefaults,
    };
    return {
      caller,
      can: (rule) => isAllowed(rule, caller, this.store.policies),
      now: now(),
      requestId: newRequestId(),
      version: microversion(this.store.options.maxVersion),
      root: this.store.root,
      request: { method: 'POST', segments: [], query: new URLSearchParams(), headers: {}, body: '' },
    };
  }
}

/** The cloud's one clock. */
function now(): number {
  return Date.now();
}

function view(instance: Instance): SimulatedServer {
  return {
    id: instance.id,
    name: instance.name,
    status: instance.status,
    vmState: instance.vmState,
    taskState: instance.taskState,
    powerState: instance.powerState,
    host: instance.host,
    locked: instance.lockedBy !== null,
    tags: [...instance.tags],
    metadata: { ...instance.metadata },
    projectId: instance.projectId,
    fault: instance.fault === null ? null : { code: instance.fault.code, message: instance.fault.message },
    createdAt: instance.createdAt,
    activeAt: instance.activeAt,
    launchedAt: instance.launchedAt,
    deletedAt: instance.deletedAt,
    deleted: instance.gone,
    actions: instance.actions.map(({ action, requestId, userId, startTime, message }) => ({
      action,
      requestId,
      userId,
      startTime,
      message,
    })),
  };
}
