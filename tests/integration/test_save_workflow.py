"""Saving graphs of workflow job templates: what is kept, what is refused, and two at once."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import Engine, text

from dispatcher.actions.save_workflow import (
    NodeSpec,
    add_edge,
    delete_node,
    remove_edge,
    save_graph,
    save_node,
)
from dispatcher.db.engine import transaction
from dispatcher.db.workflow_templates import read_edges, read_ids
from dispatcher.errors import InvalidRequest, NotFound
from tests.racing import at_once
from tests.workflows import asks, make_template, moves, nests


def refused(engine: Engine, call) -> dict[str, list[str]]:
    with pytest.raises(InvalidRequest) as caught, transaction(engine) as connection:
        call(connection)
    return caught.value.fields


def test_a_graph_is_replaced_and_nodes_that_stay_keep_their_ids(engine: Engine) -> None:
    with transaction(engine) as connection:
        template = make_template(connection, "t", [asks("a"), asks("b")], moves("a>b"))
        before = read_ids(connection, template)
        save_graph(connection, template, [asks("b"), asks("c")], moves("b!c"))
        after = read_ids(connection, template)
        assert after["b"] == before["b"]
        assert set(after) == {"b", "c"}
        assert read_edges(connection, template) == [("b", "c", "failure")]


def test_a_graph_that_cannot_run_is_refused_and_nothing_is_saved(engine: Engine) -> None:
    with transaction(engine) as connection:
        template = make_template(connection, "t", [asks("a")])
    nodes = [asks("a"), asks("b"), asks("c")]
    cases = {
        ("a>b", "b>c", "c>a"): "cycle: a → b → c → a",
        ("a>a",): "a → a: an edge to itself",
        ("a>x",): "a → x: there is no node x",
        ("a>b", "a>b"): "a → b: given 2 times as success",
    }
    for steps, message in cases.items():
        fields = refused(engine, lambda c, s=steps: save_graph(c, template, nodes, moves(*s)))
        assert fields == {"edges": [message]}
    with engine.connect() as connection:
        assert set(read_ids(connection, template)) == {"a"}


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (NodeSpec("a", "approval"), "an approval needs a name"),
        (NodeSpec("a", "approval", 3, approval_name="x"), "an approval has no template"),
        (NodeSpec("a", "approval", approval_name="x", approval_timeout=-1), "0"),
        (NodeSpec("a", "job_template", 999), "a: no job_template 999"),
        (NodeSpec("a", "workflow_job_template", 999), "a: no workflow_job_template 999"),
        (NodeSpec("a", "project", 999), "a: no project 999"),
        (NodeSpec("a", "inventory_source", 999), "a: no inventory_source 999"),
        (NodeSpec("a", "job_template"), "needs the id of its job_template"),
        (NodeSpec("a", "carrier pigeon", 1), "cannot spawn 'carrier pigeon'"),
        (NodeSpec(" ", "approval", approval_name="x"), "needs an identifier"),
        (NodeSpec("a", "job_template", 999, prompts={"extra_vars": {"1x": 1}}), "1x"),
    ],
)
def test_a_node_that_cannot_run_is_refused(engine: Engine, node: NodeSpec, words: str) -> None:
    with transaction(engine) as connection:
        template = make_template(connection)
    fields = refused(engine, lambda connection: save_graph(connection, template, [node], []))
    assert words in " ".join(fields["nodes"])
    assert refused(engine, lambda connection: save_node(connection, template, node)) == fields


def test_a_template_nested_in_itself_is_refused_with_the_path_of_names(engine: Engine) -> None:
    with transaction(engine) as connection:
        inner = make_template(connection, "inner")
        middle = make_template(connection, "middle", [nests("x", inner)])
        outer = make_template(connection, "outer", [nests("y", middle), nests("again", middle)])
    fields = refused(engine, lambda c: save_graph(c, inner, [nests("z", outer)], []))
    assert fields == {
        "nodes": ["the workflow would be nested in itself: inner → outer → middle → inner"]
    }
    assert refused(engine, lambda c: save_node(c, inner, nests("z", inner))) == {
        "nodes": ["the workflow would be nested in itself: inner → inner"]
    }


def test_two_saves_that_nest_in_each_other_are_not_both_right(engine: Engine) -> None:
    with transaction(engine) as connection:
        pair = [make_template(connection, name) for name in "ab"]
    entered = threading.Barrier(2, timeout=10)

    def save(own: int, other: int) -> None:
        with transaction(engine, lock_timeout=10) as connection:
            connection.execute(text("SELECT 1"))
            entered.wait()
            save_graph(connection, own, [nests("n", other)], [])

    outcomes = at_once([lambda: save(*pair), lambda: save(*pair[::-1])])
    assert sorted(type(o).__name__ for o in outcomes) == ["InvalidRequest", "NoneType"]


def test_edges_are_added_one_by_one_and_checked_with_the_whole(engine: Engine) -> None:
    with transaction(engine) as connection:
        template = make_template(connection, "t", [asks("a"), asks("b"), asks("c")], moves("a>b"))
        other = make_template(connection, "o", [asks("a")])
        ids = read_ids(connection, template)
        foreign = read_ids(connection, other)["a"]
        add_edge(connection, ids["b"], ids["c"], "failure")
        add_edge(connection, ids["b"], ids["c"], "failure")
        assert read_edges(connection, template) == [("a", "b", "success"), ("b", "c", "failure")]
    fields = refused(engine, lambda c: add_edge(c, ids["c"], ids["a"], "always"))
    assert fields == {"edges": ["cycle: a → b → c → a"]}
    assert "id" in refused(engine, lambda c: add_edge(c, ids["a"], foreign, "always"))
    with transaction(engine) as connection:
        remove_edge(connection, ids["a"], ids["b"], "success")
        remove_edge(connection, ids["a"], ids["b"], "success")
        add_edge(connection, ids["c"], ids["a"], "always")
        delete_node(connection, ids["b"])
        assert read_edges(connection, template) == [("c", "a", "always")]


def test_a_node_is_changed_beside_one_whose_template_was_deleted(engine: Engine) -> None:
    with transaction(engine) as connection:
        gone = make_template(connection, "gone")
        template = make_template(connection, "t", [nests("old", gone), asks("a")], moves("old>a"))
        connection.execute(text("DELETE FROM workflow_job_template WHERE id = :id"), {"id": gone})
        before = read_ids(connection, template)
        assert save_node(connection, template, asks("a", timeout=5, converge=True)) == before["a"]
        seconds = text("SELECT approval_timeout FROM workflow_template_node WHERE id = :id")
        assert connection.scalar(seconds, {"id": before["a"]}) == 5


def test_what_does_not_exist_is_not_found(engine: Engine) -> None:
    def missing(call) -> None:
        with pytest.raises(NotFound), transaction(engine) as connection:
            call(connection)

    missing(lambda c: save_graph(c, 99, [], []))
    missing(lambda c: save_node(c, 99, asks("a")))
    missing(lambda c: add_edge(c, 99, 98, "always"))
    missing(lambda c: delete_node(c, 99))


def test_a_graph_of_a_thousand_nodes_is_saved(engine: Engine) -> None:
    nodes = [asks(f"n{i}") for i in range(1000)]
    edges = moves(*(f"n{i}>n{i + 1}" for i in range(999)))
    with transaction(engine) as connection:
        template = make_template(connection, "t", nodes, edges)
        assert len(read_edges(connection, template)) == 999
