/**
 * Encrypts what Temporal stores: inputs, results, messages, heartbeats, summaries, and what failures say. Needs no
 * worker, so that clients can use it too. The format, for clients in other languages: docs/encryption.md.
 */
import { createCipheriv, createDecipheriv, createSecretKey, randomBytes, type KeyObject } from 'node:crypto';
import type { DataConverter, Payload, PayloadCodec } from '@temporalio/common';
import { temporal } from '@temporalio/proto';

const PayloadProto = temporal.api.common.v1.Payload;

const ENCODING = 'binary/encrypted';
const CIPHER = 'AES-256-GCM';
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** A payload can't be decrypted: its key is not in the ring, or the payload was changed. Names the key's id. */
export class CodecError extends Error {
  override readonly name = 'CodecError';
}

/** One key of the ring. Printing it does not show the key itself. */
export interface CodecKey {
  /** Stands beside each payload that the key encrypted. Not a secret. */
  id: string;
  key: KeyObject;
}

const VARIABLE = 'TEMPORAL_NOVA_CODEC_KEYS';

/**
 * The key ring of `TEMPORAL_NOVA_CODEC_KEYS`: `id:key`, separated by commas; keys of 32 bytes in base64 or base64url.
 * The first one encrypts, all of them decrypt.
 *
 * @returns no keys where the variable is not set
 * @throws Error that says which entry is wrong, by its place: what stands there could be a key
 * @example
 * // TEMPORAL_NOVA_CODEC_KEYS="2026-12:$(openssl rand -base64 32)"
 * const keys = loadCodecKeys();
 */
export function loadCodecKeys(env: NodeJS.ProcessEnv = process.env): CodecKey[] {
  const ring = env[VARIABLE]?.trim();
  if (!ring) return [];
  const keys = ring.split(',').map((entry, index) => readEntry(entry.trim(), `entry ${index + 1}`));
  keys.forEach(({ id }, index) => {
    const first = keys.findIndex((other) => other.id === id);
    if (first < index) throw wrong(`entries ${first + 1} and ${index + 1} have the same id`);
  });
  return keys;
}

function readEntry(entry: string, place: string): CodecKey {
  const [, id, encoded] = /^([^:]*):(.*)$/s.exec(entry) ?? [];
  if (id === undefined || encoded === undefined) throw wrong(`${place} is not id:key`);
  // Shorter than any key: two halves in the wrong order must not make a key an id, which is public.
  if (!/^[\w.-]{1,40}$/.test(id)) throw wrong(`the id of ${place} must be 1 to 40 letters, digits, "_", "." or "-"`);
  if (!/^[\w+/-]+={0,2}$/.test(encoded)) throw wrong(`the key of ${place} is not base64`);
  const key = Buffer.from(encoded, 'base64');
  if (key.length !== KEY_BYTES) throw wrong(`the key of ${place} has ${key.length} bytes, not ${KEY_BYTES}`);
  return { id, key: createSecretKey(key) };
}

function wrong(what: string): Error {
  return new Error(`${VARIABLE}: ${what} (id:key,id:key,… with keys of "openssl rand -base64 32")`);
}

/**
 * The `dataConverter` of a client or a worker, for the keys of `loadCodecKeys`: encrypts payloads, and the messages and
 * stack traces of failures. Without keys it leaves everything as it is, and says what is wrong when it meets something
 * encrypted.
 *
 * A worker with a bundle of its own passes `failureConverterPath` to `bundleWorkflowCode` too; `createNovaWorker` does
 * all that by itself. A client that is bundled into one file has no use for that path:
 * `{ payloadCodecs: [new EncryptionCodec(keys)] }` is enough there.
 *
 * @example
 * const client = new Client({ connection, dataConverter: dataConverter(loadCodecKeys()) });
 */
export function dataConverter(keys: readonly CodecKey[]): DataConverter {
  return {
    payloadCodecs: [new EncryptionCodec(keys)],
    // Without a codec, an encoded message would only be harder to read.
    ...(keys.length > 0 && { failureConverterPath: require.resolve('./failure-converter') }),
  };
}

/**
 * AES-256-GCM with a key ring: the first key encrypts, all of them decrypt. A payload that is not encrypted passes
 * `decode` as it is: one from before the keys were set, or from a client that has none.
 *
 * `decode` rejects with `CodecError`. In a worker that fails the task, which Temporal gives out again: nothing is lost
 * until a worker with the key takes it.
 *
 * @example
 * const codec = new EncryptionCodec(loadCodecKeys());
 */
export class EncryptionCodec implements PayloadCodec {
  private readonly keys: ReadonlyMap<string, KeyObject>;

  constructor(private readonly ring: readonly CodecKey[]) {
    this.keys = new Map(ring.map(({ id, key }) => [id, key]));
  }

  async encode(payloads: Payload[]): Promise<Payload[]> {
    const [newest] = this.ring;
    return newest ? payloads.map((payload) => encrypt(payload, newest)) : payloads;
  }

  async decode(payloads: Payload[]): Promise<Payload[]> {
    return payloads.map((payload) => (isEncrypted(payload) ? this.decrypt(payload) : payload));
  }

  private decrypt(payload: Payload): Payload {
    const id = text(payload.metadata?.['encryption-key-id']);
    const cipher = text(payload.metadata?.['encryption-cipher']);
    if (cipher !== CIPHER) throw new CodecError(`a payload is encrypted with ${shown(cipher)}, not with ${CIPHER}`);
    const key = this.keys.get(id);
    if (!key) throw new CodecError(`a payload is encrypted with the key ${shown(id)}, and ${this.held()}`);
    return decrypt(payload.data ?? new Uint8Array(), { id, key });
  }

  private held(): string {
    if (this.ring.length === 0) return `${VARIABLE} is not set`;
    return `${VARIABLE} holds only ${this.ring.map(({ id }) => `"${id}"`).join(', ')}`;
  }
}

/** Whether a payload is one that `EncryptionCodec` made, or should know. */
export function isEncrypted({ metadata }: Payload): boolean {
  return text(metadata?.encoding) === ENCODING;
}

/** Nonce, ciphertext and tag, in this order, of the whole payload with its metadata; the key's id is authenticated too. */
function encrypt(payload: Payload, { id, key }: CodecKey): Payload {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES }).setAAD(Buffer.from(id));
  const sealed = [cipher.update(PayloadProto.encode(payload).finish()), cipher.final()];
  return {
    metadata: {
      encoding: Buffer.from(ENCODING),
      'encryption-cipher': Buffer.from(CIPHER),
      'encryption-key-id': Buffer.from(id),
    },
    data: Buffer.concat([nonce, ...sealed, cipher.getAuthTag()]),
  };
}

function decrypt(data: Uint8Array, { id, key }: CodecKey): Payload {
  if (data.length < NONCE_BYTES + TAG_BYTES) throw damaged(id);
  const nonce = data.subarray(0, NONCE_BYTES);
  const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES }).setAAD(Buffer.from(id));
  decipher.setAuthTag(data.subarray(data.length - TAG_BYTES));
  const opened = [decipher.update(data.subarray(NONCE_BYTES, data.length - TAG_BYTES))];
  try {
    opened.push(decipher.final());
  } catch {
    throw damaged(id);
  }
  const payload = PayloadProto.decode(Buffer.concat(opened));
  // Where there are no bytes, protobufjs says so with an array.
  return { ...payload, data: payload.data.length > 0 ? payload.data : new Uint8Array() };
}

function damaged(id: string): CodecError {
  return new CodecError(
    `a payload can't be decrypted with the key ${shown(id)}: it was changed, or the key of that id was`,
  );
}

function text(bytes: Uint8Array | null | undefined): string {
  return bytes ? Buffer.from(bytes).toString() : '';
}

/** What came with a payload can be anything. */
function shown(value: string): string {
  return value ? JSON.stringify(value.slice(0, 40)) : '(none)';
}
