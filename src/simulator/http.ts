/** The listener: routes requests to the services, plays faults, and keeps a record of what was asked. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Answer, ServiceRequest } from './message';

export type ServiceName = 'identity' | 'compute' | 'image' | 'network';

/** One request as it came and what became of it. */
export interface RecordedRequest {
  /** When it arrived, in milliseconds since the epoch. */
  at: number;
  method: string;
  service: ServiceName | undefined;
  /** Path and query, '/compute/v2.1/servers?limit=1'. */
  path: string;
  /** HTTP status; 'pending' while it is carried out or delayed. */
  status: number | 'reset' | 'hang' | 'pending';
}

/** A fault for the requests that match all of what is given. The oldest fault that matches a request is its only one. */
export interface Fault {
  method?: string;
  /** Tested against path and query, for example `/^\/compute\/v2\.1\/servers$/`. */
  path?: RegExp;
  service?: ServiceName;
  /** How many requests it hits. Default 1; Infinity allowed. */
  times?: number;
  /** Chance that it hits a request that matches, 0 to 1. Default 1. */
  probability?: number;
  match?: (request: { method: string; path: string; body: string }) => boolean;
  /** Sent in place of the service's answer. An object is sent as JSON. */
  answer?: { status: number; headers?: Record<string, string>; body?: string | object };
  /** The request is carried out first, and its answer is lost. Default false: it never reaches the service. */
  carriedOut?: boolean;
  /** The connection is reset. */
  reset?: boolean;
  /** Nothing is ever answered. */
  hang?: boolean;
  /** Waited before the answer; with `carriedOut` after the request was carried out, else before. */
  delaySeconds?: number;
}

export interface FaultHandle {
  /** How many requests it will still hit. */
  readonly remaining: number;
  /** How many it has hit. */
  readonly hits: number;
  remove(): void;
}

const KEPT_REQUESTS = 100_000;
const SERVICES: readonly string[] = ['identity', 'compute', 'image', 'network'];

class InjectedFault implements FaultHandle {
  remaining: number;
  hits = 0;

  constructor(
    readonly fault: Fault,
    private readonly random: () => number,
    readonly remove: () => void,
  ) {
    this.remaining = fault.times ?? 1;
  }

  hit(request: { method: string; path: string; service: ServiceName | undefined; body: string }): boolean {
    const { method, path, service, probability = 1, match } = this.fault;
    if (method !== undefined && method.toUpperCase() !== request.method) return false;
    if (service !== undefined && service !== request.service) return false;
    if (path !== undefined && !path.test(request.path)) return false;
    if (match !== undefined && !match(request)) return false;
    if (probability < 1 && this.random() >= probability) return false;
    this.hits++;
    if (--this.remaining <= 0) this.remove();
    return true;
  }
}

/** What the listener asks of the cloud behind it. */
export type Dispatch = (service: ServiceName | undefined, request: ServiceRequest) => Answer;

export class Listener {
  /** Newest 100,000, oldest first. */
  readonly requests: RecordedRequest[] = [];
  /** How many requests came in all. */
  received = 0;
  private readonly faults = new Set<InjectedFault>();
  private server: Server | undefined;
  private port: number;

  constructor(
    private readonly host: string,
    port: number,
    private readonly clock: () => number,
    private readonly dispatch: Dispatch,
    private readonly random: () => number = Math.random,
  ) {
    this.port = port;
  }

  /** 'http://127.0.0.1:43210' */
  get url(): string {
    return `http://${this.host.includes(':') ? `[${this.host}]` : this.host}:${this.port}`;
  }

  /** Listens; after `close` on the same port as before. */
  async open(): Promise<void> {
    if (this.server !== undefined) return;
    const server = createServer({ keepAlive: true, keepAliveTimeout: 60_000, noDelay: true }, (incoming, outgoing) => {
      void this.receive(incoming, outgoing);
    });
    // A client that keeps its connection idle is no client that hangs.
    server.requestTimeout = 0;
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(this.port, this.host, resolve);
    });
    this.port = (server.address() as AddressInfo).port;
    this.server = server;
  }

  /** Refuses connections from now on, and ends those there are. */
  async close(): Promise<void> {
    const server = this.server;
    if (server === undefined) return;
    this.server = undefined;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    await closed;
  }

  inject(fault: Fault): FaultHandle {
    const injected: InjectedFault = new InjectedFault(fault, this.random, () => this.faults.delete(injected));
    this.faults.add(injected);
    return injected;
  }

  clearFaults(): void {
    this.faults.clear();
  }

  private async receive(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const method = incoming.method ?? 'GET';
    const path = incoming.url ?? '/';
    const [pathname = '/', search = ''] = split(path);
    const [, first = '', ...segments] = pathname.split('/');
    const service = SERVICES.includes(first) ? (first as ServiceName) : undefined;
    const record = this.record({ at: this.clock(), method, service, path, status: 'pending' });
    const body = await text(incoming);
    const request: ServiceRequest = {
      method,
      segments: segments.filter((segment) => segment !== '').map(decode),
      query: new URLSearchParams(search),
      headers: incoming.headers,
      body,
    };
    const fault = this.faultFor({ method, path, service, body });
    if (fault === undefined) return this.answer(outgoing, record, this.carryOut(service, request));
    await this.play(fault, outgoing, record, () => this.carryOut(service, request));
  }

  private faultFor(request: {
    method: string;
    path: string;
    service: ServiceName | undefined;
    body: string;
  }): Fault | undefined {
    for (const injected of this.faults) if (injected.hit(request)) return injected.fault;
    return undefined;
  }

  private async play(
    fault: Fault,
    outgoing: ServerResponse,
    record: RecordedRequest,
    carryOut: () => Answer,
  ): Promise<void> {
    let own = fault.carriedOut === true ? carryOut() : undefined;
    if (fault.delaySeconds !== undefined) await sleep(fault.delaySeconds * 1000, undefined, { ref: false });
    if (fault.reset === true) {
      record.status = 'reset';
      outgoing.socket?.resetAndDestroy();
      return;
    }
    if (fault.hang === true) {
      record.status = 'hang';
      return;
    }
    own ??= fault.answer === undefined ? carryOut() : undefined;
    this.answer(outgoing, record, fault.answer ?? own!);
  }

  private carryOut(service: ServiceName | undefined, request: ServiceRequest): Answer {
    try {
      return this.dispatch(service, request);
    } catch (error) {
      const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
      return { status: 500, body: { computeFault: { code: 500, message: `The simulator failed: ${message}` } } };
    }
  }

  private answer(outgoing: ServerResponse, record: RecordedRequest, { status, headers = {}, body }: Answer): void {
    record.status = status;
    const isJson = typeof body === 'object' || body === undefined;
    const content = body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body);
    const type = isJson ? 'application/json' : 'text/html; charset=UTF-8';
    const length = status === 204 ? {} : { 'Content-Length': String(Buffer.byteLength(content)) };
    outgoing.writeHead(status, { 'Content-Type': type, ...length, ...headers });
    outgoing.end(content);
  }

  private record(request: RecordedRequest): RecordedRequest {
    this.received++;
    this.requests.push(request);
    if (this.requests.length > KEPT_REQUESTS * 1.1) this.requests.splice(0, this.requests.length - KEPT_REQUESTS);
    return request;
  }
}

function split(path: string): [string, string] {
  const at = path.indexOf('?');
  return at < 0 ? [path, ''] : [path.slice(0, at), path.slice(at + 1)];
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

async function text(incoming: IncomingMessage): Promise<string> {
  if (incoming.method === 'GET' || incoming.method === 'DELETE') {
    incoming.resume();
    return '';
  }
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
  } catch {
    // the client went away; what it had sent is all there will be
  }
  return Buffer.concat(chunks).toString('utf8');
}
