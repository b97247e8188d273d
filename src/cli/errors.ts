/** What goes wrong, as one line for a person, and the exit code that goes with it. */
import { NovaError } from '../nova/errors';

/** Documented in docs/command-line.md. */
export const EXIT = { done: 0, failed: 1, usage: 2, skipped: 3, interrupted: 130 } as const;

/** A mistake in the command line or in the settings: exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Something went wrong, and the message says all there is to say about it: exit code 1. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
}

/** Never a stack; for an error that nobody has foreseen its first line. */
export function explain(error: unknown): { message: string; exitCode: number } {
  if (error instanceof UsageError) return { message: error.message, exitCode: EXIT.usage };
  if (error instanceof CommandError) return { message: error.message, exitCode: EXIT.failed };
  if (error instanceof NovaError) {
    return { message: error.message, exitCode: error.kind === 'Configuration' ? EXIT.usage : EXIT.failed };
  }
  return { message: `unexpected error: ${firstLine(error)}`, exitCode: EXIT.failed };
}

export function firstLine(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message.split('\n')[0] ?? '';
}
