"""The inventory of a runner-service root: read, changed, and given to a run."""

from __future__ import annotations

import pytest
import yaml

from dispatcher.domain.inventory import parse_inventory
from dispatcher.domain.runner_inventory import (
    SEED,
    CannotChange,
    NoSuchGroup,
    RunnerInventory,
    with_connection,
)


def test_the_seed_is_an_empty_inventory_that_can_be_filled() -> None:
    inventory = RunnerInventory(SEED)
    assert (inventory.groups(), inventory.hosts()) == ([], [])
    inventory.add_group("g")
    inventory.set_host("g", "h", None)
    again = RunnerInventory(inventory.text())
    assert (again.groups(), again.hosts(), again.groups_of("h")) == (["g"], ["h"], ["g"])
    again.remove_host("g", "h")
    again.remove_group("g")
    assert yaml.safe_load(again.text()) == yaml.safe_load(SEED)


def test_names_that_yaml_takes_for_numbers_are_names() -> None:
    inventory = RunnerInventory("all: {children: {1: {hosts: {7: null}}}}")
    assert (inventory.groups(), inventory.members("1")) == (["1"], ["7"])
    assert inventory.host_variables("1", "7") == {}
    inventory.set_host("1", "0x10", {"a": "no"})
    again = RunnerInventory(inventory.text())
    assert again.hosts() == ["0x10", "7"]
    assert again.host_variables("1", "0x10") == {"a": "no"}


def test_an_unknown_group_is_said_to_be() -> None:
    with pytest.raises(NoSuchGroup):
        RunnerInventory(SEED).members("g")


@pytest.mark.parametrize(
    "text", ["[g]\nh\n", "g: {hosts: {h: {a: !vault x}}}\n", "all: {hosts: {h: {a: !vault x}}}\n"]
)
def test_other_forms_are_read_and_never_written(text: str) -> None:
    inventory = RunnerInventory(text)
    assert inventory.hosts() == ["h"]
    with pytest.raises(CannotChange):
        inventory.add_group("x")
    with pytest.raises(CannotChange):
        inventory.text()


@pytest.mark.parametrize(
    "text",
    [
        "all: {hosts: {h: null}}\n",
        "[g]\nh\n",
        "h\n",
        "all: {children: {g: {hosts: {h: }}}}",
        "g: {hosts: {h: }}",
    ],
)
def test_a_run_is_told_how_to_connect(text: str) -> None:
    made = parse_inventory(with_connection(text, {"ansible_user": "root", "k": "/a b/key"}))
    assert made.variable("h", "ansible_user") == "root"
    assert made.variable("h", "k") == "/a b/key"


@pytest.mark.parametrize(
    "text", ["all: {hosts: {h: }, vars: {ansible_user: me}}\n", "h\n[all:vars]\nansible_user=me\n"]
)
def test_what_the_inventory_says_itself_wins(text: str) -> None:
    made = parse_inventory(with_connection(text, {"ansible_user": "root", "k": "v"}))
    assert made.variable("h", "ansible_user") == "me"
    assert made.variable("h", "k") == "v"


def test_a_yaml_inventory_with_tags_of_ansible_goes_on_as_it_is() -> None:
    text = "g: {hosts: {h: {a: !vault x}}}\n"
    assert with_connection(text, {"k": "v"}) == text
