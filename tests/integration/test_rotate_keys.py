"""``dispatcher rotate-keys``: everything stored gets the first key, whatever happens meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, delete, select, update

from dispatcher import settings as settings_module
from dispatcher.actions.rotate_keys import Progress, rotate
from dispatcher.actions.save_credential import create_credential
from dispatcher.db import tables as t
from dispatcher.secrets import Cipher, make_key_file, new_key, read_keys, replace_keys
from dispatcher.settings import Settings
from tests.command_line import dispatcher, ended, start
from tests.factories import default_organization, make_job

ROWS = 60


@pytest.fixture
def key_file(settings: Settings) -> Path:
    path = settings.data_dir / "cluster.key"
    make_key_file(path)
    return path


@pytest.fixture
def stored(engine: Engine, key_file: Path) -> None:
    """Credentials and jobs with secrets, and jobs without."""
    cipher = Cipher(key_file)
    with engine.begin() as connection:
        organization = default_organization(connection)
        for number in range(5):
            values = {"organization_id": organization, "name": f"c{number}", "kind": "ssh"}
            create_credential(
                connection, values | {"inputs": {"password": f"secret {number}"}}, cipher=cipher
            )
        for number in range(ROWS):
            secret = {"secret_vars": cipher.encrypt({"number": number})} if number % 3 else {}
            make_job(connection, inputs=secret)


def command(settings: Settings, *arguments: str) -> Any:
    variables = settings_module.environment(settings)
    return dispatcher("rotate-keys", *arguments, cwd=settings.data_dir, **variables)


def tokens(engine: Engine) -> list[bytes]:
    with engine.connect() as connection:
        found = list(connection.scalars(select(t.credential.c.secrets)))
        secret = t.job_input.c.secret_vars
        found += connection.scalars(select(secret).where(secret.is_not(None)))
    return [bytes(token) for token in found]


def old_ones(engine: Engine, key_file: Path) -> int:
    cipher = Cipher(key_file)
    return sum(cipher.renewed(token) is not None for token in tokens(engine))


@pytest.mark.usefixtures("stored")
def test_everything_is_encrypted_with_a_new_key_and_the_old_one_may_go(
    settings: Settings, engine: Engine, key_file: Path
) -> None:
    (before,) = read_keys(key_file)
    done = command(settings)
    assert done.returncode == 0, done.stderr
    new, old = read_keys(key_file)
    assert old == before
    assert "credentials: 10 secrets read, 5 encrypted anew" in done.stderr
    replace_keys(key_file, [new])
    cipher = Cipher(key_file)
    assert len(tokens(engine)) == 45
    assert {"password": "secret 3"} in [cipher.decrypt(token) for token in tokens(engine)]
    done = command(settings, "--key", "first")
    assert "credentials: 5 secrets read, 0 encrypted anew" in done.stderr
    assert read_keys(key_file) == [new]


@pytest.mark.usefixtures("stored")
def test_a_key_is_added_before_it_is_used(
    settings: Settings, engine: Engine, key_file: Path
) -> None:
    before = read_keys(key_file)
    assert command(settings, "--add").returncode == 0
    old, added = read_keys(key_file)
    assert [old] == before
    assert old_ones(engine, key_file) == 0, "it only decrypts yet"
    assert command(settings, "--key", "last").returncode == 0
    assert read_keys(key_file) == [added, old]
    assert old_ones(engine, key_file) == 0


@pytest.mark.usefixtures("stored")
def test_a_rotation_that_is_killed_is_made_again(
    settings: Settings, engine: Engine, key_file: Path
) -> None:
    blocked = engine.connect()
    # the first batch waits for this row
    blocked.execute(update(t.credential).values(description="x"))
    variables = settings_module.environment(settings)
    process = start("rotate-keys", cwd=settings.data_dir, **variables)
    assert process.stderr is not None
    assert "2 keys" in process.stderr.readline()
    second = command(settings, "--key", "first")
    assert (second.returncode, "another rotation" in second.stderr) == (2, True)
    process.kill()
    ended(process)
    blocked.rollback()
    blocked.close()
    assert len(read_keys(key_file)) == 2
    assert old_ones(engine, key_file) == 45, "readable all the same"
    done = command(settings, "--key", "first")
    assert done.returncode == 0, done.stderr
    assert old_ones(engine, key_file) == 0


@pytest.mark.usefixtures("stored")
def test_what_changes_or_goes_meanwhile_is_not_overwritten(engine: Engine, key_file: Path) -> None:
    cipher = Cipher(key_file)
    late = cipher.encrypt({"password": "stored meanwhile with the old key"})
    replace_keys(key_file, [new_key(), *read_keys(key_file)])
    seen: list[Progress] = []
    with engine.connect() as connection:
        first = connection.scalar(select(t.credential.c.id).order_by(t.credential.c.id).limit(1))
    for progress in rotate(engine, cipher, batch=2):
        if not seen:
            with engine.begin() as connection:
                connection.execute(
                    update(t.credential).where(t.credential.c.id == first).values(secrets=late)
                )
                connection.execute(delete(t.credential).where(t.credential.c.name == "c4"))
        seen.append(progress)
    assert old_ones(engine, key_file) == 0
    with engine.connect() as connection:
        token = connection.scalar(select(t.credential.c.secrets).where(t.credential.c.id == first))
    assert token is not None
    assert cipher.decrypt(token) == {"password": "stored meanwhile with the old key"}


@pytest.mark.usefixtures("stored")
def test_what_no_key_fits_is_named_and_the_rest_done(
    settings: Settings, engine: Engine, key_file: Path, tmp_path: Path
) -> None:
    make_key_file(tmp_path / "other.key")
    foreign = Cipher(tmp_path / "other.key").encrypt({"password": "x"})
    with engine.begin() as connection:
        number = connection.scalar(
            update(t.credential)
            .where(t.credential.c.name == "c2")
            .values(secrets=foreign)
            .returning(t.credential.c.id)
        )
    done = command(settings)
    assert done.returncode == 2
    assert f"credentials {number}" in done.stderr
    with engine.begin() as connection:
        connection.execute(delete(t.credential).where(t.credential.c.id == number))
    assert old_ones(engine, key_file) == 0
