/** Every workflow type of this package, for the workflow bundler. Nothing else may be exported from here. */
export { CreateServerWorkflow } from './create-server';
export { RecoverInstanceWorkflow } from './recover-instance';
