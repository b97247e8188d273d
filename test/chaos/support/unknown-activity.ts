import { proxyActivities } from '@temporalio/workflow';

/** Calls an activity that this version's workers don't have, as a workflow of a newer version would. */
export async function callsUnknownActivity(taskQueue: string, input: unknown): Promise<void> {
  const activities = proxyActivities<{ novaFromTheFuture(input: unknown): Promise<void> }>({
    taskQueue,
    startToCloseTimeout: '10s',
    retry: { maximumAttempts: 1 },
  });
  await activities.novaFromTheFuture(input);
}
