"""Host patterns: robustness and cost. That they mean what Ansible means is an integration test."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher import clock
from dispatcher.domain import host_pattern
from dispatcher.domain.host_pattern import PatternError, resolve, split_pattern
from dispatcher.domain.inventory import Inventory, parse_inventory

SMALL = parse_inventory("lone\n[web]\nweb[1:4]\n[db]\ndb[a:c]\nweb1\n[site:children]\nweb\ndb\n")


def hosts(pattern: str, limit: str = "", inventory: Inventory = SMALL) -> list[str]:
    return list(resolve(pattern, limit, inventory, cpu=clock.thread_cpu))


def test_parts_are_combined_in_the_order_plain_intersection_exclusion() -> None:
    assert hosts("!web1:site:&web") == ["web2", "web3", "web4"]
    assert hosts("&db") == ["web1", "dba", "dbb", "dbc"]
    assert hosts("!site") == ["lone"]


def test_the_limit_narrows_and_keeps_the_order_of_the_pattern() -> None:
    assert hosts("db,web", "web1,dba") == ["dba", "web1"]
    assert hosts("all", " , ") == hosts("all")
    assert hosts("web", "db[3]") == ["web1"]


@given(st.lists(st.sampled_from(
    ["all", "lone", "web", "web1", "web*", "db", "dba", "site", "!db", "&web", "!web1", "nowhere",
     "localhost", "web[0]", "db[1:2]", "~.*1", "ungrouped"]
), min_size=1, max_size=4))  # fmt: skip
def test_a_limit_of_all_hosts_is_the_hosts_that_it_names_in_the_order_of_all(
    parts: list[str],
) -> None:
    limit = ",".join(parts)
    named = set(hosts(limit))
    assert hosts("all", limit) == [host for host in hosts("all") if host in named]


def test_a_host_in_several_groups_is_there_once() -> None:
    assert hosts("web:db:web1").count("web1") == 1


def test_the_machine_itself_is_there_when_it_is_named() -> None:
    assert hosts("localhost") == ["localhost"]
    assert hosts("localhost,127.0.0.1") == ["localhost"]
    assert hosts("all") == [*hosts("lone"), *hosts("web"), *hosts("db[0:2]")]
    explicit = parse_inventory("127.0.0.1\nh1\n")
    assert hosts("localhost", inventory=explicit) == ["127.0.0.1"]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("web[9]", "no such host"),
        ("web[-9]", "no such host"),
        ("!", "missing"),
        ("&", "missing"),
        ("~(", "~("),
        ("~" + "(" * 500 + ")" * 500, "~("),
        ("x" * 1001, "longer than"),
    ],
)
def test_what_cannot_be_resolved_says_why(pattern: str, message: str) -> None:
    with pytest.raises(PatternError) as caught:
        hosts(pattern)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_regular_expression_that_runs_away_is_refused_in_bounded_time() -> None:
    inventory = parse_inventory("\n".join(f"{'a' * 60}-{n}" for n in range(100)))
    begun = time.thread_time()
    with pytest.raises(PatternError, match="too long to match"):
        hosts("~(a|aa)+$", inventory=inventory)
    assert time.thread_time() - begun < 2


def test_many_patterns_are_refused_when_they_cost_too_much_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host_pattern, "PATTERN_SECONDS", 0.05)
    inventory = parse_inventory("web[1:5000]")
    with pytest.raises(PatternError, match="too costly"):
        hosts(",".join(f"*{n}*" for n in range(5000)), inventory=inventory)


def test_a_large_inventory_is_resolved_quickly() -> None:
    inventory = parse_inventory("[web]\nweb[1:10000]\n[db]\ndb[1:10000]\n")
    assert len(hosts("web:!~web.*7$", inventory=inventory)) == 9000
    names = ",".join(f"web{n}" for n in range(1, 5001))
    assert len(hosts("all", names, inventory=inventory)) == 5000


def test_colons_separate_only_what_is_not_one_host() -> None:
    assert split_pattern("a:b:!c") == ["a", "b", "!c"]
    assert split_pattern("2001:db8::1") == ["2001:db8::1"]
    assert split_pattern("web[1:3]:db") == ["web[1:3]", "db"]
    assert split_pattern("[2001:db8::1]:22") == ["[2001:db8::1]:22"]
    assert split_pattern(" a , b[1] ,, ") == ["a", "b[1]"]


names = st.sampled_from(
    ["lone", "web", "web1", "db", "dba", "site", "all", "*", "nope", "~w", "w?b1"]
)
subscripts = st.sampled_from(["", "", "[0]", "[-1]", "[0:1]", "[1:]", "[7]", "[2:0]", "[a-c]"])
parts = st.builds(lambda a, n, s: a + n + s, st.sampled_from(["", "!", "&"]), names, subscripts)
patterns = st.lists(parts, max_size=6).flatmap(
    lambda found: st.sampled_from([":", ","]).map(lambda separator: separator.join(found))
)


@settings(max_examples=50)
@given(patterns, patterns)
def test_whatever_is_named_is_in_the_inventory_and_within_the_limit(
    pattern: str, limit: str
) -> None:
    try:
        found = hosts(pattern, limit)
    except PatternError:
        return
    assert len(set(found)) == len(found)
    assert set(found) <= set(SMALL.hosts)
    assert set(found) <= set(hosts(pattern))
    assert [h for h in hosts(pattern) if h in set(found)] == found


@settings(max_examples=50)
@given(st.text(max_size=40))
def test_any_text_is_resolved_or_refused(pattern: str) -> None:
    for pair in ((pattern, ""), ("all", pattern)):
        try:
            hosts(*pair)
        except PatternError:
            pass
