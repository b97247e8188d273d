/** The clouds of a worker, and which of them an activity is for. Inputs choose by name: they never say where one is. */
import { ApplicationFailure, Context } from '@temporalio/activity';
import type { ComputeClient } from '../nova';
import type { FailureDetails } from './failures';
import { SharedLooks } from './shared-looks';

/** What every request of a workflow can say. */
export interface InCloud {
  /** Default: the worker's own. */
  cloud?: string | undefined;
}

export interface Cloud {
  /** The value of the metrics' label `cloud`. */
  label: string;
  compute: ComputeClient;
  shared: SharedLooks;
}

/** Of the names that a failure lists. */
const LISTED = 20;

export class Clouds {
  private readonly own: Cloud;
  private readonly named: ReadonlyMap<string, Cloud>;

  /** @param others may have `compute` in it too, under the name of the worker's own cloud */
  constructor(compute: ComputeClient, others: Readonly<Record<string, ComputeClient>>, shutdown: AbortSignal) {
    const toCloud = (client: ComputeClient, label: string) => ({
      label,
      compute: client,
      shared: new SharedLooks(client, shutdown),
    });
    this.own = toCloud(compute, 'default');
    this.named = new Map(
      Object.entries(others).map(([name, client]) => [name, client === compute ? this.own : toCloud(client, name)]),
    );
  }

  /** @throws ApplicationFailure `InvalidInput`, not to be retried, where this worker has no such cloud */
  choose({ cloud: name, mayExist }: InCloud & Pick<FailureDetails, 'mayExist'>): Cloud {
    if (name === undefined) return this.own;
    const cloud = this.named.get(name);
    if (cloud) return cloud;
    const known = [...this.named.keys()].sort();
    const more = known.length > LISTED ? ` and ${known.length - LISTED} more` : '';
    const words = known.length > 0 ? `it knows ${known.slice(0, LISTED).join(', ')}${more}` : 'it knows its own only';
    // An attempt before, on another worker that does know the cloud, may have sent the POST.
    const details: FailureDetails = { mayExist: mayExist || Context.current().info.attempt > 1 };
    throw ApplicationFailure.nonRetryable(
      `Invalid input: cloud is "${name.slice(0, 60)}", which this worker does not know; ${words}.`,
      'InvalidInput',
      details,
    );
  }
}
