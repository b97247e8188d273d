import { Context } from '@temporalio/activity';

/**
 * Runs `work` while a heartbeat goes out by itself, so that a killed worker is noticed within the heartbeat timeout
 * even in the middle of a slow request. `details()` is what the next attempt, and Pending Activities, get to see.
 */
export async function withHeartbeat<T>(work: () => Promise<T>, details?: () => unknown): Promise<T> {
  const context = Context.current();
  const beat = () => context.heartbeat(details?.());
  const timeout = context.info.heartbeatTimeoutMs;
  if (!timeout) return work();
  const timer = setInterval(beat, timeout / 3);
  try {
    return await work();
  } catch (error) {
    beat(); // else the next attempt would miss what came since the last one
    throw error;
  } finally {
    clearInterval(timer);
  }
}
