const worker = require('@temporalio/worker');
const client = require('@temporalio/client');
const common = require('@temporalio/common');
const nova = require('temporal-nova');
const { startCreateServer } = require('temporal-nova/client');
const { createNovaActivities } = require('temporal-nova/activities');
const { tryAll } = require('./ways.cjs');

tryAll({
  sdk: { ...worker, ...client, ...common },
  nova: { ...nova, startCreateServer, createNovaActivities },
  own: require.resolve('./own.cjs'),
  reexport: require.resolve('./reexport.cjs'),
});
