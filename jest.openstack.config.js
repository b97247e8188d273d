const missing = ['OS_AUTH_URL', 'OS_USERNAME', 'OS_PASSWORD', 'OS_PROJECT_NAME'].filter((name) => !process.env[name]);
if (missing.length > 0) {
  console.error(
    `npm run test:openstack needs a cloud in the environment (source its openrc): no ${missing.join(', ')}`,
  );
  process.exit(1);
}

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
