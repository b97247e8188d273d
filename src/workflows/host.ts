/**
 * What a worker runs that hosts these workflows beside its own: `NovaPlugin` puts this file in the place of the user's
 * `workflowsPath`, and has webpack resolve the second module to that. A workflow of the user's wins over one of the same
 * name here, a re-export of ours above all.
 */
/* eslint-disable @typescript-eslint/no-require-imports -- the other module may be anything, also ESM */
import ours = require('./index');
import theirs = require('temporal-nova-host/user-workflows');

export = { ...ours, ...theirs };
