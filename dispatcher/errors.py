"""Every error the dispatcher raises on purpose.

DispatcherError
├── ConfigurationError      a setting or the machine is not fit to start: one line, exit 2
│   └── SchemaError         the database's schema and this code do not go together
├── InvalidRequest          a caller's input, by field: HTTP 400
├── NotFound                HTTP 404
├── Conflict                HTTP 409, with a code
├── NotCancelable           HTTP 405: the job is final
├── Unavailable             the database is away: HTTP 503 with Retry-After
├── SecretsUnreadable       encrypted with a key that this machine does not have
├── LeaseLost               somebody with a higher epoch holds the lease
└── RunDirectoryError       a run directory that cannot be made or read
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class DispatcherError(Exception):
    """Base of all errors raised on purpose."""


class ConfigurationError(DispatcherError):
    """A setting, or the machine, is not fit to start. The message is one line that names it."""


class SchemaError(ConfigurationError):
    """The database's schema is older or newer than this code can work with."""


class InvalidRequest(DispatcherError):
    """A caller's input is refused.

    Args:
        fields: field name → messages, rendered as the body of a 400 answer.
    """

    def __init__(self, fields: Mapping[str, str | Sequence[str]]) -> None:
        self.fields: dict[str, list[str]] = {
            name: [messages] if isinstance(messages, str) else list(messages)
            for name, messages in fields.items()
        }
        super().__init__("; ".join(f"{k}: {' '.join(v)}" for k, v in self.fields.items()))


class NotFound(DispatcherError):
    """The named thing does not exist."""


class Conflict(DispatcherError):
    """The request contradicts what is stored.

    Args:
        message: words for the caller.
        code: a stable word for programs (``content_missing``, ``key_reused``, ``in_progress``).
        retry_after: seconds after which the same request may succeed.
        extra: further members of the answer's body.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        retry_after: int | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after
        self.extra = dict(extra or {})


class NotCancelable(DispatcherError):
    """The job has ended already."""


class Unavailable(DispatcherError):
    """The database cannot be reached, or a commit's outcome is unknown.

    Args:
        message: words for the caller.
        retry_after: seconds to wait before the next try.
    """

    def __init__(self, message: str, *, retry_after: int = 5) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class SecretsUnreadable(DispatcherError):
    """Secrets were encrypted with a key that is not in this machine's key file."""


class LeaseLost(DispatcherError):
    """A lease is held under a higher epoch: what was being written is refused."""


class RunDirectoryError(DispatcherError):
    """A run directory cannot be made, or what it holds cannot be read."""
