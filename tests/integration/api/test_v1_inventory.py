"""v1's groups, hosts, variables, SSH check and metrics: every line of the route tables."""

from __future__ import annotations

import fcntl
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Engine

from dispatcher.settings import Settings
from examples.host_install.ssh_hosts import SshHost, running_hosts
from tests.runner_service import INVENTORY, make_root, said, serving


@pytest.fixture(scope="module")
def settings(v1_settings: Settings) -> Settings:
    return v1_settings


@pytest.fixture(scope="module")
def engine(v1_engine: Engine) -> Engine:
    return v1_engine


@pytest.fixture(scope="module")
def server(settings: Settings, engine: Engine) -> Iterator[httpx.Client]:
    with serving(settings, engine, make_root(settings.data_dir / "root")) as (http, _):
        yield http


@pytest.fixture
def root(settings: Settings) -> Iterator[Path]:
    """The server's root, with its files as they were."""
    root = settings.data_dir / "root"
    yield root
    (root / "inventory" / "hosts").write_text(INVENTORY)
    for name in ("host_vars", "group_vars"):
        for file in (root / "project" / name).glob("*"):
            file.unlink()


@pytest.fixture
def v1(server: httpx.Client, root: Path) -> httpx.Client:
    assert root
    return server


def children(root: Path) -> Any:
    return yaml.safe_load((root / "inventory" / "hosts").read_text())["all"]["children"]


# -- groups


def test_groups_and_their_members_are_read(v1: httpx.Client) -> None:
    assert said(v1.get("/api/v1/groups")) == (200, "OK", "", {"groups": ["osds", "mons"]})
    expected = (200, "OK", "", {"members": ["osd1", "osd2"]})
    assert said(v1.get("/api/v1/groups/osds")) == expected


@pytest.mark.parametrize("name", ["none", "..%2e", "%2e%2e", "all"])
def test_an_unknown_group_is_not_found(v1: httpx.Client, name: str) -> None:
    expected = (404, "NOTFOUND", "Group doesn't exist", {})
    assert said(v1.get(f"/api/v1/groups/{name}")) == expected
    expected = (400, "INVALID", "Group doesn't exist", {})
    assert said(v1.delete(f"/api/v1/groups/{name}")) == expected


def test_a_group_is_added_once_and_removed_with_its_hosts(v1: httpx.Client, root: Path) -> None:
    url = "/api/v1/groups/new-1"
    assert said(v1.post(url)) == (200, "OK", "Group new-1 added", {})
    before = (root / "inventory" / "hosts").stat().st_ino
    assert said(v1.post(url, json="")) == (200, "OK", "Group already exists", {})
    assert (root / "inventory" / "hosts").stat().st_ino == before
    assert said(v1.post("/api/v1/hosts/h1/groups/new-1"))[0] == 200
    assert said(v1.delete(url)) == (200, "OK", "Group new-1 removed", {})
    assert said(v1.get("/api/v1/hosts/h1"))[0] == 404


@pytest.mark.parametrize("name", ["all", "ungrouped"])
def test_names_of_the_system_are_refused(v1: httpx.Client, name: str) -> None:
    words = f"Group name '{name}' is a reserved/system group name"
    assert said(v1.post(f"/api/v1/groups/{name}")) == (400, "INVALID", words, {})


@pytest.mark.parametrize(
    "name", ["%2e%2e", "-x", "a%0ab", "a%00", "%7b%7bx%7d%7d", "a b", "x" * 300]
)
def test_hostile_names_change_nothing(v1: httpx.Client, root: Path, name: str) -> None:
    before = (root / "inventory" / "hosts").read_text()
    for method, path in (
        ("POST", f"/api/v1/groups/{name}"),
        ("POST", f"/api/v1/hosts/{name}/groups/osds"),
        ("POST", f"/api/v1/groupvars/{name}"),
        ("POST", f"/api/v1/hostvars/{name}/groups/osds"),
        ("POST", f"/api/v1/hostvars/osd1/groups/{name}"),
    ):
        code, status, _, _ = said(v1.request(method, path, json={}))
        assert (code, status) in ((400, "INVALID"), (404, "NOTFOUND"))
    assert (root / "inventory" / "hosts").read_text() == before
    assert not list((root / "project").glob("*vars/*"))


def test_what_else_is_in_the_inventory_is_kept(v1: httpx.Client, root: Path) -> None:
    shipped = "all: {children: {ovirt: {children: null, hosts: null}}, hosts: null}\n"
    (root / "inventory" / "hosts").write_text(shipped)
    answer = v1.post("/api/v1/hosts/h1/groups/ovirt?port=2222", json={})
    assert said(answer) == (200, "OK", "h1 added", {"hostname": "h1"})
    document = yaml.safe_load((root / "inventory" / "hosts").read_text())
    host = {"ansible_host": "h1", "ansible_port": 2222}
    ovirt = {"children": None, "hosts": {"h1": host}}
    assert document == {"all": {"children": {"ovirt": ovirt}, "hosts": None}}


# -- hosts


def test_hosts_are_read(v1: httpx.Client) -> None:
    assert said(v1.get("/api/v1/hosts")) == (200, "OK", "", {"hosts": ["osd1", "osd2"]})
    expected = (200, "OK", "", {"groups": ["osds", "mons"]})
    assert said(v1.get("/api/v1/hosts/osd1")) == expected
    assert said(v1.get("/api/v1/hosts/zz")) == (404, "NOTFOUND", "", {"groups": []})


def test_a_host_is_removed_from_all_groups(v1: httpx.Client) -> None:
    words = "osd1 removed from 2 group(s) (osds,mons)"
    assert said(v1.delete("/api/v1/hosts/osd1")) == (200, "OK", words, {})
    words = "zz removed from 0 group(s) ()"
    assert said(v1.delete("/api/v1/hosts/zz")) == (404, "NOTFOUND", words, {})


def test_a_host_is_added_and_taken_out(v1: httpx.Client, root: Path) -> None:
    url = "/api/v1/hosts/new/groups/osds"
    assert said(v1.post(url)) == (200, "OK", "new added", {"hostname": "new"})
    assert children(root)["osds"]["hosts"]["new"] is None
    words = "Host already in the group osds"
    assert said(v1.post(url)) == (200, "OK", words, {"hostname": "new"})
    assert said(v1.delete(url)) == (200, "OK", "", {})
    words = "No such group found in the inventory"
    assert said(v1.delete(url)) == (400, "INVALID", words, {})
    assert said(v1.delete("/api/v1/hosts/new/groups/x")) == (400, "INVALID", words, {})
    assert said(v1.post("/api/v1/hosts/new/groups/x")) == (400, "INVALID", words, {})


def test_other_groups_and_a_port_are_taken(v1: httpx.Client, root: Path) -> None:
    answer = v1.post("/api/v1/hosts/new/groups/osds?others=mons&port=99")
    assert said(answer) == (200, "OK", "new added", {"hostname": "new"})
    entry = {"ansible_host": "new", "ansible_port": 99}
    assert children(root)["osds"]["hosts"]["new"] == entry
    assert children(root)["mons"]["hosts"]["new"] == entry


@pytest.mark.parametrize("port", ["x", "", "-1", "0", "70000", "٣"])
def test_a_port_that_is_none_is_the_default(v1: httpx.Client, root: Path, port: str) -> None:
    assert said(v1.post("/api/v1/hosts/new/groups/osds", params={"port": port}))[0] == 200
    assert children(root)["osds"]["hosts"]["new"]["ansible_port"] == 22


def test_the_first_group_that_fails_ends_it(v1: httpx.Client, root: Path) -> None:
    words = "No such group found in the inventory"
    answer = v1.post("/api/v1/hosts/new/groups/osds?others=x,mons")
    assert said(answer) == (400, "INVALID", words, {})
    assert "new" in children(root)["osds"]["hosts"]
    assert "new" not in children(root)["mons"]["hosts"]


def test_other_parameters_are_refused(v1: httpx.Client) -> None:
    words = "Supported additional parameters are others,port"
    answer = v1.post("/api/v1/hosts/new/groups/osds?user=x")
    assert said(answer) == (400, "INVALID", words, {})


# -- the file


def test_a_locked_inventory_is_said_to_be(v1: httpx.Client, root: Path) -> None:
    with open(root / ".dispatcher.lock", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        words = "Unable to lock the inventory file"
        assert said(v1.post("/api/v1/groups/x")) == (409, "LOCKED", words, {})
        answer = v1.post("/api/v1/hosts/x/groups/osds")
        assert said(answer) == (409, "LOCKED", f"{words}, try later", {})
        assert said(v1.get("/api/v1/groups"))[0] == 200


def test_an_empty_file_is_an_empty_inventory(v1: httpx.Client, root: Path) -> None:
    (root / "inventory" / "hosts").write_text("")
    assert said(v1.get("/api/v1/groups"))[3] == {"groups": []}
    assert said(v1.post("/api/v1/groups/a"))[0] == 200
    assert said(v1.get("/api/v1/groups"))[3] == {"groups": ["a"]}


def test_an_ini_file_is_read_and_never_changed(v1: httpx.Client, root: Path) -> None:
    (root / "inventory" / "hosts").write_text("[web]\nw1 a=1\n[web:vars]\nb=2\n")
    assert said(v1.get("/api/v1/groups/web"))[3] == {"members": ["w1"]}
    assert said(v1.get("/api/v1/hostvars/w1/groups/web"))[3] == {"vars": {"a": 1}}
    assert said(v1.get("/api/v1/groupvars/web"))[3] == {"vars": {"b": 2}}
    code, status, msg, _ = said(v1.post("/api/v1/groups/a"))
    assert (code, status) == (400, "INVALID")
    assert msg.endswith("it can be read, not changed")


@pytest.mark.parametrize("text", ["all: [", "a: b: c\n", "\x00", "all: {children: [1]}\n", "- x\n"])
def test_a_broken_file_is_no_fault(v1: httpx.Client, root: Path, text: str) -> None:
    (root / "inventory" / "hosts").write_text(text)
    for method, path in (
        ("GET", "groups"),
        ("GET", "hosts"),
        ("GET", "hosts/h"),
        ("POST", "groups/a"),
        ("DELETE", "hosts/h"),
        ("GET", "groupvars/a"),
    ):
        assert said(v1.request(method, f"/api/v1/{path}"))[0] in (200, 400, 404)


def test_changes_of_several_processes_are_all_kept(
    v1: httpx.Client, root: Path, settings: Settings, engine: Engine
) -> None:
    with serving(settings, engine, root) as (other, _):

        def add(number: int) -> int:
            http = (v1, other)[number % 2]
            return said(http.post(f"/api/v1/hosts/h{number}/groups/osds"))[0]

        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(add, range(40))) == {200}
    assert len(children(root)["osds"]["hosts"]) == 42


def test_a_reader_never_sees_half_a_file(v1: httpx.Client, root: Path) -> None:
    big = {"x": ["words"] * 20_000}
    url = "/api/v1/groupvars/osds"
    assert said(v1.post(url, json=big))[0] == 200
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            v1.post(url, json=big)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(10):
            file = root / "project" / "group_vars" / "osds.yml"
            assert yaml.load(file.read_text(), Loader=yaml.CSafeLoader) == big
    finally:
        stop.set()
        writer.join()


# -- variables


def test_host_variables_in_a_file_win(v1: httpx.Client, root: Path) -> None:
    url = "/api/v1/hostvars/osd2/groups/osds"
    assert said(v1.get(url)) == (200, "OK", "", {"vars": {"ansible_port": 2222}})
    file = root / "project" / "host_vars" / "osd2"
    words = f"Variables written successfully to {file}"
    answer = v1.post(url, json={"a": [1, "x"]})
    assert said(answer) == (200, "OK", words, {"hostname": "osd2"})
    assert said(v1.get(url)) == (200, "OK", "", {"vars": {"a": [1, "x"]}})
    assert said(v1.get("/api/v1/hostvars/osd2/groups/none"))[0] == 200


def test_host_variables_in_the_inventory_replace_the_entry(v1: httpx.Client, root: Path) -> None:
    url = "/api/v1/hostvars/osd2/groups/osds"
    answer = v1.post(f"{url}?type=inventory", json={"a": 1})
    assert said(answer) == (200, "OK", "Vars added to osd2", {"hostname": "osd2"})
    assert children(root)["osds"]["hosts"]["osd2"] == {"a": 1}


def test_removing_host_variables_removes_both(v1: httpx.Client, root: Path) -> None:
    url = "/api/v1/hostvars/osd2/groups/osds"
    v1.post(url, json={"a": 1})
    words = "Vars removed for 'osd2' in group 'osds'"
    assert said(v1.delete(url)) == (200, "OK", words, {"hostname": "osd2"})
    assert said(v1.get(url))[3] == {"vars": {}}
    assert not (root / "project" / "host_vars" / "osd2").exists()


@pytest.mark.parametrize(("host", "group"), [("zz", "osds"), ("osd1", "none")])
def test_variables_of_an_unknown_host_or_group(v1: httpx.Client, host: str, group: str) -> None:
    url = f"/api/v1/hostvars/{host}/groups/{group}"
    assert said(v1.get(url)) == (404, "NOTFOUND", "Host/group not found", {})
    missing = f"host not found ({host})" if group == "osds" else f"group not found ({group})"
    expected = (404, "NOTFOUND", f"Requested {missing}", {"hostname": host})
    assert said(v1.post(f"{url}?type=inventory", json={})) == expected
    words = f"Host '{host}' not in group '{group}'"
    assert said(v1.delete(url)) == (404, "NOTFOUND", words, {"hostname": host})


@pytest.mark.parametrize("path", ["hostvars/osd1/groups/osds", "groupvars/osds"])
def test_variables_that_are_refused(v1: httpx.Client, path: str) -> None:
    url = f"/api/v1/{path}"
    answer = v1.post(url, content=b"{}", headers={"Content-Type": "text/plain"})
    words = "Invalid content-type(text/plain). Use application/json"
    assert said(answer) == (415, "UNSUPPORTED", words, {})
    assert said(v1.post(url, content=b"{}"))[:2] == (415, "UNSUPPORTED")
    words = "type= value must be either inventory or file"
    assert said(v1.post(f"{url}?type=x", json={})) == (400, "INVALID", words, {})
    words = "Only type=inventory is supported"
    assert said(v1.post(f"{url}?x=1", json={})) == (400, "INVALID", words, {})
    words = "Vars must be a JSON object (VARS must be a dict object)"
    assert said(v1.post(f"{url}?type=inventory", json=[1])) == (400, "INVALID", words, {})
    assert said(v1.post(url, json=[1]))[0] == 200
    assert said(v1.get(url))[3] == {"vars": [1]}


def test_group_variables_in_a_file_win(v1: httpx.Client, root: Path) -> None:
    url = "/api/v1/groupvars/osds"
    assert said(v1.get(url)) == (200, "OK", "", {"vars": {"color": "red"}})
    file = root / "project" / "group_vars" / "osds.yml"
    words = f"Variables written successfully to {file}"
    assert said(v1.post(url, json={"a": 1})) == (200, "OK", words, {})
    assert said(v1.get(url)) == (200, "OK", "", {"vars": {"a": 1}})


def test_group_variables_in_the_inventory_are_replaced_and_removed(v1: httpx.Client) -> None:
    url = "/api/v1/groupvars/osds"
    assert said(v1.post(f"{url}?type=inventory", json={"b": 2})) == (
        200,
        "OK",
        "Vars added to osds",
        {},
    )
    assert said(v1.get(url))[3] == {"vars": {"b": 2}}
    words = "group vars removed for 'osds'"
    assert said(v1.delete(url)) == (200, "OK", words, {})
    assert said(v1.get(url))[3] == {"vars": {}}
    assert said(v1.delete(url)) == (200, "OK", words, {})


def test_variables_of_an_unknown_group(v1: httpx.Client) -> None:
    url = "/api/v1/groupvars/none"
    assert said(v1.get(url)) == (404, "NOTFOUND", "group not found", {})
    words = "Group 'none' not in inventory"
    assert said(v1.post(f"{url}?type=inventory", json={})) == (404, "NOTFOUND", words, {})
    assert said(v1.delete(url)) == (404, "NOTFOUND", "Group 'none' does not exist", {})


def test_a_file_that_only_ansible_can_read_is_no_fault(v1: httpx.Client, root: Path) -> None:
    (root / "project" / "group_vars").mkdir(exist_ok=True)
    (root / "project" / "group_vars" / "osds.yml").write_text("$ANSIBLE_VAULT;1.1;AES256\n: [")
    assert said(v1.get("/api/v1/groupvars/osds"))[:2] == (400, "INVALID")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("2020-01-01: {1: .nan}\n", 200),
        ("a: !!binary aGk=\nb: !!set {x}\n", 200),
        ("a: &a [*a]\n", 400),
        ("? [1, 2]\n: x\n", 400),
        ("[" * 5000, 400),
    ],
)
def test_values_that_json_has_no_form_for_are_no_fault(
    v1: httpx.Client, root: Path, text: str, code: int
) -> None:
    (root / "project" / "group_vars").mkdir(exist_ok=True)
    (root / "project" / "group_vars" / "osds.yml").write_text(text)
    assert said(v1.get("/api/v1/groupvars/osds"))[0] == code
    (root / "inventory" / "hosts").write_text("all: {children: {g: {vars: {2020-01-01: .inf}}}}")
    assert said(v1.get("/api/v1/groupvars/g"))[3] == {"vars": {"2020-01-01": "inf"}}


# -- the SSH check


@pytest.fixture(scope="module")
def hosts(session_dir: Path) -> Iterator[list[SshHost]]:
    with running_hosts(session_dir / "v1-ssh", 1) as running:
        yield running


@pytest.fixture(scope="module")
def checking(settings: Settings, engine: Engine, hosts: list[SshHost]) -> Iterator[httpx.Client]:
    """A server that checks, with the key that the hosts let in, and is patient with them."""
    root = make_root(settings.data_dir / "checking")
    changes = {
        "v1_ssh_checks": True,
        "v1_ssh_key": Path(hosts[0].key_file),
        "v1_ssh_timeout": 20.0,
        "v1_target_user": hosts[0].user,
    }
    with serving(settings, engine, root, **changes) as (http, _):
        yield http


def add(http: httpx.Client, host: str, port: int | None = None) -> tuple[int, str, str, Any]:
    query = "" if port is None else f"?port={port}"
    return said(http.post(f"/api/v1/hosts/{host}/groups/mons{query}", json={}))


def test_a_host_that_lets_the_key_in_is_added(checking: httpx.Client, hosts: list[SshHost]) -> None:
    address = hosts[0].address
    expected = (200, "OK", f"{address} added", {"hostname": address})
    assert add(checking, address, hosts[0].port) == expected


def test_a_port_where_nobody_listens_is_not_contactable(checking: httpx.Client) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        words = (
            f"SSH target '127.0.0.1' not contactable; host offline, port {port} blocked,"
            " sshd running?"
        )
        expected = (404, "NOCONN", words, {"hostname": "127.0.0.1"})
        assert add(checking, "127.0.0.1", port) == expected


def test_an_address_that_cannot_be_reached_is_not_contactable(checking: httpx.Client) -> None:
    assert add(checking, "255.255.255.255")[:2] == (404, "NOCONN")


def test_an_unknown_name_is_not_found(checking: httpx.Client) -> None:
    words = "SSH error - 'no.such.host.invalid' not found; check DNS or /etc/hosts"
    expected = (404, "NOCONN", words, {"hostname": "no.such.host.invalid"})
    assert add(checking, "no.such.host.invalid") == expected


def test_a_host_that_refuses_the_key_is_answered_with_the_key(
    settings: Settings, engine: Engine, hosts: list[SshHost]
) -> None:
    root = make_root(settings.data_dir / "refused")
    changes = {"v1_ssh_checks": True, "v1_ssh_timeout": 20.0}
    with serving(settings, engine, root, **changes) as (http, _):
        code, status, msg, data = add(http, hosts[0].address, hosts[0].port)
        words = f"SSH auth error - passwordless ssh not configured for '{hosts[0].address}'"
        assert (code, status, msg) == (401, "NOAUTH", words)
        assert data == {"pub_key": (root / "env" / "ssh_key.pub").read_text().strip()}
        assert hosts[0].address not in said(http.get("/api/v1/hosts"))[3]["hosts"]
        (root / "env" / "ssh_key").unlink()
        words = "SSH key(s) missing from ansible-runner-service"
        assert add(http, "h") == (500, "FAILED", words, {"hostname": "h"})


def test_a_host_that_hangs_is_a_timeout_and_holds_up_nobody(
    settings: Settings, engine: Engine
) -> None:
    root = make_root(settings.data_dir / "hanging")
    changes = {"v1_ssh_checks": True, "v1_ssh_timeout": 1.0}
    with (
        serving(settings, engine, root, **changes) as (http, _),
        socket.create_server(("127.0.0.1", 0)) as silent,
        ThreadPoolExecutor(1) as pool,
    ):
        waiting = pool.submit(add, http, "127.0.0.1", silent.getsockname()[1])
        silent.accept()
        assert said(http.post("/api/v1/groups/meanwhile"))[0] == 200
        words = "SSH timeout waiting for response from '127.0.0.1'"
        assert waiting.result() == (504, "TIMEOUT", words, {"hostname": "127.0.0.1"})


# -- metrics


def test_metrics_have_the_old_names_in_a_valid_form(v1: httpx.Client) -> None:
    answer = v1.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    found = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert found["runner_service_playbook_count"].samples[0].value == 1
    assert found["runner_service_playbooks_active"].samples[0].value == 0
    words = {s.labels["status"] for s in found["runner_service_playbooks_status"].samples}
    assert words == {"successful", "failed", "canceled", "timeout"}
    for name in ("runner_service_duration_scrape_secs", "runner_service_event_status"):
        assert name in found
    assert "dispatcher_http_requests" in found or len(found) > 10
