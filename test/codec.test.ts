import { createSecretKey, randomBytes } from 'node:crypto';
import { inspect } from 'node:util';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import { loadDataConverter } from '@temporalio/common/lib/internal-non-workflow';
import fc from 'fast-check';
import { CodecError, dataConverter, EncryptionCodec, loadCodecKeys, type CodecKey } from '../src/codec';

const newKey = (encoding: 'base64' | 'base64url' = 'base64') => randomBytes(32).toString(encoding);
const keysOf = (TEMPORAL_NOVA_CODEC_KEYS: string) => loadCodecKeys({ TEMPORAL_NOVA_CODEC_KEYS });
const text = (bytes: Uint8Array | null | undefined) => Buffer.from(bytes ?? []).toString();
const readable = ({ metadata, data }: Payload) => ({
  metadata: Object.fromEntries(Object.entries(metadata ?? {}).map(([key, value]) => [key, text(value)])),
  data: Buffer.from(data ?? []).toString('hex'),
});
const payloadOf = (value: unknown) => defaultPayloadConverter.toPayload(value);

const one: CodecKey = { id: 'one', key: createSecretKey(randomBytes(32)) };
const two: CodecKey = { id: 'two', key: createSecretKey(randomBytes(32)) };

async function encrypted(payload: Payload, ...keys: CodecKey[]): Promise<Payload> {
  return (await new EncryptionCodec(keys).encode([payload]))[0]!;
}

async function decrypted(payload: Payload, ...keys: CodecKey[]): Promise<Payload> {
  return (await new EncryptionCodec(keys).decode([payload]))[0]!;
}

describe('round trip', () => {
  const bytes = fc.uint8Array({ maxLength: 300 }).map((array) => Buffer.from(array));
  const anyPayload = fc.record({ metadata: fc.dictionary(fc.string(), bytes, { noNullPrototype: true }), data: bytes });

  test('any payload comes back as it was, its metadata too', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyPayload, { maxLength: 4 }), async (payloads) => {
        const codec = new EncryptionCodec([one]);
        const back = await codec.decode(await codec.encode(payloads));
        expect(back.map(readable)).toEqual(payloads.map(readable));
      }),
    );
  });

  test('no bytes are no bytes', async () => {
    const back = await decrypted(await encrypted(payloadOf(new Uint8Array()), one), one);
    expect(defaultPayloadConverter.fromPayload(back)).toBeInstanceOf(Uint8Array);
  });

  test('any JSON value does', async () => {
    await fc.assert(
      fc.asyncProperty(fc.jsonValue({ maxDepth: 4 }), async (value) => {
        const back = await decrypted(await encrypted(payloadOf(value), one), one);
        expect(JSON.stringify(defaultPayloadConverter.fromPayload(back))).toBe(JSON.stringify(value));
      }),
    );
  });

  test('what is stored says how it was encrypted, and shows nothing of the payload', async () => {
    const stored = await encrypted(payloadOf({ adminPass: 'planted' }), one);
    expect(readable(stored).metadata).toEqual({
      encoding: 'binary/encrypted',
      'encryption-cipher': 'AES-256-GCM',
      'encryption-key-id': 'one',
    });
    expect(text(stored.data)).not.toMatch(/planted|adminPass|json/);
  });

  test('the same payload twice is not the same twice', async () => {
    const stored = await new EncryptionCodec([one]).encode(Array.from({ length: 1_000 }, () => payloadOf('the same')));
    expect(new Set(stored.map(({ data }) => text(data?.subarray(0, 12)))).size).toBe(1_000);
  });
});

describe('rotation', () => {
  test('the first key encrypts, all of them decrypt', async () => {
    const old = await encrypted(payloadOf('old'), one);
    const young = await encrypted(payloadOf('young'), two, one);
    expect(text(young.metadata?.['encryption-key-id'])).toBe('two');
    for (const payload of [old, young]) await expect(decrypted(payload, two, one)).resolves.toBeTruthy();
  });

  test('a key that is not there is named, and so are those that are', async () => {
    const stored = await encrypted(payloadOf(1), one);
    await expect(decrypted(stored, two)).rejects.toThrow(
      new CodecError('a payload is encrypted with the key "one", and TEMPORAL_NOVA_CODEC_KEYS holds only "two"'),
    );
    await expect(decrypted(stored)).rejects.toThrow('key "one", and TEMPORAL_NOVA_CODEC_KEYS is not set');
  });
});

describe('what is not encrypted passes as it is', () => {
  const plain = payloadOf('plain');
  test('to be decoded', async () => expect(await decrypted(plain, one)).toBe(plain));
  test('to be encoded, without keys', async () => expect(await encrypted(plain)).toBe(plain));
});

describe('tampering', () => {
  const changed = fc.record({ at: fc.nat(), bit: fc.integer({ min: 0, max: 7 }) });

  test('any bit changed is noticed', async () => {
    const stored = await encrypted(payloadOf({ some: 'value' }), one);
    await fc.assert(
      fc.asyncProperty(changed, async ({ at, bit }) => {
        const data = Buffer.from(stored.data!);
        data[at % data.length]! ^= 1 << bit;
        await expect(decrypted({ ...stored, data }, one)).rejects.toThrow(CodecError);
      }),
    );
  });

  test('any length cut off is noticed', async () => {
    const stored = await encrypted(payloadOf({ some: 'value' }), one);
    for (let length = 0; length < stored.data!.length; length++) {
      const cut = { ...stored, data: stored.data!.subarray(0, length) };
      await expect(decrypted(cut, one)).rejects.toThrow(/key "one": it was changed/);
    }
    await expect(decrypted({ metadata: stored.metadata }, one)).rejects.toThrow(CodecError);
  });

  test("another key's id beside it is noticed, even where both keys are the same", async () => {
    const stored = await encrypted(payloadOf(1), one);
    const renamed = { ...stored, metadata: { ...stored.metadata, 'encryption-key-id': Buffer.from('copy') } };
    await expect(decrypted(renamed, one, { id: 'copy', key: one.key })).rejects.toThrow(/"copy": it was changed/);
  });

  test('another cipher is named', async () => {
    const stored = await encrypted(payloadOf(1), one);
    const other = { ...stored, metadata: { ...stored.metadata, 'encryption-cipher': Buffer.from('ROT13') } };
    await expect(decrypted(other, one)).rejects.toThrow('encrypted with "ROT13", not with AES-256-GCM');
  });
});

describe('TEMPORAL_NOVA_CODEC_KEYS', () => {
  test.each([undefined, '', ' \n'])('%j: no keys', (value) => {
    expect(loadCodecKeys({ TEMPORAL_NOVA_CODEC_KEYS: value })).toEqual([]);
  });

  test('keys in base64 and base64url, with space around them, in their order', () => {
    const keys = [newKey(), newKey('base64url'), newKey()];
    const ring = keysOf(` 2026-12:${keys[0]}, b.2:${keys[1]} ,\nc_3:${keys[2]}\n`);
    expect(ring.map(({ id }) => id)).toEqual(['2026-12', 'b.2', 'c_3']);
    expect(ring.map(({ key }) => key.export())).toEqual(keys.map((key) => Buffer.from(key, 'base64')));
  });

  test('nothing that prints the ring, or the codec, shows a key', () => {
    const key = newKey();
    const ring = keysOf(`k1:${key}`);
    for (const value of [ring, new EncryptionCodec(ring), dataConverter(ring)]) {
      const printed = inspect(value, { depth: null, showHidden: true }) + JSON.stringify(value);
      expect(printed).not.toContain(key);
      expect(printed).not.toContain(Buffer.from(key, 'base64').toString('hex').slice(0, 8));
    }
  });

  const good = newKey();
  test.each<[string, string, RegExp]>([
    ['a key without an id', good, /entry 1 is not id:key/],
    ['an empty id', `:${good}`, /id of entry 1 must be/],
    ['an id with a space', `a b:${good}`, /id of entry 1 must be/],
    ['an id and its key in the wrong order', `${good}:k1`, /id of entry 1 must be/],
    ['no key', 'k1:', /key of entry 1 is not base64/],
    ['a comma at the end', `k1:${good},`, /entry 2 is not id:key/],
    ['a key of 16 bytes', `k1:${randomBytes(16).toString('base64')}`, /key of entry 1 has 16 bytes, not 32/],
    ['a key in hex', `k1:${randomBytes(32).toString('hex')}`, /key of entry 1 has 48 bytes, not 32/],
    ['what is not base64', `k1:${good.slice(0, -2)}*=`, /key of entry 1 is not base64/],
    ['an id twice', `k1:${good},k2:${newKey()},k1:${newKey()}`, /entries 1 and 3 have the same id/],
  ])('%s', (_name, value, words) => {
    const error = thrownBy(() => keysOf(value));
    expect(error.message).toMatch(words);
    expect(error.message).toContain('TEMPORAL_NOVA_CODEC_KEYS');
  });

  test('whatever is in it, no error repeats it', () => {
    const half = fc.oneof(fc.string({ minLength: 3 }), fc.constantFrom(good, good.slice(0, 20), newKey()));
    fc.assert(
      fc.property(fc.array(fc.tuple(half, fc.constantFrom(':', ',', '::', '')), { minLength: 1 }), (parts) => {
        const value = parts.flat().join('');
        try {
          keysOf(value);
        } catch (error) {
          const said = (error as Error).message;
          for (const [part] of parts) if (part.length > 12) expect(said).not.toContain(part);
        }
      }),
    );
  });
});

describe('dataConverter', () => {
  test('with keys, what a failure says is encrypted with the rest', () => {
    const { failureConverter } = loadDataConverter(dataConverter([one]));
    const failure = failureConverter.errorToFailure(new Error('planted'), defaultPayloadConverter);
    expect(failure.message).toBe('Encoded failure');
    expect(failure.stackTrace).toBe('');
    expect(failureConverter.failureToError(failure, defaultPayloadConverter).message).toBe('planted');
  });

  test('without keys, a failure stays readable', () => {
    const { failureConverter } = loadDataConverter(dataConverter([]));
    expect(failureConverter.errorToFailure(new Error('planted'), defaultPayloadConverter).message).toBe('planted');
  });
});

function thrownBy(work: () => unknown): Error {
  try {
    work();
  } catch (error) {
    return error as Error;
  }
  throw new Error('nothing was thrown');
}
