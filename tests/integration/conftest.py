"""What many tests of managers and launches need beside servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dispatcher.secrets import Cipher, make_key_file
from dispatcher.settings import Settings
from schedulers.passes.manager_pass import Runner
from tests.passes import runner


@pytest.fixture
def running(settings: Settings) -> Iterator[Runner]:
    """The managers' passes, triggered by the test."""
    with runner(settings) as made:
        yield made


@pytest.fixture
def cipher(data_dir: Path) -> Cipher:
    """Secrets at rest, with a key of the test's own."""
    make_key_file(data_dir / "cluster.key")
    return Cipher(data_dir / "cluster.key")
