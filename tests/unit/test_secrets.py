"""The key file and the cipher."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from dispatcher.errors import ConfigurationError, SecretsUnreadable
from dispatcher.secrets import Cipher, make_key_file, new_key, read_keys, replace_keys


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "keys" / "cluster.key"
    make_key_file(path)
    return path


def test_what_was_encrypted_is_read_again(key_file: Path) -> None:
    values = {"password": "h\u00e4nsel & gretel\U0001f600", "nested": {"list": [1, None, True]}}
    token = Cipher(key_file).encrypt(values)
    assert b"gretel" not in token
    assert Cipher(key_file).decrypt(token) == values
    assert Cipher(key_file).decrypt(memoryview(token)) == values  # type: ignore[arg-type]


def test_the_key_file_is_private_and_never_overwritten(key_file: Path) -> None:
    assert key_file.stat().st_mode & 0o777 == 0o600
    before = key_file.read_bytes()
    make_key_file(key_file)
    assert key_file.read_bytes() == before
    assert [p.name for p in key_file.parent.iterdir()] == ["cluster.key"]


def test_many_that_make_the_file_at_once_end_with_one_key(tmp_path: Path) -> None:
    path = tmp_path / "cluster.key"
    seen = []

    def make() -> None:
        make_key_file(path)
        seen.append(path.read_bytes())

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8
    assert set(seen) == {path.read_bytes()}
    assert len(path.read_bytes().split()) == 1


def test_a_new_first_key_still_reads_what_the_old_one_wrote(key_file: Path) -> None:
    token = Cipher(key_file).encrypt({"a": 1})
    old_print = Cipher(key_file).fingerprints(b"request")[0]
    key_file.write_bytes(Fernet.generate_key() + b"\n" + key_file.read_bytes())
    rotated = Cipher(key_file)
    assert rotated.decrypt(token) == {"a": 1}
    assert rotated.fingerprints(b"request")[0] != old_print
    assert old_print in rotated.fingerprints(b"request")


def test_a_changed_file_is_taken_up_by_a_cipher_that_is_in_use(key_file: Path) -> None:
    cipher = Cipher(key_file)
    before = cipher.encrypt({"a": 1})
    keys = [new_key(), *read_keys(key_file)]
    replace_keys(key_file, keys)
    assert read_keys(key_file) == keys
    assert key_file.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in key_file.parent.iterdir()] == ["cluster.key"]
    after = cipher.encrypt({"a": 2})
    assert (cipher.decrypt(before), cipher.decrypt(after)) == ({"a": 1}, {"a": 2})
    renewed = cipher.renewed(before)
    assert renewed is not None
    assert cipher.renewed(after) is None
    replace_keys(key_file, keys[:1])
    assert cipher.decrypt(renewed) == {"a": 1}
    for read in (cipher.decrypt, cipher.renewed):
        with pytest.raises(SecretsUnreadable):
            read(before)


def test_a_file_that_is_gone_or_half_written_changes_nothing(key_file: Path) -> None:
    cipher = Cipher(key_file)
    token = cipher.encrypt({"a": 1})
    whole = key_file.read_text()
    key_file.write_text(whole[:10])
    assert cipher.decrypt(token) == {"a": 1}
    key_file.unlink()
    assert cipher.decrypt(cipher.encrypt({"a": 2})) == {"a": 2}


def test_another_key_cannot_read_and_says_so(key_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.key"
    make_key_file(other)
    with pytest.raises(SecretsUnreadable):
        Cipher(other).decrypt(Cipher(key_file).encrypt({"a": 1}))


@pytest.mark.parametrize("content", [b"", b"\n", b"not a key\n", b"\xff\xfe", b"c2hvcnQ=\n"])
def test_a_file_that_is_no_key_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cluster.key"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"cluster\.key"):
        Cipher(path)


def test_a_missing_key_file_and_an_impossible_place_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cluster\.key: no key file"):
        Cipher(tmp_path / "cluster.key")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be made"):
        make_key_file(tmp_path / "file" / "cluster.key")
