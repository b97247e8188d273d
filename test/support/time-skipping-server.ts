/** The time-skipping test server, on which a wait of days takes seconds: found or got. */
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { cached, findCached, run, sdkDownload, sdkDownloadName, type Log } from '../../src/demo/tool-cache';

const VERSION = '1.38.0';
/** A folder in the cache: the server's jars, and a script that runs it. */
const JAVA_SERVER = `temporal-test-server-${VERSION}`;
const SCRIPT = 'temporal-test-server';

export const HOW_TO_INSTALL = 'install Java 17 or later and Maven';

const POM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>temporal-nova</groupId>
  <artifactId>test-server</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>io.temporal</groupId>
      <artifactId>temporal-test-server</artifactId>
      <version>${VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-nop</artifactId>
      <version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
`;

/**
 * Called by the SDK as its own binary would be, with the port as first argument. The SDK ends it by SIGKILL, so java
 * takes the place of the shell; a test process that is killed itself can't end it: then a watcher does.
 */
const RUN_SERVER = `#!/bin/sh
parent=$PPID
server=$$
(
  while kill -0 "$parent" && kill -0 "$server"; do sleep 0.3; done
  kill -KILL "$server"
) </dev/null >/dev/null 2>&1 &
exec java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$(dirname "$0")/lib/*" io.temporal.testserver.TestServer "$@"
`;

/**
 * The first of: a copy in the cache, the Temporal SDK's own download, the Java one from Maven Central.
 *
 * @returns the path of an executable, for `createTimeSkipping({ server: { executable: { type: 'existing-path', path } } })`
 * @throws Error that says what was tried
 */
export async function findTimeSkippingServer(log: Log): Promise<string> {
  const downloaded = await findCached(sdkDownloadName('temporal-test-server'));
  if (downloaded) return downloaded;
  const installed = await findCached(JAVA_SERVER);
  if (installed) return path.join(installed, SCRIPT);

  const tried: string[] = [];
  for (const get of [() => sdkDownload('time-skipping', log), () => mavenDownload(log)]) {
    try {
      return await get();
    } catch (error) {
      tried.push(error instanceof Error ? error.message : String(error));
    }
  }
  throw new Error(tried.join('; '));
}

async function mavenDownload(log: Log): Promise<string> {
  if (process.platform === 'win32') throw new Error('the Java server is started by a shell script');
  const what = 'getting the time-skipping test server with Maven (once)';
  const folder = await cached(
    JAVA_SERVER,
    async (work) => {
      await run('java', 'java', ['-version'], log); // else Maven's half a minute is for nothing
      log(what);
      const made = path.join(work, JAVA_SERVER);
      await mkdir(made);
      await writeFile(path.join(work, 'pom.xml'), POM);
      await run(what, 'mvn', ['-B', '-q', 'dependency:copy-dependencies', `-DoutputDirectory=${made}/lib`], log, {
        cwd: work,
      });
      await writeFile(path.join(made, SCRIPT), RUN_SERVER);
      await chmod(path.join(made, SCRIPT), 0o755);
      return made;
    },
    log,
  );
  return path.join(folder, SCRIPT);
}
