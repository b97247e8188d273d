/**
 * How the arguments of workflows, signals and updates are read, in the bundle that this package's worker runs. An
 * argument that can't be read would make the workflow task fail for ever, and a signal can't be taken back: it becomes
 * `UNREADABLE` instead, which no check of an input takes.
 */
import {
  defaultPayloadConverter,
  type ConverterHint,
  type Payload,
  type PayloadConverter,
  type SerializationContext,
} from '@temporalio/common';
import { decode } from '@temporalio/common/lib/encoding';
import { UNREADABLE } from './input';

/**
 * What another client may send in place of JSON. Any other encoding is left to the SDK: a workflow task that fails for
 * one goes on as soon as a worker has the codec that it takes.
 */
const NO_CODEC_HELPS = new Set([undefined, 'json/plain', 'json/protobuf', 'binary/protobuf']);

function encodingOf({ metadata }: Payload): string | undefined {
  return metadata?.encoding ? decode(metadata.encoding) : undefined;
}

export const payloadConverter: PayloadConverter = {
  toPayload: (value, context, hint) => defaultPayloadConverter.toPayload(value, context, hint),
  fromPayload<T>(payload: Payload, context?: SerializationContext, hint?: ConverterHint<T>): T {
    try {
      return defaultPayloadConverter.fromPayload<T>(payload, context, hint);
    } catch (error) {
      if (!NO_CODEC_HELPS.has(encodingOf(payload))) throw error;
      return UNREADABLE as T;
    }
  },
};
