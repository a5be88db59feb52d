"""Secrets at rest: what may only be read by a machine that holds the cluster's key file.

The key file has one Fernet key a line. The first one encrypts, all of them decrypt, so that a key
is rotated by putting a new line on top and removing the old one when nothing needs it any more.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import tempfile
from base64 import urlsafe_b64decode
from collections.abc import Mapping
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


class Cipher:
    """Encrypts mappings of secret values with the keys of one file.

    Args:
        key_file: read once, here.

    Raises:
        ConfigurationError: the file is missing, unreadable or holds no valid key.
    """

    def __init__(self, key_file: Path) -> None:
        try:
            keys = key_file.read_text(encoding="ascii").split()
        except FileNotFoundError:
            raise ConfigurationError(
                f"{key_file}: no key file (copy the one that the other machines use)"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{key_file}: the key file cannot be read: {error}") from None
        try:
            self._fernet = MultiFernet([Fernet(key) for key in keys])
            self._raw_keys = [urlsafe_b64decode(key) for key in keys]
        except ValueError:
            raise ConfigurationError(f"{key_file}: not a key file of the dispatcher") from None

    def encrypt(self, values: Mapping[str, Any]) -> bytes:
        """The values as an opaque token."""
        return self._fernet.encrypt(json.dumps(dict(values)).encode())

    def decrypt(self, token: bytes) -> dict[str, Any]:
        """What :meth:`encrypt` was given.

        Raises:
            SecretsUnreadable: made with a key that is not in the key file, or damaged.
        """
        try:
            plain = self._fernet.decrypt(bytes(token))
        except InvalidToken:
            raise SecretsUnreadable(
                "the secrets were encrypted with a key that is not in this machine's key file"
            ) from None
        values: dict[str, Any] = json.loads(plain)
        return values

    def fingerprints(self, message: bytes) -> list[bytes]:
        """Keyed digests (HMAC-SHA256) of a message, one for each key, that of the first key first.

        A plain digest of something that holds a short secret would let a reader of the database
        guess it.
        """
        return [hmac.digest(key, message, hashlib.sha256) for key in self._raw_keys]
