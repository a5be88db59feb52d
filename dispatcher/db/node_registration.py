"""What a node's registration writes: its row, its lease, its groups (docs/protocols.md 3.6).

Lock order: the lease row first, then the node's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, text

#: Lease states under which a node may still run playbooks.
LIVE: Final = ("alive", "suspect")

#: Parameters whose type PostgreSQL cannot know when they are compared or null.
_TYPES: Final = {
    "cpus": "double precision",
    "memory": "bigint",
    "fixed_capacity": "integer",
    "capacity_adjustment": "double precision",
    "identity": "uuid",
}


def _parameter(column: str) -> str:
    return f"CAST(:{column} AS {_TYPES[column]})" if column in _TYPES else f":{column}"


def _measured(column: str) -> str:
    """What a node says of itself, unless an operator has said otherwise."""
    if column != "capacity_adjustment":
        return _parameter(column)
    return f"CASE WHEN adjustment_set THEN {column} ELSE {_parameter(column)} END"


def _assignments(names: Sequence[str]) -> str:
    return ", ".join(f"{name} = {_measured(name)}" for name in names)


@dataclass(frozen=True)
class Present:
    """The node that holds a name now. ``state`` is its lease's."""

    node_id: int
    identity: UUID
    machine_id: str
    state: str

    def is_same(self, identity: UUID, machine_id: str) -> bool:
        """The same data directory, not a copy of it on another machine."""
        same_machine = self.machine_id == machine_id or not (self.machine_id and machine_id)
        return self.identity == identity and same_machine


def live_name_of(connection: Connection, identity: UUID, *, except_name: str) -> str | None:
    """The other name under which an identity is alive."""
    name: str | None = connection.scalar(
        text(
            "SELECT node.name FROM node JOIN node_lease ON node_lease.node_id = node.id"
            " WHERE node.identity = CAST(:identity AS uuid) AND node.name <> :name"
            " AND node.removed IS NULL AND node_lease.state = ANY(:live) LIMIT 1"
        ),
        {"identity": str(identity), "name": except_name, "live": list(LIVE)},
    )
    return name


def lock_present(connection: Connection, name: str) -> Present | None:
    """The node that holds a name, with its lease row locked, then its own."""
    find = text("SELECT id FROM node WHERE name = :name AND removed IS NULL")
    node_id = connection.scalar(find, {"name": name})
    if node_id is None:
        return None
    state = connection.scalar(
        text("SELECT state FROM node_lease WHERE node_id = :node FOR UPDATE"), {"node": node_id}
    )
    row = connection.execute(
        text(
            "SELECT identity, machine_id FROM node WHERE id = :node AND removed IS NULL"
            " FOR NO KEY UPDATE"
        ),
        {"node": node_id},
    ).one_or_none()
    if row is None:
        return None
    return Present(node_id, row.identity, row.machine_id, state or "left")


def insert(connection: Connection, name: str, columns: dict[str, Any]) -> int | None:
    """A new node; None when the name was taken meanwhile (waits for whoever is taking it)."""
    names = ", ".join(columns)
    values = ", ".join(_parameter(column) for column in columns)
    node_id: int | None = connection.scalar(
        text(
            f"INSERT INTO node (name, {names}) VALUES (:name, {values})"
            " ON CONFLICT (name) WHERE removed IS NULL DO NOTHING RETURNING id"
        ),
        _texts(columns) | {"name": name},
    )
    return node_id


def come_back(connection: Connection, node_id: int, columns: dict[str, Any]) -> int:
    """The same node again. What operators set (enabled, draining, adjustment) stays."""
    connection.execute(
        text(
            f"UPDATE node SET {_assignments(list(columns))}, accepting = true,"
            " not_accepting_reason = '', modified = dispatcher_now() WHERE id = :node_id"
        ),
        _texts(columns) | {"node_id": node_id},
    )
    return node_id


def _texts(columns: dict[str, Any]) -> dict[str, Any]:
    return {name: str(v) if isinstance(v, UUID) else v for name, v in columns.items()}


def write_capacity(connection: Connection, node_id: int, columns: dict[str, Any]) -> bool:
    """Write what was measured of a node; whether anything of it has changed."""
    names = list(columns)
    changed = connection.execute(
        text(
            f"UPDATE node SET {_assignments(names)}, modified = dispatcher_now()"
            f" WHERE id = :node_id AND ({', '.join(names)}) IS DISTINCT FROM"
            f" ({', '.join(_measured(n) for n in names)})"
        ),
        columns | {"node_id": node_id},
    )
    return changed.rowcount == 1


def has_active_jobs(connection: Connection, node_id: int) -> bool:
    """Whether the node has jobs that are waiting or running."""
    return bool(
        connection.scalar(
            text(
                "SELECT EXISTS (SELECT 1 FROM job WHERE node_id = :node"
                " AND status IN ('waiting', 'running'))"
            ),
            {"node": node_id},
        )
    )


def bury(connection: Connection, node_id: int) -> None:
    """Leave a tombstone: jobs go on naming the node, its name is free."""
    connection.execute(
        text("UPDATE node SET removed = dispatcher_now() WHERE id = :node"), {"node": node_id}
    )


def take_lease(connection: Connection, node_id: int) -> int:
    """A new epoch, alive. ``seq`` goes on, so that recovery never acts on what it saw before."""
    epoch, seq = connection.execute(
        text(
            "INSERT INTO node_lease AS l (node_id, epoch, state, seq) VALUES (:node, 1, 'alive', 1)"
            " ON CONFLICT (node_id) DO UPDATE SET epoch = l.epoch + 1, state = 'alive',"
            " seq = l.seq + 1, renewed_at = dispatcher_now() RETURNING epoch, seq"
        ),
        {"node": node_id},
    ).one()
    connection.execute(
        text(
            "INSERT INTO node_watch (node_id, seq) VALUES (:node, :seq) ON CONFLICT (node_id)"
            " DO UPDATE SET seq = :seq, missed = 0, ticked_at = dispatcher_now()"
        ),
        {"node": node_id, "seq": seq},
    )
    return int(epoch)


def join(connection: Connection, node_id: int, groups: Sequence[str]) -> None:
    """Put the node into groups; missing ones are made."""
    names = sorted(set(groups))  # one order for everybody, so that two nodes never deadlock
    for name in names:
        connection.execute(
            text("INSERT INTO instance_group (name) VALUES (:name) ON CONFLICT DO NOTHING"),
            {"name": name},
        )
    connection.execute(
        text(
            "INSERT INTO instance_group_node (instance_group_id, node_id)"
            " SELECT id, :node FROM instance_group WHERE name = ANY(:names)"
            " ON CONFLICT DO NOTHING"
        ),
        {"node": node_id, "names": names},
    )
