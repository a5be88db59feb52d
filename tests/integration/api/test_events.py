"""``jobs/N/job_events/`` and ``jobs/N/job_host_summaries/``."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import insert, text

from dispatcher.db import event_queries
from dispatcher.db import tables as t
from tests.factories import add_events, finish_job, make_job, make_node
from tests.integration.api.conftest import Shared

HOSTS = ("web1", "web2", "<b>db</b>")


@pytest.fixture(scope="module")
def job(shared: Shared) -> int:
    """90 events of 0 to 3 lines in turns, hosts in turns."""
    with shared.engine.begin() as connection:
        make_node(connection)
        # another job of the same day, whose events must never show
        other = make_job(connection, status="running")
        add_events(connection, other, ["other"] * 50)
        job_id = make_job(connection, status="running")
        for number in range(90):
            add_events(
                connection,
                job_id,
                ["\n".join(f"{number}.{line}" for line in range(number % 4))],
                host_name=HOSTS[number % 3],
                event="runner_on_failed" if number == 50 else "runner_on_ok",
                failed=number == 50,
                event_data={"res": {"number": number}},
            )
        finish_job(connection, job_id)
    return job_id


def _counters(shared: Shared, job: int, **parameters: Any) -> list[int]:
    answer = shared.api.http.get(
        f"/api/v2/jobs/{job}/job_events/", params={"page_size": 200} | parameters
    )
    assert answer.status_code == 200, answer.text
    return [event["counter"] for event in answer.json()["results"]]


def test_an_event_says_everything_in_the_dialects_words(shared: Shared, job: int) -> None:
    listed = shared.api.http.get(f"/api/v2/jobs/{job}/job_events/?counter=51").json()["results"][0]
    assert listed == shared.api.http.get(f"/api/v2/jobs/{job}/job_events/51/").json()
    expected = {
        "id": 51,
        "counter": 51,
        "type": "job_event",
        "url": f"/api/v2/jobs/{job}/job_events/51/",
        "job": job,
        "event": "runner_on_failed",
        "event_display": "Host Failed",
        "event_level": 3,
        "failed": True,
        "changed": False,
        "host": None,
        "host_name": "<b>db</b>",
        "play": "all",
        "task": "a task",
        "role": "",
        "stdout": "50.0\n50.1",
        "verbosity": 0,
        "event_data": {"res": {"number": 50}},
    }
    assert {name: listed[name] for name in expected} == expected
    assert listed["end_line"] == listed["start_line"] + 2


def test_events_are_those_of_the_job_in_order(shared: Shared, job: int) -> None:
    assert _counters(shared, job) == list(range(1, 91))
    assert _counters(shared, job, order_by="start_line") == list(range(1, 91))
    assert _counters(shared, job, order_by="-counter") == list(range(90, 0, -1))
    body = shared.api.http.get(f"/api/v2/jobs/{job}/job_events/?page_size=2").json()
    assert body["count"] == 90


@pytest.mark.parametrize(
    ("parameters", "counters"),
    [
        ({"counter__gt": 88}, [89, 90]),
        ({"counter__in": "3,90"}, [3, 90]),
        ({"event": "runner_on_failed"}, [51]),
        ({"failed": "true"}, [51]),
        ({"host_name": "<b>db</b>", "counter__lte": 9}, [3, 6, 9]),
        ({"host_name__startswith": "web", "counter__lte": 3}, [1, 2]),
        ({"stdout__contains": "50.1"}, [51]),
        ({"search": "50.1"}, [51]),
        ({"start_line__gte": 130, "counter__lt": 90}, [89]),
        ({"start_line": 0}, [1, 2]),
        ({"start_line__lt": 0}, []),
        ({"start_line__gte": 10_000}, []),
        ({"start_line__gte": -5, "counter__lt": 3}, [1, 2]),
        ({"or__start_line__gte": 130, "or__counter": 1, "counter__lt": 90}, [1, 89]),
        ({"not__start_line__gte": 1}, [1, 2]),
    ],
)
def test_filters_of_events(
    shared: Shared, job: int, parameters: dict[str, Any], counters: list[int]
) -> None:
    assert _counters(shared, job, **parameters) == counters


def test_a_follower_of_the_dialect_meets_every_line_once(shared: Shared, job: int) -> None:
    """The awx command reads pages from a line on and prints an event that begins at the next."""
    next_line, printed = 0, 0
    while True:
        body = shared.api.http.get(
            f"/api/v2/jobs/{job}/job_events/?order_by=start_line&no_truncate=True&page_size=7"
            f"&start_line__gte={next_line}"
        ).json()
        before = next_line
        for event in body["results"]:
            if event["start_line"] == next_line and event["stdout"]:
                printed += 1
                next_line = event["end_line"]
        if before == next_line:
            break
    assert next_line == 22 * 6 + 1
    assert printed == 90 - 23


def test_a_cursor_walks_through_all_events(shared: Shared, job: int) -> None:
    path, seen = f"/api/v2/jobs/{job}/job_events/?cursor=&page_size=11&order_by=start_line", []
    while path is not None:
        body = shared.api.http.get(path).json()
        seen += [event["counter"] for event in body["results"]]
        path = body["next"]
    assert seen == list(range(1, 91))


def test_the_event_at_a_line_is_found_without_reading_those_before(
    shared: Shared, job: int
) -> None:
    with shared.engine.begin() as connection:
        day = connection.scalar(text("SELECT job_day FROM job WHERE id = :job"), {"job": job})
        ends = connection.execute(
            text("SELECT counter, end_line FROM job_event WHERE job_id = :job ORDER BY counter"),
            {"job": job},
        ).all()
        for line in range(-1, 140):
            expected = max((counter for counter, end in ends if end <= line), default=0)
            found = event_queries.counter_before_line(
                connection, day, job, line=line, last_counter=90
            )
            assert found == expected, line


def test_a_batch_ends_by_its_size_but_always_brings_one_event(shared: Shared) -> None:
    with shared.engine.begin() as connection:
        job_id = make_job(connection, status="running")
        add_events(connection, job_id, ["x" * 400_000, "y", "z" * 2_000_000, "a", "b"])
        day = connection.scalar(text("SELECT job_day FROM job WHERE id = :job"), {"job": job_id})
        seen, after = [], 0
        while rows := event_queries.read_following(
            connection, day, job_id, after=after, max_bytes=300_000
        ):
            seen.append([row["counter"] for row in rows])
            after = rows[-1]["counter"]
    assert seen == [[1], [2, 3], [4, 5]]


def test_events_of_a_dropped_day_are_gone_and_nothing_breaks(shared: Shared) -> None:
    with shared.engine.begin() as connection:
        job_id = make_job(
            connection, status="successful", created=text("timestamptz '2020-02-02 12:00Z'")
        )
    assert _counters(shared, job_id) == []
    assert shared.api.http.get(f"/api/v2/jobs/{job_id}/stdout/").text == ""
    stream = shared.api.http.get(f"/api/v2/jobs/{job_id}/stream/")
    assert "event: end" in stream.text


def test_host_summaries_are_listed_by_name_and_filtered(shared: Shared, job: int) -> None:
    rows = [
        {"host_name": name, "ok": number, "dark": int(name == "web2"), "failed": name == "web2"}
        for number, name in enumerate(HOSTS)
    ]
    with shared.engine.begin() as connection:
        connection.execute(insert(t.job_host_summary), [{"job_id": job, **row} for row in rows])
    path = f"/api/v2/jobs/{job}/job_host_summaries/"
    body = shared.api.http.get(path).json()
    assert [each["host_name"] for each in body["results"]] == ["<b>db</b>", "web1", "web2"]
    failed = shared.api.http.get(path, params={"failed": "true"}).json()["results"]
    assert [(each["host_name"], each["dark"], each["job"]) for each in failed] == [("web2", 1, job)]
    assert shared.api.http.get(path, params={"ok__gte": 1, "order_by": "-ok"}).json()["count"] == 2
    assert shared.api.http.get(failed[0]["url"]).json()["results"] == failed
