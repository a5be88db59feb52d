"""What must be there before the roles start: the schema, the cluster's key, an API token."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from sqlalchemy import Engine

from dispatcher.actions.tokens import create_token, principal_of
from dispatcher.db.engine import make_engine, transaction
from dispatcher.db.schema_check import NEWEST_REVISION, current_revision
from dispatcher.embedded.state import write_private
from dispatcher.secrets import make_key_file
from dispatcher.settings import Settings

#: Whose the first token is.
_PRINCIPAL = "up"


def prepare(settings: Settings, *, key_file: Path, token_file: Path) -> None:
    """Bring the database up to date, and make key and token unless they are there.

    Raises:
        ConfigurationError: the database or a file is not fit.
    """
    engine = make_engine(settings, application_name="dispatcher up", watched=False)
    try:
        with engine.connect() as connection:
            revision = current_revision(connection)
        if revision != NEWEST_REVISION:
            # its tools take a good part of a second to import
            import_module("dispatcher.db.migrate").migrate(engine)
        make_key_file(key_file)
        _ensure_token(engine, token_file)
    finally:
        engine.dispose()


def _ensure_token(engine: Engine, file: Path) -> None:
    """A token in the file that this database knows.

    Not "one unless there is any": a start that was killed between commit and file, a lost file or
    a new database must not leave a user without one. Tokens of one name are one principal.
    """
    try:
        known = file.read_text().strip()
    except OSError:
        known = ""
    with transaction(engine) as connection:
        if known and principal_of(connection, known) is not None:
            return
        write_private(file, create_token(connection, _PRINCIPAL) + "\n")
