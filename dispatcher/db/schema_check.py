"""Refusing to work with a schema that does not fit.

Apart from :mod:`dispatcher.db.migrate`, whose tools take a good part of a second to import: every
role looks at the schema when it starts.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, inspect, text

from dispatcher import CODE_VERSION, clock
from dispatcher.errors import SchemaError

#: The newest migration of this package; known here so that a start on a current schema needs none
#: of the migration's tools.
NEWEST_REVISION: Final = "0004"
#: The schema version that this code needs at least.
SCHEMA_VERSION: Final = 4
#: Seconds between two looks of a role that is at work.
LOOK_EVERY: Final = 60.0


def current_revision(connection: Connection) -> str | None:
    """The migration that the database was brought to; nothing when it has no schema."""
    if not inspect(connection).has_table("schema_revision"):
        return None
    revision: str | None = connection.scalar(text("SELECT version_num FROM schema_revision"))
    return revision


def check_schema(connection: Connection) -> None:
    """Refuse a schema that this code cannot work with (docs/protocols.md 8).

    Raises:
        SchemaError: no schema, one older than needed, or one that needs newer code.
    """
    if not inspect(connection).has_table("schema_info"):
        raise SchemaError("the database has no schema: run `dispatcher migrate`")
    version, min_code = connection.execute(text("SELECT version, min_code FROM schema_info")).one()
    if version < SCHEMA_VERSION:
        raise SchemaError(
            f"the schema has version {version}, this code needs {SCHEMA_VERSION}: run `dispatcher migrate`"
        )
    if min_code > CODE_VERSION:
        raise SchemaError(
            f"the schema needs code version {min_code}, this is {CODE_VERSION}: upgrade this machine"
        )


class SchemaWatch:
    """Looks again now and then: a migration may have raised what the schema needs of the code.

    Args:
        every: seconds between two looks; the first one is due at once.
    """

    def __init__(self, every: float = LOOK_EVERY) -> None:
        self._every = every
        self._looked_at = float("-inf")

    @property
    def due(self) -> bool:
        """Whether the last look that found a schema that fits was long enough ago."""
        return clock.monotonic() - self._looked_at >= self._every

    def look(self, connection: Connection) -> None:
        """Check the schema when that is due.

        Raises:
            SchemaError: it does not fit.
        """
        if self.due:
            check_schema(connection)
            self._looked_at = clock.monotonic()
