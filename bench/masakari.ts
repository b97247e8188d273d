/** Masakari's API, as far as posting a failure and reading what became of it. */
import { setTimeout as delay } from 'node:timers/promises';
import axios from 'axios';

/** Where it is and who asks; `hosts` are those in its segments: it knows no others. */
export interface Masakari {
  url: string;
  token: string;
  hosts: Set<string>;
}

interface Catalog {
  token: { catalog: { type: string; endpoints: { interface: string; url: string }[] }[] };
}

/** Undefined where the cloud of `OS_*` (a password login) has none. */
export async function findMasakari(env: NodeJS.ProcessEnv): Promise<Masakari | undefined> {
  const domain = (name: string | undefined) => ({ name: name ?? 'Default' });
  const answer = await axios.post<Catalog>(`${env.OS_AUTH_URL}/auth/tokens`, {
    auth: {
      identity: {
        methods: ['password'],
        password: {
          user: { name: env.OS_USERNAME, password: env.OS_PASSWORD, domain: domain(env.OS_USER_DOMAIN_NAME) },
        },
      },
      scope: { project: { name: env.OS_PROJECT_NAME, domain: domain(env.OS_PROJECT_DOMAIN_NAME) } },
    },
  });
  const service = answer.data.token.catalog.find(({ type }) => type === 'instance-ha');
  const url = service?.endpoints.find((endpoint) => endpoint.interface === 'public')?.url;
  if (url === undefined) return undefined;
  const masakari: Masakari = { url, token: String(answer.headers['x-subject-token']), hosts: new Set() };
  try {
    const { segments } = await ask<{ segments: { uuid: string }[] }>(masakari, 'GET', '/segments');
    for (const { uuid } of segments) {
      const { hosts } = await ask<{ hosts: { name: string }[] }>(masakari, 'GET', `/segments/${uuid}/hosts`);
      for (const { name } of hosts) masakari.hosts.add(name);
    }
    return masakari;
  } catch (error) {
    if (axios.isAxiosError(error) && error.response === undefined) return undefined; // in the catalog, but not running
    throw error;
  }
}

/** Posts what its own instance monitor posts when a hypervisor process has died. */
export async function postFailure(masakari: Masakari, instanceId: string, host: string): Promise<string> {
  const { notification } = await ask<{ notification: { notification_uuid: string } }>(
    masakari,
    'POST',
    '/notifications',
    {
      notification: {
        type: 'VM',
        hostname: host,
        generated_time: new Date().toISOString().slice(0, -1),
        payload: { event: 'LIFECYCLE', instance_uuid: instanceId, vir_domain_event: 'STOPPED_FAILED' },
      },
    },
  );
  return notification.notification_uuid;
}

/** Waits until Masakari has done with it. */
export async function finished(masakari: Masakari, notificationId: string): Promise<void> {
  for (;;) {
    const { notification } = await ask<{ notification: { status: string } }>(
      masakari,
      'GET',
      `/notifications/${notificationId}`,
    );
    if (notification.status === 'finished') return;
    if (!['new', 'running'].includes(notification.status)) {
      throw new Error(`Masakari's notification ${notificationId} ended as ${notification.status}`);
    }
    await delay(50);
  }
}

async function ask<T>({ url, token }: Masakari, method: string, path: string, data?: object): Promise<T> {
  return (
    await axios.request<T>({ method, url: url + path, data, headers: { 'X-Auth-Token': token }, timeout: 60_000 })
  ).data;
}
