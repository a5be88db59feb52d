"""How soon things follow from each other, with control as processes and nodes that are acted.

Accept → start behind a blocked backlog; end of a job or of an update → start of what waited for it.
Times between rows are the database's.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median, quantiles
from time import perf_counter

from sqlalchemy import Connection, Engine, insert, text

from benchmarks import scenes
from benchmarks.figures import Figure
from benchmarks.instant_node import InstantNodes
from benchmarks.servers import control, short_directory
from dispatcher.client.client import Client
from dispatcher.client.connection import Connection as ApiConnection
from dispatcher.client.pack import Bundle, pack
from dispatcher.client.submission import submit
from dispatcher.db import tables as t
from dispatcher.db.change import raise_counter
from dispatcher.domain.launch import RunRequest
from dispatcher.settings import Settings
from tests import api_server
from tests.factories import make_job, make_node
from tests.waiting import wait_until

BLOCKED = 10_000
ROUNDS = 7
ENDS = 40
LAUNCHES = 60


def measure() -> list[Figure]:
    """Milliseconds until a start, and launches a second from one client."""
    with control() as (engine, settings):
        return [
            *ends(engine, settings),
            *_through_api(engine, settings),
        ]


def ends(engine: Engine, settings: Settings) -> list[Figure]:
    """A node of one job at a time, and jobs that wait for it; then jobs that wait for an update."""
    with engine.begin() as connection:
        make_node(connection, "single", max_jobs=1)
    with InstantNodes(engine, settings, lasts=None).running() as nodes:
        with engine.begin() as connection:
            scenes.add_jobs(connection, ENDS + 1, age=30)
            raise_counter(connection)
        of_job = [_next_start(engine, nodes) for _ in range(ENDS)]
        with engine.begin() as connection:
            connection.execute(text("TRUNCATE job CASCADE"))
        of_update = [_after_update(engine, nodes) for _ in range(ENDS // 2)]
    return [
        _p95("job_end_to_start_p95", of_job, "AWX: 20 s after some ends"),
        _p95("update_end_to_start_p95", of_update, "AWX: 20 s"),
    ]


def _next_start(engine: Engine, nodes: InstantNodes) -> float:
    """End the one job that runs; milliseconds until the next one has been started."""
    pairs = wait_until(nodes.claim, timeout=60, what="a job waits on the node")
    nodes.finish(pairs)
    wait_until(lambda: _waiting(engine), timeout=60, what="the next job was started")
    return _since_end(engine)


def _after_update(engine: Engine, nodes: InstantNodes) -> float:
    with engine.begin() as connection:
        update = make_job(connection, kind="project_update", task_impact=1)
        job = make_job(connection)
        connection.execute(insert(t.job_dependency).values(job_id=job, depends_on_id=update))
        raise_counter(connection)
    nodes.finish(wait_until(nodes.claim, timeout=60, what="the update was started"))
    wait_until(lambda: _waiting(engine), timeout=60, what="what waited was started")
    found = _since_end(engine)
    nodes.finish(nodes.claim())
    return found


def _waiting(engine: Engine) -> int:
    with engine.connect() as connection:
        found = connection.execute(text("SELECT count(*) FROM job WHERE status = 'waiting'"))
        return int(found.scalar_one())


def _since_end(engine: Engine) -> float:
    with engine.connect() as connection:
        return float(
            connection.execute(
                text(
                    "SELECT EXTRACT(epoch FROM (SELECT max(waiting_since) FROM job)"
                    " - (SELECT max(finished) FROM job)) * 1000"
                )
            ).scalar_one()
        )


def _p95(name: str, times: list[float], words: str) -> Figure:
    spread = f"{len(times)} ends, {min(times):.0f} to {max(times):.0f}, median {median(times):.0f}"
    return Figure(name, quantiles(times, n=20)[-1], "ms", f"{spread}; {words}")


def _through_api(engine: Engine, settings: Settings) -> list[Figure]:
    with (
        short_directory() as directory,
        api_server.as_process(settings, engine) as api,
        Client(ApiConnection(api.url, api.token)) as client,
        InstantNodes(engine, settings, lasts=None).running(),
    ):
        (directory / "play").mkdir()
        (directory / "play" / "site.yml").write_text("- hosts: all\n  tasks: []\n")
        bundle = pack(directory / "play")
        client.upload(bundle)
        launch = _launcher(client, bundle)
        # its description takes a second of the server's work, once
        assert api.http.get("/openapi.json").status_code == 200
        rates = _launch_rates(engine, launch)
        with engine.begin() as connection:
            _blocked_backlog(connection)
        scenes.settle(engine)
        launch("fast")
        times = [_accept_to_start(engine, launch) for _ in range(ROUNDS)]
    spread = f"{ROUNDS} rounds, {min(times):.0f} to {max(times):.0f} ms"
    return [
        Figure("blocked_10000_accept_to_start", median(times), "ms", spread),
        Figure(
            "launches_per_second",
            median(rates),
            "1/s",
            f"{ROUNDS} rounds of {LAUNCHES} by one client, {min(rates):.0f} to {max(rates):.0f};"
            " AWX: 9",
        ),
    ]


def _blocked_backlog(connection: Connection) -> None:
    """Old jobs of a full group, and another group that is free."""
    scenes.empty(connection)
    make_node(connection, "full", max_jobs=1)
    scenes.add_jobs(connection, 1, status="running", age=3_600)
    scenes.add_jobs(connection, BLOCKED, age=3_600)
    group = connection.execute(
        insert(t.instance_group).values(name="fast").returning(t.instance_group.c.id)
    ).scalar_one()
    make_node(connection, "free", capacity=100_000, max_jobs=100_000, groups=(group,))
    raise_counter(connection)


def _launcher(client: Client, bundle: Bundle) -> Callable[[str], int]:
    def launch(group: str) -> int:
        request = RunRequest(
            playbook="site.yml",
            bundle_digest=bundle.digest,
            inventory="localhost\n",
            instance_groups=(group,),
        )
        return submit(client, request, bundle)[0].id

    return launch


def _accept_to_start(engine: Engine, launch: Callable[[str], int]) -> float:
    """Milliseconds from the row's creation until it was started, while old jobs wait."""
    job = launch("fast")

    def seconds() -> float | None:
        with engine.connect() as connection:
            found: float | None = connection.execute(
                text("SELECT EXTRACT(epoch FROM waiting_since - created) FROM job WHERE id = :id"),
                {"id": job},
            ).scalar()
            return found

    return float(wait_until(seconds, timeout=60, what="the new job was started") or 0) * 1000


def _launch_rates(engine: Engine, launch: Callable[[str], int]) -> list[float]:
    """Launches a second from one client, one after another, by round."""
    with engine.begin() as connection:
        connection.execute(text("UPDATE node SET enabled = false"))
        raise_counter(connection)

    def rate() -> float:
        began = perf_counter()
        for _ in range(LAUNCHES):
            launch("default")
        return LAUNCHES / (perf_counter() - began)

    return [rate() for _ in range(ROUNDS)]
