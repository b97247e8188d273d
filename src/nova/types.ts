/** Shapes of the Compute API as this project uses them; names as Nova spells them. */

/**
 * The `server` object of Nova's `POST /servers`, passed on as it is. It must be valid for the microversion in use
 * (with 2.37 and later, `networks` is required). Nova documents every key:
 * https://docs.openstack.org/api-ref/compute/#create-server
 */
export interface NovaServerRequest {
  name: string;
  flavorRef: string;
  imageRef?: string;
  networks?: 'auto' | 'none' | { uuid?: string; port?: string; fixed_ip?: string; tag?: string }[];
  block_device_mapping_v2?: Record<string, unknown>[];
  key_name?: string;
  metadata?: Record<string, string>;
  security_groups?: { name: string }[];
  /** Base64. Never shown in logs, errors, queries or results. */
  user_data?: string;
  availability_zone?: string;
  config_drive?: boolean;
  /** Kept beside the creation's own tag (microversion 2.52). */
  tags?: string[];
  [key: string]: unknown;
}

/** `addresses` of a server: by network name. */
export type NovaAddresses = Record<string, NovaAddress[]>;

export interface NovaAddress {
  addr: string;
  version: number;
  'OS-EXT-IPS:type'?: string;
  'OS-EXT-IPS-MAC:mac_addr'?: string;
}

/** Why a server is in ERROR (`fault`), shown by Nova for ERROR and DELETED only. `details` (a traceback) is left out. */
export interface NovaFault {
  code: number;
  message: string;
  created?: string;
}

/** A server as `GET /servers/{id}` shows it. In a down cell (2.69) everything but `id` and `status` may be missing. */
export interface NovaServer {
  id: string;
  name?: string;
  status: string;
  addresses?: NovaAddresses;
  fault?: NovaFault;
  locked?: boolean;
  metadata?: Record<string, string>;
  tags?: string[];
  user_id?: string;
  tenant_id?: string;
  created?: string;
  updated?: string;
  'OS-EXT-STS:vm_state'?: string | null;
  'OS-EXT-STS:task_state'?: string | null;
  'OS-EXT-STS:power_state'?: number | null;
  'OS-EXT-SRV-ATTR:host'?: string | null;
  'OS-SRV-USG:launched_at'?: string | null;
}

/** An entry of `GET /servers/{id}/os-instance-actions`, newest first in Nova's list. `message` is 'Error' or null. */
export interface NovaInstanceAction {
  action: string;
  instance_uuid: string;
  message: string | null;
  project_id: string | null;
  request_id: string;
  start_time: string;
  user_id: string | null;
  updated_at?: string | null;
}

/** `GET /servers/{id}/os-instance-actions/{request_id}`; events are visible to administrators by default. */
export interface NovaInstanceActionDetail extends NovaInstanceAction {
  events?: NovaInstanceActionEvent[];
}

export interface NovaInstanceActionEvent {
  event: string;
  start_time: string;
  finish_time: string | null;
  result: string | null;
  traceback?: string | null;
  details?: string | null;
}
