/** The cloud of the `OS_*` settings, and what a person calls things in it. */
import {
  createComputeClient,
  loadCloudConfig,
  loadNamedCloud,
  type ComputeClient,
  type NovaServerRequest,
} from '../nova';
import { UsageError } from './errors';

const ANSWER_WITHIN_MS = 10_000;
/** Of the names that an error lists. */
const LISTED = 20;

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export function isUuid(text: string): boolean {
  return UUID.test(text);
}

/** Whether the environment says which cloud. */
export function hasCloud(env: NodeJS.ProcessEnv = process.env): boolean {
  return Boolean(env.OS_CLOUD || env.OS_AUTH_URL);
}

/**
 * @param name in `clouds.yaml`; default: the cloud of the `OS_*` settings
 * @throws NovaError `Configuration` when the settings are wrong
 */
export async function withCloud<T>(work: (compute: ComputeClient) => Promise<T>, name?: string): Promise<T> {
  const config = name === undefined ? loadCloudConfig() : loadNamedCloud(name);
  if (config.insecure) {
    process.stderr.write('OS_INSECURE is set: TLS certificates of OpenStack are not verified\n');
  }
  const compute = createComputeClient(config, { timeoutMs: ANSWER_WITHIN_MS });
  try {
    return await work(compute);
  } finally {
    compute.close();
  }
}

/** What a server is made of, by name or id. */
export interface Wanted {
  flavor: string;
  image: string;
  /** `['none']`, `['auto']`, or names and ids of networks. */
  networks: string[];
  /** Where they are; default: the cloud of the `OS_*` settings. */
  cloud?: string | undefined;
}

export type Chosen = Required<Pick<NovaServerRequest, 'flavorRef' | 'imageRef' | 'networks'>>;

/**
 * The ids behind names. A UUID is taken as it is, for Nova to judge: the lists lack what is there but not shown to
 * everybody, such as a community image. So with UUIDs alone no cloud is asked.
 *
 * @throws UsageError for a name that is not there, or that more than one has; says what there is
 */
export async function chooseServer({ flavor, image, networks, cloud }: Wanted): Promise<Chosen> {
  const special = networks.find((network) => network === 'auto' || network === 'none');
  if (special && networks.length > 1) throw new UsageError(`--network ${special} goes with no other --network`);
  const named = special ? [] : networks;
  if ([flavor, image, ...named].every(isUuid)) return request(flavor, image, special, named);
  return withCloud(async (compute) => {
    const [flavors, images, nets] = await Promise.all([
      isUuid(flavor) ? [] : compute.listFlavors(),
      isUuid(image) ? [] : compute.listImages(),
      named.every(isUuid) ? [] : compute.listNetworks(),
    ]);
    return request(
      choose('flavor', flavor, flavors),
      choose('image', image, images),
      special,
      named.map((network) => choose('network', network, nets)),
    );
  }, cloud);
}

function request(flavorRef: string, imageRef: string, special: string | undefined, networks: string[]): Chosen {
  return {
    flavorRef,
    imageRef,
    networks: (special as 'auto' | 'none' | undefined) ?? networks.map((uuid) => ({ uuid })),
  };
}

/**
 * @param what for the error: 'flavor'
 * @returns an id
 * @throws UsageError where no item, or more than one, is called that
 */
export function choose(what: string, wanted: string, items: readonly { id: string; name: string | null }[]): string {
  if (isUuid(wanted) || items.some(({ id }) => id === wanted)) return wanted;
  const found = items.filter(({ name }) => name === wanted);
  if (found.length > 1) {
    throw new UsageError(
      `${found.length} ${what}s are called "${wanted}": say which by id, ${listed(found.map(({ id }) => id))}`,
    );
  }
  if (found[0]) return found[0].id;
  const names = items.map(({ id, name }) => name || id).sort();
  throw new UsageError(`this cloud has no ${what} "${wanted}"; it has ${listed(names) || 'none'}`);
}

function listed(names: string[]): string {
  const more = names.length - LISTED;
  return names.slice(0, LISTED).join(', ') + (more > 0 ? ` and ${more} more` : '');
}
