"""Trainers that keep their state in memory are killed, and go on as if they had not been."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fixtures.lightning_trainer import LightningRun
from fixtures.serve import EngineError, Engines
from fixtures.trainer import TrainerRun
from matrix import EVERY_CELL
from test_trainer import OTHER_RANKS

sys.path.insert(0, str(Path(os.environ.get("UCP_BIN", "bin")).parent / "python"))

import ucp_checkpoint as ucp

pytest.importorskip("accelerate", reason="Trainer needs accelerate, which this environment was made without")


def die(engines: Engines, run: TrainerRun | LightningRun) -> None:
    """The version of the step before the last one is there; that of the last one may be."""
    with pytest.raises(EngineError, match="ended with status -9"):
        engines.ask(run)
    assert run.memory is not None and run.dies_after is not None
    until = time.monotonic() + 30
    while not list(run.memory.rglob(f"step-{run.dies_after - 2}")) and time.monotonic() < until:
        time.sleep(0.01)


def how(parallel: str) -> dict[str, Any]:
    """Of a TrainerRun: a stage of DeepSpeed, FSDP2, or DDP, which is a process alone on one rank."""
    return {"stage": int(parallel[4:]) if parallel.startswith("zero") else None, "fsdp": parallel == "fsdp2"}


# The run that is killed and its ranks, and those of the one that goes on.
TRAINERS = [("zero2", 2, "zero3", 1), ("zero3", 2, "zero3", 2), ("ddp", 2, "ddp", 2), ("fsdp2", 2, "ddp", 1)]
if EVERY_CELL:
    TRAINERS += [("zero1", 2, "zero1", 2), ("ddp", 1, "ddp", 1), ("fsdp2", 2, "fsdp2", 2), ("ddp", 2, "fsdp2", 2)]


@pytest.mark.parametrize(("parallel", "ranks", "next_parallel", "next_ranks"), TRAINERS)
def test_a_killed_trainer_goes_on(
    parallel: str, ranks: int, next_parallel: str, next_ranks: int, engines: Engines, tmp_path: Path
) -> None:
    """With the losses, rates and counts of a Trainer that was never stopped."""
    whole = engines.ask(TrainerRun(tmp_path, ranks, save_at=99, **how(parallel)))
    run = TrainerRun(tmp_path, ranks, save_at=99, memory=tmp_path / "memory", dies_after=4, **how(parallel))
    die(engines, run)
    resumed = engines.ask(replace(run, ranks=next_ranks, dies_after=None, **how(next_parallel)))
    assert resumed["first_step"] in (3, 4)
    assert (resumed["step"], resumed["rates"]) == (whole["step"], whole["rates"])
    if ranks == next_ranks:
        assert resumed["drawn"] == whole["drawn"][resumed["first_step"] :]
    is_same = (ranks, parallel) == (next_ranks, next_parallel)
    assert resumed["losses"] == pytest.approx(whole["losses"], abs=0 if is_same else OTHER_RANKS)
    assert not list((tmp_path / "memory").rglob("step-*"))


# Steps are three in an epoch. Without a stage it is DDP.
LIGHTNING: list[tuple[int | None, int, int | None, int, int]] = [
    (2, 2, 2, 2, 3),
    (1, 2, 3, 1, 5),
    (None, 2, None, 2, 5),
]
if EVERY_CELL:
    LIGHTNING += [(3, 2, 3, 2, 5), (None, 2, None, 2, 3), (None, 1, None, 2, 5)]


@pytest.mark.parametrize(("stage", "ranks", "next_stage", "next_ranks", "step"), LIGHTNING)
def test_a_killed_lightning_goes_on(
    stage: int | None,
    ranks: int,
    next_stage: int | None,
    next_ranks: int,
    step: int,
    engines: Engines,
    tmp_path: Path,
) -> None:
    """At the same step of the same epoch, with what callbacks and the loader knew."""
    pytest.importorskip("lightning_fabric", reason="this environment was made without Lightning")
    whole = engines.ask(LightningRun(tmp_path / "whole", ranks, stage))
    run = LightningRun(tmp_path / "killed", ranks, stage, memory=tmp_path / "memory", dies_after=step)
    die(engines, run)
    resumed = engines.ask(replace(run, ranks=next_ranks, stage=next_stage, dies_after=None))
    first = len(whole["losses"]) - len(resumed["losses"])
    assert first in (step - 1, step)
    for told in ("rates", "places"):
        assert resumed[told] == whole[told][first:]
    assert (resumed["step"], resumed["epochs"]) == (whole["step"], whole["epochs"])
    near = 0 if (ranks, stage) == (next_ranks, next_stage) else OTHER_RANKS
    assert resumed["losses"] == pytest.approx(whole["losses"][first:], abs=near)
    assert not list((tmp_path / "memory").rglob("step-*"))


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[tuple[Any, SimpleNamespace]]:
    """The module, and a Trainer in one process that has nothing but what a tier asks of it."""
    from transformers import TrainerControl, TrainerState

    from ucp_checkpoint import transformers

    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.AdamW(model.parameters())
    callbacks: list[Any] = []
    yield transformers, SimpleNamespace(
        is_deepspeed_enabled=False,
        is_fsdp_enabled=False,
        args=SimpleNamespace(process_index=0, n_gpu=0),
        model_wrapped=model,
        optimizer=optimizer,
        lr_scheduler=torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0),
        state=TrainerState(),
        control=TrainerControl(),
        callback_handler=SimpleNamespace(callbacks=callbacks),
        remove_callback=callbacks.remove,
        _save_rng_state=lambda folder: None,
        _save_scaler=lambda folder: None,
        _load_from_checkpoint=lambda folder: None,
    )


def interrupted(module: Any, trainer: Any, root: Path, **settings: Any) -> None:
    """Two steps, and an error."""
    with pytest.raises(KeyError), module.memory_tier(
        trainer, job="job", directory=root, every=1, **settings
    ) as newest:
        assert newest is None
        (callback,) = trainer.callback_handler.callbacks
        trainer.state.global_step = 0
        callback.on_train_begin(trainer.args, trainer.state, trainer.control)
        for step in range(3):
            trainer.state.global_step = step
            callback.on_step_begin(trainer.args, trainer.state, trainer.control)
        raise KeyError
    assert trainer.callback_handler.callbacks == []


def test_a_version_that_train_does_not_take(parts: tuple[Any, Any], tmp_path: Path) -> None:
    """Nothing is loaded where Trainer begins anew."""
    module, trainer = parts
    interrupted(module, trainer, tmp_path)
    before = trainer.model_wrapped.weight.detach().zero_().clone()
    with (
        pytest.raises(ucp.Error, match=r"begins with step 0, .* end of step 1; give train\(\) what"),
        module.memory_tier(trainer, job="job", directory=tmp_path) as newest,
    ):
        assert sorted(os.listdir(newest)) == ["global_step0", "scheduler.pt", "trainer_state.json"]
        trainer.state.global_step = 0
        trainer.callback_handler.callbacks[0].on_train_begin(trainer.args, trainer.state, trainer.control)
    assert torch.equal(trainer.model_wrapped.weight, before)
    assert (tmp_path / "job" / "step-1").exists()
    assert not Path(newest).exists()


def test_damage_is_found_before_training(parts: tuple[Any, Any], tmp_path: Path) -> None:
    """A version is chosen before there is anything to load it into."""
    module, trainer = parts
    interrupted(module, trainer, tmp_path)
    data = tmp_path / "job" / "step-1" / "__0_0.distcp"
    content = bytearray(data.read_bytes())
    content[content.index(trainer.model_wrapped.weight.detach().numpy().tobytes()) + 100] ^= 1
    data.write_bytes(content)
    with (
        pytest.raises(ucp.Error, match=r"no version of the job can be read: `.*step-1"),
        module.memory_tier(trainer, job="job", directory=tmp_path),
    ):
        raise AssertionError
    interrupted(module, trainer, tmp_path / "other", fallback=tmp_path / "storage", persist_every=1)
    storage = {"fallback": tmp_path / "storage", "persist_every": 1}
    with module.memory_tier(trainer, job="job", directory=tmp_path, **storage) as newest:
        state = json.loads((Path(newest) / "trainer_state.json").read_text())
    assert state["global_step"] == 2


def test_refusals(parts: tuple[Any, Any], tmp_path: Path) -> None:
    """Before there is a folder."""
    module, trainer = parts
    fsdp1 = SimpleNamespace(state=SimpleNamespace(fsdp_plugin=SimpleNamespace(fsdp_version=1)))
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"is_fsdp_enabled": True, "accelerator": fsdp1}, {}, "this Trainer runs with FSDP 1, of which"),
        ({"args": SimpleNamespace(n_gpu=2)}, {}, "this Trainer runs with DataParallel, of which"),
        ({}, {"extra": dict}, "`extra` holds Trainer's own files here"),
    ]
    for changes, settings, said in cases:
        changed = SimpleNamespace(**(vars(trainer) | changes))
        with (
            pytest.raises(ucp.Error, match=said),
            module.memory_tier(changed, job="job", directory=tmp_path, **settings),
        ):
            raise AssertionError
    assert list(tmp_path.iterdir()) == []


def fit(folder: Path, callback: Any, *, optimizers: int = 1, kept: object = 1, fails: bool = False) -> Any:
    """Lightning's Trainer in one process, two steps; an error ends it when the second step has been kept."""
    import pytorch_lightning as lightning

    class Model(lightning.LightningModule):
        automatic_optimization = optimizers == 1

        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def configure_optimizers(self) -> Any:
            return [torch.optim.SGD(self.parameters(), lr=0.1) for _ in range(optimizers)]

        def training_step(self, batch: Any, _: int) -> Any:
            return self.layer(batch[0]).square().mean()

    class Other(lightning.Callback):
        def state_dict(self) -> dict[str, Any]:
            return {"kept": kept}

        def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
            if fails and trainer.global_step == 2:
                raise KeyError

    how = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    trainer = lightning.Trainer(accelerator="cpu", devices=1, max_steps=3, callbacks=[Other(), callback], **how)
    trainer.fit(Model(), torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(6, 4)), batch_size=2))
    return trainer


def test_lightning_refusals(tmp_path: Path) -> None:
    """By the name of the strategy, and where a restart could not read what Lightning has."""
    pytest.importorskip("lightning_fabric", reason="this environment was made without Lightning")
    from ucp_checkpoint.lightning import memory_tier

    said = "a DeepSpeedStrategy, a DDPStrategy or one device, and this has a SimpleNamespace"
    with pytest.raises(ucp.Error, match=said):
        memory_tier(job="job").on_fit_start(SimpleNamespace(strategy=SimpleNamespace()), None)
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({}, {"load": {"spec": "x"}}, "`load` is for a DeepSpeedStrategy"),
        ({}, {"extra": dict}, "`extra` holds Lightning's own values"),
        ({"optimizers": 2}, {}, "the module has 2 optimizers; a tier keeps one"),
        ({"kept": re.compile("x")}, {}, "the state of a callback, a loader or the module is not data alone: "),
    ]
    for of_module, settings, said in cases:
        with pytest.raises(ucp.Error, match=said):
            fit(tmp_path, memory_tier(job="job", directory=tmp_path / "memory", **settings), **of_module)
    assert not (tmp_path / "memory").exists()


def test_a_version_that_is_not_of_lightning(tmp_path: Path) -> None:
    """An error, and not a start at step 0."""
    pytest.importorskip("lightning_fabric", reason="this environment was made without Lightning")
    from ucp_checkpoint.lightning import memory_tier

    layer = torch.nn.Module()
    layer.layer = torch.nn.Linear(4, 4)
    tier = ucp.memory.Tier(layer, job="job", directory=tmp_path, every=1)
    tier.step(0)
    tier.close(keep=True)
    with pytest.raises(ucp.Error, match=r"was not saved by Lightning's Trainer"):
        fit(tmp_path, memory_tier(job="job", directory=tmp_path))
    with pytest.raises(KeyError):
        fit(tmp_path, memory_tier(job="other", directory=tmp_path, every=1), fails=True)
    assert [place.name for place in (tmp_path / "other").glob("step-*")] == ["step-1"]
    assert fit(tmp_path, memory_tier(job="other", directory=tmp_path, every=1)).global_step == 3
