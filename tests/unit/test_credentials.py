"""Credentials: which inputs are right, what of them is secret, and the files that they become."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dispatcher.domain import credential as rules
from dispatcher.domain.credential import OF_PLAYBOOKS
from dispatcher.secrets import Cipher, make_key_file
from workers import credentials
from workers.playbook_command import prepare
from workers.run_dir import JobSpec, RunDir

ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


def new_key(directory: Path, passphrase: str = "") -> str:
    path = directory / f"new{len(list(directory.iterdir()))}"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", path], check=True, timeout=30
    )
    return path.read_text()


def ssh(**inputs: Any) -> dict[str, Any]:
    return {"kind": "ssh", "name": "web", "inputs": inputs}


@pytest.mark.parametrize(
    ("kind", "inputs", "named"),
    [
        ("ssh", [], "a mapping"),
        ("ssh", {"vault_id": "x"}, "vault_id"),
        ("ssh", {"password": 5}, "password"),
        ("ssh", {"password": "a\nb"}, "password"),
        ("ssh", {"ssh_key_data": "no key"}, "ssh_key_data"),
        ("ssh", {"ssh_key_unlock": "x"}, "there is no key"),
        ("ssh", {"become_method": "a b"}, "become_method"),
        ("vault", {}, "vault_password"),
        ("vault", {"vault_password": " x"}, "vault_password"),
        ("vault", {"vault_password": "x", "vault_id": "a@b"}, "vault_id"),
        ("environment", {"variables": {"A B": ""}}, "A B"),
        ("environment", {"variables": {"LD_PRELOAD": "x"}}, "LD_PRELOAD"),
        ("environment", {"variables": {"ANSIBLE_STDOUT_CALLBACK": "x"}}, "ANSIBLE_STDOUT_CALLBACK"),
        ("environment", {"files": {"A": 1}}, "A"),
        ("environment", {"files": {"A": ""}, "variables": {"A": ""}}, "A"),
        ("scm", {"become_method": "sudo"}, "become_method"),
    ],
)
def test_wrong_inputs_are_named(kind: str, inputs: Any, named: str) -> None:
    (problem,) = rules.input_problems(kind, inputs)
    assert named in problem


def test_a_key_with_a_passphrase_needs_it(tmp_path: Path) -> None:
    bare, locked = new_key(tmp_path), new_key(tmp_path, "open sesame")
    assert rules.input_problems("ssh", {"ssh_key_data": bare}) == []
    assert rules.input_problems("ssh", {"ssh_key_data": locked.replace("\n", "\r\n")}) == [
        "ssh_key_unlock: is required: the key has a passphrase"
    ]
    assert rules.input_problems("scm", {"ssh_key_data": locked, "ssh_key_unlock": "x"}) == []
    pem = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----"
    assert rules.has_passphrase(pem)


def test_what_is_shown_holds_no_secret_and_both_halves_are_the_whole() -> None:
    given = {
        "ssh": {"username": "deploy", "password": "p1", "become_password": "p2"},
        "vault": {"vault_id": "prod", "vault_password": "p3"},
        "environment": {"variables": {"A": "p4"}, "files": {"B": "p5"}},
    }
    for kind, inputs in given.items():
        readable, secrets = rules.split(kind, inputs)
        assert not any(f"p{n}" in str(readable) for n in range(1, 6)), readable
        assert rules.joined(readable, secrets) == inputs
        assert set(rules.secret_texts(kind, inputs)) == {
            f"p{n}" for n in range(1, 6) if f"p{n}" in str(inputs)
        }
    assert rules.split("ssh", given["ssh"])[0]["username"] == "deploy"


def test_a_hidden_secret_is_the_stored_one() -> None:
    stored = {"password": "old", "become_password": "keep"}
    given = {"password": "new", "become_password": rules.HIDDEN, "username": "x"}
    assert rules.laid_over(stored, given) == {
        "password": "new",
        "become_password": "keep",
        "username": "x",
    }
    assert rules.keeps_stored(rules.laid_over({}, {"password": rules.HIDDEN}))
    nested = {"variables": {"A": rules.HIDDEN, "B": "b"}}
    assert rules.laid_over({"variables": {"A": "a"}}, nested) == {"variables": {"A": "a", "B": "b"}}


def test_credentials_that_exclude_each_other_are_named() -> None:
    def problem(*chosen: tuple[str, dict[str, Any]]) -> str:
        named = [(kind, f"c{n}", inputs) for n, (kind, inputs) in enumerate(chosen)]
        return rules.together_problem(named, usable=rules.OF_PLAYBOOKS) or ""

    assert "ssh login" in problem(("ssh", {}), ("ssh", {}))
    assert "'default'" in problem(("vault", {}), ("vault", {"vault_id": "default"}))
    assert problem(("vault", {"vault_id": "a"}), ("vault", {"vault_id": "b"}), ("ssh", {})) == ""
    assert "X" in problem(
        ("environment", {"variables": {"X": ""}}), ("environment", {"files": {"X": ""}})
    )
    assert "kind scm" in problem(("scm", {}))


def test_secrets_are_files_of_the_run_and_never_arguments(tmp_path: Path) -> None:
    run_dir = RunDir.create(tmp_path, "d1")
    run_dir.project.mkdir()
    (run_dir.project / "site.yml").write_text("[]")
    secrets = [f"secret-{word}" for word in ("login", "become", "one", "two", "env", "file")]
    chosen = (
        ssh(
            username="--deploy",
            password=secrets[0],
            ssh_key_data=new_key(tmp_path),
            become_method="su",
            become_username="root",
            become_password=secrets[1],
        ),
        {"kind": "vault", "name": "v", "inputs": {"vault_password": secrets[2]}},
        {"kind": "vault", "name": "w", "inputs": {"vault_id": "w", "vault_password": secrets[3]}},
        {
            "kind": "environment",
            "name": "e",
            "inputs": {"variables": {"TOKEN": secrets[4]}, "files": {"CONFIG": secrets[5]}},
        },
    )
    spec = JobSpec(1, "d1", "n1", "/l", "site.yml", inventory="a\n", credentials=chosen)
    run_dir.write_job(spec)
    assert run_dir.read_job() == spec
    command = prepare(run_dir, spec, {"SSH_AUTH_SOCK": "/of/the/node", "PATH": "/usr/bin"})
    place = run_dir.private / "credentials"
    assert command.options[1:] == (
        "--user=--deploy",
        "--become-method=su",
        "--become-user=root",
        f"--connection-password-file={place}/password",
        f"--become-password-file={place}/become_password",
        f"--private-key={place}/key",
        f"--vault-id=default@{place}/vault2",
        f"--vault-id=w@{place}/vault3",
    )
    assert command.environment["TOKEN"] == secrets[4]
    assert command.environment["CONFIG"] == f"{place}/file4_CONFIG"
    assert "SSH_AUTH_SOCK" not in command.environment
    written = {path.read_text() for path in place.iterdir()}
    assert {secrets[0], secrets[1], secrets[2], secrets[3], secrets[5]} <= written
    assert {stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()} == {0o600}
    run_dir.wipe_secrets()
    left = [path.read_text() for path in run_dir.path.rglob("*") if path.is_file()]
    assert not any(secret in text for text in left for secret in secrets)
    assert run_dir.read_job().credentials == ()


def test_a_passphrase_is_taken_off_without_being_asked_for(tmp_path: Path) -> None:
    locked = new_key(tmp_path, "open sesame")
    chosen = [ssh(ssh_key_data=locked, ssh_key_unlock="open sesame")]
    private = tmp_path / "a directory with 'quotes'"
    private.mkdir()
    out = credentials.for_ansible(private, chosen, ENVIRONMENT, usable=OF_PLAYBOOKS)
    assert out.own_key
    (key,) = (private / "credentials").iterdir()
    assert not rules.has_passphrase(key.read_text())
    wrong = [ssh(ssh_key_data=locked, ssh_key_unlock="open says me")]
    with pytest.raises(credentials.CredentialUnusable, match=r"web.*passphrase"):
        credentials.for_ansible(private, wrong, ENVIRONMENT, usable=OF_PLAYBOOKS)
    assert [path.name for path in (private / "credentials").iterdir()] == ["key"]


def test_what_was_refused_when_it_was_saved_is_refused_again(tmp_path: Path) -> None:
    inputs = {"variables": {"LD_PRELOAD": "/x.so"}}
    chosen = [{"kind": "environment", "name": "bad", "inputs": inputs}]
    with pytest.raises(credentials.CredentialUnusable, match=r"bad.*LD_PRELOAD"):
        credentials.for_ansible(tmp_path, chosen, {}, usable=OF_PLAYBOOKS)
    assert list(tmp_path.iterdir()) == []


def test_git_gets_name_and_password_for_the_host_of_its_url_only(tmp_path: Path) -> None:
    private = tmp_path / "it's"
    private.mkdir()
    scm = {"kind": "scm", "name": "g", "inputs": {"username": "m@e", "password": "p:w/d"}}
    _, config = credentials.for_git(private, [scm], "https://git.example:8443/x.git", ENVIRONMENT)
    (private / "gitconfig").write_text(config)

    def fill(url: str) -> str:
        done = subprocess.run(
            ["git", "credential", "fill"],
            input=f"url={url}\n\n",
            env=ENVIRONMENT
            | {
                "GIT_CONFIG_GLOBAL": str(private / "gitconfig"),
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_TERMINAL_PROMPT": "0",
                "GIT_ASKPASS": "/bin/false",
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=30,
        )
        return done.stdout

    found = fill("https://git.example:8443/other.git")
    assert "username=m@e\n" in found
    assert "password=p:w/d\n" in found
    for other in ("https://evil.example/x.git", "https://git.example/x.git"):
        assert "password" not in fill(other)


def test_a_credential_that_is_gone_or_locked_is_named(tmp_path: Path) -> None:
    make_key_file(tmp_path / "one.key")
    make_key_file(tmp_path / "two.key")
    cipher = Cipher(tmp_path / "two.key")
    token = Cipher(tmp_path / "one.key").encrypt({"password": "x"})
    for kind, words in ((None, "was deleted"), ("ssh", "key file")):
        stored = credentials.JobCredential(7, "web servers", kind, {}, token)
        with pytest.raises(credentials.SecretsUnreadable, match=f"web servers.*{words}"):
            credentials.decrypted(stored, cipher)
