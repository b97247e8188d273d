/**
 * The cloud that the contract tests talk to: a simulated one, or with `npm run test:openstack` the one that `OS_*`
 * names. Optional there: a second user, an ordinary member of a project (`OS_TEST_USERNAME`, `OS_TEST_PASSWORD`,
 * `OS_TEST_PROJECT_NAME`; tried by default: demo in demo with the first one's password, as DevStack has it), and
 * `OS_TEST_FLAVOR` and `OS_TEST_IMAGE`, by name or id. What a cloud can't do is printed as skipped.
 */
import { randomBytes } from 'node:crypto';
import { Agent } from 'node:http';
import axios, { type AxiosInstance } from 'axios';
import { SimulatedCloud, type SimulatedCloudOptions } from '../../src/simulator';

declare const CLOUD_FROM_ENVIRONMENT: boolean | undefined;

/** The cloud is the one of `OS_*`, not a simulated one. */
export const IS_REAL = typeof CLOUD_FROM_ENVIRONMENT !== 'undefined';

/** An answer as it came. */
export interface Answer {
  status: number;
  headers: Record<string, string | undefined>;
  /** Parsed where it was JSON. */
  body: any; // eslint-disable-line @typescript-eslint/no-explicit-any
  text: string;
}

/** One look at a server: `404` when it is gone. */
export interface Look {
  status: string;
  vmState: string | null;
  taskState: string | null;
  powerState: number | null;
  host: string | null | undefined;
}

export const GONE: Look = { status: '404', vmState: null, taskState: null, powerState: null, host: undefined };

/** The microversion of a test that doesn't say another. */
const VERSION = '2.90';

const AUTH_BODY = (user: Login) => ({
  auth: {
    identity: {
      methods: ['password'],
      password: { user: { name: user.name, domain: { name: user.userDomain }, password: user.password } },
    },
    scope: { project: { name: user.project, domain: { name: user.projectDomain } } },
  },
});

export interface Login {
  name: string;
  password: string;
  project: string;
  userDomain: string;
  projectDomain: string;
}

/** What a caller of the API has: a token, and where the services are. */
export class Session {
  private constructor(
    private readonly http: AxiosInstance,
    readonly login: Login,
    public token: string,
    readonly body: any, // eslint-disable-line @typescript-eslint/no-explicit-any
  ) {}

  static async open(http: AxiosInstance, authUrl: string, login: Login): Promise<Session> {
    const answer = await http.post(`${authUrl}/auth/tokens`, JSON.stringify(AUTH_BODY(login)), {
      headers: { 'Content-Type': 'application/json' },
    });
    if (answer.status !== 201) throw new Error(`${login.name} can't log in at ${authUrl}: HTTP ${answer.status}`);
    return new Session(http, login, String(answer.headers['x-subject-token']), JSON.parse(answer.data as string).token);
  }

  get userId(): string {
    return this.body.user.id as string;
  }

  get projectId(): string {
    return this.body.project.id as string;
  }

  get isAdmin(): boolean {
    return (this.body.roles as { name: string }[]).some((role) => role.name === 'admin');
  }

  service(type: string): string {
    const { endpoints } = (
      this.body.catalog as { type: string; endpoints: { interface: string; url: string }[] }[]
    ).find((entry) => entry.type === type)!;
    return endpoints.find((endpoint) => endpoint.interface === 'public')!.url.replace(/\/$/, '');
  }

  /** A request to Nova. `version: null` sends no microversion. */
  async nova(
    method: string,
    path: string,
    body?: unknown,
    { version = VERSION, headers = {} }: { version?: string | null; headers?: Record<string, string> } = {},
  ): Promise<Answer> {
    return this.request(method, this.service('compute') + path, body, {
      ...(version === null ? {} : { 'OpenStack-API-Version': `compute ${version}` }),
      ...headers,
    });
  }

  async request(method: string, url: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    const answer = await this.http.request({
      method,
      url,
      data: body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body),
      headers: {
        'X-Auth-Token': this.token,
        'Content-Type': 'application/json',
        Accept: 'application/json',
        ...headers,
      },
    });
    return toAnswer(answer);
  }

  async act(id: string, action: object): Promise<Answer> {
    return this.nova('POST', `/servers/${id}/action`, action);
  }

  async look(id: string): Promise<Look> {
    const { status, body } = await this.nova('GET', `/servers/${id}`);
    if (status === 404) return GONE;
    if (status !== 200) throw new Error(`GET of server ${id}: HTTP ${status}`);
    const { server } = body;
    return {
      status: server.status,
      vmState: server['OS-EXT-STS:vm_state'],
      taskState: server['OS-EXT-STS:task_state'],
      powerState: server['OS-EXT-STS:power_state'],
      host: server['OS-EXT-SRV-ATTR:host'],
    };
  }

  /** Newest first, as Nova lists them. */
  async actions(
    id: string,
  ): Promise<{ action: string; message: string | null; user_id: string | null; request_id: string }[]> {
    return (await this.nova('GET', `/servers/${id}/os-instance-actions`)).body.instanceActions;
  }
}

function toAnswer(answer: { status: number; headers: unknown; data: unknown }): Answer {
  const text = String(answer.data ?? '');
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    body = text;
  }
  return { status: answer.status, headers: answer.headers as Record<string, string | undefined>, body, text };
}

/** One or two callers of one cloud, and the servers that a test file makes there. */
export class CloudUnderTest {
  /** Every server made here carries it as a tag. */
  readonly runTag = `contract-${randomBytes(6).toString('hex')}`;
  /** What the simulator can do besides; undefined on a real cloud. */
  readonly simulated: SimulatedCloud | undefined;
  private anchor: Promise<boolean> | undefined;
  private readonly loose: string[] = [];
  private count = 0;

  private constructor(
    readonly http: AxiosInstance,
    readonly authUrl: string,
    /** An ordinary member where there is one, else the administrator. */
    readonly owner: Session,
    readonly admin: Session | undefined,
    readonly flavor: { id: string; name: string },
    readonly otherFlavor: { id: string; name: string } | undefined,
    readonly impossibleFlavor: { id: string } | undefined,
    readonly imageId: string,
    simulated: SimulatedCloud | undefined,
  ) {
    this.simulated = simulated;
  }

  /** @param options of the simulated cloud, where it is one */
  static async open(options: SimulatedCloudOptions = {}): Promise<CloudUnderTest> {
    const simulated = IS_REAL
      ? undefined
      : await SimulatedCloud.start({ buildSeconds: 0.2, actionSeconds: 0.15, ...options });
    const settings = simulated === undefined ? process.env : { ...simulated.env('admin'), OS_TEST_USERNAME: 'demo' };
    const authUrl = setting(settings, 'OS_AUTH_URL').replace(/\/(v3\/?)?$/, '/v3');
    const http = axios.create({
      timeout: 60_000,
      validateStatus: () => true,
      responseType: 'text',
      transformRequest: (data: unknown) => data,
      transformResponse: (data: string) => data,
      proxy: false,
      httpAgent: new Agent({ keepAlive: true }),
    });
    const first = await Session.open(http, authUrl, loginOf(settings));
    const second = first.isAdmin ? await secondUser(http, authUrl, settings) : undefined;
    const flavors = (await first.nova('GET', '/flavors/detail')).body.flavors as FlavorView[];
    const byName = (wanted: string | undefined) => flavors.find((one) => one.id === wanted || one.name === wanted);
    const possible = flavors.filter((one) => one.disk < 100_000).sort((a, b) => a.ram - b.ram);
    const flavor = byName(settings['OS_TEST_FLAVOR']) ?? possible[0];
    const images = (await first.request('GET', `${first.service('image')}/v2/images`)).body.images as ImageView[];
    const wantedImage = settings['OS_TEST_IMAGE'];
    const image = images.find((one) =>
      wantedImage === undefined ? one.status === 'active' : one.id === wantedImage || one.name === wantedImage,
    );
    if (flavor === undefined || image === undefined)
      throw new Error('the cloud has no flavor or no image to boot from');
    const other = possible.find((one) => one.id !== flavor.id && one.disk >= flavor.disk);
    const impossible = flavors.find((one) => one.disk >= 100_000);
    const admin = first.isAdmin ? first : undefined;
    return new CloudUnderTest(http, authUrl, second ?? first, admin, flavor, other, impossible, image.id, simulated);
  }

  /** Deletes the servers that tests made since the last time, without waiting: for `afterEach`. */
  async sweep(): Promise<void> {
    for (const id of this.loose.splice(0)) await (this.admin ?? this.owner).act(id, { forceDelete: null });
  }

  /** Exempts a server from `sweep`. */
  keep(id: string): string {
    this.loose.splice(this.loose.indexOf(id), 1);
    return id;
  }

  /** Deletes all that was made here, and waits until it is gone. */
  async close(): Promise<void> {
    const made = async () =>
      (await this.owner.nova('GET', `/servers?tags=${this.runTag}`)).body.servers as { id: string }[];
    for (const { id } of await made()) await (this.admin ?? this.owner).act(id, { forceDelete: null });
    await until('all servers of the test are deleted', async () => ((await made()).length === 0 ? true : undefined));
    await this.deleteSnapshots();
    await this.simulated?.stop();
  }

  /** Shelving makes an image, which outlives a server whose state was reset. */
  private async deleteSnapshots(): Promise<void> {
    const url = `${this.owner.service('image')}/v2/images`;
    const { images } = (await this.owner.request('GET', `${url}?visibility=private&limit=1000`)).body as {
      images: ImageView[];
    };
    for (const { id } of images.filter((image) => image.name?.startsWith(this.runTag))) {
      await this.owner.request('DELETE', `${url}/${id}`);
    }
  }

  /** `OS_*` settings with which the product's own client logs in as one of them. */
  environment({ login }: Session = this.owner): NodeJS.ProcessEnv {
    return {
      ...(this.simulated?.env() ?? process.env),
      OS_USERNAME: login.name,
      OS_PASSWORD: login.password,
      OS_PROJECT_NAME: login.project,
      OS_USER_DOMAIN_NAME: login.userDomain,
      OS_PROJECT_DOMAIN_NAME: login.projectDomain,
    };
  }

  /** A `server` for POST /servers, tagged as ours. */
  request(more: Record<string, unknown> & { tags?: string[] } = {}): Record<string, unknown> {
    return {
      name: `${this.runTag}-${++this.count}`,
      flavorRef: this.flavor.id,
      imageRef: this.imageId,
      networks: 'none',
      ...more,
      tags: [this.runTag, ...(more.tags ?? [])],
    };
  }

  /** POSTs a server and doesn't wait. */
  async create(more: Record<string, unknown> & { tags?: string[] } = {}): Promise<string> {
    const { status, body, text } = await this.owner.nova('POST', '/servers', { server: this.request(more) });
    if (status !== 202) throw new Error(`POST /servers: HTTP ${status} ${text}`);
    const { id } = body.server as { id: string };
    this.loose.push(id);
    return id;
  }

  /** A server that is ACTIVE. */
  async active(more: Record<string, unknown> & { tags?: string[] } = {}): Promise<string> {
    const id = await this.create(more);
    await this.settled(id, 'ACTIVE');
    return id;
  }

  /** Waits until no task runs (and the status is the wanted one). */
  async settled(id: string, status?: string, seconds = 60): Promise<Look> {
    let last: Look | undefined;
    return until(
      () => `server ${id} is ${status ?? 'settled'}; it is ${JSON.stringify(last)}`,
      async () => {
        last = await this.owner.look(id);
        const done =
          last.taskState === null && last.status !== 'BUILD' && (status === undefined || last.status === status);
        return done ? last : undefined;
      },
      seconds,
    );
  }

  /** Every distinct look at it from now on, in the order seen, until one fits. */
  async watch(id: string, fits: (look: Look) => boolean, seconds = 60): Promise<Look[]> {
    const seen: Look[] = [];
    const viewer = this.admin ?? this.owner;
    await until(
      () => `server ${id} gets there; seen ${JSON.stringify(seen)}`,
      async () => {
        const look = await viewer.look(id);
        if (JSON.stringify(look) !== JSON.stringify(seen.at(-1))) seen.push(look);
        return fits(look) ? look : undefined;
      },
      seconds,
      5,
    );
    return seen;
  }

  /** Acts, expects it accepted, and waits for the status. */
  async take(id: string, action: object, status: string, as: Session = this.owner): Promise<Look> {
    const answer = await as.act(id, action);
    if (answer.status >= 300) throw new Error(`${JSON.stringify(action)}: HTTP ${answer.status} ${answer.text}`);
    return this.settled(id, status);
  }

  /** False, said aloud, where there is no administrator and no ordinary user beside. */
  hasTwoUsers(): boolean {
    if (this.admin !== undefined && this.owner !== this.admin) return true;
    return skipped('needs an administrator (OS_*) and an ordinary user (OS_TEST_USERNAME, ...)');
  }

  hasAdmin(): boolean {
    return this.admin !== undefined || skipped('needs an administrator');
  }

  /** Whether its hypervisor obeys the metadata keys `anchor_...`: found out by a build that shall abort. */
  async hasAnchorDriver(): Promise<boolean> {
    this.anchor ??= (async () => {
      const id = await this.create({ metadata: { anchor_spawn: 'abort' } });
      return (await this.settled(id)).status === 'ERROR';
    })();
    return (await this.anchor) || skipped('its hypervisor does not read `anchor_...` from metadata');
  }
}

interface FlavorView {
  id: string;
  name: string;
  ram: number;
  disk: number;
}

interface ImageView {
  id: string;
  status: string;
  name: string;
}

/** Says in the test's output what it can't do here, and why. */
export function skipped(why: string): false {
  console.log(`skipped: ${expect.getState().currentTestName ?? 'a test'}: ${why}`);
  return false;
}

/** Waits until `look` gives something. */
export async function until<T>(
  what: string | (() => string),
  look: () => Promise<T | undefined>,
  seconds = 60,
  everyMs = 20,
): Promise<T> {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (Date.now() > end) throw new Error(`waited ${seconds} s until ${typeof what === 'string' ? what : what()}`);
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}

function loginOf(settings: NodeJS.ProcessEnv): Login {
  return {
    name: setting(settings, 'OS_USERNAME'),
    password: setting(settings, 'OS_PASSWORD'),
    project: setting(settings, 'OS_PROJECT_NAME'),
    userDomain: settings['OS_USER_DOMAIN_NAME'] ?? 'Default',
    projectDomain: settings['OS_PROJECT_DOMAIN_NAME'] ?? 'Default',
  };
}

async function secondUser(
  http: AxiosInstance,
  authUrl: string,
  settings: NodeJS.ProcessEnv,
): Promise<Session | undefined> {
  const login = {
    ...loginOf(settings),
    name: settings['OS_TEST_USERNAME'] ?? 'demo',
    password: settings['OS_TEST_PASSWORD'] ?? setting(settings, 'OS_PASSWORD'),
    project: settings['OS_TEST_PROJECT_NAME'] ?? 'demo',
  };
  try {
    const session = await Session.open(http, authUrl, login);
    return session.isAdmin ? undefined : session;
  } catch (error) {
    if (settings['OS_TEST_USERNAME'] !== undefined) throw error;
    return undefined;
  }
}

function setting(settings: NodeJS.ProcessEnv, name: string): string {
  const value = settings[name];
  if (value === undefined || value === '') {
    throw new Error(`npm run test:openstack needs a cloud in the environment: ${name} is not set`);
  }
  return value;
}
