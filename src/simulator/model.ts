/** What instances are made of, and what the cloud around them decides. Times are milliseconds since the epoch. */
import { randomUUID } from 'node:crypto';

/** Who asks. `userId` and `projectId` are null for Nova itself. */
export interface Caller {
  userId: string | null;
  projectId: string | null;
  isAdmin: boolean;
  /** May change what is the project's own. */
  isMember: boolean;
}

/** Nova itself, as its periodic tasks record it. */
export const NOVA: Caller = { userId: null, projectId: null, isAdmin: true, isMember: true };

export interface Fault {
  code: number;
  message: string;
  created: number;
  /** Nova shows it to administrators only where the code is 500. */
  details?: string;
}

export interface Flavor {
  id: string;
  name: string;
  vcpus: number;
  ram: number;
  disk: number;
}

/** What a new instance is made of. */
export interface InstanceSpec {
  name: string;
  caller: Caller;
  flavor: Flavor;
  imageId: string;
  metadata: Record<string, string>;
  tags: string[];
  addresses: Record<string, unknown[]>;
  description: string | null;
  hostname: string;
  availabilityZone: string | null;
  reservationId: string;
  launchIndex: number;
  keyName: string | null;
  userData: string | null;
  configDrive: string;
  securityGroups: { name: string }[];
}

/** What the cloud around an instance decides for it. */
export interface Surroundings {
  /** Whether any host has room for it. */
  fits: (flavor: Flavor) => boolean;
  /** Milliseconds from a guest's crash to the power sync that notices. */
  powerSyncMs: number;
  hosts: readonly string[];
  /** Milliseconds that an action takes. */
  actionMs: number;
  /** Milliseconds from POST to ACTIVE; Infinity: until `finishBuild`. */
  buildMs: number;
  /** Milliseconds from a shelve's end to its offload; 0: at once, -1: never. */
  shelvedOffloadMs: number;
  /** Milliseconds that a deleted server can be restored; 0: DELETE deletes. */
  reclaimMs: number;
}

/**
 * What `SimulatedCloud.setState` can set; what is left out stays as it is. `vmState` alone clears task_state and brings
 * the power_state that is usual with it. `vmState`, `taskState` and `status` end what is under way.
 */
export interface ForcedState {
  vmState?: string;
  taskState?: string | null;
  /** Nova's number: 0 nostate, 1 running, 3 paused, 4 shutdown, 6 crashed, 7 suspended. */
  powerState?: number;
  fault?: { code: number; message: string } | null;
  host?: string | null;
  locked?: boolean;
  /** Replaces all of it. */
  metadata?: Record<string, string>;
  /** Its cell does not answer: with microversion 2.69 and later GET shows status UNKNOWN and little else. */
  downCell?: boolean;
  /** Shown as it is, until the next change: 'BUILD(spawning)', or a status that no Nova knows. */
  status?: string;
}

export function newRequestId(): string {
  return `req-${randomUUID()}`;
}
