"""Launch: what is stored, and one job for one idempotency key whatever happens at once."""

from __future__ import annotations

import dataclasses
import json
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, select, text
from sqlalchemy.exc import OperationalError

from dispatcher.actions.launch import Launched, launch_run, prepare_run
from dispatcher.broker.messages import Manager, Owed
from dispatcher.db import tables as t
from dispatcher.db.change import read_counter
from dispatcher.db.engine import transaction
from dispatcher.domain.launch import RunRequest
from dispatcher.errors import Conflict, InvalidRequest
from dispatcher.secrets import Cipher, make_key_file
from tests.factories import default_group, make_job, store_bundle
from tests.racing import at_once
from tests.waiting import wait_until

INVENTORY = "web1\nweb2\nweb3\n"


@pytest.fixture
def request_(engine: Engine) -> RunRequest:
    with transaction(engine) as connection:
        digest = store_bundle(connection, {"site.yml": "- hosts: all\n"})
    return RunRequest("site.yml", digest, inventory=INVENTORY)


@pytest.fixture
def connection(engine: Engine) -> Iterator[Connection]:
    with transaction(engine) as connection:
        yield connection


def launch(connection: Connection, request: RunRequest, cipher: Cipher, **given: Any) -> Launched:
    values = {"principal": "ci", "uuid": uuid.uuid4(), "cipher": cipher}
    return launch_run(connection, request, **(values | given))


def test_a_launch_stores_the_job_and_wakes_the_task_manager(
    connection: Connection, request_: RunRequest, cipher: Cipher
) -> None:
    before = read_counter(connection)
    job_uuid = uuid.uuid4()
    request = dataclasses.replace(
        request_,
        name="Nightly",
        limit="web1",
        extra_vars={"z": 1, "a": [1.5, None, "ü"]},
        tags=("install",),
        check_mode=True,
        forks=20,
        verbosity=2,
        timeout=60,
        max_failed="10%",
        priority=3,
    )
    launched = launch(connection, request, cipher, uuid=job_uuid)
    assert launched.created
    assert launched.uuid == job_uuid
    assert launched.owed.wakes == {Manager.TASK}
    assert read_counter(connection) == before + 1
    job = connection.execute(select(t.job)).one()
    assert (job.id, job.uuid, job.status) == (launched.job_id, job_uuid, "pending")
    assert (job.name, job.launched_by, job.priority, job.forks) == ("Nightly", "ci", 3, 20)
    assert job.preferred_groups == [default_group(connection)]
    assert job.dependencies_processed
    row = connection.execute(select(t.job_input)).one()
    assert (row.playbook, row.inventory, row.limit_pattern) == ("site.yml", INVENTORY, "web1")
    assert row.extra_vars == {"z": 1, "a": [1.5, None, "ü"]}
    assert (row.tags, row.check_mode, row.diff_mode) == (["install"], True, False)
    assert (row.verbosity, row.forks, row.timeout, row.max_failed) == (2, 20, 60, "10%")
    assert row.secret_vars is None


def test_the_default_name_is_the_playbook(
    connection: Connection, request_: RunRequest, cipher: Cipher
) -> None:
    launch(connection, request_, cipher)
    assert connection.execute(select(t.job.c.name)).scalar_one() == "site.yml"


def test_secret_variables_are_stored_encrypted_only(
    connection: Connection, request_: RunRequest, cipher: Cipher
) -> None:
    request = dataclasses.replace(request_, secret_vars={"password": "gretel-4711"})
    launch(connection, request, cipher, idempotency_key="k1")
    row = connection.execute(select(t.job_input)).one()
    assert cipher.decrypt(row.secret_vars) == {"password": "gretel-4711"}
    assert "gretel" not in repr(row)
    assert b"gretel" not in bytes(row.secret_vars)


def test_a_missing_bundle_is_a_conflict_that_names_it(
    connection: Connection, request_: RunRequest, cipher: Cipher
) -> None:
    request = dataclasses.replace(request_, bundle_digest="0" * 64)
    with pytest.raises(Conflict) as caught:
        launch(connection, request, cipher)
    assert caught.value.code == "content_missing"
    assert caught.value.extra == {"missing": ["0" * 64]}


def test_an_incomplete_bundle_is_missing(
    connection: Connection, request_: RunRequest, cipher: Cipher
) -> None:
    connection.execute(text("UPDATE content_bundle SET complete = false"))
    with pytest.raises(Conflict, match="upload it first"):
        launch(connection, request_, cipher)


def test_groups_are_kept_in_order_and_an_unknown_one_is_named(
    connection: Connection, request_: RunRequest, cipher: Cipher
) -> None:
    connection.execute(text("INSERT INTO instance_group (name) VALUES ('a'), ('b')"))
    ids = dict(connection.execute(text("SELECT name, id FROM instance_group")).all())  # type: ignore[arg-type]
    request = dataclasses.replace(request_, instance_groups=("b", "default", "a"))
    launch(connection, request, cipher)
    stored = connection.execute(select(t.job.c.preferred_groups)).scalar_one()
    assert stored == [ids["b"], ids["default"], ids["a"]]
    with pytest.raises(InvalidRequest) as caught:
        launch(connection, dataclasses.replace(request_, instance_groups=("x", "a", "y")), cipher)
    assert caught.value.fields == {
        "instance_groups": ["no instance group 'x'", "no instance group 'y'"]
    }


def test_bad_input_stores_nothing(engine: Engine, request_: RunRequest, cipher: Cipher) -> None:
    with pytest.raises(InvalidRequest), transaction(engine) as connection:
        launch(connection, dataclasses.replace(request_, playbook="../x"), cipher)
    with transaction(engine) as connection:
        assert connection.execute(text("SELECT count(*) FROM job")).scalar() == 0


# -- what is computed once


def test_impact_and_locks_are_those_of_the_hosts_after_the_limit(
    connection: Connection, request_: RunRequest, cipher: Cipher
) -> None:
    request = dataclasses.replace(
        request_, limit="web1,web3", forks=10, host_lock="exclusive", check_mode=True
    )
    launch(connection, request, cipher)
    job = connection.execute(select(t.job)).one()
    assert (job.task_impact, job.forks, job.host_lock) == (3, 10, "shared")
    assert job.lock_keys == ["host:web1:22", "host:web3:22"]


def test_a_request_that_was_prepared_before_is_launched_as_it_is(
    connection: Connection, request_: RunRequest, cipher: Cipher
) -> None:
    prepared = prepare_run(dataclasses.replace(request_, limit="web1"))
    assert prepared.targets.count == 1
    values = {"principal": "ci", "uuid": uuid.uuid4(), "cipher": cipher}
    assert launch_run(connection, prepared, **values).created
    assert connection.execute(select(t.job.c.task_impact)).scalar_one() == 2


def test_extra_variables_keep_their_order_and_form(
    connection: Connection, request_: RunRequest, cipher: Cipher
) -> None:
    variables = {"zz": 1e20, "b": {"y": 1, "a": 2.0}, "a": 10**30}
    launch(connection, dataclasses.replace(request_, extra_vars=variables), cipher)
    stored = connection.execute(select(t.job_input.c.extra_vars)).scalar_one()
    assert json.dumps(stored) == json.dumps(variables)


# -- content


def test_a_file_that_is_not_in_the_bundle_is_refused(
    connection: Connection, cipher: Cipher
) -> None:
    digest = store_bundle(connection, {"plays/site.yml": "", "inventories/prod/hosts": "a\n"})
    good = RunRequest("plays/site.yml", digest, inventory_path="inventories/prod")
    assert launch(connection, good, cipher).created
    with pytest.raises(InvalidRequest) as caught:
        launch(
            connection,
            dataclasses.replace(good, playbook="site.yml", inventory_path="inventories/test"),
            cipher,
        )
    assert set(caught.value.fields) == {"playbook", "inventory_path"}
    with pytest.raises(InvalidRequest):
        launch(connection, dataclasses.replace(good, playbook="plays"), cipher)


def test_a_bundle_of_too_many_files_to_know_is_not_judged(
    connection: Connection, request_: RunRequest, cipher: Cipher
) -> None:
    connection.execute(text("UPDATE content_bundle SET paths = NULL"))
    assert launch(connection, dataclasses.replace(request_, playbook="other.yml"), cipher).created


def test_a_bundle_that_is_being_removed_is_missing_and_nobody_waits(
    engine: Engine, request_: RunRequest, cipher: Cipher
) -> None:
    with engine.connect() as remover:
        begun = remover.begin()
        remover.execute(text("DELETE FROM content_bundle"))
        with pytest.raises(Conflict) as caught, transaction(engine) as connection:
            launch(connection, request_, cipher)
        assert caught.value.code == "content_missing"
        begun.rollback()


def test_a_bundle_is_not_removed_under_a_launch(
    engine: Engine, request_: RunRequest, cipher: Cipher
) -> None:
    removal = "DELETE FROM content_bundle WHERE digest NOT IN (SELECT bundle_digest FROM job)"
    with transaction(engine) as connection:
        launch(connection, request_, cipher)
        with (
            pytest.raises(OperationalError, match="lock timeout"),
            transaction(engine, lock_timeout=0.1) as remover,
        ):
            remover.execute(text(removal))
    with transaction(engine) as connection:
        assert connection.execute(text(removal)).rowcount == 0


# -- idempotency


def test_the_same_request_with_the_same_key_is_the_same_job(
    engine: Engine, request_: RunRequest, cipher: Cipher
) -> None:
    answers = []
    for _ in range(3):
        with transaction(engine) as connection:
            answers.append(launch(connection, request_, cipher, idempotency_key="k1"))
    assert [a.created for a in answers] == [True, False, False]
    assert len({(a.job_id, a.uuid) for a in answers}) == 1
    assert answers[1].owed == Owed()


def test_another_request_with_the_same_key_is_refused(
    connection: Connection, request_: RunRequest, cipher: Cipher
) -> None:
    launch(connection, request_, cipher, idempotency_key="k1")
    for changed in ({"limit": "web1"}, {"secret_vars": {"a": "b"}}, {"extra_vars": {"a": 1}}):
        with pytest.raises(Conflict) as caught:
            launch(
                connection, dataclasses.replace(request_, **changed), cipher, idempotency_key="k1"
            )
        assert caught.value.code == "key_reused"


def test_a_key_belongs_to_one_principal_and_route(
    connection: Connection, request_: RunRequest, cipher: Cipher
) -> None:
    answers = [
        launch(connection, request_, cipher, idempotency_key="k1", **given)
        for given in ({}, {"principal": "other"}, {"route": "elsewhere"})
    ]
    assert all(a.created for a in answers)
    assert len({a.job_id for a in answers}) == 3


def test_without_a_key_each_request_is_a_job(
    connection: Connection, request_: RunRequest, cipher: Cipher
) -> None:
    assert len({launch(connection, request_, cipher).job_id for _ in range(3)}) == 3


@pytest.mark.parametrize("key", ["", "  ", "a\nb", "x" * 256])
def test_a_key_that_cannot_be_one_is_refused(
    connection: Connection, request_: RunRequest, cipher: Cipher, key: str
) -> None:
    with pytest.raises(InvalidRequest, match="Idempotency-Key"):
        launch(connection, request_, cipher, idempotency_key=key)


def test_a_refused_request_does_not_use_its_key_up(
    engine: Engine, request_: RunRequest, cipher: Cipher
) -> None:
    missing = dataclasses.replace(request_, bundle_digest="0" * 64)
    with pytest.raises(Conflict), transaction(engine) as connection:
        launch(connection, missing, cipher, idempotency_key="k1")
    with transaction(engine) as connection:
        assert launch(connection, request_, cipher, idempotency_key="k1").created


def test_a_rotated_key_file_still_recognizes_a_request_with_secrets(
    connection: Connection, request_: RunRequest, cipher: Cipher, data_dir: Path
) -> None:
    request = dataclasses.replace(request_, secret_vars={"password": "x"})
    first = launch(connection, request, cipher, idempotency_key="k1")
    key_file = data_dir / "cluster.key"
    make_key_file(data_dir / "new.key")
    key_file.write_bytes((data_dir / "new.key").read_bytes() + key_file.read_bytes())
    again = launch(connection, request, Cipher(key_file), idempotency_key="k1")
    assert (again.job_id, again.created) == (first.job_id, False)


def test_a_key_resolves_to_the_newest_retry(
    connection: Connection, request_: RunRequest, cipher: Cipher
) -> None:
    first = launch(connection, request_, cipher, idempotency_key="k1")
    retry = make_job(connection, retry_of=first.job_id)
    newest = make_job(connection, retry_of=retry)
    assert launch(connection, request_, cipher, idempotency_key="k1").job_id == newest


def test_many_at_once_with_one_key_make_one_job(
    engine: Engine, request_: RunRequest, cipher: Cipher
) -> None:
    def ask() -> Launched:
        with transaction(engine, lock_timeout=10) as connection:
            return launch(connection, request_, cipher, idempotency_key="k1")

    for answers in (at_once([ask] * 5), at_once([ask] * 5)):
        assert all(isinstance(a, Launched) for a in answers), answers
    with transaction(engine) as connection:
        assert connection.execute(text("SELECT count(*) FROM job")).scalar() == 1
        assert connection.execute(text("SELECT count(*) FROM job_input")).scalar() == 1


def test_while_the_first_request_is_open_the_second_is_told_to_come_back(
    engine: Engine, request_: RunRequest, cipher: Cipher
) -> None:
    with transaction(engine) as first:
        launch(first, request_, cipher, idempotency_key="k1")
        with pytest.raises(Conflict) as caught, transaction(engine, lock_timeout=0.1) as second:
            launch(second, request_, cipher, idempotency_key="k1")
    assert caught.value.code == "in_progress"
    assert caught.value.retry_after == 1


def test_when_the_first_request_fails_the_waiting_second_one_makes_the_job(
    engine: Engine, request_: RunRequest, cipher: Cipher
) -> None:
    answers: list[Launched] = []

    def second() -> None:
        with transaction(engine, lock_timeout=10) as connection:
            answers.append(launch(connection, request_, cipher, idempotency_key="k1"))

    def waits() -> bool:
        # a transaction of its own each time: the view stays as a transaction first saw it
        with engine.connect() as watcher:
            return bool(
                watcher.scalar(
                    text(
                        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                        " AND datname = current_database()"
                    )
                )
            )

    thread = threading.Thread(target=second)
    with engine.connect() as connection:
        begun = connection.begin()
        launch(connection, request_, cipher, idempotency_key="k1")
        thread.start()
        wait_until(waits, what="the second request waits for the first")
        begun.rollback()
    thread.join()
    assert [a.created for a in answers] == [True]


def test_a_key_that_expires_between_the_two_statements_is_taken(
    engine: Engine, request_: RunRequest, cipher: Cipher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row is gone when it is looked at: the insert is tried again."""
    with transaction(engine) as connection:
        launch(connection, request_, cipher, idempotency_key="k1")
    with transaction(engine) as connection:
        execute = connection.execute

        def expire_before_read(statement: Any, *args: Any, **kwargs: Any) -> Any:
            if "request_sha256 FROM idempotency_key" in str(statement):
                with transaction(engine) as other:
                    other.execute(text("DELETE FROM idempotency_key"))
            return execute(statement, *args, **kwargs)

        monkeypatch.setattr(connection, "execute", expire_before_read)
        assert launch(connection, request_, cipher, idempotency_key="k1").created
