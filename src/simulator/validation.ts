/** Nova's request validation, as far as its clients meet it: which keys, of which kind, and what a refusal says. */
import { Refusal } from './message';

/** A microversion as a number that compares: 2.90 is 290, 2.9 is 209. */
export type Microversion = number;

export const microversion = (text: string): Microversion => {
  const [major = '0', minor = '0'] = text.split('.');
  return Number(major) * 100 + Number(minor);
};

type Check = (value: unknown, path: string | number) => void;

const UUID = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;

export const isUuid = (value: unknown): value is string => typeof value === 'string' && UUID.test(value);

/** Python's repr of a JSON value: Nova's messages hold it. */
function repr(value: unknown): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'string') {
    const quote = value.includes("'") && !value.includes('"') ? '"' : "'";
    const escaped = value.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
    return quote + (quote === "'" ? escaped.replaceAll("'", "\\'") : escaped) + quote;
  }
  if (Array.isArray(value)) return `[${value.map(repr).join(', ')}]`;
  if (typeof value === 'object') {
    return `{${Object.entries(value)
      .map(([key, item]) => `${repr(key)}: ${repr(item)}`)
      .join(', ')}}`;
  }
  return String(value);
}

/** The middle of a message shows a text bare, anything else as Python does. */
const bare = (value: unknown): string => (typeof value === 'string' ? value : repr(value));

function invalid(path: string | number | undefined, value: unknown, message: string): Refusal {
  if (path === undefined) return new Refusal(400, message);
  return new Refusal(400, `Invalid input for field/attribute ${path}. Value: ${bare(value)}. ${message}`);
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const string =
  (limits: { min?: number; max?: number; pattern?: RegExp } = {}): Check =>
  (value, path) => {
    if (typeof value !== 'string') throw invalid(path, value, `${repr(value)} is not of type 'string'`);
    if (value.length < (limits.min ?? 0)) throw invalid(path, value, `${repr(value)} is too short`);
    if (limits.max !== undefined && value.length > limits.max) throw invalid(path, value, `${repr(value)} is too long`);
    if (limits.pattern !== undefined && !limits.pattern.test(value)) {
      throw invalid(path, value, `${repr(value)} does not match ${repr(limits.pattern.source)}`);
    }
  };

const name = string({ min: 1, max: 255 });
const anything: Check = () => {};

const uuidOrEmpty: Check = (value, path) => {
  if (value === '' || isUuid(value)) return;
  throw invalid(path, value, `${repr(value)} is not valid under any of the given schemas`);
};

const uuid: Check = (value, path) => {
  if (!isUuid(value)) throw invalid(path, value, `${repr(value)} is not a 'uuid'`);
};

const flavorRef: Check = (value, path) => {
  if (typeof value !== 'string' && !Number.isInteger(value)) {
    throw invalid(path, value, `${repr(value)} is not of type 'string', 'integer'`);
  }
  if (value === '') throw invalid(path, value, `${repr(value)} is too short`);
};

const metadata: Check = (value, path) => {
  if (!isObject(value)) throw invalid(path, value, `${repr(value)} is not of type 'object'`);
  for (const [key, item] of Object.entries(value)) {
    if (!/^[a-zA-Z0-9-_:. ]{1,255}$/.test(key)) {
      throw invalid(path, value, `${repr(key)} does not match any of the regexes: '^[a-zA-Z0-9-_:. ]{1,255}$'`);
    }
    string({ max: 255 })(item, key);
  }
};

export const tag = string({ min: 1, max: 60, pattern: /^[^,/]*$/ });

const tags: Check = (value, path) => {
  if (!Array.isArray(value)) throw invalid(path, value, `${repr(value)} is not of type 'array'`);
  if (value.length > 50) throw invalid(path, value, `${repr(value)} is too long`);
  value.forEach((one, index) => tag(one, index));
};

const positiveInteger: Check = (value, path) => {
  if (typeof value !== 'number' && typeof value !== 'string') {
    throw invalid(path, value, `${repr(value)} is not of type 'integer', 'string'`);
  }
  if (typeof value === 'string' && !/^[0-9]*$/.test(value)) {
    throw invalid(path, value, `${repr(value)} does not match '^[0-9]*$'`);
  }
  if (Number(value) < 1) throw invalid(path, value, `${repr(Number(value))} is less than the minimum of 1`);
};

const networks =
  (version: Microversion): Check =>
  (value, path) => {
    if (version >= 237 && (value === 'none' || value === 'auto')) return;
    if (!Array.isArray(value)) {
      const message = version >= 237 ? 'is not valid under any of the given schemas' : "is not of type 'array'";
      throw invalid(path, value, `${repr(value)} ${message}`);
    }
  };

/** Keys of `server`, with the microversion from which (and, where it went away, until which) each is known. */
const SERVER_KEYS: Record<
  string,
  { check: (version: Microversion) => Check; from?: Microversion; until?: Microversion }
> = {
  name: { check: () => name },
  imageRef: { check: () => uuidOrEmpty },
  flavorRef: { check: () => flavorRef },
  adminPass: { check: () => string() },
  metadata: { check: () => metadata },
  networks: { check: networks },
  'OS-DCF:diskConfig': { check: () => anything },
  accessIPv4: { check: () => anything },
  accessIPv6: { check: () => anything },
  personality: { check: () => anything, until: 256 },
  availability_zone: { check: () => name },
  block_device_mapping: { check: () => anything },
  block_device_mapping_v2: { check: () => anything },
  config_drive: { check: () => anything },
  key_name: { check: () => name },
  min_count: { check: () => positiveInteger },
  max_count: { check: () => positiveInteger },
  return_reservation_id: { check: () => anything },
  security_groups: { check: () => anything },
  user_data: { check: () => string({ max: 65535 }) },
  description: { check: () => anything, from: 219 },
  tags: { check: () => tags, from: 252 },
  trusted_image_certificates: { check: () => anything, from: 263 },
  host: { check: () => name, from: 274 },
  hypervisor_hostname: { check: () => name, from: 274 },
  hostname: { check: () => string({ min: 2, max: 63, pattern: /^[a-zA-Z0-9]+[a-zA-Z0-9-]*[a-zA-Z0-9]+$/ }), from: 290 },
};

/** The `server` of a `POST /servers`, as it passed validation. */
export interface CreateRequest {
  name: string;
  flavorRef: string | number;
  imageRef?: string;
  adminPass?: string;
  networks?: 'auto' | 'none' | { uuid?: string; port?: string; fixed_ip?: string }[];
  metadata?: Record<string, string>;
  tags?: string[];
  availability_zone?: string;
  host?: string;
  hostname?: string;
  description?: string | null;
  key_name?: string;
  user_data?: string;
  config_drive?: unknown;
  security_groups?: { name: string }[];
  block_device_mapping?: unknown[];
  block_device_mapping_v2?: unknown[];
  min_count?: number | string;
  max_count?: number | string;
  return_reservation_id?: unknown;
}

/** Throws Nova's 400 for a body that is no `POST /servers` of this microversion. */
export function validateCreate(body: unknown, version: Microversion): CreateRequest {
  if (!isObject(body)) throw new Refusal(400, `${repr(body)} is not of type 'object'`);
  required(body, ['server'], undefined);
  unexpected(body, ['server', 'os:scheduler_hints', 'OS-SCH-HNT:scheduler_hints'], undefined);
  const server = body['server'];
  if (!isObject(server)) throw invalid('server', server, `${repr(server)} is not of type 'object'`);
  const known = Object.keys(SERVER_KEYS).filter((key) => {
    const { from = 0, until = Infinity } = SERVER_KEYS[key]!;
    return version >= from && version <= until;
  });
  for (const key of known) if (key in server) SERVER_KEYS[key]!.check(version)(server[key], key);
  required(server, version >= 237 ? ['name', 'flavorRef', 'networks'] : ['name', 'flavorRef'], 'server');
  unexpected(server, known, 'server');
  return server as unknown as CreateRequest;
}

function required(value: Record<string, unknown>, keys: string[], path: string | undefined): void {
  for (const key of keys) if (!(key in value)) throw invalid(path, value, `${repr(key)} is a required property`);
}

function unexpected(value: Record<string, unknown>, known: readonly string[], path: string | undefined): void {
  const extra = Object.keys(value).filter((key) => !known.includes(key));
  if (extra.length === 0) return;
  const verb = extra.length === 1 ? 'was' : 'were';
  throw invalid(
    path,
    value,
    `Additional properties are not allowed (${extra.map(repr).join(', ')} ${verb} unexpected)`,
  );
}

/** What the actions' own values must look like; actions not named take any. */
export function validateAction(action: string, value: unknown): void {
  const fields = isObject(value) ? value : undefined;
  const oneOf = (key: string, allowed: string[]) => {
    if (fields === undefined) throw invalid(action, value, `${repr(value)} is not of type 'object'`);
    required(fields, [key], action);
    if (!allowed.includes(String(fields[key]))) {
      throw invalid(key, fields[key], `${repr(fields[key])} is not one of ${repr(allowed)}`);
    }
  };
  switch (action) {
    case 'reboot':
      return oneOf('type', ['HARD', 'Hard', 'hard', 'SOFT', 'Soft', 'soft']);
    case 'os-resetState':
      return oneOf('state', ['active', 'error']);
    case 'resize':
      if (fields === undefined) throw invalid(action, value, `${repr(value)} is not of type 'object'`);
      required(fields, ['flavorRef'], action);
      return flavorRef(fields['flavorRef'], 'flavorRef');
    case 'rebuild':
      if (fields === undefined) throw invalid(action, value, `${repr(value)} is not of type 'object'`);
      required(fields, ['imageRef'], action);
      return uuid(fields['imageRef'], 'imageRef');
    case 'evacuate':
      if (fields === undefined) throw invalid(action, value, `${repr(value)} is not of type 'object'`);
  }
}

/** Query keys of the server list, as microversion 2.75 and later accept them. */
const LIST_KEYS = new Set(
  (
    'user_id project_id tenant_id launch_index image_ref image kernel_id ramdisk_id hostname key_name power_state ' +
    'vm_state task_state host node flavor reservation_id launched_at terminated_at availability_zone name ' +
    'display_name description display_description locked_by uuid root_device_name config_drive access_ip_v4 ' +
    'access_ip_v6 auto_disk_config progress sort_key sort_dir all_tenants soft_deleted deleted status changes-since ' +
    'ip ip6 created_at limit marker tags tags-any not-tags not-tags-any changes-before locked'
  ).split(' '),
);

/** Throws Nova's 400 for a query of the server list that it does not take. */
export function validateList(query: URLSearchParams, version: Microversion): void {
  const refuse = (key: string, value: string, message: string) =>
    new Refusal(400, `Invalid input for query parameters ${key}. Value: ${value}. ${repr(value)} ${message}`);
  for (const [key, value] of query) {
    if (version >= 275 && !LIST_KEYS.has(key))
      throw new Refusal(400, `${repr(key)} does not match any of the regexes: '^_'`);
    if (key === 'limit' && !/^[0-9]*$/.test(value)) throw refuse(key, value, "does not match '^[0-9]*$'");
    if (key.startsWith('changes-') && Number.isNaN(parseTime(value))) throw refuse(key, value, "is not a 'date-time'");
    if (key === 'name' && regex(value) === undefined) throw refuse(key, value, "is not a 'regex'");
  }
}

/** An ISO 8601 time in milliseconds since the epoch; one without a zone is UTC. NaN when it is none. */
export function parseTime(text: string): number {
  if (!/^\d{4}-\d{2}-\d{2}/.test(text)) return NaN;
  return Date.parse(/(Z|[+-]\d{2}:?\d{2})$/.test(text) ? text : `${text}Z`);
}

/** A filter as MariaDB matches it: anywhere in the text, in any case. */
export function regex(pattern: string): RegExp | undefined {
  try {
    return new RegExp(pattern, 'i');
  } catch {
    return undefined;
  }
}

const TRUE = ['1', 't', 'true', 'on', 'y', 'yes'];

/** oslo.utils' `bool_from_string`. */
export function isTrue(value: unknown): boolean {
  return TRUE.includes(String(value ?? '').toLowerCase());
}
