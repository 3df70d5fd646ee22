"""PyTorch Lightning's Trainer goes on from our native target, and through `ucp.deepspeed`, on other ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from conftest import SPECS, Run
from fixtures.lightning_trainer import STEPS_OF_EPOCH, LightningRun, filled_model, joined_by_lightning
from fixtures.serve import Call, EngineError, Engines
from matrix import EVERY_CELL
from test_trainer import OTHER_RANKS

Answer = dict[str, Any]

pytest.importorskip("lightning_fabric", reason="this environment was made without Lightning")

# Every run of Lightning keeps where its data are.
KEPT = ("--keep-opaque", "pathlib.PosixPath")


@pytest.fixture(scope="module")
def uninterrupted(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Path, Answer]]:
    """A run of two epochs, made once: what it saved after the first, and what it told."""
    done: dict[tuple[int, int, bool], tuple[Path, Answer]] = {}

    def train(stage: int, ranks: int = 2, frozen: bool = False) -> tuple[Path, Answer]:
        if (stage, ranks, frozen) not in done:
            place = tmp_path_factory.mktemp("whole")
            whole = engines.ask(LightningRun(place, ranks, stage, frozen=frozen))
            assert len(whole["losses"]) == 2 * STEPS_OF_EPOCH
            done[stage, ranks, frozen] = place / "epoch=0.ckpt", whole
        return done[stage, ranks, frozen]

    return train


def goes_on(resumed: Answer, whole: Answer) -> None:
    """From the same bits, at the same step of the same epoch, with what the callbacks knew."""
    saved, begin = whole["held"]["saved"], resumed["held"]["begin"]
    assert begin.keys() == saved.keys()
    for name, states in saved.items():
        assert begin[name].keys() == states.keys() == {"fp32", "exp_avg", "exp_avg_sq"}
        for kind, value in states.items():
            assert torch.equal(begin[name][kind], value), (name, kind)
    assert (resumed["step"], resumed["epochs"]) == (whole["step"], whole["epochs"]) == (2 * STEPS_OF_EPOCH, 2)
    assert resumed["rates"] == whole["rates"][STEPS_OF_EPOCH:]
    assert resumed["places"] == whole["places"][STEPS_OF_EPOCH:]
    assert resumed["losses"] == pytest.approx(whole["losses"][STEPS_OF_EPOCH:], abs=OTHER_RANKS)
    assert resumed["best"] == pytest.approx(whole["best"], abs=OTHER_RANKS)


# The stages of the run that is interrupted, and of the one that resumes; ranks of the latter.
@pytest.mark.parametrize(("stage", "next_stage", "ranks"), [(2, 2, 4), (1, 3, 1), (3, 1, 4), (3, 3, 1)])
def test_lightning_resumes(
    stage: int,
    next_stage: int,
    ranks: int,
    uninterrupted: Callable[..., tuple[Path, Answer]],
    engines: Engines,
    run: Run,
    tmp_path: Path,
) -> None:
    """`fit(ckpt_path=…)`, which finds nothing but a folder `checkpoint`."""
    checkpoint, whole = uninterrupted(stage)
    ours = tmp_path / "ours.ckpt"
    run("convert", checkpoint, ours, "--to", f"deepspeed:dp={ranks},zero={next_stage}")
    assert (ours / "checkpoint").is_dir()
    goes_on(engines.ask(LightningRun(tmp_path / "resumed", ranks, next_stage, resume=ours)), whole)


# The stage and the ranks of the run that is interrupted, and of the one that resumes; what is between them.
@pytest.mark.parametrize(
    ("stage", "ranks", "next_stage", "next_ranks", "via"),
    [(2, 4, 2, 2, ""), (2, 1, 3, 2, ""), (3, 2, 1, 1, "universal"), *([(2, 4, 1, 8, "")] if EVERY_CELL else [])],
)
def test_lightning_resumes_through_the_hook(
    stage: int,
    ranks: int,
    next_stage: int,
    next_ranks: int,
    via: str,
    uninterrupted: Callable[..., tuple[Path, Answer]],
    engines: Engines,
    run: Run,
    tmp_path: Path,
) -> None:
    """By the lines of docs/recipes.md: nothing is converted before."""
    source, whole = uninterrupted(stage, ranks)
    if via:
        run("convert", source, tmp_path / via, "--to", via)
        source = tmp_path / via
    resumed = engines.ask(LightningRun(tmp_path / "resumed", next_ranks, next_stage, resume=source, hook=True))
    goes_on(resumed, whole)


# At stage 1 no file says that frozen parameters were left out.
@pytest.mark.parametrize(("stage", "hook"), [(1, False), (1, True), (3, False)])
def test_without_frozen_parameters(
    stage: int,
    hook: bool,
    uninterrupted: Callable[..., tuple[Path, Answer]],
    engines: Engines,
    run: Run,
    tmp_path: Path,
) -> None:
    """`exclude_frozen_parameters`, and `strict_loading = False` in the job that resumes."""
    source, whole = uninterrupted(stage, frozen=True)
    if not hook:
        run("convert", source, tmp_path / "ours", "--to", "deepspeed:dp=1,zero=2,exclude_frozen=true")
        source = tmp_path / "ours"
    goes_on(engines.ask(LightningRun(tmp_path / "resumed", 1, 2, frozen=True, resume=source, hook=hook)), whole)


@pytest.mark.parametrize("stage", [2, 3])
def test_as_lightning_joins_it(
    stage: int, uninterrupted: Callable[..., tuple[Path, Answer]], engines: Engines, run: Run, tmp_path: Path
) -> None:
    """Weights are those of Lightning's own function, which makes the same of our native files, entries included. They
    have the names of the model that the LightningModule keeps as `self.model`."""
    source, _ = uninterrupted(stage)
    run("convert", source, tmp_path / "weights", "--to", "safetensors:dtype=fp32")
    run("convert", source, tmp_path / "ours", "--to", "deepspeed:dp=4,zero=1", *KEPT)
    weights = load_file(tmp_path / "weights" / "model.safetensors")
    first, second = (
        engines.ask(Call(1, joined_by_lightning, {"folder": folder, "output": tmp_path / "joined.pt"}))
        for folder in (source, tmp_path / "ours")
    )
    for joined in (first, second):
        plain = {name.removeprefix("model."): value for name, value in joined["state_dict"].items()}
        assert plain.keys() == weights.keys()
        assert all(torch.equal(value, weights[name]) for name, value in plain.items())
    for entry in ("epoch", "global_step", "pytorch-lightning_version", "loops", "callbacks", "lr_schedulers",
                  "hparams_name", "hyper_parameters"):  # fmt: skip
        assert first[entry] == second[entry], entry
    assert first["hyper_parameters"] == {"rate": 0.01, "data": source.parent}


def test_a_spec_for_the_models_own_names(
    uninterrupted: Callable[..., tuple[Path, Answer]], run: Run, tmp_path: Path
) -> None:
    """In a block that is the module's attribute."""
    source, _ = uninterrupted(2)
    before, _, lines = (SPECS / "llama.ucp").read_text().partition("layout llama {")
    spec = tmp_path / "wrapped.ucp"
    spec.write_text(f'{before}layout llama {{ block "model" {{{lines}}}')
    sizes = ["layers=2", "heads=4", "kv_heads=2", "ffn=48"]
    said = ["--spec", spec, *(word for size in sizes for word in ("--set", size))]
    run("convert", source, tmp_path / "ours", "--to", "deepspeed:tp=2,dp=1", *said)
    run("verify", tmp_path / "ours", "--same", source, *said)


def test_notes(uninterrupted: Callable[..., tuple[Path, Answer]], ucprun: Path, tmp_path: Path) -> None:
    """Lightning finds one tag alone, and of its hyper-parameters not those that are paths."""
    source, _ = uninterrupted(2)
    command = [ucprun, "convert", source, tmp_path / "ours", "--to", "deepspeed:dp=1"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "stays on 1 data-parallel rank (the source had 2)" in said
    assert "`hyper_parameters.data` in " in said
    assert "is left out: loading it would run `pathlib.PosixPath(" in said
    assert "Lightning looks for" not in said
    command = [*command[:-3], tmp_path / "other", *command[-2:], *KEPT, "--tag", "mine"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "Lightning looks for the tag `checkpoint`, and would not find the tag `mine`" in said
    assert "left out" not in said


def test_names_without_the_modules_prefix(uninterrupted: Callable[..., tuple[Path, Answer]], engines: Engines) -> None:
    """The LightningModule's model is filled without the LightningModule."""
    source, whole = uninterrupted(3)
    filled = engines.ask(Call(1, filled_model, {"folder": source}))
    saved = whole["held"]["saved"]
    assert filled.keys() == saved.keys()
    assert all(torch.equal(value, saved[name]["fp32"]) for name, value in filled.items())


def test_lightning_alone_fails(
    uninterrupted: Callable[..., tuple[Path, Answer]], engines: Engines, tmp_path: Path
) -> None:
    """So the lines of docs/recipes.md are needed for another number of ranks."""
    checkpoint, _ = uninterrupted(2, 4)
    with pytest.raises(EngineError, match="ZeRORuntimeException"):
        engines.ask(LightningRun(tmp_path, 2, 2, resume=checkpoint))


def test_other_strategies_are_refused() -> None:
    """By their names, and with the call that serves Fabric."""
    sys.path.insert(0, str(Path(os.environ["UCP_BIN"]).parent / "python"))
    from lightning_fabric.strategies import DeepSpeedStrategy

    from ucp_checkpoint import Error
    from ucp_checkpoint.lightning import any_topology

    with pytest.raises(Error, match="takes a DeepSpeedStrategy, and this is a str"):
        any_topology("deepspeed_stage_2")
    with pytest.raises(Error, match=r"the DeepSpeedStrategy of Fabric; call `ucp\.deepspeed\.load_checkpoint"):
        any_topology(DeepSpeedStrategy.__new__(DeepSpeedStrategy))
