/**
 * Side by side with what people use today, each as its documentation says, against clouds of the same make: a calm run,
 * one contender after the other, then mishaps. A column for each contender; `bench/peers/contenders.ts` says how each is
 * run. What can't be installed has an empty column that says why.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault, SimulatedCloud } from '../src/simulator';
import type { Measure } from './main';
import {
  gophercloud,
  openstackclient,
  openstacksdk,
  ours,
  type Bed,
  type Contender,
  type Told,
} from './peers/contenders';
import { buildGophercloud, installPython } from './peers/install';
import { quantile } from './stage';

const COUNTS = { measure: 200, mishap: 50 };
/** Each is a process that takes over a second of CPU: 200 of them would measure this machine. */
const COUNTS_OF_PROCESSES = { measure: 20, mishap: 5 };
/**
 * Spread evenly between: with one length for all, an interval between looks that happens to divide it would decide the
 * lag.
 */
const BUILD_SECONDS = { least: 7.5, most: 12.5 };
const OUTAGE_SECONDS = 10;
const LOST_SHARE = 0.2;
/** Who has been told nothing by then, is told nothing. */
const PATIENCE_SECONDS = 60;

const UNAVAILABLE: Fault['answer'] = {
  status: 503,
  body: '<html><body><h1>503 Service Unavailable</h1></body></html>',
};
const TOO_MANY: Fault['answer'] = {
  status: 429,
  headers: { 'Retry-After': '2' },
  body: { overLimit: { code: 429, message: 'This request was rate-limited.', retryAfter: '2' } },
};

const MEASURES = [
  'servers at once',
  'lag behind ACTIVE, p50 · p99',
  'Nova requests for each server',
  'CPU of the process, from its start',
  'its peak memory',
  'CPU · peak memory of the Temporal server',
];

interface Mishap {
  what: string;
  /** Default false. */
  retries?: boolean;
  run: (bed: Bed, count: number) => Promise<string>;
}

const MISHAPS: Mishap[] = [
  { what: `Nova answers 503 for ${OUTAGE_SECONDS} s: waits failed`, run: outage(UNAVAILABLE) },
  { what: 'the same, what it has of retries turned on', retries: true, run: outage(UNAVAILABLE) },
  { what: `Nova answers 429 with Retry-After for ${OUTAGE_SECONDS} s: waits failed`, run: outage(TOO_MANY) },
  { what: 'the same, what it has of retries turned on', retries: true, run: outage(TOO_MANY) },
  { what: `answers to ${LOST_SHARE * 100} % of the POSTs lost: asked for · made · unknown`, run: answersLost },
  { what: 'SIGKILL in the builds, started again: asked for · made · unknown', run: killedInBuilds },
  { what: 'SIGKILL while its POSTs are unanswered, started again: the same', run: killedInPosts },
];

type Column = [title: string, ...cells: string[]];

export async function benchPeers(): Promise<Measure[]> {
  const columns: Column[] = [];
  for (const contender of await contenders()) columns.push(await column(contender));
  return ['', ...MEASURES, ...MISHAPS.map(({ what }) => what)].map((what, row) => ({
    what,
    value: columns.map((cells) => cells[row] ?? '').join(' | '),
    aim: '',
  }));
}

/** A peer that is not there has its title, which says why. */
async function contenders(): Promise<(Contender | string)[]> {
  const absent = (names: string[]) => (error: unknown) =>
    names.map((name) => `${name}: not installed (${oneLine(error)})`);
  const python = await installPython(console.error).then(
    (installed) => [
      openstacksdk(installed.openstacksdk, COUNTS),
      openstackclient(installed.openstackclient, COUNTS_OF_PROCESSES),
    ],
    absent(['openstacksdk', 'openstackclient']),
  );
  const go = await buildGophercloud(console.error).then(
    (installed) => [gophercloud(installed, COUNTS)],
    absent(['gophercloud']),
  );
  return [
    ours('temporal-nova', COUNTS),
    ours('temporal-nova, looking every 0.5 s', { measure: COUNTS.measure, mishap: 0 }, SOON),
    ...python,
    ...go,
  ];
}

const SOON = { initialInterval: '500ms', maximumInterval: '500ms' } as const;

async function column(contender: Contender | string): Promise<Column> {
  if (typeof contender === 'string') return [contender];
  const { name, counts } = contender;
  console.error(`${name} …`);
  const calm = await onBed(contender, false, (bed) => measure(bed, counts.measure));
  if (counts.mishap === 0) return [name, ...calm];
  // At once: nothing in them depends on how busy this machine is.
  const mishaps = MISHAPS.map(({ run, retries = false }) =>
    onBed(contender, retries, (bed) => run(bed, counts.mishap)).catch((error: unknown) => oneLine(error)),
  );
  return [name, ...calm, ...(await Promise.all(mishaps))];
}

async function onBed<T>({ open }: Contender, retries: boolean, run: (bed: Bed) => Promise<T>): Promise<T> {
  const bed = await open(retries);
  try {
    return await run(bed);
  } finally {
    await bed.close();
  }
}

async function measure(bed: Bed, count: number): Promise<string[]> {
  const { cloud, told } = bed;
  bed.start(count);
  const builds = buildOneByOne(cloud);
  await allTold(told, count);
  clearInterval(builds);
  const { cpu, memory } = bed.used();
  const temporal = bed.usedByTemporal();
  const lags = told.flatMap(({ id, at }) =>
    id === undefined ? [] : [(at - (cloud.server(id).activeAt ?? NaN)) / 1000],
  );
  lags.sort((a, b) => a - b);
  const asked = cloud.requests.filter(({ service }) => service === 'compute').length;
  return [
    lags.length === count ? `${count}` : `${count}, of which ${count - lags.length} failed`,
    `${quantile(lags, 0.5)} · ${quantile(lags, 0.99)} s`,
    (asked / count).toFixed(1),
    `${cpu.toFixed(1)} s`,
    mebibytes(memory),
    temporal === undefined ? '' : `${temporal.cpu.toFixed(1)} s · ${mebibytes(temporal.memory)}`,
  ];
}

/** Ends each build when its time has come. */
function buildOneByOne(cloud: SimulatedCloud): NodeJS.Timeout {
  const seen = new Set<string>();
  return setInterval(() => {
    for (const { id, createdAt } of cloud.servers()) {
      if (seen.has(id)) continue;
      // Multiples of the golden ratio, without their whole part, are spread evenly, however many there are.
      const share = (seen.size * 0.618034) % 1;
      seen.add(id);
      const seconds = BUILD_SECONDS.least + share * (BUILD_SECONDS.most - BUILD_SECONDS.least);
      setTimeout(() => cloud.finishBuild(id), createdAt + seconds * 1000 - Date.now());
    }
  }, 100);
}

/** All servers are being built when it begins, become ACTIVE in the middle of it, and Nova is back after it. */
function outage(answer: Fault['answer']): Mishap['run'] {
  return async (bed, count) => {
    const { cloud, told } = bed;
    bed.start(count);
    await allMade(cloud, count);
    await sleep(2_000);
    const fault = cloud.inject({ service: 'compute', answer, times: Infinity });
    await sleep((OUTAGE_SECONDS / 2) * 1000);
    finishBuilds(cloud);
    await sleep((OUTAGE_SECONDS / 2) * 1000);
    fault.remove();
    await allTold(told, count);
    return `${count - told.filter(({ id }) => id !== undefined).length} of ${count}`;
  };
}

/** Nova carries the POSTs out, and the connection is reset before the answer has come. */
async function answersLost(bed: Bed, count: number): Promise<string> {
  const times = count * LOST_SHARE;
  bed.cloud.inject({ method: 'POST', path: /\/servers$/, carriedOut: true, reset: true, times });
  bed.start(count);
  return outcome(bed, count);
}

async function killedInBuilds(bed: Bed, count: number): Promise<string> {
  bed.start(count);
  await allMade(bed.cloud, count);
  await sleep(5_000);
  await bed.kill();
  await bed.restart();
  return outcome(bed, count);
}

async function killedInPosts(bed: Bed, count: number): Promise<string> {
  const fault = { method: 'POST', path: /\/servers$/, carriedOut: true, delaySeconds: 300, reset: true };
  const unanswered = bed.cloud.inject({ ...fault, times: Infinity });
  bed.start(count);
  await allMade(bed.cloud, count);
  unanswered.remove();
  await bed.kill();
  await bed.restart();
  return outcome(bed, count);
}

/** How many servers there are once everybody has been told, and how many of them are known to nobody. */
async function outcome({ cloud, told }: Bed, count: number): Promise<string> {
  const builds = setInterval(() => finishBuilds(cloud), 1_000);
  await allTold(told, count);
  clearInterval(builds);
  const known = new Set(told.map(({ id }) => id));
  const made = cloud.servers();
  return `${count} · ${made.length} · ${made.filter(({ id }) => !known.has(id)).length}`;
}

function finishBuilds(cloud: SimulatedCloud): void {
  for (const { id, status } of cloud.servers()) if (status === 'BUILD') cloud.finishBuild(id);
}

async function allMade(cloud: SimulatedCloud, count: number): Promise<void> {
  await until(() => cloud.servers().length >= count);
  if (cloud.servers().length < count) throw new Error(`only ${cloud.servers().length} of ${count} servers were made`);
}

async function allTold(told: readonly Told[], count: number): Promise<void> {
  await until(() => told.length >= count);
}

async function until(isSo: () => boolean): Promise<void> {
  for (const end = Date.now() + PATIENCE_SECONDS * 1000; !isSo() && Date.now() < end;) await sleep(100);
}

function mebibytes(bytes: number): string {
  return `${Math.round(bytes / 2 ** 20)} MiB`;
}

/** As a cell of the table. */
function oneLine(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message.trim().replace(/\s+/g, ' ').replaceAll('|', '/');
}
