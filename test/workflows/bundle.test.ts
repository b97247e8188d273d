import { readFileSync } from 'node:fs';
import * as workflows from '../../src/workflows';
import { workflowBundle } from '../support/temporal';

test('workflow code has no axios, no Node module and no activity in it', async () => {
  const { codePath } = await workflowBundle();
  const modules = [...readFileSync(codePath, 'utf8').matchAll(/^\s*\/?\*?\*?\*?\/ ?"(\.[^"]+|[^"\s]+\.[jt]s)"/gm)].map(
    ([, name]) => name,
  );
  expect(modules.length).toBeGreaterThan(20);
  expect(modules.filter((name) => /axios|node:|\/src\/(nova|activities|simulator)\//.test(name ?? ''))).toEqual([]);
});

test('workflows/ exports workflow types only', () => {
  expect(Object.keys(workflows).filter((name) => !/Workflow$/.test(name))).toEqual([]);
});
