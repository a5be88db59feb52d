"""Why a job ended as it did: outcome, status, exit code and v1's word, in one table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dispatcher.domain.status import Status


class Outcome(StrEnum):
    """The reason of a final status."""

    SUCCESSFUL = "successful"
    FAILED_HOSTS = "failed_hosts"
    UNREACHABLE = "unreachable"
    NO_HOSTS = "no_hosts"
    TIMEOUT = "timeout"
    IDLE = "idle"
    WAITS_FOR_INPUT = "waits_for_input"
    DEPENDENCY = "dependency"
    DENIED = "denied"
    WORKFLOW_FAILED = "workflow_failed"
    REFUSED = "refused"
    PARSE_ERROR = "parse_error"
    PROJECT = "project"
    INVENTORY = "inventory"
    CREDENTIALS = "credentials"
    INCOMPLETE = "incomplete"
    INTERNAL = "internal"
    NODE_LOST = "node_lost"
    FENCED = "fenced"
    CANCELED = "canceled"


@dataclass(frozen=True)
class OutcomeFacts:
    """What follows from an outcome.

    Attributes:
        status: the final status.
        exit_code: what ``dispatcher run`` exits with.
        v1: the word that REST v1 answers.
    """

    status: Status
    exit_code: int
    v1: str


_F, _E = Status.FAILED, Status.ERROR

FACTS: dict[Outcome, OutcomeFacts] = {
    Outcome.SUCCESSFUL: OutcomeFacts(Status.SUCCESSFUL, 0, "successful"),
    Outcome.FAILED_HOSTS: OutcomeFacts(_F, 1, "failed"),
    Outcome.UNREACHABLE: OutcomeFacts(_F, 5, "failed"),
    Outcome.NO_HOSTS: OutcomeFacts(_F, 6, "failed"),
    Outcome.TIMEOUT: OutcomeFacts(_F, 8, "timeout"),
    Outcome.IDLE: OutcomeFacts(_F, 8, "timeout"),
    Outcome.WAITS_FOR_INPUT: OutcomeFacts(_F, 7, "failed"),
    Outcome.DEPENDENCY: OutcomeFacts(_F, 7, "failed"),
    Outcome.DENIED: OutcomeFacts(_F, 7, "failed"),
    Outcome.WORKFLOW_FAILED: OutcomeFacts(_F, 1, "failed"),
    Outcome.REFUSED: OutcomeFacts(_F, 7, "failed"),
    Outcome.PARSE_ERROR: OutcomeFacts(_E, 7, "failed"),
    Outcome.PROJECT: OutcomeFacts(_E, 7, "failed"),
    Outcome.INVENTORY: OutcomeFacts(_E, 7, "failed"),
    Outcome.CREDENTIALS: OutcomeFacts(_E, 7, "failed"),
    Outcome.INCOMPLETE: OutcomeFacts(_E, 7, "failed"),
    Outcome.INTERNAL: OutcomeFacts(_E, 7, "failed"),
    Outcome.NODE_LOST: OutcomeFacts(_E, 7, "failed"),
    Outcome.FENCED: OutcomeFacts(_E, 7, "failed"),
    Outcome.CANCELED: OutcomeFacts(Status.CANCELED, 3, "canceled"),
}


#: Outcomes of runs whose processes were, or may have been, killed: a module that they had begun on a
#: host may outlive them there.
FORCED: frozenset[Outcome] = frozenset(
    {
        Outcome.TIMEOUT,
        Outcome.IDLE,
        Outcome.WAITS_FOR_INPUT,
        Outcome.INCOMPLETE,
        Outcome.INTERNAL,
        Outcome.NODE_LOST,
        Outcome.FENCED,
        Outcome.CANCELED,
    }
)


def status_of(outcome: Outcome) -> Status:
    """The final status that goes with an outcome."""
    return FACTS[outcome].status
