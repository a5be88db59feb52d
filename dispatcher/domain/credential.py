"""Credentials: which kinds there are, what each consists of, and which parts of it are secret.

Names of inputs are those of the controller's dialect. Answers, and the database's readable half,
have :data:`HIDDEN` in place of a secret; a caller who sends that keeps what is stored.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from dispatcher.domain.launch_checks import line_problem
from dispatcher.domain.text import has_unstorable, shown

KINDS: Final = ("ssh", "vault", "scm", "environment")
#: Stands in place of a secret, in answers as in output.
HIDDEN: Final = "$encrypted$"
#: Inputs by kind.
INPUTS: Final[Mapping[str, tuple[str, ...]]] = {
    "ssh": (
        "username",
        "password",
        "ssh_key_data",
        "ssh_key_unlock",
        "become_method",
        "become_username",
        "become_password",
    ),
    "vault": ("vault_id", "vault_password"),
    "scm": ("username", "password", "ssh_key_data", "ssh_key_unlock"),
    "environment": ("variables", "files"),
}
SECRET: Final = frozenset(
    {"password", "ssh_key_data", "ssh_key_unlock", "become_password", "vault_password"}
)
_LONGEST_LINE, _LONGEST_TEXT, _MOST_NAMES = 4096, 200_000, 100
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,200}")
#: Variables that would change what is executed, or how its output is read.
_RESERVED = re.compile(
    r"ANSIBLE_.*|LD_.*|PYTHON.*|GIT_.*|BASH_ENV|ENV|IFS|PATH|HOME|USER|LOGNAME|SHELL|TMPDIR|TERM|LANG"
    r"|LC_.*|MAX_EVENT_RES|RUNNER_.*|AWX_.*|SSH_AUTH_SOCK|SSH_ASKPASS.*|VIRTUAL_ENV"
)
_KEY = re.compile(r"\s*-----BEGIN ([A-Z0-9 ]*)PRIVATE KEY-----\n.*-----END .*-----\s*", re.DOTALL)


def input_problems(kind: str, inputs: object) -> list[str]:
    """What is wrong with the inputs of a credential; nothing when they are right."""
    if not isinstance(inputs, Mapping):
        return ["a mapping is required"]
    known = INPUTS[kind]
    wrong = [f"{shown(n)}: not an input of kind {kind}" for n in inputs if n not in known]
    for name in (n for n in known if n in inputs):
        found = _problem(kind, name, inputs[name])
        if found:
            wrong.append(f"{name}: {found}")
    return wrong or _whole_problems(kind, inputs)


def _problem(kind: str, name: str, value: object) -> str | None:
    if kind == "environment":
        return _names_problem(value)
    if name == "ssh_key_data":
        return _key_problem(value)
    problem = line_problem(value, _LONGEST_LINE)
    if problem is not None:
        return problem
    text = str(value)
    if name in ("become_method", "vault_id") and text and not _WORD.fullmatch(text):
        return "letters, digits, '_', '-' and '.' only"
    if name == "vault_password" and text != text.strip():
        return "must not begin or end with a blank"
    return None


def _names_problem(value: object) -> str | None:
    if not isinstance(value, Mapping):
        return "a mapping of names to texts is required"
    if len(value) > _MOST_NAMES:
        return f"at most {_MOST_NAMES} names"
    for name, text in value.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            return f"{shown(name)}: not the name of an environment variable"
        if _RESERVED.fullmatch(name):
            return f"{name}: cannot be set by a credential"
        if not isinstance(text, str) or len(text) > _LONGEST_TEXT or has_unstorable(text):
            return f"{name}: a text of at most {_LONGEST_TEXT} characters is required"
    return None


def _key_problem(value: object) -> str | None:
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT or has_unstorable(value):
        return "a private key is required"
    return None if not value or _KEY.fullmatch(value.replace("\r\n", "\n")) else "not a private key"


def _whole_problems(kind: str, inputs: Mapping[str, Any]) -> list[str]:
    given = {name for name, value in inputs.items() if value}
    if kind == "vault" and "vault_password" not in given:
        return ["vault_password: is required"]
    if kind == "environment":
        both = sorted(set(inputs.get("variables", ())) & set(inputs.get("files", ())))
        return [f"{name}: both a variable and a file" for name in both]
    key = str(inputs.get("ssh_key_data") or "")
    if "ssh_key_unlock" in given and not key:
        return ["ssh_key_unlock: there is no key"]
    if key and "ssh_key_unlock" not in given and has_passphrase(key):
        return ["ssh_key_unlock: is required: the key has a passphrase"]
    return []


def has_passphrase(key: str) -> bool:
    """Whether a private key is encrypted (PEM, PKCS 8, OpenSSH)."""
    head, *lines = key.strip().splitlines()
    if "OPENSSH" not in head:
        return "ENCRYPTED" in key
    try:
        start = b64decode("".join(lines[:2]))
    except ValueError:
        return False
    # PROTOCOL.key of OpenSSH: magic, then the name of the cipher
    magic, length = b"openssh-key-v1\0", 4
    name = start[len(magic) + length :]
    return start.startswith(magic) and not name.startswith(b"none")


def split(kind: str, inputs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs as they may be shown, and the secrets among them. Empty ones are left out."""
    readable: dict[str, Any] = {}
    secrets: dict[str, Any] = {}
    for name, value in inputs.items():
        if not value:
            continue
        if kind == "environment":
            readable[name] = dict.fromkeys(value, HIDDEN)
            secrets[name] = dict(value)
        elif name in SECRET:
            readable[name] = HIDDEN
            secrets[name] = value
        else:
            readable[name] = value
    return readable, secrets


def joined(readable: Mapping[str, Any], secrets: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs that :func:`split` took apart."""
    return {**readable, **secrets}


def keeps_stored(inputs: object) -> bool:
    """Whether some input says that what is stored stays."""
    return isinstance(inputs, Mapping) and any(
        value == HIDDEN or (isinstance(value, Mapping) and HIDDEN in value.values())
        for value in inputs.values()
    )


def laid_over(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """New inputs; :data:`HIDDEN` ones are those that are stored, or stay to be refused."""
    kept: dict[str, Any] = {}
    for name, value in given.items():
        before = stored.get(name)
        if isinstance(value, Mapping):
            inner = before if isinstance(before, Mapping) else {}
            kept[name] = {n: inner.get(n, v) if v == HIDDEN else v for n, v in value.items()}
        else:
            kept[name] = value if value != HIDDEN or before is None else before
    return kept


def secret_texts(kind: str, inputs: Mapping[str, Any]) -> Iterator[str]:
    """The values that must not show up in output."""
    _, secrets = split(kind, inputs)
    for value in secrets.values():
        if isinstance(value, Mapping):
            yield from value.values()
        else:
            yield value


def together_problem(
    chosen: Collection[tuple[str, str, Mapping[str, Any]]], *, usable: Collection[str]
) -> str | None:
    """Why credentials cannot be used by one job.

    Args:
        chosen: kind, name and inputs (readable ones do) of each.
        usable: kinds that the job takes.
    """
    taken: dict[str, str] = {}
    for kind, name, inputs in chosen:
        if kind not in usable:
            return f"{shown(name)} is of kind {kind}: one of {', '.join(usable)} is required"
        for place in _places(kind, inputs):
            if place in taken:
                return f"{shown(taken[place])} and {shown(name)} both give the {place}"
            taken[place] = name
    return None


def _places(kind: str, inputs: Mapping[str, Any]) -> list[str]:
    """What only one credential of a job can give."""
    if kind == "vault":
        return [f"vault password of id {inputs.get('vault_id') or 'default'!r}"]
    if kind == "environment":
        names = (*inputs.get("variables", ()), *inputs.get("files", ()))
        return [f"environment variable {name}" for name in names]
    return [f"{kind} login"]


#: Kinds that a playbook takes.
OF_PLAYBOOKS: Final = ("ssh", "vault", "environment")
#: Kinds that a project takes: what git logs in with.
OF_PROJECTS: Final = ("scm",)
#: Kinds that an inventory source takes. No vault: what it opens would be stored in clear.
OF_SOURCES: Final = ("environment",)
