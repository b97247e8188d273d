"""Starts the workflows of temporal-nova by their type names.

    python start.py create order-4711 web-1 FLAVOR_ID IMAGE_ID
    python start.py recover INSTANCE_ID

TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, … say where Temporal is, as for the temporal command.
"""

import asyncio
import os
import sys
from datetime import datetime, timezone

from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowFailureError,
    WorkflowUpdateFailedError,
)
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError

TASK_QUEUE = os.environ.get("TEMPORAL_TASK_QUEUE", "nova")


async def create(client: Client, workflow_id: str, name: str, flavor: str, image: str) -> None:
    """Safe to repeat: one workflow id is one server, until a creation has failed."""
    start = WithStartWorkflowOperation(
        "CreateServerWorkflow",
        {
            "server": {"name": name, "flavorRef": flavor, "imageRef": image, "networks": "auto"},
            "timeout": "30m",
            "onFailure": "delete",
        },
        id=workflow_id,
        task_queue=TASK_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
        static_summary=f"Create server {name}",
    )
    try:
        server_id = await client.execute_update_with_start_workflow("serverId", start_workflow_operation=start)
        print(f"{name} has the id {server_id}")
    except WorkflowAlreadyStartedError:
        print(f"{name} was created before")
        # Else asyncio says on standard error that nobody looked at this one's exception.
        await asyncio.gather(start.workflow_handle(), return_exceptions=True)
    result = await client.get_workflow_handle(workflow_id).result()
    print(f"{result['serverId']} is {result['status']}, addresses {result['addresses']}")


async def recover(client: Client, instance_id: str) -> None:
    """Joins a recovery of the instance that is under way already."""
    notification = {"event": "LIFECYCLE", "generatedTime": datetime.now(timezone.utc).isoformat()}
    handle = await client.start_workflow(
        "RecoverInstanceWorkflow",
        {"instanceId": instance_id, "notification": notification},
        id=f"recover-instance-{instance_id.lower()}",
        task_queue=TASK_QUEUE,
        start_signal="notified",
        start_signal_args=[notification],
        static_summary=f"Recover instance {instance_id}",
    )
    result = await handle.result()
    print(f"{result['outcome']}, {result['reason']}: {result['message']}")


async def main(command: str, *args: str) -> None:
    client = await Client.connect(**ClientConfig.load_client_connect_config())
    try:
        await {"create": create, "recover": recover}[command](client, *args)
    except (WorkflowFailureError, WorkflowUpdateFailedError) as error:
        if not isinstance(error.cause, ApplicationError):
            raise
        sys.exit(f"{error.cause.type}: {error.cause.message}")
    finally:
        # A process that ends with its last answer can crash at its end: temporalio/sdk-python#300.
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
