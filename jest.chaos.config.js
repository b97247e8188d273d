// One seed for the whole run: what is drawn from it, and how to repeat it, is in test/chaos/support/random.ts.
process.env.TEMPORAL_NOVA_CHAOS_SEED ||= String(Math.floor(Math.random() * 1e9));
const seed = process.env.TEMPORAL_NOVA_CHAOS_SEED;
if (!process.env.JEST_WORKER_ID) console.error(`to repeat: TEMPORAL_NOVA_CHAOS_SEED=${seed} npm run test:chaos`);

/**
 * `npm run test:chaos`: workers, Temporal, Keystone and Nova killed, away, noisy, replaced, while hundreds of workflows
 * run; see docs/reliability.md.
 * @type {import('jest').Config}
 */
module.exports = {
  ...require('./jest.config.js'),
  roots: ['<rootDir>/test/chaos'],
  testPathIgnorePatterns: ['/node_modules/'],
  testSequencer: '<rootDir>/test/chaos/support/longest-first.js',
  testTimeout: 14 * 60_000,
};
