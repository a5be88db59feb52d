"""The DependencyManager: 10,000 unprocessed jobs on 100 projects that are updated on launch.

From the trigger, lease and all, until every job is linked and the wake-ups are published; 5,000
jobs in the same run show that the time is linear in their number.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter

from sqlalchemy import Connection, Engine, text

from benchmarks.figures import Figure
from benchmarks.servers import managers
from dispatcher.broker.messages import Manager
from dispatcher.db.change import raise_counter
from schedulers.passes.manager_pass import Runner

ROUNDS = 5
PROJECTS = 100
JOBS = 10_000


def measure() -> list[Figure]:
    """Seconds to link 10,000 jobs, and how much longer they take than 5,000."""
    with managers() as (engine, runner):
        half = sorted(_link(engine, runner, JOBS // 2) for _ in range(ROUNDS))
        whole = sorted(_link(engine, runner, JOBS) for _ in range(ROUNDS))
    spread = f"{ROUNDS} rounds, {whole[0]:.2f} to {whole[-1]:.2f} s; AWX: 411 s"
    return [
        Figure("dependencies_10000_on_100", median(whole), "s", spread),
        Figure("dependencies_10000_to_5000", median(whole) / median(half), "ratio", "linear is 2"),
    ]


def _link(engine: Engine, runner: Runner, jobs: int) -> float:
    with engine.begin() as connection:
        _fill(connection, jobs)
        raise_counter(connection)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE job, job_project, job_dependency, job_input"))
    began = perf_counter()
    runner.trigger(Manager.DEPENDENCY)
    took = perf_counter() - began
    with engine.begin() as connection:
        links, updates, left = connection.execute(text(_COUNTS)).one()
    if (links, updates, left) != (jobs, PROJECTS, 0):
        raise AssertionError(f"{links} links to {updates} updates, {left} jobs left")
    return took


_COUNTS = """
    SELECT (SELECT count(*) FROM job_dependency),
        (SELECT count(*) FROM job WHERE kind = 'project_update'),
        (SELECT count(*) FROM job WHERE NOT dependencies_processed)
"""


def _fill(connection: Connection, jobs: int) -> None:
    connection.execute(text("TRUNCATE job, project CASCADE"))
    organization = "(SELECT id FROM organization WHERE name = 'Default')"
    connection.execute(
        text(
            "INSERT INTO project (organization_id, name, scm_type, scm_url, update_on_launch)"
            f" SELECT {organization}, 'p' || n, 'git', 'https://git.example/' || n, true"
            " FROM generate_series(1, :projects) n"
        ),
        {"projects": PROJECTS},
    )
    connection.execute(
        text(
            f"""
            WITH numbered AS (SELECT id, row_number() OVER (ORDER BY id) - 1 AS n FROM project),
            made AS (
                INSERT INTO job (uuid, kind, name, organization_id, task_impact, preferred_groups,
                    project_id)
                SELECT gen_random_uuid(), 'playbook', 'site.yml', {organization}, 2, '{{}}',
                    numbered.id
                FROM generate_series(1, :jobs) g JOIN numbered ON n = g % :projects
                RETURNING id, project_id
            ), inputs AS (
                INSERT INTO job_input (job_id, playbook, extra_vars)
                SELECT id, 'site.yml', '{{}}' FROM made
            )
            INSERT INTO job_project (job_id, scm_type) SELECT id, 'git' FROM made
            """
        ),
        {"jobs": jobs, "projects": PROJECTS},
    )
