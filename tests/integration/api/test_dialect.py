"""The conventions of the dialect that hold for every route."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from dispatcher.db import job_queries
from tests.api_server import Api, filled
from tests.factories import add_events, finish_job, make_job, make_node
from tests.integration.api.conftest import Shared
from tests.templates import make_one_of_each, make_template
from tests.workflows import make_workflow_objects


@pytest.fixture(scope="module")
def api(shared: Shared) -> Api:
    return shared.api


@pytest.fixture(scope="module")
def job(shared: Shared) -> int:
    with shared.engine.begin() as connection:
        make_node(connection)
        job_id = make_job(connection, status="running")
        add_events(connection, job_id, ["one", "two"])
        finish_job(connection, job_id)
    return job_id


@pytest.fixture(scope="module")
def ids(shared: Shared, job: int) -> dict[str, int]:
    """An object of each kind."""
    with shared.engine.begin() as connection:
        ids = {"jobs": job, **make_one_of_each(connection)}
        template = make_template(connection, ids["projects"], ids["inventories"])
        return {**ids, **make_workflow_objects(connection, template)}


def _readable(api: Api, ids: dict[str, int]) -> list[str]:
    paths = api.http.get("/openapi.json").json()["paths"]
    return [
        filled(path, ids)
        for path, found in paths.items()
        if "get" in found and "{digest}" not in path
    ]


def test_every_route_of_v2_answers_with_and_without_its_last_slash(
    api: Api, ids: dict[str, int]
) -> None:
    for path in _readable(api, ids):
        if not path.startswith("/api/v2"):
            continue
        with_slash, without = api.http.get(path), api.http.get(path.rstrip("/"))
        assert with_slash.status_code == without.status_code == 200, path
        assert with_slash.headers["content-type"] == without.headers["content-type"]


def test_api_without_its_slash_is_left_to_v1(api: Api) -> None:
    assert api.http.get("/api").status_code == 404


def test_every_answer_names_product_and_request(api: Api, ids: dict[str, int]) -> None:
    for path in [*_readable(api, ids), "/nothing/here", "/api/v2/jobs/999/"]:
        answer = api.http.get(path)
        assert answer.headers["X-API-Product-Name"] == "AWX", path
        assert answer.headers["X-API-Product-Version"] == "24.6.1"
        assert len(answer.headers["X-Request-ID"]) == 32


def test_a_request_id_of_the_caller_is_kept_if_it_is_sane(api: Api) -> None:
    kept = api.http.get("/healthz", headers={"X-Request-ID": "build-7.2_x"})
    assert kept.headers["X-Request-ID"] == "build-7.2_x"
    replaced = api.http.get("/healthz", headers={"X-Request-ID": "a b\tc"})
    assert replaced.headers["X-Request-ID"] != "a b\tc"


_WRITE_ONLY = (
    "/api/v2/content/",
    "/api/v2/runs/",
    "/create_approval_template/",
    "/approve/",
    "/deny/",
)


def test_every_link_in_an_answer_leads_somewhere(api: Api, job: int, ids: dict[str, int]) -> None:
    seen: set[str] = set()
    waiting = ["/api/", "/api/v2/", f"/api/v2/jobs/{job}/"]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        answer = api.http.get(path)
        if path.endswith(_WRITE_ONLY):
            assert answer.status_code == 405
            continue
        assert answer.status_code == 200, path
        if answer.headers["content-type"] != "application/json":
            continue
        waiting += [link for link in _links(answer.json()) if link not in seen]
    assert f"/api/v2/jobs/{job}/job_events/2/" in seen
    assert "/api/v2/instance_groups/1/instances/" in seen


def _links(body: object) -> list[str]:
    match body:
        case str() if body.startswith("/api"):
            return [body]
        case dict():
            return [link for value in body.values() for link in _links(value)]
        case list():
            return [link for value in body for link in _links(value)]
    return []


@pytest.mark.parametrize(
    "path", ["/", "/nope", "/api/v2/nope/", "/api/v2/jobs/1/nope/", "/api/v3/", "/api/v2/jobsx/"]
)
def test_an_unknown_route_is_404_with_detail(api: Api, path: str) -> None:
    answer = api.http.get(path)
    assert (answer.status_code, answer.json()) == (404, {"detail": "Not found."})


@pytest.mark.parametrize(
    "object_id", ["999", "0", "-1", "x", "1.5", "9223372036854775808", "9" * 100, "%00", "１"]
)
@pytest.mark.parametrize(
    "path",
    [
        "jobs/{}/",
        "jobs/{}/job_events/",
        "jobs/{}/job_events/1/",
        "jobs/{}/stdout/",
        "jobs/{}/job_host_summaries/",
        "jobs/{}/cancel/",
        "jobs/{}/stream/",
        "jobs/{}/explain/",
        "job_templates/{}/launch/",
        "workflow_job_templates/{}/launch/",
        "workflow_job_templates/{}/workflow_nodes/",
        "workflow_job_templates/{}/graph/",
        "workflow_job_template_nodes/{}/success_nodes/",
        "workflow_jobs/{}/",
        "workflow_jobs/{}/relaunch/",
        "workflow_job_nodes/{}/",
        "workflow_approvals/{}/",
        "schedules/{}/",
        "instances/{}/",
        "instance_groups/{}/",
        "instance_groups/{}/instances/",
    ],
)
def test_an_unknown_object_is_404_with_detail(api: Api, path: str, object_id: str) -> None:
    answer = api.http.get("/api/v2/" + path.format(object_id))
    assert (answer.status_code, answer.json()) == (404, {"detail": "Not found."})


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/api/v2/jobs/", "GET"),
        ("POST", "/api/v2/jobs/", "GET"),
        ("PATCH", "/api/v2/jobs/1/", "GET"),
        ("GET", "/api/v2/runs/", "POST"),
        ("GET", "/api/v2/content/", "POST"),
        ("DELETE", f"/api/v2/content/{'a' * 64}/", "GET, POST, PUT"),
        ("DELETE", "/api/v2/jobs/1/cancel/", "GET, POST"),
        ("BREW", "/api/v2/jobs/1/cancel", "GET, POST"),
    ],
)
def test_a_method_that_a_route_does_not_have_is_405_and_names_those_it_has(
    api: Api, method: str, path: str, allowed: str
) -> None:
    answer = api.http.request(method, path)
    assert answer.status_code == 405
    assert answer.json() == {"detail": f'Method "{method}" not allowed.'}
    assert answer.headers["Allow"] == allowed


def test_a_fault_is_500_with_a_request_id_and_without_its_words(
    api: Api, job: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a detail that is nobody's business")

    monkeypatch.setattr(job_queries, "read_job", fail)
    with capture_logs() as logged:
        answer = api.http.get(f"/api/v2/jobs/{job}/")
    assert answer.status_code == 500
    assert [(entry["event"], type(entry["exc_info"])) for entry in logged] == [
        ("request_failed", RuntimeError)
    ]
    assert list(answer.json()) == ["detail"]
    assert answer.headers["X-Request-ID"] in answer.json()["detail"]
    assert "nobody" not in answer.text
    assert answer.headers["X-API-Product-Name"] == "AWX"


def test_an_unknown_parameter_is_refused_by_name_on_every_route(
    api: Api, ids: dict[str, int]
) -> None:
    for path in _readable(api, ids):
        answer = api.http.get(path, params={"surprise": "1"})
        assert answer.status_code == 400, path
        assert list(answer.json()) == ["surprise"], path


def test_what_clients_of_the_dialect_send_everywhere_is_accepted(api: Api, job: int) -> None:
    for path in ("/api/v2/", f"/api/v2/jobs/{job}/", "/api/v2/jobs/", "/api/v2/instances/1/"):
        assert api.http.get(path, params={"format": "json"}).status_code == 200
    answer = api.http.get(f"/api/v2/jobs/{job}/job_events/?order_by=start_line&no_truncate=True")
    assert answer.status_code == 200
    assert api.http.get(f"/api/v2/jobs/{job}/", params={"format": "xml"}).status_code == 400
