/**
 * What property-based tests share: how many runs, and JSON that nobody expects. Seeds are random; fast-check prints the
 * seed and the path of a failure, which `fc.assert(…, { seed, path })` repeats.
 */
import fc from 'fast-check';

/** Set from outside: how many times as many runs as by default, for a longer search. */
const RUNS = 'TEMPORAL_NOVA_TEST_RUNS';

const times = Number(process.env[RUNS] ?? 1);
if (times > 1) jest.setTimeout(60_000 * times);

export function runs(byDefault: number): number {
  return Math.ceil(byDefault * times);
}

/** `JSON.stringify` can't write these: `hostileText` puts them in. */
const WRITTEN_OUT: Record<string, string> = {
  '@deep-list': '['.repeat(5_000) + ']'.repeat(5_000),
  '@deep-object': '{"a":'.repeat(5_000) + 'null' + '}'.repeat(5_000),
  '@huge-number': '1e400',
  '@minus-zero': '-0',
};

/** Anything that JSON can hold, above all what code trips over. */
export const hostileValue: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    true,
    0,
    -1,
    0.5,
    1e21,
    Number.MAX_SAFE_INTEGER + 2,
    '',
    ' ',
    '0',
    'NaN',
    '\u0000',
    'a\ud800b',
    '😀'.repeat(200),
    '\ufeff',
    'x'.repeat(3_000),
    '('.repeat(3_000),
    '\u0000'.repeat(1_000),
    '__proto__',
    'constructor',
    '../..',
    'http://[',
    'http://h /',
    [],
    {},
    [null],
    [[[]]],
    { toString: 1, valueOf: 1 },
    { length: 1e9 },
    { then: 1, message: null },
    JSON.parse('{"__proto__":{"a":1},"constructor":{"prototype":1},"hasOwnProperty":0}'),
    ...Object.keys(WRITTEN_OUT),
  ),
  fc.jsonValue({ maxDepth: 3 }),
);

type Path = string[];

function pathsOf(value: unknown, path: Path = []): Path[] {
  if (typeof value !== 'object' || value === null) return [path];
  return [path, ...Object.keys(value).flatMap((key) => pathsOf((value as never)[key], [...path, key]))];
}

/** The document with something else, or nothing, at the end of the path. */
function replaced(document: unknown, [key, ...rest]: Path, value: unknown): unknown {
  if (key === undefined) return value;
  if (typeof document !== 'object' || document === null) return document;
  const copy = (Array.isArray(document) ? [...(document as unknown[])] : { ...document }) as Record<string, unknown>;
  const inner = replaced(copy[key], rest, value);
  if (inner === undefined) delete copy[key];
  else Object.defineProperty(copy, key, { value: inner, enumerable: true, configurable: true, writable: true });
  return copy;
}

/** Documents like this one: as it is, or with a few of its values missing or replaced. */
export function like(document: unknown): fc.Arbitrary<unknown> {
  const paths = pathsOf(document);
  const change = fc.tuple(fc.constantFrom(...paths), fc.option(hostileValue, { nil: undefined, freq: 4 }));
  return fc
    .array(change, { maxLength: 3 })
    .map((changes) => changes.reduce((changed, [path, value]) => replaced(changed, path, value), document));
}

/** As JSON, with what only the text of it can say. */
export function hostileText(value: unknown): string {
  return (JSON.stringify(value) ?? 'null').replace(/"(@[a-z-]+)"/g, (all, name: string) => WRITTEN_OUT[name] ?? all);
}
