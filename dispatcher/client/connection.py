"""HTTP to one server: address, token, time-outs, repetition, and errors out of answers.

Every call may be repeated: reads by nature, uploads because content is named by its digest, a
cancel because canceling twice is canceling, a launch because it carries an idempotency key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase

from dispatcher import __version__, clock
from dispatcher.client.errors import NotAllowed, ServerUnreachable, UnexpectedAnswer
from dispatcher.errors import (
    ConfigurationError,
    Conflict,
    DispatcherError,
    InvalidRequest,
    NotCancelable,
    NotFound,
    Unavailable,
)

#: Seconds to get a TCP connection, and between two bytes of an answer.
CONNECT_TIMEOUT = 5.0
READ_TIMEOUT = 30.0
#: Answers that say "later": overload, a proxy without its server, the database away.
_LATER = frozenset({429, 502, 503, 504})
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class _Bearer(AuthBase):
    """Sets the token last, so that an entry of ``~/.netrc`` never replaces it."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class Connection:
    """Calls below ``/api/v2/`` of one server. For one thread; each further one has its own.

    Args:
        url: base URL, such as ``http://127.0.0.1:8052``; a path in it is kept.
        token: API token, or None.
        patience: seconds in all that a call is repeated when nothing, or "later", is answered.

    Raises:
        ConfigurationError: the URL is none.
    """

    def __init__(self, url: str, token: str | None, *, patience: float = 30.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(f"DISPATCHER_URL: {url}: must start with http:// or https://")
        self.url = url.rstrip("/")
        self._token = token
        self._patience = patience
        self._session = requests.Session()
        self._session.auth = _Bearer(token)
        self._session.headers["User-Agent"] = f"dispatcher/{__version__}"
        # A proxy that the environment names is not for the machine itself.
        self._session.trust_env = not _is_loopback(parts.hostname)

    def another(self, *, patience: float | None = None) -> Connection:
        """A new connection to the same server, for another thread."""
        return Connection(
            self.url, self._token, patience=self._patience if patience is None else patience
        )

    def close(self) -> None:
        """Give the sockets back."""
        self._session.close()

    def send(self, method: str, path: str, **options: Any) -> requests.Response:
        """One try, whatever the answer.

        Args:
            path: below ``/api/v2/``.
            options: what ``requests.Session.request`` takes.

        Raises:
            ServerUnreachable: there was no answer.
        """
        options.setdefault("timeout", (CONNECT_TIMEOUT, READ_TIMEOUT))
        try:
            return self._session.request(
                method, f"{self.url}/api/v2/{path}", allow_redirects=False, **options
            )
        except requests.RequestException as error:
            raise ServerUnreachable(f"{self.url}: {_words(error)}") from error

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Callable[[], Any] | None = None,
        **options: Any,
    ) -> requests.Response:
        """A call, repeated while there is no answer or it says "later".

        Args:
            body: makes the request's ``data`` anew for each try.

        Raises:
            ServerUnreachable, Unavailable: when patience is at its end.
            InvalidRequest, NotAllowed, NotFound, NotCancelable, Conflict, UnexpectedAnswer: the
                answer.
        """
        deadline = clock.monotonic() + self._patience
        pause = _FIRST_PAUSE
        while True:
            failure: DispatcherError
            try:
                if body is not None:
                    options["data"] = body()
                answer = self.send(method, path, **options)
                if answer.status_code < 300:
                    return answer
                if answer.status_code not in _LATER and not _in_progress(answer):
                    raise_refusal(answer)
                wait = max(pause, _retry_after(answer))
                failure = Unavailable(f"{self.url}: {_detail(answer)}", retry_after=int(wait) or 1)
                answer.close()
            except ServerUnreachable as error:
                failure, wait = error, pause
            if clock.monotonic() + wait > deadline:
                raise failure
            clock.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE)


def raise_refusal(answer: requests.Response) -> NoReturn:
    """Raise what an answer of 300 or more stands for."""
    code, body, detail = answer.status_code, _json_object(answer), _detail(answer)
    if code == 400 and body and "detail" not in body:
        raise InvalidRequest({str(name): _messages(value) for name, value in body.items()})
    if code in (400, 413):
        raise InvalidRequest({"request": detail})
    if code in (401, 403):
        raise NotAllowed(f"{detail} (DISPATCHER_TOKEN)")
    if code == 404:
        raise NotFound(detail)
    if code == 405:
        raise NotCancelable(detail)
    if code == 409:
        extra = {k: v for k, v in body.items() if k not in ("detail", "code")}
        raise Conflict(detail, code=str(body.get("code", "conflict")), extra=extra)
    raise UnexpectedAnswer(f"{answer.url} answered {code}: {detail}", code=code)


def _json_object(answer: requests.Response) -> dict[str, Any]:
    try:
        body = answer.json()
    except requests.RequestException:
        return {}
    return body if isinstance(body, dict) else {}


def _detail(answer: requests.Response) -> str:
    """The answer's own words, or else those of its code; never a whole page."""
    detail = _json_object(answer).get("detail")
    if isinstance(detail, str):
        return detail
    return f"{answer.status_code} {answer.reason or ''} {answer.text[:200].strip()}".strip()


def _messages(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _in_progress(answer: requests.Response) -> bool:
    """The first request with this idempotency key is still open: its result is worth waiting for."""
    return answer.status_code == 409 and _json_object(answer).get("code") == "in_progress"


def _retry_after(answer: requests.Response) -> float:
    try:
        return min(max(float(answer.headers.get("Retry-After", "0")), 0.0), _LONGEST_PAUSE)
    except ValueError:
        return 0.0


def _words(error: requests.RequestException) -> str:
    """What went wrong, without the chain of class names that requests would print."""
    if isinstance(error, requests.exceptions.SSLError):
        return f"TLS failed: {_innermost(error)}"
    if isinstance(error, requests.ConnectTimeout):
        return f"no connection within {CONNECT_TIMEOUT:g} s"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    return _innermost(error)


def _innermost(error: BaseException) -> str:
    found: BaseException = error
    while True:
        reason = getattr(found, "reason", None)
        inner = reason if isinstance(reason, BaseException) else None
        inner = inner or next((a for a in found.args if isinstance(a, BaseException)), None)
        inner = inner or found.__cause__ or found.__context__
        if inner is None or inner is found:
            return getattr(found, "strerror", None) or str(found) or type(found).__name__
        found = inner


def _is_loopback(host: str) -> bool:
    return host == "localhost" or host.startswith("127.") or host == "::1"
