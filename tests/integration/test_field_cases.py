"""Cases that users of other tools met in the field, as far as launch and TaskManager decide them.

``tests/architecture/test_field_cases.py`` lists all of them, with what shows each.
"""

from __future__ import annotations

import uuid

from sqlalchemy import Engine

from dispatcher.actions.launch import launch_run
from dispatcher.actions.save_node import change_node
from dispatcher.broker.messages import Manager
from dispatcher.db.engine import transaction
from dispatcher.domain.launch import RunRequest
from dispatcher.secrets import Cipher
from schedulers.passes.manager_pass import Runner
from tests.factories import finish_job, make_node, store_bundle
from tests.passes import changed, job_row

TASK = Manager.TASK


def launched(engine: Engine, cipher: Cipher, inventory: str, host_lock: str = "none") -> int:
    """A run of these hosts; its job."""
    with transaction(engine) as connection:
        digest = store_bundle(connection, {f"{uuid.uuid4().hex}.yml": "", "site.yml": "[]"})
        request = RunRequest("site.yml", digest, inventory=inventory, host_lock=host_lock)
        return launch_run(
            connection, request, principal="ci", uuid=uuid.uuid4(), cipher=cipher
        ).job_id


def test_two_names_for_one_address_never_run_at_once_under_exclusive_locks(
    engine: Engine, running: Runner, cipher: Cipher
) -> None:
    with changed(engine) as connection:
        make_node(connection, "n1")
    first = launched(engine, cipher, "web ansible_host=192.0.2.7\n", "exclusive")
    second = launched(engine, cipher, "old-web ansible_host=192.0.2.7\n", "exclusive")
    other = launched(engine, cipher, "db ansible_host=192.0.2.8\n", "exclusive")
    running.trigger(TASK)
    held = job_row(engine, second)
    assert (held.status, held.pending_reason["code"]) == ("pending", "host_lock")
    assert [job_row(engine, job).status for job in (first, other)] == ["waiting", "waiting"]
    with changed(engine) as connection:
        finish_job(connection, first)
    running.trigger(TASK)
    assert job_row(engine, second).status == "waiting"


def test_a_launch_while_all_nodes_are_drained_is_accepted_and_starts_once_one_is_back(
    engine: Engine, running: Runner, cipher: Cipher
) -> None:
    with changed(engine) as connection:
        nodes = [make_node(connection, name) for name in ("n1", "n2")]
    for node in nodes:
        with transaction(engine) as connection:
            change_node(connection, node, {"draining": True})
    job = launched(engine, cipher, "web\n")
    running.trigger(TASK)
    row = job_row(engine, job)
    assert (row.status, row.pending_reason["code"]) == ("pending", "all_drained")
    with transaction(engine) as connection:
        change_node(connection, nodes[1], {"draining": False})
    running.trigger(TASK)
    row = job_row(engine, job)
    assert (row.status, row.node_id) == ("waiting", nodes[1])
