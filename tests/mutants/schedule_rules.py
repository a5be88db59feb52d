"""Rules of schedules, broken one by one: what was missed, clock changes, once each, one bad rule."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_RULES = "dispatcher/domain/schedule.py"
_TIMES = ("tests/unit/test_schedule.py",)
_PLAN = ("tests/unit/test_plan_schedules.py",)
_DUE = (
    "tests/integration/test_due_schedules.py::test_a_due_time_that_was_launched_before_is_not_launched_again",
)

SCHEDULE_MUTANTS: list[Mutant] = [
    Mutant(
        "what is due now is launched under every policy",
        _RULES,
        "on_time = newest(timing, max(edge, next_run) - _TICK, now, 2)",
        "on_time: list[datetime] = []",
        _TIMES,
    ),
    Mutant(
        "skip: what was missed is not launched",
        _RULES,
        'if misfire == "skip" or (misfire == "once" and on_time):',
        'if misfire == "once" and on_time:',
        _TIMES,
    ),
    Mutant(
        "once: nothing is made up for when one is due anyway",
        _RULES,
        'if misfire == "skip" or (misfire == "once" and on_time):',
        'if misfire == "skip":',
        _TIMES,
    ),
    Mutant(
        "once: one launch for all that was missed",
        _RULES,
        'wanted = 1 if misfire == "once" else min(limit, MOST_MISSED)',
        "wanted = min(limit, MOST_MISSED)",
        _TIMES,
    ),
    Mutant(
        "all: at most the limit",
        _RULES,
        'wanted = 1 if misfire == "once" else min(limit, MOST_MISSED)',
        'wanted = 1 if misfire == "once" else MOST_MISSED',
        _TIMES,
    ),
    Mutant(
        "a time of the last minute was not missed",
        _RULES,
        "MISSED_AFTER: Final = timedelta(minutes=1)",
        "MISSED_AFTER: Final = timedelta(seconds=1)",
        _TIMES,
    ),
    Mutant(
        "a schedule moves on past now",
        "schedulers/core/plan_schedules.py",
        "next_after(timing, max(now, schedule.next_run)),",
        "next_after(timing, schedule.next_run),",
        _PLAN,
    ),
    Mutant(
        "a rule that cannot be evaluated disables its schedule",
        "schedulers/core/plan_schedules.py",
        "    except ScheduleError as error:",
        "    except KeyError as error:",
        _PLAN,
    ),
    Mutant(
        "a burst is cut",
        "schedulers/core/plan_schedules.py",
        "or launches >= MOST_LAUNCHES):",
        "or False):",
        _PLAN,
    ),
    Mutant(
        "a due time that was launched is not launched again",
        "dispatcher/db/schedule_rows.py",
        "ON CONFLICT (schedule_id, due) DO NOTHING RETURNING schedule_id, due",
        "ON CONFLICT (schedule_id, due) DO UPDATE SET error = '' RETURNING schedule_id, due",
        _DUE,
    ),
]
