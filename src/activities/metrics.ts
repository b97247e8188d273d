/** What activities count, by the meter of the worker they run in: docs/observability.md has the list. */
import { Context } from '@temporalio/activity';
import type { NovaError } from '../nova';
import { knownStatus } from '../policy/creation';
import type { ServerState } from '../policy/server-state';

/** One wait that this worker holds at the moment, counted under the status that was seen last. */
export class CountedWait {
  private readonly waits = Context.current().metricMeter.createUpDownCounter?.(
    'temporal_nova_waits',
    undefined,
    'Waits for a server that this worker watches at the moment, by the status that Nova showed last.',
  );
  private status: string | undefined;

  /** @param cloud the value of the label */
  constructor(private readonly cloud: string) {}

  /** @param state what was seen last; null when nothing was */
  show(state: ServerState | null): void {
    this.move(state === null ? 'NONE' : knownStatus(state.status));
  }

  end(): void {
    this.move(undefined);
  }

  private move(to: string | undefined): void {
    if (to === this.status) return;
    if (to !== undefined) this.waits?.add(1, { status: to, cloud: this.cloud });
    if (this.status !== undefined) this.waits?.add(-1, { status: this.status, cloud: this.cloud });
    this.status = to;
  }
}

/** An activity failed with what clears by itself: Temporal gives it to a worker again. */
export function countRetry({ details }: NovaError, cloud: string): void {
  Context.current()
    .metricMeter.createCounter(
      'temporal_nova_retries_total',
      undefined,
      'Activities that end with an error of OpenStack that clears by itself, and are tried again, by its code.',
    )
    .add(1, { code: String(details.httpStatus ?? 'none'), cloud });
}
