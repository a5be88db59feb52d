"""Every table, with the facts that must hold stated as CHECKs.

Migrations build the same schema; a test proves the two equal. Times are ``dispatcher_now()``, the
one SQL function that stands for the database's clock.
"""

from dispatcher.db.tables.access import api_token, idempotency_key, organization
from dispatcher.db.tables.base import NOW, Timestamp, metadata
from dispatcher.db.tables.content import content_bundle, content_chunk
from dispatcher.db.tables.jobs import (
    job,
    job_dependency,
    job_event,
    job_host_summary,
    job_input,
    job_progress,
    job_result,
)
from dispatcher.db.tables.managers import (
    CHANGE_SLOTS,
    LEASES,
    MANAGERS,
    change,
    manager_lease,
    manager_request,
    schema_info,
)
from dispatcher.db.tables.nodes import (
    instance_group,
    instance_group_node,
    node,
    node_lease,
    node_watch,
)
from dispatcher.db.tables.workflows import workflow_node, workflow_touch

__all__ = [
    "CHANGE_SLOTS",
    "LEASES",
    "MANAGERS",
    "NOW",
    "Timestamp",
    "api_token",
    "change",
    "content_bundle",
    "content_chunk",
    "idempotency_key",
    "instance_group",
    "instance_group_node",
    "job",
    "job_dependency",
    "job_event",
    "job_host_summary",
    "job_input",
    "job_progress",
    "job_result",
    "manager_lease",
    "manager_request",
    "metadata",
    "node",
    "node_lease",
    "node_watch",
    "organization",
    "schema_info",
    "workflow_node",
    "workflow_touch",
]
