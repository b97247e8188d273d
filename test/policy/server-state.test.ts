import { nextInterval, roundLength, DEFAULT_POLLING } from '../../src/policy/polling';
import { isSettledChange, recordObservations, toServerState } from '../../src/policy/server-state';

const building = toServerState({
  status: 'BUILD',
  'OS-EXT-STS:vm_state': 'building',
  'OS-EXT-STS:task_state': 'scheduling',
  'OS-EXT-STS:power_state': 0,
});
const at = '2026-01-01T00:00:00.000Z';

test('power states have Nova’s names; what is missing is null', () => {
  const named = [0, 1, 3, 4, 6, 7, 9].map(
    (n) => toServerState({ status: 'X', 'OS-EXT-STS:power_state': n }).powerState,
  );
  expect(named).toEqual(['nostate', 'running', 'paused', 'shutdown', 'crashed', 'suspended', '9']);
  expect(toServerState({ status: 'UNKNOWN' })).toEqual({
    status: 'UNKNOWN',
    vmState: null,
    taskState: null,
    powerState: null,
    host: null,
    locked: false,
  });
});

test('one running task giving way to the next is progress; all else is worth telling at once', () => {
  expect(isSettledChange(null, building)).toBe(true);
  expect(isSettledChange(building, { ...building, taskState: 'spawning', host: 'compute1' })).toBe(false);
  expect(isSettledChange(building, { ...building, taskState: null })).toBe(false);
  for (const change of [{ status: 'ACTIVE' }, { vmState: 'active' }, { powerState: 'running' }, { locked: true }]) {
    expect(isSettledChange(building, { ...building, ...change })).toBe(true);
  }
  const stopping = { ...building, vmState: 'active', taskState: 'powering-off' };
  expect(isSettledChange(stopping, { ...stopping, taskState: null })).toBe(true);
  expect(isSettledChange({ ...stopping, taskState: null }, stopping)).toBe(true);
});

test('observations are one for each change, and the newest 100', () => {
  const other = { ...building, taskState: 'spawning' };
  const twice = recordObservations(
    [],
    [building, building, other, other, building].map((state) => ({ at, ...state })),
  );
  expect(twice.map(({ taskState }) => taskState)).toEqual(['scheduling', 'spawning', 'scheduling']);

  const many = Array.from({ length: 250 }, (_, i) => ({ at, ...building, host: `compute${i}` }));
  const kept = recordObservations(many.slice(0, 120), many.slice(120));
  expect([kept.length, kept[0]?.host, kept.at(-1)?.host]).toEqual([100, 'compute150', 'compute249']);
});

test('looks get rarer up to the maximum; rounds grow with the silence, from 15 s to 10 min', () => {
  const intervals = [1_000];
  while (intervals.length < 9) intervals.push(nextInterval(intervals.at(-1) ?? 0, DEFAULT_POLLING));
  expect(intervals.at(-1)).toBe(10_000);
  expect([0, 60_000, 86_400_000].map(roundLength)).toEqual([45_000, 60_000, 600_000]);
});
