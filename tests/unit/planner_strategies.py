"""Random worlds for the planners' properties: small, crowded, with everything in them.

Sizes are drawn by hypothesis, so that a failing world shrinks; what fills them comes from a
seed, which is twenty times faster than drawing every field.
"""

from __future__ import annotations

import random
import string
from collections.abc import Sequence

from hypothesis import strategies as st

from dispatcher.domain.status import Kind, Status
from schedulers.core.snapshot import (
    ActiveJob,
    Dependency,
    Group,
    Node,
    Pause,
    PendingJob,
    Tenant,
    Usage,
    World,
)
from tests.unit.worlds import NOW, OLD, YOUNG, active, group, node, pending

HOSTS = [f"host:{letter}" for letter in "abcdef"]
LOCKS = ["none", "none", "shared", "exclusive"]
NODE_KINDS = [Kind.PLAYBOOK] * 9 + [Kind.PROJECT_UPDATE, Kind.INVENTORY_UPDATE, Kind.CLEANUP]
#: Mostly what succeeded: a job that fails or is blocked at once tests nothing else.
STATUSES = [Status.SUCCESSFUL] * 12 + list(Status)
ODD_NODES = [{"state": "suspect"}, {"draining": True}, {"enabled": False}, {"accepting": False}]

CREATED = [OLD, OLD + 61, YOUNG]

SEEDS = st.integers(0, 2**32)


def worlds() -> st.SearchStrategy[World]:
    """A few nodes and groups; active jobs may be more than nodes and limits allow."""
    return st.builds(_world, SEEDS, st.integers(0, 5), st.integers(0, 4))


def backlogs(*, old: bool) -> st.SearchStrategy[list[PendingJob]]:
    """Pending jobs; with ``old`` half of them are no longer to be overtaken."""
    ranks = [YOUNG, YOUNG + 0.5, *([OLD, OLD + 1] if old else [])]
    return st.builds(
        lambda seed, size: _backlog(random.Random(seed), size, ranks), SEEDS, st.integers(0, 14)
    )


def _world(seed: int, size: int, busy: int) -> World:
    chance = random.Random(seed)
    ids = chance.sample(range(1, size + 1), size)
    nodes = tuple(_node(chance, node_id) for node_id in ids)
    groups = tuple(_group(chance, group_id, ids) for group_id in (1, 2, 3))
    jobs = tuple(_active(chance, job_id, ids) for job_id in range(500, 500 + busy))
    return World(
        now=NOW,
        nodes=nodes,
        groups=groups,
        active=jobs,
        tenants=tuple(
            Tenant(id, f"t{id}", chance.choice([1.0, 2.0, 0.3]), chance.choice([0, 0, 4]))
            for id in (1, 2)
        ),
        recent=tuple(
            Usage(chance.randint(1, 3), chance.choice(CREATED), chance.randint(0, 9) / 3)
            for _ in range(chance.randint(0, 2))
        ),
        template_limits=tuple((id, 2) for id in (1, 2) if chance.random() < 0.5),
        pauses=_pauses(chance),
    )


def _pauses(chance: random.Random) -> tuple[Pause, ...]:
    pauses = [Pause(), Pause(group_id=chance.randint(1, 3)), Pause(organization_id=1)]
    return tuple(
        pause for pause, p in zip(pauses, (0.05, 0.2, 0.2), strict=True) if chance.random() < p
    )


def _node(chance: random.Random, id: int) -> Node:
    name = "".join(chance.choices(string.ascii_lowercase, k=3)) + str(id)
    odd = chance.choice(ODD_NODES) if chance.random() < 0.25 else {}
    capacity = chance.choice([0, 4, 8, 8, 12])
    return node(id, capacity, name=name, max_jobs=chance.choice([1, 2, 50, 50]), **odd)


def _group(chance: random.Random, id: int, ids: Sequence[int]) -> Group:
    members = [i for i in ids if chance.random() < 0.6]
    return group(
        id, members, max_jobs=chance.choice([0, 0, 1, 3]), max_forks=chance.choice([0, 0, 6, 12])
    )


def _active(chance: random.Random, id: int, ids: Sequence[int]) -> ActiveJob:
    return active(
        id,
        chance.choice([*ids, 99]),
        chance.randint(0, 5),
        chance.randint(1, 3),
        kind=chance.choice(NODE_KINDS),
        forks=chance.randint(1, 5),
        organization_id=chance.randint(1, 3),
        created=chance.choice(CREATED),
        **_things(chance),
        **_locks(chance),
    )


def _things(chance: random.Random) -> dict[str, object]:
    """What the job runs, mostly nothing that others run too."""
    names = ("job_template_id", "project_id", "inventory_id", "inventory_source_id")
    things: dict[str, object] = {name: chance.choice([None, None, None, 1, 2]) for name in names}
    things["workflow_job_template_id"] = chance.choice([None, 1])
    return things | {"allow_simultaneous": chance.random() < 0.5}


def _locks(chance: random.Random) -> dict[str, object]:
    keys = chance.sample(HOSTS, chance.randint(0, 3))
    return {"host_lock": chance.choice(LOCKS), "lock_keys": tuple(keys)}


def _backlog(chance: random.Random, size: int, ranks: Sequence[float]) -> list[PendingJob]:
    return [
        pending(
            id,
            chance.choice([0, 1, 2, 3, 4, 8, 30]),
            chance.sample([1, 2, 3, 4], chance.randint(0, 3)),
            rank=chance.choice(ranks),
            held_since=chance.choice([None, *ranks]),
            kind=Kind.WORKFLOW if chance.random() < 0.1 else chance.choice(NODE_KINDS),
            forks=chance.randint(1, 8),
            organization_id=chance.randint(1, 3),
            created=chance.choice(CREATED),
            **_things(chance),
            dependencies=_dependencies(chance),
            **_locks(chance),
        )
        for id in chance.sample(range(1, 400), size)
    ]


def _dependencies(chance: random.Random) -> tuple[Dependency, ...]:
    ids = chance.sample(range(900, 920), chance.choice([0, 0, 1, 2]))
    return tuple(
        Dependency(id, Kind.PROJECT_UPDATE, "update", chance.choice(STATUSES)) for id in ids
    )
