"""Every metric of every role, named once. docs/operating.md says what to watch.

Control's children use prometheus-client's multiprocess mode: ``PROMETHEUS_MULTIPROC_DIR`` is set
before this module is imported there.
"""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_WAIT_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400)

# -- managers: the whole pass is timed, after-commit submission included
MANAGER_PHASE = Histogram(
    "dispatcher_manager_phase_seconds",
    "Seconds of a manager's pass by phase: lock, load, plan, apply, commit, submit, total",
    ["manager", "phase"],
    buckets=_SECONDS,
)
MANAGER_PASSES = Counter(
    "dispatcher_manager_passes_total",
    "Passes by result: complete, fruitless, busy, budget, lease_lost, error",
    ["manager", "result"],
)
MANAGER_DECISIONS = Counter(
    "dispatcher_manager_decisions_total",
    "Decisions that took effect, by kind",
    ["manager", "decision"],
)
WORKFLOWS_MISSED = Counter(
    "dispatcher_workflows_missed_total",
    "Workflows that only the look at all of them moved; must stay 0",
)
MANAGER_LAST_PASS = Gauge(
    "dispatcher_manager_last_pass_timestamp_seconds",
    "When this process last completed a pass",
    ["manager"],
    multiprocess_mode="max",
)

# -- after the commit
SUBMISSIONS = Counter(
    "dispatcher_submissions_total",
    "Messages owed to the broker, by kind (start, cancel, wake) and result (sent, failed, skipped)",
    ["kind", "result"],
)
RESUBMISSIONS = Counter(
    "dispatcher_resubmissions_total", "Starts whose submission recovery repeated"
)
PUBLISH_SECONDS = Histogram(
    "dispatcher_publish_seconds", "Seconds of one publish", buckets=_SECONDS
)
WAKES_COALESCED = Counter(
    "dispatcher_wakes_coalesced_total", "Wake-ups that found a living token", ["manager"]
)
MESSAGES_IGNORED = Counter(
    "dispatcher_messages_ignored_total", "Messages of an unknown version or form", ["task"]
)

# -- recovery
RECOVERED = Counter(
    "dispatcher_recovered_total",
    "Jobs and nodes that recovery acted on: returned, resubmitted, node_lost, retried, suspect, lost",
    ["action"],
)
for _action in ("returned", "resubmitted", "node_lost", "retried", "suspect", "lost"):
    # from 0 on: what appears with its first increase has not increased for Prometheus
    RECOVERED.labels(_action)

# -- a node
RUNNING_JOBS = Gauge("dispatcher_node_running_jobs", "Runs with a live supervisor on this node")
CLAIMS = Counter(
    "dispatcher_claims_total", "Claims by result: claimed, duplicate, no_room, stale", ["result"]
)
QUEUE_WAIT = Histogram(
    "dispatcher_queue_wait_seconds",
    "Seconds from creation to claim, by the code of the last pending reason; none: without one",
    ["blocker"],
    buckets=_WAIT_SECONDS,
)
EVENTS_STORED = Counter("dispatcher_events_stored_total", "Events stored by this node")
STORE_SECONDS = Histogram(
    "dispatcher_event_store_seconds", "Seconds of one COPY transaction", buckets=_SECONDS
)
SPOOL_LAG_BYTES = Gauge("dispatcher_spool_lag_bytes", "Spooled bytes that are not stored yet")
LEASE_RENEWALS = Counter(
    "dispatcher_lease_renewals_total", "Renewals of the node's lease", ["result"]
)
LEASE_LEFT_SECONDS = Gauge(
    "dispatcher_lease_left_seconds", "Seconds until this node stops its playbooks by itself"
)
CLOCK_DIFFERENCE = Gauge(
    "dispatcher_clock_difference_seconds",
    "This machine's wall clock minus the database's",
    multiprocess_mode="mostrecent",
)
NODE_ACCEPTING = Gauge("dispatcher_node_accepting", "1 while this node claims jobs")
JOBS_FINISHED = Counter("dispatcher_jobs_finished_total", "Final statuses written", ["outcome"])
KILLED_PROCESSES = Counter(
    "dispatcher_killed_processes_total", "Processes that had to be killed when a run was stopped"
)

# -- api
REQUESTS = Counter("dispatcher_http_requests_total", "HTTP answers", ["method", "route", "code"])
REQUEST_SECONDS = Histogram(
    "dispatcher_http_request_seconds", "Seconds of one HTTP request", ["route"], buckets=_SECONDS
)
STREAMS = Gauge("dispatcher_http_streams", "Open event streams")
