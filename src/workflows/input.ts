/**
 * Checks of workflow inputs. Written by hand, as each workflow in a worker's cache holds its own copy of every module
 * that workflow code imports: see docs/decisions/0002-libraries.md.
 */
import { msToNumber, type Duration } from '@temporalio/common/lib/time';
import { DEFAULT_POLLING, type Polling } from '../policy/polling';
import { workflowFailure } from './failures';

/** Intervals between looks while nothing changes. */
export interface PollingOptions {
  /** Default '1s'. */
  initialInterval?: Duration;
  /** Default '10s'. */
  maximumInterval?: Duration;
  /** At least 1; default 1.5. */
  backoffCoefficient?: number;
}

export const LONGEST_DURATION = 10 * 365.25 * 24 * 60 * 60 * 1000;

/** Stands for an argument that is no JSON at all; see `payload-converter.ts`. */
export const UNREADABLE: unique symbol = Symbol('unreadable');

/** Of a text that is no part of Nova's own objects: names, times, events. */
const LONGEST_TEXT = 1_000;
const LONGEST_CLOUD = 255;
const LONGEST_LIST = 100;
/** Of an object for Nova, as JSON. Nova takes 112 KiB by default (oslo.middleware, `max_request_body_size`). */
const LARGEST_OBJECT = 256 * 1024;
/** Of an object for Nova: far more than any of its schemas, and within what can be made JSON again. */
const DEEPEST_OBJECT = 100;

type Fields<K extends string> = Partial<Record<K, unknown>>;

function invalid(message: string): Error {
  return workflowFailure('InvalidInput', `Invalid input: ${message}`);
}

/** What stands where an object should: its text could be a whole request, with what is secret in it. */
function kindOf(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  if (value === UNREADABLE) return 'something that is not JSON';
  if (ArrayBuffer.isView(value)) return 'bytes';
  return typeof value === 'object' ? 'an object' : `a ${typeof value === 'string' ? 'text' : typeof value}`;
}

/** What a wrong value of a plain field looks like, for a message; texts are cut. */
function shown(value: unknown): string {
  if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean') return kindOf(value);
  return typeof value === 'string' ? `"${value.length > 40 ? `${value.slice(0, 40)}…` : value}"` : String(value);
}

/** An object, and nothing but the known keys in it. `field` is '' for the input itself. */
export function checkObject<K extends string>(value: unknown, field: string, known: readonly K[]): Fields<K> {
  if (!isObject(value)) {
    throw invalid(`${field || 'the input'} must be an object, not ${kindOf(value)}.`);
  }
  const unknown = Object.keys(value).filter((key) => !(known as readonly string[]).includes(key));
  if (unknown.length > 0) {
    const names = unknown
      .slice(0, 10)
      .map((key) => (field ? `${field}.${key.slice(0, 60)}` : key.slice(0, 60)))
      .join(', ');
    throw invalid(`unknown ${unknown.length > 1 ? 'keys' : 'key'} ${names}; known: ${known.join(', ')}.`);
  }
  return value as Fields<K>;
}

/** An optional object whose keys are Nova's business. */
export function checkFreeObject(value: unknown, field: string): Record<string, unknown> | undefined {
  if (value === undefined) return undefined;
  if (!isObject(value)) throw invalid(`${field} must be an object, not ${kindOf(value)}.`);
  refuse(isDeeper(value, DEEPEST_OBJECT), `${field} must not be nested deeper than ${DEEPEST_OBJECT} levels.`);
  refuse(
    JSON.stringify(value).length > LARGEST_OBJECT,
    `${field} must not have more than ${LARGEST_OBJECT} characters as JSON.`,
  );
  return value;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value);
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1));
}

/** @returns milliseconds, or undefined where the field is absent */
export function checkDuration(value: unknown, field: string): number | undefined {
  if (value === undefined) return undefined;
  const ms = toMilliseconds(value);
  if (!(ms > 0))
    throw invalid(`${field} must be a duration above 0 such as "30s" or milliseconds, not ${shown(value)}.`);
  if (ms > LONGEST_DURATION) throw invalid(`${field} must be at most 10 years, not ${shown(value)}.`);
  return Math.max(1, Math.round(ms));
}

function toMilliseconds(value: unknown): number {
  if (typeof value === 'number') return value;
  if (typeof value !== 'string') return NaN;
  try {
    return msToNumber(value as Duration);
  } catch {
    return NaN;
  }
}

export function checkInteger(value: unknown, field: string, from: number, to: number): number | undefined {
  if (value === undefined) return undefined;
  if (!Number.isInteger(value) || (value as number) < from || (value as number) > to) {
    throw invalid(`${field} must be a whole number from ${from} to ${to}, not ${shown(value)}.`);
  }
  return value as number;
}

export function checkBoolean(value: unknown, field: string): boolean | undefined {
  if (value !== undefined && typeof value !== 'boolean') {
    throw invalid(`${field} must be true or false, not ${shown(value)}.`);
  }
  return value;
}

export function checkString(value: unknown, field: string): string | undefined {
  if (value === undefined) return undefined;
  if (typeof value !== 'string' || value === '') throw invalid(`${field} must be a text, not ${shown(value)}.`);
  refuse(value.length > LONGEST_TEXT, `${field} must not have more than ${LONGEST_TEXT} characters.`);
  return value;
}

/** Which of the worker's clouds; the workflow can't know them, the activities do. */
export function checkCloud(value: unknown): string | undefined {
  const cloud = checkString(value, 'cloud');
  refuse((cloud?.length ?? 0) > LONGEST_CLOUD, `cloud must not have more than ${LONGEST_CLOUD} characters.`);
  return cloud;
}

export function checkStrings(value: unknown, field: string): string[] | undefined {
  if (value === undefined) return undefined;
  if (!Array.isArray(value) || !value.every((item) => typeof item === 'string' && item !== '')) {
    throw invalid(
      `${field} must be a list of texts, not ${Array.isArray(value) ? 'a list with something else' : shown(value)}.`,
    );
  }
  refuse(
    value.length > LONGEST_LIST || value.some((item: string) => item.length > LONGEST_TEXT),
    `${field} must not have more than ${LONGEST_LIST} texts of at most ${LONGEST_TEXT} characters.`,
  );
  return value as string[];
}

export function checkChoice<C extends string>(value: unknown, field: string, choices: readonly C[]): C | undefined {
  if (value === undefined) return undefined;
  if (!choices.some((choice) => choice === value)) {
    throw invalid(`${field} must be one of ${choices.map((c) => `"${c}"`).join(', ')}, not ${shown(value)}.`);
  }
  return value as C;
}

/** Throws InvalidInput when a field that must be there is not. */
export function required<T>(value: T | undefined, field: string): T {
  if (value === undefined) throw invalid(`${field} is missing.`);
  return value;
}

/** For a rule that no check above covers. */
export function refuse(condition: boolean, message: string): void {
  if (condition) throw invalid(message);
}

export function checkPolling(value: unknown): Polling {
  if (value === undefined) return DEFAULT_POLLING;
  const fields = checkObject(value, 'polling', ['initialInterval', 'maximumInterval', 'backoffCoefficient']);
  const initial = checkDuration(fields.initialInterval, 'polling.initialInterval');
  const maximum = checkDuration(fields.maximumInterval, 'polling.maximumInterval');
  const coefficient = fields.backoffCoefficient;
  refuse(
    coefficient !== undefined && !(typeof coefficient === 'number' && coefficient >= 1 && coefficient <= 1_000),
    `polling.backoffCoefficient must be a number from 1 to 1000, not ${shown(coefficient)}.`,
  );
  refuse(
    initial !== undefined && maximum !== undefined && initial > maximum,
    'polling.initialInterval must not be above polling.maximumInterval.',
  );
  // One of the two alone moves the other's default with it, where it would contradict.
  const initialInterval = initial ?? Math.min(DEFAULT_POLLING.initialInterval, maximum ?? Infinity);
  return {
    initialInterval,
    maximumInterval: maximum ?? Math.max(DEFAULT_POLLING.maximumInterval, initialInterval),
    backoffCoefficient: (coefficient as number | undefined) ?? DEFAULT_POLLING.backoffCoefficient,
  };
}
