/** Starts a Temporal server, prints its pid, and stays, or ends as the argument says. */
import { startTemporalServer } from '../../src/demo/temporal-server';

void startTemporalServer({ port: 0 }).then(({ pid }) => {
  console.log(pid);
  if (process.argv[2] === 'throw') {
    setTimeout(() => {
      throw new Error('a crash');
    }, 100);
  } else if (process.argv[2] === 'stay') {
    setInterval(() => undefined, 1_000);
  } // else it ends by itself: a running server is no reason to stay
});
