"""Checkpoints that Megatron Core saved as `torch_dist`, or its ranks as `torch`: what its optimizers held, bit for bit,
in every target."""

from __future__ import annotations

import io
import json
import pickle
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import BytesStorageMetadata, MetadataIndex

from conftest import Run
from fixtures.fingerprints import describe, differences
from fixtures.megatron_core_cases import MEGATRON_CASES, RANKS_CASES, SHIFTED
from native import read_files
from universal import FIXTURES, describe_states, read_states, tag_folder

ConvertMegatron = Callable[[str, str], Path]

CASES = MEGATRON_CASES | RANKS_CASES
STEPS = 2
ITERATION = "iter_0001000"


def truth_of(name: str) -> dict[str, Any]:
    """The state that the ranks of the run held."""
    return json.loads((FIXTURES / "megatron_core" / name / "truth.json").read_text())


def trained(truth: dict[str, Any]) -> dict[str, Any]:
    """The same without the copies of the masters that the model computes with."""
    tensors = {
        name: tensor | {"states": {state: value for state, value in tensor["states"].items() if state != "weight"}}
        for name, tensor in truth["tensors"].items()
    }
    return truth | {"tensors": tensors}


@pytest.fixture(scope="module")
def convert(run: Run, tmp_path_factory: pytest.TempPathFactory) -> ConvertMegatron:
    """Converts a fixture once per strategy and returns the output folder."""
    done: dict[tuple[str, str], Path] = {}

    def converted(name: str, to: str) -> Path:
        if (name, to) not in done:
            output = tmp_path_factory.mktemp("ours") / name
            run("convert", FIXTURES / "megatron_core" / name / "checkpoint", output, "--to", to)
            done[name, to] = output
        return done[name, to]

    return converted


@pytest.mark.parametrize("name", CASES)
def test_weights(name: str, convert: ConvertMegatron) -> None:
    """By their own keys, in the model's dtype."""
    truth = truth_of(name)
    weights = load_file(convert(name, "safetensors") / "model.safetensors")
    assert weights.keys() == truth["tensors"].keys()
    for tensor, entry in truth["tensors"].items():
        assert list(weights[tensor].shape) == entry["shape"], tensor
        assert describe(weights[tensor]) == entry["states"]["weight"], tensor


def group_of(truth: dict[str, Any], tensor: str) -> int:
    return next(number for number, group in enumerate(truth["groups"]) if tensor in group["params"])


@pytest.mark.parametrize("name", CASES)
def test_universal(name: str, convert: ConvertMegatron) -> None:
    """Masters, moments and steps, and the settings of the groups."""
    truth = truth_of(name)
    folder = tag_folder(convert(name, "universal"))
    states = read_states(folder)
    assert differences(trained(truth), describe_states(states), ["parameter"]) == []
    assert states.keys() == truth["tensors"].keys()
    assert {int(files["step"]) for files in states.values()} == {STEPS}
    groups = torch.load(folder / "zero" / "optimizer_state.pt", weights_only=True)["param_groups"]
    keys = ("lr", "eps", "weight_decay", "wd_mult", "lr_mult")
    wanted = [{key: group[key] for key in keys} for group in truth["groups"]]
    assert [{key: group[key] for key in keys} for group in groups] == wanted


@pytest.mark.parametrize("name", CASES)
def test_dcp(name: str, convert: ConvertMegatron) -> None:
    """As PyTorch's own loader reads it."""
    truth = truth_of(name)
    state: dict[str, Any] = {}
    for tensor, entry in truth["tensors"].items():
        state[tensor] = torch.empty(entry["shape"])
        for moment in ("exp_avg", "exp_avg_sq"):
            state[f"optimizer.state.{tensor}.{moment}"] = torch.empty(entry["shape"])
    dcp.load(state, checkpoint_id=convert(name, "dcp"))
    for tensor, entry in truth["tensors"].items():
        assert describe(state[tensor]) == entry["states"]["fp32"], tensor
        for moment in ("exp_avg", "exp_avg_sq"):
            assert describe(state[f"optimizer.state.{tensor}.{moment}"]) == entry["states"][moment], (tensor, moment)


@pytest.mark.parametrize("name", CASES)
def test_deepspeed_groups(name: str, convert: ConvertMegatron) -> None:
    """The parameters of each group are those that the run's optimizer had in it, masters and moments in one vector."""
    truth = truth_of(name)
    files = read_files(convert(name, "deepspeed:dp=1,zero=1,dtype=bf16"))
    shapes = files["mp_rank_00_model_states.pt"]["param_shapes"]
    assert [set(group) for group in shapes] == [set(group["params"]) for group in truth["groups"]]
    held = files["bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"]["optimizer_state_dict"]
    for number, group in enumerate(shapes):
        moments = held["base_optimizer_state"]["state"][number]
        vectors = {"fp32": held["single_partition_of_fp32_groups"][number]} | {
            state: moments[state] for state in ("exp_avg", "exp_avg_sq")
        }
        begin = 0
        for tensor, shape in group.items():
            end = begin + shape.numel()
            for state, vector in vectors.items():
                assert describe(vector[begin:end].view(shape)) == truth["tensors"][tensor]["states"][state], tensor
            begin = end


def test_every_target_holds_the_same(ucprun: Path, convert: ConvertMegatron) -> None:
    """By the digests of their tensors, which no cut changes."""
    source = FIXTURES / "megatron_core" / "llama_tp2_pp2_dp2" / "checkpoint"
    for to in ("universal", "dcp"):
        command = [str(ucprun), "diff", str(source), str(convert("llama_tp2_pp2_dp2", to))]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize("name", CASES)
def test_inspect(name: str, run: Run) -> None:
    """From the root, the checkpoint that the tracker file names."""
    case = CASES[name]
    text = run("inspect", FIXTURES / "megatron_core" / name / "checkpoint")
    assert f"megatron, tag {ITERATION}, step {STEPS}" in text
    words = " ".join(text.split())
    experts = f"EP {case.ep}, " if case.ep > 1 else ""
    who = "Megatron Core" if name in MEGATRON_CASES else "Megatron"
    assert f"{who} saved it as `{case.container}` at TP {case.tp}, PP {case.pp}, {experts}DP {case.dp}" in words
    says_sharding = name in MEGATRON_CASES and bool(case.sharding)
    assert (f"the optimizer as `{case.sharding}`" in words) == says_sharding


@pytest.mark.parametrize(
    ("source", "left"), [("megatron_core/llama_tp2_pp2_dp2", ""), ("zero1_dp2", "ds_config, ds_version")]
)
def test_entries_of_an_engine(source: str, left: str, ucprun: Path, tmp_path: Path) -> None:
    """A note names those of DeepSpeed that PyTorch does not have, and none that nobody saved."""
    command = [str(ucprun), "convert", str(FIXTURES / source / "checkpoint"), str(tmp_path / "out"), "--to", "dcp"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    notes = " ".join(answer.stderr.split())
    assert ("entries of the source's engine" in notes) == bool(left)
    assert left in notes
    assert "data_sampler" not in notes


def test_verify(run: Run) -> None:
    run("verify", FIXTURES / "megatron_core" / "llama_tp2_pp2_dp2" / "checkpoint")


def test_shifted_states(ucprun: Path, tmp_path: Path) -> None:
    """Megatron Core's own fault in `fully_reshardable` with several buckets: verify and convert name the tensors."""
    source = FIXTURES / "megatron_core" / SHIFTED.name / "checkpoint"
    answer = subprocess.run([str(ucprun), "verify", str(source)], capture_output=True, text=True, check=False)
    tensor = "decoder.layers.mlp.linear_fc1.bias"
    assert f"weights of `{tensor}` are not the rounding of their masters in 24 elements" in answer.stderr
    assert "element [0, 0] is -1.484375" in answer.stderr
    held = truth_of(SHIFTED.name)["tensors"]
    named = {line.split("`")[1] for line in answer.stderr.splitlines() if "not the rounding" in line}
    # The last parameters are in the first bucket, and so stand where they should.
    assert named == held.keys() - {"decoder.final_layernorm.weight", "decoder.final_layernorm.bias"}
    command = [str(ucprun), "convert", str(source), str(tmp_path / "out"), "--to", "universal"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 2
    assert f"24 of the 24 weights of `{tensor}`" in answer.stderr
    assert "Megatron Core 0.15 to 0.16.1 shifts masters and moments" in answer.stderr
    assert "--to safetensors writes them" in answer.stderr and "--replicas" not in answer.stderr
    assert not (tmp_path / "out").exists()


def test_without_common_file(run: Run, tmp_path: Path) -> None:
    """Later releases save what `common.pt` has as an object among the others."""
    source = FIXTURES / "megatron_core" / "llama_tp2_pp2_dp2" / "checkpoint" / ITERATION
    folder = Path(shutil.copytree(source, tmp_path / "later"))
    item = io.BytesIO()
    torch.save([torch.load(folder / "common.pt", weights_only=False)], item)
    (folder / "__9_0.distcp").write_bytes(item.getvalue())
    (folder / "common.pt").unlink()
    with (folder / ".metadata").open("rb") as file:
        metadata = pickle.load(file)
    key = "common_state/shard_0_1"
    metadata.state_dict_metadata[key] = BytesStorageMetadata()
    metadata.storage_data[MetadataIndex(key)] = _StorageInfo("__9_0.distcp", 0, len(item.getvalue()))
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))
    run("convert", folder, tmp_path / "out", "--to", "universal")
    states = read_states(tag_folder(tmp_path / "out"))
    assert differences(trained(truth_of("llama_tp2_pp2_dp2")), describe_states(states), ["parameter"]) == []
