/** The shapes in which the services talk with the listener. */

export interface ServiceRequest {
  method: string;
  /** Segments below the service's root: `['v2.1', 'servers']`. */
  segments: string[];
  query: URLSearchParams;
  /** Lower-case names. */
  headers: Record<string, string | string[] | undefined>;
  body: string;
}

export interface Answer {
  status: number;
  headers?: Record<string, string>;
  /** An object is sent as JSON. */
  body?: string | object;
}

/** Keystone, Glance, Nova and Neutron spell a fault each in their own way; thrown where a request ends in one. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

export function header(request: ServiceRequest, name: string): string | undefined {
  const value = request.headers[name];
  return Array.isArray(value) ? value.join(', ') : value;
}

/** The body of a request, parsed; null where there is none. Throws Nova's 400 and 415. */
export function json(request: ServiceRequest): unknown {
  const type = (header(request, 'content-type') ?? '').split(';')[0]!.trim();
  if (!CONTENT_TYPES.includes(type)) throw new Refusal(415, 'Unsupported Content-Type');
  if (request.body === '') return null;
  try {
    return JSON.parse(request.body);
  } catch {
    throw new Refusal(400, 'Malformed request body');
  }
}

const CONTENT_TYPES = ['', 'text/plain', 'application/json', 'application/vnd.openstack.compute+json'];

/** No such URL, or no such method on it. Nova's router answers that itself, in the form that the client asks for. */
export const NOT_FOUND: Answer = { status: 404 };
