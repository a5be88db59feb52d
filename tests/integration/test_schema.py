"""The schema: migrations against tables, migrations that meet, and code that does not fit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from dispatcher import CODE_VERSION
from dispatcher import settings as settings_module
from dispatcher.db import migrate as migrate_module
from dispatcher.db.engine import is_away, make_engine, transaction, unavailable_when_away
from dispatcher.db.migrate import migrate
from dispatcher.db.schema_check import NEWEST_REVISION, SCHEMA_VERSION, check_schema
from dispatcher.db.tables import metadata
from dispatcher.embedded.postgres import EmbeddedPostgres
from dispatcher.errors import SchemaError, Unavailable

REPOSITORY = Path(__file__).parents[2]


def engine_for(url: str, **options: Any) -> Engine:
    return make_engine(
        settings_module.load(database_url=url), application_name="schema test", **options
    )


@pytest.fixture
def empty_engine(empty_database_url: str) -> Iterator[Engine]:
    made = engine_for(empty_database_url)
    yield made
    made.dispose()


# -- tables = migrations

#: What the catalog knows of our relations, apart from partitions and Alembic's own table.
CATALOG = {
    "column": """
        SELECT c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
               a.attidentity, a.attgenerated, pg_get_expr(d.adbin, d.adrelid), a.attcollation::regcollation::text
        FROM ours c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    """,
    "constraint": """
        SELECT c.relname, k.conname, k.contype, pg_get_constraintdef(k.oid), k.condeferrable,
               k.condeferred, k.convalidated
        FROM ours c JOIN pg_constraint k ON k.conrelid = c.oid
    """,
    "index": """
        SELECT c.relname, i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid), i.indisvalid
        FROM ours c JOIN pg_index i ON i.indrelid = c.oid
    """,
    "relation": """
        SELECT c.relname, c.relkind, c.relpersistence, c.reloptions, pg_get_partkeydef(c.oid)
        FROM ours c
    """,
    "trigger": """
        SELECT c.relname, pg_get_triggerdef(t.oid) FROM ours c JOIN pg_trigger t ON t.tgrelid = c.oid
        WHERE NOT t.tgisinternal
    """,
    "function": """
        SELECT p.proname, pg_get_functiondef(p.oid) FROM pg_proc p
        WHERE p.pronamespace = 'public'::regnamespace
    """,
}
OURS = """
    WITH ours AS (
        SELECT * FROM pg_class WHERE relnamespace = 'public'::regnamespace
          AND relkind IN ('r', 'p', 'v', 'm') AND NOT relispartition
          AND relname <> 'schema_revision')
"""


def catalog(connection: Connection) -> set[tuple[Any, ...]]:
    return {
        (what, *(tuple(v) if isinstance(v, list) else v for v in row))
        for what, query in CATALOG.items()
        for row in connection.execute(text(OURS + query))
    }


def first_migration() -> Any:
    config = Config()
    config.set_main_option("script_location", str(REPOSITORY / "dispatcher" / "db" / "migrations"))
    return ScriptDirectory.from_config(config).get_revision("0001").module


def test_migrations_and_tables_differ_in_nothing_that_alembic_sees(engine: Engine) -> None:
    with engine.connect() as connection:
        partitions = set(
            connection.scalars(text("SELECT relname FROM pg_class WHERE relispartition"))
        )
        context = MigrationContext.configure(
            connection,
            opts={
                "version_table": "schema_revision",
                "compare_type": True,
                "compare_server_default": True,
                "include_name": lambda name, kind, parents: (
                    kind != "table" or name not in partitions
                ),
            },
        )
        assert partitions, "migrate makes the partitions of the first days"
        assert compare_metadata(context, metadata) == []


def test_migrations_and_tables_make_the_same_catalog(engine: Engine, empty_engine: Engine) -> None:
    """CHECKs, partial indexes, generated columns and deferred keys, which Alembic does not compare."""
    with empty_engine.begin() as connection:
        connection.execute(text(first_migration().NOW_FUNCTION))
        metadata.create_all(connection)
        declared = catalog(connection)
    with engine.connect() as connection:
        migrated = catalog(connection)
    assert sorted(map(str, declared - migrated)) == []
    assert sorted(map(str, migrated - declared)) == []
    kinds = {what for what, *_ in declared}
    assert kinds == set(CATALOG) - {"trigger"}, "a query that finds nothing compares nothing"


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE job DROP CONSTRAINT ck_job_finished_if_final",
        "DROP INDEX ix_job_candidates",
        "ALTER TABLE job ALTER COLUMN rank DROP EXPRESSION",
        "ALTER TABLE idempotency_key ALTER CONSTRAINT fk_idempotency_key_job_id NOT DEFERRABLE",
        "ALTER TABLE job ALTER COLUMN priority DROP DEFAULT",
        "ALTER FUNCTION dispatcher_now() STABLE",
    ],
)
def test_the_catalog_comparison_sees_a_difference(engine: Engine, statement: str) -> None:
    with engine.begin() as connection:
        before = catalog(connection)
        connection.execute(text(statement))
        assert catalog(connection) != before


# -- migrate

MIGRATE = """
import json, sys
from dispatcher import settings
from dispatcher.db.engine import make_engine
from dispatcher.db.migrate import migrate
print(json.dumps(migrate(make_engine(settings.load(), application_name="migrate"))))
"""


def test_several_processes_migrate_an_empty_database_at_once(empty_database_url: str) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MIGRATE],
            cwd=REPOSITORY,
            env={"PYTHONPATH": str(REPOSITORY), "DISPATCHER_DATABASE_URL": empty_database_url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(4)
    ]
    ended = [(process.communicate(timeout=90), process.returncode) for process in processes]
    assert [code for _, code in ended] == [0] * 4, ended
    done = sorted(json.loads(output) for (output, _), _ in ended)
    assert done == [["(empty)", NEWEST_REVISION], *[[NEWEST_REVISION]] * 3]
    engine = engine_for(empty_database_url)
    with engine.connect() as connection:
        check_schema(connection)
        assert connection.scalar(text("SELECT count(*) FROM organization")) == 1
    engine.dispose()


def test_a_migration_under_way_is_waited_for_and_one_that_was_cut_off_holds_up_nobody(
    empty_database_url: str,
) -> None:
    holder, waiter = engine_for(empty_database_url), engine_for(empty_database_url)
    held = holder.connect()
    migrate_module._lock(held, 1.0)
    with pytest.raises(SchemaError, match="another migration is under way"):
        migrate(waiter, wait=0.2)
    # what a kill -9 of the process looks like to the server
    held.connection.dbapi_connection.close()
    assert migrate(waiter, wait=20) == ["(empty)", NEWEST_REVISION]
    held.invalidate()
    for engine in (holder, waiter):
        engine.dispose()


def test_an_older_schema_is_brought_up_to_date_with_its_rows(empty_database_url: str) -> None:
    engine = engine_for(empty_database_url)
    with engine.begin() as connection:
        command.upgrade(migrate_module._config(connection), "0001")
        organization = connection.scalar(text("SELECT id FROM organization"))
    assert migrate(engine) == ["0001", NEWEST_REVISION]
    with engine.connect() as connection:
        check_schema(connection)
        assert connection.scalar(text("SELECT id FROM organization")) == organization
    engine.dispose()


def test_the_newest_revision_is_the_one_that_the_migrations_end_in() -> None:
    scripts = ScriptDirectory.from_config(migrate_module._config())
    assert scripts.get_current_head() == NEWEST_REVISION


def test_migrating_twice_changes_nothing(engine: Engine) -> None:
    with engine.connect() as connection:
        before = catalog(connection)
    assert migrate(engine) == [NEWEST_REVISION]
    with engine.connect() as connection:
        assert catalog(connection) == before


def test_a_schema_of_newer_code_is_left_as_it_is(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("UPDATE schema_revision SET version_num = '9999'"))
        connection.execute(text("UPDATE schema_info SET version = version + 1"))
        before = catalog(connection)
    assert migrate(engine) == ["9999"]
    with engine.begin() as connection:
        assert catalog(connection) == before
        connection.execute(text(f"UPDATE schema_info SET min_code = {CODE_VERSION + 1}"))
    with pytest.raises(SchemaError, match="upgrade this machine"):
        migrate(engine)


# -- code and schema that do not go together


def test_a_fresh_schema_fits_this_code(engine: Engine) -> None:
    with engine.connect() as connection:
        check_schema(connection)


def test_code_from_before_credentials_of_sources_may_not_work_with_them(engine: Engine) -> None:
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT min_code FROM schema_info")) == 4


def test_a_database_without_a_schema_is_refused_with_the_remedy(empty_engine: Engine) -> None:
    with (
        empty_engine.connect() as connection,
        pytest.raises(SchemaError, match=r"no schema: run `dispatcher migrate`"),
    ):
        check_schema(connection)


def test_an_older_schema_is_refused_with_the_remedy(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE schema_info SET version = {SCHEMA_VERSION - 1}"))
        with pytest.raises(
            SchemaError,
            match=rf"version {SCHEMA_VERSION - 1}, this code needs {SCHEMA_VERSION}: run `dispatcher mi",
        ):
            check_schema(connection)


def test_a_newer_schema_is_worked_with_until_it_needs_newer_code(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("UPDATE schema_info SET version = version + 1"))
        check_schema(connection)
        connection.execute(text(f"UPDATE schema_info SET min_code = {CODE_VERSION + 1}"))
        with pytest.raises(
            SchemaError,
            match=f"needs code version {CODE_VERSION + 1}, this is {CODE_VERSION}: upgrade",
        ):
            check_schema(connection)


# -- the database is away, or only refuses


@pytest.fixture
def own_server(data_dir: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(data_dir / "pg", max_connections=10, durable=False)
    server.start()
    yield server
    server.stop()


def caught(action: Callable[[], object]) -> BaseException:
    with pytest.raises(Exception) as info:
        action()
    return info.value


def test_a_stopped_server_is_away_for_old_and_new_connections(own_server: EmbeddedPostgres) -> None:
    engine = engine_for(own_server.url("dispatcher"))
    with engine.connect() as connection:
        connection.execute(text("SELECT 1"))
        own_server.process.stop()
        assert is_away(caught(lambda: connection.execute(text("SELECT 1"))))
    assert is_away(caught(engine.connect))
    with pytest.raises(Unavailable), unavailable_when_away():
        engine.connect()
    own_server.start()
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT 1")) == 1, "the pool finds the way back"
    engine.dispose()


def test_a_server_without_a_free_connection_is_away(own_server: EmbeddedPostgres) -> None:
    engine = engine_for(own_server.url("dispatcher"), pool_size=40)
    held = []

    def take_all() -> None:
        while True:
            held.append(engine.connect())

    assert is_away(caught(take_all))
    for connection in held:
        connection.close()
    engine.dispose()


def test_a_connection_that_an_administrator_ended_is_away(engine: Engine) -> None:
    with engine.connect() as connection, engine.connect() as other:
        pid = connection.scalar(text("SELECT pg_backend_pid()"))
        other.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})
        assert is_away(caught(lambda: connection.execute(text("SELECT 1"))))


def test_a_pool_without_a_free_connection_is_away(database_url: str) -> None:
    engine = engine_for(database_url, pool_size=1, pool_timeout=0.05)
    with engine.connect():
        error = caught(engine.connect)
    assert isinstance(error, PoolTimeout)
    assert is_away(error)
    engine.dispose()


def test_a_statement_or_lock_that_took_too_long_is_not_away(engine: Engine) -> None:
    with (
        pytest.raises(OperationalError) as canceled,
        transaction(engine, statement_timeout=0.05) as c,
    ):
        c.execute(text("SELECT pg_sleep(5)"))
    assert not is_away(canceled.value)
    with engine.begin() as holder:
        holder.execute(text("LOCK TABLE change"))
        with pytest.raises(OperationalError) as locked, transaction(engine, lock_timeout=0.05) as c:
            c.execute(text("UPDATE change SET value = value + 1"))
    assert not is_away(locked.value)


def test_a_refused_row_is_not_away_and_passes_through(engine: Engine) -> None:
    with (
        pytest.raises(IntegrityError) as refused,
        unavailable_when_away(),
        engine.begin() as connection,
    ):
        connection.execute(text("INSERT INTO organization (name) VALUES ('Default')"))
    assert isinstance(refused.value, DBAPIError)
    assert not is_away(refused.value)
