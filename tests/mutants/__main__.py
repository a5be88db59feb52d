"""``make mutants``: apply each mutant in a copy of its own and run the tests of its rule on it.

Fails when one survives, when its text is no longer there, or when the tests fail without any.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.mutants.mutant import Mutant
from tests.mutants.mutants import MUTANTS

ROOT = Path(__file__).parents[2]
TESTS: Final = tuple(
    f"tests/unit/{name}.py"
    for name in (
        "test_plan_tasks",
        "test_plan_exclusions",
        "test_plan_turns",
        "test_plan_locks",
        "test_fairness",
        "test_plan_properties",
    )
)
#: Planners with tests of their own, by module.
TESTS_OF: Final[dict[str, tuple[str, ...]]] = {
    "plan_workflows": ("tests/unit/test_plan_workflows.py",),
    "workflow_graph": ("tests/unit/test_workflow_graph.py", "tests/unit/test_plan_workflows.py"),
    "plan_recovery": ("tests/unit/test_plan_recovery.py",),
}
#: Seconds for the tests of one mutant; longer is a mutant that never ends, so it is found.
LONGEST = 600


def tests_of(mutant: Mutant) -> tuple[str, ...]:
    """The tests that must find a mutant."""
    return mutant.tests or TESTS_OF.get(Path(mutant.file).stem, TESTS)


def verdict(mutant: Mutant | None, tests: tuple[str, ...]) -> str:
    """``killed``, ``survived``, or ``gone`` when the text to change is not there once."""
    # short: sockets of the tests' servers are below it
    with tempfile.TemporaryDirectory(prefix="mu") as directory:
        copy = Path(directory)
        for package in ("dispatcher", "schedulers", "workers", "tests"):
            shutil.copytree(
                ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__")
            )
        shutil.copytree(ROOT / "docs", copy / "docs")
        shutil.copy(ROOT / "setup.cfg", copy)
        if mutant is not None:
            file = copy / mutant.file
            source = file.read_text(encoding="utf-8")
            if source.count(mutant.old) != 1:
                return "gone"
            file.write_text(source.replace(mutant.old, mutant.new), encoding="utf-8")
        return "killed" if _fails(copy, tests) else "survived"


def _fails(copy: Path, tests: tuple[str, ...]) -> bool:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    try:
        ran = subprocess.run(
            [*command, *tests],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            timeout=LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    return ran.returncode != 0


def main(words: list[str]) -> int:
    """Run all mutants, or those whose rule contains one of the words; 1 if one is not killed."""
    chosen = [m for m in MUTANTS if not words or any(word in m.rule for word in words)]
    every = tuple(dict.fromkeys(test for mutant in chosen for test in tests_of(mutant)))
    if verdict(None, every) != "survived":
        print("the tests fail without a mutant", file=sys.stderr)
        return 1
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        verdicts = []
        for mutant, found in zip(
            chosen, pool.map(verdict, chosen, map(tests_of, chosen)), strict=True
        ):
            verdicts.append(found)
            print(f"{found:9} {Path(mutant.file).stem:15} {mutant.rule}", flush=True)
    print(f"{verdicts.count('killed')} of {len(verdicts)} killed")
    return 0 if verdicts.count("killed") == len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
