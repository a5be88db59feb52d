"""Every mutant still changes the rule that it names: its text occurs once in its file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.mutant import Mutant
from tests.mutants.mutants import MUTANTS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.rule)
def test_a_mutants_text_occurs_once(mutant: Mutant) -> None:
    assert (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1
    assert mutant.old != mutant.new


def test_every_mutant_names_a_rule_of_its_own() -> None:
    assert set(Counter(mutant.rule for mutant in MUTANTS).values()) == {1}
