/** What the simulated Nova holds: instances, their tags, hosts, quotas; and who may see what of it. */
import { randomUUID } from 'node:crypto';
import type { Instance } from './instance';
import { Refusal, type ServiceRequest } from './message';
import type { Caller, Flavor, Surroundings } from './model';
import type { PolicyOverrides } from './policies';
import type { Viewer } from './views';

export const FLAVORS: readonly Flavor[] = [
  { id: '1', name: 'm1.nano', vcpus: 1, ram: 64, disk: 1 },
  { id: '2', name: 'm1.micro', vcpus: 1, ram: 128, disk: 1 },
  { id: '3', name: 'm1.small', vcpus: 2, ram: 2048, disk: 20 },
  { id: '99', name: 'm1.impossible', vcpus: 1, ram: 64, disk: 1_000_000 },
];

export interface ComputeOptions extends Surroundings {
  minVersion: string;
  maxVersion: string;
  quotaInstances: number;
  imageId: string;
  networkId: string;
}

export interface Host {
  id: string;
  name: string;
  forcedDown: boolean;
}

/** A request once it is known who asks, and in which microversion. */
export interface Context extends Viewer {
  requestId: string;
  request: ServiceRequest;
  now: number;
}

export class Store {
  /** The service's root as clients reach it; known once the listener has its port. */
  root = '';
  readonly hosts: Host[];
  /** By id, oldest first. */
  readonly live = new Map<string, Instance>();
  readonly deleted = new Map<string, Instance>();
  policies: PolicyOverrides = {};
  private readonly byTag = new Map<string, Set<Instance>>();
  private readonly quotas = new Map<string, number>();

  constructor(
    readonly clock: () => number,
    readonly options: ComputeOptions,
  ) {
    this.hosts = options.hosts.map((name) => ({ id: randomUUID(), name, forcedDown: false }));
  }

  // ---- instances

  add(instance: Instance): void {
    this.live.set(instance.id, instance);
    this.tag(instance, instance.tags);
  }

  settle(instance: Instance, now: number): void {
    instance.settle(now);
    if (!instance.gone) return;
    this.live.delete(instance.id);
    this.deleted.set(instance.id, instance);
    this.untag(instance);
  }

  settleAll(now: number): void {
    for (const instance of this.live.values()) this.settle(instance, now);
  }

  /** Settled, whoever asks; also a deleted one. */
  find(id: string): Instance | undefined {
    const instance = this.live.get(id);
    if (instance === undefined) return this.deleted.get(id);
    this.settle(instance, this.clock());
    return instance;
  }

  /** Gone without a trace. */
  forget(instance: Instance): void {
    this.untag(instance);
    this.live.delete(instance.id);
    this.deleted.delete(instance.id);
  }

  /** The instance as the caller may see it. Throws Nova's 404 where there is none for this caller. */
  get(context: Context, id: string): Instance {
    const instance = this.live.get(id);
    if (instance !== undefined) this.settle(instance, context.now);
    if (instance === undefined || instance.gone || !maySee(context.caller, instance)) {
      throw new Refusal(404, `Instance ${id} could not be found.`);
    }
    if (instance.downCell && context.version < 269) throw unexpectedError('nova.exception.NovaException');
    return instance;
  }

  // ---- tags

  /** Settled, oldest first. */
  tagged(tag: string, now: number): Instance[] {
    const found = [...(this.byTag.get(tag) ?? [])];
    for (const instance of found) this.settle(instance, now);
    return found.filter((instance) => !instance.gone);
  }

  /** Tags are rows of a table of their own: `updated` stays what it is. */
  replaceTags(instance: Instance, tags: string[]): void {
    this.untag(instance);
    instance.tags = [...tags];
    this.tag(instance, tags);
  }

  private tag(instance: Instance, tags: readonly string[]): void {
    for (const tag of tags) {
      const tagged = this.byTag.get(tag);
      if (tagged === undefined) this.byTag.set(tag, new Set([instance]));
      else tagged.add(instance);
    }
  }

  private untag(instance: Instance): void {
    for (const tag of instance.tags) {
      const tagged = this.byTag.get(tag);
      tagged?.delete(instance);
      if (tagged?.size === 0) this.byTag.delete(tag);
    }
  }

  // ---- quota

  /** For every project; undefined: no limit. */
  setQuota(instances: number | undefined): void {
    this.quotas.clear();
    this.options.quotaInstances = instances ?? Infinity;
  }

  /** One project's own; undefined: as for every project. */
  setQuotaOf(projectId: string, instances: number | undefined): void {
    if (instances === undefined) this.quotas.delete(projectId);
    else this.quotas.set(projectId, instances < 0 ? Infinity : instances);
  }

  quotaOf(projectId: string | null): number {
    return this.quotas.get(projectId ?? '') ?? this.options.quotaInstances;
  }

  used(projectId: string | null): number {
    this.settleAll(this.clock());
    let used = 0;
    for (const instance of this.live.values()) if (instance.projectId === projectId) used++;
    return used;
  }
}

/** An owner sees the own project's servers only. */
export function maySee(caller: Caller, instance: Instance): boolean {
  return caller.isAdmin || instance.projectId === caller.projectId;
}

export function checkLock({ caller }: Context, instance: Instance): void {
  if (instance.lockedBy !== null && !caller.isAdmin) throw new Refusal(409, `Instance ${instance.id} is locked`);
}

/** Nova's 500, for trouble of its own. */
export function unexpectedError(type: string): Refusal {
  return new Refusal(
    500,
    'Unexpected API Error. Please report this at http://bugs.launchpad.net/nova/ and attach the Nova API log if possible.\n' +
      `<class '${type}'>`,
  );
}
