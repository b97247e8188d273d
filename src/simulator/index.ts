export { SimulatedCloud } from './cloud';
export type { SimulatedAction, SimulatedCloudOptions, SimulatedServer } from './cloud';
export type { Fault, FaultHandle, RecordedRequest, ServiceName } from './http';
export type { AccessRule, ProjectName, UserName } from './identity';
export type { ForcedState } from './model';
export type { PolicyCheck, PolicyOverrides } from './policies';
