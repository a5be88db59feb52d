"""Recovery's rules, broken one by one: counting, states, returns, submissions, ends, retention."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, of_planner

_RETRIES = "tests/integration/test_retries.py"
_RETENTION = "tests/integration/test_retention.py"
_IN_SQL = "dispatcher/db/retention.py"

RECOVERY_MUTANTS: list[Mutant] = [
    *of_planner(
        "plan_recovery",
        (
            "misses are counted, not skipped",
            "missed = node.missed + 1 if node.seq == node.watched_seq else 0",
            "missed = node.missed if node.seq == node.watched_seq else 0",
        ),
        (
            "a renewal sets the count to nothing",
            "missed = node.missed + 1 if node.seq == node.watched_seq else 0",
            "missed = node.missed + 1 if node.seq == node.watched_seq else node.missed",
        ),
        (
            "at most one tick in five seconds",
            "if 0 <= elapsed < TICK_SECONDS:",
            "if False:",
        ),
        (
            "a clock that was set back is a tick",
            "if 0 <= elapsed < TICK_SECONDS:",
            "if elapsed < TICK_SECONDS:",
        ),
        (
            "a node seen for the first time is only remembered",
            "return (Watch(node.node_id, node.seq, 0),)\n    if node.state",
            "return (Watch(node.node_id, node.seq, 1),)\n    if node.state",
        ),
        (
            "a lost node stays lost",
            '    if node.state == "lost":\n        return (Watch(node.node_id, node.seq, 0),) if node.missed else ()\n',
            "",
        ),
        (
            "two misses more than fill node_lost_after",
            "return ceil(node_lost_after / TICK_SECONDS) + 2",
            "return ceil(node_lost_after / TICK_SECONDS) + 1",
        ),
        (
            "suspect after three heartbeats",
            "return ceil(SUSPECT_HEARTBEATS * heartbeat / TICK_SECONDS)",
            "return ceil((SUSPECT_HEARTBEATS + 1) * heartbeat / TICK_SECONDS)",
        ),
        (
            "a node that left stays left",
            '    if node.state == "left":\n        return "left"\n',
            "",
        ),
        (
            "a node that left running jobs behind is lost in the end",
            'and (node.state != "left" or node.running_jobs):',
            'and node.state != "left":',
        ),
        (
            "a node that left nothing behind is never lost",
            'and (node.state != "left" or node.running_jobs):',
            "and True:",
        ),
        (
            "a renewal makes a suspect node alive",
            'return node.state if missed else "alive"',
            "return node.state",
        ),
        (
            "rows of a removed node are returned",
            '    if row.node_removed:\n        return "removed"\n',
            "",
        ),
        (
            "rows of a node that is not alive are returned",
            '    if row.node_state != "alive":\n        return row.node_state\n',
            "",
        ),
        (
            "a row that nobody claims is returned",
            "if waited > snapshot.waiting_limit and not row.queued_on_node:",
            "if False:",
        ),
        (
            "a row that is queued on its node is not returned",
            "if waited > snapshot.waiting_limit and not row.queued_on_node:",
            "if waited > snapshot.waiting_limit:",
        ),
        (
            "a row that is queued on its node is not submitted again",
            "if row.queued_on_node or row.submissions > MOST_RESUBMISSIONS:",
            "if row.submissions > MOST_RESUBMISSIONS:",
        ),
        (
            "three repetitions at most",
            "if row.queued_on_node or row.submissions > MOST_RESUBMISSIONS:",
            "if row.queued_on_node:",
        ),
        (
            "gaps between submissions double",
            "gap = snapshot.submission_grace * 2 ** max(0, row.submissions - 1)",
            "gap = snapshot.submission_grace",
        ),
        (
            "only a lost node's running rows end",
            'if row.node_state == "lost"\n',
            'if row.node_state != "alive"\n',
        ),
    ),
    Mutant(
        "a node that renewed since it was looked at keeps its state",
        "schedulers/passes/apply_recovery.py",
        "AND node_id = :node AND seq = :seq AND",
        "AND node_id = :node AND :seq >= 0 AND",
        (
            "tests/integration/test_recovery.py::test_a_node_that_renews_between_look_and_write_keeps_its_state",
        ),
    ),
    Mutant(
        "only a lost job is launched again",
        "dispatcher/db/job_moves/endings.py",
        "again = written is Outcome.NODE_LOST and row.retries_left > 0",
        "again = row.retries_left > 0",
        (f"{_RETRIES}::test_nothing_else_is_launched_again",),
    ),
    Mutant(
        "no more retries than the template allows",
        "dispatcher/db/job_moves/endings.py",
        "again = written is Outcome.NODE_LOST and row.retries_left > 0",
        "again = written is Outcome.NODE_LOST",
        (f"{_RETRIES}::test_nothing_else_is_launched_again",),
    ),
    Mutant(
        "a retry is one less",
        "dispatcher/db/job_moves/retries.py",
        "SELECT gen_random_uuid(), id, retries_left - 1, true",
        "SELECT gen_random_uuid(), id, retries_left, true",
        (f"{_RETRIES}::test_a_retry_has_everything_that_its_job_ran_with_and_one_retry_less",),
    ),
    Mutant(
        "a retry takes the lost job's place in its workflow",
        "dispatcher/db/job_moves/retries.py",
        "UPDATE workflow_node SET job_id = :retry, attempt = attempt + 1",
        "UPDATE workflow_node SET job_id = :lost, attempt = attempt + 1",
        (f"{_RETRIES}::test_a_retry_takes_its_jobs_place_in_the_workflow_which_goes_on",),
    ),
    Mutant(
        "a canceled workflow gets no retry",
        "dispatcher/db/job_moves/retries.py",
        "AND workflow.cancel_requested)",
        "AND false)",
        (f"{_RETRIES}::test_a_workflow_that_is_to_be_canceled_gets_no_retry",),
    ),
    Mutant(
        "the end of a lost child touches its workflow",
        "schedulers/passes/apply_recovery.py",
        "connection, [done.in_workflow for done in finished],",
        "connection, [done.job_id for done in finished],",
        (f"{_RETRIES}::test_a_retry_takes_its_jobs_place_in_the_workflow_which_goes_on",),
    ),
    Mutant(
        "a workflow's children are kept as long as it is",
        _IN_SQL,
        "AND NOT EXISTS (SELECT FROM workflow_node WHERE workflow_node.job_id = job.id)",
        "",
        (
            f"{_RETENTION}::test_a_workflow_goes_before_its_children_and_a_relaunch_keeps_what_it_took_over",
        ),
    ),
    Mutant(
        "a lost job is kept as long as its retry",
        _IN_SQL,
        "AND NOT EXISTS (SELECT FROM job AS retry WHERE retry.retry_of = job.id)",
        "",
        (f"{_RETENTION}::test_a_lost_job_goes_after_its_retry",),
    ),
    Mutant(
        "what an unfinished job depends on is kept",
        _IN_SQL,
        "WHERE depends_on_id = job.id AND dependent.finished IS NULL)",
        "WHERE false)",
        (f"{_RETENTION}::test_what_an_unfinished_job_depends_on_stays",),
    ),
    Mutant(
        "the newest content of a project and branch is kept",
        _IN_SQL,
        "AND (newer.finished, newer.id) > (job.finished, job.id)))",
        "))",
        (f"{_RETENTION}::test_the_newest_content_of_each_project_and_branch_is_kept",),
    ),
    Mutant(
        "content is kept for each branch",
        _IN_SQL,
        "AND theirs.scm_branch = mine.scm_branch",
        "",
        (f"{_RETENTION}::test_the_newest_content_of_each_project_and_branch_is_kept",),
    ),
    Mutant(
        "a day of events is kept until each of its jobs is past retention",
        "dispatcher/db/partitions.py",
        "(finished IS NULL OR finished >= since))",
        "finished >= since)",
        (f"{_RETENTION}::test_a_days_events_go_once_each_of_its_jobs_is_past_retention",),
    ),
]
