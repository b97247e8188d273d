/** Options as a workflow's input takes them; the workflows' own checks judge them, before anything is started. */
import { ApplicationFailure } from '@temporalio/common';
import { UsageError } from './errors';

/** `key=value` options as an object. */
export function toRecord(option: string, pairs: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=');
      if (at < 1) throw new UsageError(`${option} takes key=value, not "${pair}"`);
      return [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );
}

/** A bare number would be milliseconds to Temporal, and hardly ever meant so. */
export function checkUnit(option: string, duration: string | undefined): void {
  if (duration !== undefined && /^[\d.\s]*$/.test(duration)) {
    throw new UsageError(`${option} needs a unit, such as 90s, 10m or 1h, not "${duration}"`);
  }
}

/** @throws UsageError with the workflow's own words on an input that it would refuse */
export function checked<T>(check: (input: unknown) => unknown, input: T): T {
  try {
    check(input);
    return input;
  } catch (error) {
    if (!(error instanceof ApplicationFailure)) throw error;
    throw new UsageError(error.message.replace(/^Invalid input: /, ''));
  }
}

/** By the options' names in camel case. */
export function checkNotEmpty(options: Record<string, string | string[] | undefined>): void {
  for (const [name, value] of Object.entries(options)) {
    if (![value].flat().includes('')) continue;
    throw new UsageError(`--${name.replace(/[A-Z]/g, '-$&').toLowerCase()} is empty`);
  }
}
