"""Trainer and Accelerate go on on other ranks as if they had not been interrupted: from our native target, and by the
pieces of docs/recipes.md from what they saved themselves."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from conftest import Run
from fixtures.accelerated import AcceleratedRun
from fixtures.serve import EngineError, Engines
from fixtures.trainer import TrainerRun
from matrix import EVERY_CELL
from test_acceptance import NOISE

Answer = dict[str, Any]

pytest.importorskip("accelerate", reason="Trainer needs accelerate, which this environment was made without")


# How far a loss may be from the uninterrupted run's: its sums are rounded in other places, and clipping by another norm
# makes it six times as much.
OTHER_RANKS = 1e-3
# The same from float32 to bfloat16 or back: two uninterrupted runs are 0.022 apart after six steps.
OTHER_TYPE = 3e-2


@pytest.fixture(scope="module")
def uninterrupted(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Path, Answer]]:
    """A run of six steps at a stage, made once: where it saved, and what it told."""
    done: dict[tuple[int, int], tuple[Path, Answer]] = {}

    def train(stage: int, ranks: int = 2) -> tuple[Path, Answer]:
        if (stage, ranks) not in done:
            place = tmp_path_factory.mktemp("whole")
            done[stage, ranks] = place / "checkpoint-3", engines.ask(TrainerRun(place, ranks, stage))
        return done[stage, ranks]

    return train


@pytest.fixture(scope="module")
def accelerated(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], tuple[Path, Answer]]:
    """The same with Accelerate on four ranks."""
    done: dict[int, tuple[Path, Answer]] = {}

    def train(stage: int) -> tuple[Path, Answer]:
        if stage not in done:
            place = tmp_path_factory.mktemp("whole") / "state"
            done[stage] = place, engines.ask(AcceleratedRun(place, ranks=4, stage=stage))
        return done[stage]

    return train


def expect_same_bits(saved: Answer, begin: Answer) -> None:
    """Masters and moments of every parameter."""
    assert begin.keys() == saved.keys()
    for name, states in saved.items():
        assert begin[name].keys() == states.keys() == {"fp32", "exp_avg", "exp_avg_sq"}
        for kind, value in states.items():
            assert torch.equal(begin[name][kind], value), (name, kind)


# The stages of the run that is interrupted, and of the one that resumes; ranks of the latter.
@pytest.mark.parametrize(("stage", "next_stage", "ranks"), [(2, 2, 4), (2, 1, 1), (1, 2, 4), (3, 3, 4), (3, 2, 1)])
def test_trainer_resumes(
    stage: int,
    next_stage: int,
    ranks: int,
    uninterrupted: Callable[..., tuple[Path, Answer]],
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


# The stage of the run on four ranks that is interrupted; the stage and the ranks of the one that resumes. Stage 0 is
# FSDP2, whose own loads also take another number of ranks.
RECIPES = [(2, 2, 2), (2, 1, 8), (3, 3, 2)]
WITH_FSDP = [(3, 0, 2), (0, 1, 2)]
if EVERY_CELL:
    RECIPES += [(2, 3, 1), (3, 2, 8)]
    WITH_FSDP += [(0, 0, 2), (2, 0, 4), (0, 3, 1)]


@pytest.mark.parametrize(("stage", "next_stage", "ranks"), RECIPES)
def test_trainer_resumes_by_the_recipe(
    stage: int,
    next_stage: int,
    ranks: int,
    uninterrupted: Callable[..., tuple[Path, Answer]],
    engines: Engines,
    tmp_path: Path,
) -> None:
    """From a `checkpoint-3` that nobody converted: the same bits, rates and losses."""
    checkpoint, whole = uninterrupted(stage, 4)
    resumed = engines.ask(TrainerRun(tmp_path, ranks, next_stage, resume=checkpoint, recipe=True))
    expect_same_bits(whole["held"]["saved"], resumed["held"]["begin"])
    assert (resumed["step"], resumed["rates"]) == (whole["step"], whole["rates"])
    assert resumed["losses"][:3] == whole["losses"][:3]
    assert resumed["losses"][3:] == pytest.approx(whole["losses"][3:], abs=OTHER_RANKS)


def test_a_best_model_of_other_ranks_is_loaded(engines: Engines, tmp_path: Path) -> None:
    """At the end of a run on two ranks, from what four had saved."""
    whole = engines.ask(TrainerRun(tmp_path, ranks=4, stage=2, steps=3, best=True))
    resumed = engines.ask(TrainerRun(tmp_path, 2, 3, resume=tmp_path / "checkpoint-3", recipe=True, best=True))
    assert resumed["step"] == 6
    expect_same_bits(whole["held"]["saved"], resumed["held"]["end"])


@pytest.mark.parametrize(("stage", "next_stage", "ranks"), [*RECIPES[1:], *WITH_FSDP])
def test_accelerate_resumes_by_the_recipe(
    stage: int,
    next_stage: int,
    ranks: int,
    accelerated: Callable[[int], tuple[Path, Answer]],
    engines: Engines,
    tmp_path: Path,
) -> None:
    """From what `save_state()` wrote: the same bits, rates and losses. FSDP2 computes in float32."""
    saved, whole = accelerated(stage)
    resumed = engines.ask(AcceleratedRun(tmp_path, ranks, next_stage, resume=saved, recipe=True))
    expect_same_bits(whole["held"]["saved"], resumed["held"]["begin"])
    assert resumed["rates"] == whole["rates"][3:]
    near = OTHER_TYPE if 0 in (stage, next_stage) and stage != next_stage else OTHER_RANKS
    assert resumed["losses"] == pytest.approx(whole["losses"][3:], abs=near)


@pytest.mark.parametrize(("next_stage", "ranks", "said"), [(2, 2, "ZeRORuntimeException"), (3, 4, "AssertionError")])
def test_trainer_alone_fails(
    next_stage: int,
    ranks: int,
    said: str,
    uninterrupted: Callable[..., tuple[Path, Answer]],
    engines: Engines,
    tmp_path: Path,
) -> None:
    """So the recipe is needed, and the page says what is seen without it."""
    checkpoint, _ = uninterrupted(2, 4)
    with pytest.raises(EngineError, match=said):
        engines.ask(TrainerRun(tmp_path, ranks, next_stage, resume=checkpoint))


def test_refusals(tmp_path: Path) -> None:
    """Before anything is loaded."""
    sys.path.insert(0, str(Path(os.environ["UCP_BIN"]).parent / "python"))
    from ucp_checkpoint import Error
    from ucp_checkpoint.accelerate import load_state
    from ucp_checkpoint.transformers import resume

    trainer = SimpleNamespace(is_deepspeed_enabled=False)
    with pytest.raises(Error, match=r"has no `trainer_state.json`.*name a `checkpoint-N`"):
        resume(trainer, tmp_path)
    with pytest.raises(Error, match="checkpoint is a path, not 3"):
        resume(trainer, 3)
    with pytest.raises(Error, match="this Trainer runs without DeepSpeed"):
        resume(trainer)
    accelerator = SimpleNamespace(distributed_type="MULTI_GPU")
    with pytest.raises(Error, match="none` does not exist"):
        load_state(accelerator, tmp_path / "none")
    with pytest.raises(Error, match="runs with MULTI_GPU, and neither with DeepSpeed nor with FSDP"):
        load_state(accelerator, tmp_path)
    plugin = SimpleNamespace(state_dict_type="FULL_STATE_DICT")
    accelerator = SimpleNamespace(distributed_type="FSDP", state=SimpleNamespace(fsdp_plugin=plugin))
    with pytest.raises(Error, match="has state_dict_type=FULL_STATE_DICT, and Accelerate loads"):
        load_state(accelerator, tmp_path)
