"""What an inventory source found goes into the tables, in bulk; no statement for each host.

Owned by a source: hosts and groups that it brought. Those made by hand are given its variables and
memberships, but are never disabled or removed because the source does not name them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

from dispatcher.actions.inventory_changed import inventory_changed, lock_inventory
from dispatcher.broker.messages import Owed
from dispatcher.domain.inventory_listing import Listing
from dispatcher.errors import NotFound


@dataclass(frozen=True)
class Imported:
    """What an import changed.

    Attributes:
        hosts, groups: in the listing.
        changed: rows that were written: hosts, groups, memberships.
        gone: hosts that the source does not name any more and that were disabled or removed, and
            groups that were removed.
        owed: nothing when nothing changed.
    """

    hosts: int
    groups: int
    changed: int
    gone: int
    owed: Owed


def import_inventory(
    connection: Connection, inventory_source_id: int, listing: Listing
) -> Imported:
    """Bring an inventory to what its source says, in the caller's transaction.

    The caller raises the change counter, as the last statement.

    Raises:
        NotFound: the source is gone.
        InvalidRequest: groups would be children of each other, with those made by hand.
    """
    source = connection.execute(
        text("SELECT inventory_id, gone_hosts FROM inventory_source WHERE id = :id"),
        {"id": inventory_source_id},
    ).one_or_none()
    if source is None:
        raise NotFound(f"there is no inventory source {inventory_source_id}")
    names = {"inventory": source.inventory_id, "source": inventory_source_id}
    lock_inventory(connection, source.inventory_id)
    changed = _store_variables(connection, names, listing.variables)
    changed += _store_named(connection, "inventory_host", names, listing.hosts)
    changed += _store_named(connection, "inventory_group", names, listing.groups)
    changed += connection.execute(text(_RETURNED), names | {"names": list(listing.hosts)}).rowcount
    gone = _let_go(connection, source.gone_hosts, names, listing)
    changed += _store_links(connection, names, listing, remove=source.gone_hosts != "keep")
    owed = Owed()
    if changed or gone:
        owed = inventory_changed(connection, source.inventory_id)
    return Imported(len(listing.hosts), len(listing.groups), changed, gone, owed)


_RETURNED = """
    UPDATE inventory_host SET gone = false, enabled = true
    WHERE inventory_id = :inventory AND gone AND name = ANY(:names)
"""


def _store_variables(
    connection: Connection, names: Mapping[str, int], variables: Mapping[str, Any]
) -> int:
    if not variables:
        return 0
    return connection.execute(
        text(
            "UPDATE inventory SET variables = variables || CAST(:new AS jsonb) WHERE id = :inventory"
            " AND variables || CAST(:new AS jsonb) IS DISTINCT FROM variables"
        ),
        {"inventory": names["inventory"], "new": json.dumps(dict(variables))},
    ).rowcount


def _store_named(
    connection: Connection,
    table: str,
    names: Mapping[str, int],
    found: Mapping[str, Mapping[str, Any]],
) -> int:
    """Hosts or groups by name: new ones, and those whose variables differ; how many."""
    if not found:
        return 0
    rows = json.dumps([{"name": name, "variables": given} for name, given in found.items()])
    written = connection.execute(
        text(
            f"""
            INSERT INTO {table} (inventory_id, inventory_source_id, name, variables)
            SELECT :inventory, :source, v.name, v.variables
            FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS v(name text, variables jsonb)
            ON CONFLICT (inventory_id, name) DO UPDATE
                SET variables = excluded.variables, modified = dispatcher_now()
                WHERE {table}.variables IS DISTINCT FROM excluded.variables
            """
        ),
        {**names, "rows": rows},
    )
    return written.rowcount


def _let_go(connection: Connection, policy: str, names: Mapping[str, int], listing: Listing) -> int:
    """Hosts, and groups, of this source that it does not name any more; how many hosts."""
    if policy == "keep":
        return 0
    absent = (
        "inventory_id = :inventory AND inventory_source_id = :source"
        " AND NOT (name = ANY(CAST(:names AS text[])))"
    )
    if policy == "remove":
        statement = f"DELETE FROM inventory_host WHERE {absent}"
    else:
        statement = (
            f"UPDATE inventory_host SET enabled = false, gone = true WHERE {absent} AND enabled"
        )
    gone = connection.execute(text(statement), {**names, "names": list(listing.hosts)}).rowcount
    gone += connection.execute(
        text(f"DELETE FROM inventory_group WHERE {absent}"),
        {**names, "names": list(listing.groups)},
    ).rowcount
    return gone


def _store_links(
    connection: Connection, names: Mapping[str, int], listing: Listing, *, remove: bool
) -> int:
    """Who belongs to whom. Links between two that are the source's own and that it does not name
    are taken away.

    NOT IN, not NOT EXISTS: it is hashed whatever the planner believes. Of hosts that were inserted a
    moment ago it believes that there are few, and would compare each link with each.
    """
    changed = 0
    for table, one, other, other_table, pairs in (
        ("inventory_group_host", "group_id", "host_id", "inventory_host", listing.members),
        ("inventory_group_child", "parent_id", "child_id", "inventory_group", listing.children),
    ):
        ordered = sorted(pairs)
        given = {
            **names,
            "ones": [a for a, _ in ordered],
            "others": [b for _, b in ordered],
        }
        wanted = f"""
            WITH wanted AS (
                SELECT a.id AS one, b.id AS other
                FROM unnest(CAST(:ones AS text[]), CAST(:others AS text[])) AS v(one, other)
                JOIN inventory_group a ON a.inventory_id = :inventory AND a.name = v.one
                JOIN {other_table} b ON b.inventory_id = :inventory AND b.name = v.other
            )
        """
        if remove:
            changed += connection.execute(
                text(
                    f"""
                    {wanted} DELETE FROM {table} link USING inventory_group a, {other_table} b
                    WHERE link.{one} = a.id AND link.{other} = b.id
                      AND a.inventory_source_id = :source AND b.inventory_source_id = :source
                      AND a.inventory_id = :inventory
                      AND (link.{one}, link.{other}) NOT IN (SELECT one, other FROM wanted)
                    """
                ),
                given,
            ).rowcount
        if ordered:
            changed += connection.execute(
                text(
                    f"{wanted} INSERT INTO {table} ({one}, {other})"
                    " SELECT one, other FROM wanted ON CONFLICT DO NOTHING"
                ),
                given,
            ).rowcount
    return changed
