// `npm run check:audit`: known vulnerabilities in what a user of this package installs with it. Fails from severity high
// on. A registry without npm's audit (a mirror, a proxy) can't be asked: that is said, and passes.
import { spawnSync } from 'node:child_process';

const { stdout, stderr } = spawnSync('npm', ['audit', '--omit=dev', '--json'], { encoding: 'utf8' });
let report;
try {
  report = JSON.parse(stdout);
} catch {
  console.error(stdout + stderr);
  process.exit(1);
}

if (!report.metadata) {
  const { message, error } = report;
  if (error?.code) {
    // npm's own: no lock file, for example
    console.error(`${error.code}: ${error.summary}`);
    process.exit(1);
  }
  console.log(`audit: NOT CHECKED, the registry can't be asked: ${message}`);
  process.exit(0);
}

const { total, high, critical } = report.metadata.vulnerabilities;
for (const { name, severity, via } of Object.values(report.vulnerabilities)) {
  const advisories = via.filter((cause) => typeof cause === 'object').map(({ title, url }) => `${title}, ${url}`);
  if (advisories.length > 0) console.log(`${severity}: ${name}: ${advisories.join('; ')}`);
}
console.log(`audit: ${total} vulnerabilities, ${high + critical} of them high or critical`);
process.exitCode = high + critical > 0 ? 1 : 0;
