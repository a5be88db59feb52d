"""docs/ci.md promises pipelines exactly the options and exit codes that there are."""

from __future__ import annotations

import re
from pathlib import Path

from dispatcher import settings as settings_module
from dispatcher.cli import exit_codes
from dispatcher.domain.outcome import FACTS
from tests.architecture.test_cli_page import commands, options

PAGE = (Path(__file__).parents[2] / "docs" / "ci.md").read_text()


def test_every_option_of_a_command_on_the_page_exists() -> None:
    known = {path: options(command) for path, command in commands()}
    blocks = re.sub(r"\\\n\s*", " ", PAGE)
    used = re.findall(r"dispatcher (run|jobs follow|token create)\b([^`\n]*)", blocks)
    assert len(used) > 4
    for words, arguments in used:
        given = set(re.findall(r"(?<=\s)(--?[a-z][a-z-]*)", arguments))
        assert given <= known[f"dispatcher {words}"], words


def test_the_table_has_every_code_that_a_step_can_end_with() -> None:
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.M)}
    assert codes == {facts.exit_code for facts in FACTS.values()} | {
        exit_codes.REFUSED,
        exit_codes.SERVER,
    }


def test_every_variable_of_ours_is_a_setting() -> None:
    named = {name.lower() for name in re.findall(r"DISPATCHER_(\w+)", PAGE)}
    assert named == {"url", "token"}
    assert named <= set(settings_module.Settings.model_fields)
