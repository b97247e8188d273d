import { ApplicationFailure } from '@temporalio/common';
import fc from 'fast-check';
import { parseTime } from '../../src/time';
import { checkCreateServerInput } from '../../src/workflows/create-server-input';
import { checkRecoverInstanceInput } from '../../src/workflows/recover-instance-input';

/** Anything else than InvalidInput, thrown from workflow code, would hang the workflow on a failing task for ever. */
function acceptedOrInvalid(check: (input: unknown) => unknown, input: unknown): void {
  try {
    check(input);
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
    { numRuns: 3_000 },
  );
});

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
