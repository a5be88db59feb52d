"""What an update found goes into the database, before its job becomes final.

Not in the final transaction, which many runs share: a bundle, or ten thousand hosts, take seconds.
Safe to repeat: a bundle is known by its digest, and an import of the same hosts changes nothing.
"""

from __future__ import annotations

from sqlalchemy import Connection, text

from dispatcher import logs
from dispatcher.actions.import_inventory import import_inventory
from dispatcher.actions.store_content import Limits
from dispatcher.broker.messages import Owed
from dispatcher.db.change import raise_counter
from dispatcher.domain.inventory import InventoryError
from dispatcher.domain.inventory_listing import read_listing
from dispatcher.domain.outcome import Outcome
from dispatcher.errors import InvalidRequest, NotFound
from dispatcher.settings import Settings
from workers.content_connection import ContentConnection
from workers.courier import Courier
from workers.outcome import decide
from workers.run_dir import Result
from workers.runs import Run, Verdict
from workers.update_files import UpdateFiles


class Delivery:
    """Stores what updates found, over the connection for content."""

    def __init__(self, settings: Settings, content: ContentConnection, courier: Courier) -> None:
        self._limits = Limits(settings.max_bundle_bytes, settings.max_bundle_unpacked_bytes)
        self._content = content
        self._courier = courier
        self._log = logs.get(__name__)

    def deliver(self, run: Run, result: Result) -> None:
        """Store it; what cannot be stored, ever, becomes the run's verdict.

        Raises:
            SQLAlchemyError, Unavailable: the database is away: try again.
            OSError: the files cannot be read.
        """
        evidence = result.evidence
        if evidence.kind == "playbook" or run.verdict is not None:
            return
        if decide(evidence, result.tolerances).outcome is not Outcome.SUCCESSFUL:
            return
        files = UpdateFiles(run.directory)
        try:
            if evidence.kind == "project_update":
                self._store(files, result)
            else:
                self._import(run, files)
        except InvalidRequest as error:
            stage = Outcome.INVENTORY if evidence.kind == "inventory_update" else Outcome.PROJECT
            run.verdict = Verdict(stage, f"what was found cannot be stored: {error}")
        except (InventoryError, NotFound, ValueError) as error:
            run.verdict = Verdict(
                Outcome.INVENTORY, f"the listing of the inventory cannot be used: {error}"
            )

    def _store(self, files: UpdateFiles, result: Result) -> None:
        self._content.store(result.update["bundle_digest"], files.read_bundle(), self._limits)

    def _import(self, run: Run, files: UpdateFiles) -> None:
        try:
            listing = read_listing(files.read_listing())
        except FileNotFoundError:
            raise InventoryError("ansible-inventory wrote none") from None
        owed = Owed()
        with self._content.importing() as connection:
            source = _source_of(connection, run)
            if source is None:
                return  # the row is not this run's any more, or was canceled: nothing is changed
            imported = import_inventory(connection, source, listing)
            if imported.owed:
                raise_counter(connection)
            owed = imported.owed
        self._courier.owe(owed)
        self._log.info(
            "inventory imported",
            hosts=imported.hosts,
            changed=imported.changed,
            gone=imported.gone,
            **run.names,
        )


def _source_of(connection: Connection, run: Run) -> int | None:
    """The source of a run that is still to be finished here."""
    row = connection.execute(
        text(
            "SELECT inventory_source_id FROM job WHERE id = :job AND status = 'running'"
            " AND dispatch_id = :dispatch AND NOT cancel_requested FOR KEY SHARE"
        ),
        {"job": run.job_id, "dispatch": str(run.dispatch_id)},
    ).one_or_none()
    if row is None:
        return None
    if row[0] is None:
        raise NotFound("its inventory source was deleted")
    return int(row[0])
