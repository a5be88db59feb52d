"""What follows from every change of an inventory: addresses, counts, revision, pending jobs."""

from __future__ import annotations

import json
from collections.abc import Collection

from sqlalchemy import Connection, text

from dispatcher.actions.resolve_targets import resolve_inventory
from dispatcher.broker.messages import Manager, Owed, wake
from dispatcher.db.stored_inventory import read_inventory
from dispatcher.domain.inventory import InventoryError
from dispatcher.errors import InvalidRequest, NotFound


def lock_inventory(connection: Connection, inventory_id: int) -> None:
    """Hold an inventory until the transaction ends: changes of one come one after another.

    Raises:
        NotFound: there is no such inventory.
    """
    found = connection.scalar(
        text("SELECT id FROM inventory WHERE id = :id FOR NO KEY UPDATE"), {"id": inventory_id}
    )
    if found is None:
        raise NotFound(f"there is no inventory {inventory_id}")


def inventory_changed(
    connection: Connection, inventory_id: int, *, host_ids: Collection[int] | None = None
) -> Owed:
    """Bring everything up to date that is computed from an inventory. It must be locked.

    The caller raises the change counter, as the last statement of its transaction.

    Args:
        host_ids: the only hosts whose addresses may have changed; None: any.

    Raises:
        InvalidRequest: its groups are children of each other, with the way round.
    """
    _store_addresses(connection, inventory_id, host_ids)
    connection.execute(
        text(
            "UPDATE inventory SET revision = revision + 1, host_count = (SELECT count(*)"
            " FROM inventory_host WHERE inventory_id = :id AND enabled) WHERE id = :id"
        ),
        {"id": inventory_id},
    )
    return wake(Manager.TASK) + resolve_inventory(connection, inventory_id)


def _store_addresses(
    connection: Connection, inventory_id: int, host_ids: Collection[int] | None
) -> None:
    if host_ids is not None and not host_ids:
        return
    try:
        stored = read_inventory(connection, inventory_id, disabled=True, host_ids=host_ids)
    except InventoryError as error:
        raise InvalidRequest({"children": error.message}) from None
    if stored is None:
        return
    rows = []
    for host, before in stored.addresses.items():
        address = stored.inventory.connection_address(host)
        if address != before:
            rows.append({"name": host, "address": address})
    if rows:
        connection.execute(
            text(
                "UPDATE inventory_host SET address = v.address FROM"
                " jsonb_to_recordset(CAST(:rows AS jsonb)) AS v(name text, address text)"
                " WHERE inventory_id = :id AND inventory_host.name = v.name"
            ),
            {"id": inventory_id, "rows": json.dumps(rows)},
        )
