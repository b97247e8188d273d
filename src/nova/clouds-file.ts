/** `clouds.yaml` and `secure.yaml`: where they are looked for, and one cloud out of them. */

import { closeSync, existsSync, openSync, readSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

import { isAlias, isScalar, LineCounter, parseDocument, visit, type Document } from 'yaml';

import { NovaError } from './errors';

/** Values as the file spells them (`2.90` stays `2.90`); null is left out. Has no prototype. */
export interface YamlMap {
  [key: string]: YamlValue;
}
export type YamlValue = string | YamlValue[] | YamlMap;

/** A cloud's entry, with underscores for dashes in its keys, and the file that it is from. */
export interface CloudEntry {
  file: string;
  settings: YamlMap;
}

const SUFFIXES = ['.yaml', '.yml', '.json'];
/** Far more than any clouds.yaml needs, and little enough that reading it is over within a second. */
const MAX_BYTES = 128 * 1024;
/** Keeps the parser within its stack. */
const MAX_DEPTH = 100;
/** Each alias searches the whole document for its anchor, and each can repeat all that is under it. */
const MAX_ALIASES = 100;
/** Of a message: it names clouds and regions of the file, of which there may be any number. */
const MAX_MESSAGE = 1_000;

/**
 * The entry `name`, with `secure.yaml` merged over it and the vendor profile of `clouds-public.yaml` under it, as
 * openstacksdk does it (`openstack/config/loader.py`). Unlike there, a file that was named by a variable must exist,
 * and a file that can't be read is an error instead of being passed over.
 *
 * @throws NovaError `Configuration`, with the file, what is wrong in it, and what to do.
 */
export function readCloudEntry(name: string, env: NodeJS.ProcessEnv): CloudEntry {
  const file = findFile('clouds', env, 'OS_CLIENT_CONFIG_FILE');
  if (file === undefined) {
    throw configurationError(
      `there is no clouds.yaml with the cloud '${name}' in ${searchPath(env).join(', ')}: ` +
        `create one, or name it by OS_CLIENT_CONFIG_FILE`,
    );
  }
  const clouds = section(readYamlFile(file), 'clouds', file);
  const secureFile = findFile('secure', env, 'OS_CLIENT_SECURE_FILE');
  const secure =
    secureFile === undefined ? emptyMap() : section(readYamlFile(secureFile), 'clouds', secureFile, emptyMap());
  if (clouds[name] === undefined && secure[name] === undefined) {
    const known = Object.keys(clouds).join(', ') || 'none';
    throw configurationError(`there is no cloud '${name}' in ${file} (it has: ${known})`);
  }
  const own = underscores(
    merge(section(clouds, name, file, emptyMap()), section(secure, name, secureFile ?? file, emptyMap())),
  );
  return { file, settings: merge(underscores(vendorProfile(own, file, env)), own) };
}

/** Names of the clouds in the `clouds.yaml` that would be read; none when there is none, or it can't be read. */
export function cloudNames(env: NodeJS.ProcessEnv): string[] {
  try {
    const file = findFile('clouds', env, 'OS_CLIENT_CONFIG_FILE');
    return file === undefined ? [] : Object.keys(section(readYamlFile(file), 'clouds', file));
  } catch {
    return [];
  }
}

/** An error about a setting or a file: one line, whatever the names in it hold. */
export function configurationError(message: string): NovaError {
  const line = message.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ');
  const short = line.length > MAX_MESSAGE ? `${line.slice(0, MAX_MESSAGE - 1)}…` : line;
  return new NovaError('Configuration', short, { outcomeUnknown: false });
}

export function isYamlMap(value: YamlValue | undefined): value is YamlMap {
  return typeof value === 'object' && !Array.isArray(value);
}

/** `over` wins; maps are merged key by key. */
export function merge(under: YamlMap, over: YamlMap): YamlMap {
  const merged = Object.assign(emptyMap(), under);
  for (const [key, value] of Object.entries(over)) {
    const before = merged[key];
    merged[key] = isYamlMap(before) && isYamlMap(value) ? merge(before, value) : value;
  }
  return merged;
}

function underscores(map: YamlMap): YamlMap {
  const renamed = emptyMap();
  for (const [key, value] of Object.entries(map)) {
    renamed[key.replaceAll('-', '_')] = isYamlMap(value) ? underscores(value) : value;
  }
  return renamed;
}

function emptyMap(): YamlMap {
  return Object.create(null) as YamlMap;
}

export function expandHome(path: string, env: NodeJS.ProcessEnv): string {
  return path === '~' || path.startsWith('~/') ? join(env.HOME || homedir(), path.slice(1)) : path;
}

function searchPath(env: NodeJS.ProcessEnv): string[] {
  const config = env.XDG_CONFIG_HOME || join(env.HOME || homedir(), '.config');
  return [process.cwd(), join(config, 'openstack'), '/etc/xdg/openstack', '/etc/openstack'];
}

function findFile(stem: string, env: NodeJS.ProcessEnv, variable?: string): string | undefined {
  const named = variable && env[variable];
  if (named) {
    const path = expandHome(named, env);
    if (!existsSync(path)) throw configurationError(`${variable} names ${path}, which does not exist`);
    return path;
  }
  return searchPath(env)
    .flatMap((folder) => SUFFIXES.map((suffix) => join(folder, stem + suffix)))
    .find((path) => existsSync(path));
}

/** openstacksdk's built-in profiles are not here: they are out of date, and hold little more than an address. */
function vendorProfile(settings: YamlMap, entryFile: string, env: NodeJS.ProcessEnv): YamlMap {
  const name = settings.profile ?? settings.cloud;
  if (typeof name !== 'string') return emptyMap();
  const file = findFile('clouds-public', env);
  const profiles = file === undefined ? emptyMap() : section(readYamlFile(file), 'public-clouds', file, emptyMap());
  if (file !== undefined && profiles[name] !== undefined) return section(profiles, name, file);
  if (env.OS_AUTH_URL || (isYamlMap(settings.auth) && settings.auth.auth_url)) return emptyMap();
  throw configurationError(
    `${entryFile} refers to profile '${name}', which no clouds-public.yaml defines: add 'auth_url'`,
  );
}

/** `map[key]`, which must be a mapping; without `fallback` it must be there. */
function section(map: YamlMap, key: string, file: string, fallback?: YamlMap): YamlMap {
  const value = Object.hasOwn(map, key) ? map[key] : fallback;
  if (isYamlMap(value)) return value;
  const found = value === undefined ? 'is missing' : `is a ${Array.isArray(value) ? 'list' : 'single value'}`;
  throw configurationError(`${file}: '${key}' ${found}, where a mapping of names is expected`);
}

function readYamlFile(file: string): YamlMap {
  const value = parseYaml(readTextFile(file), file);
  if (isYamlMap(value)) return value;
  const found = value === undefined ? 'is empty' : `holds a ${Array.isArray(value) ? 'list' : 'single value'}`;
  throw configurationError(`${file} ${found}: it must be a mapping with the key 'clouds'`);
}

function readTextFile(file: string): string {
  try {
    return readBounded(file, MAX_BYTES);
  } catch (error) {
    throw configurationError(`${file} ${(error as Error).message}`);
  }
}

/**
 * The file's text. Reads no more than it may, as a device or a pipe does not say how long it is.
 *
 * @throws Error whose message continues the file's name: 'is larger than …', "can't be read (ENOENT)"
 */
export function readBounded(path: string, maxBytes: number): string {
  const buffer = Buffer.alloc(maxBytes + 1);
  let length = 0;
  try {
    const file = openSync(path, 'r');
    try {
      for (let read = -1; read !== 0 && length <= maxBytes; length += read) {
        read = readSync(file, buffer, length, buffer.length - length, null);
      }
    } finally {
      closeSync(file);
    }
  } catch (error) {
    throw new Error(`can't be read (${(error as NodeJS.ErrnoException).code})`);
  }
  if (length > maxBytes) throw new Error(`is larger than ${maxBytes / 1024} KiB`);
  return buffer.toString('utf8', 0, length);
}

/**
 * The parser's own messages are not passed on: they quote the file, and with it passwords. Everything but null stays
 * a string, so that `compute_default_microversion: 2.90` is not 2.9, and a password of digits stays what it is.
 */
function parseYaml(text: string, file: string): YamlValue | undefined {
  if (isTooDeep(text)) throw configurationError(`${file} is nested too deeply to be a clouds.yaml`);
  const lineCounter = new LineCounter();
  const invalid = (code: string, offset: number) => {
    const { line, col } = lineCounter.linePos(offset);
    return configurationError(`${file} is not valid YAML: ${problem(code)} at line ${line}, column ${col}`);
  };
  let value: unknown;
  try {
    const document = withoutStacks(() =>
      parseDocument(text, {
        schema: 'failsafe',
        customTags: ['null'],
        merge: true,
        prettyErrors: false,
        logLevel: 'error', // a warning of the parser's would quote the file on stderr
        uniqueKeys: false, // takes seconds for a large file: see problemOf
        lineCounter,
      }),
    );
    const [error] = [...document.errors, ...document.warnings];
    if (error) throw invalid(error.code, error.pos[0]);
    const found = problemOf(document);
    if (found) throw invalid(found.code, found.offset);
    value = document.toJS({ maxAliasCount: MAX_ALIASES });
  } catch (error) {
    if (error instanceof NovaError) throw error;
    throw configurationError(`${file} is not valid YAML: an alias (*name) without its anchor, or too many of them`);
  }
  return normalise(value, file, 0, new Map());
}

/** A broken file has an error at each character, whose stack traces take longer than all the rest. */
function withoutStacks<T>(parse: () => T): T {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    return parse();
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/** What the parser would say only in quadratic time, or not at all. */
function problemOf(document: Document.Parsed): { code: string; offset: number } | undefined {
  let found: { code: string; offset: number } | undefined;
  let aliases = 0;
  visit(document, {
    Alias(_, { range }) {
      if (++aliases <= MAX_ALIASES) return undefined;
      found = { code: 'TOO_MANY_ALIASES', offset: range?.[0] ?? 0 };
      return visit.BREAK;
    },
    Map(_, { items }) {
      const seen = new Set<string>();
      for (const { key } of items) {
        // An alias is shown by its anchor's value: not worth the search.
        if (isAlias(key)) continue;
        const name =
          isScalar(key) || key === null ? String((key?.value as string | null | undefined) ?? '') : undefined;
        if (name === undefined || (seen.has(name) && name !== '<<')) {
          const code = name === undefined ? 'KEY_NOT_SINGLE' : 'DUPLICATE_KEY';
          found = { code, offset: (key as { range?: [number] }).range?.[0] ?? 0 };
          return visit.BREAK;
        }
        seen.add(name);
      }
      return undefined;
    },
  });
  return found;
}

function problem(code: string): string {
  switch (code) {
    case 'DUPLICATE_KEY':
      return 'a key is there twice';
    case 'KEY_NOT_SINGLE':
      return 'a key that is a list or a mapping';
    case 'TOO_MANY_ALIASES':
      return `more than ${MAX_ALIASES} aliases (*name)`;
    case 'TAG_RESOLVE_FAILED':
      return 'an unknown tag (a value that begins with ! needs quotes)';
    case 'MULTIPLE_DOCS':
      return 'a second document';
    case 'TAB_AS_INDENT':
      return 'a tab in the indentation';
    case 'MISSING_CHAR':
      return 'a closing quote or bracket, a comma or a colon is missing';
    case 'BAD_INDENT':
      return 'wrong indentation';
    default:
      return `an error (${code})`;
  }
}

/** The parser recurses, and a stack that overflows within a regular expression ends the process. */
function isTooDeep(text: string): boolean {
  let brackets = 0;
  for (const char of text) {
    if (char === '[' || char === '{') brackets++;
    else if ((char === ']' || char === '}') && brackets > 0) brackets--;
    if (brackets > MAX_DEPTH) return true;
  }
  return text
    .split('\n')
    .some((line) => line.search(/\S|$/) > MAX_DEPTH || (line.match(/[-?:](?=\s|$)/g)?.length ?? 0) > MAX_DEPTH);
}

/** What an alias repeats is the same object again, and is not gone through again. */
function normalise(value: unknown, file: string, depth: number, done: Map<object, YamlValue>): YamlValue | undefined {
  if (depth > MAX_DEPTH) throw configurationError(`${file} is nested too deeply to be a clouds.yaml`);
  if (value === null || value === undefined) return undefined;
  if (typeof value !== 'object') return String(value);
  const before = done.get(value);
  if (before !== undefined) return before;
  const inner = (item: unknown) => normalise(item, file, depth + 1, done);
  let result: YamlValue;
  if (Array.isArray(value)) {
    result = value.flatMap((item) => {
      const normalised = inner(item);
      return normalised === undefined ? [] : [normalised];
    });
  } else {
    result = emptyMap();
    for (const [key, item] of Object.entries(value)) {
      const normalised = inner(item);
      if (normalised !== undefined) result[key] = normalised;
    }
  }
  done.set(value, result);
  return result;
}
