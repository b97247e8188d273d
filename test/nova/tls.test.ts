import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { ComputeClient } from '../../src/nova';
import { createComputeClient, loadCloudConfig } from '../../src/nova';
import { failureOf } from './support/failure';
import { ScriptedCloud } from './support/scripted-cloud';

const folder = mkdtempSync(join(tmpdir(), 'nova-tls-'));

/** A self-signed certificate for 127.0.0.1; undefined where there is no openssl. */
function certificate(name: string, address: string): { key: Buffer; cert: Buffer; path: string } | undefined {
  const path = join(folder, `${name}.pem`);
  const key = join(folder, `${name}.key`);
  const command = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  try {
    execFileSync(
      'openssl',
      [...command, ...['-subj', `/CN=${name}`, '-addext', `subjectAltName=${address}`, '-keyout', key, '-out', path]],
      { stdio: 'pipe' },
    );
  } catch {
    return undefined;
  }
  return { key: readFileSync(key), cert: readFileSync(path), path };
}

const good = certificate('good', 'IP:127.0.0.1');
const other = certificate('other', 'IP:10.1.2.3');
const withOpenssl = good && other ? describe : describe.skip;
if (!good) console.warn('skipped: the TLS tests need the openssl command (apt install openssl)');

withOpenssl('a cloud behind a certificate of its own', () => {
  let cloud: ScriptedCloud;
  let client: ComputeClient | undefined;
  afterEach(async () => {
    client?.close();
    await ScriptedCloud.stopAll();
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  async function connect(tls: typeof good, env: Record<string, string>): Promise<ComputeClient> {
    cloud = await ScriptedCloud.start(tls);
    const config = loadCloudConfig(cloud.env(env));
    expect(config.insecure).toBe('OS_INSECURE' in env);
    return (client = createComputeClient(config, { timeoutMs: 5_000 }));
  }

  test('is not trusted by default, and gets no credentials', async () => {
    const error = await failureOf((await connect(good, {})).check());
    expect(error).toMatchObject({ kind: 'Unavailable', details: { outcomeUnknown: false } });
    expect(error.message).toMatch(
      /^Keystone at 127.0.0.1:\d+ has a certificate that is not trusted \(DEPTH_ZERO_SELF_SIGNED_CERT\), for POST .*OS_CACERT/,
    );
    expect(cloud.requests).toEqual([]);
  });

  test('is trusted with its CA in OS_CACERT', async () => {
    await expect((await connect(good, { OS_CACERT: good?.path ?? '' })).microversion()).resolves.toBe('2.93');
  });

  test('is not trusted with another CA in OS_CACERT', async () => {
    await expect(failureOf((await connect(good, { OS_CACERT: other?.path ?? '' })).check())).resolves.toMatchObject({
      message: expect.stringContaining('DEPTH_ZERO_SELF_SIGNED_CERT') as string,
    });
  });

  test('is not trusted for another address than the one it names', async () => {
    await expect(failureOf((await connect(other, { OS_CACERT: other?.path ?? '' })).check())).resolves.toMatchObject({
      message: expect.stringContaining('ERR_TLS_CERT_ALTNAME_INVALID') as string,
      details: { outcomeUnknown: false },
    });
    expect(cloud.requests).toEqual([]);
  });

  test('is used all the same with OS_INSECURE', async () => {
    await expect((await connect(other, { OS_INSECURE: 'true' })).microversion()).resolves.toBe('2.93');
  });
});
