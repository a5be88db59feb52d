"""What every table module shares: the metadata with its names, the database's clock, word lists."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import DateTime, MetaData, text

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

NOW = text("dispatcher_now()")
Timestamp = DateTime(timezone=True)


def one_of(column: str, words: Iterable[str]) -> str:
    """The CHECK that a column holds one of these words."""
    return f"{column} IN ({', '.join(repr(str(word)) for word in sorted(words))})"
