"""A cluster whose roles find a stand-in where they look for ansible-playbook.

For figures that need more runs, or more events, than Ansible gives in the time there is: a start of
it costs about a second of a core, an event a millisecond. What the stand-in is, and what stays
real: :mod:`benchmarks.stand_in_playbook`.
"""

from __future__ import annotations

import random
import sysconfig
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import text

from benchmarks import stand_in_playbook
from benchmarks.servers import short_directory
from dispatcher.client.client import Client
from dispatcher.client.pack import pack
from dispatcher.client.submission import submit
from dispatcher.domain.launch import RunRequest
from dispatcher.settings import Settings
from tests.faults.cluster import NODES, SHORT, Cluster
from tests.faults.load import Accepted, Work
from tests.waiting import wait_until

WORK = Work("stand-in", "", "successful", 1)


class StandIns:
    """Jobs of a cluster that the stand-in plays.

    Attributes:
        accepted: every job so far.
        witness: what they write past the dispatcher.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.accepted: list[Accepted] = []
        self.witness = cluster.directory / "witness"
        self.witness.touch()
        play = cluster.directory / "play"
        play.mkdir()
        (play / "site.yml").write_text("- hosts: all\n  tasks: []\n")
        self._bundle = pack(play)

    def launch(self, client: Client, **wanted: int | str) -> int:
        """Launch a job; its number.

        Args:
            wanted: extra variables of the stand-in.
        """
        word = f"stand-in-{len(self.accepted)}"
        request = RunRequest(
            playbook="site.yml",
            bundle_digest=self._bundle.digest,
            inventory="localhost\n",
            name=word,
            extra_vars={"word": word, "witness": str(self.witness), **wanted},
        )
        job, _ = submit(client, request, self._bundle, idempotency_key=word)
        self.accepted.append(Accepted(job.id, word, WORK))
        return job.id

    def count(self, condition: str) -> int:
        """How many jobs a condition of SQL holds for, read past the proxies."""
        with self.cluster.engine.connect() as connection:
            found = connection.execute(text(f"SELECT count(*) FROM job WHERE {condition}"))
            return int(found.scalar_one())

    def wait_ended(self, *, timeout: float) -> None:
        """Wait until every job is final and its directory gone."""
        runs = self.cluster.directory
        wait_until(
            lambda: not self.count("finished IS NULL") and not list(runs.glob("worker-*/runs/*")),
            timeout=timeout,
            what="every job is final and cleared away",
        )


@contextmanager
def stand_ins(nodes: Sequence[str] = NODES, **changes: object) -> Iterator[StandIns]:
    """A started cluster with the stand-in; stopped, and nothing left of it, at the end.

    Args:
        nodes: names of its worker nodes.
        changes: settings that differ from a shipped one's.
    """
    with short_directory() as directory:
        python = str(_environment(directory / "python"))
        as_shipped = {name: Settings.model_fields[name].get_default() for name in SHORT}
        cluster = Cluster(
            directory, random.Random(1), nodes, as_shipped | changes, python, small_disks=False
        )
        try:
            cluster.start()
            yield StandIns(cluster)
        finally:
            cluster.stop()
            cluster.kill_left_over()


def _environment(directory: Path) -> Path:
    """A virtual environment with all packages of this one and its own ansible-playbook."""
    venv.create(directory, symlinks=True)
    own = Path(sysconfig.get_path("purelib", vars={"base": str(directory)}))
    packages = sysconfig.get_path("purelib")
    (own / "packages.pth").write_text(f"import site; site.addsitedir({packages!r})\n")
    python = directory / "bin" / "python"
    program = directory / "bin" / "ansible-playbook"
    program.write_text(f"#!{python} -IS\n{Path(stand_in_playbook.__file__).read_text()}")
    program.chmod(0o755)
    return python
