/** What a command prints: text for a person, or with `--json` one document on standard output and the text beside it. */

import type { NovaAddresses } from '../nova';

/** Width of the labels at the beginning of lines. */
const LABEL = 11;

/** What goes on while a command waits. */
export interface Live {
  /** How it stands. On a terminal it replaces what was shown before; a pipe does not show it. */
  now(text: string): void;
  /** A change. A line in a pipe; a terminal shows it by `now`. */
  change(text: string, at: Date): void;
  /** Something to know that is not the workflow's state: a line in both. */
  note(text: string): void;
  end(): void;
}

export class Output {
  private readonly text: NodeJS.WriteStream;

  constructor(readonly json: boolean) {
    this.text = json ? process.stderr : process.stdout;
  }

  /** A label, and lines beside it. */
  say(label: string, ...lines: (string | undefined | false)[]): void {
    for (const line of labelled(label, lines)) this.line(line);
  }

  line(text = ''): void {
    this.text.write(`${text}\n`);
  }

  /** Always on standard error. */
  warn(text: string): void {
    process.stderr.write(`${text}\n`);
  }

  /** The one document of `--json`; nothing without it. */
  document(value: unknown): void {
    if (this.json) process.stdout.write(`${JSON.stringify(value, null, 2)}\n`);
  }

  async live(): Promise<Live> {
    return isTerminal(this.text) ? this.spinner() : this.lines();
  }

  private async spinner(): Promise<Live> {
    const { default: ora } = await import('ora');
    // Standard input is left alone, so that Ctrl-C reaches this process as a signal.
    const spinner = ora({ stream: this.text, discardStdin: false, isEnabled: true }).start();
    return {
      now: (text) => (spinner.text = text),
      change: () => undefined,
      note: (text) => {
        spinner.clear();
        this.line(text);
        spinner.render();
      },
      end: () => spinner.stop(),
    };
  }

  private lines(): Live {
    return {
      now: () => undefined,
      change: (text, at) => this.line(`${clock(at)}  ${text}`),
      note: (text) => this.line(`${clock(new Date())}  ${text}`),
      end: () => undefined,
    };
  }
}

/** A label, and lines beside it; those that are not there are left out. */
export function labelled(label: string, lines: (string | undefined | false)[]): string[] {
  const shown = lines.filter((line): line is string => typeof line === 'string');
  return shown.map((line, index) => `${(index === 0 ? label : '').padEnd(LABEL)}${line}`);
}

/** 'addresses private 10.0.231.27, public 192.0.2.7' */
export function describeAddresses(addresses: NovaAddresses): string {
  const networks = Object.entries(addresses).map(([network, list]) =>
    [network, ...list.map(({ addr }) => addr)].join(' '),
  );
  return `addresses ${networks.join(', ') || 'none'}`;
}

/** One that can show a spinner: ora never ends clearing its line where the width is said to be 0 (a bare pty). */
function isTerminal(stream: NodeJS.WriteStream): boolean {
  return stream.isTTY && stream.columns > 0 && process.env.TERM !== 'dumb' && !process.env.CI;
}

/** '14:05:00Z'; with the date where that is another one than today's. */
export function clock(time: Date): string {
  const iso = time.toISOString();
  const today = new Date().toISOString().slice(0, 10);
  return iso.startsWith(today) ? `${iso.slice(11, 19)}Z` : `${iso.slice(0, 19)}Z`;
}

/** '7 s', '12 min', '3.5 h' since a time. */
export function since(time: Date): string {
  const seconds = Math.max(0, Math.round((Date.now() - time.getTime()) / 1_000));
  if (seconds < 100) return `${seconds} s`;
  return seconds < 6_000 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 360) / 10} h`;
}
