import {
  decideRecovery,
  DEFAULT_RECOVERY_POLICY,
  type PastAction,
  type RecoveryAction,
  type RecoveryFacts,
  type RecoveryPolicy,
} from '../../src/policy/recovery';
import type { ServerState } from '../../src/policy/server-state';

/** nova/compute/vm_states.py, and one that this version does not know. */
const VM_STATES = [
  'active',
  'building',
  'deleted',
  'error',
  'paused',
  'rescued',
  'resized',
  'shelved',
  'shelved_offloaded',
  'soft-delete',
  'stopped',
  'suspended',
  'teleported',
];

/** nova/objects/fields.py, `InstanceTaskState`. */
const TASK_STATES =
  `scheduling block_device_mapping networking spawning image_snapshot image_snapshot_pending image_pending_upload
  image_uploading image_backup updating_password resize_prep resize_migrating resize_migrated resize_finish
  resize_reverting resize_confirming rebooting reboot_pending reboot_started rebooting_hard reboot_pending_hard
  reboot_started_hard pausing unpausing suspending resuming powering-off powering-on rescuing unrescuing rebuilding
  rebuild_block_device_mapping rebuild_spawning migrating deleting soft-deleting restoring shelving
  shelving_image_pending_upload shelving_image_uploading shelving_offloading unshelving`.split(/\s+/);

const POWER_STATES = ['nostate', 'running', 'paused', 'shutdown', 'crashed', 'suspended'];

const USER_STOP: PastAction = { action: 'stop', startTime: 1_000, userId: 'somebody', failed: false };

/** nova/compute/api.py, `@check_instance_state`: in which vm_states an action is taken, and what it leads to. */
const ALLOWED: Record<RecoveryAction, { from: string[]; to: string[] }> = {
  stop: { from: ['active', 'error'], to: ['stopped'] },
  start: { from: ['stopped'], to: ['active'] },
  'reset-state': { from: VM_STATES, to: ['active'] },
  // A resize of a stopped instance ends stopped; the workflow passes over a step whose target is reached.
  'confirm-resize': { from: ['resized'], to: ['active'] },
  'revert-resize': { from: ['resized'], to: ['stopped'] },
  reboot: { from: ['active', 'stopped', 'paused', 'suspended', 'error'], to: ['active'] },
  unrescue: { from: ['rescued'], to: ['active'] },
  pause: { from: ['active'], to: ['paused'] },
  rescue: { from: ['active', 'stopped', 'error'], to: ['rescued'] },
};

function facts(state: Partial<ServerState>, more: Partial<RecoveryFacts> = {}): RecoveryFacts {
  return {
    state: {
      status: 'X',
      vmState: 'active',
      taskState: null,
      powerState: 'running',
      host: 'h',
      locked: false,
      ...state,
    },
    metadata: {},
    actions: [],
    ownUserId: 'me',
    failedAt: null,
    reportsRunning: false,
    ...more,
  };
}

function* policies(): Generator<RecoveryPolicy> {
  for (const paused of ['skip', 'restart', 'restore'] as const)
    for (const rescued of ['skip', 'restart', 'restore'] as const)
      for (const resized of ['reset', 'confirm', 'revert', 'skip'] as const)
        for (const stoppedByUser of ['skip', 'start'] as const)
          for (const locked of ['recover', 'skip'] as const)
            for (const requireHaEnabled of [false, true])
              yield { ...DEFAULT_RECOVERY_POLICY, paused, rescued, resized, stoppedByUser, locked, requireHaEnabled };
}

test('every combination of states, lock and policy gives one plan, whose steps Nova takes', () => {
  let combinations = 0;
  const wrong: string[] = [];
  for (const policy of policies())
    for (const vmState of VM_STATES)
      for (const taskState of [null, ...TASK_STATES])
        for (const powerState of POWER_STATES)
          for (const locked of [false, true]) {
            combinations++;
            const decision = decideRecovery(
              facts(
                { vmState, taskState, powerState, locked },
                { actions: [USER_STOP], metadata: { HA_Enabled: 'yes' } },
              ),
              policy,
            );
            const what = `${vmState}/${taskState}/${powerState}/${locked} ${JSON.stringify(policy)}`;
            if (decision.kind === 'unknown' && vmState !== 'teleported') wrong.push(`unknown: ${what}`);
            if (decision.kind === 'wait' && taskState === null) wrong.push(`waits for nothing: ${what}`);
            if (decision.kind !== 'plan') continue;
            if ((decision.path === 'none') !== (decision.steps.length === 0)) wrong.push(`path and steps: ${what}`);
            if (decision.steps.length > 0 && taskState !== null) wrong.push(`acts on a busy server: ${what}`);
            let now = vmState;
            for (const action of decision.steps) {
              if (!ALLOWED[action].from.includes(now)) wrong.push(`${action} refused in ${now}: ${what}`);
              now = ALLOWED[action].to[0] ?? now;
            }
          }
  expect(wrong.slice(0, 5)).toEqual([]);
  expect(combinations).toBe(288 * 13 * (TASK_STATES.length + 1) * 6 * 2);
});

/** Row by row, as the documentation has them. */
const TABLE: [string, RecoveryFacts, Partial<RecoveryPolicy>, string, string][] = [
  ['404', { ...facts({}), state: null }, {}, 'none', 'not-found'],
  ['deleted', facts({ vmState: 'deleted' }), {}, 'none', 'not-found'],
  ['deleting', facts({ taskState: 'deleting' }), {}, 'none', 'being-deleted'],
  ['soft-deleting', facts({ taskState: 'soft-deleting' }), {}, 'none', 'being-deleted'],
  ['soft-delete', facts({ vmState: 'soft-delete' }), {}, 'none', 'being-deleted'],
  ['no HA_Enabled', facts({}), { requireHaEnabled: true }, 'none', 'not-ha-enabled'],
  [
    'HA_Enabled=false',
    facts({}, { metadata: { HA_Enabled: 'False' } }),
    { requireHaEnabled: true },
    'none',
    'not-ha-enabled',
  ],
  [
    'HA_Enabled=yEs',
    facts({}, { metadata: { HA_Enabled: 'yEs' } }),
    { requireHaEnabled: true },
    'stop-start',
    'instance-failure',
  ],
  [
    'another key',
    facts({}, { metadata: { ha: '1' } }),
    { requireHaEnabled: true, haEnabledMetadataKey: 'ha' },
    'stop-start',
    'instance-failure',
  ],
  ['locked, skip', facts({ locked: true }), { locked: 'skip' }, 'none', 'locked'],
  ['locked, recover', facts({ locked: true }), {}, 'stop-start', 'instance-failure'],
  ['building', facts({ vmState: 'building', taskState: 'spawning' }), {}, 'none', 'building'],
  ['shelved', facts({ vmState: 'shelved' }), {}, 'none', 'shelved'],
  ['shelved_offloaded', facts({ vmState: 'shelved_offloaded' }), {}, 'none', 'shelved'],
  ['powering-off', facts({ taskState: 'powering-off' }), {}, 'wait', ''],
  ['down cell', facts({ status: 'UNKNOWN', vmState: null, powerState: null }), {}, 'wait', ''],
  ['paused', facts({ vmState: 'paused' }), {}, 'none', 'paused'],
  ['paused, restart', facts({ vmState: 'paused' }), { paused: 'restart' }, 'hard-reboot', 'paused'],
  ['paused, restore', facts({ vmState: 'paused' }), { paused: 'restore' }, 'hard-reboot', 'paused'],
  ['rescued', facts({ vmState: 'rescued' }), {}, 'none', 'rescued'],
  ['rescued, restart', facts({ vmState: 'rescued' }), { rescued: 'restart' }, 'unrescue', 'rescued'],
  ['rescued, restore', facts({ vmState: 'rescued' }), { rescued: 'restore' }, 'unrescue', 'rescued'],
  ['suspended', facts({ vmState: 'suspended' }), {}, 'none', 'suspended'],
  ['stopped by a user', facts({ vmState: 'stopped' }, { actions: [USER_STOP] }), {}, 'none', 'stopped-by-user'],
  [
    'stopped by a user, start',
    facts({ vmState: 'stopped' }, { actions: [USER_STOP] }),
    { stoppedByUser: 'start' },
    'start',
    'stopped-by-user',
  ],
  [
    'stopped by Nova',
    facts({ vmState: 'stopped' }, { actions: [{ ...USER_STOP, userId: null }] }),
    {},
    'start',
    'instance-failure',
  ],
  [
    'stopped by us',
    facts({ vmState: 'stopped' }, { actions: [{ ...USER_STOP, userId: 'me' }] }),
    {},
    'start',
    'instance-failure',
  ],
  ['stopped, actions unreadable', facts({ vmState: 'stopped' }, { actions: null }), {}, 'start', 'instance-failure'],
  [
    'stopped, started since',
    facts({ vmState: 'stopped' }, { actions: [{ ...USER_STOP, action: 'start', startTime: 2_000 }, USER_STOP] }),
    {},
    'start',
    'instance-failure',
  ],
  ['active', facts({}), {}, 'stop-start', 'instance-failure'],
  ['error', facts({ vmState: 'error', powerState: 'nostate' }), {}, 'stop-start', 'instance-failure'],
  ['resized', facts({ vmState: 'resized' }), {}, 'reset-stop-start', 'resized'],
  ['resized, confirm', facts({ vmState: 'resized' }), { resized: 'confirm' }, 'confirm-stop-start', 'resized'],
  ['resized, revert', facts({ vmState: 'resized' }), { resized: 'revert' }, 'revert', 'resized'],
  ['resized, skip', facts({ vmState: 'resized' }), { resized: 'skip' }, 'none', 'resized'],
  ['a new vm_state', facts({ vmState: 'teleported' }), {}, 'unknown', ''],
];

test.each(TABLE)('%s', (_name, given, policy, path, reason) => {
  const decision = decideRecovery(given, { ...DEFAULT_RECOVERY_POLICY, ...policy });
  expect(decision.kind === 'plan' ? [decision.path, decision.reason] : [decision.kind, '']).toEqual([path, reason]);
});

describe('an instance that was started after the failure was noticed', () => {
  const start: PastAction = { action: 'start', startTime: 5_000, userId: 'me', failed: false };
  const decide = (action: Partial<PastAction>, failedAt: number | null, state: Partial<ServerState> = {}) => {
    const decision = decideRecovery(
      facts(state, { actions: [{ ...start, ...action }], failedAt }),
      DEFAULT_RECOVERY_POLICY,
    );
    return decision.kind === 'plan' ? decision.reason : decision.kind;
  };

  test('is recovered already', () => {
    expect(decide({}, 4_999)).toBe('already-recovered');
    expect(decide({ action: 'reboot' }, 4_999)).toBe('already-recovered');
  });

  test('is not when the start came before, failed, was something else, or the guest does not run', () => {
    expect(decide({}, 5_000)).toBe('instance-failure');
    expect(decide({ failed: true }, 4_999)).toBe('instance-failure');
    expect(decide({ action: 'resize' }, 4_999)).toBe('instance-failure');
    expect(decide({}, null)).toBe('instance-failure');
    expect(decide({}, 4_999, { powerState: 'shutdown' })).toBe('instance-failure');
  });

  test('is left alone by a notification that says it runs', () => {
    const decision = decideRecovery(facts({}, { reportsRunning: true }), DEFAULT_RECOVERY_POLICY);
    expect(decision).toMatchObject({ path: 'none', reason: 'already-recovered' });
  });
});

test('skips of a paused, rescued or resized instance are warnings; a restore says that the guest ran', () => {
  const decide = (vmState: string, policy: Partial<RecoveryPolicy>) =>
    decideRecovery(facts({ vmState }), { ...DEFAULT_RECOVERY_POLICY, ...policy });
  for (const [vmState, policy] of [
    ['paused', {}],
    ['rescued', {}],
    ['resized', { resized: 'skip' }],
  ] as const) {
    expect(decide(vmState, policy)).toMatchObject({ warning: true });
  }
  expect(decide('suspended', {})).toMatchObject({ warning: false });
  expect(decide('paused', { paused: 'restore' })).toMatchObject({
    message: expect.stringContaining('for a while'),
    steps: ['reboot', 'pause'],
  });
  expect(decide('rescued', { rescued: 'restore' })).toMatchObject({
    message: expect.stringContaining('default rescue image'),
    steps: ['unrescue', 'rescue'],
  });
});
