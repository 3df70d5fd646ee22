"""What `ucp.deepspeed` loads of less than a whole checkpoint, and what it refuses before anything is overwritten."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from fixtures.cases import Mesh
from fixtures.fingerprints import describe, differences
from fixtures.hooked import case_of, failing_loader, load_partly, refusal
from fixtures.serve import Call, Engines
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
        ({}, "arguments", r"ranks call with different arguments: rank 0 with .*, rank 1 with "),
        ({}, "version", r"DeepSpeed 0\.99\.1 is not one that ucp\.deepspeed was tested with \(0\.19\.8\)"),
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
