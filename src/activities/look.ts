/** One look at a server, in the shape that workflows get. */
import type { NovaAddresses, NovaFault, NovaServer } from '../nova';
import { toServerState, type ServerState } from '../policy/server-state';

/** What Nova said of a server at one moment. Kept small: it goes into the history. */
export interface Look {
  /** ISO 8601, UTC, by the worker's clock. */
  at: string;
  state: ServerState;
  name: string | null;
  /** Only for ACTIVE, null otherwise. */
  addresses: NovaAddresses | null;
  /** Only for ERROR and DELETED, null otherwise. */
  fault: NovaFault | null;
}

/** An answer goes into the history: nothing that Nova says may blow it up. */
const LONGEST_MESSAGE = 2_000;
const LONGEST_ADDRESSES = 100_000;

export function toLook(server: NovaServer, now: number = Date.now()): Look {
  const state = toServerState(server);
  return {
    at: new Date(now).toISOString(),
    state,
    name: server.name?.slice(0, 255) ?? null,
    addresses: state.status === 'ACTIVE' ? bounded(server.addresses ?? {}) : null,
    fault: server.fault ? { ...server.fault, message: server.fault.message.slice(0, LONGEST_MESSAGE) } : null,
  };
}

function bounded(addresses: NovaAddresses): NovaAddresses {
  return JSON.stringify(addresses).length > LONGEST_ADDRESSES ? {} : addresses;
}
