/**
 * The contract tests against a real cloud, named by `OS_*` as for the `openstack` command:
 * `npm run test:openstack`. They delete what they made.
 * @type {import('jest').Config}
 */
module.exports = {
  ...require('./jest.config.js'),
  roots: ['<rootDir>/test/openstack'],
  globals: { CLOUD_FROM_ENVIRONMENT: true },
  testTimeout: 180_000,
};
