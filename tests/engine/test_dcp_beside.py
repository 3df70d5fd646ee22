"""Tensors beside a model, such as averaged weights: they go along or a note says so, and none takes another's name."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.optim.swa_utils import AveragedModel

from conftest import Run
from dcp_judges import read_flat
from fixtures.dcp_average import CASE, save_shards, train
from fixtures.dcp_models import build_model, build_optimizer
from fixtures.fingerprints import describe
from fixtures.serve import Call, Engines
from universal import FIXTURES

NATIVE = "deepspeed:dp=2,zero=1,dtype=fp32"
WAYS = [("dcp",), ("dcp:style=titan",), ("universal", "dcp:style=plain"), (NATIVE, "dcp:style=plain")]
Trained = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]


@pytest.fixture(scope="module")
def trained() -> Trained:
    """On one rank: weights, the optimizer's states, and the average."""
    alone = replace(CASE, ranks=1, parallel="none")
    return train(alone, build_model(alone))


def save(state: dict[str, Any], place: Path) -> Path:
    """On one rank, without process groups."""
    dcp.save(state, checkpoint_id=place, no_dist=True)
    return place


def described(tensors: dict[str, Any], below: str = "") -> dict[str, str]:
    """Fingerprints of those whose names begin so, by the rest of the name."""
    return {name[len(below) :]: describe(value) for name, value in tensors.items() if name.startswith(below)}


def weights_of(folder: Path, run: Run) -> dict[str, str]:
    """As they convert."""
    weights = folder.with_name(f"weights of {folder.name}")
    run("convert", folder, weights, "--to", "safetensors")
    return described(load_file(weights / "model.safetensors"))


@pytest.mark.parametrize("ways", WAYS, ids="-".join)
def test_whole_averages_go_along(ways: tuple[str, ...], trained: Trained, run: Run, tmp_path: Path) -> None:
    """As other entries of a script do, also through folders of DeepSpeed."""
    weights, states, average = trained
    folder = save({"model": weights, "ema": average, "optimizer": states}, tmp_path / "saved")
    assert weights_of(folder, run) == described(weights)
    for number, way in enumerate(ways):
        run("convert", folder, tmp_path / str(number), "--to", way)
        folder = tmp_path / str(number)
    entries = read_flat(folder)
    assert described(entries, "ema.") == described(average)
    model = {name: entries[name if "titan" in ways[-1] else f"model.{name}"] for name in weights}
    assert described(model) == described(weights)


@pytest.mark.parametrize("name", ["ema", "model_ema", "ema_state_dict", "teacher"])
def test_weights_are_the_models(name: str, trained: Trained, run: Run, tmp_path: Path) -> None:
    """Whatever the others are called, and wherever they stand; also without an optimizer."""
    weights, states, average = trained
    both = save({name: average, "model": weights, "optimizer": states}, tmp_path / "both")
    assert weights_of(both, run) == described(weights)
    alone = save({name: average, "model": weights}, tmp_path / "alone")
    assert weights_of(alone, run) == described(weights)


def test_which_is_the_model(trained: Trained, ucprun: Path, tmp_path: Path) -> None:
    """Nothing is guessed."""
    weights, states, average = trained
    folder = save({"net": weights, "ema": average, "optimizer": states}, tmp_path / "saved")
    command = [str(ucprun), "convert", str(folder), str(tmp_path / "ours"), "--to", "dcp"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2
    assert "stand below `ema` and below `net`, and nothing says which are the model's" in result.stderr
    assert not (tmp_path / "ours").exists()


def test_average_of_pytorchs_own_class(run: Run, tmp_path: Path) -> None:
    """`AveragedModel` has the weights below `module`."""
    model = build_model(CASE)
    optimizer = build_optimizer(CASE, model)
    average = AveragedModel(model)
    weights, states = get_state_dict(model, optimizer)
    torch.nn.init.ones_(average.module.lm_head.weight)
    state = {"model": weights, "ema": average.state_dict(), "optimizer": states}
    folder = save(state, tmp_path / "saved")
    assert weights_of(folder, run) == described(weights)
    run("convert", folder, tmp_path / "ours", "--to", "dcp")
    assert described(read_flat(tmp_path / "ours"), "ema.") == described(average.state_dict())


@pytest.fixture(scope="module")
def sharded(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, str]]]:
    """Saved by two ranks, and the truth of it."""
    folder = tmp_path_factory.mktemp("sharded") / "saved"
    return folder, engines.ask(Call(2, save_shards, {"place": folder}))


def test_model_beside_cut_averages(sharded: tuple[Path, dict[str, dict[str, str]]], run: Run) -> None:
    """It keeps its own weights."""
    folder, truth = sharded
    assert weights_of(folder, run) == truth["model"]


@pytest.mark.parametrize("ways", [("dcp:fsdp=3",), *WAYS], ids="-".join)
def test_cut_averages_go_along(
    ways: tuple[str, ...], sharded: tuple[Path, dict[str, dict[str, str]]], run: Run, tmp_path: Path
) -> None:
    """Put together from the chunks of the ranks."""
    folder, truth = sharded
    for number, way in enumerate(ways):
        run("convert", folder, tmp_path / str(number), "--to", way)
        folder = tmp_path / str(number)
    assert described(read_flat(folder), "ema.") == truth["ema"]


def test_optimizer_that_is_not_read(trained: Trained, ucprun: Path, tmp_path: Path) -> None:
    """`optimizer.state_dict()` numbers its parameters: `inspect` says so, and no target loses it unasked."""
    weights, _, _ = trained
    model = build_model(CASE)
    optimizer = build_optimizer(CASE, model)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    folder = save({"model": weights, "optimizer": optimizer.state_dict()}, tmp_path / "saved")
    for arguments in (["inspect", folder], ["convert", folder, tmp_path / "ours", "--to", "dcp"]):
        result = subprocess.run([ucprun, *arguments], capture_output=True, text=True, timeout=60, check=False)
        assert "get_state_dict()" in result.stdout + result.stderr


def test_accelerates_own_files(run: Run, ucprun: Path, tmp_path: Path) -> None:
    """`load_state()` of a job with a scheduler fails without `scheduler.bin`: it goes along, or a note says so."""
    source = FIXTURES / "dcp" / "accelerate_fsdp2" / "checkpoint"
    run("convert", source, tmp_path / "ours", "--to", "dcp")
    for name in ("scheduler.bin", "random_states_0.pkl", "random_states_1.pkl"):
        assert (tmp_path / "ours" / name).read_bytes() == (source / name).read_bytes()
    command = [str(ucprun), "convert", str(source), str(tmp_path / "plain"), "--to", "dcp:style=plain"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    names = "random_states_0.pkl, random_states_1.pkl, scheduler.bin"
    assert f"not copied from beside the checkpoint: {names}" in result.stderr
    assert not (tmp_path / "plain" / "scheduler.bin").exists()


@pytest.mark.parametrize("to", ["dcp", "dcp:style=titan,fsdp=2"])
def test_states_that_are_not_of_elements(to: str, run: Run, tmp_path: Path) -> None:
    """Factors of rows and columns, and single numbers, stay with their parameters: PyTorch loads and steps them."""
    model = build_model(CASE)
    for optimizer in (torch.optim.Adafactor(model.parameters(), lr=0.01), torch.optim.NAdam(model.parameters())):
        for _ in range(2):
            for parameter in model.parameters():
                parameter.grad = torch.full_like(parameter, 0.5)
            optimizer.step()
        weights, states = get_state_dict(model, optimizer)
        name = type(optimizer).__name__
        save({"model": weights, "optimizer": states}, tmp_path / name)
        run("convert", tmp_path / name, tmp_path / f"ours of {name}", "--to", to)
        kept, found = read_flat(tmp_path / name), read_flat(tmp_path / f"ours of {name}")
        kept_states = described(kept, "optimizer.state.")
        assert any(key.endswith(("row_var", "mu_product")) for key in kept_states)
        assert described(found, "optimizer.state.") == kept_states
