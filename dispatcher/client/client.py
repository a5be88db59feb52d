"""One method for each call of REST v2 that the command line makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import requests

from dispatcher.client.answers import DrainState, Explanation, HostSummary, Job, JobEvent, Node
from dispatcher.client.connection import CONNECT_TIMEOUT, Connection, raise_refusal
from dispatcher.client.pack import Bundle
from dispatcher.errors import InvalidRequest, NotFound

#: Seconds for one upload; a large bundle is verified and stored before the answer.
_UPLOAD_TIMEOUT = 300.0
_PAGE = 200


class Client:
    """Calls to one server. Errors are those of :meth:`Connection.call`.

    Args:
        connection: for one thread; so is the client.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def launch(self, body: Mapping[str, Any], *, idempotency_key: str) -> tuple[Job, bool]:
        """Ask for a run.

        Args:
            body: the fields of a ``RunRequest`` that are not at their defaults.
            idempotency_key: the same key and body answer the same job, however often asked.

        Returns:
            The job, and whether this call made it.
        """
        answer = self.connection.call(
            "POST", "runs/", json=body, headers={"Idempotency-Key": idempotency_key}
        )
        return Job.of(answer.json()), answer.status_code == 201

    def upload(self, bundle: Bundle) -> None:
        """Store a bundle's content; a bundle that is there already is no error."""
        self.connection.call(
            "PUT",
            f"content/{bundle.digest}/",
            body=bundle.chunks,
            headers={"Content-Type": "application/octet-stream"},
            timeout=(CONNECT_TIMEOUT, _UPLOAD_TIMEOUT),
        )

    def credential_number(self, name: str) -> int:
        """The number of the credential with this name.

        Raises:
            InvalidRequest: there is none, or more than one.
        """
        answer = self.connection.call("GET", "credentials/", params={"name": name}).json()
        found = [int(each["id"]) for each in answer["results"]]
        if len(found) != 1:
            words = "several organizations have one" if found else "there is none"
            raise InvalidRequest({"credential": f"{name}: {words}"})
        return found[0]

    def job(self, job_id: int) -> Job:
        """One job as it is now."""
        return Job.of(self.connection.call("GET", f"jobs/{job_id}/").json())

    def explain(self, job_id: int) -> Explanation:
        """Why a job waits, where it is, or what became of it."""
        return Explanation.of(self.connection.call("GET", f"jobs/{job_id}/explain/").json())

    def jobs(self, *, limit: int, status: str | None = None) -> list[Job]:
        """The newest jobs.

        Args:
            limit: most of them.
            status: only those with this status.
        """
        query = {"order_by": "-id", **({"status": status} if status else {})}
        return [Job.of(body) for body in self._first("jobs/", limit, query)]

    def cancel(self, job_id: int) -> None:
        """Ask for a job's cancel; NotCancelable when it has ended."""
        self.connection.call("POST", f"jobs/{job_id}/cancel/")

    def events(self, job_id: int, *, after: int) -> list[JobEvent]:
        """The next stored events of a job, in order, at most a page of them.

        Args:
            after: counter of the last one known; 0: from the start.
        """
        query = {"counter__gt": after, "order_by": "counter", "page_size": _PAGE}
        answer = self.connection.call("GET", f"jobs/{job_id}/job_events/", params=query)
        return [JobEvent.of(body) for body in answer.json()["results"]]

    def open_stream(self, job_id: int, *, after: int, read_timeout: float) -> requests.Response:
        """The job's server-sent events from the one after ``after`` on, not repeated here.

        Args:
            read_timeout: seconds of silence, keep-alives included, that end the stream.

        Raises:
            ServerUnreachable: no answer.
            NotFound, NotAllowed, UnexpectedAnswer: the answer.
        """
        answer = self.connection.send(
            "GET",
            f"jobs/{job_id}/stream/",
            headers={"Accept": "text/event-stream", "Last-Event-ID": str(after)},
            stream=True,
            timeout=(CONNECT_TIMEOUT, read_timeout),
        )
        if answer.status_code != 200:
            with answer:
                raise_refusal(answer)
        return answer

    def stdout(self, job_id: int, *, colors: bool) -> Iterator[str]:
        """A job's whole output so far, in pieces."""
        answer = self.connection.call(
            "GET",
            f"jobs/{job_id}/stdout/",
            params={"format": "ansi" if colors else "txt"},
            stream=True,
        )
        answer.encoding = "utf-8"
        with answer:
            yield from answer.iter_content(chunk_size=1 << 16, decode_unicode=True)

    def host_summaries(
        self, job_id: int, *, limit: int, filters: Mapping[str, Any] | None = None
    ) -> tuple[int, list[HostSummary]]:
        """How many hosts a job has results of, and the first ``limit`` of them.

        Args:
            filters: conditions such as ``{"changed__gt": 0}``.
        """
        query = {"order_by": "host_name", "page_size": max(1, min(limit, _PAGE))}
        answer = self.connection.call(
            "GET", f"jobs/{job_id}/job_host_summaries/", params=query | dict(filters or {})
        ).json()
        found = [HostSummary.of(body) for body in answer["results"]]
        return int(answer["count"]), found[:limit]

    def nodes(self) -> list[Node]:
        """Every worker node."""
        bodies = self._first("instances/", 10_000, {"order_by": "hostname"})
        return [Node.of(body) for body in bodies]

    def node(self, name: str) -> Node:
        """One worker node by its name.

        Raises:
            NotFound: there is none of this name.
        """
        for body in self._first("instances/", 1, {"hostname": name}):
            return Node.of(body)
        raise NotFound(f"there is no node {name}")

    def change_node(self, node_id: int, **fields: Any) -> Node:
        """Enable, disable or drain a node; the node as it is then."""
        answer = self.connection.call("PATCH", f"instances/{node_id}/", json=fields)
        return Node.of(answer.json())

    def drain(self, node_id: int) -> DrainState:
        """Drain a node; what still runs there."""
        answer = self.connection.call("POST", f"instances/{node_id}/drain/")
        return DrainState.of(answer.json())

    def drain_state(self, node_id: int) -> DrainState:
        """What runs on a node that is drained."""
        answer = self.connection.call("GET", f"instances/{node_id}/drain/")
        return DrainState.of(answer.json())

    def _first(self, path: str, limit: int, query: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The first ``limit`` results of a list, page by page."""
        page, left = 1, limit
        while left > 0:
            size = min(left, _PAGE) if page == 1 else _PAGE
            parameters = {**query, "page": page, "page_size": size}
            answer = self.connection.call("GET", path, params=parameters).json()
            yield from answer["results"][:left]
            left -= len(answer["results"])
            page += 1
            if not answer["next"]:
                return
