/**
 * Milliseconds since 1970 of an ISO 8601 time; NaN for what is none. Nova and monitors leave the zone out: it is UTC
 * then (nova stores naive UTC times, oslo_utils.timeutils.utcnow).
 */
export function parseTime(text: string): number {
  const iso = text.trim().replace(' ', 'T');
  if (!/^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?)?(Z|[+-]\d\d(:?\d\d)?)?$/i.test(iso)) return NaN;
  const zone = /(Z|[+-]\d\d(:?\d\d)?)$/i.exec(iso.slice(10))?.[0];
  if (zone === undefined) return Date.parse(iso.length === 10 ? iso : `${iso}Z`);
  return Date.parse(zone.length === 3 ? `${iso}:00` : iso);
}
