import { upsertSearchAttributes, workflowInfo } from '@temporalio/workflow';
import type { ServerState } from '../policy/server-state';
import { SERVER_ID_ATTRIBUTE, SERVER_STATUS_ATTRIBUTE } from '../search-attributes';

/** Keeps the search attributes up to date that the workflow was started with; sets no other one. */
export function showInSearchAttributes(serverId: string | null, state: ServerState | null): void {
  const shown = workflowInfo().typedSearchAttributes;
  const changed = [
    { key: SERVER_ID_ATTRIBUTE, value: serverId },
    { key: SERVER_STATUS_ATTRIBUTE, value: state?.status ?? null },
  ].filter(({ key, value }) => value !== null && shown.get(key) !== undefined && shown.get(key) !== value);
  if (changed.length > 0) upsertSearchAttributes(changed);
}
