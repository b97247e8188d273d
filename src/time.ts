/**
 * Milliseconds since 1970 of an ISO 8601 time; NaN for what is none. Nova and monitors leave the zone out: it is UTC
 * then (nova stores naive UTC times, oslo_utils.timeutils.utcnow).
 */
export function parseTime(text: string): number {
  const iso = text.trim().replace(' ', 'T');
  if (!/^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?)?(Z|[+-]\d\d:?\d\d)?$/i.test(iso)) return NaN;
  const hasZone = /(Z|[+-]\d\d:?\d\d)$/i.test(iso.slice(10));
  return Date.parse(hasZone || iso.length === 10 ? iso : `${iso}Z`);
}
