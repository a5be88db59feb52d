"""A caller's value never becomes an option, a file to read or a template."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.playbook_command import CannotStart, environment, playbook_path, prepare, yaml_text
from workers.run_dir import JobSpec, RunDir

SPEC = JobSpec(
    job_id=1, dispatch_id="d1", node="n1", lease_file="/l", playbook="site.yml", inventory="a\n"
)


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    made = RunDir.create(tmp_path, "d1")
    made.project.mkdir()
    (made.project / "site.yml").write_text("[]")
    return made


def test_every_option_is_one_word(run_dir: RunDir) -> None:
    spec = replace(
        SPEC,
        limit_pattern="a:!b c",
        tags=("--version", "x"),
        skip_tags=("y",),
        check_mode=True,
        diff_mode=True,
        forks=7,
        verbosity=3,
        extra_vars={"a": 1},
    )
    command = prepare(run_dir, spec, {})
    assert command.options == (
        f"--inventory={run_dir.inventory}/hosts",
        "--limit=a:!b c",
        "--tags=--version,x",
        "--skip-tags=y",
        f"--extra-vars=@{run_dir.private}/extra_vars.yml",
        "--check",
        "--diff",
        "--forks=7",
        "-vvv",
    )
    assert command.playbook == "site.yml"
    assert (run_dir.inventory / "hosts").read_text() == "a\n"


def test_a_playbook_that_looks_like_an_option_is_a_path(run_dir: RunDir) -> None:
    (run_dir.project / "-v.yml").write_text("[]")
    assert prepare(run_dir, replace(SPEC, playbook="-v.yml"), {}).playbook == "./-v.yml"


@pytest.mark.parametrize(
    ("changes", "stage", "words"),
    [
        ({"playbook": "nix.yml"}, "project", "is not in the project"),
        ({"playbook": "../job.json"}, "project", "leads out"),
        ({"playbook": "/etc/passwd"}, "project", "leads out"),
        ({"playbook": "away"}, "project", "leads out"),
        ({"playbook": ""}, "project", "leads out"),
        ({"playbook": "a\0b"}, "project", "leads out"),
        ({"inventory": None, "inventory_path": "hosts"}, "inventory", "is not in the project"),
        ({"inventory": None, "inventory_path": "../x"}, "inventory", "leads out"),
        ({"limit_pattern": "-l"}, "refused", "limit"),
        ({"limit_pattern": "@/etc/hostname"}, "refused", "limit"),
        ({"limit_pattern": "all,@/etc/hostname"}, "refused", "limit"),
        ({"limit_pattern": "all: @x"}, "refused", "limit"),
        ({"tags": ("a\0",)}, "refused", "NUL"),
        ({"host_key_policy": "no"}, "refused", "host_key_policy"),
    ],
)
def test_what_the_api_refuses_is_refused_here_again(
    run_dir: RunDir, changes: dict[str, Any], stage: str, words: str
) -> None:
    (run_dir.project / "away").symlink_to("/etc/passwd")
    with pytest.raises(CannotStart, match=words) as caught:
        prepare(run_dir, replace(SPEC, **changes), {})
    assert caught.value.stage == stage


def test_an_inventory_of_the_bundle_is_used_in_place(run_dir: RunDir) -> None:
    (run_dir.project / "inventories").mkdir()
    command = prepare(run_dir, replace(SPEC, inventory=None, inventory_path="inventories"), {})
    assert command.options == (f"--inventory={run_dir.project}/inventories",)


def test_the_environment_is_built_from_nothing(run_dir: RunDir) -> None:
    inherited = {
        "DISPATCHER_TOKEN": "t",
        "ANSIBLE_STDOUT_CALLBACK": "oneline",
        "PYTHONPATH": "/x",
        "LANG": "C",
        "HTTPS_PROXY": "http://proxy",
    }
    made = environment(run_dir, SPEC, inherited)
    assert made["HTTPS_PROXY"] == "http://proxy"
    assert made["LANG"] == "C.UTF-8"
    assert made["PATH"] == playbook_path()
    assert not {"DISPATCHER_TOKEN", "ANSIBLE_STDOUT_CALLBACK", "PYTHONPATH"} & set(made)
    inside = [made[name] for name in ("HOME", "ANSIBLE_HOME", "TMPDIR", "ANSIBLE_LOCAL_TEMP")]
    assert all(path.startswith(str(run_dir.private)) for path in inside)


@pytest.mark.parametrize(("policy", "option"), [("accept-new", "accept-new"), ("strict", "yes")])
def test_host_keys_are_never_asked_about(run_dir: RunDir, policy: str, option: str) -> None:
    made = environment(run_dir, replace(SPEC, host_key_policy=policy, known_hosts="/k h%"), {})
    for name in ("SSH", "SCP", "SFTP"):
        assert made[f"ANSIBLE_{name}_EXTRA_ARGS"] == (
            f"-o StrictHostKeyChecking={option} -o 'UserKnownHostsFile=\"/k h%%\" ~/.ssh/known_hosts'"
        )


@pytest.mark.parametrize("long", [0, 90])
def test_control_sockets_have_a_short_place(tmp_path: Path, long: int) -> None:
    data_dir = tmp_path / ("x" * long) if long else Path("/d")
    control = RunDir(data_dir / "runs" / "4190b26e-5db8-4b0a-853f-097fd307c880").control
    assert len(str(control)) + 28 <= 107


class _Loader(yaml.SafeLoader):
    """Knows Ansible's tag for text that is never templated."""


class _Unsafe(str):
    pass


_Loader.add_constructor("!unsafe", lambda loader, node: _Unsafe(loader.construct_scalar(node)))

_text = st.text(st.characters(exclude_categories=["Cs"]))
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _text,
    lambda inner: st.lists(inner) | st.dictionaries(_text, inner),
    max_leaves=8,
)


@settings(max_examples=40)
@given(_values)
def test_extra_variables_survive_their_file(value: Any) -> None:
    assert yaml.load(yaml_text(value, unsafe=True), _Loader) == value
    assert yaml.load(yaml_text(value, unsafe=False), yaml.SafeLoader) == value


@pytest.mark.parametrize("length", [990, 1000, 1022, 1024, 3000])
def test_a_key_of_any_length_survives(length: int) -> None:
    value = {"k" * length: {"é" * length: 1}, "short": 2}
    assert yaml.load(yaml_text(value, unsafe=True), _Loader) == value
    assert yaml.load(yaml_text(value, unsafe=False), yaml.CSafeLoader) == value


def test_every_text_is_marked_unsafe_unless_allowed() -> None:
    value = {"a": "{{ b }}", "c": [{"d": "{{ e }}"}]}
    loaded = yaml.load(yaml_text(value, unsafe=True), _Loader)
    assert isinstance(loaded["a"], _Unsafe)
    assert isinstance(loaded["c"][0]["d"], _Unsafe)
    assert "!unsafe" not in yaml_text(value, unsafe=False)


def test_numbers_that_yaml_knows_by_other_words_survive() -> None:
    loaded = yaml.load(yaml_text([1e22, math.inf, -math.inf, math.nan], unsafe=True), _Loader)
    assert loaded[:3] == [1e22, math.inf, -math.inf]
    assert math.isnan(loaded[3])
