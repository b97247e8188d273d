/**
 * Who may what, as `docs/permissions.md` has it: a reader and a member of one project, and an administrator of another.
 * On a real cloud the reader is made in Keystone and deleted again. What a deployment's policy.yaml changes is tried
 * where `OS_TEST_NOVA_POLICY_FILE` names the one that its Nova reads, to be written here and put back afterwards.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import {
  startCreateServer,
  startRecoverInstance,
  type CreateServerInput,
  type RecoverInstanceInput,
  type RecoverInstanceResult,
} from '../../src/client';
import type { AccessRule, PolicyOverrides } from '../../src/simulator';
import { failureOf } from '../support/bed';
import { endService, startService, type Service } from '../support/service';
import { connect, type TestTemporal } from '../support/temporal';
import { CloudUnderTest, IS_REAL, Session, skipped, until, type Answer } from './cloud-under-test';

/** A worker whose requests to the cloud are one user's. */
type Role = 'reader' | 'member' | 'admin';

const ROLES: readonly Role[] = ['reader', 'member', 'admin'];

// ---- what the documentation says

/** The page's table of calls: rule, and the least role that has it by Nova's defaults. */
function documented(): Map<string, string> {
  const page = readFileSync(path.join(__dirname, '../../docs/permissions.md'), 'utf8');
  const rows = [...page.matchAll(/^\|[^|]*\|[^|]*\| `([\w:-]+)` \| (reader|member|admin) \|/gm)];
  return new Map(rows.map(([, rule = '', role = '']) => [rule, role]));
}

/** The access rules that the page says are enough. */
function documentedAccessRules(): AccessRule[] {
  const page = readFileSync(path.join(__dirname, '../../docs/permissions.md'), 'utf8');
  return JSON.parse(/```json\n(\[[^`]*\])\n```/.exec(page)![1]!) as AccessRule[];
}

/** One request for each of the rules, to a server of the project. */
const REQUESTS: Record<string, (as: Session, id: string) => Promise<Answer>> = {
  'os_compute_api:servers:show': (as, id) => as.nova('GET', `/servers/${id}`),
  'os_compute_api:servers:detail': (as) => as.nova('GET', `/servers/detail?tags=${cloud.runTag}`),
  'os_compute_api:os-instance-actions:list': (as, id) => as.nova('GET', `/servers/${id}/os-instance-actions`),
  'os_compute_api:servers:create': (as) => as.nova('POST', '/servers', { server: cloud.request() }),
  'os_compute_api:servers:create:attach_network': (as) =>
    as.nova('POST', '/servers', { server: cloud.request({ networks: [{ uuid: NO_NETWORK }] }) }),
  'os_compute_api:servers:create:attach_volume': (as) =>
    as.nova('POST', '/servers', {
      server: cloud.request({ imageRef: undefined, block_device_mapping_v2: [NO_VOLUME] }),
    }),
  'os_compute_api:servers:create:forced_host': (as) =>
    as.nova('POST', '/servers', { server: cloud.request({ availability_zone: `nova:${host}` }) }),
  'compute:servers:create:requested_destination': (as) =>
    as.nova('POST', '/servers', { server: cloud.request({ host }) }),
  'os_compute_api:servers:stop': (as, id) => as.act(id, { 'os-stop': null }),
  'os_compute_api:servers:start': (as, id) => as.act(id, { 'os-start': null }),
  'os_compute_api:servers:reboot': (as, id) => as.act(id, { reboot: { type: 'HARD' } }),
  'os_compute_api:os-pause-server:pause': (as, id) => as.act(id, { pause: null }),
  'os_compute_api:os-rescue': (as, id) => as.act(id, { rescue: {} }),
  'os_compute_api:os-unrescue': (as, id) => as.act(id, { unrescue: null }),
  'os_compute_api:servers:confirm_resize': (as, id) => as.act(id, { confirmResize: null }),
  'os_compute_api:servers:revert_resize': (as, id) => as.act(id, { revertResize: null }),
  'os_compute_api:os-admin-actions:reset_state': (as, id) => as.act(id, { 'os-resetState': { state: 'active' } }),
  'os_compute_api:servers:delete': (as, id) => as.nova('DELETE', `/servers/${id}`),
};

const NO_NETWORK = '00000000-0000-4000-8000-000000000000';
const NO_VOLUME = { uuid: NO_NETWORK, source_type: 'volume', destination_type: 'volume', boot_index: 0 };

// ---- the users

let cloud: CloudUnderTest;
let temporal: TestTemporal;
let users: Record<Role, Session>;
let services: Record<Role, Service>;
let forgetReader = async (): Promise<void> => undefined;
/** The role reader may only read: Nova's default from 27 (2023.1) on, and before by `enforce_new_defaults`. */
let readerOnlyReads: boolean;
/** The name of a host, which only an administrator gets to know. */
let host: string;
let shutdown: AbortController;

function service(environment: NodeJS.ProcessEnv): Promise<Service> {
  return startService(temporal, environment, shutdown.signal);
}

/** A user who has the role reader alone, in the owner's project. */
async function makeReader(admin: Session, owner: Session): Promise<Session> {
  const { login } = owner;
  if (cloud.simulated !== undefined) return Session.open(cloud.http, cloud.authUrl, { ...login, name: 'reader' });
  const keystone = async (method: string, resource: string, body?: object) => {
    const answer = await admin.request(method, `${cloud.authUrl}/${resource}`, body);
    if (answer.status >= 300) throw new Error(`${method} ${resource}: HTTP ${answer.status} ${answer.text}`);
    return answer.body as { user: { id: string }; roles: { id: string }[] };
  };
  const name = `${cloud.runTag}-reader`;
  const password = `${cloud.runTag}-password`;
  const domain_id = (owner.body as { user: { domain: { id: string } } }).user.domain.id;
  const { user } = await keystone('POST', 'users', { user: { name, password, domain_id } });
  forgetReader = async () => void (await keystone('DELETE', `users/${user.id}`));
  const { roles } = await keystone('GET', 'roles?name=reader');
  await keystone('PUT', `projects/${owner.projectId}/users/${user.id}/roles/${roles[0]?.id}`);
  return Session.open(cloud.http, cloud.authUrl, { ...login, name, password });
}

const DEFAULTS = IS_REAL
  ? [{ defaults: 'the cloud’s own defaults', enforceNewDefaults: false }]
  : [
      { defaults: 'the old defaults (Nova 26)', enforceNewDefaults: false },
      { defaults: 'the new defaults (from Nova 27 on)', enforceNewDefaults: true },
    ];

describe.each(DEFAULTS)('with $defaults', ({ enforceNewDefaults }) => {
  beforeAll(async () => {
    shutdown = new AbortController();
    cloud = await CloudUnderTest.open({ enforceNewDefaults });
    temporal = await connect();
    const { admin, owner } = cloud;
    if (admin === undefined || owner === admin)
      throw new Error('needs an administrator and a member beside: OS_TEST_*');
    users = { reader: await makeReader(admin, owner), member: owner, admin };
    services = {} as Record<Role, Service>;
    for (const role of ROLES) services[role] = await service(cloud.environment(users[role]));
    const id = await cloud.active();
    host = (await admin.look(id)).host!;
    readerOnlyReads = (await users.reader.act(id, { 'os-start': null })).status === 403;
    if (!IS_REAL) expect(readerOnlyReads).toBe(enforceNewDefaults);
    else console.log(`readers ${readerOnlyReads ? 'may only read' : 'may do what members may'}`);
  });
  afterEach(() => cloud.sweep());
  afterAll(async () => {
    shutdown.abort();
    for (const one of Object.values(services ?? {})) await endService(one);
    await temporal?.close();
    await forgetReader();
    await cloud?.close();
  });

  const mayChange = (role: Role): boolean => role !== 'reader' || !readerOnlyReads;

  // ---- single requests

  test('the page names every rule that is tried here, and no other', () => {
    expect([...documented().keys()].sort()).toEqual(Object.keys(REQUESTS).sort());
  });

  test.each(ROLES)('Nova lets the role %s do what the page says', async (role) => {
    if (!cloud.hasTwoUsers()) return;
    const id = await cloud.active();
    const needed = documented();
    for (const [rule, send] of Object.entries(REQUESTS)) {
      const { status, body } = await send(users[role], id);
      const made = (body as { server?: { id?: string } }).server?.id;
      if (made !== undefined && made !== id) await users.admin.act(made, { forceDelete: null });
      const least = needed.get(rule);
      const isAllowed = least === 'reader' || role === 'admin' || (least === 'member' && mayChange(role));
      // A reader is not even let as far as what only some creations ask for.
      const named = rule.includes('servers:create') && !mayChange(role) ? 'os_compute_api:servers:create' : rule;
      const forbidden = { code: 403, message: `Policy doesn't allow ${named} to be performed.` };
      expect([rule, status === 403 ? body : 'allowed']).toEqual([rule, isAllowed ? 'allowed' : { forbidden }]);
    }
  });

  test('the host is shown to an administrator alone, who did what to everyone', async () => {
    if (!cloud.hasTwoUsers()) return;
    const id = await cloud.active();
    for (const role of ROLES) {
      expect([role, (await users[role].look(id)).host]).toEqual([
        role,
        role === 'admin' ? expect.any(String) : undefined,
      ]);
      expect((await users[role].actions(id))[0]?.user_id).toBe(users.member.userId);
    }
  });

  // ---- creation

  let count = 0;

  function create(role: Role | Service, server: Record<string, unknown> = {}) {
    const { taskQueue } = typeof role === 'string' ? services[role] : role;
    return startCreateServer(
      temporal.client,
      { server: cloud.request(server) as unknown as CreateServerInput['server'], onFailure: 'delete' },
      { workflowId: `${cloud.runTag}-${enforceNewDefaults}-create-${++count}`, taskQueue },
    );
  }

  test.each(ROLES)('a creation as %s', async (role) => {
    if (!cloud.hasTwoUsers()) return;
    const handle = await create(role);
    if (mayChange(role)) {
      const { serverId, host: shown } = await handle.result();
      const { status, body } = await users[role].nova('GET', `/servers/${serverId}`);
      expect([status, body.server.tenant_id]).toEqual([200, users[role].projectId]);
      expect(shown).toEqual(role === 'admin' ? expect.any(String) : null);
      await users.admin.act(serverId, { forceDelete: null });
      return;
    }
    const failure = await failureOf(handle);
    expect(failure).toMatchObject({
      type: 'NovaForbidden',
      details: { httpStatus: 403, policyRule: 'os_compute_api:servers:create', serverId: null },
    });
    expect(failure.message).toContain("Policy doesn't allow os_compute_api:servers:create to be performed.");
    expect(failure.message).toContain("the role member in the project: give it to this service's user");
  });

  test('a creation on a host of the member’s choice is refused by the rule’s name', async () => {
    if (!cloud.hasTwoUsers()) return;
    const failure = await failureOf(await create('member', { availability_zone: `nova:${host}` }));
    expect(failure).toMatchObject({
      type: 'NovaForbidden',
      details: { policyRule: 'os_compute_api:servers:create:forced_host' },
    });
    expect(failure.message).toContain("that is an administrator's: log in as one");
  });

  // ---- recovery

  type Input = Partial<Omit<RecoverInstanceInput, 'instanceId'>>;

  const POLLING = { initialInterval: 200, maximumInterval: 1_000 };

  function start(id: string, role: Role | Service, input: Input = {}) {
    const { taskQueue } = typeof role === 'string' ? services[role] : role;
    return startRecoverInstance(
      temporal.client,
      { instanceId: id, polling: POLLING, ...input },
      { taskQueue, staticSummary: undefined },
    );
  }

  async function recover(id: string, role: Role | Service, input: Input = {}): Promise<RecoverInstanceResult> {
    return (await start(id, role, input)).result();
  }

  /** What was done to a server after its creation and what led to the test's state, oldest first. */
  async function done(id: string, before = 0): Promise<string[]> {
    const actions = (await users.member.actions(id)).map(({ action }) => action).reverse();
    return actions.slice(1 + before);
  }

  async function reached(...way: [action: object, status: string][]): Promise<string> {
    const id = await cloud.active();
    for (const [action, status] of way) await cloud.take(id, action, status);
    return id;
  }

  const resized = () => reached([{ resize: { flavorRef: cloud.otherFlavor?.id } }, 'VERIFY_RESIZE']);

  /** Every path that a member's recovery takes, and what it does. */
  const PATHS: { name: string; way: [object, string][]; policy: Input['policy']; steps: string[] }[] = [
    { name: 'active', way: [], policy: {}, steps: ['stop', 'start'] },
    { name: 'stopped', way: [[{ 'os-stop': null }, 'SHUTOFF']], policy: { stoppedByUser: 'start' }, steps: ['start'] },
    { name: 'paused', way: [[{ pause: null }, 'PAUSED']], policy: { paused: 'restore' }, steps: ['reboot', 'pause'] },
    {
      name: 'rescued',
      way: [[{ rescue: {} }, 'RESCUE']],
      policy: { rescued: 'restore' },
      steps: ['unrescue', 'rescue'],
    },
  ];

  describe.each(PATHS)('recovery of one that is $name', ({ way, policy, steps }) => {
    test.each(['reader', 'member'] as const)('as %s of its project', async (role) => {
      if (!cloud.hasTwoUsers()) return;
      const id = await reached(...way);
      if (mayChange(role)) {
        expect(await recover(id, role, { policy })).toMatchObject({ outcome: 'recovered' });
        expect(await done(id, way.length)).toEqual(steps);
        return;
      }
      const before = await users.member.look(id);
      const failure = await failureOf(await start(id, role, { policy }));
      expect(failure).toMatchObject({ type: 'NovaForbidden', details: { step: steps[0], serverId: id } });
      expect(failure.message).toContain(
        `The instance ${id}: ${steps[0]} was refused, before anything was changed. ` +
          `Nova answered POST /servers/${id}/action with 403: Policy doesn't allow ${failure.details.policyRule} to be`,
      );
      expect(await done(id, way.length)).toEqual([]);
      expect(await users.member.look(id)).toEqual(before);
    });

    test('a dry run takes no more than the role reader', async () => {
      if (!cloud.hasTwoUsers()) return;
      const id = await reached(...way);
      expect(await recover(id, 'reader', { policy, dryRun: true })).toMatchObject({ outcome: 'planned', steps: [] });
      expect(await done(id, way.length)).toEqual([]);
    });
  });

  describe('a resized one', () => {
    const RESET_STATE = 'os_compute_api:os-admin-actions:reset_state';

    test.each(['confirm', 'revert'] as const)('%s is a member’s', async (choice) => {
      if (!cloud.hasTwoUsers()) return;
      if (!cloud.otherFlavor) return void skipped('needs a second flavor');
      const id = await resized();
      expect(await recover(id, 'member', { policy: { resized: choice } })).toMatchObject({ outcome: 'recovered' });
    });

    test('reset is an administrator’s: a member’s ends before anything was changed, and says what to do', async () => {
      if (!cloud.hasTwoUsers()) return;
      if (!cloud.otherFlavor) return void skipped('needs a second flavor');
      const id = await resized();
      const failure = await failureOf(await start(id, 'member'));
      expect(failure).toMatchObject({
        type: 'NovaForbidden',
        details: { step: 'reset-state', httpStatus: 403, policyRule: RESET_STATE, state: { vmState: 'resized' } },
      });
      expect(failure.message).toContain('reset-state was refused, before anything was changed.');
      expect(failure.message).toContain(`Policy doesn't allow ${RESET_STATE} to be performed.`);
      expect(failure.message).toContain("log in as one, or allow the rule in Nova's policy.yaml");
      expect(failure.message).toContain('resized=confirm or resized=revert');
      expect(await done(id, 1)).toEqual([]);
      expect(await users.member.look(id)).toMatchObject({ status: 'VERIFY_RESIZE' });

      expect(await recover(id, 'admin')).toMatchObject({ outcome: 'recovered', path: 'reset-stop-start' });
    });

    test('reset is a member’s where the policy allows it', async () => {
      if (!cloud.hasTwoUsers()) return;
      if (!cloud.otherFlavor) return void skipped('needs a second flavor');
      await withPolicy({ [RESET_STATE]: 'rule:project_member_or_admin' }, async () => {
        const id = await resized();
        expect(await recover(id, 'member')).toMatchObject({ outcome: 'recovered', path: 'reset-stop-start' });
      });
    });
  });

  test('an instance of another project is not found by a member; an administrator recovers any', async () => {
    if (!cloud.hasTwoUsers()) return;
    const { body } = await users.admin.nova('POST', '/servers', { server: cloud.request() });
    const { id } = body.server as { id: string };
    try {
      await until('it is ACTIVE', async () => (await users.admin.look(id)).status === 'ACTIVE' || undefined);
      const result = await recover(id, 'member');
      expect(result).toMatchObject({ outcome: 'skipped', reason: 'not-found', after: null });
      expect(result.message).toContain('One of another project looks the same to all but administrators.');
      expect((await users.admin.actions(id)).map(({ action }) => action)).toEqual(['create']);
    } finally {
      await users.admin.act(id, { forceDelete: null });
    }
    const own = await cloud.active();
    expect(await recover(own, 'admin')).toMatchObject({ outcome: 'recovered', before: { host: expect.any(String) } });
    expect(await done(own)).toEqual(['stop', 'start']);
  });

  test.each(['member', 'admin'] as const)('a lock of the %s’s is passed by an administrator alone', async (locker) => {
    if (!cloud.hasTwoUsers()) return;
    const id = await cloud.active();
    await users[locker].act(id, { lock: null });
    const result = await recover(id, 'member');
    expect(result).toMatchObject({ outcome: 'skipped', reason: 'locked' });
    expect(result.message).toContain('only an administrator passes a lock');
    expect(await done(id)).toEqual(['lock']);
    expect(await recover(id, 'admin')).toMatchObject({ outcome: 'recovered' });
    expect(await done(id)).toEqual(['lock', 'stop', 'start']);
  });

  // ---- a deployment's own policy

  /** Runs the test under these overrides of the cloud's policy. False, said aloud, where they can't be had. */
  async function withPolicy(overrides: PolicyOverrides, body: () => Promise<void>): Promise<boolean> {
    const file = process.env['OS_TEST_NOVA_POLICY_FILE'];
    if (cloud.simulated === undefined && file === undefined) {
      return skipped('needs OS_TEST_NOVA_POLICY_FILE: the policy.yaml that its Nova reads');
    }
    const before = file === undefined || cloud.simulated ? '' : readFileSync(file, 'utf8');
    const set = (policies: PolicyOverrides, text: string) => {
      if (cloud.simulated) cloud.simulated.setPolicies(policies);
      else writeFileSync(file!, text);
    };
    set(overrides, JSON.stringify(overrides));
    try {
      await body();
    } finally {
      set({}, before);
    }
    return true;
  }

  const rule = (name: string) => `os_compute_api:${name}`;

  describe('where the policy', () => {
    test('forbids the stop, nothing is done', async () => {
      if (!cloud.hasTwoUsers()) return;
      const id = await cloud.active();
      await withPolicy({ [rule('servers:stop')]: '!' }, async () => {
        const failure = await failureOf(await start(id, 'member'));
        expect(failure).toMatchObject({
          type: 'NovaForbidden',
          details: { step: 'stop', policyRule: rule('servers:stop') },
        });
        expect(await done(id)).toEqual([]);
      });
    });

    test('forbids the start, the failure says that it is stopped, and a later recovery starts it', async () => {
      if (!cloud.hasTwoUsers()) return;
      const id = await cloud.active();
      const isTried = await withPolicy({ [rule('servers:start')]: '!' }, async () => {
        const failure = await failureOf(await start(id, 'member'));
        expect(failure).toMatchObject({ type: 'NovaForbidden', details: { step: 'start' } });
        expect(failure.message).toContain('start was refused, after stop.');
        expect(failure.message).toMatch(/It is stopped still\.$/);
        expect(await done(id)).toEqual(['stop']);
      });
      if (!isTried) return;
      expect(await recover(id, 'member')).toMatchObject({ outcome: 'recovered', path: 'start' });
    });

    test('forbids pausing, one that was paused is left running, and the failure says so', async () => {
      if (!cloud.hasTwoUsers()) return;
      const id = await reached([{ pause: null }, 'PAUSED']);
      await withPolicy({ [rule('os-pause-server:pause')]: '!' }, async () => {
        const failure = await failureOf(await start(id, 'member', { policy: { paused: 'restore' } }));
        expect(failure).toMatchObject({ type: 'NovaForbidden', details: { step: 'pause' } });
        expect(failure.message).toContain('pause was refused, after reboot.');
        expect(await cloud.settled(id)).toMatchObject({ status: 'ACTIVE' });
      });
    });

    test('hides the instance actions, recovery goes on without them', async () => {
      if (!cloud.hasTwoUsers()) return;
      const id = await cloud.active();
      const isTried = await withPolicy({ [rule('os-instance-actions:list')]: '!' }, async () => {
        expect(await recover(id, 'member')).toMatchObject({ outcome: 'recovered', path: 'stop-start' });
      });
      if (isTried) expect(await done(id)).toEqual(['stop', 'start']);
    });

    test('hides servers, a recovery is refused at its first look', async () => {
      if (!cloud.hasTwoUsers()) return;
      const id = await cloud.active();
      await withPolicy({ [rule('servers:show')]: '!' }, async () => {
        const failure = await failureOf(await start(id, 'member'));
        expect(failure).toMatchObject({
          type: 'NovaForbidden',
          details: { step: 'task', policyRule: rule('servers:show') },
        });
        expect(failure.message).toContain('the role reader in the project');
      });
    });

    test('allows a member to unlock others’ locks, that does not pass them', async () => {
      if (!cloud.hasTwoUsers()) return;
      const id = await cloud.active();
      await users.admin.act(id, { lock: null });
      const override = { [rule('os-lock-server:unlock:unlock_override')]: 'rule:project_member_or_admin' } as const;
      await withPolicy(override, async () => {
        expect(await recover(id, 'member')).toMatchObject({ outcome: 'skipped', reason: 'locked' });
      });
    });

    test('shows extended attributes to members, they see the host', async () => {
      if (!cloud.hasTwoUsers()) return;
      const override = { [rule('os-extended-server-attributes')]: 'rule:project_member_or_admin' } as const;
      await withPolicy(override, async () => {
        const { host: shown, serverId } = await (await create('member')).result();
        expect(shown).toEqual(expect.any(String));
        await users.admin.act(serverId, { forceDelete: null });
      });
    });
  });

  // ---- an application credential

  test('the access rules of the page are enough for creation and recovery, and for nothing else', async () => {
    if (!cloud.hasTwoUsers()) return;
    const { pathname } = new URL(users.member.service('compute'));
    const rules = documentedAccessRules().map((one) => ({ ...one, path: one.path.replace('/v2.1', pathname) }));
    const credentials = `${cloud.authUrl}/users/${users.member.userId}/application_credentials`;
    const made = await users.member.request('POST', credentials, {
      application_credential: { name: `${cloud.runTag}-${enforceNewDefaults}`, access_rules: rules },
    });
    expect([made.status, made.text]).toEqual([201, expect.any(String)]);
    const { id, secret } = made.body.application_credential as { id: string; secret: string };
    let confined: Service | undefined;
    try {
      confined = await service({
        OS_AUTH_URL: cloud.authUrl,
        OS_AUTH_TYPE: 'v3applicationcredential',
        OS_APPLICATION_CREDENTIAL_ID: id,
        OS_APPLICATION_CREDENTIAL_SECRET: secret,
        ...(process.env['OS_REGION_NAME'] && IS_REAL ? { OS_REGION_NAME: process.env['OS_REGION_NAME'] } : {}),
      });
      const { compute } = confined;
      const probe = await compute.listServers({ tags: cloud.runTag }).catch((error: Error) => error);
      if (probe instanceof Error && IS_REAL) {
        expect(probe.message).toContain('access rules may not allow this request');
        return void skipped(`its Nova knows no access rules ([keystone_authtoken] service_type): ${probe.message}`);
      }
      // Its answer is lost, where that can be done: the tag is looked up.
      const lost = cloud.simulated?.inject({ method: 'POST', path: /\/servers$/, carriedOut: true, reset: true });
      const { serverId } = await (await create(confined)).result();
      expect(lost?.remaining ?? 0).toBe(0);
      for (const { way, policy, steps } of PATHS) {
        for (const [action, status] of way) await cloud.take(serverId, action, status);
        const result = await recover(serverId, confined, { policy });
        expect(result).toMatchObject({ outcome: 'recovered' });
        expect(result.steps.map(({ action }) => action)).toEqual(steps);
        await users.member.act(serverId, { reboot: { type: 'HARD' } });
        await users.member.act(serverId, { unrescue: null });
        await cloud.settled(serverId, 'ACTIVE');
      }
      await compute.deleteServer(serverId);
      await expect(compute.listFlavors()).rejects.toMatchObject({
        kind: 'Unauthorized',
        message: expect.stringContaining('access rules may not allow this request'),
      });
    } finally {
      if (confined) await endService(confined);
      await users.member.request('DELETE', `${credentials}/${id}`);
      const { access_rules: kept = [] } = made.body.application_credential as { access_rules?: { id: string }[] };
      for (const one of kept) {
        await users.member.request('DELETE', `${cloud.authUrl}/users/${users.member.userId}/access_rules/${one.id}`);
      }
    }
  });
});
