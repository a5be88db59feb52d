"""Several hosts in the database's URL: the first that answers is used."""

from __future__ import annotations

from urllib.parse import urlsplit

from sqlalchemy import text

from dispatcher.db.engine import make_engine, transaction
from dispatcher.settings import Settings
from tests.tcp_proxy import in_front_of


def test_a_host_that_is_away_is_passed_over(settings: Settings) -> None:
    assert settings.database_url is not None
    proxy, url = in_front_of(settings.database_url)
    parts = urlsplit(url)
    with proxy:
        account, _, place = parts.netloc.rpartition("@")
        # nobody listens on port 1
        several = url.replace(parts.netloc, f"{account}@127.0.0.1:1,{place}", 1)
        made = make_engine(
            settings.model_copy(update={"database_url": several}), application_name="hosts"
        )
        with transaction(made) as connection:
            assert connection.scalar(text("SELECT count(*) FROM job")) == 0
        made.dispose()
