"""The WorkflowManager's rules, broken one by one: convergence, ends, cancel, what children get."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, of_planner

WORKFLOW_MUTANTS: list[Mutant] = [
    *of_planner(
        "workflow_graph",
        (
            "success edge: not followed by a failed parent",
            '"success": int(State.SUCCESSFUL),',
            '"success": State.SUCCESSFUL | State.FAILED,',
        ),
        (
            "failure edge: not followed by a successful parent",
            '"failure": int(State.FAILED),',
            '"failure": State.SUCCESSFUL | State.FAILED,',
        ),
        (
            "always edge: followed by a failed parent",
            '"always": State.SUCCESSFUL | State.FAILED,',
            '"always": int(State.SUCCESSFUL),',
        ),
        (
            "a node without parents runs at once",
            "        if not parents:\n            return True",
            "        if not parents:\n            return False",
        ),
        (
            "ANY: runs only once all parents are decided",
            "return None if waits else leads",
            "return None if waits and not leads else leads",
        ),
        (
            "ANY: is skipped only once all parents are decided",
            "return None if waits else leads",
            "return leads or (None if waits and not converge else False)",
        ),
        (
            "ALL: every parent must lead to it",
            "            elif converge:\n                return False\n",
            "",
        ),
        (
            "ALL: runs only once all parents are decided",
            "            if shown is None:\n                waits = True",
            "            if shown is None:\n                waits = not converge",
        ),
        (
            "do_not_run propagates in one evaluation",
            "                shows[node] = State.SKIPPED\n",
            "",
        ),
        (
            "a node whose template was deleted fails only when its turn comes",
            "            if not runs:\n",
            "            if not runs and state == State.OPEN:\n",
        ),
        (
            "a deleted template shows its children a failure",
            "                shows[node] = State.FAILED\n",
            "                shows[node] = State.SKIPPED\n",
        ),
        (
            "a workflow is done when every node is decided",
            "done=len(shows) == len(self.order),",
            "done=bool(shows) and not run,",
        ),
        (
            "a failed node fails its workflow unless an edge handles that",
            "if not self.handled.get(n, 0) & _FAILED)",
            "if n not in self.handled)",
        ),
        (
            "only failed nodes fail their workflow",
            "if shows.get(n) == _FAILED]",
            "if shows.get(n) != State.SUCCESSFUL and n in shows]",
        ),
        (
            "artifacts come over every path",
            "mask |= above[parent] | bit.get(parent, 0)",
            "mask = above[parent] | bit.get(parent, 0)",
        ),
        (
            "a cycle is refused",
            "        if len(order) < len(nodes):",
            "        if False:",
        ),
        (
            "a template nested in itself is found",
            "            if inner == start:",
            "            if inner == start and template == start:",
        ),
    ),
    *of_planner(
        "plan_workflows",
        (
            "a failed or canceled child is not successful",
            "return State.SUCCESSFUL if node.job.status is Status.SUCCESSFUL else State.FAILED",
            "return State.FAILED if node.job.status is Status.FAILED else State.SUCCESSFUL",
        ),
        (
            "a node that could not be started has failed",
            "        if node.start_failure:\n            return State.FAILED\n",
            "        if node.start_failure:\n            return State.SKIPPED\n",
        ),
        (
            "an unfinished child keeps the workflow running",
            "    if node.job.status not in FINAL:\n        return State.ACTIVE\n",
            "    if node.job.status not in FINAL:\n        return State.SUCCESSFUL\n",
        ),
        (
            "a canceled workflow skips what has not begun",
            "if _state(node) in (State.OPEN, State.LOST):",
            "if _state(node) is State.OPEN:",
        ),
        (
            "a canceled workflow cancels its children",
            "            yield CancelChild(workflow.id, job.id)",
            "            pass",
        ),
        (
            "a child is canceled once",
            "        if not job.cancel_requested:\n",
            "        if True:\n",
        ),
        (
            "a canceled workflow ends when no child is active",
            "    if not unfinished:\n",
            "    if all(job.cancel_requested for job in unfinished):\n",
        ),
        (
            "the numbers of attempts go up",
            "nodes[node_id].attempt + 1, artifacts)",
            "1, artifacts)",
        ),
        (
            "a late approval expires",
            "if job.expired and job.status not in FINAL:",
            "if False:",
        ),
        (
            "a decided approval does not expire",
            "if job.expired and job.status not in FINAL:",
            "if job.expired:",
        ),
        (
            "artifacts in order of finishing",
            "(job.finished, job.id)\n",
            "(job.id, job.id)\n",
        ),
        (
            "prompts of the workflow win",
            'return {**node, **{name: value for name, value in workflow.items() if name != "extra_vars"}}',
            'return {**{name: value for name, value in workflow.items() if name != "extra_vars"}, **node}',
        ),
        (
            "variables of the workflow win over artifacts",
            "return {**merge_artifacts(artifacts), **workflow}",
            "return {**workflow, **merge_artifacts(artifacts)}",
        ),
        (
            "what was set for single hosts is no variable",
            "if name != PER_HOST}",
            "if True}",
        ),
    ),
]
