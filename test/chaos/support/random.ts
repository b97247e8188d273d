/** Chance that can be repeated: `TEMPORAL_NOVA_CHAOS_SEED`, and one generator for each thing that draws from it. */
import { createHash } from 'node:crypto';

const seed = process.env.TEMPORAL_NOVA_CHAOS_SEED ?? '0';

export class Random {
  private state: number;

  /** The same name and seed draw the same numbers, whatever else is drawn. */
  constructor(name: string) {
    this.state = createHash('sha256').update(`${seed}:${name}`).digest().readUInt32LE();
  }

  /** At least 0, below 1. (mulberry32) */
  next = (): number => {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let t = this.state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };

  between(low: number, high: number): number {
    return low + this.next() * (high - low);
  }

  of<T>(choices: readonly T[]): T {
    return choices[Math.floor(this.next() * choices.length)]!;
  }
}
