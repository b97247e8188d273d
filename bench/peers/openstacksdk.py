"""COUNT servers at once with openstacksdk's create_server(wait=True), a thread each on one connection.

Prints a line of JSON for each server when its call has returned. The cloud is that of OS_*.
"""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import openstack

prefix, count, flavor_id, image_id, network_id = sys.argv[1:]
connection = openstack.connect(load_yaml_config=False)
# Looked up once: with ids in their place, each call would look all three up again.
flavor = connection.compute.get_flavor(flavor_id)
image = connection.image.get_image(image_id)
network = connection.network.get_network(network_id)


def create(name):
    try:
        server = connection.create_server(
            name, image=image, flavor=flavor, network=network, auto_ip=False, wait=True, timeout=3600
        )
        line = {'name': name, 'id': server.id}
    except Exception as error:
        line = {'name': name, 'error': f'{type(error).__name__}: {error}'}
    line['at'] = time.time() * 1000
    # In one write: lines of two threads must not run into each other.
    sys.stdout.write(json.dumps(line) + '\n')
    sys.stdout.flush()


with ThreadPoolExecutor(int(count)) as pool:
    list(pool.map(create, [f'{prefix}-{i}' for i in range(int(count))]))
