"""Encrypting stored secrets anew with the first key of the key file, in batches, while all runs.

Nothing is locked and nothing remembered: a batch replaces what is still as it was read. Whoever
stores something new meanwhile stores it with the keys of its own machine, so rows are looked at
again until there is nothing to do; a rotation that was killed is simply made again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Connection, Engine, text

from dispatcher.db.engine import transaction
from dispatcher.errors import SecretsUnreadable
from dispatcher.secrets import Cipher

#: What holds secrets: words for people, table, its number, the column.
PLACES: Final = (
    ("credentials", "credential", "id", "secrets"),
    ("job inputs", "job_input", "job_id", "secret_vars"),
)
BATCH: Final = 500
#: Rounds over rows that change all the time before the rest is left to the next call.
_MOST_ROUNDS: Final = 5


@dataclass
class Progress:
    """How far the rotation of one place is.

    Attributes:
        what: the place in words.
        read, renewed: secrets looked at, and encrypted anew.
        changed: rows that somebody else changed meanwhile, in this round.
        unreadable: numbers of rows that no key of the file fits.
    """

    what: str
    read: int = 0
    renewed: int = 0
    changed: int = 0
    unreadable: set[int] = field(default_factory=set)


def rotate(engine: Engine, cipher: Cipher, *, batch: int = BATCH) -> Iterator[Progress]:
    """Encrypt everything anew that is not encrypted with the first key.

    Yields:
        The progress, the same object for each place, after every batch.
    """
    for what, table, key, column in PLACES:
        progress = Progress(what)
        for _ in range(_MOST_ROUNDS):
            progress.changed, before = 0, progress.renewed
            after: int | None = 0
            while after is not None:
                with transaction(engine, statement_timeout=60) as connection:
                    after = _batch(connection, cipher, progress, (table, key, column), after, batch)
                yield progress
            # until a round finds nothing: what was encrypted before and committed behind us
            if not progress.changed and progress.renewed == before:
                break


def _batch(
    connection: Connection,
    cipher: Cipher,
    progress: Progress,
    place: tuple[str, str, str],
    after: int,
    size: int,
) -> int | None:
    """One batch; the last number in it, None when there was nothing left."""
    table, key, column = place
    rows = connection.execute(
        text(
            f"SELECT {key}, {column} FROM {table} WHERE {key} > :after AND {column} IS NOT NULL"
            f" ORDER BY {key} LIMIT :size"
        ),
        {"after": after, "size": size},
    ).all()
    anew = []
    for number, token in rows:
        try:
            renewed = cipher.renewed(bytes(token))
        except SecretsUnreadable:
            progress.unreadable.add(number)
            continue
        if renewed is not None:
            anew.append({"number": number, "old": bytes(token), "new": renewed})
    if anew:
        done = connection.execute(
            text(
                f"UPDATE {table} SET {column} = v.new"
                " FROM unnest(CAST(:numbers AS bigint[]), CAST(:olds AS bytea[]),"
                " CAST(:news AS bytea[])) AS v(number, old, new)"
                f" WHERE {table}.{key} = v.number AND {table}.{column} = v.old"
            ),
            {
                "numbers": [each["number"] for each in anew],
                "olds": [each["old"] for each in anew],
                "news": [each["new"] for each in anew],
            },
        ).rowcount
        progress.renewed += done
        progress.changed += len(anew) - done
    progress.read += len(rows)
    return rows[-1][0] if len(rows) == size else None
