"""What the database says about a refused row does not reach a log: rows hold passwords."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, insert, text
from sqlalchemy.exc import DataError, DBAPIError

from dispatcher import logs
from dispatcher.db import tables as t
from dispatcher.errors import Unavailable
from dispatcher.settings import Settings
from tests.factories import make_job
from tests.recorded_logs import configured

SENTINEL = "hunter22-sentinel"
FORMATS = pytest.mark.parametrize("form", ["json", "console"])


def refused_input(engine: Engine) -> DBAPIError:
    """The error of a row of job_input that a CHECK refuses."""
    with engine.begin() as connection:
        job = make_job(connection)
        connection.execute(text("DELETE FROM job_input WHERE job_id = :job"), {"job": job})
    row = insert(t.job_input).values(
        job_id=job,
        playbook="site.yml",
        inventory=f"web1 ansible_password={SENTINEL}",
        extra_vars={"password": SENTINEL},
        verbosity=9,
    )
    with pytest.raises(DBAPIError) as caught, engine.begin() as connection:
        connection.execute(row)
    return caught.value


@FORMATS
def test_a_refused_row_is_logged_without_its_values(
    form: str, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    error = refused_input(engine)
    assert SENTINEL in str(error.orig)  # so there is something to keep back
    with configured(Settings(log_format=form)):
        log = logs.get("here")
        try:
            raise Unavailable("wrapped") from error
        except Unavailable:
            log.exception("failed")
        log.error("failed", exc_info=error)
        log.error("failed", exc_info=ExceptionGroup("both", [error]))
        log.warning("failed", error=error, short=logs.in_short(error))
    written = capsys.readouterr().err
    assert SENTINEL not in written
    for words in ("IntegrityError", "23514", "verbosity_range", "Unavailable: wrapped"):
        assert words in written


@FORMATS
def test_a_bad_value_is_not_repeated(
    form: str, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DataError) as caught, engine.connect() as connection:
        connection.execute(text("SELECT CAST(:value AS integer)"), {"value": SENTINEL})
    with configured(Settings(log_format=form)):
        logs.get("here").error("failed", exc_info=caught.value, short=logs.in_short(caught.value))
    written = capsys.readouterr().err
    assert SENTINEL not in written
    assert "invalid input syntax for type integer" in written
