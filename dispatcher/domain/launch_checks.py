"""The rule for each field of a run request: a function that says what is wrong, or nothing.

Whatever passes here becomes a file or the value of an option of ``ansible-playbook``; none of it
may turn into an option, name a file outside the bundle, or be refused later by the database.
"""

from __future__ import annotations

import json
import keyword
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from dispatcher.domain.host_pattern import split_pattern
from dispatcher.domain.text import has_control, has_control_in_lines, has_unstorable, shown

LONGEST_NAME: Final = 512
LONGEST_PATH: Final = 1024
LONGEST_LIMIT: Final = 65_536
MOST_SUBSCRIPTS: Final = 1000
LONGEST_INVENTORY: Final = 5_000_000
LONGEST_TAG: Final = 256
MOST_TAGS: Final = 200
MOST_GROUPS: Final = 50
#: Bytes of the JSON of ``extra_vars`` and of ``secret_vars``.
MOST_VARIABLE_BYTES: Final = 1_000_000
DEEPEST_VARIABLE: Final = 100
MOST_FORKS: Final = 1000
#: Seconds; 30 days.
LONGEST_TIMEOUT: Final = 30 * 86_400
HIGHEST_PRIORITY: Final = 1000

_DIGEST = re.compile(r"[0-9a-f]{64}")
_TOLERANCE = re.compile(r"([0-9]{1,9})(%?)")
_FILE_IN_LIMIT = re.compile(r"(?:^|[,:;])[\s!&]*@")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

#: Variables that Ansible itself sets for each host; it would silently ignore the caller's value.
MAGIC_VARIABLES: Final = frozenset(
    {
        "ansible_check_mode",
        "ansible_config_file",
        "ansible_dependent_role_names",
        "ansible_diff_mode",
        "ansible_forks",
        "ansible_inventory_sources",
        "ansible_limit",
        "ansible_parent_role_names",
        "ansible_parent_role_paths",
        "ansible_play_batch",
        "ansible_play_hosts",
        "ansible_play_hosts_all",
        "ansible_play_name",
        "ansible_play_role_names",
        "ansible_playbook_python",
        "ansible_role_name",
        "ansible_role_names",
        "ansible_run_tags",
        "ansible_search_path",
        "ansible_skip_tags",
        "ansible_verbosity",
        "ansible_version",
        "group_names",
        "groups",
        "hostvars",
        "inventory_dir",
        "inventory_file",
        "inventory_hostname",
        "inventory_hostname_short",
        "omit",
        "play_hosts",
        "playbook_dir",
        "role_name",
        "role_names",
        "role_path",
    }
)


def path_problem(path: object) -> str | None:
    """A path inside the bundle: relative, plain, and unable to become anything but a path."""
    if not isinstance(path, str) or path == "":
        return "a path inside the bundle is required"
    if len(path) > LONGEST_PATH:
        return f"at most {LONGEST_PATH} characters"
    if has_control(path):
        return "control characters are not allowed"
    if "\\" in path:
        return "backslashes are not allowed; the separator is '/'"
    if path.startswith("/"):
        return "an absolute path is not allowed: give a path inside the bundle"
    if path.startswith("-"):
        return "must not start with '-'"
    if path.startswith("~") or "$" in path:
        return "'~' at the start and '$' are not allowed: they would be expanded"
    parts = path.split("/")
    if ".." in parts:
        return "'..' is not allowed"
    if "" in parts or "." in parts:
        return "give the plain path, without '.', '//' or a '/' at its end"
    return None


def inventory_path_problem(path: object) -> str | None:
    """A path; without a comma, which would make it a list of hosts."""
    if isinstance(path, str) and "," in path:
        return "a comma is not allowed: it would make the path a list of hosts"
    if isinstance(path, str) and path.startswith("@"):
        return "must not start with '@'"
    return path_problem(path)


def digest_problem(digest: object) -> str | None:
    """The sha256 of a bundle."""
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        return "64 lower-case hexadecimal digits are required (the sha256 of the bundle)"
    return None


def line_problem(value: object, longest: int) -> str | None:
    """A text of one line, possibly empty."""
    if not isinstance(value, str):
        return "a text is required"
    if len(value) > longest:
        return f"at most {longest} characters"
    return "control characters are not allowed" if has_control(value) else None


def limit_problem(limit: object) -> str | None:
    """A host pattern that cannot turn into an option or the name of a file with patterns."""
    problem = line_problem(limit, LONGEST_LIMIT)
    if problem is not None:
        return problem
    text = str(limit)
    if text.count("[") > MOST_SUBSCRIPTS:
        return f"at most {MOST_SUBSCRIPTS} square brackets"
    if _FILE_IN_LIMIT.search(text) or any(
        part.lstrip("!& ").startswith("-") for part in split_pattern(text)
    ):
        return "no part of it may start with '-' or '@'"
    return None


def inventory_text_problem(text: object) -> str | None:
    """What can be said of an inventory's text before it is parsed."""
    if not isinstance(text, str):
        return "a text is required"
    if len(text) > LONGEST_INVENTORY:
        return f"at most {LONGEST_INVENTORY} characters"
    for number, line in enumerate(text.split("\n"), 1):
        if has_control_in_lines(line):
            return f"line {number}: control characters are not allowed"
    return None


def tags_problem(tags: object) -> str | None:
    """Ansible tags, each one by itself."""
    if isinstance(tags, str) or not isinstance(tags, Sequence):
        return "a list of tags is required"
    if len(tags) > MOST_TAGS:
        return f"at most {MOST_TAGS} tags"
    for tag in tags:
        problem = line_problem(tag, LONGEST_TAG)
        if problem is None and not tag.strip():
            problem = "a tag must not be empty"
        elif problem is None and tag.lstrip().startswith("-"):
            problem = "a tag must not start with '-'"
        elif problem is None and "," in tag:
            problem = "a tag must not contain a comma: give each tag by itself"
        if problem is not None:
            return f"{shown(tag)}: {problem}"
    return None


def groups_problem(names: object) -> str | None:
    """Names of instance groups, in order of preference."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        return "a list of names is required"
    if len(names) > MOST_GROUPS:
        return f"at most {MOST_GROUPS} names"
    for name in names:
        problem = line_problem(name, LONGEST_NAME)
        if problem is not None or not name.strip():
            return f"{shown(name)}: {problem or 'a name must not be empty'}"
    if len(set(names)) < len(names):
        return "a name is given twice"
    return None


def number_problem(value: object, low: int, high: int) -> str | None:
    """A whole number in a range."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        return f"a whole number from {low} to {high} is required"
    return None


def flag_problem(value: object) -> str | None:
    """True or false."""
    return None if isinstance(value, bool) else "true or false is required"


def word_problem(value: object, words: Iterable[str]) -> str | None:
    """One of a few words."""
    words = tuple(words)
    return None if value in words else "one of " + ", ".join(words) + " is required"


def tolerance_problem(value: object) -> str | None:
    """How many hosts may fail: a number or a percentage."""
    found = _TOLERANCE.fullmatch(value) if isinstance(value, str) else None
    if found is None or (found[2] and int(found[1]) > 100):
        return "a number of hosts ('3') or a percentage of them ('10%') is required"
    return None


def variables_problems(variables: object) -> list[str]:
    """Extra variables: a mapping from variable names to anything that JSON and jsonb can hold."""
    if not isinstance(variables, Mapping):
        return ["a mapping is required"]
    problems = [p for p in map(variable_name_problem, variables) if p is not None]
    return problems + values_problems(variables, sized=not problems)


def values_problems(variables: Mapping[Any, Any], *, sized: bool = True) -> list[str]:
    """What is wrong with the values of variables.

    Args:
        sized: whether their size is looked at too, if nothing else is wrong.
    """
    problems = []
    try:
        problems += [f"{shown(name)}: {p}" for name, p in _value_problems(variables)]
        if not problems and sized and len(json.dumps(dict(variables))) > MOST_VARIABLE_BYTES:
            problems.append(f"at most {MOST_VARIABLE_BYTES} bytes of JSON")
    except ValueError as error:  # a whole number of more digits than Python writes
        problems.append(str(error))
    return problems


def variable_name_problem(name: object) -> str | None:
    """A name that Ansible accepts for a variable and does not set itself."""
    if not isinstance(name, str):
        return f"{shown(name)}: the name of a variable must be a text"
    if not _VARIABLE.fullmatch(name) or keyword.iskeyword(name):
        return f"{shown(name)}: not a valid variable name"
    if name in MAGIC_VARIABLES:
        return f"{name}: Ansible sets this variable itself"
    return None


def _value_problems(variables: Mapping[Any, Any]) -> Iterator[tuple[object, str]]:
    for name, value in variables.items():
        problem = _value_problem(value)
        if problem is not None:
            yield name, problem


def _value_problem(value: object) -> str | None:
    """Whether a value can be stored; walks it without recursion, as deep as it may be."""
    left: list[tuple[object, int]] = [(value, 1)]
    while left:
        item, depth = left.pop()
        if depth > DEEPEST_VARIABLE:
            return f"nested more than {DEEPEST_VARIABLE} levels deep"
        if isinstance(item, str):
            if has_unstorable(item):
                return "a NUL character or half a surrogate pair cannot be stored"
        elif isinstance(item, dict):
            if not all(isinstance(key, str) for key in item):
                return "the keys of a mapping must be texts"
            left += [(part, depth + 1) for pair in item.items() for part in pair]
        elif isinstance(item, list | tuple):
            left += [(part, depth + 1) for part in item]
        elif isinstance(item, float):
            if not math.isfinite(item):
                return "NaN and Infinity cannot be stored"
        elif item is not None and not isinstance(item, int):
            return f"a {type(item).__name__} is not a JSON value"
    return None
