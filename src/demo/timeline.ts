/** How the demo shows a workflow: one line for each change, with the states that Nova keeps beside the status. */
import type { View } from '../cli/follow';
import type { Phase, ServerState } from '../client';
import { describeState } from '../policy/server-state';
import type { Log } from './tool-cache';

/** A long wait says now and then that it still waits. */
const REMIND_EVERY_MS = 30_000;

export function timeline(show: Log): View {
  const started = Date.now();
  let lastLine = started;
  const line = (text: string, at = Date.now()): void => {
    show(`${(Math.max(0, at - started) / 1_000).toFixed(1).padStart(7)} s  ${text}`);
    lastLine = Date.now();
  };
  show(`           ${columns('phase', 'status/task_state', 'vm_state', 'power_state')}`);
  return {
    show({ phase, observations, deadline }, fresh, before) {
      const last = observations.at(-1);
      for (const observation of fresh) {
        // the last one led to the phase it is in now; those before it came earlier
        line(seen(observation === last ? phase : (before ?? phase), observation), Date.parse(observation.at));
      }
      if (fresh.length === 0 && phase !== before) {
        if (last) line(seen(phase, last));
        else line(phase, started);
      }
      if (Date.now() - lastLine > REMIND_EVERY_MS) {
        line(`${phase}: still ${describeState(last ?? null)}; until ${deadline ?? 'it is over'}`);
      }
    },
    note: (text) => line(text),
  };
}

function seen(phase: Phase, state: ServerState): string {
  return columns(phase, describeState(state), state.vmState ?? '-', state.powerState ?? '-');
}

function columns(phase: string, status: string, vmState: string, powerState: string): string {
  return `${phase.padEnd(11)} ${status.padEnd(26)} ${vmState.padEnd(12)} ${powerState}`;
}
