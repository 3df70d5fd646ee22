"""Folders that Megatron-FSDP saved as `fsdp_dtensor`: what its optimizer held, bit for bit, in every target."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata

from conftest import Run
from fixtures.fingerprints import describe, differences
from fixtures.megatron_core_cases import FSDP_CASES
from test_megatron_write import resumed
from universal import FIXTURES, describe_states, read_states, tag_folder

STEPS = 2
ITERATION = "iter_0001000"
GATED = "fsdp_llama_tp2_dp2"
UP = "model.module.decoder.layers.1.mlp.linear_fc1.weight_v"


def truth_of(name: str) -> dict[str, Any]:
    return json.loads((FIXTURES / "megatron_core" / name / "truth.json").read_text())


def source_of(name: str) -> Path:
    return FIXTURES / "megatron_core" / name / "checkpoint" / ITERATION


@pytest.mark.parametrize("name", FSDP_CASES)
def test_weights(name: str, run: Run, tmp_path: Path) -> None:
    """Whole and with the halves of gated layers joined, layer by layer."""
    run("convert", source_of(name), tmp_path / "out", "--to", "safetensors")
    weights = load_file(tmp_path / "out" / "model.safetensors")
    wanted = {tensor: entry["states"]["fp32"] for tensor, entry in truth_of(name)["tensors"].items()}
    assert {tensor: describe(value) for tensor, value in weights.items()} == wanted


@pytest.mark.parametrize("name", FSDP_CASES)
def test_universal(name: str, run: Run, tmp_path: Path) -> None:
    """Masters, moments and steps, and the settings of the groups."""
    truth = truth_of(name)
    for tensor in truth["tensors"].values():
        del tensor["states"]["weight"]
    run("convert", source_of(name), tmp_path / "out", "--to", "universal")
    folder = tag_folder(tmp_path / "out")
    states = read_states(folder)
    assert differences(truth, describe_states(states), ["parameter"]) == []
    assert states.keys() == truth["tensors"].keys()
    assert {int(files["step"]) for files in states.values()} == {STEPS}
    groups = torch.load(folder / "zero" / "optimizer_state.pt", weights_only=True)["param_groups"]
    assert sorted((group["wd_mult"], group["lr"]) for group in groups) == [(0.0, 0.01), (1.0, 0.01)]


@pytest.mark.parametrize(("name", "tp", "dp"), [(GATED, 1, 2), ("fsdp_gpt_dp3", 2, 1)])
def test_resumes_in_megatron(name: str, tp: int, dp: int, run: Run, tmp_path: Path) -> None:
    """Megatron Core's own loader of `torch_dist` finds every key, and its optimizer then holds what the run held."""
    case = FSDP_CASES[name]
    run("convert", source_of(name), tmp_path / "out", "--to", "megatron")
    model = case.model | {"make_vocab_size_divisible_by": case.padded_vocab // tp}
    found = resumed(replace(case, model=model, tp=tp, dp=dp, container="torch_dist"), tmp_path / "out" / ITERATION)
    assert differences({"tensors": truth_of(name)["stacked"]}, found["loaded"], ["parameter"]) == []


@pytest.mark.parametrize("name", FSDP_CASES)
def test_inspect_and_verify(name: str, run: Run) -> None:
    """The container is dcp's."""
    text = " ".join(run("inspect", source_of(name)).split())
    assert f"dcp, tag {ITERATION}, step {STEPS}" in text
    assert "Megatron-FSDP saved it as `fsdp_dtensor`" in text
    run("verify", source_of(name))


def lose_half(metadata: Any) -> None:
    del metadata.state_dict_metadata[UP]
    metadata.storage_data = {index: at for index, at in metadata.storage_data.items() if index.fqn != UP}


def shorten_half(metadata: Any) -> None:
    entry = metadata.state_dict_metadata[UP]
    entry.size = torch.Size([12, 16])
    entry.chunks = [ChunkStorageMetadata(torch.Size([0, 0]), torch.Size([12, 16]))]
    metadata.storage_data = {
        index: at for index, at in metadata.storage_data.items() if index.fqn != UP or tuple(index.offset) == (0, 0)
    }


def name_twice(metadata: Any) -> None:
    """A second tensor that has one `module.` more before its name."""
    old = "model.module.decoder.final_layernorm.weight"
    new = old.replace("module.", "module.module.")
    metadata.state_dict_metadata[new] = metadata.state_dict_metadata[old]
    for index, at in list(metadata.storage_data.items()):
        if index.fqn == old:
            metadata.storage_data[replace(index, fqn=new)] = replace(at, relative_path="copy.distcp")
    metadata.planner_data[new] = ("model", new.removeprefix("model."))


DAMAGES: dict[str, tuple[Callable[[Any], None], str]] = {
    "half": (lose_half, "and lacks its other half: both halves of a gated layer are needed"),
    "shape": (shorten_half, "linear_fc1.weight_v`, its other half, has [12, 16]"),
    "name": (name_twice, "two of its entries are `model.decoder.final_layernorm.weight`"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_contradictions(damage: str, ucprun: Path, tmp_path: Path) -> None:
    change, words = DAMAGES[damage]
    folder = Path(shutil.copytree(source_of(GATED), tmp_path / "changed"))
    with (folder / ".metadata").open("rb") as file:
        metadata = pickle.load(file)
    change(metadata)
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))
    command = [str(ucprun), "convert", str(folder), str(tmp_path / "out"), "--to", "universal"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 2, answer.stdout + answer.stderr
    assert words in " ".join(answer.stderr.split())
    assert not (tmp_path / "out").exists()
