"""`-i`: inside the bundle by path, outside by text, hosts with a comma."""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatcher.cli.inventories import InventoryChoice, choose_inventory
from dispatcher.errors import InvalidRequest


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / "inventories").mkdir(parents=True)
    (project / "inventories/prod.ini").write_text("web1\n")
    return project


MEMBERS = ("inventories", "inventories/prod.ini", "site.yml")


def test_a_file_or_directory_of_the_bundle_is_named_by_its_path_in_it(project: Path) -> None:
    file = choose_inventory([str(project / "inventories/prod.ini")], project, MEMBERS)
    assert file == InventoryChoice(path="inventories/prod.ini")
    folder = choose_inventory([f"{project}/inventories/"], project, MEMBERS)
    assert folder == InventoryChoice(path="inventories")


def test_a_relative_path_is_relative_to_where_the_command_runs(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project / "inventories")
    chosen = choose_inventory(["prod.ini"], Path(".."), MEMBERS)
    assert chosen.path == "inventories/prod.ini"


def test_a_file_outside_or_one_kept_out_of_the_bundle_is_sent_as_text(project: Path) -> None:
    outside = project.parent / "hosts.ini"
    outside.write_text("[web]\nä1\n")
    assert choose_inventory([str(outside)], project, MEMBERS) == InventoryChoice(text="[web]\nä1\n")
    ignored = project / "inventories/prod.ini"
    assert choose_inventory([str(ignored)], project, ["site.yml"]) == InventoryChoice(text="web1\n")


def test_variables_beside_a_file_outside_are_missed_with_a_warning(project: Path) -> None:
    (project.parent / "hosts.ini").write_text("web1\n")
    (project.parent / "group_vars").mkdir()
    chosen = choose_inventory([str(project.parent / "hosts.ini")], project, MEMBERS)
    assert chosen.warning.startswith("group_vars beside ")


@pytest.mark.parametrize(
    ("value", "text"),
    [("web1,", "web1\n"), ("web1, web2", "web1\nweb2\n"), ("web[1:3],db", "web[1:3]\ndb\n")],
)
def test_hosts_are_written_out_with_a_comma(project: Path, value: str, text: str) -> None:
    assert choose_inventory([value], project, MEMBERS).text == text


def test_what_cannot_be_sent_is_refused_with_what_to_do(project: Path) -> None:
    script = project.parent / "inventory.py"
    script.write_text("#!/usr/bin/python3\n")
    script.chmod(0o755)
    binary = project.parent / "binary"
    binary.write_bytes(b"\xff\xfe")
    for given, words in [
        ([], "is required"),
        (["a,", "b,"], "given twice"),
        (["web1"], r"no such file; .*-i web1,"),
        ([str(project.parent)], "a directory must lie inside"),
        ([str(script)], "a script must lie inside"),
        ([str(binary)], "is not UTF-8"),
    ]:
        with pytest.raises(InvalidRequest, match=words):
            choose_inventory(given, project, MEMBERS)
