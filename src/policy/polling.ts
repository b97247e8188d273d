/** How often to look, and for how long one activity goes on looking. All times in milliseconds. */

export interface Polling {
  initialInterval: number;
  maximumInterval: number;
  backoffCoefficient: number;
}

export const DEFAULT_POLLING: Polling = { initialInterval: 1_000, maximumInterval: 10_000, backoffCoefficient: 1.5 };

/** What an action leads to is soon seen: most of Nova's power actions are over within a second. */
const FIRST_INTERVAL_AFTER_ACTION = 150;

/** Looks more often at first, and no more seldom later. */
export function afterAction(polling: Polling): Polling {
  return { ...polling, initialInterval: Math.min(polling.initialInterval, FIRST_INTERVAL_AFTER_ACTION) };
}

/** The interval after this one, while nothing changes. */
export function nextInterval(interval: number, polling: Polling): number {
  return Math.min(interval * polling.backoffCoefficient, polling.maximumInterval);
}

/**
 * Intervals above this are slept on a durable timer, so that a look far away holds no activity slot; up to this, the
 * activity itself sleeps: a timer and a new activity cost 11 history events, a look inside an activity none.
 */
export const LONGEST_HELD_INTERVAL = 15_000;

const SHORTEST_ROUND = 45_000;
const LONGEST_ROUND = 600_000;

/**
 * How long one watch goes on: as long again as the server has been silent, between 45 s and 10 min. Each costs 6 history
 * events: most builds are over within the first.
 */
export function roundLength(silence: number): number {
  return Math.min(Math.max(silence, SHORTEST_ROUND), LONGEST_ROUND);
}

/** A server that has been silent for less than this is worth a heartbeat a few seconds apart. */
const YOUNG = 30_000;

const SHORTEST_HEARTBEAT_TIMEOUT = 4_000;
const LONGEST_HEARTBEAT_TIMEOUT = 60_000;
const LONGEST_HEARTBEAT_TIMEOUT_OF_MANY = 300_000;
/** Of one worker's watches together, a heartbeat each 10 ms at most: a Temporal server of two cores spends 3 ms on one. */
const HEARTBEAT_TIMEOUT_A_WATCH = 12.5;

/**
 * How soon a killed worker is noticed: within 4 s while the server was silent for less than 30 s; later within half the
 * time of its silence, 60 s at most, for a heartbeat is what a wait costs Temporal. More than 320 watches on one worker
 * make it later, 5 min at most: what was theirs takes longer than that to be handed over. The SDK sends a heartbeat after four fifths
 * of the timeout: the rest is what a busy worker may be late.
 *
 * @param watches under way on the worker that was there last
 */
export function heartbeatTimeout(silence: number, watches: number): number {
  const wanted = silence <= YOUNG ? SHORTEST_HEARTBEAT_TIMEOUT : silence / 2;
  return Math.max(
    Math.min(wanted, LONGEST_HEARTBEAT_TIMEOUT),
    Math.min(watches * HEARTBEAT_TIMEOUT_A_WATCH, LONGEST_HEARTBEAT_TIMEOUT_OF_MANY),
  );
}

/** A request whose answer was lost may still be on its way through Nova: one look for its effect is not enough. */
export const LOOK_AGAIN_AFTER = 2_500;

const SHORTEST_PROGRESS_HELD = 12_000;
const LONGEST_PROGRESS_HELD = 45_000;
const PROGRESS_HELD_A_WATCH = 150;

/**
 * How long a step from one running task to the next is held back before the workflow hears of it, and a person sees it
 * in the Current Details: each time costs 6 history events. 12 s with up to 80 watches on the worker, 45 s with 300.
 */
export function progressHeld(watches: number): number {
  return Math.min(Math.max(watches * PROGRESS_HELD_A_WATCH, SHORTEST_PROGRESS_HELD), LONGEST_PROGRESS_HELD);
}

/** So many servers of a project are looked at together, by one list of what has changed; fewer by id, one by one. */
export const LISTED_FROM = 3;

/**
 * One list costs Nova no more than one look, however many wait for it, so that it need not back off as far as looks by
 * id do; a caller who asks for a longer `initialInterval` gets that.
 */
export const LIST_EVERY = 1_000;
const SHORTEST_LIST_PAUSE = 100;

/**
 * From the beginning of one list to the next: what the most impatient wants, and never so soon that Nova does nothing
 * but make lists.
 */
export function listPause(interval: number, took: number): number {
  return Math.max(SHORTEST_LIST_PAUSE, Math.min(interval, 15_000), 2 * took);
}

/**
 * How far lists overlap: Nova keeps `updated_at` in whole seconds, sets it before the change is committed, and by the
 * clock of another host than the one that answers.
 */
export const LIST_OVERLAP = 5_000;

/** A list reaches no further back than this: who has not been covered for longer is looked at by id. */
export const LONGEST_REACH = 60_000;

/** Lists go on for a server whose watch has ended, until the one that follows begins; no longer than this. */
export const LISTED_FOR_NEXT = 900_000;

/**
 * A server that the list has not shown for so long is looked at by id, as a safety net (it may be gone without a trace);
 * of all who wait, one a second at most.
 */
export const VERIFY_AFTER = 5_000;
export const VERIFY_EVERY = 1_000;
