import { fileURLToPath, URL } from 'node:url';
import { bundleWorkflowCode, DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import { Client, Connection } from '@temporalio/client';
import { RawValue } from '@temporalio/common';
import { createComputeClient, loadCloudConfig, NovaPlugin } from 'temporal-nova';
import { startCreateServer } from 'temporal-nova/client';
import { createNovaActivities } from 'temporal-nova/activities';
import { tryAll } from './ways.cjs';

const here = (file) => fileURLToPath(new URL(file, import.meta.url));

await tryAll({
  sdk: { bundleWorkflowCode, Client, Connection, DefaultLogger, NativeConnection, RawValue, Runtime, Worker },
  nova: { createComputeClient, createNovaActivities, loadCloudConfig, NovaPlugin, startCreateServer },
  own: here('own.mjs'),
  reexport: here('reexport.mjs'),
});
