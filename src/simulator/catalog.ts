/** The little of Glance and Neutron that looking up an image or a network by name needs. */
import { randomUUID } from 'node:crypto';
import { unauthorized } from './compute';
import type { Answer, ServiceRequest } from './message';

/** Glance's `/v2/images`: one public image, 'tiny'. */
export function image(
  request: ServiceRequest,
  imageId: string,
  authenticated: boolean,
  keystoneUrl: string,
  url: string,
): Answer {
  const [version, collection, id] = request.segments;
  const headers = { 'x-openstack-request-id': `req-${randomUUID()}` };
  if (version === undefined) {
    return {
      status: 300,
      body: { versions: [{ id: 'v2.15', status: 'CURRENT', links: [{ rel: 'self', href: `${url}/v2/` }] }] },
    };
  }
  if (!authenticated) return unauthorized(keystoneUrl);
  if (request.method !== 'GET' || version !== 'v2' || collection !== 'images') return { status: 404, headers };
  const tiny = {
    id: imageId,
    name: 'tiny',
    status: 'active',
    visibility: 'public',
    disk_format: 'raw',
    container_format: 'bare',
    size: 1024,
    min_disk: 0,
    min_ram: 0,
    protected: false,
    tags: [],
    created_at: '2026-01-01T00:00:00Z',
    updated_at: '2026-01-01T00:00:00Z',
    self: `/v2/images/${imageId}`,
    file: `/v2/images/${imageId}/file`,
    schema: '/v2/schemas/image',
  };
  if (id === undefined) {
    const images = matching([tiny], request.query);
    return { status: 200, headers, body: { images, first: '/v2/images', schema: '/v2/schemas/images' } };
  }
  return id === imageId
    ? { status: 200, headers, body: tiny }
    : { status: 404, headers, body: `No image found with ID ${id}` };
}

/** Neutron's `/v2.0/networks`: one shared network, 'private'. */
export function network(
  request: ServiceRequest,
  networkId: string,
  authenticated: boolean,
  keystoneUrl: string,
  url: string,
): Answer {
  const [version, collection, id] = request.segments;
  if (version === undefined) {
    return {
      status: 200,
      body: { versions: [{ id: 'v2.0', status: 'CURRENT', links: [{ rel: 'self', href: `${url}/v2.0/` }] }] },
    };
  }
  if (!authenticated) return unauthorized(keystoneUrl);
  if (request.method !== 'GET' || version !== 'v2.0' || collection !== 'networks') return { status: 404 };
  const only = {
    id: networkId,
    name: 'private',
    status: 'ACTIVE',
    admin_state_up: true,
    shared: true,
    'router:external': false,
    subnets: [randomUUID()],
  };
  if (id === undefined) return { status: 200, body: { networks: matching([only], request.query) } };
  if (id === networkId) return { status: 200, body: { network: only } };
  const fault = { type: 'NetworkNotFound', message: `Network ${id} could not be found.`, detail: '' };
  return { status: 404, body: { NeutronError: fault } };
}

function matching<T extends { id: string; name: string }>(items: T[], query: URLSearchParams): T[] {
  return items.filter(
    (item) => (query.get('name') ?? item.name) === item.name && (query.get('id') ?? item.id) === item.id,
  );
}
