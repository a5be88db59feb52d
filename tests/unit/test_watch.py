"""What a silent playbook waits for, seen from the end of its output."""

from __future__ import annotations

import pytest

from workers.watch import question_in

MARK = "\x1b[KeyJ1dWlkIjogIjEifQ==\x1b[20D\x1b[K"
TASK = f"{MARK}\r\nTASK [pause] ****\r\n{MARK}"


@pytest.mark.parametrize(
    ("tail", "asks", "question"),
    [
        ("Which one: ", False, "Which one:"),
        ("\x1b[0;35mVault password: \x1b[0m", False, "Vault password:"),
        ("key of (yes/no/[fingerprint])? ", False, "key of (yes/no/[fingerprint])?"),
        ("mysql> ", False, "mysql>"),
        (f"{TASK}[pause]\r\nGo on?:\r\n{MARK}", True, "Go on?:"),
        ("SSH password: ", True, "SSH password:"),
        ("", True, "an answer"),
        (f"{TASK}[pause]\r\nGo on?:\r\n{MARK}", False, None),
        (f"{TASK}Pausing for 30 seconds\r\n[pause]\r\nLook:\r\n", True, None),
        (f"{TASK}Pausing for 30 seconds\r\n{TASK}[pause]\r\nGo:\r\n", True, "Go:"),
        (f"{TASK}ok: [a] => password:\r\n{MARK}", False, None),
        ("PLAY [all] ****", False, None),
        ("", False, None),
    ],
)
def test_a_question_is_told_from_work(tail: str, asks: bool, question: str | None) -> None:
    assert question_in(tail, asks) == question
