import { isGone, judgeCreation } from '../../src/policy/creation';
import { plainStatus, toServerState, type ServerState } from '../../src/policy/server-state';

function state(status: string, vmState: string | null = 'active'): ServerState {
  return toServerState({ status, 'OS-EXT-STS:vm_state': vmState });
}

/** All of Nova's 20 statuses (nova/api/openstack/common.py, `_STATE_MAP`), and one it may invent. */
const EXPECTED = {
  ACTIVE: 'active',
  BUILD: 'wait',
  DELETED: 'gone',
  ERROR: 'error',
  HARD_REBOOT: 'wait',
  MIGRATING: 'wait',
  PASSWORD: 'wait',
  PAUSED: 'unknown',
  REBOOT: 'wait',
  REBUILD: 'wait',
  RESCUE: 'wait',
  RESIZE: 'wait',
  REVERT_RESIZE: 'wait',
  SHELVED: 'unknown',
  SHELVED_OFFLOADED: 'unknown',
  SHUTOFF: 'wait',
  SOFT_DELETED: 'gone',
  SUSPENDED: 'wait',
  UNKNOWN: 'unknown',
  VERIFY_RESIZE: 'wait',
  TELEPORTING: 'unknown',
} as const;

describe('what a status means to a creation', () => {
  test.each(Object.entries(EXPECTED))('%s: %s', (status, verdict) => {
    expect(judgeCreation(state(status))).toBe(verdict);
    expect(judgeCreation(state(`${status}(spawning)`))).toBe(verdict);
    expect(judgeCreation(state(`${status} (a note)`))).toBe(verdict);
  });

  test.each(Object.keys(EXPECTED))('%s is waited on when it is named as transient, ACTIVE aside', (status) => {
    const expected = status === 'ACTIVE' ? 'active' : 'wait';
    expect(judgeCreation(state(status), ['QUITE_ANOTHER', status])).toBe(expected);
    expect(judgeCreation(state(`${status}(x)`), [`${status.toLowerCase()}(y)`])).toBe(expected);
  });

  test('UNKNOWN is waited on while the cell is down: Nova 2.69 leaves out vm_state then', () => {
    expect(judgeCreation(state('UNKNOWN', null))).toBe('wait');
    expect(judgeCreation(state('UNKNOWN', 'strange'))).toBe('unknown');
  });

  test('names of JavaScript’s own are no statuses', () => {
    for (const name of ['constructor', '__proto__', 'toString', '']) expect(judgeCreation(state(name))).toBe('unknown');
  });
});

test('a deleted server is gone at 404, DELETED and SOFT_DELETED', () => {
  expect([null, state('DELETED'), state('SOFT_DELETED'), state('ACTIVE'), state('ERROR')].map(isGone)).toEqual([
    true,
    true,
    true,
    false,
    false,
  ]);
});

test('a status loses what some clouds append', () => {
  expect(['BUILD(spawning)', ' BUILD ', 'build', 'BUILD (x) (y)'].map(plainStatus)).toEqual(Array(4).fill('BUILD'));
});
