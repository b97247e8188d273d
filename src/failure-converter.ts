/** Loaded by its path, in workflows too (see `dataConverter`): failures as payloads, so that the codec encrypts them. */
import { DefaultFailureConverter } from '@temporalio/common';

export const failureConverter = new DefaultFailureConverter({ encodeCommonAttributes: true });
