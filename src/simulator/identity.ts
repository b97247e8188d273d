/** Keystone v3: tokens by password, application credential and token, and the catalog. */
import { randomBytes, randomUUID } from 'node:crypto';
import { header, type Answer, type ServiceRequest } from './message';

const DOMAIN = { id: 'default', name: 'Default' };
const PLAIN_401 = 'The request you have made requires authentication.';

export type UserName = 'admin' | 'demo' | 'reader';

export type ProjectName = 'admin' | 'demo';

/** The project that a user works in. */
export const PROJECT_OF: Readonly<Record<UserName, ProjectName>> = { admin: 'admin', demo: 'demo', reader: 'demo' };

interface User {
  id: string;
  name: string;
  password: string;
  /** Role names by project name. */
  roles: Record<string, string[]>;
}

interface Project {
  id: string;
  name: string;
}

interface ApplicationCredential {
  id: string;
  name: string;
  secret: string;
  user: User;
  project: Project;
  /** Null: none, it may do all that its roles may. */
  accessRules: AccessRule[] | null;
}

/** What an application credential is confined to; in `path`, `*` is one segment and `**` any number of them. */
export interface AccessRule {
  /** A service's type in the catalog. */
  service: string;
  method: string;
  path: string;
}

export interface Token {
  id: string;
  user: User;
  project: Project | null;
  roles: string[];
  accessRules: AccessRule[] | null;
  /** Milliseconds since the epoch. */
  expiresAt: number;
  body: object;
}

class IdentityFault extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    message: string,
    readonly extra: object = {},
  ) {
    super(message);
  }
}

const unauthorized = (message = PLAIN_401, extra: object = {}) =>
  new IdentityFault(401, 'Unauthorized', message, extra);
const badRequest = (message: string) =>
  new IdentityFault(
    400,
    'Bad Request',
    `${message} The server could not comply with the request since it is either malformed or otherwise incorrect. ` +
      'The client is assumed to be in error.',
  );

const hexId = () => randomUUID().replaceAll('-', '');

export interface CatalogEntry {
  type: string;
  name: string;
  url: string;
}

export class Identity {
  readonly projects: Record<ProjectName, Project> = {
    admin: { id: hexId(), name: 'admin' },
    demo: { id: hexId(), name: 'demo' },
  };
  private readonly users: Record<UserName, User>;
  private readonly roleIds: Record<string, string> = { admin: hexId(), member: hexId(), reader: hexId() };
  private readonly services: { id: string; type: string; name: string; url: string; endpoints: object[] }[] = [];
  private readonly tokens = new Map<string, Token>();
  private readonly credentials = new Map<string, ApplicationCredential>();

  constructor(
    private readonly clock: () => number,
    private readonly tokenMs: number,
    password: string,
  ) {
    const all = ['admin', 'member', 'reader'];
    this.users = {
      admin: { id: hexId(), name: 'admin', password, roles: { admin: all, demo: all } },
      demo: { id: hexId(), name: 'demo', password, roles: { demo: ['member', 'reader'] } },
      reader: { id: hexId(), name: 'reader', password, roles: { demo: ['reader'] } },
    };
  }

  /** Where this service and the others are; known once the listener has its port. */
  publish(entries: CatalogEntry[]): void {
    this.services.length = 0;
    for (const entry of entries) {
      const endpoints = ['public', 'internal', 'admin'].map((side) => ({
        id: hexId(),
        interface: side,
        region_id: 'RegionOne',
        region: 'RegionOne',
        url: entry.url,
      }));
      this.services.push({ id: hexId(), ...entry, endpoints });
    }
  }

  private get url(): string {
    return this.services.find((service) => service.type === 'identity')?.url ?? '';
  }

  /** The token of a request to another service, when it is good. */
  validate(id: string | undefined): Token | undefined {
    const token = id === undefined ? undefined : this.tokens.get(id);
    return token !== undefined && token.expiresAt > this.clock() ? token : undefined;
  }

  /** As keystonemiddleware judges it where a service's `service_type` is set: a request that no rule allows is 401. */
  allows({ accessRules }: Token, service: string, method: string, path: string): boolean {
    return (
      accessRules === null ||
      accessRules.some(
        (rule) => rule.service === service && rule.method === method && pathPattern(rule.path).test(path),
      )
    );
  }

  expireTokens(): void {
    for (const token of this.tokens.values()) token.expiresAt = 0;
  }

  revokeTokens(): void {
    this.tokens.clear();
  }

  setPassword(user: UserName, password: string): void {
    this.users[user].password = password;
  }

  password(user: UserName): string {
    return this.users[user].password;
  }

  userId(user: UserName): string {
    return this.users[user].id;
  }

  createApplicationCredential(
    userName: UserName,
    name: string,
    accessRules: AccessRule[] | null = null,
  ): { id: string; name: string; secret: string } {
    const credential = {
      id: hexId(),
      name,
      secret: randomBytes(48).toString('base64url'),
      user: this.users[userName],
      project: this.projects[PROJECT_OF[userName]],
      accessRules,
    };
    this.credentials.set(credential.id, credential);
    return { id: credential.id, name, secret: credential.secret };
  }

  handle(request: ServiceRequest): Answer {
    const headers = { Vary: 'X-Auth-Token', 'x-openstack-request-id': `req-${randomUUID()}` };
    try {
      const answer = this.route(request);
      return { ...answer, headers: { ...headers, ...answer.headers } };
    } catch (error) {
      if (!(error instanceof IdentityFault)) throw error;
      const body = { error: { code: error.status, ...error.extra, message: error.message, title: error.title } };
      const challenge: Record<string, string> =
        error.status === 401 ? { 'WWW-Authenticate': `Keystone uri="${this.url}"` } : {};
      return { status: error.status, headers: { ...headers, ...challenge }, body };
    }
  }

  private route(request: ServiceRequest): Answer {
    const path = request.segments.join('/');
    if (path === '')
      return { status: 300, headers: { Location: `${this.url}/` }, body: { versions: { values: [this.version()] } } };
    if (path === 'v3') return { status: 200, body: { version: this.version() } };
    switch (`${request.method} ${path}`) {
      case 'POST v3/auth/tokens':
        return this.login(request);
      case 'GET v3/auth/tokens':
        return {
          status: 200,
          headers: { 'X-Subject-Token': this.subject(request).id },
          body: { token: this.subject(request).body },
        };
      case 'HEAD v3/auth/tokens':
        this.subject(request);
        return { status: 200 };
      case 'DELETE v3/auth/tokens':
        this.tokens.delete(this.subject(request).id);
        return { status: 204 };
      case 'GET v3/auth/catalog':
        this.caller(request);
        return { status: 200, body: { catalog: this.catalog() } };
      case 'GET v3/auth/projects':
        return { status: 200, body: { projects: this.projectsOf(this.caller(request).user) } };
    }
    if (request.segments[3] === 'application_credentials') return this.applicationCredentials(request);
    throw new IdentityFault(404, 'Not Found', 'The resource could not be found.');
  }

  private version(): object {
    return {
      id: 'v3.14',
      status: 'stable',
      updated: '2020-04-07T00:00:00Z',
      links: [{ rel: 'self', href: `${this.url}/` }],
      'media-types': [{ base: 'application/json', type: 'application/vnd.openstack.identity-v3+json' }],
    };
  }

  private caller(request: ServiceRequest): Token {
    const token = this.validate(header(request, 'x-auth-token'));
    if (token === undefined) throw unauthorized();
    return token;
  }

  private subject(request: ServiceRequest): Token {
    this.caller(request);
    const token = this.validate(header(request, 'x-subject-token'));
    if (token === undefined) throw new IdentityFault(404, 'Not Found', 'Failed to validate token');
    return token;
  }

  private projectsOf(user: User): object[] {
    return Object.values(this.projects)
      .filter((project) => user.roles[project.name] !== undefined)
      .map((project) => ({ ...project, domain_id: DOMAIN.id, enabled: true, is_domain: false, parent_id: DOMAIN.id }));
  }

  private applicationCredentials(request: ServiceRequest): Answer {
    const token = this.caller(request);
    const [, , userId, , id] = request.segments;
    if (userId !== token.user.id || token.project === null) {
      throw new IdentityFault(403, 'Forbidden', 'You are not authorized to perform the requested action.');
    }
    if (request.method === 'DELETE') {
      this.credentials.delete(id ?? '');
      return { status: 204 };
    }
    const wanted = parse(request.body)['application_credential'] as
      { name?: string; access_rules?: AccessRule[] } | undefined;
    const made = this.createApplicationCredential(
      token.user.name as UserName,
      wanted?.name ?? 'unnamed',
      wanted?.access_rules,
    );
    const body = {
      ...made,
      project_id: token.project.id,
      unrestricted: false,
      expires_at: null,
      description: null,
      roles: this.roles(token.roles),
    };
    return { status: 201, body: { application_credential: body } };
  }

  private login(request: ServiceRequest): Answer {
    const auth = parse(request.body)['auth'] as Auth | undefined;
    if (auth === undefined) throw badRequest('Expecting to find auth in request body.');
    if (auth.identity === undefined) throw badRequest("'identity' is a required property");
    const method = auth.identity.methods?.[0];
    switch (method) {
      case 'password': {
        const user = this.userBy(auth.identity.password?.user);
        if (user === undefined || auth.identity.password?.user?.password !== user.password) throw unauthorized();
        return this.issue([method], user, this.scope(auth, user));
      }
      case 'application_credential':
        return this.byApplicationCredential(auth);
      case 'token': {
        const old = this.validate(auth.identity.token?.id);
        if (old === undefined) throw new IdentityFault(404, 'Not Found', 'Could not recognize Fernet token');
        return this.issue([method, 'password'], old.user, this.scope(auth, old.user), {}, old.expiresAt);
      }
      default:
        throw unauthorized(`Attempted to authenticate with an unsupported method.`, {
          identity: { methods: ['password', 'token', 'application_credential'] },
        });
    }
  }

  private byApplicationCredential(auth: Auth): Answer {
    const wanted = auth.identity?.application_credential;
    const credential = [...this.credentials.values()].find((one) =>
      wanted?.id !== undefined
        ? one.id === wanted.id
        : one.name === wanted?.name && one.user === this.userBy(wanted?.user),
    );
    if (credential === undefined) {
      throw new IdentityFault(
        404,
        'Not Found',
        `Could not find Application Credential: ${wanted?.id ?? wanted?.name ?? ''}.`,
      );
    }
    if (credential.secret !== wanted?.secret) throw unauthorized();
    if (auth.scope !== undefined) {
      throw unauthorized(
        'Error authenticating with application credential: Application credentials cannot request a scope.',
        { identity: {} },
      );
    }
    const about = { application_credential: { id: credential.id, name: credential.name, restricted: true } };
    const { user, project, accessRules } = credential;
    return this.issue(['application_credential'], user, project, about, undefined, accessRules);
  }

  private userBy(wanted: { id?: string; name?: string; domain?: Domain } | undefined): User | undefined {
    if (wanted?.id !== undefined) return Object.values(this.users).find((user) => user.id === wanted.id);
    if (!isDefaultDomain(wanted?.domain)) return undefined;
    return Object.values(this.users).find((user) => user.name === wanted?.name);
  }

  private scope(auth: Auth, user: User): Project | null {
    const wanted = typeof auth.scope === 'object' ? auth.scope.project : undefined;
    if (wanted === undefined) return null;
    const project = Object.values(this.projects).find((one) =>
      wanted.id !== undefined ? one.id === wanted.id : one.name === wanted.name && isDefaultDomain(wanted.domain),
    );
    if (project === undefined || user.roles[project.name] === undefined) throw unauthorized();
    return project;
  }

  private issue(
    methods: string[],
    user: User,
    project: Project | null,
    about: object = {},
    until?: number,
    accessRules: AccessRule[] | null = null,
  ): Answer {
    const now = this.clock();
    const expiresAt = until ?? now + this.tokenMs;
    const roles = project === null ? [] : (user.roles[project.name] ?? []);
    const scoped =
      project === null
        ? {}
        : {
            project: { domain: DOMAIN, ...project },
            is_domain: false,
            roles: this.roles(roles),
            catalog: this.catalog(),
          };
    const body = {
      methods,
      user: { domain: DOMAIN, id: user.id, name: user.name, password_expires_at: null },
      audit_ids: [randomBytes(16).toString('base64url')],
      expires_at: isoMicroseconds(expiresAt),
      issued_at: isoMicroseconds(now),
      ...scoped,
      ...about,
    };
    const token: Token = {
      id: `gAAAAAB${randomBytes(132).toString('base64url')}`,
      user,
      project,
      roles,
      accessRules,
      expiresAt,
      body,
    };
    if (this.tokens.size > 10_000) this.forgetExpired(now);
    this.tokens.set(token.id, token);
    return { status: 201, headers: { 'X-Subject-Token': token.id }, body: { token: body } };
  }

  private forgetExpired(now: number): void {
    for (const [id, token] of this.tokens) if (token.expiresAt <= now) this.tokens.delete(id);
  }

  private roles(names: string[]): object[] {
    return names.map((name) => ({ id: this.roleIds[name], name }));
  }

  /** Endpoints in no order, as a real Keystone gives them. */
  private catalog(): object[] {
    return this.services.map(({ id, type, name, endpoints }) => ({ endpoints: shuffled(endpoints), id, type, name }));
  }
}

interface Domain {
  id?: string;
  name?: string;
}

interface Auth {
  identity?: {
    methods?: string[];
    password?: { user?: { id?: string; name?: string; domain?: Domain; password?: string } };
    token?: { id?: string };
    application_credential?: {
      id?: string;
      name?: string;
      secret?: string;
      user?: { id?: string; name?: string; domain?: Domain };
    };
  };
  scope?: 'unscoped' | { project?: { id?: string; name?: string; domain?: Domain } };
}

function isDefaultDomain(domain: Domain | undefined): boolean {
  return domain?.id === DOMAIN.id || domain?.name === DOMAIN.name;
}

function parse(body: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(body);
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>;
  } catch {
    // answered below
  }
  throw badRequest('Expecting to find valid JSON in request body.');
}

/** `*` and `{name}` stand for one segment, `**` for anything. */
function pathPattern(path: string): RegExp {
  const parts = path.split(/(\{[^}]*\}|\*\*|\*)/);
  const literal = (text: string) => text.replace(/[\^$.*+?()[\]{}|]/g, '\\$&');
  const pattern = parts.map((part) => (part === '**' ? '.*' : /^(\*|\{)/.test(part) ? '[^/]+' : literal(part)));
  return new RegExp(`^${pattern.join('')}$`);
}

/** Keystone's times: '2026-11-30T20:55:52.000000Z', whole seconds. */
function isoMicroseconds(at: number): string {
  return new Date(at).toISOString().slice(0, 19) + '.000000Z';
}

function shuffled<T>(items: readonly T[]): T[] {
  const left = [...items];
  const out: T[] = [];
  while (left.length > 0) out.push(...left.splice(Math.floor(Math.random() * left.length), 1));
  return out;
}
