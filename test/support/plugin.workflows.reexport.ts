/** As many users write it. */
export * from '../../src/workflows';
export { greet } from './plugin.workflows';
