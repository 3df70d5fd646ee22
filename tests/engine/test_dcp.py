"""Checkpoints that PyTorch's Distributed Checkpoint saved: what the ranks held, bit for bit, in every target."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed import checkpoint as dcp

from conftest import Run
from fixtures.dcp_cases import DCP_CASES
from fixtures.dcp_resume import Resume, go_on_from_each
from fixtures.fingerprints import describe, differences
from fixtures.serve import Call, Engines
from universal import FIXTURES, describe_states, read_states, tag_folder

ConvertDcp = Callable[[str, str], Path]

WITH_STATES = [name for name, case in DCP_CASES.items() if case.form != "weights"]
# Sums in another order than those of the ranks that saved.
NOISE = 5e-6
NATIVE = "deepspeed:dp=2,zero=1,dtype=fp32"


def truth_of(name: str) -> dict[str, Any]:
    """The state that the ranks of the run held."""
    return json.loads((FIXTURES / "dcp" / name / "truth.json").read_text())


@pytest.fixture(scope="module")
def convert(run: Run, tmp_path_factory: pytest.TempPathFactory) -> ConvertDcp:
    """Converts a fixture once per strategy and returns the output folder."""
    done: dict[tuple[str, str], Path] = {}

    def converted(name: str, to: str) -> Path:
        if (name, to) not in done:
            output = tmp_path_factory.mktemp("ours") / name
            run("convert", FIXTURES / "dcp" / name / "checkpoint", output, "--to", to)
            done[name, to] = output
        return done[name, to]

    return converted


@pytest.mark.parametrize("name", DCP_CASES)
def test_weights(name: str, convert: ConvertDcp) -> None:
    """By their own names and in their own dtypes; a tied head may also be there by its second name."""
    truth = truth_of(name)
    weights = load_file(convert(name, "safetensors") / "model.safetensors")
    assert weights.keys() - truth["aliases"].keys() == truth["tensors"].keys()
    for alias, first in truth["aliases"].items():
        assert alias not in weights or torch.equal(weights[alias], weights[first])
    for tensor, entry in truth["tensors"].items():
        assert list(weights[tensor].shape) == entry["shape"], tensor
        assert describe(weights[tensor]) == entry["states"].get("fp32", entry["states"].get("weight")), tensor


@pytest.mark.parametrize("name", WITH_STATES)
def test_states_beside_weights(name: str, convert: ConvertDcp) -> None:
    truth = truth_of(name)
    states = load_file(convert(name, "safetensors:states=all") / "optimizer.safetensors")
    assert {entry: describe(value) for entry, value in states.items()} == {
        f"{tensor}.{state}": fingerprint
        for tensor, entry in truth["tensors"].items()
        if entry["kind"] == "parameter"
        for state, fingerprint in entry["states"].items()
    }


@pytest.mark.parametrize("name", WITH_STATES)
def test_universal(name: str, convert: ConvertDcp) -> None:
    """As PyTorch alone reads it: states, steps, and the settings of the groups."""
    truth = truth_of(name)
    folder = tag_folder(convert(name, "universal"))
    states = read_states(folder)
    assert differences(truth, describe_states(states), ["parameter"]) == []
    assert states.keys() == {name for name, entry in truth["tensors"].items() if entry["kind"] == "parameter"}
    for tensor, files in states.items():
        step = files.get("step")
        assert (None if step is None else int(step)) == truth["step_counter"]["value"], tensor
        assert step is None or str(step.dtype) == f"torch.{truth['step_counter']['type']}", tensor
    expect_groups(torch.load(folder / "zero" / "optimizer_state.pt", weights_only=True)["param_groups"], truth)
    module = torch.load(folder / "mp_rank_00_model_states.pt", weights_only=True)["module"] or {}
    for tensor, entry in truth["tensors"].items():
        if entry["kind"] != "parameter":
            assert describe(module[tensor]) == entry["states"]["weight"], tensor


def expect_groups(groups: list[dict[str, Any]], truth: dict[str, Any]) -> None:
    """The same settings, group by group; groups that differ in their parameters alone may be in another order."""
    keys = ("lr", "eps", "weight_decay", "momentum", "amsgrad", "betas")

    def of(group: dict[str, Any]) -> list[tuple[str, Any]]:
        return [(key, list(group[key]) if key == "betas" else group[key]) for key in keys if key in group]

    assert sorted(map(of, groups)) == sorted(map(of, truth["groups"]))


# Stage 3 loads only Adam's states from a universal folder.
RESUMES = [
    *((name, NATIVE, 1, False) for name in WITH_STATES),
    *((name, "universal", 2, True) for name in WITH_STATES),
    ("fsdp2", "deepspeed:dp=2,zero=3,dtype=fp32", 3, False),
    ("accelerate_fsdp2", "universal", 3, True),
    ("hsdp_sgd", "deepspeed:dp=2,zero=3,dtype=fp32", 3, False),
]


@pytest.fixture(scope="module")
def resumed(convert: ConvertDcp, engines: Engines) -> dict[str, Any]:
    """The states and losses of DeepSpeed's engines that loaded the folders: two ranks, one job for all."""
    plans = [Resume(name, convert(name, to), stage, universal) for name, to, stage, universal in RESUMES]
    return engines.ask(Call(2, go_on_from_each, {"resumes": plans}))


@pytest.mark.parametrize(
    ("name", "stage", "is_universal"),
    [(name, stage, universal) for name, _, stage, universal in RESUMES],
    ids=[f"{name}-{to}-stage{stage}" for name, to, stage, _ in RESUMES],
)
def test_deepspeed_resumes(name: str, stage: int, is_universal: bool, resumed: dict[str, Any]) -> None:
    """It holds the same bits in its partitions, and its losses are those of PyTorch's run that was not interrupted."""
    truth = truth_of(name)
    answer = resumed[str(Resume(name, Path(), stage, is_universal))]
    assert "error" not in answer
    assert differences(truth, answer, ["parameter"]) == []
    assert answer["step"] == truth["step_counter"]["value"]
    expect_groups(answer["groups"], truth)
    if not is_universal:  # DeepSpeed loads these from native files alone.
        for tensor, entry in truth["tensors"].items():
            if entry["kind"] != "parameter":
                assert answer["weights"][tensor] == entry["states"]["weight"], tensor
    assert answer["losses"] == pytest.approx(truth["losses"][truth["step"] :], abs=NOISE)


def tensors_of_all_kinds() -> dict[str, torch.Tensor]:
    """Dtypes, shapes, memory formats and names that no run above has."""
    generator = torch.Generator().manual_seed(3)
    wide = torch.randn(5, 7, generator=generator)
    images = torch.randn(2, 3, 4, 5, generator=generator)
    numbers = {
        str(dtype).removeprefix("torch."): (100 * wide).to(dtype)
        for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8)
    }
    return numbers | {
        "bytes": torch.arange(11, dtype=torch.uint8),
        "truth": wide > 0,
        "eight.bits": wide.to(torch.float8_e4m3fn),
        "transposed": wide.t(),
        "columns": wide[:, 2:5],
        "permuted": images.permute(2, 0, 3, 1),
        "channels_last": images.contiguous(memory_format=torch.channels_last),
        "expanded": torch.arange(3.0).expand(4, 3),
        "number": torch.tensor(2.5),
        "nothing": torch.zeros(0, 3),
        "name with: ümlaut/0": torch.ones(2),
        "a.0.b.1": torch.full((1, 1), -0.0),
        "parameter": torch.nn.Parameter(wide[1]),
    }


def test_tensors_of_all_kinds(run: Run, tmp_path: Path) -> None:
    """Elements are in the order of the tensor, whatever order PyTorch keeps them in."""
    tensors = tensors_of_all_kinds()
    dcp.save(tensors, checkpoint_id=tmp_path / "saved", no_dist=True)
    run("convert", tmp_path / "saved", tmp_path / "ours", "--to", "safetensors")
    ours = load_file(tmp_path / "ours" / "model.safetensors")
    assert ours.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert ours[name].shape == tensor.shape, name
        assert describe(ours[name]) == describe(tensor), name
    assert math.copysign(1, ours["a.0.b.1"].item()) == -1


def test_same_weights_in_other_cuts(run: Run) -> None:
    """`verify --same` compares a checkpoint with itself, read in place."""
    for name in ("fsdp2", "accelerate_fsdp1", "pipeline"):
        place = FIXTURES / "dcp" / name / "checkpoint"
        run("verify", place, "--same", place)


def test_what_is_there(run: Run) -> None:
    """`inspect` names the format and the tensors."""
    for name in ("fsdp2", "fsdp2_flat", "accelerate_fsdp2", "weights_bf16", "torch_2_2"):
        said = run("inspect", FIXTURES / "dcp" / name / "checkpoint")
        assert "dcp" in said
        assert "model.embed_tokens.weight" in said
