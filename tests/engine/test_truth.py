"""Every fixture, converted to a universal folder, holds what the running engine held, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path

import pytest
import torch

from conftest import SPEC_OF
from fixtures.cases import CASES
from fixtures.fingerprints import describe, differences
from universal import FIXTURES, cutting_rules, describe_states, read_states, tag_folder, truth_of

SCRAMBLES = "scrambles"
IDENTICAL = "identical"
FLAT = "identical, but for the shapes: all tensors are vectors"

# The result of DeepSpeed's own converter for each fixture: an identical folder, a wrong one, or its failure.
DEEPSPEED = {
    "zero1_dp1": IDENTICAL,
    "zero1_dp2": IDENTICAL,
    "zero1_dp4": IDENTICAL,
    "zero2_dp1": IDENTICAL,
    "zero2_dp2": IDENTICAL,
    "zero2_dp4": IDENTICAL,
    "fused_adam_zero2": IDENTICAL,
    "bf16_optimizer_dp2": IDENTICAL,
    "bf16_optimizer_dp4_tiny": "RuntimeError: narrow(): length must be non-negative.",
    "pipeline_pp2": IDENTICAL,
    "gpt_pp2_tp2_dp2": IDENTICAL,
    "llama_pp2_tp2_dp2": IDENTICAL,
    "gpt_pp1_tp1_dp2": IDENTICAL,
    "frozen_buffers_zero2": IDENTICAL,
    "extra_state_zero1": "AttributeError: 'dict' object has no attribute 'float'",
    "round_robin": SCRAMBLES,
    "alignment": IDENTICAL,
    "sgd_momentum_zero1": "KeyError: 'exp_avg'",
    "moe_ep2_dp4": "RuntimeError: shape '[",
    "moe_ep2_dp4_data_first": "RuntimeError: shape '[",
    "moe_residual_zero2": "RuntimeError: shape '[",
    "moe_ep2_ep4_dp4": "RuntimeError: shape '[",
    "moe_pp2_ep2_dp4": "RuntimeError: shape '[",
    "moe_tp2_ep2_dp2": "RuntimeError: shape '[",
    "moe_tp2_ep4_dp4_whole": "RuntimeError: shape '[",
    "moe_zero0_fp32": "KeyError: 'optimizer_state_dict'",
    "autoep_ep2_dp4": IDENTICAL,
    "autoep_ep2_dp4_data_first": IDENTICAL,
    "autoep_ep2_dp4_zero3": FLAT,
    "autoep_zero0_fp32": "KeyError: 'optimizer_state_dict'",
    "autoep_pp2_ep2_dp4": "NotImplementedError: Multiple expert checkpoint files found for layer_0 expert_0",
    "autoep_pp2_ep2_dp2_zero0": "KeyError: 'optimizer_state_dict'",
    "autoep_tp2_ep4_dp4": "AssertionError: Unused patterns=",
    "autoep_tp4_ep2": "AssertionError: Unused patterns=",
    "autoep_tp4_ep2_dp2_zero3": "NotImplementedError: Universal checkpoint conversion of an AutoEP + AutoTP folded",
    "autotp_tp2_dp2": IDENTICAL,
    "autotp_tp3_zero2": IDENTICAL,
    "autotp_tp2_zero3": IDENTICAL,
    "ulysses_sp2_dp2": "RuntimeError: Checkpoint model-state file count 1 does not match",
    "zero3_dp4": FLAT,
    "zero3_frozen_dp4": FLAT,
    "zero3_tp2_dp2": "KeyError: 'exp_avg'",
    # DeepSpeed converts nothing without ZeRO.
    "zero0_fp32": "FileNotFoundError: can't find *_optim_states.pt files",
    "zero0_fused_fp16": "FileNotFoundError: can't find *_optim_states.pt files",
    "zero0_unfused_bf16": "FileNotFoundError: can't find *_optim_states.pt files",
    "elastic_zero2": "AttributeError: 'list' object has no attribute 'get'",
    "elastic_zero1": "AttributeError: 'list' object has no attribute 'get'",
    "lion_zero1": IDENTICAL,
    "adagrad_zero1": "KeyError: 'exp_avg'",
    "rmsprop_zero2": "KeyError: 'exp_avg'",
    "muon_zero1": "KeyError: 'exp_avg'",
    "muon_zero2": "KeyError: 'exp_avg'",
    "bf16_masters_zero2": IDENTICAL,
    "bf16_masters_zero3": FLAT,
    "fp16_masters_zero2": IDENTICAL,
    "frozen_excluded_zero2": IDENTICAL,
    "frozen_excluded_zero3": FLAT,
    "pipeline_zero0_bf16": "RuntimeError: ",
    "pipeline_zero0_fp16": "FileNotFoundError: can't find *_optim_states.pt files",
    "pipeline_zero0_fused_fp16": "FileNotFoundError: can't find *_optim_states.pt files",
    "pipeline_zero0_fp32": "FileNotFoundError: can't find *_optim_states.pt files",
}

Convert = Callable[..., Path]


def test_every_fixture_is_in_the_table() -> None:
    assert DEEPSPEED.keys() == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_trained_tensors_are_bit_identical(name: str, convert: Convert) -> None:
    truth = truth_of(name)
    ours = describe_states(read_states(tag_folder(convert(name))))
    assert differences(truth, ours, ["parameter"]) == []
    trained = {tensor for tensor, entry in truth["tensors"].items() if entry["kind"] == "parameter"}
    assert set(ours["tensors"]) == trained


@pytest.mark.parametrize("name", CASES)
def test_step_keeps_its_value_and_type(name: str, convert: Convert) -> None:
    truth = truth_of(name)
    for tensor, files in read_states(tag_folder(convert(name))).items():
        expected = truth["step_counter"]
        is_muons = CASES[name].optimizer == "muon" and "momentum_buffer" in files  # It counts nothing.
        if expected["type"] == "none" or is_muons:
            assert "step" not in files, tensor
            continue
        step = files["step"]
        kind = str(step.dtype).removeprefix("torch.") if torch.is_tensor(step) else type(step).__name__
        assert (kind, int(step)) == (expected["type"], expected["value"]), tensor


@pytest.mark.parametrize("name", CASES)
def test_frozen_parameters_buffers_and_extra_state_are_carried(name: str, convert: Convert) -> None:
    truth = truth_of(name)
    found: dict[str, object] = {}
    for file in sorted(tag_folder(convert(name)).glob("mp_rank_*_model_states.pt")):
        module = torch.load(file, weights_only=CASES[name].model not in SPEC_OF)["module"]
        found |= module or {}
    for tensor, entry in truth["tensors"].items():
        if entry["kind"] == "frozen" and CASES[name].exclude_frozen:
            assert tensor not in found
        elif entry["kind"] != "parameter":
            assert describe(found[tensor]) == entry["states"]["weight"], tensor
            assert list(found[tensor].shape) == entry["shape"], tensor
    for key, value in truth.get("extra_state", {}).items():
        assert found[key] == value


@pytest.mark.parametrize("name", CASES)
def test_model_files_suit_every_stage(name: str, convert: Convert) -> None:
    """As many as the model-parallel size, under the names that engines of stage 1 and 2, and of stage 3, look for."""
    folder = tag_folder(convert(name))
    mesh = CASES[name].mesh
    truth = truth_of(name)
    for prefix in ("", "zero_pp_rank_0_"):
        files = sorted(folder.glob(f"{prefix}mp_rank_*_model_states.pt"))
        assert [file.name for file in files] == [
            f"{prefix}mp_rank_{index:02d}_model_states.pt" for index in range(mesh.pp * mesh.tp)
        ]
        for file in files:
            state = torch.load(file, weights_only=CASES[name].model not in SPEC_OF)
            assert state["mp_world_size"] == mesh.pp * mesh.tp
            assert state["global_steps"] == truth["step"]
            assert state["iteration"] == truth["step"]


def test_number_of_model_files_can_be_chosen(convert: Convert) -> None:
    """As many as the target's model-parallel size, each saying so: the engine counts them."""
    files = sorted(tag_folder(convert("gpt_pp2_tp2_dp2", "universal:mp=8")).glob("mp_rank_*_model_states.pt"))
    assert [file.name for file in files] == [f"mp_rank_{index:02d}_model_states.pt" for index in range(8)]
    assert {torch.load(file, weights_only=False)["mp_world_size"] for file in files} == {8}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.model in SPEC_OF])
def test_client_state_is_carried_unchanged(name: str, convert: Convert) -> None:
    """Objects of any class, here Megatron's arguments and the states of three random generators."""
    source = FIXTURES / name / "checkpoint"
    tag = (source / "latest").read_text()
    theirs, ours = (
        torch.load(next(folder.glob("*mp_rank_00_model_states.pt")), weights_only=False)
        for folder in (source / tag, tag_folder(convert(name)))
    )
    assert vars(ours["args"]) == vars(theirs["args"])
    assert ours["args"].params_dtype is torch.bfloat16
    for key in ("checkpoint_version", "iteration", "tokens", "universal_checkpoint_info", "lr_scheduler", "ds_config"):
        assert ours[key] == theirs[key], key
    (old,), (new,) = theirs["rng_state"], ours["rng_state"]
    assert new.keys() == old.keys()
    assert new["random_rng_state"] == old["random_rng_state"]
    assert torch.equal(new["torch_rng_state"], old["torch_rng_state"])
    assert new["np_rng_state"][0] == old["np_rng_state"][0]
    assert (new["np_rng_state"][1] == old["np_rng_state"][1]).all()
    assert new["np_rng_state"][2:] == old["np_rng_state"][2:]


@pytest.mark.parametrize("name", CASES)
def test_optimizer_state_has_the_source_groups(name: str, convert: Convert) -> None:
    """It serves the loaders of stages 1, 2 and 3. Only a dynamic loss scaler, whose scale must survive, is a class."""
    dynamic_scale = CASES[name].dtype == "fp16"
    state = torch.load(tag_folder(convert(name)) / "zero" / "optimizer_state.pt", weights_only=not dynamic_scale)
    assert ("loss_scaler" in state) == dynamic_scale
    assert state["ds_version"] == truth_of(name)["engine"]["deepspeed"]
    count = {"one": 1, "decay": 2, "tiny": 3}[CASES[name].groups]
    if CASES[name].mesh.ep > 1:  # The experts have groups of their own; AutoEP's have no vectors.
        count += 1 if CASES[name].model.startswith("autoep") else count
    if CASES[name].optimizer == "muon":
        count += 1  # Matrices that are embeddings go to Adam.
    assert len(state["param_groups"]) == count
    if "elastic_checkpoint" not in CASES[name].zero:
        assert all("lr" in group and "weight_decay" in group for group in state["param_groups"])
    stage3 = state["optimizer_state_dict"]
    assert len(stage3["param_groups"]) == count
    if truth_of(name)["step_counter"]["type"] != "none" and CASES[name].optimizer != "muon":
        assert int(stage3["state"][0]["step"]) == truth_of(name)["step_counter"]["value"]


@pytest.mark.parametrize("name", CASES)
def test_deepspeed_converter(name: str, convert: Convert, convert_with_deepspeed: Callable[[str], Path | str]) -> None:
    """Where DeepSpeed's converter supports a case, it agrees; where it fails or is wrong, the table says how."""
    theirs = convert_with_deepspeed(name)
    if DEEPSPEED[name] not in (IDENTICAL, SCRAMBLES, FLAT):
        assert isinstance(theirs, str), "DeepSpeed's converter did not fail"
        assert theirs.startswith(DEEPSPEED[name])
        return
    assert isinstance(theirs, Path), theirs
    their_states = read_states(tag_folder(theirs))
    truth = truth_of(name)
    if DEEPSPEED[name] == FLAT:
        for tensor, entry in truth["tensors"].items():
            if ".mlp.experts." not in tensor:  # AutoEP's keep their shape.
                entry["shape"] = [prod(entry["shape"])]
    found = differences(truth, describe_states(their_states), ["parameter"])
    if DEEPSPEED[name] == SCRAMBLES:
        assert found != []
        return
    assert found == []
    our_rules = cutting_rules(read_states(tag_folder(convert(name))))
    if CASES[name].mesh.tp > 1 and CASES[name].model != "autotp":  # Whose engine asks its live parameters.
        assert our_rules == cutting_rules(their_states)
