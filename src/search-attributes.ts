/**
 * The search attributes `NovaServerId` and `NovaServerStatus` (Keyword). Opt-in, workflow by workflow: one that is
 * started with an attribute keeps it up to date. So Temporal itself checks at the start that it is registered, where an
 * unregistered one that only the workflow sets would fail its workflow task for ever.
 */
import { defineSearchAttributeKey, SearchAttributeType, type SearchAttributePair } from '@temporalio/common';

export const SERVER_ID_ATTRIBUTE = defineSearchAttributeKey('NovaServerId', SearchAttributeType.KEYWORD);
export const SERVER_STATUS_ATTRIBUTE = defineSearchAttributeKey('NovaServerStatus', SearchAttributeType.KEYWORD);

/**
 * For the start options of a workflow of this package: it sets `NovaServerId` and `NovaServerStatus`, and from then on
 * they say what Nova showed last. 'NONE' until there is something to say.
 *
 * @example
 * await startCreateServer(client, input, { workflowId: 'order-4711', typedSearchAttributes: NOVA_SEARCH_ATTRIBUTES });
 */
export const NOVA_SEARCH_ATTRIBUTES: SearchAttributePair[] = [
  { key: SERVER_ID_ATTRIBUTE, value: 'NONE' },
  { key: SERVER_STATUS_ATTRIBUTE, value: 'NONE' },
];
