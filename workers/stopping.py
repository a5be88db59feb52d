"""What a SIGTERM does to the playbooks of this node: drain, detach or cancel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dispatcher import clock, logs
from dispatcher.domain.outcome import Outcome
from dispatcher.settings import Settings
from workers.node_loop import NodeLoop
from workers.runs import Phase, Runs, Verdict
from workers.supervisors import Supervisors

#: ``cancel``: seconds after which supervisors are killed, and after which the agent ends anyway.
KILL_AFTER: Final = 4.5
GIVE_UP_AFTER: Final = 7.5
#: ``detach``: seconds that claimed runs have to be started, and the database to hear of it.
SETTLE: Final = 5.0

_CANCELED: Final = Verdict(Outcome.CANCELED, "canceled: the worker was stopped")
_UNSTARTED: Final = (Phase.CLAIMING, Phase.PREPARING, Phase.READY)


class Stopping:
    """One stop, step by step, driven by the agent's main loop."""

    def __init__(
        self, settings: Settings, runs: Runs, supervisors: Supervisors, loop: NodeLoop
    ) -> None:
        self._policy: str = settings.stop_policy
        self._drain_limit = settings.drain_limit
        self._runs = runs
        self._supervisors = supervisors
        self._loop = loop
        self._log = logs.get(__name__)
        self._began: float | None = None
        self._asked = 0
        self._step: Callable[[float], bool] = self._drain

    @property
    def under_way(self) -> bool:
        """Whether a stop was asked for."""
        return self._began is not None

    def ask(self) -> None:
        """Begin; asked again, go quicker."""
        self._asked += 1
        if self._began is None:
            self._begin(self._policy)
        elif self._policy == "drain":
            self._begin("detach")

    def detach(self) -> None:
        """Let go at once, whatever the policy: nobody is left to wait for."""
        self._begin("detach")

    def done(self) -> bool:
        """Go one step on; whether the agent may end."""
        return self._began is not None and self._step(clock.monotonic() - self._began)

    def _begin(self, policy: str) -> None:
        self._policy = policy
        self._began = clock.monotonic()
        self._log.info("stopping", policy=policy, unfinished=self._runs.unfinished())
        words = {
            "drain": "draining: the worker is being stopped",
            "detach": "the worker is stopped; its playbooks go on",
            "cancel": "the worker is being stopped",
        }
        steps = {"drain": self._drain, "detach": self._detach, "cancel": self._cancel}
        self._step = steps[policy]
        if policy == "cancel":
            self._loop.refusal = _CANCELED
        self._loop.stop_claiming(words[policy])

    def _drain(self, elapsed: float) -> bool:
        if not self._runs.unfinished() and self._is_said(elapsed):
            return True
        if elapsed > self._drain_limit:
            self._log.warning("draining took too long: detaching")
            self._begin("detach")
        return False

    def _detach(self, elapsed: float) -> bool:
        """What is claimed is started first: a run left between the two would end in error."""
        return elapsed > SETTLE or (not self._runs.at(*_UNSTARTED) and self._is_said(elapsed))

    def _cancel(self, elapsed: float) -> bool:
        for run in self._runs.at(Phase.STARTED):
            self._supervisors.request_stop(run, "shutdown")
        if elapsed > KILL_AFTER or self._asked > 1:
            self._supervisors.kill_all(_CANCELED)
        if not self._runs.unfinished() and self._is_said(elapsed):
            return True
        return elapsed > GIVE_UP_AFTER

    def _is_said(self, elapsed: float) -> bool:
        """Whether the database knows that nothing is claimed here, or cannot be told."""
        return self._loop.said != "" or (self._loop.away and elapsed > 1)
