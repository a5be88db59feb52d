"""A node's entry into the cluster, and what it says of itself later (docs/protocols.md 3.6, 3.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, text

from dispatcher.broker.messages import Manager, Owed, wake
from dispatcher.db import job_moves, node_registration
from dispatcher.db.change import raise_counter
from dispatcher.domain.capacity import cpu_capacity, mem_capacity
from dispatcher.domain.text import has_control
from dispatcher.errors import ConfigurationError, NotFound

_TRIES: Final = 5
_LONGEST_GROUP: Final = 100


@dataclass(frozen=True)
class Registered:
    """A node that is in the cluster; every write of its agent carries ``epoch``."""

    node_id: int
    epoch: int
    owed: Owed


@dataclass(frozen=True)
class Accepting:
    """What :func:`set_accepting` changed: the jobs that went back to pending, and what is owed."""

    returned: list[int]
    owed: Owed


def register_node(
    connection: Connection,
    *,
    name: str,
    identity: UUID,
    machine_id: str,
    groups: Sequence[str],
    cpus: float,
    memory: int,
    fixed_capacity: int | None,
    adjustment: float,
    max_jobs: int,
    version: str,
) -> Registered:
    """Enter a node into the cluster, or come back under the same name with a higher epoch.

    Args:
        name: unique among the nodes that are present.
        identity: made once for each data directory.
        machine_id: of the machine; empty when it has none.
        groups: instance groups to join; missing ones are made.
        cpus: number of CPUs, a fraction where a cgroup limits them.
        memory: bytes.
        fixed_capacity: set by hand, or None.
        adjustment: see :func:`dispatcher.domain.capacity.node_capacity`.
        max_jobs: most runs at once.
        version: of the code.

    Raises:
        ConfigurationError: the name is held by another identity with a live lease, this identity
            is alive under another name, or a group's name is not fit.
    """
    for group in groups:
        if not group.strip() or len(group) > _LONGEST_GROUP or has_control(group):
            raise ConfigurationError(f"node groups: {group!r} is not a name")
    _refuse_second_name(connection, name, identity)
    columns = _columns(
        cpus=cpus,
        memory=memory,
        fixed_capacity=fixed_capacity,
        adjustment=adjustment,
        max_jobs=max_jobs,
    ) | {"identity": identity, "machine_id": machine_id, "version": version}
    for _ in range(_TRIES):
        present = node_registration.lock_present(connection, name)
        if present is None:
            node_id = node_registration.insert(connection, name, columns)
            if node_id is None:
                continue  # somebody else came first: look again
        elif present.identity == identity and (
            present.is_same(identity, machine_id) or present.state not in node_registration.LIVE
        ):
            node_id = node_registration.come_back(connection, present.node_id, columns)
        elif present.state in node_registration.LIVE or node_registration.has_active_jobs(
            connection, present.node_id
        ):
            raise ConfigurationError(
                f"node name {name!r} is held by another node (identity {present.identity},"
                f" machine {present.machine_id or 'unknown'}, {present.state}): choose another"
                " name, or wait until that node has left or is lost and its jobs have ended"
            )
        else:
            node_registration.bury(connection, present.node_id)
            continue
        epoch = node_registration.take_lease(connection, node_id)
        node_registration.join(connection, node_id, groups)
        raise_counter(connection)
        return Registered(node_id, epoch, wake(Manager.TASK))
    raise ConfigurationError(f"node name {name!r} is being registered by another node: try again")


def update_capacity(
    connection: Connection,
    node_id: int,
    *,
    cpus: float,
    memory: int,
    fixed_capacity: int | None,
    adjustment: float,
    max_jobs: int,
) -> Owed:
    """Write a node's measured capacity; nothing is owed when it has not changed."""
    columns = _columns(
        cpus=cpus,
        memory=memory,
        fixed_capacity=fixed_capacity,
        adjustment=adjustment,
        max_jobs=max_jobs,
    )
    if not node_registration.write_capacity(connection, node_id, columns):
        return Owed()
    raise_counter(connection)
    return wake(Manager.TASK)


def set_accepting(connection: Connection, node_id: int, reason: str) -> Accepting:
    """Say that a node claims jobs (``reason`` empty) or why it does not.

    When it does not, its waiting jobs go back to pending in the same transaction, each time this
    is called: a pass that read the node before may have started another one on it.

    Raises:
        NotFound: no such node.
    """
    row = connection.execute(
        text("SELECT name, not_accepting_reason FROM node WHERE id = :node FOR NO KEY UPDATE"),
        {"node": node_id},
    ).one_or_none()
    if row is None:
        raise NotFound(f"no node {node_id}")
    name, before = row
    if before != reason:
        connection.execute(
            text(
                "UPDATE node SET accepting = :accepting, not_accepting_reason = :reason,"
                " modified = dispatcher_now() WHERE id = :node"
            ),
            {"accepting": reason == "", "reason": reason, "node": node_id},
        )
    returned: list[int] = []
    if reason:
        returned = job_moves.return_jobs(
            connection,
            reason={"code": "returned", "data": {"node": name, "why": reason}},
            node_ids=[node_id],
        )
    if before == reason and not returned:
        return Accepting([], Owed())
    raise_counter(connection)
    return Accepting(returned, wake(Manager.TASK))


def _columns(
    *,
    cpus: float,
    memory: int,
    fixed_capacity: int | None,
    adjustment: float,
    max_jobs: int,
) -> dict[str, Any]:
    return {
        "cpus": cpus,
        "memory": memory,
        "cpu_capacity": cpu_capacity(cpus),
        "mem_capacity": mem_capacity(memory),
        "fixed_capacity": fixed_capacity,
        "capacity_adjustment": adjustment,
        "max_jobs": max_jobs,
    }


def _refuse_second_name(connection: Connection, name: str, identity: UUID) -> None:
    """One data directory is one node: its run directories belong to one name."""
    other = node_registration.live_name_of(connection, identity, except_name=name)
    if other is not None:
        raise ConfigurationError(
            f"node name {name!r}: this data directory belongs to node {other!r}, which has not"
            " left yet: give each node a data directory of its own"
        )
