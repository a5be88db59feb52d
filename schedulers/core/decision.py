"""What a planner answers: values, rendered into words elsewhere, applied conditionally elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from dispatcher.domain.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a job stays pending: a stable code and the numbers and names that go with it.

    The codes, what their data holds and their words are in ``reasons.py``.
    """

    code: str
    data: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Start:
    """Start the job on this node, through this group."""

    job_id: int
    instance_group_id: int
    node_id: int


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin a workflow job; it needs no node."""

    job_id: int


@dataclass(frozen=True, slots=True)
class Block:
    """The job waits for another job."""

    job_id: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Hold:
    """The job waits for room."""

    job_id: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Fail:
    """The job cannot be started, ever."""

    job_id: int
    outcome: Outcome
    explanation: str


@dataclass(frozen=True, slots=True)
class Strike:
    """Deciding this job raised: it is left as it is, its tries are counted, the others go on.

    Attributes:
        error: the exception's class and words, for the log and the job's explanation.
    """

    job_id: int
    error: str


TaskDecision = Start | Begin | Block | Hold | Fail | Strike


@dataclass(frozen=True, slots=True)
class NewProjectUpdate:
    """An update of a project at a branch."""

    project_id: int
    branch: str


@dataclass(frozen=True, slots=True)
class NewInventoryUpdate:
    """An update from an inventory source; ``after``: the update of its project that it waits for."""

    source_id: int
    after: int | NewProjectUpdate | None = None


NewUpdate = NewProjectUpdate | NewInventoryUpdate


@dataclass(frozen=True, slots=True)
class LinkDependencies:
    """DependencyManager: the job's own dependencies are known; it may be considered.

    Attributes:
        depends_on: updates that are there already.
        updates: updates that are to be launched; equal ones, also of other jobs of the batch, are
            one job.
    """

    job_id: int
    depends_on: tuple[int, ...] = ()
    updates: tuple[NewUpdate, ...] = ()


@dataclass(frozen=True, slots=True)
class Spawn:
    """WorkflowManager: a node's turn has come; a job is made of it.

    Attributes:
        attempt: the number of this job among those of the node, from 1.
        artifacts_of: final jobs of its ancestors that left artifacts, in order of finishing.
    """

    workflow_job_id: int
    workflow_node_id: int
    attempt: int
    artifacts_of: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SkipNode:
    """WorkflowManager: this node will never run."""

    workflow_job_id: int
    workflow_node_id: int


@dataclass(frozen=True, slots=True)
class FailNode:
    """WorkflowManager: this node's turn has come and no job can be made of it."""

    workflow_job_id: int
    workflow_node_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class ExpireApproval:
    """WorkflowManager: nobody decided this approval in time."""

    workflow_job_id: int
    job_id: int


@dataclass(frozen=True, slots=True)
class CancelChild:
    """WorkflowManager: the workflow was canceled; so is this unfinished child."""

    workflow_job_id: int
    job_id: int


@dataclass(frozen=True, slots=True)
class FinishWorkflow:
    """WorkflowManager: every node of the workflow is decided and none is active.

    Attributes:
        artifacts_of: jobs of its nodes that left artifacts, in order of finishing: together they
            are the workflow's own.
    """

    workflow_job_id: int
    outcome: Outcome
    explanation: str
    artifacts_of: tuple[int, ...] = ()


WorkflowDecision = Spawn | SkipNode | FailNode | ExpireApproval | CancelChild | FinishWorkflow


@dataclass(frozen=True, slots=True)
class Resubmit:
    """Recovery: the submission of this waiting job is repeated."""

    job_id: int
    dispatch_id: UUID
    node_name: str


@dataclass(frozen=True, slots=True)
class Return:
    """Recovery: this dispatch of a waiting job is withdrawn; the job goes back to pending."""

    job_id: int
    dispatch_id: UUID
    reason: Reason


@dataclass(frozen=True, slots=True)
class FinishLost:
    """Recovery: this running job of a lost node ends as ``node_lost``."""

    job_id: int
    dispatch_id: UUID
    node_name: str


@dataclass(frozen=True, slots=True)
class Watch:
    """Recovery: a tick of this node was counted; the row of ``node_watch`` becomes this.

    Its ``ticked_at`` becomes the database's clock as it stood in the snapshot.
    """

    node_id: int
    seq: int
    missed: int


@dataclass(frozen=True, slots=True)
class SetNodeState:
    """Recovery: a node's lease changes state, if its ``seq`` is still the one observed."""

    node_id: int
    state: str
    observed_seq: int


NodeDecision = Watch | SetNodeState
RecoveryDecision = Resubmit | Return | FinishLost
