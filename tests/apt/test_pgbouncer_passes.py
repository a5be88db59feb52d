"""Leases and passes through pgbouncer in transaction mode, where no session state survives."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from dispatcher.broker.messages import Manager
from dispatcher.settings import Settings
from tests.factories import make_node
from tests.integration.test_manager_lease import (
    test_a_free_lease_is_taken_and_a_held_one_is_not,
    test_a_locked_row_is_busy_without_waiting,
    test_an_expired_lease_is_taken_by_another_holder,
    test_no_request_is_lost_whatever_the_order_of_steps,
    test_of_many_that_try_at_once_one_takes_it,
    test_renewing_keeps_the_lease_beyond_its_first_end,
    test_taking_ones_own_lease_again_raises_the_epoch,
    test_the_late_write_of_a_frozen_holder_is_refused,
)
from tests.passes import changed, make_jobs, runner, statuses

__all__ = [
    "test_a_free_lease_is_taken_and_a_held_one_is_not",
    "test_a_locked_row_is_busy_without_waiting",
    "test_an_expired_lease_is_taken_by_another_holder",
    "test_no_request_is_lost_whatever_the_order_of_steps",
    "test_of_many_that_try_at_once_one_takes_it",
    "test_renewing_keeps_the_lease_beyond_its_first_end",
    "test_taking_ones_own_lease_again_raises_the_epoch",
    "test_the_late_write_of_a_frozen_holder_is_refused",
]


@pytest.fixture
def settings(settings: Settings, pgbouncer_url: str) -> Settings:
    """The same database, through pgbouncer."""
    return settings.model_copy(update={"database_url": pgbouncer_url})


def test_every_manager_makes_its_pass(engine: Engine, settings: Settings) -> None:
    with changed(engine) as connection:
        make_node(connection, capacity=1_000, max_jobs=1_000)
        make_jobs(connection, 150, dependencies_processed=False)
    with runner(settings) as running:
        for manager in Manager:
            assert running.trigger(manager) == "complete"
    assert statuses(engine) == {"waiting": 150}
