"""A node's start: waits for the database, checks the schema, registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from dispatcher import __version__, clock, logs
from dispatcher.actions.register_node import register_node
from dispatcher.broker.messages import Owed
from dispatcher.db.engine import transaction
from dispatcher.db.schema_check import check_schema
from dispatcher.health import Health
from dispatcher.settings import Settings
from workers.measure_capacity import measure
from workers.node_identity import identity, machine_id

_RETRY_SECONDS: Final = 0.5


@dataclass(frozen=True)
class Entered:
    """A registration.

    Attributes:
        sent: CLOCK_BOOTTIME just before it was sent: the first lease counts from here.
    """

    node_id: int
    epoch: int
    owed: Owed
    sent: float


def enter_cluster(
    settings: Settings,
    name: str,
    engine: Engine,
    health: Health,
    is_stopping: Callable[[], bool],
) -> Entered | None:
    """Register this node; wait for the database as long as it takes.

    Returns:
        None when the process was told to stop meanwhile.

    Raises:
        ConfigurationError: the schema does not fit, or the name is another node's.
    """
    log = logs.get(__name__)
    waiting = False
    while not is_stopping():
        try:
            return _register(settings, name, engine)
        except SQLAlchemyError as error:
            if not waiting:
                waiting = True
                log.warning("waiting for the database", error=logs.in_short(error))
            health.say({"database": "not reachable"})
            clock.sleep(_RETRY_SECONDS)
    return None


def _register(settings: Settings, name: str, engine: Engine) -> Entered:
    machine = measure()
    groups = [word.strip() for word in settings.node_groups.split(",") if word.strip()]
    sent = clock.boottime()
    with transaction(engine) as connection:
        check_schema(connection)
        registered = register_node(
            connection,
            name=name,
            identity=identity(settings.data_dir),
            machine_id=machine_id(),
            groups=groups,
            cpus=machine.cpus,
            memory=machine.memory,
            fixed_capacity=settings.node_capacity,
            adjustment=settings.capacity_adjustment,
            max_jobs=settings.node_max_jobs,
            version=__version__,
        )
    return Entered(registered.node_id, registered.epoch, registered.owed, sent)
