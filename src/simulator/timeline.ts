/** What will happen to an instance: moments in the order of their time. No timer runs for them. */

export interface Moment {
  /** Milliseconds since the epoch; Infinity: never. */
  at: number;
  pass: (at: number) => void;
}

export class Timeline {
  private moments: readonly Moment[] = [];
  private next = 0;
  private due = Infinity;

  /** Puts these in the place of all that was still to come. They must be in order. */
  replace(moments: readonly Moment[]): void {
    this.moments = moments;
    this.next = 0;
    this.due = moments[0]?.at ?? Infinity;
  }

  /** The moment furthest away. */
  get last(): Moment | undefined {
    return this.next < this.moments.length ? this.moments.at(-1) : undefined;
  }

  /** Takes out the next moment that is due. Cheap when none is. */
  take(now: number): Moment | undefined {
    if (this.due > now || this.due === Infinity) return undefined;
    const moment = this.moments[this.next++];
    this.due = this.moments[this.next]?.at ?? Infinity;
    return moment;
  }
}
