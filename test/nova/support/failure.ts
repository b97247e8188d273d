import { NovaError } from '../../../src/nova';

/** The NovaError that `call` fails with. */
export async function failureOf(call: Promise<unknown>): Promise<NovaError> {
  const outcome = await call.then(
    (value) => value,
    (error: unknown) => error,
  );
  if (outcome instanceof NovaError) return outcome;
  throw new Error(`not a NovaError: ${String(outcome)}`);
}
