"""The node's Celery worker: two tasks that hand ids to the agent, each in at most a second.

Playbooks are processes of the agent's; no visibility time-out, prefetch or restart of this worker
can touch one.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dispatcher import logs, processes
from dispatcher.broker.celery_app import make_app, start_worker
from dispatcher.broker.messages import CANCEL_JOBS, START_JOBS, node_queue, read_pairs
from dispatcher.settings import Settings, node_name
from workers import handover


def run(settings: Settings, parent: int | None) -> int:
    """Consume this node's queue until told to stop.

    Args:
        parent: pid of the worker's parent process, whose death ends this one; None: nobody's.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if parent is not None and not processes.die_with_parent(parent, signal.SIGTERM):
        return 0
    name = node_name(settings)
    logs.configure(settings, role="node-queue", node=name)
    app = make_app(settings, profile="worker")
    for task in (START_JOBS, CANCEL_JOBS):
        app.task(name=task, ignore_result=True)(_task(settings.data_dir, task))
    return start_worker(app, queue=node_queue(name), name=f"node-{name}@%h")


def _task(data_dir: Path, name: str) -> Callable[..., None]:
    log = logs.get(__name__)

    def hand_over(payload: Any = None, *_: Any, **__: Any) -> None:
        line = line_for(name, payload)
        if not handover.hand_over(data_dir, line):
            log.warning("hand-over dropped: the agent does not listen; its poll finds the jobs")

    return hand_over


def line_for(name: str, payload: Any) -> bytes:
    """What the agent is told of a message; one of an unknown version is only counted there."""
    pairs = read_pairs(payload) if isinstance(payload, dict) else None
    if pairs is None:
        return handover.line(ignored=name)
    return handover.line(start=pairs) if name == START_JOBS else handover.line(cancel=pairs)
