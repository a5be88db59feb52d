"""Addresses, bounds and robustness. That groups and variables are Ansible's is an integration test."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.domain import inventory_builder
from dispatcher.domain.host_range import expand, is_address, split_port
from dispatcher.domain.inventory import Encrypted, InventoryError, parse_inventory
from dispatcher.domain.inventory_ini import literal


def address(line: str, **extra_vars: object) -> str | None:
    inventory = parse_inventory(line)
    return inventory.connection_address(inventory.hosts[0], extra_vars)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("web1", "web1:22"),
        ("WEB1.Example.COM.", "web1.example.com:22"),
        ("web1:2222", "web1:2222"),
        ("web1 ansible_host=10.0.0.1", "10.0.0.1:22"),
        ("web1 ansible_host=10.0.0.1 ansible_port=2222", "10.0.0.1:2222"),
        ("web1 ansible_ssh_host=10.0.0.1 ansible_ssh_port='23'", "10.0.0.1:23"),
        ("web1 ansible_host=2001:DB8:0:0::1", "[2001:db8::1]:22"),
        ("web1 ansible_host=[2001:db8::1]", "[2001:db8::1]:22"),
        ("web1 ansible_host=::ffff:10.0.0.1", "10.0.0.1:22"),
        ("2001:db8::0001", "[2001:db8::1]:22"),
        ("[2001:db8::1]:2222", "[2001:db8::1]:2222"),
        ("web1 ansible_host='{{ where }}'", None),
        ("web1 ansible_host='{% if a %}b{% endif %}'", None),
        ("web1 ansible_port='{{ port }}'", None),
        ("web1 ansible_port=ssh", None),
        ("web1 ansible_port=True", None),
        ("web1 ansible_host=", None),
        ("all: {hosts: {web1: {ansible_host: !vault abc}}}", None),
        ("all: {hosts: {web1: {ansible_host: null}}}", "web1:22"),
        ("all: {hosts: {web1: {ansible_host: !unsafe db1}}}", "db1:22"),
        (
            "[g]\nweb1\n[g:vars]\nansible_port=2200\n[all:vars]\nansible_host=bastion",
            "bastion:2200",
        ),
    ],
)
def test_the_address_of_a_host(line: str, expected: str | None) -> None:
    assert address(line) == expected


def test_extra_variables_win_over_the_inventory() -> None:
    line = "web1 ansible_host=10.0.0.1 ansible_port=1"
    assert address(line, ansible_host="10.0.0.9") == "10.0.0.9:1"
    assert address(line, ansible_port=2) == "10.0.0.1:2"
    assert address(line, ansible_host="{{ x }}") is None
    assert address(line, ansible_host=Encrypted("secret")) is None


def test_a_host_that_is_not_in_it_has_its_name_for_address() -> None:
    assert parse_inventory("a ansible_host=x").connection_address("localhost") == "localhost:22"


def test_two_names_of_one_machine_have_one_address() -> None:
    inventory = parse_inventory(
        "a ansible_host=10.0.0.1\nb ansible_host=10.0.0.1 ansible_port=22\n"
    )
    assert inventory.connection_address("a") == inventory.connection_address("b")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\nb\nweb[1:1000000]\n", 3),
        ("x[1:1000][1:1000]\n", 1),
        ("x" + "[1:1]" * 5000, 1),
        ("[web]\nh\n\n[web:children]\nnone\n", 5),
        ("[web]\nh x\n", 2),
        ("h a='open\n", 1),
        ("[a:children]\nb\n[b:children]\nc\n[c:children]\na\n", 2),
        ("all:\n  hosts:\n    ok:\n    bad: text\n", 4),
        ("all:\n  children:\n    web:\n      hosts: [a]\n", 4),
        ("all:\n  hosts:\n    a: b: c\n", 3),
        ("- a\n- b\n", 1),
        ("plugin: constructed\n", 1),
        ('{"all": {"hosts": [1]}}', 1),
        ("a: &a\n  children:\n    b: *a\n", 3),
    ],
)
def test_an_error_names_its_line(text: str, line: int) -> None:
    with pytest.raises(InventoryError) as caught:
        parse_inventory(text)
    assert caught.value.line == line, caught.value
    assert str(caught.value).startswith(f"line {line}: ")


def test_a_message_stays_short_however_long_the_line_is() -> None:
    with pytest.raises(InventoryError) as caught:
        parse_inventory("h " + "x" * 100_000)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("nested", ["[" * 50_000, "{a: " * 50_000, "- " * 50_000])
def test_deep_nesting_is_refused(nested: str) -> None:
    with pytest.raises(InventoryError):
        parse_inventory(nested)


def test_aliases_that_multiply_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory_builder, "MOST_MEMBERSHIPS", 5000)
    levels = ["a0: &a0 {hosts: {h: }}"] + [
        f"a{n}: &a{n} {{children: {{x{n}: *a{n - 1}, y{n}: *a{n - 1}}}}}" for n in range(1, 30)
    ]
    with pytest.raises(InventoryError, match="more than 5000 members"):
        parse_inventory("\n".join(levels))


def test_too_many_groups_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory_builder, "MOST_GROUPS", 10)
    with pytest.raises(InventoryError, match="more than 10 groups"):
        parse_inventory("".join(f"[g{n}]\n" for n in range(20)))


def test_a_long_chain_of_groups_is_no_trouble() -> None:
    chain = "".join(f"[g{n}:children]\ng{n + 1}\n" for n in range(3000)) + "[g3000]\nh\n"
    inventory = parse_inventory(chain)
    assert inventory.members("g0") == ("h",)
    assert inventory.groups["g3000"].depth == 3001


def test_names_with_ports_and_ranges_are_told_apart() -> None:
    assert split_port("web1:22") == ("web1", 22)
    assert split_port("web[1:3]:22") == ("web[1:3]", 22)
    assert split_port("web_:22") == ("web_:22", None)
    assert split_port("2001:db8::1") == ("2001:db8::1", None)
    assert split_port("[2001:db8::1]:22") == ("2001:db8::1", 22)
    assert [is_address(text) for text in ("a.b", "a..b", "-a", "10.0.0.1", "::1", "a b", "")] == [
        True, False, False, True, True, False, False,
    ]  # fmt: skip
    assert list(expand("n[08:12:2]-[a:b]")) == [
        "n08-a", "n08-b", "n10-a", "n10-b", "n12-a", "n12-b",
    ]  # fmt: skip


def test_values_that_are_no_literals_stay_texts() -> None:
    for value in ("10.0.0.1", "yes", "true", "a b", "[1, 2", "0777", "(" * 5000, "1" * 20_000):
        assert literal(value) == value
    assert literal("'10'") == "10"
    assert literal("(1, 2)") == [1, 2]


@settings(max_examples=80)
@given(st.text(alphabet="ab[]:=#'\"\\ \n\t1,{}*&!-%", max_size=60))
def test_any_text_is_an_inventory_or_refused(text: str) -> None:
    try:
        inventory = parse_inventory(text)
    except InventoryError:
        return
    for host in inventory.hosts:
        inventory.connection_address(host)
        assert host in inventory.members("all")
        assert isinstance(inventory.hostvars[host], dict)
