"""``/metrics``: the names that dashboards of the old service know, beside those of this process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dispatcher import clock
from dispatcher.api.v1.call import Call, Route
from dispatcher.api.v1.envelope import Answer
from dispatcher.db import run_counts
from dispatcher.health import metrics_text

_PREFIX: Final = "runner_service"
#: Statuses that are always shown.
_STATUSES: Final = ("successful", "failed", "canceled", "timeout")


class _OldNames(Collector):
    """What the old service measured, read from the database."""

    def __init__(self, call: Call) -> None:
        self._started = clock.monotonic()
        self._playbooks = len(call.root.playbooks())
        with call.caller.reading() as connection:
            self._runs = run_counts.read_runs(connection)
            self._hosts = run_counts.read_hosts(connection)

    def collect(self) -> Iterable[Metric]:
        events = GaugeMetricFamily(
            f"{_PREFIX}_event_status",
            "Results of tasks by host",
            labels=["hostname", "event_status"],
        )
        for host, word, count in self._hosts:
            events.add_metric([host, word], count)
        yield events
        yield GaugeMetricFamily(
            f"{_PREFIX}_playbook_count", "Playbooks that can be run", value=self._playbooks
        )
        yield GaugeMetricFamily(
            f"{_PREFIX}_playbooks_active",
            "Runs that have not ended",
            value=self._runs.pop("running", 0),
        )
        statuses = GaugeMetricFamily(
            f"{_PREFIX}_playbooks_status", "Runs that have ended, by status", labels=["status"]
        )
        for word, count in (dict.fromkeys(_STATUSES, 0) | self._runs).items():
            statuses.add_metric([word], count)
        yield statuses
        yield GaugeMetricFamily(
            f"{_PREFIX}_duration_scrape_secs",
            "Seconds that this took",
            value=clock.monotonic() - self._started,
        )


def show(call: Call) -> Answer:
    """Metrics in Prometheus' text form; `/api/v2/metrics/` has the cluster's."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_OldNames(call))
    text = metrics_text() + generate_latest(registry)
    return Answer(page=(text.decode(), CONTENT_TYPE_LATEST))


ROUTES: Final = (Route("GET", "/metrics", show, "Metrics"),)
