/** Where a person looks at a workflow in Temporal's Web UI. */

/** Temporal Cloud has one Web UI for all its namespaces' addresses. */
const TEMPORAL_CLOUD = /\.(tmprl\.cloud|api\.temporal\.io)$/;
const CLOUD_UI = 'https://cloud.temporal.io';

/**
 * The Web UI beside a Temporal server: `TEMPORAL_UI_URL`, Temporal Cloud's, or a dev server's, which is 1,000 ports
 * further on, if one answers there.
 *
 * @param address `host:port` of the server's gRPC endpoint
 * @returns without a slash at the end; undefined when it is not known
 */
export async function findWebUi(address: string, env: NodeJS.ProcessEnv = process.env): Promise<string | undefined> {
  if (env.TEMPORAL_UI_URL) return env.TEMPORAL_UI_URL.replace(/\/+$/, '');
  if (!URL.canParse(`http://${address}`)) return undefined;
  const { hostname, port } = new URL(`http://${address}`);
  if (TEMPORAL_CLOUD.test(hostname)) return CLOUD_UI;
  const url = `http://${hostname}:${Number(port || 7233) + 1000}`;
  const answer = await fetch(url, { signal: AbortSignal.timeout(1_000) }).catch(() => undefined);
  return answer?.ok ? url : undefined;
}

/** The page of one run of a workflow. */
export function workflowPage(webUi: string, namespace: string, workflowId: string, runId: string): string {
  return `${webUi}/namespaces/${encodeURIComponent(namespace)}/workflows/${encodeURIComponent(workflowId)}/${runId}/history`;
}
