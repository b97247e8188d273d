export { SimulatedCloud } from './cloud';
export type { SimulatedAction, SimulatedCloudOptions, SimulatedServer } from './cloud';
export type { Fault, FaultHandle, RecordedRequest, ServiceName } from './http';
export type { UserName } from './identity';
export type { ForcedState } from './model';
