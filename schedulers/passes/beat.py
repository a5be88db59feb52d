"""``dispatcher beat``: Celery beat with a lease; triggers each manager on its own period and queue.

Two beats may run: one leads, the other stands by and follows within the lease, also when the leader
is frozen. While the database is away every beat ticks: a surplus tick costs one short pass, a
missing one costs time (docs/protocols.md 1.5).
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Final

from celery.beat import ScheduleEntry, Scheduler, Service
from celery.schedules import schedule
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from dispatcher import clock, logs
from dispatcher.broker.celery_app import make_app
from dispatcher.broker.messages import RUN_MANAGER, Manager, manager_payload, manager_queue
from dispatcher.broker.publish import Publisher
from dispatcher.db.clock_difference import measure_clock
from dispatcher.db.engine import make_engine, transaction
from dispatcher.db.schema_check import SchemaWatch
from dispatcher.errors import LeaseLost
from dispatcher.health import Health
from dispatcher.settings import Settings
from schedulers.passes import manager_lease
from schedulers.passes.holder import Holder
from schedulers.passes.manager_lease import Lease
from schedulers.passes.start import await_schema, check_settings, first_line
from schedulers.passes.works import period

log = logs.get(__name__)

LEASE_NAME: Final = "beat"
#: Seconds a beat's lease lives without renewal.
LEASE_SECONDS: Final = 15.0
#: Seconds between two renewals of the leader.
RENEW_EVERY: Final = 3.0
#: Seconds between two tries of a beat that stands by.
TRY_EVERY: Final = 1.0
#: Seconds of one sleep, at most: the bound of a stop.
LONGEST_SLEEP: Final = 0.5


class Leadership:
    """Whether this beat ticks: it leads, or nobody can tell because the database is away."""

    def __init__(self, engine: Engine, schema: SchemaWatch | None = None) -> None:
        self._engine = engine
        self._schema = schema or SchemaWatch()
        self._holder = Holder.of_this_process()
        self._lease: Lease | None = None
        self._due = 0.0
        self.database_away = False

    @property
    def leads(self) -> bool:
        """Whether this beat has the lease."""
        return self._lease is not None

    def ticks(self) -> bool:
        """Renew or try to take the lease when that is due; whether to tick now.

        Raises:
            SchemaError: a migration has made the schema one that this code does not go with.
        """
        if clock.monotonic() >= self._due:
            try:
                with transaction(self._engine) as connection:
                    self._schema.look(connection)
                    measure_clock(connection)
                self._lease = self._renewed() or self._taken()
                self.database_away = False
            except DBAPIError as error:
                # away, or too slow to answer: either way nobody can say who leads
                if not self.database_away:
                    log.warning("the database is away: ticking anyway", error=first_line(error))
                self.database_away = True
            self._due = clock.monotonic() + (RENEW_EVERY if self.leads else TRY_EVERY)
        return self.leads or self.database_away

    def release(self) -> None:
        """Give the lease back, so that another beat follows at once."""
        if self._lease is None:
            return
        try:
            with transaction(self._engine, lock_timeout=1.0) as connection:
                manager_lease.renew(connection, self._lease)
                manager_lease.release(connection, self._lease, completed=True)
        except (DBAPIError, LeaseLost) as error:
            log.debug("lease left to expire", error=first_line(error))
        self._lease = None

    def _renewed(self) -> Lease | None:
        if self._lease is None:
            return None
        try:
            with transaction(self._engine, lock_timeout=1.0) as connection:
                manager_lease.renew(connection, self._lease)
            return self._lease
        except LeaseLost:
            log.warning("another beat leads now")
            return None

    def _taken(self) -> Lease | None:
        lease = manager_lease.take(self._engine, LEASE_NAME, self._holder, LEASE_SECONDS)
        if lease is not None:
            log.info("this beat leads", epoch=lease.epoch)
        return lease


class LeadingScheduler(Scheduler):  # type: ignore[misc]
    """Celery's scheduler with its schedule in memory, ticking only while it may."""

    leadership: Leadership
    publisher: Publisher
    health: Health
    broker_answers = True

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """One round of Celery's loop; the seconds to sleep."""
        ticks = self.leadership.ticks()
        missing = {
            "database": self.leadership.database_away,
            "broker": ticks and not self.broker_answers,
        }
        self.health.say({name: "not reachable" for name, away in missing.items() if away})
        if not ticks:
            return LONGEST_SLEEP
        return float(super().tick(*args, **kwargs))

    def apply_async(
        self, entry: ScheduleEntry, producer: Any = None, advance: bool = True, **kwargs: Any
    ) -> None:
        """Trigger a manager; bounded in time, and a failure is the timer's matter."""
        if advance:
            self.reserve(entry)
        manager = Manager(entry.args[0]["manager"])
        self.broker_answers = self.publisher.trigger(manager, "beat")


def entries(settings: Settings) -> dict[str, dict[str, Any]]:
    """The schedule: each manager on its own period and queue."""
    return {
        str(manager): {
            "task": RUN_MANAGER,
            "schedule": schedule(period(settings, manager)),
            "args": (manager_payload(manager, "beat"),),
            "options": {"queue": manager_queue(manager)},
        }
        for manager in Manager
    }


def run(settings: Settings) -> int:
    """Tick until told to end; the exit code.

    Raises:
        ConfigurationError: a setting is missing or not fit, or the schema does not fit, now or
            later.
    """
    logs.configure(settings, role="beat")
    check_settings(settings)
    health = Health(settings, "beat")
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: ending.set())
    engine = make_engine(settings, application_name="dispatcher beat")
    port = health.serve(settings.beat_metrics_port)
    try:
        if await_schema(engine, health, ending.is_set):
            log.info("beat started", port=port or None)
            tick_until(settings, Leadership(engine), health, ending)
            log.info("beat stopped")
    finally:
        health.close()
    return 0


def tick_until(
    settings: Settings, leadership: Leadership, health: Health, ending: threading.Event
) -> None:
    """Tick until a signal, then give the lease back.

    Args:
        settings: periods and broker.
        leadership: whether to tick.
        health: what is said of it.
        ending: set when the signal has come already.

    Raises:
        SchemaError: a migration has made the schema one that this code does not go with.
    """
    service = _service(settings, leadership, health)

    def end(_number: int, _frame: FrameType | None) -> None:
        service.stop()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    try:
        if not ending.is_set():
            service.start()
    finally:
        leadership.release()


def _service(settings: Settings, leadership: Leadership, health: Health) -> Service:
    app = make_app(settings, profile="publisher")
    app.conf.beat_schedule = entries(settings)
    scheduler = type(
        "ThisScheduler",
        (LeadingScheduler,),
        {"leadership": leadership, "publisher": Publisher(app), "health": health},
    )
    return Service(app, max_interval=LONGEST_SLEEP, scheduler_cls=scheduler)
