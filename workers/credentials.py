"""What a run logs in with: decrypted when it is claimed, laid out as files when it starts.

Every file is below the run's ``private`` directory, mode 0600, and is removed with it before the
job is final. No secret is an argument of a process.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from dispatcher.db.credential_rows import JobCredential
from dispatcher.domain import credential as rules
from dispatcher.domain.text import shown
from dispatcher.errors import DispatcherError, SecretsUnreadable
from dispatcher.secrets import Cipher

#: Seconds for ssh-keygen; the work that a passphrase takes is set when the key is made.
_KEY_TIMEOUT: Final = 60


class CredentialUnusable(DispatcherError):
    """A credential that cannot be used. Names it."""


@dataclass
class LaidOut:
    """What is given to the program of a run.

    Attributes:
        options: of the program; they name files.
        environment: put over the run's own.
        own_key: whether it logs in with a key of its own, and none of the node's is to be tried.
    """

    options: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    own_key: bool = False


def decrypted(credential: JobCredential, cipher: Cipher) -> dict[str, Any]:
    """A credential as a run's ``job.json`` holds it.

    Raises:
        SecretsUnreadable: it is gone, or this machine has not the key.
    """
    name = shown(credential.name)
    if credential.kind is None:
        raise SecretsUnreadable(f"credential {name} was deleted after the job was launched")
    try:
        secrets = {} if credential.secrets is None else cipher.decrypt(credential.secrets)
    except SecretsUnreadable as error:
        raise SecretsUnreadable(f"credential {name}: {error}") from None
    inputs = rules.joined(credential.inputs, secrets)
    return {"kind": credential.kind, "name": credential.name, "inputs": inputs}


def secrets_in(credentials: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The values that are masked wherever they turn up in output."""
    return tuple(t for c in credentials for t in rules.secret_texts(c["kind"], c["inputs"]))


def for_ansible(
    private: Path,
    credentials: Iterable[Mapping[str, Any]],
    environment: Mapping[str, str],
    *,
    usable: Collection[str],
) -> LaidOut:
    """Files, options and variables for one of Ansible's programs.

    Args:
        private: the run's private directory.
        environment: that of the run, for ssh-keygen.
        usable: kinds of credentials that the program takes.

    Raises:
        CredentialUnusable: two that exclude each other, or a passphrase that is wrong.
        OSError: a file cannot be written.
    """
    chosen = list(credentials)
    # what the API refused is refused here again
    problem = rules.together_problem(
        [(c["kind"], c["name"], c["inputs"]) for c in chosen], usable=usable
    )
    for credential in chosen:
        for wrong in rules.input_problems(credential["kind"], credential["inputs"]):
            problem = problem or f"credential {shown(credential['name'])}: {wrong}"
    if problem:
        raise CredentialUnusable(problem)
    out = LaidOut()
    if not chosen:
        return out
    directory = _directory(private)
    for number, credential in enumerate(chosen, 1):
        inputs = credential["inputs"]
        match credential["kind"]:
            case "ssh":
                _log_in(out, directory, credential, environment)
            case "vault":
                path = write_private(directory / f"vault{number}", inputs["vault_password"])
                out.options.append(f"--vault-id={inputs.get('vault_id') or 'default'}@{path}")
            case "environment":
                out.environment |= inputs.get("variables", {})
                for name, text in inputs.get("files", {}).items():
                    path = write_private(directory / f"file{number}_{name}", text)
                    out.environment[name] = str(path)
    return out


def _directory(private: Path) -> Path:
    directory = private / "credentials"
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory


def _log_in(
    out: LaidOut, directory: Path, credential: Mapping[str, Any], environment: Mapping[str, str]
) -> None:
    inputs = credential["inputs"]
    for name, option in (
        ("username", "user"),
        ("become_method", "become-method"),
        ("become_username", "become-user"),
    ):
        if inputs.get(name):
            out.options.append(f"--{option}={inputs[name]}")
    for name, option in (
        ("password", "connection-password-file"),
        ("become_password", "become-password-file"),
    ):
        if inputs.get(name):
            path = write_private(directory / name, inputs[name])
            out.options.append(f"--{option}={path}")
    if inputs.get("ssh_key_data"):
        out.options.append(f"--private-key={_key_file(directory, credential, environment)}")
        out.own_key = True


def for_git(
    private: Path,
    credentials: Iterable[Mapping[str, Any]],
    url: str,
    environment: Mapping[str, str],
) -> tuple[str, str]:
    """Files for git: the path of a key (empty: none), and lines of configuration.

    Name and password are given to the host of the project's URL only, whatever other hosts its
    submodules and requirements name: an askpass program would be asked for all of them.

    Raises:
        CredentialUnusable: a passphrase that is wrong.
        OSError: a file cannot be written.
    """
    key_file, config = "", ""
    for credential in credentials:
        if credential["kind"] != "scm":
            continue
        inputs, directory = credential["inputs"], _directory(private)
        if inputs.get("ssh_key_data"):
            key_file = str(_key_file(directory, credential, environment))
        parts = urlsplit(url)
        if inputs.get("password") and parts.scheme in ("http", "https"):
            place = parts.netloc.rpartition("@")[2]
            user = quote(inputs.get("username") or parts.username or "git", safe="")
            password = quote(inputs["password"], safe="")
            line = f"{parts.scheme}://{user}:{password}@{place}\n"
            path = write_private(directory / "git", line)
            quoted = str(path).replace("\\", "\\\\").replace('"', '\\"').replace("'", "'\\\\''")
            config += f'[credential "{parts.scheme}://{place}"]\n'
            config += f"\thelper = \"store --file='{quoted}'\"\n"
            if not parts.username:
                config += f'\tusername = "{_git_value(inputs.get("username") or "git")}"\n'
    return key_file, config


def _git_value(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _key_file(
    directory: Path, credential: Mapping[str, Any], environment: Mapping[str, str]
) -> Path:
    """The private key as a file that nothing asks a passphrase for."""
    inputs = credential["inputs"]
    text = inputs["ssh_key_data"].replace("\r\n", "\n").strip() + "\n"
    path = write_private(directory / "key", text)
    if inputs.get("ssh_key_unlock"):
        _unlock(path, inputs["ssh_key_unlock"], credential["name"], environment)
    return path


def _unlock(path: Path, passphrase: str, name: str, environment: Mapping[str, str]) -> None:
    """Take the passphrase off a key, in place. ssh-keygen asks a program of ours for it."""
    answer = write_private(path.with_name("passphrase"), passphrase)
    program = write_private(path.with_name("askpass"), '#!/bin/sh\nexec cat "${0%/*}/passphrase"\n')
    os.chmod(program, 0o700)
    try:
        done = subprocess.run(
            ["ssh-keygen", "-q", "-p", "-N", "", "-f", str(path)],
            env={
                **environment,
                "SSH_ASKPASS": str(program),
                "SSH_ASKPASS_REQUIRE": "force",
                "DISPLAY": ":0",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_KEY_TIMEOUT,
            start_new_session=True,
        )
    except (subprocess.TimeoutExpired, FileNotFoundError):
        raise CredentialUnusable(
            f"credential {shown(name)}: ssh-keygen cannot take the passphrase off its key"
        ) from None
    finally:
        answer.unlink(missing_ok=True)
        program.unlink(missing_ok=True)
    if done.returncode:
        raise CredentialUnusable(
            f"credential {shown(name)}: its key cannot be read with its passphrase"
        )


def write_private(path: Path, text: str) -> Path:
    """A new file for this account only; its path."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "w", encoding="utf-8", errors="surrogatepass") as file:
        file.write(text)
    return path
