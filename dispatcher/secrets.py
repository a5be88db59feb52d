"""Secrets at rest: what may only be read by a machine that holds the cluster's key file.

The key file has one Fernet key a line. The first one encrypts, all of them decrypt, so that a key
is rotated by putting a new line on top and removing the old one when nothing needs it any more. A
process that is at work takes a changed file up by itself.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import tempfile
from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from dispatcher.errors import ConfigurationError, SecretsUnreadable


def make_key_file(path: Path) -> None:
    """Make a key file with one new key, mode 0600. One that is there already stays as it is.

    Raises:
        ConfigurationError: the file cannot be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # 0600
        try:
            with open(descriptor, "wb") as file:
                file.write(Fernet.generate_key() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            # a link, not a rename: of two that make the file at once, the first one's key stays
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            os.unlink(draft)
    except OSError as error:
        raise ConfigurationError(f"{path}: the key file cannot be made: {error.strerror}") from None


def read_keys(key_file: Path) -> list[str]:
    """The keys of a file, the one that encrypts first.

    Raises:
        ConfigurationError: the file is missing, unreadable or holds something else.
    """
    try:
        keys = key_file.read_text(encoding="ascii").split()
    except FileNotFoundError:
        raise ConfigurationError(
            f"{key_file}: no key file (copy the one that the other machines use)"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{key_file}: the key file cannot be read: {error}") from None
    try:
        MultiFernet([Fernet(key) for key in keys])
    except ValueError:
        raise ConfigurationError(f"{key_file}: not a key file of the dispatcher") from None
    return keys


def replace_keys(key_file: Path, keys: Sequence[str]) -> None:
    """Write a key file anew, in one step: whoever reads it sees the old one or the new one.

    Raises:
        ConfigurationError: the directory cannot be written to.
    """
    try:
        before = key_file.stat()
        descriptor, draft = tempfile.mkstemp(dir=key_file.parent, prefix=f".{key_file.name}.")
        try:
            with open(descriptor, "w", encoding="ascii") as file:
                file.write("".join(f"{key}\n" for key in keys))
                file.flush()
                os.fsync(file.fileno())
            os.chmod(draft, before.st_mode & 0o777)
            if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                os.chown(draft, before.st_uid, before.st_gid)
            os.rename(draft, key_file)
        except BaseException:
            os.unlink(draft)
            raise
        directory = os.open(key_file.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # a key that has encrypted something must not be lost with the machine's power
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise ConfigurationError(
            f"{key_file}: the key file cannot be written: {error.strerror}"
        ) from None


def new_key() -> str:
    """A key, as a line of the file."""
    return Fernet.generate_key().decode()


@dataclass(frozen=True)
class _Keys:
    """The keys of a file, and by what it is known whether it has changed."""

    first: Fernet
    all: MultiFernet
    raw: list[bytes]
    seen: tuple[int, int, int] | None

    @classmethod
    def of(cls, key_file: Path) -> _Keys:
        seen = _signature(key_file)  # before the file is read: a later change is seen again
        keys = read_keys(key_file)
        fernets = [Fernet(key) for key in keys]
        return cls(fernets[0], MultiFernet(fernets), [urlsafe_b64decode(k) for k in keys], seen)


def _signature(key_file: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(key_file)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


class Cipher:
    """Encrypts mappings of secret values with the keys of one file.

    Args:
        key_file: read here, and again when it has changed. While it is gone or half written the
            keys that are known stay.

    Raises:
        ConfigurationError: the file is missing, unreadable or holds no valid key.
    """

    def __init__(self, key_file: Path) -> None:
        self._file = key_file
        self._known = _Keys.of(key_file)

    def _keys(self) -> _Keys:
        known = self._known
        seen = _signature(self._file)
        if seen is not None and seen != known.seen:
            try:
                known = self._known = _Keys.of(self._file)
            except ConfigurationError:
                pass  # being copied
        return known

    def encrypt(self, values: Mapping[str, Any]) -> bytes:
        """The values as an opaque token."""
        return self._keys().first.encrypt(json.dumps(dict(values)).encode())

    def decrypt(self, token: bytes) -> dict[str, Any]:
        """What :meth:`encrypt` was given.

        Raises:
            SecretsUnreadable: made with a key that is not in the key file, or damaged.
        """
        try:
            plain = self._keys().all.decrypt(bytes(token))
        except InvalidToken:
            raise SecretsUnreadable(
                "the secrets were encrypted with a key that is not in this machine's key file"
            ) from None
        values: dict[str, Any] = json.loads(plain)
        return values

    def renewed(self, token: bytes) -> bytes | None:
        """What a token holds, encrypted with the first key; None when it is so already.

        Raises:
            SecretsUnreadable: no key of the file fits.
        """
        keys = self._keys()
        try:
            keys.first.decrypt(bytes(token))
        except InvalidToken:
            pass
        else:
            return None
        try:
            return keys.first.encrypt(keys.all.decrypt(bytes(token)))
        except InvalidToken:
            raise SecretsUnreadable("no key of the key file fits") from None

    def fingerprints(self, message: bytes) -> list[bytes]:
        """Keyed digests (HMAC-SHA256) of a message, one for each key, that of the first key first.

        A plain digest of something that holds a short secret would let a reader of the database
        guess it.
        """
        return [hmac.digest(key, message, hashlib.sha256) for key in self._keys().raw]
