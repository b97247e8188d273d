/** Types and errors for services, and the worker for teams that run their own process. */
export type {
  CodecKey,
  CreateServerHandle,
  CreateServerInput,
  CreateServerResult,
  FailureType,
  NovaAddresses,
  NovaServerRequest,
  Observation,
  Phase,
  PollingOptions,
  Progress,
  RecoverInstanceHandle,
  RecoverInstanceInput,
  RecoverInstanceResult,
  RecoveryAction,
  RecoveryNotification,
  RecoveryPath,
  RecoveryPolicy,
  RecoveryReason,
  RecoveryStep,
  ServerState,
  StartedServer,
  WorkflowFailure,
  WorkflowFailureDetails,
} from './client';
export {
  CodecError,
  dataConverter,
  DEFAULT_TASK_QUEUE,
  EncryptionCodec,
  failureOf,
  loadCodecKeys,
  NOVA_SEARCH_ATTRIBUTES,
  recoveryWorkflowId,
  startCreateServer,
  startCreateServerAndGetId,
  startRecoverInstance,
} from './client';
export { HISTOGRAM_BUCKETS, requestMetrics } from './metrics';
export { createComputeClient, loadCloudConfig, NovaError } from './nova';
export type { CloudConfig, ComputeClient, NovaErrorKind } from './nova';
export { NovaPlugin } from './plugin';
export type { CloudSource } from './clouds';
export type { NovaPluginOptions } from './plugin';
export { createNovaWorker } from './worker';
export type { NovaWorkerOptions } from './worker';
