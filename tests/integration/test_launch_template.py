"""Launches of job templates and updates: prompts, impact, groups, locks, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, insert, select

from dispatcher.actions.launch_template import (
    TemplateLaunch,
    launch_job_template,
    launch_job_templates,
)
from dispatcher.actions.launch_update import launch_inventory_update, launch_project_update
from dispatcher.actions.launched import Launched
from dispatcher.broker.messages import Manager
from dispatcher.db import tables as t
from dispatcher.errors import Conflict, InvalidRequest, NotFound
from dispatcher.secrets import Cipher
from tests.factories import default_group, default_organization
from tests.templates import make_inventory, make_project, make_template, updated


def _job(connection: Connection, job_id: int) -> Any:
    return connection.execute(select(t.job).where(t.job.c.id == job_id)).one()


def _input(connection: Connection, job_id: int) -> Any:
    return connection.execute(select(t.job_input).where(t.job_input.c.job_id == job_id)).one()


def test_a_template_becomes_a_job_with_all_that_the_managers_need(
    engine: Engine, cipher: Cipher
) -> None:
    with engine.begin() as connection:
        project = make_project(connection)
        updated(connection, project)
        inventory = make_inventory(connection, ["a", "b", "c"])
        template = make_template(
            connection, project, inventory, extra_vars={"x": 1}, forks=10, priority=3, tags=["t"]
        )
        launched = launch_job_template(connection, template, {}, principal="me", cipher=cipher)
        job, given = _job(connection, launched.job_id), _input(connection, launched.job_id)
    assert (job.status, job.kind, job.task_impact, job.priority) == ("pending", "playbook", 4, 3)
    assert (job.project_id, job.inventory_id, job.job_template_id) == (project, inventory, template)
    assert (job.launched_by, job.dependencies_processed, job.forks) == ("me", True, 10)
    assert job.bundle_digest is None
    assert (given.playbook, given.extra_vars, given.tags) == ("site.yml", {"x": 1}, ["t"])
    assert launched.owed.wakes == {Manager.TASK}


def test_prompts_count_only_where_the_template_asks_for_them(
    engine: Engine, cipher: Cipher
) -> None:
    with engine.begin() as connection:
        inventory = make_inventory(connection, ["a", "b", "c"])
        template = make_template(
            connection,
            make_project(connection),
            inventory,
            extra_vars={"x": 1, "y": 1},
            ask_variables_on_launch=True,
            ask_limit_on_launch=True,
        )
        prompts = {"extra_vars": {"y": 2}, "limit": "a", "forks": 3}
        launched = launch_job_template(connection, template, prompts, principal="", cipher=cipher)
        given = _input(connection, launched.job_id)
        job = _job(connection, launched.job_id)
    assert given.extra_vars == {"x": 1, "y": 2}
    assert (given.limit_pattern, given.forks, job.task_impact) == ("a", 0, 2)
    assert launched.ignored_fields == {"forks": 3}


def test_a_job_whose_content_was_never_fetched_waits_for_the_dependency_manager(
    engine: Engine, cipher: Cipher
) -> None:
    with engine.begin() as connection:
        template = make_template(connection, make_project(connection), make_inventory(connection))
        launched = launch_job_template(connection, template, {}, principal="", cipher=cipher)
        assert not _job(connection, launched.job_id).dependencies_processed
    assert launched.owed.wakes == {Manager.DEPENDENCY}


def test_locks_are_the_addresses_of_the_hosts_behind_the_limit(
    engine: Engine, cipher: Cipher
) -> None:
    with engine.begin() as connection:
        inventory = make_inventory(connection, ["a", "b"], addresses={"a": "10.0.0.1:22"})
        template = make_template(
            connection, make_project(connection), inventory, host_lock="exclusive",
            ask_limit_on_launch=True, ask_job_type_on_launch=True,
        )  # fmt: skip
        one = launch_job_template(
            connection, template, {"limit": "a", "job_type": "check"}, principal="", cipher=cipher
        )
        all_of = launch_job_template(connection, template, {}, principal="", cipher=cipher)
        job, other = _job(connection, one.job_id), _job(connection, all_of.job_id)
    assert (job.host_lock, job.lock_keys) == ("shared", ["host:10.0.0.1:22"])
    assert other.lock_keys == ["host:10.0.0.1:22", "host:b:22"]
    assert job.inventory_revision == 0


def test_a_wrong_launch_in_a_batch_answers_its_own_error(engine: Engine, cipher: Cipher) -> None:
    with engine.begin() as connection:
        project, inventory = make_project(connection), make_inventory(connection, ["a"])
        good = make_template(connection, project, inventory, ask_limit_on_launch=True)
        bare = make_template(connection, project, None)
        wanted = [
            TemplateLaunch(good, {}, ""),
            TemplateLaunch(10**9, {}, ""),
            TemplateLaunch(good, {"limit": "-x"}, ""),
            TemplateLaunch(bare, {}, ""),
            TemplateLaunch(good, {"limit": "a[5]"}, ""),
            TemplateLaunch(good, {"nonsense": 1}, ""),
            TemplateLaunch(good, {}, "", variables={"artifact": 1}),
        ]
        answers = launch_job_templates(connection, wanted, cipher=cipher)
        last = answers[-1]
        assert isinstance(last, Launched)
        assert _input(connection, last.job_id).extra_vars == {"artifact": 1}
    kinds = [type(each) for each in answers]
    assert kinds == [Launched, NotFound, *[InvalidRequest] * 4, Launched]
    fields = [list(each.fields) for each in answers if isinstance(each, InvalidRequest)]
    assert fields == [["limit"], ["inventory"], ["limit"], ["nonsense"]]


def test_the_statements_of_a_batch_do_not_grow_with_it(engine: Engine, cipher: Cipher) -> None:
    statements = []
    with engine.begin() as connection:
        template = make_template(connection, make_project(connection), make_inventory(connection))
        event.listen(connection, "before_cursor_execute", lambda *a: statements.append(a[2]))
        launch_job_templates(connection, [TemplateLaunch(template, {}, "")], cipher=cipher)
        few = len(statements)
        launch_job_templates(connection, [TemplateLaunch(template, {}, "")] * 500, cipher=cipher)
    assert len(statements) - few == few


def test_groups_are_the_launchs_own_or_the_templates_and_the_organizations(
    engine: Engine, cipher: Cipher
) -> None:
    with engine.begin() as connection:
        east, west = (
            connection.execute(
                insert(t.instance_group).values(name=name).returning(t.instance_group.c.id)
            ).scalar_one()
            for name in ("east", "west")
        )
        connection.execute(
            t.organization.update()
            .where(t.organization.c.id == default_organization(connection))
            .values(instance_groups=[west])
        )
        template = make_template(
            connection, make_project(connection), make_inventory(connection),
            instance_groups=[east], ask_instance_groups_on_launch=True,
        )  # fmt: skip
        default = default_group(connection)
        found = []
        for prompts in ({}, {"instance_groups": [default]}):
            one = launch_job_template(connection, template, prompts, principal="", cipher=cipher)
            found.append(_job(connection, one.job_id).preferred_groups)
    assert found == [[east, west], [default]]


def test_the_same_key_and_prompts_are_the_same_job(engine: Engine, cipher: Cipher) -> None:
    with engine.begin() as connection:
        template = make_template(
            connection, make_project(connection), make_inventory(connection),
            ask_limit_on_launch=True,
        )  # fmt: skip
        jobs = [
            launch_job_template(
                connection, template, {}, principal="me", idempotency_key="k", cipher=cipher
            )
            for _ in range(2)
        ]
        assert jobs[0].job_id == jobs[1].job_id
        assert [each.created for each in jobs] == [True, False]
        with pytest.raises(Conflict):
            launch_job_template(
                connection, template, {"limit": "x"}, principal="me", idempotency_key="k",
                cipher=cipher,
            )  # fmt: skip


def test_updates_say_what_they_fetch(engine: Engine) -> None:
    with engine.begin() as connection:
        project = make_project(connection, scm_branch="main", timeout=7)
        inventory = make_inventory(connection)
        source = connection.execute(
            insert(t.inventory_source)
            .values(inventory_id=inventory, name="s", project_id=project, path="hosts.yml")
            .returning(t.inventory_source.c.id)
        ).scalar_one()
        of_project = launch_project_update(connection, project, launch_type="manual", principal="m")
        of_source = launch_inventory_update(connection, source, launch_type="manual", principal="m")
        job = _job(connection, of_project.job_id)
        assert (job.kind, job.task_impact, job.project_id) == ("project_update", 1, project)
        assert _input(connection, of_project.job_id).timeout == 7
        job = _job(connection, of_source.job_id)
        assert (job.kind, job.inventory_source_id) == ("inventory_update", source)
        assert not job.dependencies_processed
        assert _input(connection, of_source.job_id).inventory_path == "hosts.yml"
        with pytest.raises(NotFound):
            launch_project_update(connection, 10**9, launch_type="manual", principal="m")


def test_a_launch_of_several_slices_is_a_workflow_whose_slices_share_the_hosts(
    engine: Engine, cipher: Cipher
) -> None:
    with engine.begin() as connection:
        inventory = make_inventory(connection, ["c", "a", "b"])
        template = make_template(
            connection, make_project(connection), inventory,
            job_slice_count=2, host_lock="exclusive",
        )  # fmt: skip
        launched = launch_job_template(connection, template, {}, principal="", cipher=cipher)
        assert _job(connection, launched.job_id).kind == "workflow"
        first = TemplateLaunch(template, {}, "", slice_number=1, slice_count=2)
        answer = launch_job_templates(connection, [first], cipher=cipher)[0]
        assert isinstance(answer, Launched)
        job = _job(connection, answer.job_id)
    assert (job.slice_number, job.slice_count, job.task_impact) == (1, 2, 3)
    assert job.lock_keys == ["host:a:22", "host:c:22"]
