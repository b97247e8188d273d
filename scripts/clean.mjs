// Part of `npm run build`: what was built from files that are gone, or was edited, must not stay in lib/.
import { rm } from 'node:fs/promises';
import { URL } from 'node:url';

await rm(new URL('../lib/', import.meta.url), { recursive: true, force: true });
