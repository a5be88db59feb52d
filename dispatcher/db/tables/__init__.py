"""Every table, with the facts that must hold stated as CHECKs.

Migrations build the same schema; a test proves the two equal. Times are ``dispatcher_now()``, the
one SQL function that stands for the database's clock.
"""

from dispatcher.db.tables.access import api_token, idempotency_key, organization
from dispatcher.db.tables.base import NOW, Timestamp, metadata
from dispatcher.db.tables.content import content_bundle, content_chunk
from dispatcher.db.tables.credentials import (
    credential,
    job_credential,
    job_template_credential,
)
from dispatcher.db.tables.jobs import (
    job,
    job_dependency,
    job_event,
    job_host_summary,
    job_input,
    job_progress,
    job_project,
    job_result,
    run_summary,
)
from dispatcher.db.tables.managers import (
    CHANGE_SLOTS,
    change,
    manager_lease,
    manager_request,
    manager_walk,
    schema_info,
)
from dispatcher.db.tables.nodes import (
    instance_group,
    instance_group_node,
    node,
    node_lease,
    node_watch,
)
from dispatcher.db.tables.schedules import pause, schedule, schedule_launch
from dispatcher.db.tables.templates import (
    PROMPTS,
    inventory,
    inventory_group,
    inventory_group_child,
    inventory_group_host,
    inventory_host,
    inventory_source,
    job_template,
    project,
)
from dispatcher.db.tables.workflows import (
    EDGE_KINDS,
    NODE_SPAWNS,
    approval,
    workflow_edge,
    workflow_input,
    workflow_job_template,
    workflow_node,
    workflow_spawn,
    workflow_sweep,
    workflow_template_edge,
    workflow_template_node,
    workflow_touch,
)

__all__ = [
    "CHANGE_SLOTS",
    "EDGE_KINDS",
    "NODE_SPAWNS",
    "NOW",
    "PROMPTS",
    "Timestamp",
    "api_token",
    "approval",
    "change",
    "content_bundle",
    "content_chunk",
    "credential",
    "idempotency_key",
    "instance_group",
    "instance_group_node",
    "inventory",
    "inventory_group",
    "inventory_group_child",
    "inventory_group_host",
    "inventory_host",
    "inventory_source",
    "job",
    "job_credential",
    "job_dependency",
    "job_event",
    "job_host_summary",
    "job_input",
    "job_progress",
    "job_project",
    "job_result",
    "job_template",
    "job_template_credential",
    "manager_lease",
    "manager_request",
    "manager_walk",
    "metadata",
    "node",
    "node_lease",
    "node_watch",
    "organization",
    "pause",
    "project",
    "run_summary",
    "schedule",
    "schedule_launch",
    "schema_info",
    "workflow_edge",
    "workflow_input",
    "workflow_job_template",
    "workflow_node",
    "workflow_spawn",
    "workflow_sweep",
    "workflow_template_edge",
    "workflow_template_node",
    "workflow_touch",
]
