"""500 running workflows of 10 nodes each, one after another, on nodes whose jobs take no time.

A node's latency is from the end of the job before it (of the first: the workflow's begin) to its start,
by the database's clock. All 500 move at once: the worst that so many workflows can do to each other.
"""

from __future__ import annotations

from statistics import median, quantiles

from sqlalchemy import Engine, text

from benchmarks.figures import Figure
from benchmarks.instant_node import InstantNodes
from benchmarks.servers import control
from benchmarks.workflows import template
from dispatcher.actions.launch_workflow import WorkflowLaunch, launch_workflows
from dispatcher.broker.messages import Manager, wake
from dispatcher.db.change import raise_counter
from dispatcher.settings import Settings
from tests.factories import make_node
from tests.templates import updated
from tests.waiting import wait_until

WORKFLOWS = 500
NODES = 10


def measure() -> list[Figure]:
    """Seconds, the 95th of a hundred."""
    with control() as (engine, settings):
        return [_figure(latencies(engine, settings), "workflow_node_latency_p95")]


def _figure(times: list[float], name: str) -> Figure:
    words = f"{len(times):,} nodes, median {median(times):.2f}, at most {max(times):.2f} s"
    return Figure(name, quantiles(times, n=20)[-1], "s", words)


def latencies(engine: Engine, settings: Settings, workflows: int = WORKFLOWS) -> list[float]:
    """Run so many workflows at once to their ends."""
    with engine.begin() as connection:
        make_node(connection, "large", capacity=1_000_000, max_jobs=100_000)
        chain = template(connection, "chain", chain=True)
        # the project has been fetched: jobs wait for no update of it
        updated(connection, connection.execute(text("SELECT max(id) FROM project")).scalar_one())
        launches = [WorkflowLaunch(chain, {}, "bench") for _ in range(workflows)]
        launch_workflows(connection, launches)
        raise_counter(connection)
    with InstantNodes(engine, settings, lasts=lambda job: 0.0).running() as nodes:
        nodes.publish(wake(Manager.TASK))
        wait_until(lambda: _ended(engine) == workflows, timeout=300, what="all workflows ended")
    with engine.connect() as connection:
        return [float(seconds) for seconds in connection.scalars(text(_LATENCIES))]


def _ended(engine: Engine) -> int:
    with engine.connect() as connection:
        found = connection.execute(
            text("SELECT count(*) FROM job WHERE kind = 'workflow' AND finished IS NOT NULL")
        )
        return int(found.scalar_one())


_LATENCIES = """
    SELECT EXTRACT(epoch FROM job.waiting_since - coalesce(before.finished, flow.started))
    FROM workflow_node AS n
    JOIN job ON job.id = n.job_id
    JOIN job AS flow ON flow.id = n.workflow_job_id
    LEFT JOIN workflow_edge ON child_id = n.id
    LEFT JOIN workflow_node AS parent ON parent.id = parent_id
    LEFT JOIN job AS before ON before.id = parent.job_id
"""
