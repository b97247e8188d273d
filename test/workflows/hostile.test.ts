/**
 * Inputs and messages that nobody expects, through a real worker and a real Temporal server: a workflow ends with what
 * it promises, or goes on, and never hangs on a failing workflow task. Answers of Nova's: test/chaos/hostile.test.ts.
 */
import type { WorkflowHandle } from '@temporalio/client';
import { RawValue } from '@temporalio/common';
import { encode } from '@temporalio/common/lib/encoding';
import fc from 'fast-check';
import { hostileText, hostileValue, like, runs } from '../support/property';
import { eventually, FAST, progress, serverIdOf, TestBed } from '../support/bed';
import { expectSound, outcome, raw } from '../support/soundness';

let bed: TestBed;
beforeAll(async () => {
  bed = await TestBed.make();
});
afterAll(() => bed?.stop());

const NOT_JSON: RawValue[] = [
  raw(''),
  raw('{"server":'),
  raw('\u0000'),
  raw('{}', 'json/protobuf'),
  raw('x', 'binary/protobuf'),
  raw('', 'binary/plain'),
  raw('{}', 'binary/plain'),
  RawValue.fromPayload({ data: encode('{}') }),
];

const UUID = '5f2a6ac8-5f5a-4bb4-9c5b-5d9a3a4a5e0b';
const TYPES = { CreateServerWorkflow: 'server', RecoverInstanceWorkflow: 'instanceId' } as const;
type WorkflowType = keyof typeof TYPES;
let count = 0;

async function start(type: WorkflowType, args: unknown[]): Promise<WorkflowHandle> {
  const workflowId = `hostile-${bed.taskQueue}-${++count}`;
  return bed.client.workflow.start(type, { taskQueue: bed.taskQueue, workflowId, args: args as [] });
}

describe('inputs', () => {
  const nested = (depth: number) => '{"a":'.repeat(depth) + '1' + '}'.repeat(depth);
  const server = (more: string) => `{"server":{"name":"x","flavorRef":"1","networks":"none",${more}}}`;
  const timeout = (value: string) => `{"server":{"name":"x"},"instanceId":"${UUID}","timeout":${value}}`;
  const INVALID: [string, unknown[]][] = [
    ['no argument', []],
    ...NOT_JSON.map((argument, i): [string, unknown[]] => [`no JSON (${i})`, [argument]]),
    ...['null', '[]', '[{}]', '""', '"x"', '0', 'true', '{}', '-0', '1e400'].map((text): [string, unknown[]] => [
      text,
      [raw(text)],
    ]),
    ['10,000 levels', [raw(nested(10_000))]],
    ['10,000 lists', [raw('['.repeat(10_000) + ']'.repeat(10_000))]],
    ['10,000 levels of metadata', [raw(server(`"metadata":${nested(10_000)}`))]],
    ['10,000 levels of hints', [raw(`{"server":{},"schedulerHints":${nested(10_000)}}`)]],
    ['1.5 MB of text', [raw(`"${'x'.repeat(1_500_000)}"`)]],
    ['1.5 MB of user_data', [raw(server(`"user_data":"${'x'.repeat(1_500_000)}"`))]],
    ['nearly 2 MB', [raw(server(`"user_data":"${'x'.repeat(2 * 1024 * 1024 - 300)}"`))]],
    ['1.5 MB of keys', [raw(`{${Array.from({ length: 150_000 }, (_, i) => `"k${i}":1`).join(',')}}`)]],
    ['1.5 MB of statuses', [raw(`{"server":{},"transientStatuses":[${'"PAUSED",'.repeat(150_000)}"x"]}`)]],
    ['__proto__', [raw(`{"__proto__":{"server":{"name":"x"},"instanceId":"${UUID}"}}`)]],
    ['toString and constructor', [raw('{"toString":1,"constructor":{"prototype":1},"valueOf":null}')]],
    ['half a character', [raw('{"\\ud800":"\\udfff"}')]],
    ['NaN', [raw('{"server":NaN}')]],
    ...['"1e999 years"', '""', '" "', '"10 parsecs"', '"NaN"', '"\\ud800"', '1e400', '-0', '-1', '[]', '{"a":1}'].map(
      (value): [string, unknown[]] => [`a timeout of ${value}`, [raw(timeout(value))]],
    ),
  ];

  test.each(Object.keys(TYPES) as WorkflowType[])('%s: what is wrong is InvalidInput', async (type) => {
    await Promise.all(
      INVALID.map(async ([name, args]) => {
        const handle = await start(type, args);
        expect([name, await outcome(handle)]).toEqual([name, 'InvalidInput']);
        await expectSound(handle, 2_300_000);
      }),
    );
  });

  test('a second argument is nobody’s business', async () => {
    for (const second of [raw('{{'), raw('{"watch":5}'), raw('null')]) {
      const creation = await start('CreateServerWorkflow', [{ server: bed.server(), polling: FAST }, second, second]);
      expect(await outcome(creation)).toBe('ok');
      await expectSound(creation);
    }
  });

  test('inputs that are nearly right run, or are InvalidInput, or fail as promised', async () => {
    const polling = { initialInterval: 50, maximumInterval: '0.1s', backoffCoefficient: 1.5 };
    const { serverId } = await (await bed.create({ server: bed.server({ metadata: { a: 'b' } }) })).result();
    const creation = like({
      server: bed.server({ tags: ['a'], metadata: { a: 'b' }, user_data: 'YQ==', min_count: 1 }),
      schedulerHints: { group: UUID },
      timeout: '3s',
      transientStatuses: ['PAUSED'],
      attempts: 2,
      onFailure: 'delete',
      polling,
    });
    const recovery = like({
      instanceId: serverId,
      notification: { event: 'LIFECYCLE', virDomainEvent: 'STOPPED_FAILED', host: 'h', generatedTime: '2026-11-30' },
      policy: { requireHaEnabled: true, haEnabledMetadataKey: 'constructor', paused: 'restart', resized: 'reset' },
      timeouts: { task: '3s', stop: 3_000, start: '3s' },
      dryRun: true,
      polling,
    });
    const input = fc.oneof(
      fc.tuple(fc.constant('CreateServerWorkflow' as const), creation),
      fc.tuple(fc.constant('RecoverInstanceWorkflow' as const), recovery),
    );
    const begin = async ([type, value]: [WorkflowType, unknown]) => {
      const handle = await start(type, [raw(hostileText(value))]);
      // A poll a year from now is a right one too: then it must still answer.
      if ((await outcome(handle)) === 'running') {
        expect(await progress(handle)).toHaveProperty('phase');
        await handle.terminate();
      }
      await expectSound(handle);
    };
    await fc.assert(
      fc.asyncProperty(fc.array(input, { minLength: 15, maxLength: 15, size: 'max' }), async (inputs) => {
        await Promise.all(inputs.map(begin));
      }),
      { numRuns: runs(3), endOnFailure: true },
    );
  });
});

describe('messages', () => {
  const argument = fc.oneof(
    hostileValue.map((value) => raw(hostileText(value))),
    fc.constantFrom(...NOT_JSON, raw('"1s"'), raw('1000'), raw('"11 years"'), raw(`"${'9'.repeat(20_000)}"`)),
  );
  const messages = fc.array(fc.array(argument, { maxLength: 3 }), { minLength: 25, maxLength: 25, size: 'max' });

  /** Temporal refuses a query or an update when a signal overtakes the end of a long run (docs/reference.md). */
  async function unlessRefused<T>(send: () => Promise<T>, tries = 20): Promise<T> {
    for (;;) {
      try {
        return await send();
      } catch (error) {
        if (--tries === 0 || !String((error as Error).cause).includes('FAILED_PRECONDITION')) throw error;
      }
    }
  }

  async function bombard(handle: WorkflowHandle, all: RawValue[][]): Promise<void> {
    for (const args of all) {
      await handle.signal('wake', ...(args as []));
      await handle.signal('notified', ...(args as []));
      const extended = await unlessRefused(() => handle.executeUpdate('extendTimeout', { args: args as [] })).catch(
        (error: unknown) => error,
      );
      if (typeof extended === 'string') expect(new Date(extended).toISOString()).toBe(extended);
      else expect(extended).toMatchObject({ cause: { type: 'InvalidInput' } });
      const answer = await unlessRefused(() => handle.query('progress', ...(args as [])));
      expect(answer).toHaveProperty('phase');
    }
  }

  const creation = fc.asyncProperty(messages, async (all) => {
    const handle = await bed.create({ server: bed.server({ metadata: { anchor_spawn_seconds: '600' } }) });
    const id = await serverIdOf(handle);
    await bombard(handle, all);
    bed.cloud.finishBuild(id);
    await handle.signal('wake');
    expect(await outcome(handle)).toBe('ok');
    await expectSound(handle, 1_000_000);
  });

  const recovery = fc.asyncProperty(messages, async (all) => {
    const created = await bed.create({ server: bed.server({ metadata: { anchor_power_off_seconds: '600' } }) });
    const { serverId } = await created.result();
    const handle = await start('RecoverInstanceWorkflow', [{ instanceId: serverId, polling: FAST }]);
    await eventually(async () => (await progress(handle)).phase === 'stopping');
    await bombard(handle, all);
    expect(await progress(handle)).toMatchObject({ phase: 'stopping' });
    await expectSound(handle, 1_000_000);
    await handle.terminate();
  });

  test.each([
    ['a creation', creation],
    ['a recovery', recovery],
  ])('to %s', async (_, property) => {
    await fc.assert(property, { numRuns: runs(1), endOnFailure: true });
  });
});
