"""``make records``: an example in full, and its timeline as it was, written into docs/scheduling.md.

Two tenants of weights 1 and 3 launch 500 jobs each at once, on four nodes; some of the jobs are for one
host that is locked exclusively; a workflow of a third tenant waits for an approval. Meanwhile control is killed twice and
beat once. Servers and managers are real processes. Nodes are acted by the moves of real ones, and their
jobs last one to two seconds: what is shown is who starts when, and Ansible would only make it longer.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from sqlalchemy import Connection, Engine, text

from benchmarks.instant_node import InstantNodes
from benchmarks.record_scene import JOBS, WEIGHTS, launch, make_scene
from benchmarks.recorded import write_record
from benchmarks.servers import has_passed, servers
from dispatcher import logs
from dispatcher import settings as settings_module
from dispatcher.actions.decide_approval import decide_approval
from dispatcher.broker.messages import Manager, wake
from dispatcher.db.engine import transaction
from dispatcher.settings import Settings
from tests.roles import Role, children_of, role
from tests.waiting import wait_until

PAGE = Path(__file__).parents[1] / "docs" / "scheduling.md"

#: Seconds between two lines, and seconds at which things happen.
LINE_EVERY = 5.0
CONTROL_DIES, BEAT_DIES, DEAD_FOR = (15.0, 50.0), 24.0, 3.0
APPROVED_AT = 30.0


@dataclass
class Timeline:
    """Lines with the second in which they were said."""

    began: float = field(default_factory=monotonic)
    lines: list[str] = field(default_factory=list)

    def say(self, words: str) -> None:
        line = f"{monotonic() - self.began:6.1f} s  {words}"
        self.lines.append(line)
        print(line, flush=True)


@dataclass
class Event:
    """Something that is done once a second has come."""

    at: float
    act: Callable[[], None]


class Roles:
    """Control and beat, which are killed and started again."""

    def __init__(self, settings: Settings, timeline: Timeline) -> None:
        self._settings = settings
        self._timeline = timeline
        self._stack = ExitStack()
        self._running: dict[str, Role] = {}

    def start(self, name: str) -> None:
        self._running[name] = self._stack.enter_context(role(self._settings, name))

    def restart(self, name: str) -> None:
        self.start(name)
        self._timeline.say(f"{name} is started again")

    def kill(self, name: str) -> None:
        """SIGKILL to the role and everything below it."""
        victim = self._running.pop(name)
        pids = [victim.pid, *children_of(victim.pid)]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._timeline.say(f"kill -9: {name}, {len(pids)} process{'es' * (len(pids) > 1)}")

    def stop(self) -> None:
        self._stack.close()


def main() -> int:
    """Play the scene, write the page; 1 if something was not as it should be."""
    logs.configure(settings_module.load(log_level="error"), role="record")
    with servers() as (engine, settings):
        timeline, wrong = play(engine, settings)
    for problem in wrong:
        print(f"WRONG: {problem}", file=sys.stderr)
    if wrong:
        return 1
    write(timeline.lines)
    return 0


def play(engine: Engine, settings: Settings) -> tuple[Timeline, list[str]]:
    """The timeline, and what was not as it should be."""
    with transaction(engine) as connection:
        scene = make_scene(connection)
    timeline = Timeline()
    roles = Roles(settings, timeline)
    chance = random.Random(5)
    nodes = InstantNodes(engine, settings, lasts=lambda job: chance.uniform(1.0, 2.0))
    try:
        roles.start("control")
        roles.start("beat")
        wait_until(lambda: has_passed(engine), timeout=120, what="control runs managers")
        with nodes.running():
            with transaction(engine) as connection:
                launch(connection, scene)
            timeline.began = monotonic()
            timeline.say(f"{JOBS} jobs of each tenant and one workflow are launched at once")
            nodes.publish(wake(Manager.TASK))
            _watch(engine, timeline, _events(engine, roles, timeline, nodes))
    finally:
        roles.stop()
    for line in _closing(engine):
        timeline.lines.append(line)
        print(line)
    return timeline, _check(engine)


def _events(engine: Engine, roles: Roles, timeline: Timeline, nodes: InstantNodes) -> list[Event]:
    events = [
        *(Event(at, lambda: roles.kill("control")) for at in CONTROL_DIES),
        *(Event(at + DEAD_FOR, lambda: roles.restart("control")) for at in CONTROL_DIES),
        Event(BEAT_DIES, lambda: roles.kill("beat")),
        Event(BEAT_DIES + DEAD_FOR, lambda: roles.restart("beat")),
        Event(APPROVED_AT, lambda: _approve(engine, timeline, nodes)),
    ]
    return sorted(events, key=lambda event: event.at)


def _approve(engine: Engine, timeline: Timeline, nodes: InstantNodes) -> None:
    def waiting() -> int | None:
        with engine.connect() as connection:
            found: int | None = connection.scalar(
                text("SELECT id FROM job WHERE kind = 'approval' AND status = 'pending'")
            )
            return found

    approval = wait_until(waiting, timeout=60, what="the approval is asked for")
    assert approval is not None
    with transaction(engine) as connection:
        decide_approval(connection, approval, approved=True, principal="ann")
    nodes.publish(wake(Manager.WORKFLOW, Manager.TASK))
    timeline.say("ann approves the workflow's second node")


def _watch(engine: Engine, timeline: Timeline, events: list[Event]) -> None:
    """Lines at their times, and what happens between them, until everything has ended."""
    next_line = 0.0

    def look() -> bool:
        nonlocal next_line
        now = monotonic() - timeline.began
        while events and events[0].at <= now:
            events.pop(0).act()
        with engine.connect() as connection:
            counts = _counts(connection)
        done = not events and all(c["pending"] + c["running"] == 0 for c in counts.values())
        if now >= next_line or done:
            next_line = now - now % LINE_EVERY + LINE_EVERY
            timeline.say(_line(counts))
        return done

    wait_until(look, timeout=600, what="everything has ended")


def _counts(connection: Connection) -> dict[str, dict[str, int]]:
    rows = connection.execute(
        text(
            "SELECT o.name, count(*) FILTER (WHERE job.status = 'pending') AS pending,"
            " count(*) FILTER (WHERE job.status IN ('waiting', 'running')) AS running,"
            " count(*) FILTER (WHERE job.finished IS NOT NULL) AS ended,"
            " count(*) FILTER (WHERE job.status IN ('waiting', 'running')"
            "  AND host_lock = 'exclusive') AS locked"
            " FROM job JOIN organization o ON o.id = organization_id"
            " WHERE kind = 'playbook' OR (kind <> 'project_update' AND finished IS NULL)"
            " GROUP BY 1"
        )
    ).mappings()
    return {str(row["name"]): {k: int(row[k]) for k in row if k != "name"} for row in rows}


def _line(counts: dict[str, dict[str, int]]) -> str:
    parts = [
        f"{name}: {counts[name]['running']:2} run, {counts[name]['pending']:3} wait,"
        f" {counts[name]['ended']:3} ended"
        for name in WEIGHTS
    ]
    return " | ".join([*parts, f"on the locked host: {sum(c['locked'] for c in counts.values())}"])


_RUNS = """
    SELECT o.name, task_impact, EXTRACT(epoch FROM started - first)::float8 AS started,
        EXTRACT(epoch FROM finished - first)::float8 AS finished
    FROM job JOIN organization o ON o.id = organization_id,
        (SELECT min(created) AS first FROM job WHERE kind = 'workflow') AS launch
    WHERE kind = 'playbook'
"""
_OVERLAPS = """
    SELECT count(*) FROM job a JOIN job b ON a.id < b.id
    WHERE a.host_lock = 'exclusive' AND b.host_lock = 'exclusive'
      AND a.waiting_since < b.finished AND b.waiting_since < a.finished
      AND a.kind = 'playbook' AND b.kind = 'playbook'
"""


def _ratio(connection: Connection) -> float:
    """How many times the capacity of Red was Blue's, while both had jobs waiting and control ran."""
    runs = [row for row in connection.execute(text(_RUNS)) if row.name in WEIGHTS]
    until = min(max(r.started for r in runs if r.name == name) for name in WEIGHTS)
    alive = [0.0, *(at + DEAD_FOR for at in CONTROL_DIES)]
    spans = zip(alive, (*CONTROL_DIES, until), strict=True)
    used = dict.fromkeys(WEIGHTS, 0.0)
    for begin, end in spans:
        for run in runs:
            seconds = min(run.finished, end, until) - max(run.started, begin)
            used[run.name] += run.task_impact * max(0.0, seconds)
    return used["Blue"] / used["Red"]


def _closing(engine: Engine) -> Iterator[str]:
    """What the rows say once everything has ended."""
    with engine.connect() as connection:
        ratio = _ratio(connection)
        locked, ended = connection.execute(
            text(
                "SELECT count(*) FILTER (WHERE host_lock = 'exclusive'), count(*) FROM job"
                " WHERE kind = 'playbook' AND status = 'successful'"
            )
        ).one()
        steps = connection.execute(
            text(
                "SELECT n.identifier, job.status, EXTRACT(epoch FROM coalesce(job.started,"
                " job.created) - flow.created), EXTRACT(epoch FROM job.finished - flow.created)"
                " FROM workflow_node n JOIN job ON job.id = n.job_id"
                " JOIN job AS flow ON flow.id = n.workflow_job_id ORDER BY job.created"
            )
        ).all()
        overlaps = connection.scalar(text(_OVERLAPS))
    yield ""
    yield f"{ended} jobs ended successful, each started once"
    yield (
        f"while both had jobs waiting and control ran, Blue used {ratio:.2f} times the capacity"
        " that Red used (weights 3 and 1)"
    )
    yield f"{locked} jobs were for the locked host, {overlaps} pairs of them at once"
    for name, status, begin, end in steps:
        yield f"workflow node {name}: {status}, from {begin:.1f} to {end:.1f} s"


def _check(engine: Engine) -> list[str]:
    """What was not as it should be."""
    wrong = []
    with engine.connect() as connection:
        ratio = _ratio(connection)
        if not 2.6 <= ratio <= 3.4:
            wrong.append(f"Blue used {ratio:.2f} times what Red used")
        if connection.scalar(text(_OVERLAPS)):
            wrong.append("two jobs were on the locked host at once")
        not_once = connection.scalar(
            text(
                "SELECT count(*) FROM job WHERE kind <> 'project_update'"
                " AND (status <> 'successful' OR submissions > 1)"
            )
        )
        if not_once:
            wrong.append(f"{not_once} jobs did not end successful, started once")
    return wrong


def write(lines: list[str]) -> None:
    """Put the timeline between the page's markers."""
    write_record(PAGE, lines)


if __name__ == "__main__":
    # whoever ends this early must not leave its servers and roles behind
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
