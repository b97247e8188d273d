// `npm run check:package`, after a build: the tarball's size; that its manifest holds (publint); and that its types are
// found by CommonJS and ESM under each `moduleResolution` of TypeScript (attw).
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath, URL } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = mkdtempSync(path.join(tmpdir(), 'temporal-nova-package-'));

function run(command, args, options) {
  const { status, stdout, error } = spawnSync(command, args, { cwd: root, encoding: 'utf8', ...options });
  if (error) throw error;
  return { ok: status === 0, stdout };
}

try {
  // Without scripts: it is built.
  const packed = run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder]);
  const [{ filename, size, unpackedSize, entryCount }] = JSON.parse(packed.stdout);
  const tarball = path.join(folder, filename);
  const checks = [
    ['publint', '--strict'],
    ['attw', '--format', 'table-flipped'],
  ].map(([command, ...args]) => run(command, [...args, tarball], { stdio: 'inherit' }).ok);
  const kB = (bytes) => `${Math.round(bytes / 1000)} kB`;
  console.log(`package: ${kB(size)} packed, ${kB(unpackedSize)} unpacked, ${entryCount} files`);
  process.exitCode = checks.every(Boolean) ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true });
}
