"""The graph of a workflow: what is wrong with it, and which of its nodes run, are skipped, or wait.

The rules are those of docs/scheduling.md, "Workflows". Everything is iterative: a chain of ten
thousand nodes is no deeper than one of two.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Generic, TypeVar

NodeT = TypeVar("NodeT", bound=Hashable)
Edge = tuple[NodeT, NodeT, str]


class GraphError(Exception):
    """A graph that cannot be walked: it has a cycle."""


class State(IntEnum):
    """What a node is at before it is evaluated.

    The values of decided states are what they show to their children: the ends that edges follow,
    as bits.
    """

    #: it will never run
    SKIPPED = 0
    SUCCESSFUL = 1
    #: its job failed, was in error or canceled, or could not be made
    FAILED = 2
    #: no job yet
    OPEN = 4
    #: no job yet, and what it would spawn was deleted
    LOST = 5
    #: its job has not ended
    ACTIVE = 6


#: Kind of an edge → the states of its parent that it follows.
KINDS: Final[Mapping[str, int]] = {
    "success": int(State.SUCCESSFUL),
    "failure": int(State.FAILED),
    "always": State.SUCCESSFUL | State.FAILED,
}
_LAST_DECIDED: Final = State.FAILED
_FAILED: Final = int(State.FAILED)
#: Most nodes of a path that are named.
_NAMED: Final = 20


@dataclass(frozen=True)
class Evaluation(Generic[NodeT]):
    """What follows from the states of a graph's nodes.

    Attributes:
        run: nodes whose turn has come.
        lost: nodes whose turn has come and that have nothing to spawn: they have failed.
        skip: nodes that will never run.
        done: every node is decided, those of ``lost`` and ``skip`` included.
        unhandled: failed nodes without a failure or always edge; the workflow fails for them.
    """

    run: tuple[NodeT, ...] = ()
    lost: tuple[NodeT, ...] = ()
    skip: tuple[NodeT, ...] = ()
    done: bool = False
    unhandled: tuple[NodeT, ...] = ()


@dataclass(frozen=True)
class Graph(Generic[NodeT]):
    """Nodes in an order in which parents come before their children, and the edges between them.

    Attributes:
        order: every node, once.
        parents: node → parent → the ends of the parent that lead to the node, as bits.
        handled: node → the ends of the node that any of its edges follows.
    """

    order: tuple[NodeT, ...]
    parents: Mapping[NodeT, Mapping[NodeT, int]]
    handled: Mapping[NodeT, int] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Sequence[NodeT], edges: Iterable[Edge[NodeT]]) -> Graph[NodeT]:
        """The graph of these nodes.

        Raises:
            GraphError: there is a cycle; it names the path.
        """
        parents: dict[NodeT, dict[NodeT, int]] = {}
        handled: dict[NodeT, int] = {}
        place = {node: number for number, node in enumerate(nodes)}
        in_order = True
        for parent, child, kind in edges:
            kinds = KINDS[kind]
            known = parents.setdefault(child, {})
            known[parent] = known.get(parent, 0) | kinds
            handled[parent] = handled.get(parent, 0) | kinds
            in_order = in_order and place[parent] < place[child]
        order = nodes if in_order else _order(nodes, parents)
        if len(order) < len(nodes):
            cycle = _cycle(nodes, parents, set(order))
            raise GraphError(f"cycle: {path_words(cycle)}")
        return cls(tuple(order), parents, handled)

    def evaluate(
        self, states: Mapping[NodeT, State], must_converge: Collection[NodeT]
    ) -> Evaluation[NodeT]:
        """Decide what can be decided about every node without a job.

        Args:
            states: of every node.
            must_converge: nodes that run only if every parent leads to them (ALL); all others
                run once all parents are decided and one of them leads there (ANY).
        """
        # node → what it shows to its children; a node that is not in it is not decided
        shows: dict[NodeT, int] = {n: s for n, s in states.items() if s <= _LAST_DECIDED}
        run, lost, skip = [], [], []
        for node in self.order:
            state = states[node]
            if state != State.OPEN and state != State.LOST:
                continue
            runs = self._turn(node, shows, node in must_converge)
            if runs is None:
                continue
            if not runs:
                shows[node] = State.SKIPPED
                skip.append(node)
            elif state == State.LOST:
                shows[node] = State.FAILED
                lost.append(node)
            else:
                run.append(node)
        failed = [n for n in self.order if shows.get(n) == _FAILED]
        return Evaluation(
            run=tuple(run),
            lost=tuple(lost),
            skip=tuple(skip),
            done=len(shows) == len(self.order),
            unhandled=tuple(n for n in failed if not self.handled.get(n, 0) & _FAILED),
        )

    def _turn(self, node: NodeT, shows: Mapping[NodeT, int], converge: bool) -> bool | None:
        """Whether a node runs; None while that is open."""
        parents = self.parents.get(node)
        if not parents:
            return True
        leads = waits = False
        for parent, kinds in parents.items():
            shown = shows.get(parent)
            if shown is None:
                waits = True
            elif shown & kinds:
                leads = True
            elif converge:
                return False
        return None if waits else leads

    def ancestors(
        self, of: Collection[NodeT], among: Collection[NodeT]
    ) -> dict[NodeT, list[NodeT]]:
        """For each of some nodes, which of ``among`` come before it on any path."""
        if not among or not of:
            return {node: [] for node in of}
        named = list(among)
        bit = {node: 1 << place for place, node in enumerate(named)}
        above: dict[NodeT, int] = {}
        for node in self.order:
            mask = 0
            for parent in self.parents.get(node, ()):
                mask |= above[parent] | bit.get(parent, 0)
            above[node] = mask
        return {
            node: [each for place, each in enumerate(named) if above[node] >> place & 1]
            for node in of
        }


def problems(nodes: Sequence[str], edges: Sequence[Edge[str]]) -> dict[str, list[str]]:
    """What is wrong with a graph that somebody wants to save: field → messages; empty: nothing.

    Args:
        nodes: identifiers.
        edges: (parent, child, kind).
    """
    known = set(nodes)
    twice = [name for name, count in Counter(nodes).items() if count > 1]
    wrong: dict[str, list[str]] = {"nodes": [f"{name}: two nodes have this name" for name in twice]}
    found = wrong.setdefault("edges", [])
    for edge, count in Counter(edges).items():
        parent, child, kind = edge
        words = f"{parent} → {child}"
        found += [
            f"{words}: there is no node {name}" for name in (parent, child) if name not in known
        ]
        if parent == child:
            found.append(f"{words}: an edge to itself")
        if kind not in KINDS:
            found.append(f"{words}: {kind!r} is none of {', '.join(KINDS)}")
        if count > 1:
            found.append(f"{words}: given {count} times as {kind}")
    if not any(wrong.values()):
        try:
            Graph.of(nodes, edges)
        except GraphError as error:
            found.append(str(error))
    return {name: messages for name, messages in wrong.items() if messages}


def nesting_path(start: NodeT, nested: Mapping[NodeT, Iterable[NodeT]]) -> list[NodeT] | None:
    """The way from a template back to itself through the templates it nests, if there is one.

    Args:
        start: the template that is to be saved.
        nested: template → templates that its nodes spawn, that of ``start`` as it is to be saved.

    Returns:
        The shortest path, ``start`` at both ends; None: it is not nested in itself.
    """
    came_from: dict[NodeT, NodeT] = {}
    waiting = deque([start])
    while waiting:
        template = waiting.popleft()
        for inner in nested.get(template, ()):
            if inner == start:
                path = [start, template]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return path[::-1]
            if inner not in came_from:
                came_from[inner] = template
                waiting.append(inner)
    return None


def path_words(path: Sequence[object]) -> str:
    """A path for people, with its middle left out when it is long."""
    names = [str(step) for step in path]
    if len(names) > _NAMED:
        half = _NAMED // 2
        names[half:-half] = [f"({len(names) - 2 * half} more)"]
    return " → ".join(names)


def _order(nodes: Sequence[NodeT], parents: Mapping[NodeT, Mapping[NodeT, int]]) -> list[NodeT]:
    """Parents before children, as given where that leaves a choice; without nodes on or behind
    a cycle.
    """
    missing = {node: len(parents.get(node, ())) for node in nodes}
    children: dict[NodeT, list[NodeT]] = defaultdict(list)
    for child, above in parents.items():
        for parent in above:
            children[parent].append(child)
    order = [node for node in nodes if not missing[node]]
    for node in order:  # grows while it is walked
        for child in children.get(node, ()):
            missing[child] -= 1
            if not missing[child]:
                order.append(child)
    return order


def _cycle(
    nodes: Sequence[NodeT], parents: Mapping[NodeT, Mapping[NodeT, int]], ordered: Collection[NodeT]
) -> list[NodeT]:
    """A cycle, its first node at both ends: each node that has no order has a parent without one."""
    node = next(node for node in nodes if node not in ordered)
    walked: dict[NodeT, int] = {}
    path: list[NodeT] = []
    while node not in walked:
        walked[node] = len(path)
        path.append(node)
        node = next(parent for parent in parents[node] if parent not in ordered)
    return [node, *path[walked[node] :][::-1]]
