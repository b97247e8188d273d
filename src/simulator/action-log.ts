/** The instance actions: who asked for what, when, and whether the host managed it. */
import type { Caller } from './model';

/** One entry. Times in milliseconds since the epoch. */
export interface InstanceAction {
  action: string;
  requestId: string;
  userId: string | null;
  projectId: string | null;
  startTime: number;
  updatedAt: number;
  /** 'Error' where it failed on the host. */
  message: 'Error' | null;
  /** The one that matters of Nova's, which has several for some actions; null for os-resetState. */
  event: ActionEvent | null;
}

interface ActionEvent {
  event: string;
  finishTime: number | null;
  result: 'Success' | 'Error' | null;
  host: string | null;
  /** What went wrong. */
  details: string | null;
}

export class ActionLog {
  /** Oldest first. */
  readonly entries: InstanceAction[] = [];
  private running: InstanceAction | undefined;

  /** An action begins; the one that ran before is left as it is. */
  begin(
    action: string,
    requestId: string,
    caller: Caller,
    at: number,
    host: string | null,
    event: string | null,
  ): void {
    const entry: InstanceAction = {
      action,
      requestId,
      userId: caller.userId,
      projectId: caller.projectId,
      startTime: at,
      updatedAt: at,
      message: null,
      event: event === null ? null : { event, finishTime: null, result: null, host, details: null },
    };
    this.entries.push(entry);
    this.running = entry;
  }

  /** The running action ends, well or, with `details`, in an error. */
  finish(at: number, host: string | null, details?: string): void {
    const action = this.running;
    if (action === undefined) return;
    this.running = undefined;
    const failed = details !== undefined;
    action.message = failed ? 'Error' : null;
    action.updatedAt = at;
    if (action.event === null) return;
    action.event.finishTime = at;
    action.event.result = failed ? 'Error' : 'Success';
    action.event.host ??= host;
    action.event.details = details ?? null;
  }
}
