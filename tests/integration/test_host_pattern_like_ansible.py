"""Our patterns against Ansible's own, many of them in one process of it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from dispatcher import clock
from dispatcher.domain.host_pattern import PatternError, resolve
from dispatcher.domain.inventory import Inventory, parse_inventory
from tests.programs import installed

INVENTORY = """
lone ansible_host=192.0.2.1
[web]
web[01:12].example.com
[db]
db-[a:e]
web01.example.com
[cache]
cache1
cache2
[site:children]
web
db
[prod:children]
db
cache
[empty]
[weird]
dash-host
under_score
2001:db8::1
10.0.0.7
[lone_group]
lone
"""

# Left out: a subscript that reaches into the second level of groups (all[5:7]); Ansible walks
# those in the order of a set, so that two runs of it pick different hosts.
PATTERNS = [
    "all", "*", "lone", "web", "db", "site", "prod", "empty", "ungrouped", "nowhere", "weird",
    "web01.example.com", "web01", "web0?.example.com", "web*", "*.example.com", "db-[ab]",
    "db-[!ab]", "db-[a:c]", "web:db", "web,db", "web , db", "web:&db", "web,&db", "all:!web",
    "all,!web,!cache", "!web", "&db", "&web:&db", "!all", "web:!web01.example.com", "!db-a:prod",
    "prod:!cache:&site", "&prod,site", "web[0]", "web[-1]", "web[0:2]", "web[3:]", "web[0-2]",
    "web[1:0]", "web[0:0]", "web[20:30]", "db[0]:cache[1]", "cache[0:]", "web[2],db[1]", "db-*[0]",
    "db-?[1:2]", "web*[0:14]", "*[0:3]", "~web0[1-3]", "~web", "~.*example", "~(db|cache)",
    "~^db-[a-c]$", "!~web", "&~.*-a", "~db-a,~db-b", "~web[0]", "lone,lone", "lone:lone_group",
    "LONE", "Web", "a*", "al?", "ungr*", "w?b", "s*", "[wd]*", "10.0.0.7", "2001:db8::1",
    "2001:db8::1,lone", "10.0.*", "dash-host", "under_score", "*_*", "?one", "lone:!lone",
    "localhost", "localhost,lone", "localhost,127.0.0.1", "local*", "::",
    ":web:", "web:::db", "web;db", "web db", ",", "db-[a-c]", "[a-z]*[0]", "web[a]", "web[1",
    "web]", "**", "?", "cache?", "cache[12]", "*a*e*", "all[0]", "site[0:1]",
    "all:&db:!db-a", "db:!db[0]", "db:&db[1:2]", "weird[1]", "empty[0]", "nowhere[3]", "lone[0]",
    "!lone_group", "web:db:!*01*", "~[", "web[99]", "lone:&", "!", "&", "cache2,cache1", "db,web",
]  # fmt: skip
LIMITS = ["", "db", "web:!web0*", "!cache", "~.*[ae]$", "lone,cache1", "site[0:3]"]

ERROR = "error"


def run(arguments: list[str], tmp_path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*arguments, "-i", str(tmp_path / "hosts")],
        capture_output=True,
        text=True,
        check=False,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"),
        },
    )


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    (tmp_path / "hosts").write_text(INVENTORY)
    return parse_inventory(INVENTORY)


def ours(pattern: str, limit: str, inventory: Inventory) -> list[str] | str:
    try:
        return list(resolve(pattern, limit, inventory, cpu=clock.thread_cpu))
    except PatternError:
        return ERROR


def theirs_at_once(patterns: list[str], limit: str, tmp_path: Path) -> dict[str, list[str]]:
    """The hosts of many patterns: each is a play of one playbook."""
    plays = "".join(f"- hosts: {_quoted(pattern)}\n" for pattern in patterns)
    (tmp_path / "site.yml").write_text(plays)
    arguments = [installed("ansible-playbook"), str(tmp_path / "site.yml"), "--list-hosts"]
    answer = run(arguments + ([f"--limit={limit}"] if limit else []), tmp_path)
    assert answer.returncode == 0, answer.stderr
    plays_shown = re.split(r"\n  play #\d+ ", answer.stdout)[1:]
    hosts = [re.findall(r"^      (\S.*)$", play, re.MULTILINE) for play in plays_shown]
    return dict(zip(patterns, hosts, strict=True))


def _quoted(pattern: str) -> str:
    return "'" + pattern.replace("'", "''") + "'"


@pytest.mark.parametrize("limit", LIMITS)
def test_patterns_name_the_hosts_that_ansible_names(
    limit: str, inventory: Inventory, tmp_path: Path
) -> None:
    mine = {pattern: ours(pattern, limit, inventory) for pattern in PATTERNS}
    good = [pattern for pattern, hosts in mine.items() if hosts != ERROR]
    assert len(good) > 100
    theirs = theirs_at_once(good, limit, tmp_path)
    assert {p: sorted(mine[p]) for p in good} == {p: sorted(h) for p, h in theirs.items()}


REFUSED = [p for p in PATTERNS if ours(p, "", parse_inventory(INVENTORY)) == ERROR]


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_is_refused_fails_in_ansible_too(
    pattern: str, inventory: Inventory, tmp_path: Path
) -> None:
    answer = run([installed("ansible"), "all", "--list-hosts", f"--limit={pattern}"], tmp_path)
    assert answer.returncode != 0, answer.stdout


@pytest.mark.parametrize(
    ("pattern", "limit"),
    [
        ("cache2,web[1],lone", ""),
        ("prod", ""),
        ("db,web", "!db-a"),
        ("site[0:14]", ""),
        ("*ach*", ""),
        ("all[1:3]", "web"),
        ("weird,cache", "cache,weird"),
        ("127.0.0.1", ""),
        ("::1", ""),
    ],
)
def test_the_order_is_that_of_ansible(
    pattern: str, limit: str, inventory: Inventory, tmp_path: Path
) -> None:
    arguments = [installed("ansible"), pattern, "--list-hosts"]
    answer = run(arguments + ([f"--limit={limit}"] if limit else []), tmp_path)
    theirs = [line.strip() for line in answer.stdout.splitlines()[1:]]
    assert ours(pattern, limit, inventory) == theirs
