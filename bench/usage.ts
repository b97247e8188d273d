/** What a process has used so far; read from /proc, so on Linux only. */
import { readFileSync } from 'node:fs';

export interface Usage {
  /** Seconds of one core. */
  cpu: number;
  /** Resident memory at its peak, in bytes. */
  memory: number;
}

const TICKS_A_SECOND = 100;

export function usageOf(pid: number | undefined): Usage {
  if (pid === undefined) return { cpu: NaN, memory: NaN };
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const peak = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return { cpu: (Number(fields[11]) + Number(fields[12])) / TICKS_A_SECOND, memory: Number(peak) * 1024 };
}

/** The sum of a counter on a Prometheus page. */
export async function counter(url: string, name: string): Promise<number> {
  const page = await (await fetch(url)).text();
  const lines = page.split('\n').filter((line) => line.startsWith(`${name}{`));
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}
