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
