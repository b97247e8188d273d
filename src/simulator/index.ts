export { SimulatedCloud } from './cloud';
export type { SimulatedCloudOptions, SimulatedServer } from './cloud';
export type { Fault, FaultHandle } from './http';
export type { AccessRule, UserName } from './identity';
export type { PolicyOverrides } from './policies';
