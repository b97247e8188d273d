/** Nova's policy rules, as far as the simulated Nova enforces them, with their defaults (nova/policies/*.py). */
import { Refusal } from './message';
import type { Caller } from './model';

/**
 * The check strings that this cloud knows, as a `policy.yaml` spells them; `!` is nobody. What a caller may not see
 * (another project's server) is 404 before any of them is asked.
 */
export type PolicyCheck =
  'rule:project_reader_or_admin' | 'rule:project_member_or_admin' | 'rule:context_is_admin' | '!';

const CHECKS: Record<PolicyCheck, (caller: Caller) => boolean> = {
  'rule:project_reader_or_admin': () => true,
  'rule:project_member_or_admin': ({ isAdmin, isMember }) => isAdmin || isMember,
  'rule:context_is_admin': ({ isAdmin }) => isAdmin,
  '!': () => false,
};

/** Reading. */
const READER_RULES = [
  'os_compute_api:servers:detail',
  'os_compute_api:servers:index',
  'os_compute_api:servers:show',
  'os_compute_api:os-instance-actions:list',
  'os_compute_api:os-instance-actions:show',
  'os_compute_api:os-server-tags:index',
  'os_compute_api:os-server-tags:show',
  'os_compute_api:server-metadata:index',
  'os_compute_api:server-metadata:show',
];

const ADMIN_RULES = [
  'compute:servers:create:requested_destination',
  'os_compute_api:os-admin-actions:reset_state',
  'os_compute_api:os-evacuate',
  'os_compute_api:os-extended-server-attributes',
  'os_compute_api:os-instance-actions:events',
  'os_compute_api:os-instance-actions:events:details',
  'os_compute_api:os-lock-server:unlock:unlock_override',
  'os_compute_api:os-migrate-server:migrate',
  'os_compute_api:os-migrate-server:migrate_live',
  'os_compute_api:os-quota-sets:delete',
  'os_compute_api:os-quota-sets:update',
  'os_compute_api:os-services:list',
  'os_compute_api:os-services:update',
  'os_compute_api:os-shelve:shelve_offload',
  'os_compute_api:servers:create:forced_host',
  'os_compute_api:servers:detail:get_all_tenants',
  'os_compute_api:servers:index:get_all_tenants',
  'os_compute_api:servers:show:host_status',
];

/** A rule that is not named here is of the third kind: changing what is the project's own. */
const DEFAULTS = new Map<string, PolicyCheck>([
  ...READER_RULES.map((rule) => [rule, 'rule:project_reader_or_admin'] as const),
  ...ADMIN_RULES.map((rule) => [rule, 'rule:context_is_admin'] as const),
]);

/** What a deployment's policy.yaml says in place of the defaults. */
export type PolicyOverrides = Readonly<Record<string, PolicyCheck>>;

export function isAllowed(rule: string, caller: Caller, overrides: PolicyOverrides): boolean {
  return CHECKS[overrides[rule] ?? DEFAULTS.get(rule) ?? 'rule:project_member_or_admin'](caller);
}

/** Throws Nova's 403. */
export function authorize({ can }: { can: (rule: string) => boolean }, rule: string): void {
  if (!can(rule)) forbid(rule);
}

export function forbid(rule: string): never {
  throw new Refusal(403, `Policy doesn't allow ${rule} to be performed.`);
}
