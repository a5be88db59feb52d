"""Cases that users of other tools met in the field, on real playbooks in as few runs as possible.

``tests/architecture/test_field_cases.py`` lists all of them, with what shows each.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.runs import LOCAL, Run, Runs
from tests.waiting import wait_until

#: A space, a folder, and the long suffix.
PLAYBOOK = "play books/fail late.yaml"
LATE = """
- hosts: web:db:all
  gather_facts: false
  tasks:
    - set_stats: {data: {version: "1.2"}, aggregate: false}
    - name: once
      command: /bin/true
      notify: told
    - name: third time lucky
      shell: echo x >> {{ inventory_hostname }}; test $(wc -l < {{ inventory_hostname }}) -ge 3
      args: {chdir: "{{ playbook_dir }}"}
      register: tried
      until: tried is success
      retries: 5
      delay: 0
    - name: waited for
      command: sleep 0.2
      async: 30
      poll: 1
    - name: asked about later
      command: sleep 0.2
      async: 30
      poll: 0
      register: later
    - async_status: {jid: "{{ later.ansible_job_id }}"}
      register: seen
      until: seen is finished
      retries: 50
      delay: 0.1
    - name: forgotten
      command: sleep 30
      async: 60
      poll: 0
    - meta: flush_handlers
    - fail: {msg: at the end}
      when: inventory_hostname == "two"
  handlers:
    - name: told
      debug: {msg: the handler has run}
"""
TALKS = """
from ansible.utils.display import Display

class FilterModule:
    def filters(self):
        return {"talks": self.talk}

    def talk(self, count):
        for number in range(count):
            Display().vvv(f"said {number}.")
        return "said"
"""
LINES = 3_000


@pytest.fixture(scope="module")
def late(runs: Runs) -> Run:
    run = runs.start(
        {PLAYBOOK: LATE},
        playbook=PLAYBOOK,
        inventory=f"one {LOCAL}\ntwo {LOCAL}\n[web]\none\ntwo\n[db]\none\n[all_of_it:children]\nweb\ndb\n",
    )
    run.wait()
    return run


def events_of(run: Run, task: str, event: str) -> list[dict[str, Any]]:
    return [e for e in run.events() if (e["task"], e["event"]) == (task, event)]


def test_a_playbook_with_a_space_in_a_folder_and_the_long_suffix_runs(late: Run) -> None:
    assert "PLAY [web:db:all]" in late.stdout()


def test_a_host_in_several_groups_runs_once(late: Run) -> None:
    ran = [event["host_name"] for event in events_of(late, "once", "runner_on_ok")]
    assert sorted(ran) == ["one", "two"]


def test_a_retried_task_and_a_handler_are_no_failure(late: Run) -> None:
    retried = events_of(late, "third time lucky", "runner_retry")
    assert [event["host_name"] for event in retried].count("one") == 2
    assert not any(event["failed"] for event in retried)
    assert len(events_of(late, "told", "runner_on_ok")) == 2
    rows = {row.host_name: row for row in late.decided().host_rows}
    assert (rows["one"].failures, rows["one"].failed) == (0, False)
    assert (rows["two"].failures, rows["two"].failed) == (1, True)


def test_statistics_set_before_a_failure_are_kept(late: Run) -> None:
    assert late.decided().outcome == "failed_hosts"
    assert late.wait().artifacts == {"version": "1.2"}


def test_asynchronous_tasks_of_the_node_itself_keep_their_results_in_the_runs_home(
    late: Run,
) -> None:
    home = f"{late.run_dir.private}/home/"
    started = events_of(late, "asked about later", "runner_on_ok")
    assert len(started) == 2
    for event in started:
        assert event["event_data"]["res"]["results_file"].startswith(home)


def test_what_was_started_and_never_waited_for_is_listed(late: Run) -> None:
    detached = late.wait().evidence.detached
    assert {(each["host"], each["task"]) for each in detached} == {
        ("one", "forgotten"),
        ("two", "forgotten"),
    }
    words = late.decided().explanation
    assert "2 asynchronous tasks were left running: forgotten on " in words
    assert f"[dispatcher] {words}" in late.stdout()
    assert late.processes() == [], "what it left on the node itself has ended with it"


def test_thousands_of_verbose_lines_arrive_whole_and_in_order(runs: Runs) -> None:
    run = runs.start(
        {
            "site.yml": "- hosts: all\n  gather_facts: false\n  tasks:\n"
            f"    - command: seq {LINES}\n"
            f"    - debug: {{msg: '{{{{ {LINES} | talks }}}}'}}\n",
            "filter_plugins/talks.py": TALKS,
        },
        verbosity=3,
    )
    assert run.decided().outcome == "successful"
    events = run.events()
    assert [event["counter"] for event in events] == list(range(1, len(events) + 1))
    lines = run.stdout().split("\n")
    assert len(lines) == events[-1]["end_line"] + 1
    printed = [line.strip(' ",') for line in lines]
    counted = printed.index('stdout_lines": [') + 1
    assert printed[counted : counted + LINES] == [str(number) for number in range(1, LINES + 1)]
    said = [line for line in printed if line.startswith("said ")]
    assert said == [f"said {number}." for number in range(LINES)]


def test_an_inventory_script_that_hangs_is_seen_timed_and_canceled(runs: Runs) -> None:
    def hanging(**changes: Any) -> Run:
        run_dir = runs.prepare(
            {
                "site.yml": "- hosts: all\n  tasks: []\n",
                "hosts.py": f"#!{sys.executable}\nimport time\ntime.sleep(300)\n",
            },
            inventory=None,
            inventory_path="hosts.py",
            **changes,
        )
        (run_dir.project / "hosts.py").chmod(0o700)
        return Run(run_dir, runs.server.start_supervisor(run_dir.path))

    canceled, timed = hanging(), hanging(timeout=2)
    for run in (canceled, timed):
        run.shows("[dispatcher] reading the inventory hosts.py")
    wait_until(lambda: len(canceled.processes()) >= 3, what="the script runs")
    canceled.run_dir.request_stop("cancel")
    assert canceled.decided().outcome == "canceled"
    assert timed.decided().outcome == "timeout"
    assert canceled.processes() == timed.processes() == []
