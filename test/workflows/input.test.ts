import { ApplicationFailure } from '@temporalio/common';
import fc from 'fast-check';
import { parseTime } from '../../src/time';
import { checkCreateServerInput } from '../../src/workflows/create-server-input';
import { checkDuration, UNREADABLE } from '../../src/workflows/input';
import { checkNotification, checkRecoverInstanceInput } from '../../src/workflows/recover-instance-input';
import { hostileText, hostileValue, like, runs } from '../support/property';

/**
 * Anything else than InvalidInput, thrown from workflow code, would hang the workflow on a failing task for ever; and
 * what is accepted goes on to activities and to the next run, which Temporal takes up to 2 MB.
 */
function acceptedOrInvalid(check: (input: unknown) => unknown, input: unknown): void {
  try {
    expect(Buffer.byteLength(JSON.stringify(check(input)) ?? '')).toBeLessThan(1_700_000);
  } catch (error) {
    expect(error).toBeInstanceOf(ApplicationFailure);
    expect(error).toMatchObject({ type: 'InvalidInput', nonRetryable: true });
    expect((error as Error).message.length).toBeLessThan(2_000);
  }
}

const json = fc.jsonValue({ maxDepth: 4 });
const maybe = (value: fc.Arbitrary<unknown>) => fc.option(fc.oneof(value, json), { nil: undefined });
const duration = fc.oneof(fc.constantFrom('30s', '1h', '-1s', 'soon', '11 years', ''), fc.double(), fc.integer());
const polling = fc.record(
  { initialInterval: maybe(duration), maximumInterval: maybe(duration), backoffCoefficient: maybe(fc.double()) },
  { requiredKeys: [] },
);

/** Inputs that are nearly right: random ones hardly get past the first check. */
const creation = fc.record(
  {
    server: maybe(
      fc.record(
        { name: maybe(fc.string()), min_count: maybe(json), max_count: json, tags: maybe(json) },
        { requiredKeys: [] },
      ),
    ),
    schedulerHints: maybe(json),
    timeout: maybe(duration),
    transientStatuses: maybe(fc.array(fc.string())),
    attempts: maybe(fc.integer()),
    onFailure: maybe(fc.constantFrom('keep', 'delete', 'x')),
    cloud: maybe(fc.string()),
    polling: maybe(polling),
  },
  { requiredKeys: [] },
);
const recovery = fc.record(
  {
    instanceId: maybe(fc.uuid()),
    notification: maybe(
      fc.record(
        { event: maybe(fc.string()), generatedTime: maybe(fc.string()), virDomainEvent: json },
        { requiredKeys: [] },
      ),
    ),
    policy: maybe(
      fc.record({ paused: maybe(fc.constantFrom('skip', 'restore')), requireHaEnabled: json }, { requiredKeys: [] }),
    ),
    timeouts: maybe(fc.record({ task: maybe(duration), stop: duration }, { requiredKeys: [] })),
    dryRun: maybe(fc.boolean()),
    cloud: maybe(fc.string()),
    polling: maybe(polling),
  },
  { requiredKeys: [] },
);

test.each([
  ['creation', checkCreateServerInput, creation],
  ['recovery', checkRecoverInstanceInput, recovery],
])('any JSON as the input of a %s is taken, or is InvalidInput', (_name, check, nearlyRight) => {
  fc.assert(
    fc.property(fc.oneof(json, nearlyRight), (input) =>
      acceptedOrInvalid(check, JSON.parse(JSON.stringify(input) ?? 'null')),
    ),
    { numRuns: runs(2_000) },
  );
});

const SERVER = {
  name: 'x',
  flavorRef: '1',
  networks: [{ uuid: 'n' }],
  metadata: { a: 'b' },
  tags: ['a'],
  max_count: 1,
};
const POLLING = { initialInterval: '1s', maximumInterval: 10_000, backoffCoefficient: 1.5 };

test.each<[string, (input: unknown) => unknown, unknown]>([
  [
    'a creation',
    checkCreateServerInput,
    {
      server: SERVER,
      schedulerHints: { group: 'g' },
      timeout: '1h',
      transientStatuses: ['PAUSED'],
      cloud: 'west',
      polling: POLLING,
    },
  ],
  [
    'a recovery',
    checkRecoverInstanceInput,
    {
      instanceId: '5f2a6ac8-5f5a-4bb4-9c5b-5d9a3a4a5e0b',
      notification: { event: 'LIFECYCLE', virDomainEvent: 'STOPPED', host: 'h', generatedTime: '2026-11-30T12:00:00' },
      policy: { requireHaEnabled: true, haEnabledMetadataKey: 'HA_Enabled', paused: 'skip', locked: 'skip' },
      timeouts: { task: '10m', stop: 1_000, start: '1h' },
      dryRun: true,
      cloud: 'west',
      polling: POLLING,
    },
  ],
  ['a notification', checkNotification, { event: 'LIFECYCLE', generatedTime: '2026-11-30T12:00:00+02:00' }],
  ['a duration', (value) => checkDuration(value, 'duration'), '1h'],
])('%s with anything in one place or another is taken, or is InvalidInput', (_name, check, right) => {
  check(right);
  fc.assert(
    fc.property(fc.oneof({ weight: 4, arbitrary: like(right) }, hostileValue), (input) =>
      acceptedOrInvalid(check, JSON.parse(hostileText(input))),
    ),
    { numRuns: runs(1_000) },
  );
  for (const input of [UNREADABLE, new Uint8Array([1]), undefined]) acceptedOrInvalid(check, input);
});

test.each<[unknown, number | undefined]>([
  ['30s', 30_000],
  ['1.5h', 5_400_000],
  [0.2, 1],
  [250.4, 250],
  ['10y', 315_576_000_000],
  ['10.1y', undefined],
  ['1e999 years', undefined],
  ['10 parsecs', undefined],
  ['9'.repeat(1_000_000), undefined],
  ['', undefined],
  [' ', undefined],
  ['-1s', undefined],
  [0, undefined],
  [-0, undefined],
  [NaN, undefined],
  [Infinity, undefined],
  ['NaN', undefined],
  [true, undefined],
  [null, undefined],
  [['1s'], undefined],
  [{ valueOf: 1 }, undefined],
])('a duration of %j is %s ms', (value, ms) => {
  if (ms === undefined) expect(() => checkDuration(value, 'timeout')).toThrow(/^Invalid input: timeout must be /);
  else expect(checkDuration(value, 'timeout')).toBe(ms);
});

test.each<[string, object, RegExp]>([
  ['server', { server: nested(101) }, /server must not be nested deeper than 100 levels/],
  ['schedulerHints', { server: {}, schedulerHints: nested(101) }, /schedulerHints must not be nested deeper/],
  ['server', { server: { user_data: 'x'.repeat(270_000) } }, /server must not have more than 262144 characters/],
  ['server.tags', { server: { tags: Array(101).fill('x') } }, /server.tags must not have more than 100 texts/],
  ['transientStatuses', { server: {}, transientStatuses: ['x'.repeat(1_001)] }, /transientStatuses must not have/],
])('%s has a bound', (_name, input, message) => {
  expect(() => checkCreateServerInput(input)).toThrow(message);
});

test('what is just within the bounds is taken', () => {
  const server = { metadata: nested(99), user_data: 'x'.repeat(260_000), tags: Array(100).fill('x') as string[] };
  expect(checkCreateServerInput({ server, transientStatuses: ['x'.repeat(1_000)] }).server).toBe(server);
});

function nested(levels: number): object {
  let object = {};
  for (let level = 1; level < levels; level++) object = { a: object };
  return object;
}

test('times are ISO 8601, in UTC where no zone is given', () => {
  const noon = Date.UTC(2026, 10, 30, 12);
  for (const text of [
    '2026-11-30T12:00:00',
    '2026-11-30 12:00:00.000000',
    '2026-11-30T12:00:00Z',
    '2026-11-30T14:00:00+02:00',
    '2026-11-30T14:00:00+02',
    '2026-11-30T12:00',
  ]) {
    expect([text, parseTime(text)]).toEqual([text, noon]);
  }
  for (const text of ['noon', '', '12:00', '2026-13-45T99:00:00', '30.11.2026', '1764504000']) {
    expect([text, parseTime(text)]).toEqual([text, NaN]);
  }
});
