"""Install on seven SSH hosts by seven jobs at once, on the embedded stack: what ``make run`` does.

Starts the stack unless one runs (and then stops it at the end), makes the hosts, submits one job
for each, reads every job's status at least five times a second meanwhile, then does it all again
to show that a second installation changes nothing. Exits 0 only if every job was successful, every
read was answered 200, and the second round changed nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import uuid
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # so that it runs from a source tree too

from dispatcher import settings as settings_module
from dispatcher.cli.exit_codes import DETACHED, of_error
from dispatcher.cli.server import serving
from dispatcher.client.client import Client
from dispatcher.client.pack import pack
from dispatcher.client.submission import submit
from dispatcher.domain.launch import RunRequest
from dispatcher.errors import DispatcherError, NotCancelable
from examples.host_install.ssh_hosts import SshHost, inventory, running_hosts
from examples.host_install.watch import Watch, print_summary, watch

HERE = Path(__file__).parent
#: Room for five of the seven at a time: the others wait, and are shown with what they wait for.
CAPACITY = 10


def install(client: Client, hosts: list[SshHost]) -> tuple[list[Watch], dict[str, int]]:
    """One round: a job for each host, all at once, watched to their ends.

    Returns:
        What was watched, and the number of changed tasks by host.
    """
    watches: list[Watch] = []
    with pack(HERE) as bundle:
        for host in hosts:
            request = RunRequest(
                playbook="site.yml",
                bundle_digest=bundle.digest,
                inventory=inventory(hosts),
                limit=host.name,
                name=f"install {host.name}",
                timeout=600,
            )
            job, _ = submit(client, request, bundle, idempotency_key=str(uuid.uuid4()))
            watches.append(Watch(host.name, job))
    try:
        watch(watches, client.connection)
    except KeyboardInterrupt:
        for each in watches:
            with suppress(NotCancelable):
                client.cancel(each.job.id)
        raise
    changed: dict[str, int] = {}
    for each in watches:
        _, summaries = client.host_summaries(each.job.id, limit=1)
        changed |= {summary.host: summary.changed for summary in summaries}
    print_summary(watches, changed)
    return watches, changed


def succeeded(watches: list[Watch]) -> bool:
    """Whether every job was successful and every read answered 200; says what was not."""
    for each in watches:
        if each.job.status != "successful":
            print(f"job {each.job.id} ({each.host}) {each.job.status}: {each.job.explanation}")
            print(f"  its log: dispatcher jobs stdout {each.job.id}")
    return all(w.job.status == "successful" and not w.bad_reads for w in watches)


def main() -> int:
    parser = argparse.ArgumentParser(description="Install on SSH hosts of this machine.")
    parser.add_argument("--hosts", type=int, default=7, help="number of hosts (default 7)")
    parser.add_argument("--once", action="store_true", help="leave the second round out")
    parser.add_argument(
        "--capacity",
        type=int,
        help="fixed capacity of the node (each job takes 2), when this starts the stack;"
        f" default DISPATCHER_NODE_CAPACITY or {CAPACITY}",
    )
    given = parser.parse_args()
    settings = settings_module.load(node_capacity=given.capacity)
    if settings.node_capacity is None:
        settings = settings.model_copy(update={"node_capacity": CAPACITY})
    with (
        serving(settings) as client,
        tempfile.TemporaryDirectory(prefix="host-install-") as directory,
        running_hosts(Path(directory), given.hosts) as hosts,
    ):
        print(f"{len(hosts)} SSH hosts at {hosts[0].address} to {hosts[-1].address}", flush=True)
        watches, _ = install(client, hosts)
        good = succeeded(watches)
        if good and not given.once:
            print("once more: nothing may change", flush=True)
            watches, changed = install(client, hosts)
            good = succeeded(watches) and not any(changed.values()) and len(changed) == len(hosts)
    print("all is well" if good else "something is wrong", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DispatcherError as error:
        print(f"run: {error}", file=sys.stderr)
        sys.exit(of_error(error))
    except KeyboardInterrupt:
        print("run: interrupted; the jobs were canceled", file=sys.stderr)
        sys.exit(DETACHED)
