// Every way to host the workflows in a worker of the consumer's: each creates a server, greets by a workflow of the
// consumer's own, and is given an argument that is no JSON. Prints what became of each as one line of JSON.
const { Buffer } = require('node:buffer');
const { createRequire } = require('node:module');
const { TEMPORAL_ADDRESS: address, QUEUE, FLAVOR, IMAGE, WITHOUT_PLUGIN } = process.env;

exports.tryAll = async ({ sdk, nova, own, reexport }) => {
  const { bundleWorkflowCode, Client, Connection, DefaultLogger, NativeConnection, RawValue, Runtime, Worker } = sdk;
  const { createComputeClient, createNovaActivities, loadCloudConfig, NovaPlugin, startCreateServer } = nova;
  const logger = new DefaultLogger('ERROR');
  Runtime.install({ logger });
  const connection = await NativeConnection.connect({ address });
  const client = new Client({ connection: await Connection.connect({ address }) });

  const WAYS = {
    'no workflowsPath': async () => ({ plugins: [new NovaPlugin()] }),
    'own workflowsPath': async () => ({ plugins: [new NovaPlugin()], workflowsPath: own }),
    'own workflowsPath that re-exports ours': async () => ({ plugins: [new NovaPlugin()], workflowsPath: reexport }),
    'prebuilt workflowBundle': async () => ({
      plugins: [new NovaPlugin()],
      workflowBundle: await bundleWorkflowCode({ plugins: [new NovaPlugin()], workflowsPath: own, logger }),
    }),
    'without NovaPlugin': async () => ({
      workflowsPath: reexport,
      activities: createNovaActivities({ compute: createComputeClient(loadCloudConfig(process.env)) }),
      dataConverter: { payloadConverterPath: createRequire(own).resolve('temporal-nova/payload-converter') },
    }),
  };

  if (WITHOUT_PLUGIN === 'no') delete WAYS['without NovaPlugin'];

  async function tryOne(way, options) {
    const taskQueue = `${QUEUE}: ${way}`;
    const worker = await Worker.create({ connection, taskQueue, ...options });
    const start = (what) => ({ taskQueue, workflowId: `${taskQueue}: ${what}`, workflowExecutionTimeout: '20s' });
    const server = { name: 'web-1', flavorRef: FLAVOR, imageRef: IMAGE, networks: 'none' };
    const encoding = Buffer.from('json/plain');
    const noJson = RawValue.fromPayload({ metadata: { encoding }, data: Buffer.from('{"server":') });
    return worker.runUntil(() =>
      Promise.all([
        startCreateServer(client, { server }, start('create')).then(async (handle) => (await handle.result()).status),
        way === 'no workflowsPath' || client.workflow.execute('greet', { ...start('greet'), args: ['you'] }),
        client.workflow
          .execute('CreateServerWorkflow', { ...start('no JSON'), args: [noJson] })
          .catch(({ cause }) => cause.type ?? String(cause)),
      ]),
    );
  }

  const became = {};
  for (const [way, options] of Object.entries(WAYS)) {
    became[way] = await options()
      .then((worker) => tryOne(way, worker))
      .catch(String);
  }
  console.log(JSON.stringify(became));
  process.exit(0); // the client of Nova keeps its connections
};
