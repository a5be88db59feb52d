"""One fork server for all tests of running playbooks."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runs import Runs


@pytest.fixture(scope="session")
def runs() -> Iterator[Runs]:
    """Under ``LANG=C``, as a service is often started."""
    data_dir = Path(tempfile.mkdtemp(prefix="dsp-", dir="/tmp"))
    before = os.environ.get("LANG")
    os.environ["LANG"] = "C"
    try:
        made = Runs(data_dir)
    finally:
        os.environ.pop("LANG")
        if before is not None:
            os.environ["LANG"] = before
    yield made
    made.server.close()
    shutil.rmtree(data_dir)
