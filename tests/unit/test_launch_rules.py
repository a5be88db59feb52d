"""What a run may be asked for: everything that could become an option, a file or a failure later
is refused when it is asked for, with the name of its field."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher import clock
from dispatcher.domain.launch import (
    RunRequest,
    Targets,
    effective_host_lock,
    impact,
    validate,
)
from dispatcher.domain.text import shown
from dispatcher.errors import InvalidRequest

DIGEST = "ab" * 32
INVENTORY = "lone\n[web]\nweb[1:8] ansible_user=root\n[db]\ndb1 ansible_host=10.0.0.1\n"


def request(**given: Any) -> RunRequest:
    return dataclasses.replace(RunRequest("site.yml", DIGEST, inventory=INVENTORY), **given)


def targets(**given: Any) -> Targets:
    return validate(request(**given), cpu=clock.thread_cpu)


def problems(**given: Any) -> dict[str, list[str]]:
    with pytest.raises(InvalidRequest) as caught:
        targets(**given)
    assert all(message for messages in caught.value.fields.values() for message in messages)
    return caught.value.fields


BAD: list[tuple[str, Any]] = [
    *(
        (name, path)
        for name in ("playbook", "inventory_path")
        for path in (
            "", "/etc/passwd", "../site.yml", "a/../../b.yml", "a/..", "a\\b.yml", "a\nb.yml",
            "a\x00.yml", "-i.yml", "--version", "./site.yml", "a//b.yml", "dir/", "~/site.yml",
            "$HOME/x.yml", "x" * 1025, "\ud83d.yml", 5,
        )
    ),
    ("inventory_path", "a,b"),
    ("inventory_path", "@hosts"),
    *(("bundle_digest", value) for value in ("", "xyz", "AB" * 32, "ab" * 31, DIGEST + "\n", None)),
    *(
        ("limit", value)
        for value in (
            "-web", "--version", "@/etc/hostname", "web,@/etc/hostname", "web:@f", "web, -x",
            "web:-x", "!@f", "&@f", "web,!-x", " @f", "web\n", "web\x00", "x" * 70_000, "web[99]",
            "~(", "!", "web,~(a|", "[" * 65_000, None,
        )
    ),
    *(
        (name, value)
        for name in ("tags", "skip_tags")
        for value in (("-x",), (" -x",), ("a", "--list-tags"), ("",), (" ",), ("a,b",), ("a\n",),
                      ("x" * 257,), ("t",) * 201, "install", (5,))
    ),
    *(
        (name, value)
        for name in ("extra_vars", "secret_vars")
        for value in (
            None, [], "a=1", "@file", {"@file": 1}, {"a-b": 1}, {"": 1}, {"1a": 1}, {"a b": 1},
            {5: 1}, {10**5000: 1}, {"ü": 1}, {"class": 1}, {"inventory_hostname": "x"}, {"hostvars": {}},
            {"a": "\x00"}, {"a": {"b": ["\ud83d"]}}, {"a": {"\x00": 1}}, {"a": {5: 1}},
            {"a": float("nan")}, {"a": [float("inf")]}, {"a": print}, {"a": b"x"},
            {"a": 10**5000}, {"a": "x" * 1_000_001},
        )
    ),
    *(
        ("inventory", value)
        for value in ("web 1\n", "web\x00\n", "web\x1b[0m\n", "\ud83d\n", "[a:b]\n",
                      "all:\n  hosts: [a\n", "plugin: x\n", "x" * 5_000_001, 5)
    ),
    *(
        (name, value)
        for name, most in (
            ("forks", 1000), ("verbosity", 5), ("timeout", 30 * 86_400),
            ("idle_timeout", 30 * 86_400),
        )
        for value in (-1, most + 1, 1.5, "1", True, None)
    ),
    ("priority", 1001),
    ("priority", -1001),
    *((name, "yes") for name in ("check_mode", "diff_mode", "allow_no_hosts")),
    *(
        (name, value)
        for name in ("max_unreachable", "max_failed")
        for value in ("", "-1", "101%", "5 %", "many", "1.5", "3\n", 3, None)
    ),
    *(("host_lock", value) for value in ("", "all", None)),
    *(("host_key_policy", value) for value in ("", "no", None)),
    *(
        ("instance_groups", value)
        for value in (("",), ("a", "a"), "default", (5,), ("a\n",), tuple(map(str, range(51))))
    ),
    ("name", "x" * 513),
    ("name", "a\nb"),
    ("name", None),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), BAD, ids=lambda value: ascii(shown(value))[:40])
def test_a_bad_value_is_refused_and_its_field_named(field: str, value: Any) -> None:
    given = {"inventory": None} if field == "inventory_path" else {}
    assert list(problems(**given, **{field: value})) == [field]


def test_all_bad_fields_are_reported_together() -> None:
    found = problems(
        playbook="../x", limit="@f", inventory="a b\n", forks=-1, extra_vars={"a-b": 1, "1": 2}
    )
    assert set(found) == {"playbook", "limit", "inventory", "forks", "extra_vars"}
    assert len(found["extra_vars"]) == 2
    assert found["inventory"] == ["line 1: expected name=value after the host, got 'b'"]


def test_exactly_one_inventory_is_given() -> None:
    assert "inventory" in problems(inventory=None)
    assert "inventory" in problems(inventory_path="hosts")


def test_a_variable_is_not_given_twice() -> None:
    assert "secret_vars" in problems(extra_vars={"a": 1}, secret_vars={"a": 2})


@pytest.mark.parametrize(
    "given",
    [
        {"playbook": "play books/über site.yaml"},
        {"playbook": "site"},
        {"inventory": None, "inventory_path": "inventories/prod"},
        {"inventory": ""},
        {"inventory": "localhost\tansible_connection=local\r\n"},
        {"limit": "web[0:2]:!web1,db-*"},
        {"limit": "2001:db8::1"},
        {"limit": "~web(1|2)$"},
        {"tags": ("install", "pkg-x", "tagged")},
        {"extra_vars": {"a": None, "_b": [1, 2.5, {"c": "ü\U0001f600"}], "ansible_user": "root"}},
        {"extra_vars": {"a": 10**300}},
        {"max_failed": "10%", "max_unreachable": "3"},
        {"host_lock": "exclusive", "priority": -1000, "verbosity": 5, "forks": 1000},
        {"instance_groups": ("gpu", "default")},
    ],
    ids=repr,
)
def test_what_is_ordinary_passes(given: dict[str, Any]) -> None:
    targets(**given)


def test_deep_variables_are_refused_without_recursion() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    assert "levels deep" in problems(extra_vars={"a": deep})["extra_vars"][0]


def test_a_costly_regular_expression_is_refused() -> None:
    found = problems(inventory="a" * 60 + "!\n" + "a" * 60 + "b\n", limit="~(a|aa)+$")
    assert "too long" in found["limit"][0]


# -- impact and locks


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 6),
        ({"limit": "db"}, 2),
        ({"limit": "web1,web2"}, 3),
        ({"forks": 20}, 11),
        ({"forks": 3}, 4),
        ({"limit": "nowhere"}, 1),
        ({"inventory": None, "inventory_path": "hosts"}, 6),
        ({"inventory": None, "inventory_path": "hosts", "forks": 50}, 51),
    ],
)
def test_the_impact_counts_hosts_after_the_limit(given: dict[str, Any], expected: int) -> None:
    assert impact(request(**given), targets(**given).count) == expected


def test_check_mode_shares_its_locks() -> None:
    assert effective_host_lock(request(host_lock="exclusive")) == "exclusive"
    assert effective_host_lock(request(host_lock="exclusive", check_mode=True)) == "shared"
    assert effective_host_lock(request(check_mode=True)) == "none"


def test_a_run_without_a_lock_has_no_keys() -> None:
    assert targets().lock_keys == ()


def test_the_keys_are_the_addresses_of_the_hosts_of_the_run() -> None:
    keys = targets(host_lock="exclusive", limit="db,lone").lock_keys
    assert keys == ("host:10.0.0.1:22", "host:lone:22")
    other = targets(host_lock="shared", inventory="other ansible_host=10.0.0.1\n").lock_keys
    assert set(keys) & set(other) == {"host:10.0.0.1:22"}


UNSURE = "a ansible_host='{{ x }}'\nb\nc\n"


def test_an_address_that_only_ansible_knows_locks_the_whole_inventory() -> None:
    sure = targets(host_lock="exclusive", inventory=UNSURE, limit="b").lock_keys
    assert sure == ("host:b:22",)
    whole = targets(host_lock="exclusive", inventory=UNSURE, limit="a").lock_keys
    assert set(sure) < set(whole), "it may be any machine of the inventory"
    again = targets(host_lock="exclusive", inventory=UNSURE).lock_keys
    assert again == whole
    assert any(key.startswith("inventory:") for key in whole)


def test_a_subscript_locks_every_host_it_may_pick() -> None:
    assert len(targets(host_lock="exclusive", limit="all[0]").lock_keys) == 10


def test_an_inventory_in_the_bundle_is_locked_as_a_whole() -> None:
    paths = [
        targets(host_lock="exclusive", inventory=None, inventory_path=path).lock_keys
        for path in ("a", "b", "a")
    ]
    assert paths[0] == paths[2] != paths[1]
    assert len(paths[0]) == 1


def test_variables_that_move_the_hosts_move_the_locks() -> None:
    given: dict[str, Any] = {"host_lock": "exclusive", "limit": "web1"}
    assert targets(extra_vars={"ansible_host": "x"}, **given).lock_keys == ("host:x:22",)
    secret = targets(secret_vars={"ansible_host": "x"}, **given).lock_keys
    assert len(secret) == 1
    assert secret[0].startswith("inventory:")


@settings(max_examples=50)
@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_any_texts_pass_or_are_refused(playbook: str, limit: str, inventory: str) -> None:
    try:
        targets(playbook=playbook, limit=limit, inventory=inventory)
    except InvalidRequest:
        pass
