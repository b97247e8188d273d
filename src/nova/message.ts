/** OpenStack's own words out of an error's body, without markup and without secrets. */

const MAX_MESSAGE = 1_000;
/** Nothing that a person would read is longer, and the work below stays small. */
const MAX_RAW_MESSAGE = 1024 * 1024;

/** Keys of requests to Nova whose values never show. */
const SECRET_KEYS = new Set(['user_data', 'adminPass', 'personality']);

/**
 * The message of any of OpenStack's error bodies: `{"itemNotFound": {"code", "message"}}` (Nova, `NeutronError`),
 * `{"error": {"code", "message", "title"}}` (Keystone), `{"message", "code", "title"}` (WebOb, Glance). Undefined
 * when there is none. One line of at most 1,000 characters, with `secrets` replaced by `***`.
 */
export function serviceMessage(body: unknown, secrets: readonly string[]): string | undefined {
  const raw = findMessage(body);
  if (raw === undefined) return undefined;
  if (raw.length > MAX_RAW_MESSAGE) return `(a message of ${raw.length} characters)`;
  const words = withoutMarkup(withoutValue(redact(decodeEntities(raw), secrets)));
  const short = words.length > MAX_MESSAGE ? `${words.slice(0, MAX_MESSAGE - 1)}…` : words;
  return short === '' ? undefined : short;
}

function findMessage(body: unknown): string | undefined {
  if (typeof body !== 'object' || body === null) return undefined;
  const { message } = body as { message?: unknown };
  if (typeof message === 'string') return message;
  for (const value of Object.values(body)) {
    const inner = (value as { message?: unknown } | null)?.message;
    if (typeof inner === 'string') return inner;
  }
  return undefined;
}

/**
 * Nova's 400 repeats the request: `Invalid input for field/attribute server. Value: {...}. 'x' is a required property`
 * (`nova/api/validation/validators.py`). The value is cut out up to the last sentence.
 */
function withoutValue(message: string): string {
  const start = message.indexOf(' Value: ');
  if (!message.startsWith('Invalid input for ') || start < 0) return message;
  const end = message.lastIndexOf('. ');
  return message.slice(0, start) + (end > start ? message.slice(end + 1) : '');
}

/** WebOb's tags go, Python's `<class '...'>` stays. */
function withoutMarkup(message: string): string {
  return message
    .replace(/<\/?(?:a|b|body|br|code|div|em|h[1-6]|head|hr|html|i|li|p|pre|span|strong|title|ul)\b[^<>]*>/gi, ' ')
    .replace(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, ' ')
    .trim();
}

const ENTITIES: Record<string, string> = { lt: '<', gt: '>', quot: '"', amp: '&', '#39': "'", '#x27': "'", '#34': '"' };

function decodeEntities(text: string): string {
  return text.replace(/&(lt|gt|quot|amp|#39|#x27|#34);/g, (_, name: string) => ENTITIES[name] ?? '');
}

/** Every string (and number) under a secret key, at any depth. */
export function secretsIn(body: unknown): string[] {
  const found: string[] = [];
  const pending: { value: unknown; secret: boolean }[] = [{ value: body, secret: false }];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const { value, secret } = next;
    if (typeof value === 'object' && value !== null) {
      for (const [key, inner] of Object.entries(value)) {
        // Of a file of `personality`, its path is no secret.
        const isPath = secret && key === 'path';
        pending.push({ value: inner, secret: !isPath && (secret || SECRET_KEYS.has(key)) });
      }
    } else if (secret && (typeof value === 'string' || typeof value === 'number')) {
      found.push(String(value));
    }
  }
  return found;
}

/** `***` for each of `secrets`, as it is and as Python's repr and JSON spell it. */
export function redact(text: string, secrets: readonly string[]): string {
  const spellings = new Set(secrets.filter((secret) => secret.trim() !== '').flatMap(spellingsOf));
  let redacted = text;
  // Longest first: a secret may be part of another one.
  for (const spelling of [...spellings].sort((a, b) => b.length - a.length)) {
    redacted = spelling.length >= 4 ? redacted.replaceAll(spelling, '***') : redacted.replace(asWord(spelling), '***');
  }
  return redacted;
}

function spellingsOf(secret: string): string[] {
  const python = pythonRepr(secret);
  return [secret, secret.trim(), python, python.replaceAll("'", "\\'"), JSON.stringify(secret).slice(1, -1)];
}

function pythonRepr(text: string): string {
  return text.replace(/[\\\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu, (char) => {
    const named = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' }[char];
    if (named !== undefined) return named;
    const code = char.codePointAt(0) ?? 0;
    if (code < 0x100) return `\\x${code.toString(16).padStart(2, '0')}`;
    return code < 0x10000 ? `\\u${code.toString(16).padStart(4, '0')}` : `\\U${code.toString(16).padStart(8, '0')}`;
  });
}

/** A secret of one to three characters is everywhere: it counts only where it stands alone. */
function asWord(secret: string): RegExp {
  return new RegExp(`(?<![\\p{L}\\p{N}])${secret.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')}(?![\\p{L}\\p{N}])`, 'gu');
}
