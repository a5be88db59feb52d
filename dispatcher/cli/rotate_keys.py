"""``dispatcher rotate-keys``: another key for the secrets at rest, while everything runs."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dispatcher import clock
from dispatcher import settings as settings_module
from dispatcher.actions.rotate_keys import Progress, rotate
from dispatcher.cli.databases import engine_of, with_servers
from dispatcher.cli.output import say
from dispatcher.db.engine import transaction, unavailable_when_away
from dispatcher.db.schema_check import check_schema
from dispatcher.errors import ConfigurationError
from dispatcher.secrets import Cipher, new_key, read_keys, replace_keys

#: Seconds between two lines of progress.
_SAY_EVERY = 2.0


class Key(StrEnum):
    """Which key encrypts from now on."""

    NEW = "new"
    LAST = "last"
    FIRST = "first"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="rotate-keys")(rotate_keys)


def rotate_keys(
    key: Annotated[
        Key,
        typer.Option(
            help="Encrypt with a new key, with the last one of the file (from --add), or with the"
            " first one as it is."
        ),
    ] = Key.NEW,
    add: Annotated[
        bool,
        typer.Option(
            "--add",
            help="Only add a new key at the end of the file, where it decrypts: to be copied to all"
            " machines before it is used.",
        ),
    ] = False,
) -> None:
    """Encrypt all stored secrets with another key; safe to repeat, and to kill."""
    settings = settings_module.load()
    if not add:
        settings = with_servers(settings)
    file = settings.key_file or settings.data_dir / "cluster.key"
    with _alone(file):
        keys = read_keys(file)
        if add:
            replace_keys(file, [*keys, new_key()])
            say(f"{file}: {len(keys) + 1} keys, the last one new; copy the file to every machine")
            return
        with engine_of(settings) as engine, unavailable_when_away():
            with transaction(engine) as connection:
                check_schema(connection)
            wanted = _ordered(keys, key)
            if wanted != keys:
                replace_keys(file, wanted)
            say(f"{file}: {len(wanted)} keys, the first one encrypts")
            left = _tell(rotate(engine, Cipher(file)))
    if left:
        raise ConfigurationError(f"no key of {file} fits: {'; '.join(left)}")
    say(f"everything is encrypted with the first key of {file}")


def _ordered(keys: list[str], key: Key) -> list[str]:
    if key is Key.NEW:
        return [new_key(), *keys]
    if key is Key.LAST:
        return [keys[-1], *keys[:-1]]
    return keys


def _tell(steps: Iterator[Progress]) -> list[str]:
    """Say how it goes; what cannot be decrypted, in words."""
    places: dict[str, Progress] = {}
    said = clock.monotonic()
    for progress in steps:
        places[progress.what] = progress
        if clock.monotonic() - said >= _SAY_EVERY:
            said = clock.monotonic()
            say(f"{_words(progress)} so far")
    for progress in places.values():
        say(_words(progress))
    changing = [p for p in places.values() if p.changed]
    for progress in changing:
        say(f"{progress.what}: {progress.changed} were changed meanwhile: repeat with --key first")
    return [
        f"{p.what} {', '.join(map(str, sorted(p.unreadable)[:20]))}"
        + (f" and {len(p.unreadable) - 20} more" if len(p.unreadable) > 20 else "")
        for p in places.values()
        if p.unreadable
    ]


def _words(progress: Progress) -> str:
    return f"{progress.what}: {progress.read} secrets read, {progress.renewed} encrypted anew"


@contextmanager
def _alone(key_file: Path) -> Iterator[None]:
    """One rotation at a time on a key file: two would each drop the other's new key."""
    try:
        descriptor = os.open(key_file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigurationError(f"{key_file}: no key file: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise ConfigurationError(f"{key_file}: another rotation is at work") from None
    finally:
        os.close(descriptor)
