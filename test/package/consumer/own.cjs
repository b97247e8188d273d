// A consumer's own workflows.
const { CancellationScope, sleep } = require('@temporalio/workflow');

exports.greet = async (name) => {
  await CancellationScope.nonCancellable(() => sleep(1));
  return `hello ${name}`;
};
