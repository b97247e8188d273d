/** What a status means to a creation that waits for ACTIVE. */
import { plainStatus, type ServerState } from './server-state';

/**
 * `active`: done · `wait`: can still lead to ACTIVE · `error`, `gone`, `unknown`: the creation fails with
 * ServerInError, ServerNotFound, UnknownServerStatus.
 */
export type CreationVerdict = 'active' | 'wait' | 'error' | 'gone' | 'unknown';

/**
 * All of Nova's 20 statuses (nova/api/openstack/common.py, `_STATE_MAP`). Heat gave up on a server at any status other
 * than BUILD and ACTIVE, though an operator's reboot or migration leads back to ACTIVE (Heat bug 1140324).
 */
const VERDICTS: Readonly<Record<string, CreationVerdict>> = {
  ACTIVE: 'active',

  BUILD: 'wait',
  HARD_REBOOT: 'wait',
  PASSWORD: 'wait',
  REBOOT: 'wait',
  RESCUE: 'wait',
  RESIZE: 'wait',
  REVERT_RESIZE: 'wait',
  SHUTOFF: 'wait',
  SUSPENDED: 'wait',
  VERIFY_RESIZE: 'wait',
  // An operator moving or rebuilding the server is no reason to give up on it; a server under evacuation shows REBUILD.
  MIGRATING: 'wait',
  REBUILD: 'wait',

  ERROR: 'error',
  DELETED: 'gone',
  SOFT_DELETED: 'gone',

  // Known to Nova, but nothing that a creation passes through: a person has to say what is meant (transientStatuses).
  PAUSED: 'unknown',
  SHELVED: 'unknown',
  SHELVED_OFFLOADED: 'unknown',
  UNKNOWN: 'unknown',
};

/** @param transientStatuses statuses to wait on besides the built-in ones */
export function judgeCreation(state: ServerState, transientStatuses: readonly string[] = []): CreationVerdict {
  const verdict = VERDICTS[state.status] ?? 'unknown';
  if (verdict === 'active') return verdict;
  if (transientStatuses.some((status) => plainStatus(status) === state.status)) return 'wait';
  if (isDownCell(state)) return 'wait';
  return verdict;
}

/** For where only so many different words may be: one of Nova's statuses, or 'OTHER'. */
export function knownStatus(status: string): string {
  return Object.hasOwn(VERDICTS, status) ? status : 'OTHER';
}

/** While a cell is down, Nova (2.69) still answers for its servers: status UNKNOWN, most keys missing. */
export function isDownCell(state: ServerState): boolean {
  return state.status === 'UNKNOWN' && state.vmState === null;
}

/** Whether a server that is being deleted is gone. SOFT_DELETED counts: Nova reclaims it by itself. */
export function isGone(state: ServerState | null): boolean {
  return state === null || state.status === 'DELETED' || state.status === 'SOFT_DELETED';
}
