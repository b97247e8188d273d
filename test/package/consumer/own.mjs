// A consumer's own workflows.
import { CancellationScope, sleep } from '@temporalio/workflow';

export async function greet(name) {
  await CancellationScope.nonCancellable(() => sleep(1));
  return `hello ${name}`;
}
