// Part of `npm run build`: bundles the workflow code once, so that a worker need not do it at each start, and lets
// `npx temporal-nova` run in this repository (npm itself does that only where the package is installed).
import { createRequire } from 'node:module';
import { chmod, writeFile } from 'node:fs/promises';
import { fileURLToPath, URL } from 'node:url';

const require = createRequire(import.meta.url);
const { bundleWorkflowCode, DefaultLogger } = require('@temporalio/worker');

const lib = fileURLToPath(new URL('../lib/', import.meta.url));
const { code } = await bundleWorkflowCode({
  workflowsPath: `${lib}workflows/index.js`,
  logger: new DefaultLogger('WARN'),
});
await writeFile(`${lib}workflow-bundle.js`, code);
await chmod(`${lib}cli.js`, 0o755);
