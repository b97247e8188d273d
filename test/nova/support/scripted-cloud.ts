/** A Keystone and a Nova that answer what a test tells them to, for what no well-behaved cloud would answer. */

import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { createServer as createHttpServer } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';

export interface SeenRequest {
  method: string;
  path: string;
  headers: IncomingMessage['headers'];
  body: string;
}

export type Script = (request: SeenRequest, response: ServerResponse, socket: Socket) => void | Promise<void>;

export class ScriptedCloud {
  readonly requests: SeenRequest[] = [];
  /** Answers everything that is not a login or the API's version. */
  nova: Script = (_, response) => json(response, 404, { itemNotFound: { code: 404, message: 'not scripted' } });
  /** Answers `POST /v3/auth/tokens`; each login gets another token. */
  keystone: Script = (_, response) =>
    json(response, 201, { token: this.token() }, { 'X-Subject-Token': `token-${++this.logins}` });
  /** Answers `GET /v2.1/`. */
  version: Script = (_, response) =>
    json(response, 200, { version: { id: 'v2.1', status: 'CURRENT', version: '2.93', min_version: '2.1' } });
  logins = 0;
  tokenSeconds = 3600;
  /** Of the compute service. */
  endpoints: object[] = [];

  private constructor(
    private readonly server: ReturnType<typeof createHttpServer> | ReturnType<typeof createHttpsServer>,
    readonly scheme: 'http' | 'https',
  ) {}

  private static readonly running = new Set<ScriptedCloud>();

  /** For afterEach: a test that failed half-way leaves none behind, which would keep Jest from ending. */
  static async stopAll(): Promise<void> {
    await Promise.all([...ScriptedCloud.running].map((cloud) => cloud.stop()));
  }

  static async start(tls?: { key: Buffer; cert: Buffer }): Promise<ScriptedCloud> {
    const holder: { cloud?: ScriptedCloud } = {};
    const listener: RequestListener = (request, response) => void holder.cloud?.receive(request, response);
    const server = tls ? createHttpsServer(tls, listener) : createHttpServer(listener);
    holder.cloud = new ScriptedCloud(server, tls ? 'https' : 'http');
    ScriptedCloud.running.add(holder.cloud);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    holder.cloud.endpoints = [endpoint(`${holder.cloud.url}/v2.1`)];
    return holder.cloud;
  }

  get url(): string {
    return `${this.scheme}://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  env(more: Record<string, string> = {}): Record<string, string> {
    return {
      OS_AUTH_URL: this.url,
      OS_USERNAME: 'demo',
      OS_PASSWORD: 'the-password',
      OS_PROJECT_NAME: 'demo',
      OS_USER_DOMAIN_NAME: 'Default',
      OS_PROJECT_DOMAIN_NAME: 'Default',
      ...more,
    };
  }

  token(): object {
    const now = Date.now();
    return {
      user: { id: 'user-id', name: 'demo' },
      project: { id: 'project-id', name: 'demo' },
      issued_at: new Date(now).toISOString(),
      expires_at: new Date(now + this.tokenSeconds * 1000).toISOString(),
      catalog: [{ type: 'compute', name: 'nova', endpoints: this.endpoints }],
    };
  }

  of(pathPrefix: string): SeenRequest[] {
    return this.requests.filter(({ path }) => path.startsWith(pathPrefix));
  }

  private async stop(): Promise<void> {
    ScriptedCloud.running.delete(this);
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    this.server.closeAllConnections();
    await closed;
  }

  private async receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const seen: SeenRequest = {
      method: request.method ?? '',
      path: request.url ?? '',
      headers: request.headers,
      body: Buffer.concat(chunks).toString(),
    };
    this.requests.push(seen);
    const script = seen.path.endsWith('/auth/tokens')
      ? this.keystone
      : /\/v2\.1\/$/.test(seen.path)
        ? this.version
        : this.nova;
    await script(seen, response, request.socket);
  }
}

export function endpoint(url: string, more: object = {}): object {
  return { interface: 'public', region_id: 'RegionOne', region: 'RegionOne', url, ...more };
}

export function json(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { 'Content-Type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}
