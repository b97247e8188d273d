export type {
  ComputeClient,
  ComputeClientOptions,
  NovaFlavor,
  NovaImage,
  NovaNetwork,
  RequestOptions,
} from './compute';
export { createComputeClient, NEWEST_MICROVERSION } from './compute';
export type { CloudAuth, CloudConfig, KeystoneDomain, Named } from './config';
export { loadCloudConfig, OLDEST_MICROVERSION } from './config';
export type { NovaErrorDetails, NovaErrorKind } from './errors';
export { NovaError } from './errors';
export type { Logger } from './identity';
export type {
  NovaAddress,
  NovaAddresses,
  NovaFault,
  NovaInstanceAction,
  NovaInstanceActionDetail,
  NovaInstanceActionEvent,
  NovaServer,
  NovaServerRequest,
} from './types';
