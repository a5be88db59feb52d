"""The moves of a job are told in four places; they must tell the same."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import CheckConstraint

from dispatcher.db import job_moves
from dispatcher.db.tables import job
from dispatcher.domain.outcome import FACTS, Outcome
from dispatcher.domain.status import FINAL, MOVES, NODE_KINDS, Kind, Status, Verb

REPOSITORY = Path(__file__).parents[2]
DOCUMENT = REPOSITORY / "docs" / "job_states.md"
MOVES_PACKAGE = Path(job_moves.__file__).parent
FUNCTIONS = {
    Verb.START: job_moves.start,
    Verb.BEGIN: job_moves.begin,
    Verb.REFUSE: job_moves.refuse,
    Verb.DECIDE: job_moves.decide,
    Verb.CLAIM: job_moves.claim,
    Verb.RETURN: job_moves.return_jobs,
    Verb.CANCEL: job_moves.cancel_jobs,
    Verb.FINISH: job_moves.finish,
}
#: The same verbs for whole batches of one kind.
BATCHES = {Verb.DECIDE: job_moves.expire, Verb.FINISH: job_moves.finish_workflows}


def table(header: str) -> list[tuple[str, ...]]:
    """The rows of the document's table with this first line."""
    lines = DOCUMENT.read_text().split(header + "\n", 1)[1].splitlines()[1:]
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append(tuple(cell.strip() for cell in line.strip("|").split("|")))
    return rows


def words(text: str) -> set[str]:
    return set(re.findall(r"'(\w+)'", text))


def check(name: str) -> str:
    """The text of one of the CHECKs on ``job``."""
    return next(
        str(constraint.sqltext)
        for constraint in job.constraints
        if isinstance(constraint, CheckConstraint) and constraint.name == f"ck_job_{name}"
    )


def sources(statement: str) -> set[str]:
    """The statuses that a statement moves a row from."""
    where = statement.split("WHERE", 1)[1]
    listed = re.search(r"\bstatus IN \(([^)]*)\)", where)
    return words(listed[1]) if listed else set(re.findall(r"\bstatus = '(\w+)'", where))


def statement(function: Callable[..., object]) -> str:
    return re.search(r"UPDATE job SET.*?\"\"\"", inspect.getsource(function), re.S)[0]


def moved(verb: Verb, side: str) -> set[str]:
    return {str(getattr(move, side)) for move in MOVES if move.verb == verb}


# -- the document


def test_the_document_lists_exactly_the_legal_moves() -> None:
    told = [
        (verb, source, target, tuple(kinds.split(", ")), meaning)
        for verb, source, target, kinds, meaning in table("| verb | from | to | kinds | meaning |")
    ]
    assert told == [
        (str(m.verb), str(m.source), str(m.target), tuple(sorted(m.kinds)), m.meaning)
        for m in MOVES
    ]


def test_the_document_lists_exactly_the_outcomes() -> None:
    assert table("| outcome | status | exit code of `dispatcher run` |") == [
        (str(outcome), str(facts.status), str(facts.exit_code)) for outcome, facts in FACTS.items()
    ]


def test_the_document_explains_every_status() -> None:
    told = {
        word
        for cells in table("| status | what is true of it |")
        for word in re.findall(r"`(\w+)`", cells[0])
    }
    assert told == set(Status)


# -- the functions


def test_every_verb_has_its_function_and_moves() -> None:
    assert set(FUNCTIONS) == set(Verb) == {move.verb for move in MOVES}
    written = {
        name
        for path in MOVES_PACKAGE.glob("*.py")
        for name, function in inspect.getmembers(
            importlib.import_module(f"{job_moves.__name__}.{path.stem}"), inspect.isfunction
        )
        if function.__module__.startswith(f"{job_moves.__name__}.")
        and "UPDATE job SET" in inspect.getsource(function)
    }
    functions = [*FUNCTIONS.values(), *BATCHES.values()]
    assert written == {function.__name__ for function in functions}


@pytest.mark.parametrize(
    ("verb", "function"),
    [pair for pair in (*FUNCTIONS.items(), *BATCHES.items()) if pair[0] is not Verb.CANCEL],
)
def test_a_function_moves_rows_from_the_statuses_of_the_table(
    verb: Verb, function: Callable[..., object]
) -> None:
    assert sources(statement(function)) == moved(verb, "source")


def test_cancel_moves_what_has_not_begun_and_flags_what_runs() -> None:
    update = statement(FUNCTIONS[Verb.CANCEL])
    case = re.search(r"status = CASE WHEN (.*?) THEN 'canceled'", update)
    assert case is not None
    assert words(case[1]) == moved(Verb.CANCEL, "source")
    assert sources(update) == moved(Verb.CANCEL, "source") | {"running"}


@pytest.mark.parametrize("verb", [Verb.START, Verb.BEGIN, Verb.REFUSE, Verb.CLAIM, Verb.RETURN])
def test_a_function_moves_rows_to_the_status_of_the_table(verb: Verb) -> None:
    written = re.search(r"UPDATE job SET\s+status = '(\w+)'", statement(FUNCTIONS[verb]))
    assert written is not None
    assert {written[1]} == moved(verb, "target")


def test_finish_and_decide_reach_the_statuses_of_their_outcomes() -> None:
    assert moved(Verb.FINISH, "target") == {str(facts.status) for facts in FACTS.values()}
    assert moved(Verb.DECIDE, "target") == {
        str(FACTS[outcome].status) for outcome in (Outcome.SUCCESSFUL, Outcome.DENIED)
    }


# -- the schema


def test_the_schema_knows_the_same_words() -> None:
    assert words(check("status_word")) == set(Status)
    assert words(check("kind_word")) == set(Kind)
    assert words(check("finished_if_final")) == words(check("outcome_if_final")) == FINAL


def test_the_schema_ties_the_same_outcomes_to_each_status() -> None:
    told = dict(
        re.findall(r"\(status = '(\w+)' AND outcome IN \(([^)]*)\)\)", check("outcome_fits_status"))
    )
    assert {status: words(outcomes) for status, outcomes in told.items()} == {
        str(status): {str(o) for o in Outcome if FACTS[o].status == status} for status in FINAL
    }


def test_the_schema_lets_the_same_kinds_wait_and_run() -> None:
    waiting = {kind for m in MOVES if m.target == Status.WAITING for kind in m.kinds}
    running = {kind for m in MOVES if m.target == Status.RUNNING for kind in m.kinds}
    dispatched = {kind for m in MOVES if m.verb == Verb.CLAIM for kind in m.kinds}
    assert words(check("waiting_runs_on_node")) - {"waiting"} == waiting == NODE_KINDS
    assert words(check("running_has_dispatch")) - {"running"} == dispatched
    assert check("approval_never_runs").startswith("kind <> 'approval'")
    assert set(Kind) - running == {Kind.APPROVAL}


# -- one writer


def test_no_other_place_writes_the_status_of_a_job() -> None:
    writers = []
    for package in ("dispatcher", "schedulers", "workers"):
        for path in (REPOSITORY / package).rglob("*.py"):
            if path.parent == MOVES_PACKAGE or "migrations" in path.parts:
                continue
            source = path.read_text()
            assignments = re.findall(
                r"UPDATE\s+job\s(?:AS\s)?.*?\bSET\b(.*?)\bWHERE\b", source, re.S
            )
            built = re.findall(r"\bupdate\((?:t\.|tables\.)?job\)(.*?)\n\s*\)", source, re.S)
            if any(re.search(r"\bstatus\s*=", text) for text in assignments + built):
                writers.append(str(path.relative_to(REPOSITORY)))
    assert writers == []
