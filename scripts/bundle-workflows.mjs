// Part of `npm run build`: bundles the workflow code once, so that a worker need not do it at each start, and lets
// `npx temporal-nova` run in this repository (npm itself does that only where the package is installed).
import { createRequire } from 'node:module';
import { chmod, writeFile } from 'node:fs/promises';
import { fileURLToPath, URL } from 'node:url';

const require = createRequire(import.meta.url);
const { bundleWorkflowCode, DefaultLogger } = require('@temporalio/worker');

const lib = fileURLToPath(new URL('../lib/', import.meta.url));

async function bundle(file, options) {
  const { code } = await bundleWorkflowCode({
    workflowsPath: `${lib}workflows/index.js`,
    payloadConverterPath: `${lib}workflows/payload-converter.js`,
    logger: new DefaultLogger('WARN'),
    ...options,
  });
  await writeFile(`${lib}${file}`, code);
}

await bundle('workflow-bundle.js');
// For a worker with codec keys: how failures are written down is fixed in the bundle.
await bundle('workflow-bundle.encoded-failures.js', { failureConverterPath: `${lib}failure-converter.js` });
await chmod(`${lib}cli.js`, 0o755);
