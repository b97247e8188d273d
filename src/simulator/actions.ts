/** `POST /servers/{id}/action`: what is allowed to whom and when, and what it sets going. */
import { flavorOf, password } from './create';
import type { Instance } from './instance';
import { Refusal, json, type Answer } from './message';
import type { Flavor } from './model';
import { ACTIONS, type ActionRule } from './states';
import { authorize } from './policies';
import { checkLock, unexpectedError, type Context, type Store } from './store';
import { validateAction } from './validation';
import { serverDetail } from './views';

export function action(store: Store, context: Context, id: string): Answer {
  const body = json(context.request);
  if (typeof body !== 'object' || body === null || Object.keys(body).length !== 1) {
    throw new Refusal(400, 'Malformed request body');
  }
  return act(store, context, id, body as Record<string, unknown>);
}

/** `body` is the action's, with its one key. */
export function act(store: Store, context: Context, id: string, body: Record<string, unknown>): Answer {
  const [name = '', value] = Object.entries(body)[0] ?? [];
  if (!KNOWN.has(name)) throw new Refusal(400, `There is no such action: ${name}`);
  validateAction(name, value);
  const instance = find(store, context, id, name);
  const atOnce = AT_ONCE[name];
  if (atOnce !== undefined) {
    atOnce(store, context, instance, value);
    return { status: 202 };
  }
  const rule = ruleOf(name, value);
  authorize(context, rule.policy);
  if (name === 'evacuate') checkTarget(store, instance, value as { host?: string });
  if (rule.ignoresLock !== true) checkLock(context, instance);
  if (rule.needsHost === true && instance.host === null) throw new Refusal(409, `Instance ${id} is not ready`);
  checkState(instance, rule, rule.name);
  if (name === 'evacuate') checkHostIsDown(store, instance);
  const flavor = name === 'resize' ? newFlavor(instance, value as { flavorRef: string }) : undefined;
  instance.act(rule, context.now, context.requestId, context.caller, flavor);
  return answerTo(name, rule, instance, context, value);
}

function ruleOf(name: string, value: unknown): ActionRule {
  const kind = name === 'reboot' ? ` ${(value as { type: string }).type.toUpperCase()}` : '';
  return ACTIONS[name + kind]!;
}

function answerTo(name: string, { answer }: ActionRule, instance: Instance, context: Context, value: unknown): Answer {
  const adminPass = (value as { adminPass?: string } | null)?.adminPass ?? password();
  switch (name) {
    case 'rescue':
      return { status: answer, body: { adminPass } };
    case 'rebuild': {
      const headers = { Location: `${context.root}/v2.1/servers/${instance.id}` };
      return { status: answer, headers, body: { server: { ...serverDetail(instance, context), adminPass } } };
    }
    default:
      return { status: answer };
  }
}

/** Start and stop look for the server's cell first, and so miss one that is a build request yet. */
function find(store: Store, context: Context, id: string, action: string): Instance {
  const byCell = action === 'os-start' || action === 'os-stop';
  if (byCell && store.find(id) === undefined) throw new Refusal(404, `Instance ${id} has no mapping to a cell.`);
  const instance = store.get(context, id);
  if (instance.downCell) throw unexpectedError('oslo_db.exception.DBConnectionError');
  if (byCell && !instance.inCell) throw new Refusal(404, `Instance ${id} could not be found.`);
  return instance;
}

type StateRule = Pick<ActionRule, 'vmStates' | 'taskStates' | 'neverLaunched'>;

/** `check_instance_state` of nova/compute/api.py. Throws its 409. */
export function checkState(instance: Instance, rule: StateRule, action: string): void {
  const refuse = (attribute: string, state: string) =>
    new Refusal(409, `Cannot '${action}' instance ${instance.id} while it is in ${attribute} ${state}`);
  const { vmStates, taskStates = [null] } = rule;
  const { vmState, taskState } = instance;
  if (vmStates !== 'any' && !(vmStates as readonly string[]).includes(vmState)) throw refuse('vm_state', vmState);
  if (taskStates !== 'any' && !taskStates.includes(taskState)) throw refuse('task_state', String(taskState));
  if (rule.neverLaunched !== true && instance.launchedAt === null) {
    throw new Refusal(409, `Instance ${instance.id} is in an invalid state for '${action}'`);
  }
}

function checkTarget(store: Store, instance: Instance, { host }: { host?: string }): void {
  if (host !== undefined && store.hosts.every((one) => one.name !== host)) {
    throw new Refusal(404, `Compute host ${host} not found.`);
  }
  if ((host ?? null) === instance.host) throw new Refusal(400, "The target host can't be the same one.");
}

function checkHostIsDown(store: Store, { host: name }: Instance): void {
  const host = store.hosts.find((one) => one.name === name);
  if (host?.forcedDown !== true) throw new Refusal(400, `Compute service of ${name} is still in use.`);
}

function newFlavor(instance: Instance, { flavorRef }: { flavorRef: string | number }): Flavor {
  const flavor = flavorOf(flavorRef);
  if (flavor === instance.flavor) throw new Refusal(400, 'When resizing, instances must change flavor!');
  return flavor;
}

/** Actions with rules of their own. All are answered 202. */
const AT_ONCE: Record<string, (store: Store, context: Context, instance: Instance, value: unknown) => void> = {
  'os-resetState': (_store, context, instance, value) => {
    authorize(context, 'os_compute_api:os-admin-actions:reset_state');
    if (!instance.inCell) throw unexpectedError('oslo_db.exception.DBReferenceError');
    const { state } = value as { state: 'active' | 'error' };
    instance.resetState(state, context.now, context.requestId, context.caller);
  },
  lock: (_store, context, instance, value) => {
    authorize(context, 'os_compute_api:os-lock-server:lock');
    const isOwner = instance.projectId === context.caller.projectId;
    // An owner's lock on a locked server changes nothing, an administrator's takes it over.
    if (instance.lockedBy !== null && isOwner) return;
    const reason = (value as { locked_reason?: string } | null)?.locked_reason ?? null;
    instance.lock(isOwner ? 'owner' : 'admin', reason, context.now, context.requestId, context.caller);
  },
  unlock: (_store, context, instance) => {
    authorize(context, 'os_compute_api:os-lock-server:unlock');
    const expected = instance.projectId === context.caller.projectId ? 'owner' : 'admin';
    if (instance.lockedBy !== null && instance.lockedBy !== expected) {
      authorize(context, 'os_compute_api:os-lock-server:unlock:unlock_override');
    }
    instance.unlock(context.now, context.requestId, context.caller);
  },
  forceDelete: (store, context, instance) => {
    authorize(context, 'os_compute_api:os-deferred-delete:force');
    checkLock(context, instance);
    instance.delete(context.now, context.requestId, context.caller, true);
    store.settle(instance, context.now);
  },
};

const KNOWN = new Set([...Object.keys(ACTIONS).map((key) => key.replace(/ .*/, '')), ...Object.keys(AT_ONCE)]);
