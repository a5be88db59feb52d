"""Values at the edge of what the database holds: each is answered, or refused by its field."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from dispatcher.api.v2.filters import LOOKUPS
from dispatcher.db import (
    event_queries,
    inventory_queries,
    job_queries,
    node_queries,
    organization_queries,
    project_queries,
    update_queries,
)
from dispatcher.db.listing import FieldType, Listing
from tests.factories import add_events, make_job, make_node, store_bundle
from tests.integration.api.conftest import Shared
from tests.templates import make_one_of_each

VALUES = {
    FieldType.TEXT: ("", "\\", "%", "_", "'", "\x7f", "\ufffe", "\U0010ffff", "x" * 5000, "NaN"),
    FieldType.INTEGER: ("-9223372036854775808", "9223372036854775807", "2147483648", "-0"),
    FieldType.NUMBER: ("1e308", "-1e308", "5e-324", "1e-400", "-0", "123456789012345678901"),
    FieldType.BOOLEAN: ("true", "0"),
    FieldType.TIME: (
        "0001-01-01T00:00:00+15:59",
        "0001-01-01T00:00:00",
        "9999-12-31T23:59:59.999999-23:59",
        "2026-01-01T00:00:00+23:59",
        "2026-01-01T00:00:00-16:00",
        "2026-01-01T00:00:00+01:02:03.000004",
        "2026-01-01",
    ),
    FieldType.UUID: ("0" * 32, "{ffffffff-ffff-ffff-ffff-ffffffffffff}", "urn:uuid:" + "1" * 32),
}


@pytest.fixture(scope="module")
def job(shared: Shared) -> int:
    with shared.engine.begin() as connection:
        make_node(connection, "n1")
        made = make_job(connection)
        add_events(connection, made, ["one"])
    return made


@pytest.fixture(scope="module")
def digest(shared: Shared) -> str:
    with shared.engine.begin() as connection:
        return store_bundle(connection, {"site.yml": "- hosts: all\n"})


def unclear(answer: Any) -> str | None:
    """What an answer says that is neither a result nor an error of a named field."""
    clear = answer.status_code in (200, 404)
    if answer.status_code == 400:
        clear = "detail" not in answer.json()
    return None if clear else f"{answer.url.query!r}: {answer.text}"


@pytest.mark.parametrize(
    ("path", "listing"),
    [
        ("/api/v2/jobs/", job_queries.job_listing()),
        ("/api/v2/instances/", node_queries.node_listing()),
        ("/api/v2/instance_groups/", node_queries.group_listing()),
        ("/api/v2/organizations/", organization_queries.organization_listing()),
        ("/api/v2/projects/", project_queries.project_listing()),
        ("/api/v2/inventories/", inventory_queries.inventory_listing()),
        ("/api/v2/hosts/", inventory_queries.host_listing()),
        ("/api/v2/groups/", inventory_queries.group_listing()),
        ("/api/v2/inventory_sources/", inventory_queries.source_listing()),
        ("/api/v2/project_updates/", update_queries.project_update_listing()),
        ("/api/v2/inventory_updates/", update_queries.inventory_update_listing()),
        ("/api/v2/jobs/{job}/job_events/", event_queries.event_listing(date.min, 0)),
        ("/api/v2/jobs/{job}/job_host_summaries/", job_queries.host_summary_listing(0)),
    ],
)
def test_every_filter_of_a_list_takes_a_value_or_is_refused_by_name(
    shared: Shared, job: int, path: str, listing: Listing
) -> None:
    found = []
    for name, field in listing.fields.items():
        for lookup in sorted(LOOKUPS[field.type] - {"isnull"}):
            values = [(f"{name}__{lookup}", value) for value in VALUES[field.type]]
            found.append(unclear(shared.api.http.get(path.format(job=job), params=values)))
    assert [each for each in found if each is not None] == []
    assert len(found) > 20


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("stdout/", {"format": "json", "start_line": 2**62 - 1}),
        ("stdout/", {"format": "txt", "start_line": 2**62 - 2, "end_line": 2**62 - 1}),
        ("job_events/", {"cursor": 2**63 - 1}),
        ("job_events/", {"start_line__gte": 2**63 - 1}),
        ("job_events/", {"page": 1_000_000, "page_size": 1_000_000}),
        (f"job_events/{2**63 - 1}/", {}),
    ],
)
def test_the_largest_numbers_are_answered(
    shared: Shared, job: int, path: str, parameters: dict[str, Any]
) -> None:
    answer = shared.api.http.get(f"/api/v2/jobs/{job}/{path}", params=parameters)
    assert unclear(answer) is None


@pytest.mark.parametrize("resource", ["jobs", "instances", "instance_groups", "hosts", "projects"])
@pytest.mark.parametrize("number", [2**31, 2**63 - 1, 2**63, 10**30, -1, 0])
def test_an_object_whose_number_nothing_can_have_is_not_found(
    shared: Shared, resource: str, number: int
) -> None:
    assert shared.api.http.get(f"/api/v2/{resource}/{number}/").status_code == 404


@pytest.mark.parametrize(
    "changed",
    [
        {"priority": 10**30},
        {"forks": 2**31},
        {"timeout": 2**63},
        {"verbosity": 2**15},
        {"extra_vars": {"a": "\x00"}},
        {"extra_vars": {"a\x00": 1}},
        {"secret_vars": {"a": "\ud800"}},
        {"extra_vars": {"a": 10**4000, "b": 5e-324, "c": -1e308}},
        {"inventory": "web1 a=\x00\n"},
        {"name": "\x00"},
        {"tags": ["\x00"]},
        {"instance_groups": ["\x00"]},
        {"max_failed": "99999999999"},
    ],
)
def test_a_run_with_an_odd_value_is_stored_or_refused_by_field(
    shared: Shared, digest: str, changed: dict[str, Any]
) -> None:
    body = {"playbook": "site.yml", "bundle_digest": digest, "inventory": "web1\n", **changed}
    answer = shared.api.http.post(
        "/api/v2/runs/", content=json.dumps(body), headers={"Content-Type": "application/json"}
    )
    assert answer.status_code in (201, 400), answer.text
    assert answer.status_code == 201 or list(answer.json()) == list(changed), answer.text


@pytest.mark.parametrize(
    ("resource", "changed"),
    [
        ("organizations", {"weight": 5e-324}),
        ("organizations", {"weight": 1e308}),
        ("organizations", {"weight": 10**400}),
        ("organizations", {"max_concurrent_jobs": 2**63}),
        ("organizations", {"instance_groups": [2**64]}),
        ("organizations", {"description": "\ud800"}),
        ("projects", {"organization": 2**63}),
        ("projects", {"timeout": 2**31}),
        ("projects", {"scm_url": "https://[/x"}),
        ("inventories", {"variables": {"a": 10**4000}}),
        ("inventories", {"variables": "a: 1e400"}),
        ("inventories", {"variables": "a: " + "9" * 5000}),
        ("inventories", {"variables": '{"a": NaN}'}),
        ("inventories", {"variables": '{"a": "\\u0000"}'}),
        ("inventories", {"variables": '{"\\ud800": 1}'}),
        ("inventories", {"variables": "? [a]\n: 1\n"}),
        ("hosts", {"inventory": 2**63}),
        ("hosts", {"name": "\U0010ffff" * 512}),
        ("groups", {"name": "\x7f"}),
        ("instance_groups", {"max_forks": 10**30}),
    ],
)
def test_an_object_with_an_odd_value_is_stored_or_refused_by_field(
    shared: Shared, resource: str, changed: dict[str, Any]
) -> None:
    with shared.engine.begin() as connection:
        ids = make_one_of_each(connection)
    usual: dict[str, dict[str, Any]] = {
        "projects": {"organization": 1, "scm_type": "git", "scm_url": "https://x/y"},
        "inventories": {"organization": 1},
        "hosts": {"inventory": ids["inventories"]},
        "groups": {"inventory": ids["inventories"]},
    }
    body = {"name": f"odd{ids['projects']}", **usual.get(resource, {}), **changed}
    answer = shared.api.http.post(
        f"/api/v2/{resource}/",
        content=json.dumps(body),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code in (201, 400), answer.text
    named = {name.split(".")[0] for name in answer.json()}
    assert answer.status_code == 201 or named == set(changed), answer.text
