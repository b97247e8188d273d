/** Made up: see host.ts. */
declare module 'temporal-nova-host/user-workflows' {
  const workflows: Record<string, unknown>;
  export = workflows;
}
