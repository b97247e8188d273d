export type { ComputeClient, RequestOptions } from './compute';
export { createComputeClient, NEWEST_MICROVERSION } from './compute';
export type { CloudConfig } from './config';
export { loadCloudConfig, loadNamedCloud } from './config';
export type { NovaErrorDetails, NovaErrorKind } from './errors';
export { NovaError } from './errors';
export type { EndedRequest } from './http';
export type { NovaAddresses, NovaFault, NovaInstanceAction, NovaServer, NovaServerRequest } from './types';
