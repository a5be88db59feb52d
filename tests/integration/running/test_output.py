"""What a real run says arrives whole, in order, clean and without secrets."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.runs import LOCAL, Run, Runs
from workers.events import MAX_EVENT_DATA
from workers.masking import MASK

SECRET = 'hunter22-$ü"quoted"\nsecond line of it'
RICH = """
- name: Überspielung ☃
  hosts: all
  gather_facts: false
  vars:
    lines: "{{ range(300) | list }}"
  tasks:
    - name: Schritt № 1
      debug: msg="{{ given }}"
    - name: names a secret {{ secret }}
      debug: msg="{{ secret }}"
    - debug: var=nested
    - command: "{{ ansible_python_interpreter }} -c 'import sys; print(sys.argv[1])' {{ secret | quote }}"
    - odd:
    - odd: {half: true}
      ignore_errors: true
    - name: not utf-8
      command: "{{ ansible_python_interpreter }} -c 'import sys; sys.stdout.buffer.write(bytes([255, 254]))'"
      ignore_errors: true
    - debug: msg="{{ item }}"
      loop: "{{ lines }}"
    - set_stats: {data: {made: [1], key: "{{ secret }}"}}
    - set_stats: {data: {mine: 5}, per_host: true}
    - command: /bin/false
      ignore_errors: true
    - block:
        - command: /bin/false
      rescue:
        - shell: echo home=$HOME lang=$LANG
    - command: /bin/true
      register: tries
      until: tries.changed
      retries: 2
      delay: 1
"""
ODD = r"""#!/usr/bin/python
# WANT_JSON
import sys
half = ', "half": "\\ud83d"' if "half" in open(sys.argv[1]).read() else ""
print('{"changed": false' + half + ', "nul": "a \\u0000 b", "key \\u0000": 1}')
"""


@pytest.fixture(scope="module")
def rich(runs: Runs) -> Run:
    run = runs.start(
        {
            "site.yml": RICH,
            "library/odd.py": ODD,
            "ansible.cfg": "[defaults]\nstdout_callback = oneline\ncallback_result_format = yaml\n",
        },
        inventory=f"[gruppe_ä]\nhôst {LOCAL}\nother {LOCAL}\n",
        limit_pattern="hôst",
        extra_vars={"given": "{{ 6 * 7 }}"},
        secret_vars={"secret": SECRET, "nested": {"pin": 471147, "list": ["swordfish"]}},
    )
    run.wait()
    return run


def test_events_are_numbered_and_lines_contiguous(rich: Run) -> None:
    events = rich.events()
    result = rich.wait()
    assert [event["counter"] for event in events] == list(range(1, result.events_total + 1))
    line = 0
    for event in events:
        assert event["start_line"] == line
        line = event["end_line"]
        held = (
            len(event["stdout"].split("\n")) if event["stdout"] or line > event["start_line"] else 0
        )
        assert line - event["start_line"] == held


def test_every_event_of_the_run_is_there(rich: Run) -> None:
    counted: dict[str, int] = {}
    for event in rich.events():
        counted[event["event"]] = counted.get(event["event"], 0) + 1
    assert counted["runner_item_on_ok"] == 300
    assert counted["playbook_on_stats"] == 1
    assert counted["playbook_on_task_start"] == 14
    assert counted["runner_on_failed"] == 4
    assert rich.decided().outcome == "successful"


def test_names_beyond_ascii_survive_a_c_locale(rich: Run) -> None:
    events = rich.events()
    named = {(e["play"], e["task"], e["host_name"]) for e in events if e["event"] == "runner_on_ok"}
    assert ("Überspielung ☃", "Schritt № 1", "hôst") in named
    assert "TASK [Schritt № 1]" in rich.stdout()


def test_parents_lead_from_host_to_task_to_play_to_playbook(rich: Run) -> None:
    events = {event["uuid"]: event for event in rich.events()}
    event = next(e for e in events.values() if e["event"] == "runner_on_ok")
    path = []
    while event["parent_uuid"]:
        event = events[event["parent_uuid"]]
        path.append(event["event"])
    assert path == ["playbook_on_task_start", "playbook_on_play_start", "playbook_on_start"]


def test_an_extra_variable_is_never_a_template(rich: Run) -> None:
    assert "{{ 6 * 7 }}" in rich.stdout()


def test_secrets_are_masked_wherever_they_turn_up(rich: Run) -> None:
    spooled = b"".join(path.read_bytes() for path in sorted(rich.run_dir.spool.iterdir()))
    for secret in (b"hunter22", b"second line of it", b"471147", b"swordfish"):
        assert secret not in spooled
    assert f"TASK [names a secret {MASK}]" in rich.stdout()
    assert rich.wait().artifacts["key"] == MASK


def test_no_secret_is_left_on_disk(rich: Run) -> None:
    left = {path: path.read_bytes() for path in rich.run_dir.path.rglob("*") if path.is_file()}
    assert {path.name for path in left} == {
        "alive",
        "job.json",
        "result.json",
        "started",
        "supervisor.json",
        "supervisor.log",
        left_segment(left),
    }
    for content in left.values():
        assert b"hunter22" not in content
        assert b"swordfish" not in content
    assert not rich.run_dir.control.exists()


def left_segment(left: dict[Path, bytes]) -> str:
    return next(path.name for path in left if path.suffix == ".seg")


def test_what_postgresql_cannot_store_is_replaced_and_marked(rich: Run) -> None:
    odd, half = [e for e in rich.events() if e["task"] == "odd" and "res" in e["event_data"]]
    assert odd["sanitized"]
    result = odd["event_data"]["res"]
    assert (result["nul"], result["key \ufffd"]) == ("a \ufffd b", 1)
    # this Ansible refuses half a surrogate pair itself
    assert half["event"] == "runner_on_failed"


def test_bytes_that_are_no_text_fail_their_task_and_nothing_else(rich: Run) -> None:
    (odd,) = [e for e in rich.events() if e["task"] == "not utf-8" and "res" in e["event_data"]]
    assert odd["event"] == "runner_on_failed"
    assert "surrogates not allowed" in odd["stdout"]


def test_sums_are_kept_for_the_run_and_for_each_host(rich: Run) -> None:
    artifacts = rich.wait().artifacts
    assert artifacts["made"] == [1]
    assert artifacts["_per_host"] == {"hôst": {"mine": 5}}


def test_ignored_and_rescued_failures_are_counted_and_no_failure(rich: Run) -> None:
    (row,) = rich.decided().host_rows
    assert (row.ignored, row.rescued, row.failures, row.failed) == (3, 1, 0, False)


def test_a_playbook_has_a_home_of_its_own(rich: Run) -> None:
    assert f"home={rich.run_dir.private}/home lang=C.UTF-8" in json.dumps(
        [event["event_data"].get("res") for event in rich.events()], ensure_ascii=False
    )


def test_colors_are_kept(rich: Run) -> None:
    assert any("\x1b[0;32mok: [hôst]" in event["stdout"] for event in rich.events())


def test_a_huge_line_is_whole_and_its_result_capped(runs: Runs) -> None:
    tasks = f"- command: {sys.executable} -c 'print(\"x\" * 5000000)'\n- debug: var=big\n"
    run = runs.start(tasks, verbosity=1, extra_vars={"big": "y" * 200_000})
    assert run.decided().outcome == "successful"
    events: list[dict[str, Any]] = run.events()
    (huge,) = [event for event in events if "x" * 5_000_000 in event["stdout"]]
    assert huge["truncated"]
    assert huge["changed"]
    assert huge["event_data"]["res"]["_truncated"] > 2 * MAX_EVENT_DATA
    assert huge["event_data"]["res"]["rc"] == 0
    assert "y" * 200_000 in run.stdout()


def test_templates_are_for_those_who_may(runs: Runs) -> None:
    run = runs.start(
        "- debug: msg={{ given }}", extra_vars={"given": "{{ 6 * 7 }}"}, allow_templating=True
    )
    run.wait()
    assert '"msg": 42' in run.stdout() or '"msg": "42"' in run.stdout()
