import { UsageError } from '../../src/cli/errors';
import { parseOptions } from '../../src/demo/options';

const cloud = { OS_CLOUD: 'mine' };

it('takes nothing for the simulated cloud, a build of 8 s and an end', () => {
  expect(parseOptions([], {})).toEqual({ keep: false, cloud: false, help: false, buildSeconds: 8 });
});

it('takes a flavor, an image and a network of a real cloud', () => {
  const args = ['--cloud', '--keep', '--flavor', 'm1.tiny', '--image=debian', '--network', 'none'];
  expect(parseOptions(args, cloud)).toMatchObject({
    keep: true,
    cloud: true,
    flavor: 'm1.tiny',
    image: 'debian',
    network: 'none',
  });
  expect(parseOptions(['--cloud'], { OS_AUTH_URL: 'http://cloud/v3' })).toMatchObject({ cloud: true });
});

it.each([
  [['--kep'], {}, /--kep/],
  [['extra'], {}, /extra/],
  [['--flavor'], cloud, /flavor/],
  [['--cloud'], {}, '--cloud needs OS_CLOUD or OS_AUTH_URL'],
  [['--flavor', 'm1.tiny'], cloud, '--flavor needs --cloud'],
  [['--cloud', '--image', ''], cloud, '--image is empty'],
  [['--build-seconds', 'soon'], {}, '--build-seconds takes a number, not soon'],
  [['--cloud', '--build-seconds', '1'], cloud, '--build-seconds'],
])('refuses %j and says why', (args, env, message) => {
  expect(() => parseOptions(args, env)).toThrow(UsageError);
  expect(() => parseOptions(args, env)).toThrow(message);
});
