/**
 * `temporal-nova/payload-converter`: how the arguments of these workflows, and of their signals and updates, are read.
 * An argument that can't be read would make the workflow task fail for ever, and a signal can't be taken back: it becomes
 * `UNREADABLE` instead, which no check of an input takes. All else, a host's own workflows in the same bundle too, is
 * read as by the SDK's default converter.
 */
import {
  defaultPayloadConverter,
  type ConverterHint,
  type Payload,
  type PayloadConverter,
  type SerializationContext,
} from '@temporalio/common';
import { decode } from '@temporalio/common/lib/encoding';
import { inWorkflowContext, workflowInfo } from '@temporalio/workflow';
import { UNREADABLE } from './input';

/** Those that check what they are given. */
const CHECKING = new Set(['CreateServerWorkflow', 'RecoverInstanceWorkflow']);

/**
 * What another client may send in place of JSON. Any other encoding is left to the SDK: a workflow task that fails for
 * one goes on as soon as a worker has the codec that it takes.
 */
const NO_CODEC_HELPS = new Set([undefined, 'json/plain', 'json/protobuf', 'binary/protobuf']);

function encodingOf({ metadata }: Payload): string | undefined {
  return metadata?.encoding ? decode(metadata.encoding) : undefined;
}

function isCheckedHere(): boolean {
  return inWorkflowContext() && CHECKING.has(workflowInfo().workflowType);
}

/**
 * For workers that bundle these workflows without `NovaPlugin`, which brings it along:
 * `dataConverter: { payloadConverterPath: require.resolve('temporal-nova/payload-converter') }`.
 */
export const payloadConverter: PayloadConverter = {
  toPayload: (value, context, hint) => defaultPayloadConverter.toPayload(value, context, hint),
  fromPayload<T>(payload: Payload, context?: SerializationContext, hint?: ConverterHint<T>): T {
    try {
      return defaultPayloadConverter.fromPayload<T>(payload, context, hint);
    } catch (error) {
      if (!isCheckedHere() || !NO_CODEC_HELPS.has(encodingOf(payload))) throw error;
      return UNREADABLE as T;
    }
  },
};
