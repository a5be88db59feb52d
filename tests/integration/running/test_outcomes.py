"""Every way in which a real ansible-playbook ends, and what it is called."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from dispatcher.domain.outcome import Outcome
from tests.runs import LOCAL, Run, Runs
from workers.outcome import HostRow

DEBUG = "- debug: msg=hi"
#: Port 1 of this machine is closed: nothing listens below what servers use.
DARK = "dark ansible_host=127.0.0.1 ansible_port=1"
FAIL_SOME = """
- fail: msg=no
  when: inventory_hostname == 'bad'
- ping:
"""
#: Kills ansible-playbook: the ancestor whose parent is the wrapper, a fork of the fork server.
KILL = """
import os
def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
pid = os.getpid()
while b"workers.preload" not in open(f"/proc/{parent(pid)}/cmdline", "rb").read():
    pid = parent(pid)
os.kill(pid, 9)
"""


@dataclass(frozen=True)
class Case:
    """A run, and what it must end as."""

    files: Mapping[str, str | bytes] | str
    outcome: Outcome
    words: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict)


CASES = {
    "success": Case(DEBUG, Outcome.SUCCESSFUL),
    "a host failed, one unreachable": Case(
        FAIL_SOME,
        Outcome.FAILED_HOSTS,
        "1 of 3 hosts failed: bad; 1 of 3 hosts unreachable: dark",
        {"inventory": f"good {LOCAL}\nbad {LOCAL}\n{DARK}\n"},
    ),
    "a host unreachable": Case(
        "- ping:",
        Outcome.UNREACHABLE,
        "1 of 2 hosts unreachable: dark",
        {"inventory": f"good {LOCAL}\n{DARK}\n"},
    ),
    "unreachable, tolerated": Case(
        "- ping:",
        Outcome.SUCCESSFUL,
        "tolerated",
        {"inventory": f"good {LOCAL}\n{DARK}\n", "max_unreachable": "50%"},
    ),
    "no pattern matches": Case(
        {"site.yml": "- hosts: nowhere\n  tasks:\n    - debug:\n"},
        Outcome.NO_HOSTS,
        "no play's pattern matches",
    ),
    "the limit matches none": Case(
        DEBUG, Outcome.NO_HOSTS, "limit matches no host", {"limit_pattern": "nowhere"}
    ),
    "syntax error": Case(
        {"site.yml": "- hosts: all\n  tasks:\n    - debug: msg=hi\n     bad: x\n"},
        Outcome.PARSE_ERROR,
        "(site.yml, line 4, column 6)",
    ),
    "unknown module": Case(
        {"plays/site.yml": "- hosts: all\n  tasks:\n    - nix_module: a=b\n"},
        Outcome.PARSE_ERROR,
        "(plays/site.yml, line 3, column 7)",
        {"playbook": "plays/site.yml"},
    ),
    "empty playbook": Case({"site.yml": ""}, Outcome.PARSE_ERROR, "(site.yml)"),
    "no such role": Case(
        {"site.yml": "- hosts: all\n  roles: [nix]\n"}, Outcome.PARSE_ERROR, "site.yml, line 2"
    ),
    "no such playbook": Case({"x.yml": ""}, Outcome.PROJECT, "'site.yml' is not in the project"),
    "inventory that cannot be read": Case(
        DEBUG, Outcome.INVENTORY, "No inventory was parsed", {"inventory": '[a\nx y=z = "\n'}
    ),
    "vault without a secret": Case(
        {
            "site.yml": "- hosts: all\n  vars_files: [v.yml]\n  tasks: []\n",
            "v.yml": "$ANSIBLE_VAULT;1.1;AES256\n33363965326261303234\n",
        },
        Outcome.CREDENTIALS,
        "vault secrets",
    ),
    "the playbook is killed": Case(
        {
            "site.yml": f"- hosts: all\n  gather_facts: false\n  tasks:\n"
            f"    - command: {sys.executable} {{{{ playbook_dir }}}}/kill.py\n"
            "    - pause: seconds=20\n",
            "kill.py": KILL,
        },
        Outcome.INCOMPLETE,
        "ended by signal 9",
    ),
    "a prompt for a variable": Case(
        {"site.yml": "- hosts: all\n  vars_prompt: [{name: x, prompt: Which one}]\n  tasks: []\n"},
        Outcome.WAITS_FOR_INPUT,
        "waits for input: Which one",
    ),
    "a password that is asked for": Case(
        {
            "site.yml": "- hosts: all\n  tasks: []\n",
            "ansible.cfg": "[privilege_escalation]\nbecome_ask_pass = true\n",
        },
        Outcome.WAITS_FOR_INPUT,
        "waits for input: BECOME password:",
        {"prompt_timeout": 0.5},
    ),
    "a pause that asks": Case(
        "- pause: prompt='Go on?'",
        Outcome.WAITS_FOR_INPUT,
        "waits for input: Go on?:",
        {"prompt_timeout": 0.5},
    ),
    "a pause that ends by itself": Case(
        "- pause: prompt='Look' seconds=3", Outcome.SUCCESSFUL, "", {"prompt_timeout": 0.5}
    ),
    "time-out": Case("- command: sleep 60", Outcome.TIMEOUT, "time-out", {"timeout": 3}),
    "idle": Case("- command: sleep 60", Outcome.IDLE, "no output", {"idle_timeout": 2}),
}


@pytest.fixture(scope="module")
def outcomes(runs: Runs) -> dict[str, Future[Run]]:
    """All cases, three at a time: most of them wait for something."""

    def ran(case: Case) -> Run:
        run = runs.start(case.files, **case.spec)
        run.wait()
        return run

    with ThreadPoolExecutor(3) as pool:
        return {name: pool.submit(ran, case) for name, case in CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_a_run_ends_as(name: str, outcomes: dict[str, Future[Run]]) -> None:
    run = outcomes[name].result()
    decided = run.decided()
    assert (decided.outcome, CASES[name].words in decided.explanation) == (
        CASES[name].outcome,
        True,
    ), (decided, run.stdout())
    assert run.processes() == []


def test_host_rows_are_the_recap(outcomes: dict[str, Future[Run]]) -> None:
    rows = outcomes["a host failed, one unreachable"].result().decided().host_rows
    assert rows == (
        HostRow("bad", 0, 0, 1, 0, 0, 0, 0, failed=True),
        HostRow("dark", 0, 0, 0, 1, 1, 0, 0, failed=True),
        HostRow("good", 1, 0, 0, 0, 1, 0, 0, failed=False),
    )
