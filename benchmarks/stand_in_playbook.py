"""A program in place of ansible-playbook: ansible-runner's stream of events, without Ansible.

Started as ansible-playbook is, with an environment and options of the same form. It writes what
ansible-runner's display callback writes (``display_callback/callback/awx_display.py``): each event's
data into a file of its own, and its uuid and output between two marks on the terminal. So everything
behind it is real: terminal, ansible-runner, supervisor, spool, agent, database.

Its extra variables say what it does: ``events``, how many results it has; ``gate``, a file that it
waits for; ``witness`` and ``word``, a file into which it writes ``begin`` and ``end`` with its word.
Only the standard library is imported: a start takes milliseconds.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import time
import uuid
from typing import Any

HOST = "localhost"
#: Of each result, so that an event takes about as many bytes as one of a short task.
_PADDING = "x" * 300


def main() -> None:
    wanted = _extra_vars()
    _witness(wanted, "begin")
    os.makedirs(os.path.join(os.environ["AWX_ISOLATED_DATA_DIR"], "job_events"), 0o700, True)
    _emit("playbook_on_start", "", {"playbook": "site.yml"})
    _emit("playbook_on_play_start", "PLAY [all]", {"play": "all"})
    while "gate" in wanted and not os.path.exists(wanted["gate"]):
        time.sleep(0.05)
    for number in range(wanted.get("events", 1)):
        data = {
            "host": HOST,
            "play": "all",
            "task": "Copy the unit",
            "task_action": "ansible.builtin.copy",
            "res": {"changed": False, "dest": f"/etc/{number}", "msg": _PADDING},
        }
        _emit("runner_on_ok", f"ok: [{HOST}] => (item={number})", data)
    counts = {HOST: wanted.get("events", 1)}
    stats: dict[str, Any] = {word: {} for word in ("changed", "failures", "dark", "skipped")}
    _emit("playbook_on_stats", "PLAY RECAP", {**stats, "ok": counts, "processed": {HOST: 1}})
    _witness(wanted, "end")


def _extra_vars() -> dict[str, Any]:
    """The caller's variables: JSON but for the mark of unsafe text."""
    for word in sys.argv:
        if word.startswith("--extra-vars=@"):
            with open(word.removeprefix("--extra-vars=@")) as file:
                found: dict[str, Any] = json.loads(file.read().replace("!unsafe ", ""))
                return found
    return {}


def _witness(wanted: dict[str, Any], what: str) -> None:
    if "witness" in wanted:
        now = time.time()  # noqa: TID251  (it imports nothing of the dispatcher)
        line = f"{now:.6f} {what} {wanted['word']}\n"
        descriptor = os.open(wanted["witness"], os.O_WRONLY | os.O_APPEND)
        os.write(descriptor, line.encode())
        os.close(descriptor)


def _emit(event: str, output: str, data: dict[str, Any]) -> None:
    """One event, as the display callback writes it."""
    name = str(uuid.uuid4())
    created = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
    whole = {"event": event, "uuid": name, "created": created, "pid": 1, "event_data": data}
    path = f"{os.environ['AWX_ISOLATED_DATA_DIR']}/job_events/{name}-partial.json"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(descriptor, json.dumps(whole).encode())
    os.close(descriptor)
    text = output + "\n" if output else ""
    sys.stdout.write(_marked({"uuid": name}) + text + _marked({}))
    sys.stdout.flush()


def _marked(data: dict[str, str]) -> str:
    """What ansible-runner's filter looks for: short enough for one line of it."""
    encoded = base64.b64encode(json.dumps(data).encode()).decode()
    return f"\x1b[K{encoded}\x1b[{len(encoded)}D\x1b[K"


if __name__ == "__main__":
    main()
