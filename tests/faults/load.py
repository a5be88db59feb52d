"""Work for the cluster: jobs of several kinds, each with the end that it must come to.

Every playbook writes lines of its own into a witness file, past the dispatcher: what really ran,
how often and when, does not have to be believed.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dispatcher.client.client import Client
from dispatcher.client.pack import Bundle, pack
from dispatcher.client.submission import submit
from dispatcher.domain.launch import RunRequest
from dispatcher.errors import DispatcherError, InvalidRequest, NotCancelable
from tests.faults.cluster import Cluster
from tests.stack import LOCALHOST

#: Never to be found on a disk when its job has ended, nor in any log.
SECRET: Final = "s3cret-of-the-fault-suite"

_SITE: Final = """\
- hosts: all
  gather_facts: false
  tasks:
    - name: witness the begin
      ansible.builtin.shell: 'echo "$(date +%s.%N) begin {{ word }}" >> {{ witness }}'
{tasks}
    - name: witness the end
      ansible.builtin.shell: 'echo "$(date +%s.%N) end {{ word }}" >> {{ witness }}'
"""
_NAP: Final = "    - ansible.builtin.command: sleep {{ nap }}\n"


@dataclass(frozen=True)
class Work:
    """A kind of job.

    Attributes:
        tasks: between the two that witness begin and end.
        outcome: what it ends in when nobody touches its processes.
        weight: how often it is chosen.
    """

    name: str
    tasks: str
    outcome: str
    weight: int
    fields: Mapping[str, Any] = field(default_factory=dict)


KINDS: Final = (
    Work("quick", "", "successful", 5),
    Work("napping", _NAP, "successful", 4),
    Work(
        "noisy",
        "    - ansible.builtin.debug: {msg: \"{{ 'x' * 2000 }} {{ item }}\"}\n"
        "      loop: '{{ range(150) | list }}'\n",
        "successful",
        2,
    ),
    Work("failing", "    - ansible.builtin.fail: {msg: on purpose}\n", "failed_hosts", 2),
    Work("locked", _NAP, "successful", 3, {"host_lock": "exclusive"}),
    Work(
        "secretive",
        '    - ansible.builtin.debug: {msg: "it is {{ password }}"}\n',
        "successful",
        2,
        {"secret_vars": {"password": SECRET}},
    ),
    Work(
        "trusted",
        _NAP + "    - ansible.builtin.debug: {msg: \"it is {{ lookup('env', 'TOKEN') }}\"}\n",
        "successful",
        2,
    ),
    Work("canceled", "    - ansible.builtin.command: sleep 600\n", "canceled", 2),
)


@dataclass
class Accepted:
    """A job that the API has answered 201 or 200 for."""

    job_id: int
    word: str
    work: Work


class Load:
    """Submits jobs from one thread, at a bounded pace, until told to stop.

    Args:
        seed: of the choices.
        backlog: most jobs that are not final at once.
    """

    def __init__(self, cluster: Cluster, seed: int, *, backlog: int = 12) -> None:
        self._cluster = cluster
        self._chooses = random.Random(seed)
        self._backlog = backlog
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self.witness = cluster.directory / "witness"
        self.witness.touch()
        self.accepted: list[Accepted] = []
        self.refusals: list[str] = []
        self._bundles = {work.name: self._pack(work) for work in KINDS}

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Submit no more; returns when the last answer is there."""
        self._stop.set()
        self._thread.join()

    def unfinished(self, client: Client) -> list[Accepted]:
        """Accepted jobs that are not final."""
        return [each for each in self.accepted if not client.job(each.job_id).final]

    def _pack(self, work: Work) -> Bundle:
        directory: Path = self._cluster.directory / "plays" / work.name
        directory.mkdir(parents=True)
        (directory / "site.yml").write_text(_SITE.replace("{tasks}\n", work.tasks))
        return pack(directory)

    def _run(self) -> None:
        with self._cluster.client(patience=120) as client:
            number, self._credential = 0, 0
            open_jobs: list[Accepted] = []
            cancels: list[tuple[int, Accepted]] = []
            while not self._stop.wait(0.2):
                try:
                    self._credential = self._credential or _credential(client)
                    open_jobs = [each for each in open_jobs if not client.job(each.job_id).final]
                    if len(open_jobs) < self._backlog:
                        number += 1
                        made = self._submit(client, number)
                        open_jobs.append(made)
                        if made.work.name == "canceled":
                            cancels.append((number + self._chooses.randint(1, 4), made))
                    elif cancels:
                        number += 1  # nothing but waiting cancels may be in the way
                    while cancels and cancels[0][0] <= number:
                        self._cancel(client, cancels.pop(0)[1])
                except DispatcherError as error:
                    self.refusals.append(f"{type(error).__name__}: {error}")
            for _, made in cancels:
                self._cancel(client, made)

    def _submit(self, client: Client, number: int) -> Accepted:
        work = self._chooses.choices(KINDS, [kind.weight for kind in KINDS])[0]
        word = f"{work.name}-{number}"
        request = RunRequest(
            playbook="site.yml",
            bundle_digest=self._bundles[work.name].digest,
            inventory=LOCALHOST,
            name=word,
            extra_vars={
                "word": word,
                "witness": str(self.witness),
                "nap": round(self._chooses.uniform(1, 6), 1),
            },
            credentials=(self._credential,) if work.name == "trusted" else (),
            **work.fields,
        )
        job, _ = submit(client, request, self._bundles[work.name], idempotency_key=word)
        made = Accepted(job.id, word, work)
        self.accepted.append(made)
        return made

    def _cancel(self, client: Client, made: Accepted) -> None:
        try:
            client.cancel(made.job_id)
        except NotCancelable:
            pass  # it ended by a fault of this suite; the audit knows which


def _credential(client: Client) -> int:
    """The number of the credential that every job of kind trusted has."""
    inputs = {"variables": {"TOKEN": SECRET}, "files": {"CONFIG": SECRET}}
    body = {"name": "faults", "organization": 1, "kind": "environment", "inputs": inputs}
    try:
        client.connection.call("POST", "credentials/", json=body)
    except InvalidRequest:
        pass  # made by a call whose answer was lost
    return client.credential_number("faults")
