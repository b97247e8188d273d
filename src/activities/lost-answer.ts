import { setTimeout as delay } from 'node:timers/promises';
import { LOOK_AGAIN_AFTER } from '../policy/polling';

/** Looks for what a request whose answer was lost may have led to; once more a while later, before it says null. */
export async function lookAgain<T>(look: () => Promise<T | null>, signal: AbortSignal | undefined): Promise<T | null> {
  const found = await look();
  if (found !== null) return found;
  await delay(LOOK_AGAIN_AFTER, undefined, { signal });
  return look();
}
