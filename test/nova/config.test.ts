import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import fc from 'fast-check';
import { z } from 'zod';

import type { CloudConfig } from '../../src/nova';
import { loadCloudConfig, loadNamedCloud, NovaError } from '../../src/nova';
import { hostileText, like, runs } from '../support/property';

const PASSWORD_ENV = {
  OS_AUTH_URL: 'https://cloud.example:5000',
  OS_USERNAME: 'demo',
  OS_PASSWORD: 's3cr3t-value',
  OS_PROJECT_NAME: 'web',
  OS_USER_DOMAIN_NAME: 'Default',
  OS_PROJECT_DOMAIN_ID: 'default',
};
const PASSWORD_AUTH = {
  type: 'password',
  user: { name: 'demo', domain: { name: 'Default' } },
  password: 's3cr3t-value',
  project: { name: 'web', domain: { id: 'default' } },
};

let home: string;
let cwd: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'nova-home-'));
  cwd = process.cwd();
  process.chdir(mkdtempSync(join(tmpdir(), 'nova-cwd-')));
});
afterEach(() => {
  const work = process.cwd();
  process.chdir(cwd);
  rmSync(work, { recursive: true });
  rmSync(home, { recursive: true });
});

/** Nothing but what is given and an empty home. */
function load(env: Record<string, string>): CloudConfig {
  return loadCloudConfig({ HOME: home, ...env });
}

function problemOf(env: Record<string, string>): string {
  try {
    load(env);
  } catch (error) {
    if (!(error instanceof NovaError)) throw error;
    expect(error.kind).toBe('Configuration');
    expect(error.message).not.toMatch(/s3cr3t|[\n\r\0\u2028]/);
    expect(error.message.length).toBeLessThanOrEqual(1_000);
    return error.message;
  }
  throw new Error('it was taken');
}

/** Writes ~/.config/openstack/{name}. */
function write(text: string, name = 'clouds.yaml', folder = join(home, '.config/openstack')): string {
  mkdirSync(folder, { recursive: true });
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const CLOUD = `
clouds:
  my-cloud:
    auth:
      auth_url: https://cloud.example:5000/v3
      username: demo
      password: s3cr3t-value
      project_name: web
      user_domain_name: Default
      project-domain-id: default
    region_name: RegionOne
`;

describe('from variables', () => {
  test('by password, with the defaults', () => {
    expect(load(PASSWORD_ENV)).toEqual({
      authUrl: 'https://cloud.example:5000/v3',
      auth: PASSWORD_AUTH,
      interface: 'public',
      insecure: false,
    });
  });

  test.each<[string, Record<string, string>, Partial<CloudConfig>]>([
    ['an empty variable is none', { OS_REGION_NAME: '', OS_INSECURE: '', OS_CLOUD: '' }, { insecure: false }],
    ['a path before /v3', { OS_AUTH_URL: 'http://h/identity/v3/' }, { authUrl: 'http://h/identity/v3' }],
    ['slashes at the end', { OS_AUTH_URL: 'http://h:5000///' }, { authUrl: 'http://h:5000/v3' }],
    ['a region', { OS_REGION_NAME: 'RegionTwo' }, { regionName: 'RegionTwo' }],
    ['an interface', { OS_INTERFACE: 'internal' }, { interface: 'internal' }],
    ['an interface by its older names', { OS_ENDPOINT_TYPE: 'adminURL' }, { interface: 'admin' }],
    ['insecure', { OS_INSECURE: 'True' }, { insecure: true }],
    ['insecure, as 1', { OS_INSECURE: '1' }, { insecure: true }],
    ['not insecure', { OS_INSECURE: 'false' }, { insecure: false }],
    ['a pinned microversion', { OS_COMPUTE_API_VERSION: '2.90' }, { computeApiVersion: '2.90' }],
    [
      'an endpoint',
      { OS_COMPUTE_ENDPOINT_OVERRIDE: 'http://n:8774/v2.1/' },
      { computeEndpointOverride: 'http://n:8774/v2.1' },
    ],
    ['auth type password', { OS_AUTH_TYPE: 'password' }, { auth: PASSWORD_AUTH as never }],
    ['auth type v3password', { OS_AUTH_TYPE: 'v3password' }, { auth: PASSWORD_AUTH as never }],
    ['auth type by its older name', { OS_AUTH_PLUGIN: 'v3password' }, { auth: PASSWORD_AUTH as never }],
  ])('%s', (_, env, expected) => {
    expect(load({ ...PASSWORD_ENV, ...env })).toMatchObject(expected);
  });

  test.each(['2', 'latest', '2.latest'])('OS_COMPUTE_API_VERSION %s pins nothing', (version) => {
    expect(load({ ...PASSWORD_ENV, OS_COMPUTE_API_VERSION: version })).not.toHaveProperty('computeApiVersion');
  });

  const SCOPE = { OS_AUTH_URL: 'http://h', OS_PROJECT_ID: 'p1' };
  test.each<[string, Record<string, string>, CloudConfig['auth']]>([
    [
      'user and project by id',
      { ...SCOPE, OS_USER_ID: 'u1', OS_PASSWORD: 'x' },
      { type: 'password', user: { id: 'u1' }, password: 'x', project: { id: 'p1' } },
    ],
    [
      'one domain for both',
      { OS_AUTH_URL: 'http://h', OS_USERNAME: 'u', OS_PASSWORD: 'x', OS_PROJECT_NAME: 'p', OS_DOMAIN_NAME: 'd' },
      { type: 'password', user: named('u', 'd'), password: 'x', project: named('p', 'd') },
    ],
    [
      'a default domain, and tenant for project',
      { OS_AUTH_URL: 'http://h', OS_USERNAME: 'u', OS_PASSWORD: 'x', OS_TENANT_NAME: 'p', OS_DEFAULT_DOMAIN: 'd' },
      {
        type: 'password',
        user: { name: 'u', domain: { id: 'd' } },
        password: 'x',
        project: { name: 'p', domain: { id: 'd' } },
      },
    ],
    [
      'v3token',
      { ...SCOPE, OS_AUTH_TYPE: 'v3token', OS_TOKEN: 't' },
      { type: 'token', token: 't', project: { id: 'p1' } },
    ],
    ['token', { ...SCOPE, OS_AUTH_TYPE: 'token', OS_TOKEN: 't' }, { type: 'token', token: 't', project: { id: 'p1' } }],
    ['a token alone', { ...SCOPE, OS_TOKEN: 't' }, { type: 'token', token: 't', project: { id: 'p1' } }],
    [
      'an application credential by id',
      {
        OS_AUTH_URL: 'http://h',
        OS_AUTH_TYPE: 'v3applicationcredential',
        OS_APPLICATION_CREDENTIAL_ID: 'a',
        OS_APPLICATION_CREDENTIAL_SECRET: 's',
      },
      { type: 'applicationCredential', credential: { id: 'a' }, secret: 's' },
    ],
    [
      'an application credential by name, without its auth type',
      {
        OS_AUTH_URL: 'http://h',
        OS_APPLICATION_CREDENTIAL_NAME: 'a',
        OS_APPLICATION_CREDENTIAL_SECRET: 's',
        OS_USERNAME: 'u',
        OS_USER_DOMAIN_NAME: 'd',
      },
      { type: 'applicationCredential', credential: { name: 'a', user: named('u', 'd') }, secret: 's' },
    ],
  ])('%s', (_, env, auth) => {
    expect(load(env).auth).toEqual(auth);
  });

  const without = (...names: string[]) =>
    Object.fromEntries(Object.entries(PASSWORD_ENV).filter(([name]) => !names.includes(name)));
  test.each<[string, Record<string, string>, string | RegExp]>([
    ['nothing', {}, /^neither OS_CLOUD nor OS_AUTH_URL is set: set OS_CLOUD .*, or OS_AUTH_URL/],
    ['no password', without('OS_PASSWORD'), /^OS_PASSWORD is missing, to log in by password: set it, or OS_CLOUD/],
    ['no user', without('OS_USERNAME'), /^OS_USERNAME \(or OS_USER_ID\) is missing/],
    [
      'no domain of the user',
      without('OS_USER_DOMAIN_NAME'),
      /^OS_USER_DOMAIN_NAME \(or OS_USER_DOMAIN_ID\) is missing/,
    ],
    [
      'no project',
      without('OS_PROJECT_NAME', 'OS_PROJECT_DOMAIN_ID'),
      /^OS_PROJECT_NAME \(or OS_PROJECT_ID\), OS_PROJECT_DOMAIN_NAME .* are missing/,
    ],
    ['several', without('OS_PASSWORD', 'OS_USERNAME'), /^OS_USERNAME .*, OS_PASSWORD are missing, .*: set them/],
    ['no token', { ...PASSWORD_ENV, OS_AUTH_TYPE: 'v3token' }, /^OS_TOKEN is missing, to log in by token/],
    [
      'no application credential',
      { ...PASSWORD_ENV, OS_AUTH_TYPE: 'v3applicationcredential' },
      /^OS_APPLICATION_CREDENTIAL_ID \(or OS_APPLICATION_CREDENTIAL_NAME\), OS_APPLICATION_CREDENTIAL_SECRET are missing/,
    ],
    [
      'an unknown auth type',
      { ...PASSWORD_ENV, OS_AUTH_TYPE: 'v3oidcpassword' },
      /^OS_AUTH_TYPE is "v3oidcpassword": it must be one of password, v3password/,
    ],
    ['no URL', { ...PASSWORD_ENV, OS_AUTH_URL: 'cloud.example' }, /^OS_AUTH_URL is not a URL that begins with http/],
    ['another scheme', { ...PASSWORD_ENV, OS_AUTH_URL: 'ldap://h' }, /^OS_AUTH_URL is not a URL that begins with http/],
    [
      'a password in the URL',
      { ...PASSWORD_ENV, OS_AUTH_URL: 'http://u:s3cr3t@h' },
      /^OS_AUTH_URL holds a user name or a password/,
    ],
    ['a query in the URL', { ...PASSWORD_ENV, OS_AUTH_URL: 'http://h/v3?x=s3cr3t' }, /^OS_AUTH_URL has a '\?'/],
    [
      'Keystone v2.0',
      { ...PASSWORD_ENV, OS_AUTH_URL: 'http://h:5000/v2.0' },
      /^OS_AUTH_URL is an address of Keystone's v2.0/,
    ],
    [
      'an unknown interface',
      { ...PASSWORD_ENV, OS_INTERFACE: 'secret' },
      'OS_INTERFACE is "secret": it must be public, internal or admin',
    ],
    ['insecure: constructor', { ...PASSWORD_ENV, OS_INSECURE: 'constructor' }, /^OS_INSECURE is "constructor"/],
    ['insecure: maybe', { ...PASSWORD_ENV, OS_INSECURE: 'maybe' }, 'OS_INSECURE is "maybe": it must be true or false'],
    [
      'a CA file that is not there',
      { ...PASSWORD_ENV, OS_CACERT: '/nope.pem' },
      "OS_CACERT names /nope.pem, which can't be read (ENOENT)",
    ],
    [
      'a CA file that is a folder',
      { ...PASSWORD_ENV, OS_CACERT: '/' },
      "OS_CACERT names /, which can't be read (EISDIR)",
    ],
    [
      'a microversion of another kind',
      { ...PASSWORD_ENV, OS_COMPUTE_API_VERSION: '3.1' },
      'OS_COMPUTE_API_VERSION is "3.1": it must look like 2.90, or be left out',
    ],
    [
      'a microversion that is too old',
      { ...PASSWORD_ENV, OS_COMPUTE_API_VERSION: '2.1' },
      /^OS_COMPUTE_API_VERSION is 2.1, and temporal-nova needs at least 2.52/,
    ],
    [
      'an endpoint that is no URL',
      { ...PASSWORD_ENV, OS_COMPUTE_ENDPOINT_OVERRIDE: 'x' },
      /^OS_COMPUTE_ENDPOINT_OVERRIDE is not a URL/,
    ],
    [
      'two things at once',
      { ...PASSWORD_ENV, OS_INSECURE: 'x', OS_INTERFACE: 'y' },
      /^OS_INTERFACE is .*; OS_INSECURE is /,
    ],
  ])('%s', (_, env, message) => {
    if (typeof message === 'string') expect(problemOf(env)).toBe(message);
    else expect(problemOf(env)).toMatch(message);
  });

  test.each([
    ['no certificate', 'hello', 'which holds no PEM certificate'],
    ['a private key', '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----', 'which holds no PEM certificate'],
    [
      'half a certificate',
      '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----',
      'which holds a broken certificate',
    ],
  ])('OS_CACERT names a file with %s', (_, text, message) => {
    const path = write(text, 'ca.pem');
    expect(problemOf({ ...PASSWORD_ENV, OS_CACERT: '~/.config/openstack/ca.pem' })).toBe(
      `OS_CACERT names ${path}, ${message}`,
    );
  });
});

describe('from clouds.yaml', () => {
  test('a cloud by its name', () => {
    write(CLOUD);
    expect(load({ OS_CLOUD: 'my-cloud' })).toEqual({
      authUrl: 'https://cloud.example:5000/v3',
      auth: PASSWORD_AUTH,
      regionName: 'RegionOne',
      interface: 'public',
      insecure: false,
    });
  });

  test('is looked for where OS_CLIENT_CONFIG_FILE says, here, in ~/.config/openstack; the first one counts', () => {
    const region = (name: string) => CLOUD.replace('RegionOne', name);
    const found = (env: object = {}) => load({ OS_CLOUD: 'my-cloud', ...env }).regionName;
    write(region('home-yml'), 'clouds.yml');
    expect(found()).toBe('home-yml');
    write(region('home'));
    expect(found()).toBe('home');
    write(region('here'), 'clouds.yaml', '.');
    expect(found()).toBe('here');
    const named = write(region('named'), 'mine.yaml', home);
    expect(found({ OS_CLIENT_CONFIG_FILE: named })).toBe('named');
    write(region('xdg'), 'clouds.yaml', join(home, 'xdg/openstack'));
    rmSync('clouds.yaml');
    expect(found({ XDG_CONFIG_HOME: join(home, 'xdg') })).toBe('xdg');
  });

  test('secure.yaml is merged over it', () => {
    write(CLOUD.replace('      password: s3cr3t-value\n', ''));
    write('clouds: { my-cloud: { auth: { password: from-secure } } }', 'secure.yaml');
    expect(load({ OS_CLOUD: 'my-cloud' }).auth).toEqual({ ...PASSWORD_AUTH, password: 'from-secure' });
    const other = write('clouds: { my-cloud: { auth: { password: from-other } } }', 'other.yaml', home);
    expect(load({ OS_CLOUD: 'my-cloud', OS_CLIENT_SECURE_FILE: other }).auth).toMatchObject({ password: 'from-other' });
  });

  test('variables override single settings', () => {
    write(CLOUD);
    const env = { OS_CLOUD: 'my-cloud', OS_REGION_NAME: 'Two', OS_PASSWORD: 'other', OS_COMPUTE_API_VERSION: '2.90' };
    expect(load(env)).toMatchObject({
      regionName: 'Two',
      computeApiVersion: '2.90',
      auth: { ...PASSWORD_AUTH, password: 'other' },
    });
  });

  test('an application credential', () => {
    write(`
clouds:
  a:
    auth_type: v3applicationcredential
    auth: { auth_url: http://h, application_credential_id: a, application_credential_secret: s }
`);
    // What is left in the environment from an openrc file does not matter to it.
    const auth = load({ OS_CLOUD: 'a', OS_USERNAME: 'u', OS_PROJECT_NAME: 'p' }).auth;
    expect(auth).toEqual({ type: 'applicationCredential', credential: { id: 'a' }, secret: 's' });
  });

  test('values stay as they are written', () => {
    write(`${CLOUD}    compute_default_microversion: 2.90\n`.replace('s3cr3t-value', '0123').replace('web', '1e5'));
    expect(load({ OS_CLOUD: 'my-cloud' })).toMatchObject({
      computeApiVersion: '2.90',
      auth: { password: '0123', project: { name: '1e5' } },
    });
  });

  test.each<[string, string, Partial<CloudConfig>]>([
    ['verify: false', 'verify: false', { insecure: true }],
    ['verify: no', 'verify: no', { insecure: true }],
    ['insecure: true', 'insecure: true', { insecure: true }],
    ['interface', 'interface: internal', { interface: 'internal' }],
    ['endpoint_type', 'endpoint_type: internalURL', { interface: 'internal' }],
    ['nothing', 'interface:', { interface: 'public' }],
    [
      'compute_endpoint_override',
      'compute_endpoint_override: http://n/v2.1',
      { computeEndpointOverride: 'http://n/v2.1' },
    ],
    ['compute_api_version as a microversion', 'compute_api_version: "2.80"', { computeApiVersion: '2.80' }],
    ['compute_api_version as the API', 'compute_api_version: 2.1', {}],
    ['what it does not know', 'volume_api_version: 3\n    networks: [{name: x}]', {}],
  ])('%s', (_, line, expected) => {
    write(`${CLOUD}    ${line}\n`);
    const config = load({ OS_CLOUD: 'my-cloud' });
    expect(config).toMatchObject(expected);
    if (!('computeApiVersion' in expected)) expect(config).not.toHaveProperty('computeApiVersion');
  });

  test("OS_COMPUTE_API_VERSION decides over the file's pin", () => {
    write(`${CLOUD}    compute_default_microversion: 2.80\n`);
    expect(load({ OS_CLOUD: 'my-cloud', OS_COMPUTE_API_VERSION: '2.90' }).computeApiVersion).toBe('2.90');
    expect(load({ OS_CLOUD: 'my-cloud', OS_COMPUTE_API_VERSION: 'latest' })).not.toHaveProperty('computeApiVersion');
  });

  test('anchors, merge keys and vendor profiles', () => {
    write('public-clouds: { vendor: { auth: { auth_url: http://vendor/v3 }, region_name: V } }', 'clouds-public.yaml');
    write(`
x-login: &login { username: demo, password: x, domain_name: d, project_name: p }
clouds:
  a: { profile: vendor, auth: { <<: *login } }
  b: { profile: vendor, region_name: B, auth: { <<: *login, auth_url: http://b } }
`);
    expect(load({ OS_CLOUD: 'a' })).toMatchObject({ authUrl: 'http://vendor/v3', regionName: 'V' });
    expect(load({ OS_CLOUD: 'b' })).toMatchObject({ authUrl: 'http://b/v3', regionName: 'B' });
  });

  test('a vendor profile that is not there is no matter where there is an address', () => {
    const path = write('clouds: { a: { profile: ovh, auth: { username: demo } } }');
    expect(problemOf({ OS_CLOUD: 'a' })).toBe(
      `${path} refers to profile 'ovh', which no clouds-public.yaml defines: add 'auth_url'`,
    );
    write(CLOUD.replace('auth:', 'profile: ovh\n    auth:'));
    expect(load({ OS_CLOUD: 'my-cloud' }).authUrl).toBe('https://cloud.example:5000/v3');
  });

  test('regions: the one that is asked for, with its values, else the first', () => {
    const regions = 'regions: [One, { name: Two, values: { interface: internal } }]';
    const path = write(CLOUD.replace('region_name: RegionOne', regions));
    expect(load({ OS_CLOUD: 'my-cloud' })).toMatchObject({ regionName: 'One', interface: 'public' });
    const two = load({ OS_CLOUD: 'my-cloud', OS_REGION_NAME: 'Two' });
    expect(two).toMatchObject({ regionName: 'Two', interface: 'internal' });
    expect(problemOf({ OS_CLOUD: 'my-cloud', OS_REGION_NAME: 'Three' })).toBe(
      `OS_REGION_NAME is "Three", which is not among the regions of cloud 'my-cloud' (${path}): One, Two`,
    );
  });

  test('what is missing is named by file and key', () => {
    const path = write(CLOUD.replace('      password: s3cr3t-value\n', ''));
    expect(problemOf({ OS_CLOUD: 'my-cloud' })).toBe(
      `'auth.password' of cloud 'my-cloud' (${path}) is missing, to log in by password: ` +
        'add it there, or in secure.yaml, or set the OS_* variable of that name',
    );
  });

  test('what is wrong is named by file and key', () => {
    const path = write(CLOUD.replace('https://cloud', 's3cr3t').replace('RegionOne', 'R\n    interface: x'));
    expect(problemOf({ OS_CLOUD: 'my-cloud' })).toBe(
      `'auth.auth_url' of cloud 'my-cloud' (${path}) is not a URL that begins with http:// or https://; ` +
        `'interface' of cloud 'my-cloud' (${path}) is "x": it must be public, internal or admin`,
    );
  });

  test('an unknown cloud, with those that there are', () => {
    const path = write(CLOUD);
    expect(problemOf({ OS_CLOUD: 'other' })).toBe(`there is no cloud 'other' in ${path} (it has: my-cloud)`);
    expect(problemOf({ OS_CLOUD: 'constructor' })).toMatch(/^there is no cloud 'constructor'/);
    expect(problemOf({ OS_CLOUD: '__proto__' })).toMatch(/^there is no cloud '__proto__'/);
    expect(problemOf({})).toMatch(/^neither OS_CLOUD .* in clouds.yaml \(there is my-cloud\), or OS_AUTH_URL/);
  });

  test('one by name, beside the one that the variables are about', () => {
    write(CLOUD);
    const variables = { HOME: home, ...PASSWORD_ENV, OS_REGION_NAME: 'Mars' };
    const asWritten = load({ OS_CLOUD: 'my-cloud' });
    expect(loadNamedCloud('my-cloud', { ...variables, OS_CLOUD: 'other' })).toEqual(asWritten);
    expect(loadNamedCloud('my-cloud', variables)).toEqual(asWritten);
    expect(loadNamedCloud('my-cloud', { HOME: home, OS_CLOUD: 'my-cloud', OS_REGION_NAME: 'Mars' })).toEqual({
      ...asWritten,
      regionName: 'Mars',
    });
    const elsewhere = write(CLOUD.replace('my-cloud', 'mine'), 'elsewhere.yaml');
    expect(loadNamedCloud('mine', { ...variables, OS_CLIENT_CONFIG_FILE: elsewhere })).toEqual(asWritten);
  });

  test('files that are not there', () => {
    expect(problemOf({ OS_CLOUD: 'x' })).toMatch(/^there is no clouds.yaml with the cloud 'x' in .*openstack/);
    expect(problemOf({ OS_CLOUD: 'x', OS_CLIENT_CONFIG_FILE: '/nope.yaml' })).toBe(
      'OS_CLIENT_CONFIG_FILE names /nope.yaml, which does not exist',
    );
    expect(problemOf({ OS_CLOUD: 'x', OS_CLIENT_CONFIG_FILE: '/' })).toMatch(/^\/ can't be read \(EISDIR\)$/);
  });

  const flow = (depth: number) => '['.repeat(depth);
  test.each<[string, string, RegExp]>([
    ['nothing', '', /is empty: it must be a mapping/],
    ['a comment', '# none', /is empty/],
    ['a list', '- s3cr3t', /holds a list: it must be a mapping/],
    ['a value', 's3cr3t', /holds a single value/],
    ['no clouds', 'cloud: {}', /'clouds' is missing/],
    ['a list of clouds', 'clouds: [my-cloud]', /'clouds' is a list/],
    ['clouds without content', 'clouds:', /'clouds' is missing/],
    ['a cloud that is a value', 'clouds: { my-cloud: s3cr3t }', /'my-cloud' is a single value/],
    [
      'auth that is a value',
      'clouds: { my-cloud: { auth: s3cr3t } }',
      /'auth' of cloud 'my-cloud' .* must be a mapping/,
    ],
    [
      'a password that is a list',
      'clouds: { my-cloud: { auth: { password: [s3cr3t] } } }',
      /'auth.password' of cloud .* must be a single value/,
    ],
    [
      'regions that are a value',
      'clouds: { my-cloud: { regions: One } }',
      /'regions' of cloud .* must be a list of names/,
    ],
    ['a quote that is not closed', 'clouds:\n  a: "s3cr3t', /is not valid YAML: a closing quote .* at line 2/],
    [
      'a tag',
      'clouds: { my-cloud: { auth: { password: !s3cr3t } } }',
      /an unknown tag .* needs quotes\) at line 1, column 41$/,
    ],
    ['an alias', 'clouds: { my-cloud: { auth: { password: *s3cr3t } } }', /an alias \(\*name\) without its anchor/],
    ['a key twice', 'clouds: { a: 1, a: 2 }', /a key is there twice at line 1/],
    ['a tab', 'clouds:\n\ta: s3cr3t', /is not valid YAML/],
    ['two documents', 'clouds: {}\n---\nclouds: {}', /a second document/],
    ['brackets without end', `clouds: ${flow(100_000)}`, /nested too deeply/],
    ['lists without end', `clouds:\n  ${'- '.repeat(50_000)}x`, /nested too deeply/],
    ['keys without end', `${'? '.repeat(50_000)}x`, /nested too deeply/],
    ['ever deeper lines', Array.from({ length: 300 }, (_, i) => `${' '.repeat(i)}a:`).join('\n'), /nested too deeply/],
    ['a circle', 'clouds: &a { my-cloud: *a }', /nested too deeply|without its anchor/],
    [
      'an anchor bomb',
      [
        'a: &a [x,x,x,x,x,x,x,x,x,x]',
        ...'bcdefgh'.split('').map((key, i) => `${key}: &${key} [${Array(10).fill(`*${'abcdefg'[i]}`).join(',')}]`),
      ].join('\n'),
      /an alias .*too many of them/,
    ],
    ['too much', `clouds: {} #${'x'.repeat(300_000)}`, /is larger than 128 KiB/],
    ['bytes that are no text', 'clouds: \u0000\u0001', /clouds/],
  ])('a file with %s', (_, text, message) => {
    const path = write(text);
    const problem = problemOf({ OS_CLOUD: 'my-cloud' });
    expect(problem).toMatch(message);
    expect(problem).toContain(path);
  });

  test('a secure.yaml of the wrong shape', () => {
    write(CLOUD);
    const path = write('- s3cr3t', 'secure.yaml');
    expect(problemOf({ OS_CLOUD: 'my-cloud' })).toBe(
      `${path} holds a list: it must be a mapping with the key 'clouds'`,
    );
  });
});

// ---- whatever is in them

const text = z.string().min(1);
const domainType = z.union([z.strictObject({ id: text }), z.strictObject({ name: text })]);
const namedType = z.union([z.strictObject({ id: text }), z.strictObject({ name: text, domain: domainType })]);
const configType = z.strictObject({
  authUrl: z.string().regex(/^https?:\/\/[^\s?#@]+\/v3$/),
  auth: z.discriminatedUnion('type', [
    z.strictObject({ type: z.literal('password'), user: namedType, password: text, project: namedType }),
    z.strictObject({ type: z.literal('token'), token: text, project: namedType }),
    z.strictObject({
      type: z.literal('applicationCredential'),
      credential: z.union([z.strictObject({ id: text }), z.strictObject({ name: text, user: namedType })]),
      secret: text,
    }),
  ]),
  regionName: text.optional(),
  interface: z.enum(['public', 'internal', 'admin']),
  caCertificates: text.optional(),
  insecure: z.boolean(),
  computeApiVersion: z
    .string()
    .regex(/^2\.\d+$/)
    .optional(),
  computeEndpointOverride: z
    .string()
    .regex(/^https?:\/\/[^\s?#@]+$/)
    .optional(),
});

/** A configuration of the promised type, or the one error that `problemOf` knows. */
function configOrProblem(env: Record<string, string>): void {
  try {
    configType.parse(load(env));
  } catch (error) {
    if (!(error instanceof NovaError)) throw error;
    problemOf(env);
  }
}

const anyText = fc.oneof(
  fc.constantFrom(
    '',
    ' ',
    '~',
    '~/',
    '.',
    '/',
    '/dev/null',
    'true',
    '0123',
    '2.90',
    'http://h/v3',
    'http://[',
    '%s',
    '$&',
  ),
  fc.constantFrom('a\nX-Injected: 1', 'a\r\n\r\nGET / HTTP/1.1', 'a\0b', 'http://h/\nv3', 'http://h\t'),
  fc.constantFrom('__proto__', 'constructor', 'toString', 'my-cloud', '../../..', 'x'.repeat(5_000), '/'.repeat(5_000)),
  fc.string({ unit: 'binary', maxLength: 20 }),
);

describe('whatever is in them', () => {
  const names = [
    'AUTH_URL AUTH_TYPE AUTH_PLUGIN USERNAME USER_NAME USER_ID PASSWORD TOKEN PROJECT_NAME PROJECT_ID TENANT_NAME',
    'USER_DOMAIN_NAME USER_DOMAIN_ID PROJECT_DOMAIN_NAME DOMAIN_NAME DEFAULT_DOMAIN APPLICATION_CREDENTIAL_ID',
    'APPLICATION_CREDENTIAL_NAME APPLICATION_CREDENTIAL_SECRET REGION_NAME INTERFACE ENDPOINT_TYPE CACERT INSECURE',
    'VERIFY COMPUTE_API_VERSION COMPUTE_DEFAULT_MICROVERSION COMPUTE_ENDPOINT_OVERRIDE',
    'CLOUD CLIENT_CONFIG_FILE CLIENT_SECURE_FILE',
  ]
    .join(' ')
    .split(' ')
    .map((name) => `OS_${name}`);
  const anyUrl = fc.oneof(
    anyText,
    fc.constantFrom('http://u:s3cr3t@h', 'http://h/?x=s3cr3t', 'http://h/%(project_id)s'),
  );
  const variables = fc.record(
    Object.fromEntries(names.map((name) => [name, /URL|OVERRIDE/.test(name) ? anyUrl : anyText])),
    { requiredKeys: [] },
  );

  test('variables', () => {
    write(CLOUD);
    const base = fc.constantFrom<Record<string, string>>({}, PASSWORD_ENV, { OS_CLOUD: 'my-cloud' });
    fc.assert(
      fc.property(base, variables, (given, more) => configOrProblem({ ...given, ...more } as Record<string, string>)),
      { numRuns: runs(500) },
    );
  });

  const entry = {
    auth: {
      auth_url: 'https://cloud.example:5000/v3',
      username: 'demo',
      password: 's3cr3t-value',
      project_name: 'web',
      user_domain_name: 'Default',
      'project-domain-id': 'default',
    },
    auth_type: 'v3password',
    profile: 'vendor',
    regions: ['One', { name: 'Two', values: { interface: 'internal' } }],
    interface: 'public',
    verify: true,
    compute_default_microversion: 2.9,
    compute_endpoint_override: 'http://n/v2.1',
  };

  test('files with values that nobody expects', () => {
    fc.assert(
      fc.property(
        like({ clouds: { 'my-cloud': entry, other: {} } }),
        like({ clouds: { 'my-cloud': { auth: { password: 's3cr3t-value' } } } }),
        like({ 'public-clouds': { vendor: { auth: { auth_url: 'http://vendor/v3' } } } }),
        anyText,
        (clouds, secure, vendors, region) => {
          write(hostileText(clouds));
          write(hostileText(secure), 'secure.yaml');
          write(hostileText(vendors), 'clouds-public.yaml');
          configOrProblem({ OS_CLOUD: 'my-cloud', OS_REGION_NAME: region });
        },
      ),
      { numRuns: runs(300) },
    );
  });

  /** What YAML is made of, thrown together; the secret ends its line, so that it is no name of anything. */
  const pieces = fc.oneof(
    fc.constantFrom('clouds:', 'my-cloud:', 'auth:', 'auth_url: http://h', 'password: s3cr3t-value #', 'regions:', 'x'),
    fc.constantFrom(
      '\n',
      '\n  ',
      '\n    ',
      '\n      ',
      '\t',
      ' ',
      '- ',
      '? ',
      ': ',
      ', ',
      '{',
      '}',
      '[',
      ']',
      '|',
      '>',
      '>-2',
    ),
    fc.constantFrom(
      '&a ',
      '*a ',
      '<<: *a',
      '<<: [*a, *a]',
      '!!str ',
      '!!binary aGk=',
      '!!js/function ',
      '!<tag:x> ',
      '!!set ',
    ),
    fc.constantFrom(
      '---\n',
      '...\n',
      '%YAML 1.1\n',
      '%TAG ! x\n',
      '# x\n',
      '"',
      "'",
      '"\\x41"',
      '"\\uD800"',
      '\ufeff',
      '\0',
      '\r',
    ),
    fc.constantFrom(
      'null',
      '~',
      'true',
      '0123',
      '2026-11-30',
      '1e999',
      '.inf',
      'a: 1',
      '"a": 1',
      '? [x] : y',
      '? {x: y}',
    ),
    fc.string({ unit: 'binary', maxLength: 4 }),
  );

  test('files that are hardly YAML', () => {
    const stderr = jest.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 40 }), (soup) => {
        write(soup.join(''));
        configOrProblem({ OS_CLOUD: 'my-cloud' });
      }),
      { numRuns: runs(800) },
    );
    // The parser's own warnings quote the file.
    expect(stderr).not.toHaveBeenCalled();
    stderr.mockRestore();
  });

  const FULL = 120_000;
  const lines = (count: number, line: (i: number) => string) =>
    Array.from({ length: count }, (_, i) => line(i)).join('\n');
  test.each<[string, string]>([
    ['names', `clouds:\n${lines(FULL / 12, (i) => `  k${i}: 1`)}`],
    ['the same name', `clouds:\n${'  a: 1\n'.repeat(FULL / 7)}`],
    ['names without a value', `clouds: {${lines(FULL / 8, (i) => ` k${i},`)}}`],
    ['anchors', `clouds: [${lines(FULL / 9, (i) => ` &a${i} 1,`)}]`],
    ['aliases', `x: &a {}\nclouds: [${'*a,'.repeat(FULL / 3)}]`],
    ['anchors with an alias each', `clouds: [${lines(FULL / 20, (i) => ` &a${i} 1, *a${i},`)}]`],
    ['merges', `x: &a\n${lines(FULL / 13, (i) => `  k${i}: 1`)}\nclouds:\n  my-cloud:\n${'    <<: *a\n'.repeat(100)}`],
    [
      'merges of merges',
      lines(30, (i) => `a${i}: &a${i} { k${i}: 1${i ? `, <<: [*a${i - 1}, *a${i - 1}, *a${i - 1}]` : ''} }`),
    ],
    ['commas', `clouds: [${','.repeat(FULL)}`],
    ['brackets', `clouds: ${']'.repeat(FULL)}`],
    ['quotes', '{'.repeat(99) + '"'.repeat(FULL)],
    ['ampersands', `clouds: ${'& '.repeat(FULL / 2)}`],
    ['tags', `clouds: [${'!x a,'.repeat(FULL / 5)}]`],
    ['empty items', '- \n'.repeat(FULL / 3)],
    ['empty lines', `${'\n'.repeat(FULL)}a`],
    ['documents', '---\n'.repeat(FULL / 4)],
    ['cyrillic', `clouds: ${'я'.repeat(FULL / 2)}`],
  ])('a file full of %s is done with in a second', (_, content) => {
    write(content);
    const begun = Date.now();
    problemOf({ OS_CLOUD: 'no-such-cloud' });
    // On a machine that is busy with other tests.
    expect(Date.now() - begun).toBeLessThan(2_000);
  });

  test('a file without end is not read to its end', () => {
    expect(problemOf({ OS_CLOUD: 'x', OS_CLIENT_CONFIG_FILE: '/dev/zero' })).toBe('/dev/zero is larger than 128 KiB');
    expect(problemOf({ ...PASSWORD_ENV, OS_CACERT: '/dev/zero' })).toBe(
      'OS_CACERT names /dev/zero, which is larger than 4096 KiB',
    );
  });

  test('a key that is a list or a mapping is refused without quoting it', () => {
    const path = write('clouds: { ? [s3cr3t] : 1 }');
    expect(problemOf({ OS_CLOUD: 'my-cloud' })).toBe(
      `${path} is not valid YAML: a key that is a list or a mapping at line 1, column 13`,
    );
  });
});

function named(name: string, domain: string): { name: string; domain: { name: string } } {
  return { name, domain: { name: domain } };
}
