import type { Payload } from '@temporalio/common';
import { encode } from '@temporalio/common/lib/encoding';
import * as workflows from '../../src/workflows';
import { UNREADABLE } from '../../src/workflows/input';
import { payloadConverter } from '../../src/workflows/payload-converter';

const payload = (encoding: string, text: string): Payload => ({
  metadata: { encoding: encode(encoding) },
  data: encode(text),
});

/** As @temporalio/workflow has it while a workflow of this type is run. */
function within<T>(workflowType: string, read: () => T): T {
  Object.assign(globalThis, { __TEMPORAL_ACTIVATOR__: { info: { workflowType } } });
  try {
    return read();
  } finally {
    Object.assign(globalThis, { __TEMPORAL_ACTIVATOR__: undefined });
  }
}

describe.each(Object.keys(workflows))('to %s', (workflowType) => {
  const read = (argument: Payload): unknown => within(workflowType, () => payloadConverter.fromPayload(argument));

  test('an argument that is no JSON can be refused; one that only lacks its codec waits for a worker that has it', () => {
    expect(read(payload('json/plain', '{"a":1}'))).toEqual({ a: 1 });
    for (const encoding of ['json/plain', 'json/protobuf', 'binary/protobuf']) {
      expect(read(payload(encoding, '{"a":'))).toBe(UNREADABLE);
    }
    expect(read({})).toBe(UNREADABLE);
    expect(() => read(payload('binary/encrypted', 'x'))).toThrow('Unknown encoding: binary/encrypted');
  });
});

test("what is somebody else's is read as ever", () => {
  const read = () => payloadConverter.fromPayload(payload('json/plain', '{"a":'));
  expect(() => within('TheirWorkflow', read)).toThrow(SyntaxError);
  expect(read).toThrow(SyntaxError); // an activity, or a client
});
