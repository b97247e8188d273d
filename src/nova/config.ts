/** OpenStack's configuration out of `OS_*` variables and `clouds.yaml`, as the `openstack` command reads them. */

import { X509Certificate } from 'node:crypto';

import { z } from 'zod';

import type { YamlMap } from './clouds-file';
import {
  cloudNames,
  configurationError,
  expandHome,
  isYamlMap,
  merge,
  readBounded,
  readCloudEntry,
} from './clouds-file';

/** Lowest microversion that takes tags in `POST /servers` (OpenStack Pike; Queens has 2.60). */
export const OLDEST_MICROVERSION = '2.52';

/** By id, or by name within a domain. */
export type Named = { id: string } | { name: string; domain: KeystoneDomain };
export type KeystoneDomain = { id: string } | { name: string };

/** How to log in to Keystone v3. */
export type CloudAuth =
  | { type: 'password'; user: Named; password: string; project: Named }
  | { type: 'token'; token: string; project: Named }
  | { type: 'applicationCredential'; credential: { id: string } | { name: string; user: Named }; secret: string };

/** Where the cloud is and how to log in to it. Holds secrets: not for logs. */
export interface CloudConfig {
  /** Keystone's v3 address, ends in `/v3`. */
  authUrl: string;
  auth: CloudAuth;
  /** Region to take from the catalog; without it, the first that has the service. */
  regionName?: string;
  interface: 'public' | 'internal' | 'admin';
  /** PEM text of the CA certificates to trust, in place of the ones that Node knows. */
  caCertificates?: string;
  /** TLS certificates are not verified: the caller should warn about it. */
  insecure: boolean;
  /** A pinned microversion, such as '2.90'; without it, the newest that both sides know. */
  computeApiVersion?: string;
  /** Nova's address, in place of the catalog's; `%(project_id)s` in it is the project's id. */
  computeEndpointOverride?: string;
}

const AUTH_TYPES = {
  password: 'password',
  v3password: 'password',
  token: 'token',
  v3token: 'token',
  v3applicationcredential: 'applicationCredential',
} as const;

/** Settings by their openstacksdk names, with older names that mean the same. `OS_` and capitals make the variable. */
const SETTINGS = {
  auth_url: [],
  auth_type: ['auth_plugin'],
  username: ['user_name'],
  user_id: [],
  password: [],
  token: ['auth_token'],
  project_name: ['tenant_name'],
  project_id: ['tenant_id'],
  user_domain_name: [],
  user_domain_id: [],
  project_domain_name: [],
  project_domain_id: [],
  domain_name: [],
  domain_id: [],
  default_domain_name: [],
  default_domain_id: ['default_domain'],
  application_credential_id: [],
  application_credential_name: [],
  application_credential_secret: [],
  region_name: [],
  interface: ['endpoint_type'],
  cacert: [],
  insecure: [],
  verify: [],
  compute_api_version: [],
  compute_default_microversion: [],
  compute_endpoint_override: [],
} as const satisfies Record<string, readonly string[]>;

type SettingName = keyof typeof SETTINGS;

/** A value, and for error messages where it is from. */
interface Setting {
  value: string;
  origin: string;
}
interface Settings {
  values: Partial<Record<SettingName, Setting>>;
  /** The cloud's entry that was read, for messages about what is missing. */
  cloud?: { name: string; file: string };
}

/**
 * With `OS_CLOUD`, that cloud of `clouds.yaml`, in which other `OS_*` variables override single settings, as they do
 * for the `openstack` command. Without it, `OS_*` variables alone. An empty variable counts as not set.
 *
 * | setting | default |
 * |---|---|
 * | `OS_AUTH_TYPE` | by what is given: an application credential, a token, else `password` |
 * | `OS_INTERFACE` | `public` |
 * | user's and project's domain | `OS_DOMAIN_*`, then `OS_DEFAULT_DOMAIN_*`; there is no built-in one |
 * | `OS_REGION_NAME` | the first of the cloud's `regions`; else the first in the catalog |
 * | `OS_COMPUTE_API_VERSION` | negotiated; so it is for `2`, `latest` and `2.latest` |
 *
 * In `clouds.yaml`, `compute_default_microversion` pins a microversion too, while `compute_api_version` 2, 2.0 and 2.1
 * name the API, not a microversion (openstacksdk). An application credential brings its own project: project settings
 * are not looked at then.
 *
 * @throws NovaError `Configuration`: one line that names the variable or the file, what is wrong, and what to do;
 * never with a secret's value.
 */
export function loadCloudConfig(env: NodeJS.ProcessEnv = process.env): CloudConfig {
  const settings = readSettings(env);
  const parsed = parseSettings(settings, env);
  return {
    authUrl: parsed.auth_url,
    auth: readAuth(settings, parsed.auth_type),
    ...(parsed.region_name !== undefined && { regionName: parsed.region_name }),
    interface: parsed.interface,
    ...(parsed.cacert !== undefined && { caCertificates: parsed.cacert }),
    insecure: parsed.insecure || !parsed.verify,
    ...pinnedMicroversion(parsed),
    ...(parsed.compute_endpoint_override && { computeEndpointOverride: parsed.compute_endpoint_override }),
  };
}

/**
 * A cloud of `clouds.yaml` beside the one that `env` is about: of the `OS_*` variables only those count that say which
 * files to read (`OS_CLIENT_CONFIG_FILE`, `OS_CLIENT_SECURE_FILE`). The cloud of `OS_CLOUD` is as `loadCloudConfig` has it.
 *
 * @throws NovaError `Configuration`, as `loadCloudConfig` does
 */
export function loadNamedCloud(name: string, env: NodeJS.ProcessEnv = process.env): CloudConfig {
  if (env.OS_CLOUD === name) return loadCloudConfig(env);
  const others = Object.entries(env).filter(([variable]) => !/^OS_(?!CLIENT_)/.test(variable));
  return loadCloudConfig({ ...Object.fromEntries(others), OS_CLOUD: name });
}

function readSettings(env: NodeJS.ProcessEnv): Settings {
  const name = env.OS_CLOUD;
  const settings: Settings = { values: {} };
  if (name) {
    const { file, settings: entry } = readCloudEntry(name, env);
    settings.cloud = { name, file };
    addEntry(settings.values, entry, settings.cloud, env.OS_REGION_NAME);
  } else if (!env.OS_AUTH_URL) {
    const names = cloudNames(env).join(', ');
    throw configurationError(
      'neither OS_CLOUD nor OS_AUTH_URL is set: set OS_CLOUD to the name of a cloud in clouds.yaml' +
        `${names && ` (there is ${names})`}, or OS_AUTH_URL and the other OS_* variables of an openrc file`,
    );
  }
  for (const [key, variable] of variables()) {
    const value = env[variable];
    if (value) settings.values[key] = { value, origin: variable };
  }
  // 'latest' in the variable asks for negotiation, whatever the file pins.
  if (env.OS_COMPUTE_API_VERSION) delete settings.values.compute_default_microversion;
  return settings;
}

/** Older names first, so that the current one wins. */
function* variables(): Generator<[SettingName, string]> {
  for (const [key, aliases] of Object.entries(SETTINGS)) {
    for (const name of [...aliases, key]) yield [key as SettingName, `OS_${name.toUpperCase()}`];
  }
}

function addEntry(
  values: Settings['values'],
  entry: YamlMap,
  cloud: { name: string; file: string },
  wantedRegion: string | undefined,
): void {
  const settings = merge(entry, regionSettings(entry, cloud, wantedRegion));
  const where = `of cloud '${cloud.name}' (${cloud.file})`;
  const auth = settings.auth ?? {};
  if (!isYamlMap(auth)) throw configurationError(`'auth' ${where} must be a mapping`);
  // A setting beside 'auth' wins over the same one in it (openstacksdk, story 2010784).
  for (const [map, prefix] of [
    [auth, 'auth.'],
    [settings, ''],
  ] as const) {
    for (const [key, aliases] of Object.entries(SETTINGS)) {
      for (const name of [...aliases, key]) {
        const value = map[name];
        if (value === undefined || value === '') continue;
        const origin = `'${prefix}${name}' ${where}`;
        if (typeof value !== 'string') throw configurationError(`${origin} must be a single value`);
        values[key as SettingName] = { value, origin };
      }
    }
  }
}

/** Of `regions: [name, { name, values }]`, the one that is asked for, or the first. */
function regionSettings(
  { regions }: YamlMap,
  cloud: { name: string; file: string },
  wanted: string | undefined,
): YamlMap {
  if (regions === undefined) return {};
  const parsed = z
    .array(z.union([z.string().transform((name) => ({ name, values: {} })), regionEntry]))
    .nonempty()
    .safeParse(regions);
  if (!parsed.success) {
    throw configurationError(
      `'regions' of cloud '${cloud.name}' (${cloud.file}) must be a list of names, or of mappings with 'name' and 'values'`,
    );
  }
  const region = wanted ? parsed.data.find(({ name }) => name === wanted) : parsed.data[0];
  if (region === undefined) {
    const known = parsed.data.map(({ name }) => name).join(', ');
    throw configurationError(
      `OS_REGION_NAME is ${shown(wanted ?? '')}, which is not among the regions of cloud '${cloud.name}' ` +
        `(${cloud.file}): ${known}`,
    );
  }
  return { ...region.values, region_name: region.name };
}

const regionEntry = z.strictObject({
  name: z.string(),
  values: z.custom<YamlMap>((value) => isYamlMap(value as YamlMap)).default({}),
});

const BOOLEANS = new Map([
  ['true', true],
  ['1', true],
  ['yes', true],
  ['on', true],
  ['false', false],
  ['0', false],
  ['no', false],
  ['off', false],
]);

const boolean = z.string().transform((value, context) => {
  const meant = BOOLEANS.get(value.trim().toLowerCase());
  if (meant === undefined) context.addIssue(`is ${shown(value)}: it must be true or false`);
  return meant ?? false;
});

const microversion = z.string().transform((value, context) => {
  if (['2', 'latest', '2.latest'].includes(value.trim())) return undefined;
  const minor = /^2\.(\d{1,4})$/.exec(value.trim())?.[1];
  if (minor === undefined) context.addIssue(`is ${shown(value)}: it must look like 2.90, or be left out`);
  return minor === undefined ? undefined : `2.${Number(minor)}`;
});

function settingsSchema(env: NodeJS.ProcessEnv) {
  return z.object({
    auth_url: z
      .string({ error: "is missing: set it to Keystone's address, such as https://cloud.example:5000/v3" })
      .transform((value, context) => parsedOr(context, () => keystoneV3Url(value))),
    auth_type: z
      .enum(Object.keys(AUTH_TYPES) as (keyof typeof AUTH_TYPES)[], {
        error: ({ input }) => `is ${shown(input)}: it must be one of ${Object.keys(AUTH_TYPES).join(', ')}`,
      })
      .optional(),
    region_name: z.string().optional(),
    interface: z
      .string()
      .transform((value) => value.trim().replace(/URL$/, ''))
      .pipe(
        z.enum(['public', 'internal', 'admin'], {
          error: ({ input }) => `is ${shown(input)}: it must be public, internal or admin`,
        }),
      )
      .default('public'),
    cacert: z
      .string()
      .transform((value, context) => parsedOr(context, () => readCertificates(expandHome(value, env))))
      .optional(),
    insecure: boolean.default(false),
    verify: boolean.default(true),
    compute_api_version: microversion.optional(),
    compute_default_microversion: microversion.optional(),
    compute_endpoint_override: z
      .string()
      .transform((value, context) => parsedOr(context, () => httpUrl(value)))
      .optional(),
  });
}

type ParsedSettings = z.output<ReturnType<typeof settingsSchema>>;

function parseSettings(settings: Settings, env: NodeJS.ProcessEnv): ParsedSettings {
  const { values } = settings;
  const api = values.compute_api_version;
  if (api && api.origin !== 'OS_COMPUTE_API_VERSION' && ['2.0', '2.1'].includes(api.value)) {
    delete values.compute_api_version;
  }
  const plain = Object.fromEntries(Object.entries(values).map(([key, { value }]) => [key, value]));
  const parsed = settingsSchema(env).safeParse(plain);
  if (parsed.success) {
    checkMicroversion(settings, parsed.data);
    return parsed.data;
  }
  const problems = parsed.error.issues.map(({ path, message }) => {
    const key = path[0] as SettingName;
    return `${values[key]?.origin ?? missing(settings, key)} ${message}`;
  });
  throw configurationError(problems.join('; '));
}

function pinnedMicroversion(parsed: ParsedSettings): { computeApiVersion?: string } {
  const pinned = parsed.compute_api_version ?? parsed.compute_default_microversion;
  return pinned === undefined ? {} : { computeApiVersion: pinned };
}

function checkMicroversion(settings: Settings, parsed: ParsedSettings): void {
  for (const key of ['compute_api_version', 'compute_default_microversion'] as const) {
    const version = parsed[key];
    if (version !== undefined && minorOf(version) < minorOf(OLDEST_MICROVERSION)) {
      throw configurationError(
        `${settings.values[key]?.origin} is ${version}, and temporal-nova needs at least ${OLDEST_MICROVERSION}: ` +
          'pin a newer microversion, or none',
      );
    }
  }
}

/** 90 of '2.90'. */
export function minorOf(microversion: string): number {
  return Number(microversion.split('.')[1]);
}

function readAuth(settings: Settings, given: ParsedSettings['auth_type']): CloudAuth {
  const lacking: SettingName[][] = [];
  const find = (...keys: SettingName[]) => keys.map((key) => settings.values[key]?.value).find(Boolean);
  const need = (...keys: SettingName[]) => {
    const value = find(...keys);
    if (value === undefined) lacking.push(keys);
    return value ?? '';
  };
  const domain = (id: SettingName, name: SettingName): KeystoneDomain => {
    for (const [idKey, nameKey] of [
      [id, name],
      ['domain_id', 'domain_name'],
      ['default_domain_id', 'default_domain_name'],
    ] as [SettingName, SettingName][]) {
      if (find(idKey)) return { id: need(idKey) };
      if (find(nameKey)) return { name: need(nameKey) };
    }
    return { name: need(name, id) };
  };
  const user = (): Named =>
    find('user_id')
      ? { id: need('user_id') }
      : { name: need('username', 'user_id'), domain: domain('user_domain_id', 'user_domain_name') };
  const project = (): Named =>
    find('project_id')
      ? { id: need('project_id') }
      : { name: need('project_name', 'project_id'), domain: domain('project_domain_id', 'project_domain_name') };

  const type = given === undefined ? guessAuthType(settings.values) : AUTH_TYPES[given];
  const auth = ((): CloudAuth => {
    switch (type) {
      case 'password':
        return { type, user: user(), password: need('password'), project: project() };
      case 'token':
        return { type, token: need('token'), project: project() };
      case 'applicationCredential': {
        const credential =
          find('application_credential_name') && !find('application_credential_id')
            ? { name: need('application_credential_name'), user: user() }
            : { id: need('application_credential_id', 'application_credential_name') };
        return { type, credential, secret: need('application_credential_secret') };
      }
    }
  })();
  if (lacking.length > 0) {
    const names = lacking.map((keys) => missing(settings, ...keys));
    const advice = settings.cloud
      ? `add ${names.length > 1 ? 'them' : 'it'} there, or in secure.yaml, or set the OS_* variable of that name`
      : `set ${names.length > 1 ? 'them' : 'it'}, or OS_CLOUD to the name of a cloud in clouds.yaml`;
    throw configurationError(
      `${names.join(', ')} ${names.length > 1 ? 'are' : 'is'} missing, to log in by ${LOGIN_WORDS[type]}: ${advice}`,
    );
  }
  return auth;
}

const LOGIN_WORDS = { password: 'password', token: 'token', applicationCredential: 'application credential' } as const;

function guessAuthType(values: Settings['values']): CloudAuth['type'] {
  if (values.password) return 'password';
  if (values.application_credential_id || values.application_credential_name) return 'applicationCredential';
  return values.token ? 'token' : 'password';
}

/** Name of what is not there: the variable, or the key of `clouds.yaml` where a cloud is configured by one. */
function missing({ cloud }: Settings, ...[key, ...others]: SettingName[]): string {
  const name = cloud ? `'auth.${key}' of cloud '${cloud.name}' (${cloud.file})` : `OS_${key?.toUpperCase()}`;
  return others.length > 0 && !cloud ? `${name} (or OS_${others.join(', OS_').toUpperCase()})` : name;
}

/** Runs `parse`, whose error's message becomes the setting's. */
function parsedOr(context: z.RefinementCtx, parse: () => string): string {
  try {
    return parse();
  } catch (error) {
    context.addIssue((error as Error).message);
    return '';
  }
}

/** With and without `/v3`, with and without slashes at the end. */
function keystoneV3Url(value: string): string {
  const url = httpUrl(value);
  if (/\/v2\.0$/.test(url)) throw new Error("is an address of Keystone's v2.0: give the one that ends in /v3");
  return url.endsWith('/v3') ? url : `${url}/v3`;
}

function httpUrl(value: string): string {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw new Error('is not a URL that begins with http:// or https://');
  }
  if (url.username || url.password) throw new Error('holds a user name or a password, which do not belong there');
  if (url.search || url.hash) throw new Error("has a '?' or a '#' in it, which do not belong there");
  return withoutSlashes(url.href);
}

/** Without slashes at its end. */
export function withoutSlashes(url: string): string {
  let end = url.length;
  while (url[end - 1] === '/') end--;
  return url.slice(0, end);
}

/** A system's whole bundle of CA certificates has about 250 kB. */
const MAX_CA_BYTES = 4 * 1024 * 1024;

function readCertificates(path: string): string {
  let pem: string;
  try {
    pem = readBounded(path, MAX_CA_BYTES);
  } catch (error) {
    throw new Error(`names ${path}, which ${(error as Error).message}`);
  }
  const certificates = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  if (certificates.length === 0) throw new Error(`names ${path}, which holds no PEM certificate`);
  for (const certificate of certificates) {
    try {
      new X509Certificate(certificate);
    } catch {
      throw new Error(`names ${path}, which holds a broken certificate`);
    }
  }
  return certificates.join('\n');
}

function shown(value: unknown): string {
  return JSON.stringify(String(value).slice(0, 60));
}
