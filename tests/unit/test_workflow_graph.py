"""Graphs of workflows: what is refused when they are saved, and how they are evaluated."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulers.core.workflow_graph import (
    Graph,
    GraphError,
    State,
    nesting_path,
    path_words,
    problems,
)
from tests.unit import workflow_oracle as oracle

KINDS = ("success", "failure", "always")
STATUSES = ("successful", "failed", "error", "canceled")


def state_of(each):
    if each["do_not_run"]:
        return State.SKIPPED
    if each["not_started"]:
        return State.FAILED
    if each["status"] is None:
        return State.LOST if each["deleted"] else State.OPEN
    if each["status"] == "successful":
        return State.SUCCESSFUL
    return State.FAILED if each["status"] in oracle.FINAL else State.ACTIVE


def evaluate(nodes, edges):
    graph = Graph.of(list(nodes), edges)
    found = graph.evaluate(
        {name: state_of(each) for name, each in nodes.items()},
        {name for name, each in nodes.items() if each["all"]},
    )
    return set(found.run), set(found.skip), set(found.lost), found.done, set(found.unhandled)


# -- saved


def test_a_sound_graph_has_no_problems():
    assert problems(["a", "b", "c"], [("a", "b", "success"), ("a", "b", "failure"), ("b", "c", "always")]) == {}  # fmt: skip
    assert problems([], []) == {}


def test_a_cycle_is_refused_with_its_path():
    edges = [("start", "a", "always"), ("a", "b", "success"), ("b", "c", "failure"), ("c", "a", "always"), ("c", "end", "always")]  # fmt: skip
    (message,) = problems(["start", "a", "b", "c", "end"], edges)["edges"]
    assert message == "cycle: a → b → c → a"


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ([("a", "a", "always")], "an edge to itself"),
        ([("a", "x", "always")], "there is no node x"),
        ([("x", "a", "always")], "there is no node x"),
        ([("a", "b", "sometimes")], "'sometimes' is none of success, failure, always"),
        ([("a", "b", "always"), ("a", "b", "always")], "given 2 times as always"),
    ],
)
def test_a_wrong_edge_is_refused_with_its_names(edges, words):
    (message,) = problems(["a", "b"], edges)["edges"]
    assert words in message
    assert message.startswith(f"{edges[0][0]} → {edges[0][1]}: ")


def test_two_nodes_of_one_name_are_refused():
    assert problems(["a", "a"], []) == {"nodes": ["a: two nodes have this name"]}


def test_a_template_nested_in_itself_is_found_with_its_path():
    assert nesting_path("a", {"a": ["a"]}) == ["a", "a"]
    nested = {"a": ["b", "x"], "b": ["c"], "x": ["y"], "c": ["d", "a"], "d": ["d"]}
    assert nesting_path("a", nested) == ["a", "b", "c", "a"]
    assert nesting_path("x", nested) is None
    assert nesting_path("b", {"b": ["d"], "d": ["d"]}) is None, "a fault of another template"


def test_deep_nesting_is_walked():
    nested = {n: [n + 1] for n in range(10_000)}
    assert nesting_path(0, nested) is None
    assert nesting_path(0, nested | {10_000: [0]}) == [*range(10_001), 0]


def test_a_long_path_is_shortened_for_people():
    assert path_words(["a", "b", "a"]) == "a → b → a"
    assert path_words(range(30)) == (
        "0 → 1 → 2 → 3 → 4 → 5 → 6 → 7 → 8 → 9 → (10 more)"
        " → 20 → 21 → 22 → 23 → 24 → 25 → 26 → 27 → 28 → 29"
    )


@given(st.data())
def test_a_graph_is_refused_exactly_if_it_has_a_cycle_and_the_path_is_one(data):
    size = data.draw(st.integers(1, 8))
    names = [f"n{i}" for i in range(size)]
    pair = st.tuples(st.sampled_from(names), st.sampled_from(names), st.sampled_from(KINDS))
    edges = data.draw(st.lists(pair.filter(lambda e: e[0] != e[1]), unique=True, max_size=16))
    reach = {(a, b) for a, b, _ in edges}
    for middle, a, b in itertools.product(names, repeat=3):  # Warshall: the middle varies slowest
        if (a, middle) in reach and (middle, b) in reach:
            reach.add((a, b))
    cyclic = any((name, name) in reach for name in names)
    found = problems(names, edges)
    assert bool(found) == cyclic
    if cyclic:
        path = found["edges"][0].removeprefix("cycle: ").split(" → ")
        steps = {(a, b) for a, b, _ in edges}
        assert path[0] == path[-1]
        assert all(step in steps for step in itertools.pairwise(path))
        assert len(set(path)) == len(path) - 1


def test_a_graph_with_a_cycle_is_never_evaluated():
    with pytest.raises(GraphError, match="cycle"):
        Graph.of([1, 2], [(1, 2, "always"), (2, 1, "always")])


# -- evaluated


def _parents():
    for status in (*STATUSES, "running", "pending"):
        yield oracle.node(status)
    yield oracle.node(do_not_run=True)
    yield oracle.node(deleted=True)
    yield oracle.node(not_started=True)
    yield oracle.node()


@pytest.mark.parametrize("all_", [False, True])
def test_every_end_of_two_parents_over_every_kind_of_edge(all_):
    kinds = [c for n in (1, 2, 3) for c in itertools.combinations(KINDS, n)]
    for first, second in itertools.product(_parents(), repeat=2):
        for one, two in itertools.product(kinds, repeat=2):
            nodes = {"p": first, "q": second, "n": oracle.node(all_=all_)}
            edges = [("p", "n", k) for k in one] + [("q", "n", k) for k in two]
            assert evaluate(nodes, edges) == oracle.answer(nodes, edges), (nodes, edges)


@pytest.mark.parametrize("status", ["failed", "error", "canceled"])
def test_all_parents_must_lead_to_a_node_that_converges(status):
    nodes = {"a": oracle.node("successful"), "b": oracle.node(status), "n": oracle.node(all_=True)}
    run, skip, *_ = evaluate(nodes, [("a", "n", "success"), ("b", "n", "success")])
    assert (run, skip) == (set(), {"n"})
    run, skip, *_ = evaluate(nodes, [("a", "n", "success"), ("b", "n", "always")])
    assert (run, skip) == ({"n"}, set())


def test_a_node_whose_template_was_deleted_fails_when_its_turn_comes():
    nodes = {"a": oracle.node("running"), "b": oracle.node(deleted=True), "c": oracle.node()}
    edges = [("a", "b", "success"), ("b", "c", "failure")]
    assert evaluate(nodes, edges) == (set(), set(), set(), False, set())
    nodes["a"]["status"] = "successful"
    assert evaluate(nodes, edges) == ({"c"}, set(), {"b"}, False, set())
    nodes["a"]["status"] = "failed"
    assert evaluate(nodes, edges) == (set(), {"b", "c"}, set(), True, {"a"})


def random_graph(chance, size):
    """A graph without cycles, its nodes in an order that says nothing."""
    names = list(range(size))
    chance.shuffle(names)
    edges = {
        (names[a], names[b], chance.choice(KINDS))
        for b in range(1, size)
        for a in chance.sample(range(b), min(b, chance.choice((0, 1, 1, 2, 5))))
    }
    return sorted(names), sorted(edges)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 25), st.integers(0, 1 << 32))
def test_random_graphs_in_random_states_are_evaluated_as_the_prose_says(size, seed):
    chance = random.Random(seed)
    names, edges = random_graph(chance, size)
    kinds = list(_parents())
    nodes = {name: {**chance.choice(kinds), "all": chance.random() < 0.4} for name in names}
    assert evaluate(nodes, edges) == oracle.answer(nodes, edges)


def test_neither_the_order_of_rows_nor_names_matter():
    chance = random.Random(5)
    names, edges = random_graph(chance, 60)
    nodes = {name: oracle.node(chance.choice((*STATUSES, None)), all_=chance.random() < 0.4) for name in names}  # fmt: skip
    renamed = {name: f"x{chance.random()}" for name in names}
    shuffled = list(names)
    chance.shuffle(shuffled)
    chance.shuffle(edges)
    other = evaluate(
        {renamed[name]: nodes[name] for name in shuffled},
        [(renamed[a], renamed[b], kind) for a, b, kind in edges],
    )
    expected = evaluate(nodes, edges)
    assert other[3] == expected[3]
    for found, wanted in zip(other, expected, strict=True):
        if isinstance(wanted, set):
            assert found == {renamed[name] for name in wanted}


def test_a_chain_of_ten_thousand_nodes_is_decided_at_once():
    nodes = {0: oracle.node("failed")} | {n: oracle.node() for n in range(1, 10_000)}
    edges = [(n, n + 1, "success") for n in range(9_999)]
    run, skip, lost, done, bad = evaluate(nodes, edges)
    assert (run, len(skip), lost, done, bad) == (set(), 9_999, set(), True, {0})


# -- ancestors


def test_ancestors_are_found_over_every_path():
    edges = [(1, 2, "success"), (2, 4, "always"), (3, 4, "failure"), (4, 5, "success"), (6, 7, "always")]  # fmt: skip
    graph = Graph.of([5, 4, 3, 2, 1, 6, 7], edges)
    assert graph.ancestors([5, 2, 1, 7], [1, 3]) == {5: [1, 3], 2: [1], 1: [], 7: []}
    assert graph.ancestors([5], []) == {5: []}
