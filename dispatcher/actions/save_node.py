"""What operators say of a node: whether it takes jobs, and how much of it may be used."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Connection, text

from dispatcher.actions import saving
from dispatcher.broker.messages import Manager, Owed, wake
from dispatcher.db import job_moves
from dispatcher.db import tables as t
from dispatcher.db.change import raise_counter
from dispatcher.domain.launch_checks import flag_problem
from dispatcher.errors import NotFound


def adjustment_problem(value: object) -> str | None:
    """Where between the smaller and the larger of a node's capacities its own is."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return "a number from 0 to 1 is required"
    return None if 0 <= value <= 1 else "a number from 0 to 1 is required"


NODE: Final = saving.Subject(
    table=t.node,
    word="instance",
    rules={
        "enabled": flag_problem,
        "draining": flag_problem,
        "capacity_adjustment": adjustment_problem,
    },
)


def change_node(connection: Connection, node_id: int, values: Mapping[str, Any]) -> Owed:
    """Enable, disable, drain, adjust. What runs goes on in any case.

    A node that takes no jobs any more gives back those that wait on it in the same transaction;
    one that a pass starts there later is not claimed (:func:`job_moves.claim`), and recovery
    returns it.

    Raises:
        NotFound: there is no such node.
        InvalidRequest: by field.
    """
    row = connection.execute(
        text("SELECT name FROM node WHERE id = :node AND removed IS NULL FOR NO KEY UPDATE"),
        {"node": node_id},
    ).one_or_none()
    if row is None:
        raise NotFound(f"there is no instance {node_id}")
    changed = dict(values)
    saving.change(connection, NODE, node_id, changed)
    if not changed:
        return Owed()
    if "capacity_adjustment" in changed:
        connection.execute(
            text("UPDATE node SET adjustment_set = true WHERE id = :node"), {"node": node_id}
        )
    shut = _shut(connection, node_id)
    if shut:
        job_moves.return_jobs(
            connection,
            reason={"code": "returned", "data": {"node": row.name, "why": shut}},
            node_ids=[node_id],
        )
    raise_counter(connection)
    return wake(Manager.TASK)


def _shut(connection: Connection, node_id: int) -> str:
    """Why operators want no more jobs there; empty when they do."""
    row = connection.execute(
        text("SELECT enabled, draining FROM node WHERE id = :node"), {"node": node_id}
    ).one()
    if row.draining:
        return "draining"
    return "" if row.enabled else "disabled"
