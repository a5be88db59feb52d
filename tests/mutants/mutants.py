"""All mutants: each must fail a test."""

from __future__ import annotations

from tests.mutants.fences import FENCE_MUTANTS
from tests.mutants.mutant import Mutant
from tests.mutants.planner_rules import TASK_MUTANTS
from tests.mutants.recovery_rules import RECOVERY_MUTANTS
from tests.mutants.schedule_rules import SCHEDULE_MUTANTS
from tests.mutants.workflow_rules import WORKFLOW_MUTANTS

MUTANTS: list[Mutant] = [
    *TASK_MUTANTS,
    *WORKFLOW_MUTANTS,
    *RECOVERY_MUTANTS,
    *SCHEDULE_MUTANTS,
    *FENCE_MUTANTS,
]
