/**
 * One look for all who wait: `GET /servers/detail?changes-since=…` shows every server of the project that changed, so
 * that Nova's load need not grow with the number of waiting servers. Where only one or two wait, or the list can't show
 * a server (another project's, for an administrator), or the cloud refuses the list, servers are looked at by id.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { BrokenCircuitError, circuitBreaker, ConsecutiveBreaker, handleWhen } from 'cockatiel';
import { NovaError, type ComputeClient, type NovaServer } from '../nova';
import {
  LIST_OVERLAP,
  LISTED_FOR_NEXT,
  LISTED_FROM,
  listPause,
  LONGEST_REACH,
  VERIFY_AFTER,
  VERIFY_EVERY,
} from '../policy/polling';
import { plainStatus, sameState, toServerState, type ServerState } from '../policy/server-state';

/** Two GETs answered 404 make a server gone; the second comes a second later. */
const SECOND_LOOK_AFTER = 1_000;

/** Nova is taken for away when so many looks in a row have failed; then one of all who want to look asks it. */
const FAILURES_IN_A_ROW = 5;
const ASK_AGAIN_AFTER = 2_000;

/** A cloud that refuses the list, or fails to make it while it answers looks by id, is asked for it again after this. */
const WITHOUT_LIST_FOR = 600_000;
/** A list that is late is waited for no longer than this: then each looks for itself. */
const PATIENCE = 5_000;

/** What a watch knows of its server, and what it waits for. All times by our clock. */
export interface Seat {
  readonly serverId: string;
  /** What was seen last. */
  state: ServerState;
  /** The worker's own project, where the server is of it: then the list shows it. */
  projectId: string | null;
  /** Every change until then was seen. */
  coveredUntil: number;
  /** A list that began before can be older than what was seen. */
  listsFrom: number;
  /** When it was last looked at by id. */
  lookedAt: number;
}

/** How far a watch has come, for the one that follows it. Times by the worker's clock. */
export interface Covered {
  projectId: string;
  /** Every change until then was seen. */
  until: number;
  lookedAt: number;
}

/** A seat whose watch waits at this moment. */
interface Waiter {
  seat: Seat;
  /** Milliseconds after which this one, if it were alone, would look. */
  interval: number;
  due: number;
  /** When it began to wait. */
  since: number;
  /** Ends the wait: with the server that has changed, or, with nothing, because the interval is over. */
  wake(server?: NovaServer): void;
}

export class SharedLooks {
  /** Watches under way on this worker. */
  watches = 0;
  private readonly waiters = new Map<string, Set<Waiter>>();
  /**
   * Of watches that have ended, for those that follow: lists go on for them, however long a busy worker takes to hand
   * over, until one shows something new.
   */
  private readonly left = new Map<string, { seat: Seat; at: number }>();
  private count = 0;
  private listing = false;
  private hurry: (() => void) | undefined;
  /** Of those who waited when the pause before the next list was reckoned. */
  private shortestInterval = Infinity;
  private listFailures = 0;
  /** A look by id was answered since the list fails. */
  private onlyListFails = false;
  private noListUntil = 0;
  private verifiedAt = 0;
  private lastError: NovaError | undefined;
  private readonly breaker = circuitBreaker(
    handleWhen((error) => error instanceof NovaError && error.retryable),
    { halfOpenAfter: ASK_AGAIN_AFTER, breaker: new ConsecutiveBreaker(FAILURES_IN_A_ROW) },
  );

  constructor(
    private readonly compute: ComputeClient,
    /** Ends the listing. */
    private readonly shutdown: AbortSignal,
  ) {}

  /**
   * One look by id.
   *
   * @returns null when Nova answered 404 twice in a row
   * @throws NovaError of this look, or, while Nova is away, of the last one that asked it
   */
  async look(serverId: string, signal: AbortSignal): Promise<NovaServer | null> {
    for (let look = 1; ; look++) {
      try {
        const server = await this.ask(() => this.compute.getServer(serverId, { signal }));
        this.onlyListFails = this.listFailures > 0;
        return server;
      } catch (error) {
        if (!(error instanceof NovaError && error.kind === 'NotFound')) throw error;
        if (look === 2) return null;
        await delay(SECOND_LOOK_AFTER, undefined, { signal });
      }
    }
  }

  /** @param begun when the look that showed `server` began */
  async seat(server: NovaServer, begun: number, signal: AbortSignal): Promise<Seat> {
    const now = Date.now();
    const ownProjectId = await this.compute.ownProjectId({ signal });
    const projectId = server.tenant_id === ownProjectId ? ownProjectId : null;
    const state = toServerState(server);
    return { serverId: server.id, state, projectId, coveredUntil: begun, listsFrom: now, lookedAt: now };
  }

  /** The seat of a watch that follows another one on the same server, which then need not look by id first. */
  async goOn(
    { serverId, seen, covered }: { serverId: string; seen: ServerState | null; covered?: Covered | undefined },
    signal: AbortSignal,
  ): Promise<Seat | undefined> {
    const left = this.left.get(serverId)?.seat;
    this.left.delete(serverId);
    if (!covered || !seen) return undefined;
    const { projectId, lookedAt } = covered;
    const listed = left && sameState(left.state, seen) ? left.coveredUntil : 0;
    const until = Math.max(covered.until, listed);
    if (Math.abs(Date.now() - until) > LONGEST_REACH) return undefined;
    if (projectId !== (await this.compute.ownProjectId({ signal }))) return undefined;
    return { serverId, state: seen, projectId, coveredUntil: until, listsFrom: until, lookedAt };
  }

  /**
   * Ends a watch.
   *
   * @returns for the one that follows it: `{ covered }`, or nothing where the list does not show the server
   */
  leave(seat: Seat): { covered?: Covered } {
    const { serverId, projectId, coveredUntil: until, lookedAt } = seat;
    if (projectId === null) return {};
    this.left.set(serverId, { seat, at: Date.now() });
    return { covered: { projectId, until, lookedAt } };
  }

  /**
   * Waits until the server shows something else than `seat.state`, or `interval` is over.
   *
   * @param longest milliseconds after which the caller would like to know, if that costs Nova nothing
   * @returns the server as it is now, null when it is gone, 'unchanged' when the list did not show it
   * @throws NovaError of a look by id
   */
  async next(
    seat: Seat,
    interval: number,
    longest: number,
    signal: AbortSignal,
  ): Promise<NovaServer | null | 'unchanged'> {
    const since = Date.now();
    const changed = await this.wait(seat, since, interval, longest, signal);
    if (changed && !mayLackFault(changed)) {
      seat.state = toServerState(changed);
      return changed;
    }
    // Where the others have gone and nobody lists any more, what was covered early in this wait says nothing of its end.
    const isCovered = this.listing && seat.coveredUntil >= since;
    if (!changed && isCovered && !this.mayVerify(seat)) return 'unchanged';
    const begun = Date.now();
    const server = await this.look(seat.serverId, signal);
    const now = Date.now();
    Object.assign(seat, { coveredUntil: begun, listsFrom: now, lookedAt: now });
    if (server) seat.state = toServerState(server);
    return server;
  }

  /** While Nova is away, one of all who want to ask it does. */
  private async ask<T>(request: () => Promise<T>): Promise<T> {
    try {
      return await this.breaker.execute(request);
    } catch (error) {
      if (error instanceof BrokenCircuitError && this.lastError) throw this.lastError;
      if (error instanceof NovaError && error.retryable) this.lastError = error;
      throw error;
    }
  }

  /** Now and then a look by id, as a safety net; of all who wait, one a second at most. */
  private mayVerify(seat: Seat): boolean {
    const now = Date.now();
    if (now - seat.lookedAt < VERIFY_AFTER || now - this.verifiedAt < VERIFY_EVERY) return false;
    this.verifiedAt = now;
    return true;
  }

  private wait(
    seat: Seat,
    since: number,
    interval: number,
    longest: number,
    signal: AbortSignal,
  ): Promise<NovaServer | undefined> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason as Error);
      const leave = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', abort);
        this.remove(waiter);
      };
      const wake = (server?: NovaServer) => (leave(), resolve(server));
      const abort = () => (leave(), reject(signal.reason as Error));
      const waiter = { seat, since, due: since + interval, interval: Math.min(interval, longest), wake };
      let timer = setTimeout(() => {
        if (seat.projectId !== null && this.listing) timer = setTimeout(wake, PATIENCE);
        else wake();
      }, interval);
      signal.addEventListener('abort', abort);
      this.add(waiter);
    });
  }

  private add(waiter: Waiter): void {
    const { seat } = waiter;
    if (seat.projectId === null) return;
    const ofServer = this.waiters.get(seat.serverId) ?? new Set();
    this.waiters.set(seat.serverId, ofServer.add(waiter));
    this.count++;
    if (this.listing) {
      if (waiter.interval < this.shortestInterval) this.hurry?.();
    } else if (this.isListWorthIt()) void this.list();
  }

  private remove(waiter: Waiter): void {
    const { serverId } = waiter.seat;
    const ofServer = this.waiters.get(serverId);
    if (!ofServer?.delete(waiter)) return;
    this.count--;
    if (ofServer.size === 0) this.waiters.delete(serverId);
  }

  private isListWorthIt(): boolean {
    return this.count >= LISTED_FROM && Date.now() >= this.noListUntil && !this.shutdown.aborted;
  }

  private async list(): Promise<void> {
    this.listing = true;
    try {
      while (this.isListWorthIt()) {
        const begun = Date.now();
        await this.listOnce(begun);
        const took = Date.now() - begun;
        await this.pauseUntil(() => {
          this.shortestInterval = Math.min(...this.all().map(({ interval }) => interval));
          return begun + listPause(this.shortestInterval, took);
        });
      }
    } finally {
      this.listing = false;
      if (this.count < LISTED_FROM) this.wakeLate(Infinity);
    }
  }

  /** Those whose interval is over, and who began to wait before the list did. */
  private wakeLate(begun: number): void {
    const now = Date.now();
    for (const waiter of this.all()) if (waiter.due <= now && waiter.since <= begun) waiter.wake();
  }

  private async listOnce(begun: number): Promise<void> {
    for (const [serverId, { at }] of this.left) if (at < begun - LISTED_FOR_NEXT) this.left.delete(serverId);
    const oldest = Math.min(...this.seats().map(({ coveredUntil }) => coveredUntil));
    const from = Math.max(oldest, begun - LONGEST_REACH);
    try {
      const options = { signal: this.shutdown };
      const servers = await this.ask(() => this.compute.listChangedServers(from - LIST_OVERLAP, options));
      this.listFailures = 0;
      this.onlyListFails = false;
      for (const server of servers) this.show(server, begun);
      for (const seat of this.seats()) {
        if (seat.listsFrom <= begun && seat.coveredUntil >= from) seat.coveredUntil = begun;
      }
      this.wakeLate(begun);
    } catch (error) {
      if (this.shutdown.aborted || !(error instanceof NovaError)) return;
      if (error.retryable && ++this.listFailures % FAILURES_IN_A_ROW > 0) return;
      const without = error.retryable && !this.onlyListFails ? ASK_AGAIN_AFTER : WITHOUT_LIST_FOR;
      this.noListUntil = Date.now() + without;
    }
  }

  private show(server: NovaServer, begun: number): void {
    const left = this.left.get(server.id)?.seat;
    if (left && left.listsFrom <= begun && !sameState(left.state, toServerState(server))) this.left.delete(server.id);
    for (const { seat, wake } of this.waiters.get(server.id) ?? []) {
      if (seat.listsFrom > begun || sameState(seat.state, toServerState(server))) continue;
      seat.coveredUntil = begun;
      wake(server);
    }
  }

  /** Until a time that comes nearer when somebody joins who wants to look more often. */
  private async pauseUntil(due: () => number): Promise<void> {
    for (;;) {
      const left = due() - Date.now();
      if (left <= 0 || !this.isListWorthIt()) return;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, left);
        this.hurry = () => (clearTimeout(timer), resolve());
      });
      this.hurry = undefined;
    }
  }

  private seats(): Seat[] {
    return [...this.all().map(({ seat }) => seat), ...[...this.left.values()].map(({ seat }) => seat)];
  }

  private all(): Waiter[] {
    return [...this.waiters.values()].flatMap((ofServer) => [...ofServer]);
  }
}

/**
 * A list takes faults from the database of nova-api's own `[database]`, and not from each server's cell
 * (nova/objects/instance.py, `fill_faults`; measured on Nova 26 (Zed)): why a server is in ERROR, a look by id tells.
 */
function mayLackFault({ status, fault }: NovaServer): boolean {
  return plainStatus(status) === 'ERROR' && fault === undefined;
}
