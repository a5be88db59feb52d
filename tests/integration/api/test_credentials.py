"""``credentials/``: what goes in encrypted never comes out; who may use which."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import Engine, select, text

from dispatcher.db import tables as t
from dispatcher.secrets import Cipher
from dispatcher.settings import Settings
from tests.api_server import Api
from tests.factories import default_organization, pack, store_bundle
from tests.templates import make_inventory, make_project, make_template, updated

CREDENTIALS = "/api/v2/credentials/"
SECRET = "correct-horse-battery"


@pytest.fixture
def organization(engine: Engine) -> int:
    with engine.connect() as connection:
        return default_organization(connection)


def made(
    api: Api, organization: int, name: str = "web", kind: str = "ssh", **inputs: Any
) -> dict[str, Any]:
    body = {"name": name, "organization": organization, "kind": kind, "inputs": inputs}
    answer = api.http.post(CREDENTIALS, json=body)
    assert answer.status_code == 201, answer.text
    credential: dict[str, Any] = answer.json()
    return credential


def stored(engine: Engine, settings: Settings, credential_id: int) -> dict[str, Any]:
    with engine.connect() as connection:
        token = connection.scalar(
            select(t.credential.c.secrets).where(t.credential.c.id == credential_id)
        )
    return {} if token is None else Cipher(settings.data_dir / "cluster.key").decrypt(token)


def whole_database(engine: Engine) -> str:
    with engine.connect() as connection:
        tables = connection.scalars(
            text(
                "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
            )
        ).all()
        return "".join(
            str(connection.execute(text(f'SELECT * FROM "{name}"')).all()) for name in tables
        )


def test_secrets_go_in_and_never_come_out(
    api: Api, engine: Engine, settings: Settings, organization: int
) -> None:
    credential = made(api, organization, username="deploy", password=SECRET, become_password=SECRET)
    shown = {"username": "deploy", "password": "$encrypted$", "become_password": "$encrypted$"}
    assert credential["inputs"] == shown
    url = credential["url"]
    answers = [
        api.http.get(CREDENTIALS),
        api.http.get(url),
        api.http.patch(url, json={"description": "x"}),
        api.http.put(
            url,
            json={"name": "w", "organization": organization, "kind": "ssh", "inputs": shown},
        ),
        api.http.patch(url, json={"inputs": {"vault_id": SECRET}}),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 400]
    assert not any(SECRET in answer.text for answer in answers[:4])
    assert api.http.get(url).json()["inputs"] == shown
    assert stored(engine, settings, credential["id"]) == {
        "password": SECRET,
        "become_password": SECRET,
    }
    assert SECRET not in whole_database(engine)


def test_a_change_takes_the_place_of_all_but_what_it_keeps(
    api: Api, engine: Engine, settings: Settings, organization: int
) -> None:
    credential = made(api, organization, username="deploy", password="old", become_password="keep")
    changed = {"password": "new", "become_password": "$encrypted$"}
    answer = api.http.patch(credential["url"], json={"inputs": changed})
    assert answer.json()["inputs"] == dict.fromkeys(changed, "$encrypted$")
    assert stored(engine, settings, credential["id"]) == {
        "password": "new",
        "become_password": "keep",
    }
    answer = api.http.patch(credential["url"], json={"inputs": {"ssh_key_unlock": "$encrypted$"}})
    assert (answer.status_code, list(answer.json())) == (400, ["inputs"])
    answer = api.http.patch(credential["url"], json={"kind": "vault"})
    assert (answer.status_code, list(answer.json())) == (400, ["kind"])


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"kind": "cloud"}, "kind"),
        ({"organization": 9999}, "organization"),
        ({"name": ""}, "name"),
        ({"inputs": {"password": "$encrypted$"}}, "inputs"),
        ({"inputs": {"password": "a\x00"}}, "inputs"),
        ({"inputs": {"ssh_key_data": "\ud800"}}, "inputs"),
        ({"kind": "environment", "inputs": {"variables": {"A": {"$encrypted$": 1}}}}, "inputs"),
        ({"kind": "environment", "inputs": {"variables": "x"}}, "inputs"),
        ({"inputs": None}, "inputs"),
    ],
)
def test_what_is_wrong_is_refused_by_field(
    api: Api, organization: int, changed: dict[str, Any], field: str
) -> None:
    body = {"name": "web", "organization": organization, "kind": "ssh", "inputs": {}} | changed
    answer = api.http.post(
        CREDENTIALS, content=json.dumps(body), headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400, answer.text
    assert {name.split(".")[0] for name in answer.json()} == {field}


def test_templates_and_launches_name_credentials_and_jobs_note_them(
    api: Api, engine: Engine, organization: int
) -> None:
    login = made(api, organization, "login", username="a", password=SECRET)["id"]
    other = made(api, organization, "other", username="b", password=SECRET)["id"]
    vault = made(api, organization, "vault", "vault", vault_password=SECRET)["id"]
    scm = made(api, organization, "scm", "scm", password=SECRET)["id"]
    with engine.begin() as connection:
        project = make_project(connection)
        updated(connection, project)
        template = make_template(connection, project, make_inventory(connection, ["a"]))
    path = f"/api/v2/job_templates/{template}/"
    members = f"{path}credentials/"
    for member in (login, vault, vault):
        assert api.http.post(members, json={"id": member}).status_code == 204
    for member in (other, scm, 9999):
        answer = api.http.post(members, json={"id": member})
        assert (answer.status_code, list(answer.json())) == (400, ["id"])
    assert {each["id"] for each in api.http.get(members).json()["results"]} == {login, vault}
    assert sorted(api.http.get(path).json()["credentials"]) == [login, vault]
    assert api.http.delete(f"{CREDENTIALS}{login}/").status_code == 409

    def launch(body: dict[str, Any]) -> tuple[set[int], dict[str, Any]]:
        answer = api.http.post(f"{path}launch/", json=body)
        assert answer.status_code == 201, answer.text
        with engine.connect() as connection:
            links = connection.scalars(
                select(t.job_credential.c.credential_id).where(
                    t.job_credential.c.job_id == answer.json()["job"]
                )
            )
            return set(links), answer.json()["ignored_fields"]

    assert launch({}) == ({login, vault}, {})
    assert launch({"credentials": [other]}) == ({login, vault}, {"credentials": [other]})
    assert api.http.patch(path, json={"ask_credential_on_launch": True}).status_code == 200
    assert launch({"credentials": [other]}) == ({other}, {})
    assert api.http.get(f"{path}launch/").json()["ask_credential_on_launch"] is True
    for wrong in ([9999], [login, other], [scm]):
        answer = api.http.post(f"{path}launch/", json={"credentials": wrong})
        assert (answer.status_code, list(answer.json())) == (400, ["credentials"])
    assert api.http.post(members, json={"id": login, "disassociate": True}).status_code == 204
    assert launch({}) == ({vault}, {})
    assert api.http.delete(f"{CREDENTIALS}{login}/").status_code == 204


def test_a_project_takes_a_credential_for_git_only_and_its_updates_note_it(
    api: Api, engine: Engine, organization: int
) -> None:
    scm = made(api, organization, "scm", "scm", username="u", password=SECRET)["id"]
    login = made(api, organization, "login", username="a")["id"]
    body = {
        "name": "site",
        "organization": organization,
        "scm_type": "git",
        "scm_url": "https://git.example/x.git",
    }
    for wrong in (login, 9999):
        answer = api.http.post("/api/v2/projects/", json=body | {"credential": wrong})
        assert (answer.status_code, list(answer.json())) == (400, ["credential"])
    project = api.http.post("/api/v2/projects/", json=body | {"credential": scm}).json()
    assert project["credential"] == scm
    job = api.http.post(f"{project['url']}update/").json()["id"]
    with engine.connect() as connection:
        link = connection.execute(select(t.job_credential)).one()
    assert tuple(link) == (job, scm, "scm")
    assert api.http.delete(f"{CREDENTIALS}{scm}/").status_code == 409
    assert api.http.patch(project["url"], json={"credential": None}).status_code == 200


def test_an_inventory_source_takes_variables_and_files_only_and_its_updates_note_them(
    api: Api, engine: Engine, organization: int
) -> None:
    cmdb = made(api, organization, "cmdb", "environment", variables={"CMDB_TOKEN": SECRET})["id"]
    vault = made(api, organization, "vault", "vault", vault_password=SECRET)["id"]
    with engine.begin() as connection:
        inventory, project = make_inventory(connection), make_project(connection)
    sources = "/api/v2/inventory_sources/"
    body = {
        "name": "cmdb",
        "inventory": inventory,
        "source_project": project,
        "source_path": "cmdb.sh",
    }
    for wrong, words in ((vault, "of kind environment is required, not vault"), (9999, "9999")):
        answer = api.http.post(sources, json=body | {"credential": wrong})
        assert (answer.status_code, list(answer.json())) == (400, ["credential"])
        assert words in str(answer.json())
    source = api.http.post(sources, json=body | {"credential": cmdb}).json()
    assert source["credential"] == cmdb
    answer = api.http.patch(source["url"], json={"credential": vault})
    assert (answer.status_code, list(answer.json())) == (400, ["credential"])
    job = api.http.post(f"{source['url']}update/").json()["id"]
    with engine.connect() as connection:
        assert tuple(connection.execute(select(t.job_credential)).one()) == (job, cmdb, "cmdb")
    assert api.http.delete(f"{CREDENTIALS}{cmdb}/").status_code == 409
    answer = api.http.patch(source["url"], json={"credential": None})
    assert (answer.status_code, answer.json()["credential"]) == (200, None)


def test_a_run_and_its_relaunch_note_the_credentials(
    api: Api, engine: Engine, organization: int
) -> None:
    login = made(api, organization, username="a", password=SECRET)["id"]
    files = {"site.yml": "[]"}
    with engine.begin() as connection:
        store_bundle(connection, files)
    body = {
        "playbook": "site.yml",
        "bundle_digest": pack(files)[0],
        "inventory": "a\n",
        "credentials": [login],
    }
    job = api.http.post("/api/v2/runs/", json=body).json()["id"]
    shown = [{"id": login, "name": "web"}]
    assert api.http.get(f"/api/v2/jobs/{job}/").json()["summary_fields"]["credentials"] == shown
    (listed,) = api.http.get("/api/v2/jobs/").json()["results"]
    assert listed["summary_fields"]["credentials"] == shown
    api.http.post(f"/api/v2/jobs/{job}/cancel/")
    again = api.http.post(f"/api/v2/jobs/{job}/relaunch/")
    assert again.status_code == 201, again.text
    with engine.connect() as connection:
        links = connection.execute(select(t.job_credential).order_by(t.job_credential.c.job_id))
        assert [tuple(link) for link in links] == [
            (job, login, "web"),
            (again.json()["id"], login, "web"),
        ]
    answer = api.http.post("/api/v2/runs/", json=body | {"credentials": [9999]})
    assert (answer.status_code, list(answer.json())) == (400, ["credentials"])
