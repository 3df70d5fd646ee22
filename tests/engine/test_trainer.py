"""Trainer and Accelerate go on from our native target on other ranks, as if they had not been interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Run
from fixtures.accelerated import AcceleratedRun
from fixtures.serve import Engines
from fixtures.trainer import TrainerRun
from test_acceptance import NOISE

Answer = dict[str, Any]

pytest.importorskip("accelerate", reason="Trainer needs accelerate, which this environment was made without")


# How far a loss may be from the uninterrupted run's: its sums are rounded in other places, and clipping by another norm
# makes it six times as much.
OTHER_RANKS = 1e-3


@pytest.fixture(scope="module")
def uninterrupted(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], tuple[Path, Answer]]:
    """A run of six steps on two ranks at a stage, made once: where it saved, and what it told."""
    done: dict[int, tuple[Path, Answer]] = {}

    def train(stage: int) -> tuple[Path, Answer]:
        if stage not in done:
            place = tmp_path_factory.mktemp("whole")
            done[stage] = place / "checkpoint-3", engines.ask(TrainerRun(place, ranks=2, stage=stage))
        return done[stage]

    return train


# The stages of the run that is interrupted, and of the one that resumes; ranks of the latter.
@pytest.mark.parametrize(("stage", "next_stage", "ranks"), [(2, 2, 4), (2, 1, 1), (1, 2, 4), (3, 3, 4), (3, 2, 1)])
def test_trainer_resumes(
    stage: int,
    next_stage: int,
    ranks: int,
    uninterrupted: Callable[[int], tuple[Path, Answer]],
    engines: Engines,
    run: Run,
    tmp_path: Path,
) -> None:
    """The same losses and learning rates in the steps after the interruption."""
    checkpoint, whole = uninterrupted(stage)
    assert whole["step"] == len(whole["losses"]) == 6
    ours = tmp_path / "ours"
    run("convert", checkpoint, ours, "--to", f"deepspeed:dp={ranks},zero={next_stage}")
    assert json.loads((ours / "trainer_state.json").read_text())["global_step"] == 3
    resumed = engines.ask(TrainerRun(tmp_path / "resumed", ranks=ranks, stage=next_stage, resume=ours))
    assert resumed["step"] == 6
    assert resumed["rates"] == whole["rates"]
    assert resumed["losses"][:3] == whole["losses"][:3]  # From trainer_state.json.
    differences = [abs(a - b) for a, b in zip(resumed["losses"][3:], whole["losses"][3:], strict=True)]
    assert max(differences) <= OTHER_RANKS, differences
    # An engine that had not loaded would begin where the first one began.
    assert resumed["losses"][3] < whole["losses"][0] - 10 * NOISE["bf16"]


# The stages of the run that is interrupted, and of the one that resumes; ranks of the latter.
@pytest.mark.parametrize(("stage", "next_stage", "ranks"), [(2, 2, 4), (3, 3, 4), (2, 3, 1)])
def test_accelerate_resumes(
    stage: int, next_stage: int, ranks: int, engines: Engines, run: Run, tmp_path: Path
) -> None:
    """`load_state()`: the same losses and learning rates in the steps after the interruption."""
    saved, ours = tmp_path / "saved", tmp_path / "ours"
    whole = engines.ask(AcceleratedRun(saved, ranks=2, stage=stage))
    assert len(whole["losses"]) == 6
    run("convert", saved, ours, "--to", f"deepspeed:dp={ranks},zero={next_stage}")
    resumed = engines.ask(AcceleratedRun(tmp_path / "unused", ranks=ranks, stage=next_stage, resume=ours))
    assert resumed["rates"] == whole["rates"][3:]
    differences = [abs(a - b) for a, b in zip(resumed["losses"], whole["losses"][3:], strict=True)]
    assert max(differences) <= OTHER_RANKS, differences
    assert resumed["losses"][0] < whole["losses"][0] - 10 * NOISE["bf16"]
