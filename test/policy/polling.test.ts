import { heartbeatTimeout, listPause, progressHeld, roundLength } from '../../src/policy/polling';

test.each([
  [1, 12_000],
  [80, 12_000],
  [200, 30_000],
  [300, 45_000],
  [10_000, 45_000],
])('with %i watches on a worker, a step within a build is handed over after %i ms', (watches, held) => {
  expect(progressHeld(watches)).toBe(held);
});

test.each([
  [0, 45_000],
  [60_000, 60_000],
  [86_400_000, 600_000],
])('a server silent for %i ms is watched for another %i ms', (silence, round) => {
  expect(roundLength(silence)).toBe(round);
});

test.each([
  [0, 1, 4_000],
  [30_000, 320, 4_000],
  [30_000, 1_000, 12_500],
  [60_000, 1, 30_000],
  [600_000, 1, 60_000],
  [600_000, 4_000, 60_000],
  [0, 10_000, 125_000],
  [600_000, 100_000, 300_000],
])(
  'silent for %i ms, %i watches on the worker: one that was killed is noticed within %i ms',
  (silence, watches, ms) => {
    expect(heartbeatTimeout(silence, watches)).toBe(ms);
  },
);

test.each([
  [1_000, 50, 1_000],
  [1_000, 800, 1_600],
  [10, 1, 100],
  [60_000, 50, 15_000],
])('wanted every %i ms, a list that takes %i ms is made every %i ms', (interval, took, pause) => {
  expect(listPause(interval, took)).toBe(pause);
});
