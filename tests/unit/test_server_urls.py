"""URLs of database and broker: which are taken, and a clear line without the password for others."""

from __future__ import annotations

import pytest

from dispatcher import settings
from dispatcher.db.engine import make_engine
from dispatcher.errors import ConfigurationError

PASSWORD = "hunter22"


@pytest.mark.parametrize(
    ("setting", "url", "words"),
    [
        ("database_url", f"postgresql://d:{PASSWORD}@h1:abc/db", "the port must be a number"),
        ("database_url", f"postgresql://d:{PASSWORD}@h1:70000/db", "the port must be a number"),
        ("database_url", f"postgresql://d:{PASSWORD}@h1:5432,h2:x/db", "the port must be a number"),
        ("database_url", f"postgresql://d:{PASSWORD}@h1,/db", "one of its hosts has no name"),
        ("database_url", f"postgresql://d:x@{PASSWORD}@h1/db", "%40"),
        ("database_url", f"postgresql://{PASSWORD}@h1,h2/db?host=h3", "given twice"),
        ("database_url", f"postgresql://d:{PASSWORD}@[::1/db", "the host cannot be read"),
        ("database_url", f"mysql://d:{PASSWORD}@h1/db", "must start with postgresql://"),
        ("broker_url", f"redis://:{PASSWORD}@127.0.0.1:abc/0", "the port must be a number"),
        ("broker_url", f"redis://:{PASSWORD}@127.0.0.1:6379/first", "must be a number"),
        ("broker_url", f"redis://:{PASSWORD}/x@h:6379/0", "%2F"),
        ("broker_url", f"sentinel://:{PASSWORD}@h1:26379;sentinel://h2:x", "the port must be"),
        ("broker_url", f"amqp://u:{PASSWORD}@h:x/vhost", "the port must be a number"),
        ("broker_url", f"redis:{PASSWORD}", "must start with one of redis://"),
    ],
)
def test_a_bad_url_is_one_line_that_names_the_setting_and_no_password(
    setting: str, url: str, words: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        settings.load(**{setting: url})
    line = str(caught.value)
    assert line.startswith(f"DISPATCHER_{setting.upper()}: ")
    assert words in line
    assert "\n" not in line
    assert PASSWORD not in line


@pytest.mark.parametrize(
    ("url", "parameters"),
    [
        ("postgresql://d:p@h1/db", {"host": "h1", "user": "d", "password": "p", "dbname": "db"}),
        ("postgres://d@h1:5433/db", {"host": "h1", "port": 5433}),
        ("postgresql://d:p%40%2F@[::1]:5433/db", {"host": "::1", "password": "p@/"}),
        ("postgresql://d:a/b@h1/db", {"host": "h1", "password": "a/b"}),
        ("postgresql://d@/db?host=%2Ftmp%2Fs&port=5432", {"host": "/tmp/s", "port": "5432"}),
        ("postgresql:///db", {"dbname": "db"}),
        (
            "postgresql://d:p%40:@h1:5432,h2:5433/db?sslmode=require",
            {"host": "h1,h2", "port": "5432,5433", "password": "p@:", "sslmode": "require"},
        ),
        ("postgresql://d@h1:5433,h2/db", {"host": "h1,h2", "port": "5433,", "dbname": "db"}),
        ("postgresql://h1,h2,h3", {"host": "h1,h2,h3", "port": ",,"}),
        ("postgresql://d@[::1]:5432,[fe80::1]:5433/db", {"host": "::1,fe80::1"}),
    ],
)
def test_a_good_url_of_the_database_is_what_libpq_is_given(
    url: str, parameters: dict[str, object]
) -> None:
    engine = make_engine(settings.load(database_url=url), application_name="test")
    given = engine.dialect.create_connect_args(engine.url)[1]
    assert {name: given.get(name) for name in parameters} == parameters


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("no_such=1", 'invalid connection option "no_such"'),
        ("host=h1,h2,h3&port=1,2", "number of hosts and ports"),
        ("host=h1&port=abc", "non-integer port"),
    ],
)
def test_a_parameter_that_libpq_does_not_know_is_refused_before_the_first_connection(
    query: str, words: str
) -> None:
    given = settings.load(database_url=f"postgresql://d:{PASSWORD}@/db?{query}")
    with pytest.raises(ConfigurationError, match=words) as caught:
        make_engine(given, application_name="test")
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://h",
        "redis://:p%2F@h:6379/0",
        "rediss://u:p@h:6380/15?health_check_interval=5",
        "redis://[::1]:6379/1",
        "redis+socket:///run/valkey.sock?virtual_host=3",
        "sentinel://h1:26379;sentinel://h2:26379",
        "amqp://u:p@h1:5672/vhost;amqp://u:p@h2:5672/vhost",
        "amqps://u:p@h//",
    ],
)
def test_a_good_url_of_the_broker_is_taken(url: str) -> None:
    assert settings.load(broker_url=url).broker_url == url
