"""Filling a claimed run's directory, in threads that hold no database connection."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from sqlalchemy.exc import SQLAlchemyError

from dispatcher import logs
from dispatcher.db.credential_rows import JobCredential
from dispatcher.db.node_rows import JobHosts, JobInput
from dispatcher.domain.host_pattern import PatternError
from dispatcher.domain.inventory import InventoryError
from dispatcher.domain.outcome import Outcome
from dispatcher.domain.status import Kind
from dispatcher.errors import NotFound, RunDirectoryError, SecretsUnreadable
from dispatcher.secrets import Cipher
from dispatcher.settings import Settings
from workers import lease_file
from workers.content_cache import ContentCache
from workers.credentials import decrypted, secrets_in
from workers.project_copy import UnsafeBundle
from workers.run_dir import JobSpec
from workers.runs import Phase, Run, Verdict

#: Enough to fill while another one waits for the disk; more would compete with playbooks.
THREADS: Final = 3
_RETRY_SECONDS: Final = 1.0
LAPSED: Final = Verdict(
    Outcome.FENCED, "not started: the node could not renew its lease in the database"
)
_AS_THEY_ARE = (
    "playbook",
    "inventory",
    "inventory_path",
    "limit_pattern",
    "extra_vars",
    "check_mode",
    "diff_mode",
    "verbosity",
    "forks",
    "timeout",
    "allow_no_hosts",
    "max_unreachable",
    "max_failed",
    "host_key_policy",
)


class Preparer:
    """Gives a run its own copy of the content and its ``job.json``.

    Args:
        settings: limits that a supervisor is told.
        node: this node's name.
        cache: where unpacked content is.
        cipher: decrypts secret variables.
        pool: the threads.
        render: the inventory of a job whose hosts are in the tables, and its limit, by name of
            column.
        credentials: what a job logs in with, encrypted, by the job's number.
        on_prepared: called when a run is ready, or has a verdict.
    """

    def __init__(
        self,
        settings: Settings,
        node: str,
        cache: ContentCache,
        cipher: Cipher,
        pool: ThreadPoolExecutor,
        render: Callable[[JobHosts], Mapping[str, Any]],
        credentials: Callable[[int], Sequence[JobCredential]],
        on_prepared: Callable[[Run], None],
    ) -> None:
        self._settings = settings
        self._node = node
        self._cache = cache
        self._cipher = cipher
        self._pool = pool
        self._render = render
        self._credentials = credentials
        self._on_prepared = on_prepared
        self._lease_file = lease_file.lease_path(settings.data_dir)
        self._closing = threading.Event()
        self._log = logs.get(__name__)

    def submit(self, run: Run, job_input: JobInput) -> None:
        """Fill the directory soon."""
        self._pool.submit(self._prepare, run, job_input)

    def close(self) -> None:
        """Wait for the database no longer: what is not filled is left to the next agent."""
        self._closing.set()

    def _prepare(self, run: Run, job_input: JobInput) -> None:
        with logs.bound(**run.names):
            while True:
                try:
                    run.verdict = run.verdict or self._fill(run, job_input)
                    break
                except SQLAlchemyError as error:
                    self._log.warning("content cannot be fetched", error=logs.in_short(error))
                    if self._closing.wait(_RETRY_SECONDS):
                        return
                    if lease_file.remaining(self._lease_file) <= 0:
                        run.verdict = LAPSED
        run.enter(Phase.READY, only_from=Phase.PREPARING)
        self._on_prepared(run)

    def _fill(self, run: Run, job_input: JobInput) -> Verdict | None:
        """Fill; a verdict when that is not possible.

        Raises:
            SQLAlchemyError: the content is not here yet, and the database does not give it now.
        """
        try:
            run.directory.wipe_secrets()  # what an earlier try may have half filled
            columns = dict(job_input.columns)
            if columns["kind"] != Kind.PROJECT_UPDATE:
                if job_input.bundle_digest is None:
                    return Verdict(Outcome.PROJECT, _no_content(columns))
                self._cache.copy(job_input.bundle_digest, run.directory.project)
            if job_input.hosts is not None:
                columns |= self._render(job_input.hosts)
            elif columns["kind"] == Kind.PLAYBOOK and _lost_inventory(columns):
                return Verdict(Outcome.INVENTORY, "the job's inventory was deleted")
            # last: decrypted for the shortest time
            credentials = self._decrypted(run.job_id) if job_input.has_credentials else ()
            run.directory.write_job(self._spec(run, columns, credentials))
        except SQLAlchemyError:
            raise
        except (InventoryError, PatternError) as error:
            return Verdict(Outcome.INVENTORY, f"the inventory cannot be used: {error}")
        except SecretsUnreadable as error:
            return Verdict(Outcome.CREDENTIALS, str(error))
        except (UnsafeBundle, NotFound) as error:
            return Verdict(Outcome.PROJECT, f"the run's content cannot be used: {error}")
        except (OSError, RunDirectoryError) as error:
            self._log.error("a run could not be prepared", error=str(error))
            return Verdict(Outcome.INTERNAL, f"the run could not be prepared: {error}")
        except Exception as error:
            # one job that cannot be prepared, for whatever reason, must not end the thread
            self._log.exception("a run could not be prepared")
            return Verdict(
                Outcome.INTERNAL, f"the run could not be prepared: {type(error).__name__}"
            )
        return None

    def _decrypted(self, job_id: int) -> tuple[dict[str, Any], ...]:
        """What the job logs in with.

        Raises:
            SecretsUnreadable: names the credential that is gone, or cannot be decrypted.
        """
        return tuple(decrypted(each, self._cipher) for each in self._credentials(job_id))

    def _spec(
        self, run: Run, columns: Any, credentials: tuple[dict[str, Any], ...] = ()
    ) -> JobSpec:
        settings = self._settings
        secrets = columns["secret_vars"]
        return JobSpec(
            job_id=run.job_id,
            dispatch_id=str(run.dispatch_id),
            node=self._node,
            lease_file=str(self._lease_file),
            secret_vars={} if secrets is None else self._cipher.decrypt(bytes(secrets)),
            tags=tuple(columns["tags"]),
            skip_tags=tuple(columns["skip_tags"]),
            idle_timeout=columns["idle_timeout"] or settings.idle_timeout,
            prompt_timeout=settings.prompt_timeout,
            stop_grace=settings.stop_grace,
            spool_quota_bytes=settings.spool_quota_bytes,
            kind=columns["kind"],
            project=_project(columns),
            scm_key_file=str(settings.scm_key_file or ""),
            credentials=credentials,
            masked=secrets_in(credentials),
            max_unpacked=settings.max_bundle_unpacked_bytes,
            **{name: columns[name] for name in _AS_THEY_ARE},
        )


def _project(columns: Mapping[str, Any]) -> dict[str, Any]:
    """What a project update fetches; empty for a job without a project."""
    if columns["scm_type"] is None:
        return {}
    names = ("scm_type", "scm_url", "local_path", "scm_branch")
    return {"id": columns["project_id"] or 0, **{name: columns[name] for name in names}}


def _lost_inventory(columns: Mapping[str, Any]) -> bool:
    return columns["inventory"] is None and columns["inventory_path"] is None


def _no_content(columns: Mapping[str, Any]) -> str:
    place = columns["scm_url"] or columns["local_path"]
    if not place:
        return "the job names no content"
    branch = columns["scm_branch"]
    return f"there is no successful update of {place}" + (f" at {branch!r}" if branch else "")
