// `npm run check:licences`: what a user of this package installs with it, peers included, is under a licence of this list.
import { createRequire } from 'node:module';
import { fileURLToPath, URL } from 'node:url';
import { promisify } from 'node:util';

const require = createRequire(import.meta.url);
const checker = require('license-checker-rseidelsohn');

/** They ask for no more than to be named. Names as in SPDX, and one that a package has made up. */
const ALLOWED = new Set([
  '0BSD',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'CC-BY-4.0',
  'ISC',
  'MIT',
  'Public Domain',
  'Unlicense',
]);

/** Of `A AND B` both, of `A OR B` one. Anything with more in it, or guessed from a text (`MIT*`), a person has to read. */
function isAllowed(licences) {
  const names = [licences].flat().map((name) => name.replace(/^\((.*)\)$/, '$1'));
  return names.every((name) => {
    if (ALLOWED.has(name)) return true;
    const [both, either] = [name.split(' AND '), name.split(' OR ')];
    return both.length > 1 ? both.every((part) => ALLOWED.has(part)) : either.some((part) => ALLOWED.has(part));
  });
}

const packages = await promisify(checker.init)({
  start: fileURLToPath(new URL('..', import.meta.url)),
  production: true,
});
const refused = Object.entries(packages).filter(([, { licenses }]) => !isAllowed(licenses));
for (const [name, { licenses, path }] of refused) console.error(`${name}: ${licenses} (${path})`);
console.log(`licences: ${Object.keys(packages).length - refused.length} packages allowed, ${refused.length} not`);
process.exitCode = refused.length > 0 ? 1 : 0;
