import { FAST, failureOf, TestBed } from '../support/bed';

let bed: TestBed;
beforeAll(async () => {
  bed = await TestBed.make();
});
afterAll(() => bed.stop());

test('a server comes up, and the result says where', async () => {
  const handle = await bed.create();
  const result = await handle.result();
  const server = bed.cloud.server(result.serverId);
  expect(result).toMatchObject({ name: 'web-1', status: 'ACTIVE', host: null, attempts: 1 });
  expect(server.status).toBe('ACTIVE');
  console.log(JSON.stringify(result.observations), (await handle.fetchHistory()).events?.length);
});
