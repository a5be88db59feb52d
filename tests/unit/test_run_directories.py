"""What becomes of a run directory: the decision, for every state of it and of its row."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from dispatcher.db.node_rows import NodeJob
from dispatcher.domain.status import FINAL, Status
from workers.run_directories import Found, Todo, decide

DISPATCH = uuid4()
NODE = 3

EMPTY = Found(filled=False, started=False, alive=False, result=False)
FILLED = Found(filled=True, started=False, alive=False, result=False)
DEAD = Found(filled=True, started=True, alive=False, result=False)
LIVE = Found(filled=True, started=True, alive=True, result=False)
DONE = Found(filled=True, started=True, alive=False, result=True)


def row(status: Status, dispatch_id: UUID | None = DISPATCH, node_id: int | None = NODE) -> NodeJob:
    return NodeJob(1, dispatch_id, node_id, status, False, False, 1, False)


@pytest.mark.parametrize(
    ("found", "todo"),
    [
        (EMPTY, Todo.PREPARE),
        (FILLED, Todo.GIVE_UP),
        (DEAD, Todo.END),
        (LIVE, Todo.ADOPT),
        (DONE, Todo.END),
    ],
)
def test_a_running_job_goes_on_as_far_as_its_directory_allows(found: Found, todo: Todo) -> None:
    assert decide(found, row(Status.RUNNING), DISPATCH, NODE) is todo


@pytest.mark.parametrize("found", [EMPTY, FILLED, DEAD, LIVE, DONE])
@pytest.mark.parametrize(
    "job",
    [
        None,
        row(Status.RUNNING, dispatch_id=uuid4()),
        row(Status.RUNNING, node_id=4),
        row(Status.WAITING),
        row(Status.PENDING, dispatch_id=None, node_id=None),
        row(Status.SUCCESSFUL, dispatch_id=uuid4()),
    ],
)
def test_a_directory_whose_row_is_not_running_here_is_dropped(
    found: Found, job: NodeJob | None
) -> None:
    assert decide(found, job, DISPATCH, NODE) is Todo.DROP


@pytest.mark.parametrize("status", sorted(FINAL))
def test_the_directory_of_a_job_that_ended_here_is_kept_a_while(status: Status) -> None:
    assert decide(DONE, row(status), DISPATCH, NODE) is Todo.KEEP
