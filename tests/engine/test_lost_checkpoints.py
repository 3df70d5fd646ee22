"""Checkpoints that DeepSpeed saved and does not load, or does not run: why we refuse them, or write them otherwise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.cases import CASES
from fixtures.jobs import Job
from fixtures.serve import EngineError, Engines
from test_acceptance import OTHER_SEED
from universal import FIXTURES


def test_adagrad_at_stage_3_is_lost_to_its_own_engine(engines: Engines, tmp_path: Path) -> None:
    """DeepSpeed makes it anew with its vectors, and then gives them to it once more."""
    case = replace(CASES["adagrad_zero1"], stage=3)
    saved = tmp_path / "saved"
    engines.ask(Job(case, steps=1, save=saved))
    with pytest.raises(EngineError, match="doesn't match the size of optimizer's group"):
        engines.ask(Job(case, load=saved, native=True, first_step=1))


def test_several_groups_of_adagrad_do_not_run_with_zero(engines: Engines) -> None:
    case = replace(CASES["adagrad_zero1"], groups="decay")
    with pytest.raises(EngineError, match="IndexError: list index out of range"):
        engines.ask(Job(case, steps=1))


def test_elastic_without_a_step_is_lost_to_its_own_engine(engines: Engines) -> None:
    """We read it, and write one that loads (above)."""
    case = CASES["elastic_zero2"]
    job = Job(case, seed=OTHER_SEED, load=FIXTURES / case.name / "checkpoint", native=True, first_step=4)
    with pytest.raises(EngineError, match="AssertionError"):
        engines.ask(job)
