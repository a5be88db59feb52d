"""The agent: supervises this node's playbooks, stores their events, renews the node's lease.

Threads: the main one (ends and signs of life of supervisors, signals), ``lease``, ``claims``,
``shipper``, ``courier`` (broker), ``handover`` (socket) and a few that prepare and clear away. Database
connections: one each for lease, claims, shipping and content; never more, whatever runs.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from dispatcher import clock, logs
from dispatcher.broker.celery_app import make_app
from dispatcher.broker.messages import Manager, wake
from dispatcher.broker.publish import Publisher
from dispatcher.db import node_rows
from dispatcher.db.engine import make_engine, transaction
from dispatcher.health import Health
from dispatcher.metrics import RUNNING_JOBS
from dispatcher.secrets import Cipher
from dispatcher.settings import Settings, node_name
from workers import node_lease
from workers.agent_signals import Signals
from workers.claim import Claimer
from workers.content_cache import ContentCache
from workers.content_connection import ContentConnection
from workers.courier import Courier
from workers.deliver_update import Delivery
from workers.enter_cluster import Entered, enter_cluster
from workers.finish import Clearing
from workers.handover import HandoverServer
from workers.node_identity import AgentLock, make_data_dir
from workers.node_loop import NodeLoop
from workers.prepare import THREADS, Preparer
from workers.recover_runs import Recovery
from workers.runs import Phase, Run, Runs, Verdict
from workers.shipper import Shipper
from workers.stopping import Stopping
from workers.supervisors import FENCED, Supervisors

#: Exit codes that the parent reads.
STOPPED: Final = 0
NOT_FIT: Final = 2
LOST_LEASE: Final = 3
#: Seconds that an earlier agent, whose parent died, may take to let go of the data directory.
_LOCK_PATIENCE: Final = 3.0
_LOOP_SECONDS: Final = 0.5
_FENCE_SECONDS: Final = 3.0


class Agent:
    """One agent process, from its registration to its end."""

    def __init__(self, settings: Settings, name: str, cipher: Cipher, stop: Signals) -> None:
        self._settings = settings
        self._log = logs.get(__name__)
        self._signals = stop
        self._fenced = threading.Event()
        self._engines = {
            use: make_engine(settings, application_name=f"dispatcher-node {name} {use}")
            for use in ("lease", "claims", "events", "content")
        }
        self._health = Health(settings, "worker")
        self._health.serve(settings.worker_metrics_port)
        self._name = name
        self._cipher = cipher
        self._runs = Runs()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="prepare")
        self._supervisors = Supervisors(settings, name, self._runs, self._supervisor_ended)
        self._publisher = Publisher(make_app(settings, profile="publisher"))
        self._courier = Courier(self._publisher)
        self._shipper = Shipper(self._engines["events"], self._runs, self._courier)
        self._content = ContentConnection(self._engines["content"])
        delivery = Delivery(settings, self._content, self._courier)
        self._clearing = Clearing(self._pool, self._runs, self._cleared, delivery.deliver)

    # -- life

    def run(self) -> int:
        """Until told to stop, or fenced. Returns the exit code."""
        stop = self._signals
        stop.on_signal = self._supervisors.wake
        # its imports take longer than the rest of the start; whoever needs it first waits for it
        self._pool.submit(self._supervisors.open)
        entered = enter_cluster(
            self._settings, self._name, self._engines["claims"], self._health, stop.asked
        )
        if entered is None:
            return STOPPED
        self._assemble(entered)
        self._lease.start(entered.sent)
        self._courier.start()
        self._courier.owe(entered.owed)
        self._cache.clear_leftovers()
        self._loop.take_over()
        self._shipper.start()
        self._loop.start()
        self._handover.start()
        self._log.info("the node takes jobs", node_id=entered.node_id, epoch=entered.epoch)
        code = self._watch()
        self._end(entered, code)
        return code

    def _assemble(self, entered: Entered) -> None:
        settings, runs, engine = self._settings, self._runs, self._engines["claims"]
        of_node = {"node_id": entered.node_id, "epoch": entered.epoch}
        self._cache = ContentCache(
            settings.data_dir / "cache",
            self._content.bundle,
            bound=settings.cache_bytes,
            largest=settings.max_bundle_unpacked_bytes,
        )
        self._preparer = preparer = Preparer(
            settings,
            self._name,
            self._cache,
            self._cipher,
            self._pool,
            self._content.inventory,
            self._content.credentials,
            self._prepared,
        )
        recovery = Recovery(settings, engine, runs, self._supervisors, self._clearing, **of_node)
        claimer = Claimer(
            settings,
            engine,
            runs,
            self._supervisors,
            preparer,
            recovery,
            self._shipper,
            self._courier,
            **of_node,
        )
        self._loop = NodeLoop(
            settings,
            engine,
            runs,
            claimer,
            recovery,
            self._shipper,
            self._courier,
            node_id=entered.node_id,
        )
        self._lease = node_lease.NodeLease(
            settings,
            self._engines["lease"],
            on_refused=self._lease_refused,
            on_suspect=self._loop.suspect_ended,
            **of_node,
        )
        self._handover = HandoverServer(settings.data_dir, self._loop.take)
        self._stopping = Stopping(settings, runs, self._supervisors, self._loop)

    def _watch(self) -> int:
        """The main loop."""
        seen = 0
        self._say()
        while True:
            self._supervisors.watch(0.1 if self._stopping.under_way else _LOOP_SECONDS)
            if self._fenced.is_set():
                self._fence()
                return LOST_LEASE
            if self._signals.parent_gone and not self._stopping.under_way:
                self._stopping.detach()
            while seen < self._signals.count:
                seen += 1
                self._stopping.ask()
            if self._stopping.done():
                return STOPPED
            self._clearing.retry()
            self._say()

    def _say(self) -> None:
        RUNNING_JOBS.set(len(self._runs.at(Phase.STARTED)))
        reasons = {}
        if self._loop.away or self._shipper.away:
            reasons["database"] = "not reachable"
        if not self._courier.broker_reachable:
            reasons["broker"] = "not reachable"
        if self._loop.not_accepting:
            reasons["accepting"] = self._loop.not_accepting
        self._health.say(reasons)

    def _fence(self) -> None:
        """The lease is another's: every playbook is killed at once, then this process ends."""
        self._log.error("the node's lease was refused: all playbooks are killed")
        for run in self._runs.at(Phase.STARTED):
            if run.stop_asked_at is None:
                self._supervisors.request_stop(run, "fenced")
            else:  # its supervisor grants it a grace, and reads no second reason
                self._supervisors.kill(run, FENCED)
        deadline = clock.monotonic() + _FENCE_SECONDS
        while self._runs.at(Phase.STARTED) and clock.monotonic() < deadline:
            self._supervisors.watch(0.1)
        self._supervisors.kill_all(FENCED)
        while self._runs.at(Phase.STARTED) and clock.monotonic() < deadline + 1:
            self._supervisors.watch(0.1)

    def _end(self, entered: Entered, code: int) -> None:
        self._handover.stop()
        self._loop.stop()
        self._shipper.stop()
        self._lease.stop()
        if code == STOPPED and not self._runs.unfinished() and not self._loop.away:
            self._leave(entered)
        self._courier.stop()
        self._supervisors.close()
        self._preparer.close()
        self._pool.shutdown(wait=False, cancel_futures=True)
        for engine in self._engines.values():
            engine.dispose()
        self._health.close()
        self._log.info("the agent ends", runs_left=len(self._runs.at(Phase.STARTED)))

    def _leave(self, entered: Entered) -> None:
        try:
            with transaction(self._engines["claims"]) as connection:
                left = node_rows.leave(connection, node_id=entered.node_id, epoch=entered.epoch)
        except SQLAlchemyError as error:
            # the lease lapses by itself; what follows the end of this process must not wait for it
            self._log.warning("the node's lease is left to lapse", error=logs.in_short(error))
            return
        if left:
            self._courier.owe(wake(Manager.TASK))

    # -- what one part tells the others

    def _supervisor_ended(self, run: Run) -> None:
        self._clearing.submit(run)

    def _cleared(self) -> None:
        self._shipper.wake()
        self._loop.wake()

    def _prepared(self, run: Run) -> None:
        self._loop.wake()

    def _lease_refused(self) -> None:
        self._fenced.set()
        self._loop.refusal = Verdict(FENCED.outcome, FENCED.explanation)
        self._supervisors.wake()


def run(settings: Settings, parent: int | None) -> int:
    """Run the agent of this node until it is told to stop.

    Args:
        parent: pid of the worker's parent process, if it has one.

    Returns:
        :data:`STOPPED` or :data:`LOST_LEASE`.

    Raises:
        ConfigurationError: settings, key file, name or data directory are not fit.
    """
    os.umask(0o077)
    signals = Signals()
    signals.install(parent)
    node_lease.assert_constants(settings)
    name = node_name(settings)
    logs.configure(settings, role="agent", node=name)
    make_data_dir(settings.data_dir)
    AgentLock(settings.data_dir).take(patience=_LOCK_PATIENCE)
    cipher = Cipher(settings.key_file or settings.data_dir / "cluster.key")
    return Agent(settings, name, cipher, signals).run()
