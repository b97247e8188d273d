/**
 * Answers as the rest of the project sees them. What a caller can't do without must be there, or the item is undefined;
 * any other field of a wrong type is left out. Only what `types.ts` names is passed on, so `adminPass`, `user_data` and
 * tracebacks are not.
 */

import type { NovaFlavor, NovaImage, NovaNetwork } from './compute';
import type {
  NovaAddress,
  NovaAddresses,
  NovaFault,
  NovaInstanceAction,
  NovaInstanceActionDetail,
  NovaInstanceActionEvent,
  NovaServer,
} from './types';

type Fields = Record<string, unknown>;

export function isRecord(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Nova's own ids and names have at most 255 characters (`nova/db/main/models.py`). */
const LONGEST_NAME = 255;
/** Of all metadata together, as JSON: by default Nova takes 128 entries of 255 + 255 characters at most. */
const LONGEST_METADATA = 100_000;

export function parseServer(value: unknown): NovaServer | undefined {
  if (!isRecord(value) || !isId(value.id) || !isText(value.status)) return undefined;
  return {
    id: value.id,
    status: value.status,
    ...pick(value, isString, ['name', 'user_id', 'tenant_id', 'created', 'updated']),
    ...pick(value, isStringOrNull, [
      'OS-EXT-STS:vm_state',
      'OS-EXT-STS:task_state',
      'OS-EXT-SRV-ATTR:host',
      'OS-SRV-USG:launched_at',
    ]),
    ...pick(value, isNumberOrNull, ['OS-EXT-STS:power_state']),
    ...pick(value, isBoolean, ['locked']),
    ...optional('addresses', parseAddresses(value.addresses)),
    ...optional('fault', parseFault(value.fault)),
    ...optional('metadata', parseMetadata(value.metadata)),
    ...optional('tags', Array.isArray(value.tags) ? (value.tags as unknown[]).filter(isString) : undefined),
  };
}

function parseAddresses(value: unknown): NovaAddresses | undefined {
  if (!isRecord(value)) return undefined;
  return Object.fromEntries(
    Object.entries(value).map(([network, addresses]) => [
      network,
      Array.isArray(addresses) ? (addresses as unknown[]).flatMap(parseAddress) : [],
    ]),
  );
}

function parseAddress(value: unknown): NovaAddress[] {
  if (!isRecord(value) || typeof value.addr !== 'string' || !isNumber(value.version)) return [];
  const more = pick(value, isString, ['OS-EXT-IPS:type', 'OS-EXT-IPS-MAC:mac_addr']);
  return [{ addr: value.addr, version: value.version, ...more }];
}

function parseFault(value: unknown): NovaFault | undefined {
  if (!isRecord(value) || typeof value.message !== 'string') return undefined;
  return {
    code: Number.isSafeInteger(value.code) ? (value.code as number) : 500,
    message: value.message,
    ...pick(value, isName, ['created']),
  };
}

function parseMetadata(value: unknown): Record<string, string> | undefined {
  if (!isRecord(value)) return undefined;
  const entries: [string, string][] = [];
  let length = 0;
  for (const [key, text] of Object.entries(value)) {
    if (!isName(key) || !isName(text)) continue;
    length += JSON.stringify([key, text]).length;
    if (length > LONGEST_METADATA) break;
    entries.push([key, text]);
  }
  return Object.fromEntries(entries);
}

export function parseInstanceAction(value: unknown): NovaInstanceAction | undefined {
  if (!isRecord(value) || !isId(value.action) || !isId(value.request_id) || !isId(value.start_time)) {
    return undefined;
  }
  return {
    action: value.action,
    instance_uuid: textOrNull(value.instance_uuid) ?? '',
    message: textOrNull(value.message),
    project_id: textOrNull(value.project_id),
    request_id: value.request_id,
    start_time: value.start_time,
    user_id: textOrNull(value.user_id)?.slice(0, LONGEST_NAME) ?? null,
    ...pick(value, isStringOrNull, ['updated_at']),
  };
}

export function parseInstanceActionDetail(value: unknown): NovaInstanceActionDetail | undefined {
  const action = parseInstanceAction(value);
  if (action === undefined || !isRecord(value) || !Array.isArray(value.events)) return action;
  return { ...action, events: (value.events as unknown[]).flatMap(parseEvent) };
}

/** Without its traceback. */
function parseEvent(value: unknown): NovaInstanceActionEvent[] {
  if (!isRecord(value) || !isText(value.event)) return [];
  return [
    {
      event: value.event,
      start_time: textOrNull(value.start_time) ?? '',
      finish_time: textOrNull(value.finish_time),
      result: textOrNull(value.result),
      ...pick(value, isStringOrNull, ['details']),
    },
  ];
}

export function parseFlavor(value: unknown): NovaFlavor | undefined {
  if (!isRecord(value) || !isId(value.id) || !isString(value.name)) return undefined;
  return { id: value.id, name: value.name, ...pick(value, isNumber, ['ram', 'vcpus', 'disk']) };
}

export function parseImage(value: unknown): NovaImage | undefined {
  if (!isRecord(value) || !isId(value.id) || !isText(value.status)) return undefined;
  return { id: value.id, name: textOrNull(value.name), status: value.status };
}

export function parseNetwork(value: unknown): NovaNetwork | undefined {
  if (!isRecord(value) || !isId(value.id)) return undefined;
  return { id: value.id, name: textOrNull(value.name) ?? '' };
}

/** The microversions of `{"version": {"id": "v2.1", "version": "2.93", "min_version": "2.1"}}`; '' is none: 2.0. */
export function parseVersion(body: unknown): { oldest: string; newest: string } | undefined {
  const version = isRecord(body) ? body.version : undefined;
  if (!isRecord(version)) return undefined;
  const { version: newest, min_version: oldest } = version;
  if (newest === '') return { oldest: '2.0', newest: '2.0' };
  return isMicroversion(newest) && isMicroversion(oldest) ? { oldest, newest } : undefined;
}

function isMicroversion(value: unknown): value is string {
  return typeof value === 'string' && /^2\.\d{1,4}$/.test(value);
}

function pick<K extends string, T>(fields: Fields, is: (value: unknown) => value is T, keys: K[]): { [P in K]?: T } {
  const picked: { [P in K]?: T } = {};
  for (const key of keys) {
    const value = fields[key];
    if (is(value)) picked[key] = value;
  }
  return picked;
}

function optional<K extends string, T>(key: K, value: T | undefined): { [P in K]?: T } {
  return (value === undefined ? {} : { [key]: value }) as { [P in K]?: T };
}

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

/** What identifies something. */
export function isId(value: unknown): value is string {
  return isText(value) && value.length <= LONGEST_NAME;
}
function isName(value: unknown): value is string {
  return isString(value) && value.length <= LONGEST_NAME;
}
function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}
function isString(value: unknown): value is string {
  return typeof value === 'string';
}
function isStringOrNull(value: unknown): value is string | null {
  return value === null || typeof value === 'string';
}
function isNumber(value: unknown): value is number {
  return Number.isFinite(value); // JSON's 1e999 is Infinity
}
function isNumberOrNull(value: unknown): value is number | null {
  return value === null || isNumber(value);
}
function isBoolean(value: unknown): value is boolean {
  return typeof value === 'boolean';
}
