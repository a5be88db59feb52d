"""Pages, filters, orders, search and cursors of lists."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from sqlalchemy import text

from dispatcher.db import listing
from tests.api_server import Api
from tests.factories import add_events, make_job, make_node
from tests.integration.api.conftest import Shared

JOBS = "/api/v2/jobs/"


@pytest.fixture(scope="module")
def api(shared: Shared) -> Api:
    """Jobs 1 to 30: names ``job-01`` …, every third running, every fifth successful."""
    with shared.engine.begin() as connection:
        make_node(connection, "n1")
        for number in range(1, 31):
            status = "running" if number % 3 == 0 else "pending"
            status = "successful" if number % 5 == 0 else status
            make_job(
                connection,
                status=status,
                name=f"job-{number:02}",
                priority=number % 4,
                inputs={"playbook": "50%_off\\.yml" if number == 7 else "site.yml"},
            )
    return shared.api


def _ids(answer: Any) -> list[int]:
    assert answer.status_code == 200, answer.text
    return [job["id"] for job in answer.json()["results"]]


def _get(api: Api, **parameters: Any) -> list[int]:
    return _ids(api.http.get(JOBS, params={"page_size": 200} | parameters))


def test_a_list_is_paged_and_its_links_lead_through_it(api: Api) -> None:
    path, seen, pages = f"{JOBS}?page_size=7&order_by=-id&name__startswith=job", [], 0
    while path is not None:
        body = api.http.get(path).json()
        assert body["count"] == 30
        seen += [job["id"] for job in body["results"]]
        if pages:
            assert parse_qs(urlsplit(body["previous"]).query)["page"] == [str(pages)]
        else:
            assert body["previous"] is None
        path, pages = body["next"], pages + 1
    assert pages == 5
    assert seen == list(range(30, 0, -1))


def test_a_page_has_25_objects_unless_asked_otherwise_and_200_at_most(api: Api) -> None:
    assert len(_ids(api.http.get(JOBS))) == 25
    assert len(_ids(api.http.get(JOBS, params={"page_size": 100_000}))) == 30
    link = api.http.get(JOBS, params={"page_size": 1}).json()["next"]
    assert parse_qs(urlsplit(link).query) == {"page_size": ["1"], "page": ["2"]}


def test_a_page_past_the_last_one_is_404(api: Api) -> None:
    answer = api.http.get(JOBS, params={"page": 3})
    assert (answer.status_code, answer.json()) == (404, {"detail": "Invalid page."})
    assert api.http.get(JOBS, params={"name": "nobody"}).json() == {
        "count": 0,
        "next": None,
        "previous": None,
        "results": [],
    }


@pytest.mark.parametrize(
    ("parameters", "ids"),
    [
        ({"id": 7}, [7]),
        ({"id__in": "3,1,99"}, [1, 3]),
        ({"id__gte": 28}, [28, 29, 30]),
        ({"id__gt": 28, "id__lt": 30}, [29]),
        ({"name": "job-07"}, [7]),
        ({"name__iexact": "JOB-07"}, [7]),
        ({"name__contains": "-07"}, [7]),
        ({"name__icontains": "B-07"}, [7]),
        ({"name__startswith": "job-0", "name__endswith": "7"}, [7]),
        ({"playbook__contains": "%_"}, [7]),
        ({"playbook__contains": "_"}, [7]),
        ({"playbook__endswith": "\\.yml"}, [7]),
        ({"status": "successful"}, [5, 10, 15, 20, 25, 30]),
        ({"not__status": "pending", "id__lte": 6}, [3, 5, 6]),
        ({"or__id": 4, "or__name": "job-09"}, [4, 9]),
        ({"or__id": 4, "or__name": "job-09", "status": "running"}, [9]),
        ({"or__not__id__gt": 1, "or__id": 30}, [1, 30]),
        ({"execution_node": "n1", "id__lt": 10}, [3, 6, 9]),
        ({"not__execution_node": "n1", "id__lt": 4}, [1, 2]),
        ({"organization__name": "Default", "id__lt": 3}, [1, 2]),
        ({"organization": 99}, []),
        ({"instance_group__name": "default", "id__lt": 7}, [3, 6]),
        ({"failed": "true"}, []),
        ({"failed": "false", "id": 5}, [5]),
        ({"started__isnull": "false", "id__lt": 7}, [3, 6]),
        ({"finished": "null", "id__lt": 6}, [1, 2, 3, 4]),
        ({"job_type": "run", "id": 1}, [1]),
        ({"created__gt": "2020-01-01T00:00:00Z", "id": 1}, [1]),
        ({"created__lt": "2020-01-01"}, []),
        ({"search": "OB-07"}, [7]),
        ({"search": "off"}, [7]),
        ({"search": ["job", "off"]}, [7]),
        ({"search": "%"}, [7]),
        ({"priority": 3, "id__lt": 9, "order_by": "-id"}, [7, 3]),
        ({"order_by": "priority,-id", "id__lt": 6}, [4, 5, 1, 2, 3]),
        ({"order_by": "-name", "id__lt": 4}, [3, 2, 1]),
    ],
)
def test_filters_and_orders(api: Api, parameters: dict[str, Any], ids: list[int]) -> None:
    assert _get(api, **parameters) == ids


def test_an_empty_value_is_nulls_last(api: Api) -> None:
    assert _get(api, order_by="started", id__lt=4)[0] == 3
    assert _get(api, order_by="-started", id__lt=4)[0] == 3


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"page": 0}, "page"),
        ({"page": "x"}, "page"),
        ({"page": 10**30}, "page"),
        ({"page_size": 0}, "page_size"),
        ({"page_size": -5}, "page_size"),
        ({"order_by": "nope"}, "order_by"),
        ({"order_by": "x" * 1000}, "order_by"),
        ({"cursor": "x"}, "cursor"),
        ({"cursor": "", "order_by": "name"}, "order_by"),
        ({"nope": 1}, "nope"),
        ({"name__regex": "(a|aa)+$"}, "name__regex"),
        ({"id": "1;DROP TABLE job"}, "id"),
        ({"id__in": "1,x"}, "id__in"),
        ({"name": "\0"}, "name"),
        ({"search": "\0"}, "search"),
        ({"started__gt": "99999-01-01"}, "started__gt"),
    ],
)
def test_what_cannot_be_read_is_400_and_names_the_parameter(
    api: Api, parameters: dict[str, Any], field: str
) -> None:
    answer = api.http.get(JOBS, params=parameters)
    assert answer.status_code == 400
    assert list(answer.json()) == [field]
    assert all(isinstance(words, str) for words in answer.json()[field])


def test_a_hostile_value_is_only_a_value(api: Api) -> None:
    for value in ("' OR 1=1 --", "%' ; DROP TABLE job; --", "\\\\", "{}", "\U0001f600", "%s", ":x"):
        assert _get(api, name=value) == []
        assert _get(api, search=value) == []
    assert len(_get(api)) == 30


def test_a_cursor_misses_and_repeats_nothing_while_jobs_are_added(api: Api, shared: Shared) -> None:
    path, seen = f"{JOBS}?cursor=&page_size=7&name__startswith=job&order_by=-id", []
    while path is not None:
        body = api.http.get(path).json()
        seen += [job["id"] for job in body["results"]]
        assert body["previous"] is None
        path = body["next"]
        with shared.engine.begin() as connection:
            make_job(connection, name="another")
    assert seen == list(range(30, 0, -1))
    with shared.engine.begin() as connection:
        connection.execute(text("DELETE FROM job WHERE name = 'another'"))


def test_counts_of_large_lists_are_estimates_that_never_contradict_the_page(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "EXACT_COUNT", 50)
    with shared.engine.begin() as connection:
        make_node(connection, "n9")
        job = make_job(connection, status="running", name="large")
        add_events(connection, job, ["x"] * 300, host_name="h")
    events = f"/api/v2/jobs/{job}/job_events/"
    whole = shared.api.http.get(events, params={"page_size": 10}).json()
    assert whole["count"] == 300
    filtered = shared.api.http.get(events, params={"page_size": 10, "host_name": "h"}).json()
    assert filtered["count"] >= 51
    assert filtered["next"] is not None
    last = shared.api.http.get(
        events, params={"page_size": 200, "host_name": "h", "page": 2}
    ).json()
    assert (last["count"], last["next"], len(last["results"])) == (300, None, 100)
    with shared.engine.begin() as connection:
        connection.execute(text("DELETE FROM job WHERE name = 'large'"))
