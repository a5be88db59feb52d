"""Fences against faults of the ancestors, removed one by one (tests/architecture/test_ancestors.py)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_FENCES = "tests/integration/test_fences.py"
_TASK = "tests/integration/test_task_manager.py"
_MOVES = "tests/integration/test_job_moves.py"

FENCE_MUTANTS: list[Mutant] = [
    Mutant(
        "a pass commits window by window",
        "schedulers/passes/windows.py",
        "SIZES: Final = (100, 500, 4_000)",
        "SIZES: Final = (100_000,)",
        (f"{_FENCES}::test_a_pass_that_is_killed_loses_no_more_than_the_window_in_hand",),
    ),
    Mutant(
        "a pass reads at most pass_rows",
        "schedulers/passes/windows.py",
        "or len(self._seen) >= self._pass.settings.pass_rows",
        "or False",
        (f"{_FENCES}::test_a_pass_reads_no_more_rows_than_it_may_whatever_the_backlog",),
    ),
    Mutant(
        "what cannot run hides nothing behind it",
        "dispatcher/db/snapshots.py",
        "more = any(read[tenant] >= share for tenant, share in shares.items())",
        "more = False",
        (f"{_FENCES}::test_a_runnable_new_job_starts_in_one_run_behind_many_that_cannot",),
    ),
    Mutant(
        "a backlog of several passes is walked once",
        "schedulers/passes/windows.py",
        "                self._walk = manager_lease.read_walk(connection, self._lease)\n",
        "                self._walk = None\n",
        (f"{_TASK}::test_a_backlog_of_several_passes_is_fruitless_once_it_was_walked",),
    ),
    Mutant(
        "a walk counts from its head",
        "schedulers/passes/windows.py",
        "                self._walk = manager_lease.read_walk(connection, self._lease)\n",
        "                self._walk = Walk(counter, due=None)\n",
        (f"{_TASK}::test_a_change_during_a_walk_of_several_passes_makes_the_next_pass_look_again",),
    ),
    Mutant(
        "a walk over which somebody died does not count",
        "schedulers/passes/manager_lease.py",
        "WHERE manager = :name AND epoch = :epoch - 1",
        "WHERE manager = :name AND epoch < :epoch",
        (f"{_TASK}::test_a_walk_whose_pass_was_killed_is_made_again",),
    ),
    Mutant(
        "the epoch refuses late writes",
        "schedulers/passes/manager_lease.py",
        'WHERE manager = :name AND epoch = :epoch"\n            ),\n            {"name": lease.name, "epoch": lease.epoch, "seconds"',
        'WHERE manager = :name AND :epoch > 0"\n            ),\n            {"name": lease.name, "epoch": lease.epoch, "seconds"',
        (
            "tests/integration/test_manager_lease.py::test_the_late_write_of_a_frozen_holder_is_refused",
        ),
    ),
    Mutant(
        "what a planner raises costs one job",
        "schedulers/passes/windows.py",
        "        except Exception as error:\n            # whatever a planner",
        "        except KeyboardInterrupt as error:\n            # whatever a planner",
        (f"{_TASK}::test_a_job_whose_planning_raises_is_set_aside_and_the_others_start",),
    ),
    Mutant(
        "dependencies are a job's own",
        "schedulers/core/plan_dependencies.py",
        "for each in world.sources_of.get(job.inventory_id or 0, ())",
        "for each in world.sources",
        ("tests/unit/test_plan_dependencies.py",),
    ),
    Mutant(
        "submissions need no database connection",
        "schedulers/passes/manager_pass.py",
        "            self._round.publish(owed)\n",
        "            __import__('sqlalchemy').create_engine(self._engine.url).connect()\n"
        "            self._round.publish(owed)\n",
        (
            f"{_TASK}::test_a_pass_starts_and_submits_while_somebody_holds_every_database_connection",
        ),
    ),
    Mutant(
        "time-outs end with their transaction",
        "dispatcher/db/engine.py",
        "set_config('lock_timeout', :lock, true)",
        "set_config('lock_timeout', :lock, false)",
        (f"{_FENCES}::test_leases_need_nothing_of_a_session",),
    ),
    Mutant(
        "a message has a hundred starts at most",
        "dispatcher/broker/messages.py",
        "PAIRS_PER_MESSAGE: Final = 100",
        "PAIRS_PER_MESSAGE: Final = 1_000",
        (
            "tests/integration/test_publish.py::test_starts_go_in_messages_of_at_most_a_hundred_to_their_nodes_queues",
        ),
    ),
    Mutant(
        "an end belongs to its dispatch",
        "dispatcher/db/job_moves/endings.py",
        "AND dispatch_id IS NOT DISTINCT FROM CAST(:dispatch AS uuid)",
        "AND (dispatch_id IS NULL OR CAST(:dispatch AS uuid) IS NOT NULL)",
        (f"{_MOVES}::test_finish_of_another_dispatch_changes_nothing",),
    ),
    Mutant(
        "capacity is that of the container",
        "workers/measure_capacity.py",
        "memory=total if memory is None else min(int(memory), total),",
        "memory=total,",
        ("tests/unit/test_measure_capacity.py",),
    ),
    Mutant(
        "no success with events missing",
        "workers/finish.py",
        "if ending.total is None or ending.total == stored:",
        "if True:",
        (
            "tests/integration/test_shipper.py::test_a_run_with_events_missing_never_ends_successful",
        ),
    ),
    Mutant(
        "a requested cancel wins",
        "dispatcher/db/job_moves/endings.py",
        "status = CASE WHEN cancel_requested THEN 'canceled' ELSE :status END,",
        "status = :status,",
        (f"{_MOVES}::test_a_requested_cancel_wins_over_what_the_run_reached",),
    ),
    Mutant(
        "a pass without touches looks at no workflow",
        "schedulers/passes/workflow_manager.py",
        "return bool(workflow_snapshots.touched_ids(connection, 0, 1))",
        "return True",
        (
            "tests/integration/test_workflow_manager.py::test_a_pass_without_touches_is_fruitless_whatever_else_changes",
        ),
    ),
    Mutant(
        "a cancel reaches what runs",
        "dispatcher/db/job_moves/cancels.py",
        "WHERE job.id = locked.id AND status IN ('pending', 'waiting', 'running')",
        "WHERE job.id = locked.id AND status IN ('pending', 'waiting')",
        (f"{_MOVES}::test_cancel_of_a_running_job_is_a_request_and_says_where_it_runs",),
    ),
    Mutant(
        "nothing on a job's path writes its template's row",
        "dispatcher/db/job_moves/endings.py",
        "    written = Outcome(row.outcome)\n",
        "    written = Outcome(row.outcome)\n"
        "    connection.execute(text('UPDATE job_template SET modified = dispatcher_now()'))\n",
        (f"{_FENCES}::test_ends_of_one_templates_jobs_meet_on_no_row_of_it",),
    ),
    Mutant(
        "a plain end wakes the TaskManager",
        "workers/finish.py",
        "owed = wake(Manager.TASK, *((Manager.WORKFLOW,) if touched else ()))",
        "owed = wake(*((Manager.WORKFLOW,) if touched else ()))",
        (f"{_FENCES}::test_whatever_ends_a_job_wakes_who_waits_for_it",),
    ),
    Mutant(
        "a plain end touches its workflow",
        "workers/finish.py",
        "touched = touch_workflows_of(connection, [job.in_workflow for job in done])",
        "touched = False",
        (f"{_FENCES}::test_whatever_ends_a_job_wakes_who_waits_for_it",),
    ),
    Mutant(
        "a reason names the jobs that hold what is lacking",
        "schedulers/core/blocking.py",
        '"jobs": named(found.holders),',
        '"jobs": [],',
    ),
    Mutant(
        "an explanation tells every blocker",
        "schedulers/core/explain.py",
        "    yield from blocking.by_jobs(ledger, job)\n",
        "    yield from [*blocking.by_jobs(ledger, job)][:0]\n",
        ("tests/unit/test_explain.py",),
    ),
]
