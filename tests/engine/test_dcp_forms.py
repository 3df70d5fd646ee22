"""State dicts as training scripts put them together before Distributed Checkpoint saves them, on one rank."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict
from torch.distributed.checkpoint.stateful import Stateful

from conftest import Run
from fixtures.dcp_cases import DcpCase
from fixtures.dcp_models import build_model, build_optimizer, train_step
from fixtures.fingerprints import describe
from fixtures.hugging_face import build, prompt
from universal import read_states, tag_folder, tensor_of

CASE = DcpCase("alone", "one rank", 1, "none", groups="decay")


@dataclass(frozen=True)
class Trained:
    """A model after two steps, and its optimizer."""

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer

    def held(self) -> dict[str, dict[str, Any]]:
        """Their contents, by parameter."""
        states = self.optimizer.state
        return {
            name: {"fp32": describe(parameter)} | {key: describe(value) for key, value in states[parameter].items()}
            for name, parameter in self.model.named_parameters()
        }


@pytest.fixture(scope="module")
def trained() -> Trained:
    model = build_model(CASE)
    optimizer = build_optimizer(CASE, model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    for step in range(2):
        train_step(CASE, model, optimizer, scheduler, step)
    return Trained(model, optimizer)


class AppState(Stateful):
    """As PyTorch's tutorial has it."""

    def __init__(self, trained: Trained) -> None:
        self.trained = trained

    def state_dict(self) -> dict[str, Any]:
        weights, states = get_state_dict(self.trained.model, self.trained.optimizer)
        return {"model": weights, "optim": states}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        raise NotImplementedError


def app(trained: Trained) -> dict[str, Any]:
    return {"app": AppState(trained)}


def lightning(trained: Trained) -> dict[str, Any]:
    weights, states = get_state_dict(trained.model, trained.optimizer)
    return {"state_dict": weights, "optimizer_0": states, "epoch": 1, "global_step": 2}


def own_names(trained: Trained) -> dict[str, Any]:
    weights, states = get_state_dict(trained.model, trained.optimizer)
    return {"net": weights, "run": {"optim": states, "step": 2}}


def flat_below_a_name(trained: Trained) -> dict[str, Any]:
    options = StateDictOptions(flatten_optimizer_state_dict=True)
    weights, states = get_state_dict(trained.model, trained.optimizer, options=options)
    return {"model": weights, "optimizer": states}


def of_a_compiled_model(trained: Trained) -> dict[str, Any]:
    """Its own state dict, in which the names have what compiling adds."""
    weights, states = get_state_dict(trained.model, trained.optimizer)
    return {"model": {f"_orig_mod.{name}": value for name, value in weights.items()}, "optim": states}


FORMS = [app, lightning, own_names, flat_below_a_name, of_a_compiled_model]


def save(state: dict[str, Any], place: Path) -> Path:
    """On one rank, without process groups."""
    dcp.save(state, checkpoint_id=place, no_dist=True)
    return place


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_forms(form: Callable[[Trained], dict[str, Any]], trained: Trained, run: Run, tmp_path: Path) -> None:
    """The model and its optimizer are found, whatever they are called."""
    saved = save(form(trained), tmp_path / "saved")
    run("convert", saved, tmp_path / "weights", "--to", "safetensors")
    run("convert", saved, tmp_path / "universal", "--to", "universal")
    held = trained.held()
    weights = load_file(tmp_path / "weights" / "model.safetensors")
    assert {name: describe(value) for name, value in weights.items()} == {
        name: states["fp32"] for name, states in held.items()
    }
    ours = {
        name: {key: describe(tensor_of(value)) for key, value in files.items()}
        for name, files in read_states(tag_folder(tmp_path / "universal")).items()
    }
    assert ours == held


def test_numbered_states(trained: Trained, run: Run, ucprun: Path, tmp_path: Path) -> None:
    """`optimizer.state_dict()` numbers the parameters, and nothing says which is which: weights alone are converted."""
    state = {"model": trained.model.state_dict(), "optimizer": trained.optimizer.state_dict()}
    saved = save(state, tmp_path / "saved")
    run("convert", saved, tmp_path / "weights", "--to", "safetensors")
    weights = load_file(tmp_path / "weights" / "model.safetensors")
    assert {name: describe(value) for name, value in weights.items()} == {
        name: states["fp32"] for name, states in trained.held().items()
    }
    command = [str(ucprun), "convert", str(saved), str(tmp_path / "ours"), "--to", "universal"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode != 0
    assert not (tmp_path / "ours").exists()
    assert str(saved) in result.stderr


@pytest.mark.parametrize("model", ["llama", "llama_tied"])
@pytest.mark.parametrize("below", ["", "model"])
def test_from_pretrained(model: str, below: str, run: Run, tmp_path: Path) -> None:
    """A folder with a model's configuration in it becomes one that transformers loads."""
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    whole = build(model).eval()
    state = whole.state_dict()
    saved = save({below: state} if below else state, tmp_path / "saved")
    whole.config.save_pretrained(saved)
    run("convert", saved, tmp_path / "ours", "--to", "safetensors")
    loaded, report = AutoModelForCausalLM.from_pretrained(
        tmp_path / "ours", dtype=torch.float32, output_loading_info=True
    )
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    with torch.no_grad():
        assert torch.equal(loaded.eval()(input_ids=prompt()).logits, whole(input_ids=prompt()).logits)
