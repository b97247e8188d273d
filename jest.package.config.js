/**
 * `npm run test:package`: the package as it is published, installed by each package manager; see docs/hosting.md.
 * @type {import('jest').Config}
 */
module.exports = {
  ...require('./jest.config.js'),
  roots: ['<rootDir>/test/package'],
  testPathIgnorePatterns: ['/node_modules/'],
  testTimeout: 180_000,
};
