"""Loads of less than a whole checkpoint by `ucp.deepspeed`, and its refusals before anything is overwritten."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from fixtures.cases import CASES, Mesh
from fixtures.fingerprints import describe, differences
from fixtures.hooked import (
    case_of,
    failing_loader,
    load_for_inference,
    load_in_training,
    load_partly,
    loses_a_rank,
    memory_of_load,
    refusal,
    reports,
    scheduled,
    waits_in_loader,
)
from fixtures.jobs import Job
from fixtures.serve import Call, EngineError, Engines
from test_acceptance import NOISE
from universal import FIXTURES, truth_of

SOURCE = FIXTURES / "zero1_dp4" / "checkpoint"


@pytest.mark.parametrize("stage", [0, 1, 3])
def test_safetensors_are_weights_alone(stage: int, engines: Engines, convert: Callable[..., Path]) -> None:
    """Masters follow them, counters stay; a tied head has the elements of its first name. Frozen ones and buffers."""
    case = case_of("frozen_buffers_zero2", stage=stage, mesh=Mesh(dp=2))
    folder = convert("frozen_buffers_zero2", "safetensors:dtype=bf16")
    answer = engines.ask(Call(2, load_partly, {"case": case, "source": folder}))
    expected = load_file(folder / "model.safetensors")
    assert set(expected) < set(answer["weights"])
    for name, value in answer["weights"].items():
        first = truth_of("frozen_buffers_zero2")["aliases"].get(name, name)
        assert torch.equal(value, expected[first].to(value.dtype)), name
    for name, tensor in answer["held"]["tensors"].items():
        if tensor["kind"] == "parameter":
            assert tensor["states"]["fp32"] == describe(expected[name].float()), name
    assert answer["counters"] == answer["before"]


@pytest.mark.parametrize("stage", [0, 1, 3])
@pytest.mark.parametrize("arguments", [{"load_module_only": True}, {"load_optimizer_states": False}], ids=str)
def test_no_states_of_the_optimizer(stage: int, arguments: dict[str, bool], engines: Engines) -> None:
    """The weights are those of the checkpoint at every stage, and the masters do not contradict them."""
    truth = truth_of("zero1_dp4")
    case = case_of("zero1_dp4", stage=stage, mesh=Mesh(dp=2))
    answer = engines.ask(Call(2, load_partly, {"case": case, "source": SOURCE, **arguments}))
    assert answer["counters"]["steps"] == (0 if "load_module_only" in arguments else truth["step"])
    if stage == 3:  # It has nothing but masters.
        masters = {name: tensor["states"]["fp32"] for name, tensor in answer["held"]["tensors"].items()}
        assert masters == {name: tensor["states"]["fp32"] for name, tensor in truth["tensors"].items()}
    for name, value in answer["weights"].items():
        if stage != 3:
            assert answer["held"]["tensors"][name]["states"]["fp32"] == describe(value.float()), name
    assert answer["loss"] == pytest.approx(truth["losses"][truth["step"]], abs=NOISE["bf16"])


@pytest.mark.parametrize(
    ("changes", "trick", "said"),
    [
        ({"groups": "one"}, "", r"the optimizer has 2 groups in the checkpoint and 1 in the engine"),
        ({"model": "deep"}, "", r"the checkpoint has no `blocks\.2\..* and 19 more in .*, which the engine has"),
        ({"model": "small"}, "", r"the checkpoint has `blocks\.1\..* which the engine has not"),
        ({"optimizer": "sgd"}, "", r"have no `dampening`, `momentum`, which the engine's optimizer has"),
        ({}, "order", r"parameter \d of the optimizer's group 1 is `.*` \[33\] in the checkpoint and `.*` \[33\] in"),
        ({}, "memory", r"\d+ B of memory is too little for this plan"),
        ({}, "arguments", r"ranks call with different arguments: rank 0 with .*, rank 1 with "),
        ({}, "version", r"DeepSpeed 0\.99\.1 is not one that ucp\.deepspeed was tested with \(0\.19\.2, 0\.19\.8\)"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_refused(changes: dict[str, str], trick: str, said: str, engines: Engines) -> None:
    case = case_of("zero1_dp4", mesh=Mesh(dp=2), **changes)
    answer = engines.ask(Call(2, refusal, {"case": case, "source": SOURCE, "trick": trick}))
    assert answer["said"] is not None
    assert torch.tensor(answer["loss"]).isfinite()
    assert answer["same"]
    assert answer["overwritten"] == []
    assert re.search(said, answer["said"]), answer["said"]


OFFLOADED = {"offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}}
ON_THE_CPU = {"zero_force_ds_cpu_optimizer": False}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"stage": 2, "zero": {"offload_optimizer": {"device": "cpu"}}, "config": ON_THE_CPU},
        {"stage": 3},
        {"stage": 3, "zero": {"stage3_param_persistence_threshold": 0}},
        {"stage": 3, "zero": OFFLOADED, "config": ON_THE_CPU},
        {"stage": 0},
        {"fp32_accumulation": True},
    ],
    ids=str,
)
def test_an_engine_that_has_trained_already(changes: dict[str, Any], engines: Engines) -> None:
    """Also persistent and offloaded parameters. Weights, masters and states are read straight into what is there."""
    truth = truth_of("zero1_dp4")
    case = case_of("zero1_dp4", mesh=Mesh(dp=2), **changes)
    answer = engines.ask(Call(2, load_in_training, {"case": case, "source": SOURCE}))
    assert differences(truth, answer["held"], ["parameter"]) == []
    assert answer["held"]["step"] == truth["step"]
    follow = truth["losses"][truth["step"] : truth["step"] + 2]
    assert answer["losses"] == pytest.approx(follow, abs=NOISE["bf16"])
    assert answer["folder"] == str(SOURCE / "epoch-1.final")
    places = " ".join(answer["report"]["in_place"])
    assert "exp_avg" in places
    assert "fp32" in places


@pytest.mark.parametrize("stage", [1, 3])
def test_from_before_the_first_step(stage: int, engines: Engines, tmp_path: Path) -> None:
    """An engine that has states loads a checkpoint that has none: it begins anew, and keeps nothing of its own."""
    case = CASES["zero1_dp1"]
    saved = engines.ask(Job(case, steps=0, save=tmp_path / "saved", further_steps=2))
    target = case_of("zero1_dp1", mesh=Mesh(dp=2), stage=stage)
    answer = engines.ask(Call(2, load_in_training, {"case": target, "source": tmp_path / "saved"}))
    assert differences(saved["saved"], answer["held"], ["parameter"]) == []
    assert answer["losses"] == pytest.approx(saved["losses"], abs=NOISE["fp32"])


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
@pytest.mark.parametrize("name", ["zero1_dp4", "zero3_dp4"])
def test_an_engine_without_an_optimizer(name: str, dtype: str, engines: Engines) -> None:
    """Weights and steps, from a checkpoint that trains, of any stage."""
    case = replace(CASES[name], stage=0, dtype=dtype, mesh=Mesh(dp=2), optimizer="none", zero={})
    source = FIXTURES / name / "checkpoint"
    answer = engines.ask(Call(2, load_for_inference, {"case": case, "source": source}))
    assert answer["steps"] == truth_of(name)["step"]
    training = replace(case, optimizer=CASES[name].optimizer)
    trained = engines.ask(Call(2, load_partly, {"case": training, "source": source}))
    assert answer["weights"].keys() == trained["weights"].keys()
    assert all(torch.equal(value, trained["weights"][key]) for key, value in answer["weights"].items())
    at_stage_3 = engines.ask(Call(2, load_for_inference, {"case": replace(case, stage=3), "source": source}))
    assert "the engine has no optimizer" in at_stage_3["said"]


# The stages of the run that saves, which does not say that there are frozen parameters, and of the one that loads.
@pytest.mark.parametrize(("stage", "next_stage"), [(0, 2), (1, 2), (1, 3)])
def test_frozen_parameters_that_nobody_saved(stage: int, next_stage: int, engines: Engines, tmp_path: Path) -> None:
    """With `load_module_strict=False` they stay what they are in the engine, as in DeepSpeed's own function."""
    case = case_of("frozen_excluded_zero2", stage=stage)
    saved = engines.ask(Job(case, steps=3, save=tmp_path / "saved", further_steps=2))
    target = replace(case, stage=next_stage, mesh=Mesh(dp=1))
    answer = engines.ask(Job(target, load=tmp_path / "saved", hook={}, first_step=3, further_steps=2))
    assert differences(saved["saved"], answer["loaded"], ["parameter", "frozen", "buffer"]) == []
    assert answer["losses"] == pytest.approx(saved["losses"][3:], abs=NOISE["bf16"])
    told = engines.ask(Call(1, refusal, {"case": target, "source": tmp_path / "saved"}))
    assert "which the engine has" in told["said"]
    assert told["same"]


def test_schedulers_and_client_state(engines: Engines, tmp_path: Path) -> None:
    case = case_of("zero1_dp4", mesh=Mesh(dp=2))
    answer = engines.ask(Call(2, scheduled, {"case": case, "source": tmp_path / "a", "has_scheduler": True}))
    ours, theirs = answer["states"]
    assert ours == theirs
    assert answer["epoch"] == 5
    arguments = {"case": case, "source": tmp_path / "b", "has_scheduler": False}
    assert (
        "the engine has a learning-rate scheduler, and the checkpoint has none"
        in engines.ask(Call(2, scheduled, arguments))["said"]
    )
    assert engines.ask(Call(2, scheduled, arguments | {"load_lr_scheduler_states": False}))["said"] is None


def test_damaged_bytes(engines: Engines, tmp_path: Path) -> None:
    """With `verify` they are found before anything is written."""
    shutil.copytree(SOURCE, tmp_path / "damaged")
    (file,) = (tmp_path / "damaged").glob("*/bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    case = case_of("zero1_dp4", mesh=Mesh(dp=2))
    answer = engines.ask(Call(2, refusal, {"case": case, "source": tmp_path / "damaged", "verify": True}))
    assert file.name in answer["said"]
    assert "have the CRC-32" in answer["said"]
    assert answer["same"]
    assert answer["overwritten"] == []


@pytest.mark.parametrize("ranks", [4, 2])
def test_nothing_has_to_be_converted(ranks: int, engines: Engines) -> None:
    """The report says so where the engine has the checkpoint's own topology, and not where it has another."""
    case = case_of("zero1_dp4", mesh=Mesh(dp=ranks))
    told = engines.ask(Call(ranks, reports, {"case": case, "source": SOURCE}))
    assert [report["as_stored"] for report in told] == [ranks == 4] * ranks


def test_memory(engines: Engines, tmp_path: Path) -> None:
    """Weights, masters and states are read into the engine itself; only a check before takes as much again."""
    in_place = engines.ask(Call(1, memory_of_load, {"folder": tmp_path / "a"}))
    checked = engines.ask(Call(1, memory_of_load, {"folder": tmp_path / "b", "verify": True}))
    print(f"{in_place['placed']} bytes: {in_place['peak']} more in place, {checked['peak']} with verify")
    assert in_place["peak"] < in_place["placed"] / 4
    assert checked["peak"] > checked["placed"] / 2  # The system may take back what is not in use meanwhile.


def test_a_rank_that_ends(engines: Engines, tmp_path: Path) -> None:
    """All others raise, and name it."""
    case = case_of("zero1_dp4", mesh=Mesh(dp=4))
    with pytest.raises(EngineError):
        engines.ask(Call(4, loses_a_rank, {"case": case, "source": SOURCE, "told": tmp_path}))
    for rank in (0, 2, 3):
        seconds, said = (tmp_path / str(rank)).read_text().split(" ", 1)
        assert float(seconds) < 10
        assert "rank 1 of 4 is gone" in said


def test_a_loader_that_fails_while_others_wait_for_it(engines: Engines, tmp_path: Path) -> None:
    """In a collective of DeepSpeed's own: they do not wait for the end of gloo's patience."""
    case = case_of("zero1_dp4", mesh=Mesh(dp=3))
    with pytest.raises(EngineError):
        engines.ask(Call(3, waits_in_loader, {"case": case, "source": SOURCE, "told": tmp_path}))
    for rank in range(3):
        seconds, code, said = (tmp_path / str(rank)).read_text().split(" ", 2)
        assert float(seconds) < 10
        assert code == "internal"
        assert said.startswith("rank 1: OSError: the device is gone; overwritten on this rank: ")
        assert said.endswith("Load again before training, in a new job: others waited for that rank in a collective, "
                             "which cannot be taken back")  # fmt: skip


def test_a_loader_that_fails(engines: Engines) -> None:
    """On one rank: both raise, naming it; neither trains until a load succeeds."""
    truth = truth_of("zero1_dp4")
    case = case_of("zero1_dp4", mesh=Mesh(dp=2))
    answer = engines.ask(Call(2, failing_loader, {"case": case, "source": SOURCE}))
    (first, overwritten), (second, _) = answer["said"]
    assert "rank 1: OSError: the device is gone; overwritten on this rank: `tone`" in first
    assert set(overwritten) == set(truth["tensors"])
    assert second.startswith("loading a checkpoint into this engine failed")
    assert differences(truth, answer["held"], ["parameter"]) == []
    assert answer["loss"] == pytest.approx(truth["losses"][truth["step"]], abs=NOISE["bf16"])
