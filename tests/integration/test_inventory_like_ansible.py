"""Our parser against ``ansible-inventory``, over a corpus."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dispatcher.domain.inventory import InventoryError, parse_inventory
from tests.programs import installed

CORPUS = Path(__file__).parent.parent / "fixtures" / "inventories"
GOOD = sorted(p.relative_to(CORPUS) for d in ("ini", "yaml") for p in (CORPUS / d).iterdir())
BAD = sorted(p.relative_to(CORPUS) for p in (CORPUS / "bad").iterdir())
#: Those that end Ansible itself.
FATAL = ["yaml_all_as_child"]


def ansible_inventory(
    sources: list[Path], tmp_path: Path, *, any_is_fatal: bool = True
) -> subprocess.CompletedProcess[str]:
    """What Ansible makes of files."""
    arguments = [argument for source in sources for argument in ("-i", str(source))]
    return subprocess.run(
        [installed("ansible-inventory"), *arguments, "--list"],
        capture_output=True,
        text=True,
        check=False,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "LC_ALL": "C.UTF-8",
            "COLUMNS": "10000",
            "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"),
            "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": str(any_is_fatal),
        },
    )


def plain(value: Any) -> Any:
    """A value of the answer without its marks of what may be templated."""
    if isinstance(value, dict):
        if list(value) == ["__ansible_unsafe"]:
            return plain(value["__ansible_unsafe"])
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", GOOD, ids=str)
def test_groups_hosts_and_variables_are_those_of_ansible(name: Path, tmp_path: Path) -> None:
    answer = ansible_inventory([CORPUS / name], tmp_path)
    assert answer.returncode == 0, answer.stderr
    theirs: dict[str, Any] = json.loads(answer.stdout)
    hostvars = theirs.pop("_meta")["hostvars"]
    ours = parse_inventory((CORPUS / name).read_bytes().decode())

    groups: dict[str, Any] = {}
    for group in ours.groups.values():
        content = {"hosts": list(group.hosts), "children": list(group.children)}
        if group.name == "all":
            del content["hosts"]
        present = {key: names for key, names in content.items() if names}
        if present:
            groups[group.name] = present
    assert groups == theirs

    merged = {host: variables for host, variables in ours.hostvars.items() if variables}
    assert json.loads(json.dumps(merged, default=str)) == plain(hostvars)


def test_what_we_refuse_ansible_refuses_too(tmp_path: Path) -> None:
    """All of them in one process; each has names of its own, because what Ansible read before it
    met the error stays in its memory."""
    together = [name for name in BAD if name.name not in FATAL]
    answer = ansible_inventory([CORPUS / name for name in together], tmp_path, any_is_fatal=False)
    assert answer.returncode == 0, answer.stderr
    words = " ".join(answer.stderr.split())
    accepted = [
        name for name in together if f"Unable to parse {CORPUS / name} as an inventory" not in words
    ]
    assert accepted == []
    for name in FATAL:
        assert ansible_inventory([CORPUS / "bad" / name], tmp_path).returncode != 0


@pytest.mark.parametrize("name", BAD, ids=str)
def test_a_refusal_names_the_line(name: Path) -> None:
    with pytest.raises(InventoryError, match=r"^line \d+: "):
        parse_inventory((CORPUS / name).read_text())
