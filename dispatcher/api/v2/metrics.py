"""``metrics/``: this process's metrics, and the cluster's gauges, read when they are asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Connection

from dispatcher.api.auth import CallerParameter
from dispatcher.db import node_queries, queue_stats
from dispatcher.domain.node_state import capacity_of, takes_jobs
from dispatcher.health import metrics_text

router = APIRouter(prefix="/api/v2/metrics", tags=["cluster"])


class _Cluster(Collector):
    """The gauges to scale by, as they were in one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._pending = queue_stats.read_pending(connection)
        self._active = queue_stats.read_active(connection)
        self._nodes = {row["id"]: row for row in node_queries.read_nodes(connection)}
        self._groups = {row["id"]: row["name"] for row in node_queries.read_groups(connection)}
        self._members = node_queries.read_members(connection)

    def collect(self) -> Iterable[Metric]:
        pending = GaugeMetricFamily(
            "dispatcher_jobs_pending", "Pending jobs", labels=["group", "reason"]
        )
        oldest: dict[str, float] = dict.fromkeys(self._groups.values(), 0.0)
        for entry in self._pending:
            pending.add_metric([entry.group, entry.reason], entry.jobs)
            oldest[entry.group] = max(oldest.get(entry.group, 0.0), entry.oldest)
        yield pending
        yield _by_label(
            "dispatcher_oldest_pending_seconds", "Age of the oldest pending job", "group", oldest
        )
        yield _by_label(
            "dispatcher_capacity_free",
            "Capacity that jobs could take now, on nodes that take jobs",
            "group",
            self._free(),
        )
        active = GaugeMetricFamily(
            "dispatcher_jobs_active", "Waiting and running jobs", labels=["node", "status"]
        )
        for node, status, jobs in self._active:
            active.add_metric([node, status], jobs)
        yield active
        running = {row["name"]: 0.0 for row in self._nodes.values()}
        running |= {node: jobs for node, status, jobs in self._active if status == "running"}
        yield _by_label("dispatcher_jobs_running", "Running jobs", "node", running)
        ready = {row["name"]: float(takes_jobs(row)) for row in self._nodes.values()}
        yield _by_label("dispatcher_node_takes_jobs", "1 for nodes that take jobs", "node", ready)

    def _free(self) -> dict[str, float]:
        free: dict[str, float] = defaultdict(float, dict.fromkeys(self._groups.values(), 0.0))
        for group_id, node_id in self._members:
            row = self._nodes.get(node_id)
            if row is not None and takes_jobs(row):
                free[self._groups[group_id]] += max(0, capacity_of(row) - row["consumed"])
        return free


def _by_label(name: str, words: str, label: str, values: dict[str, float]) -> Metric:
    family = GaugeMetricFamily(name, words, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family


@router.get(
    "/",
    summary="Metrics in Prometheus' text form",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def get_metrics(caller: CallerParameter) -> Response:
    """Of this server's process: requests, streams, submissions. Of the cluster: pending jobs by
    group and reason, free capacity by group, age of the oldest pending job, jobs by node."""
    cluster = CollectorRegistry(auto_describe=False)
    with caller.reading() as connection:
        cluster.register(_Cluster(connection))
    text = metrics_text() + generate_latest(cluster)
    return Response(text, media_type=CONTENT_TYPE_LATEST)
