"""Two worker nodes on one machine share what there is to run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from dispatcher.client.client import Client
from dispatcher.client.pack import Bundle
from tests.stack import RunningStack
from tests.waiting import wait_until


def test_two_nodes_share_twenty_jobs_and_neither_runs_fewer_than_five(
    stack: RunningStack, client: Client, play: Callable[[str], Bundle]
) -> None:
    bundle = play("- ansible.builtin.ping:")
    with stack.worker("n2"):
        wait_until(
            lambda: {n.name for n in client.nodes() if n.state == "alive"} >= {"n1", "n2"},
            what="both nodes are ready",
        )
        jobs = [stack.launch(client, bundle).id for _ in range(20)]
        statuses = stack.wait(client, jobs, timeout=120)
        assert set(statuses.values()) == {"successful"}
        ran = Counter(client.job(job).node for job in jobs)
        assert set(ran) == {"n1", "n2"}
        assert min(ran.values()) >= 5, ran
