"""Every UPDATE of ``job.status``: one function for each verb of ``dispatcher/domain/status.py``.

All are conditional and set-based. A row that somebody else moved first is left out of what is
returned; that is not an error. Lock order: lease, job, progress, workflow, change counter.
"""

from dispatcher.db.job_moves.approvals import decide, expire
from dispatcher.db.job_moves.cancels import Canceled, cancel, cancel_jobs
from dispatcher.db.job_moves.claims import Claimed, claim, return_jobs
from dispatcher.db.job_moves.endings import Finished, finish, finish_workflows
from dispatcher.db.job_moves.pending import Started, StartRow, begin, refuse, start

__all__ = [
    "Canceled",
    "Claimed",
    "Finished",
    "StartRow",
    "Started",
    "begin",
    "cancel",
    "cancel_jobs",
    "claim",
    "decide",
    "expire",
    "finish",
    "finish_workflows",
    "refuse",
    "return_jobs",
    "start",
]
