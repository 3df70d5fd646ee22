"""`ucp.deepspeed` and engines whose experts AutoEP spreads: what is filled, and what is seen before it is."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from conftest import Convert
from fixtures.cases import CASES, Mesh
from fixtures.fingerprints import describe, differences
from fixtures.hooked import case_of, load_in_training, load_partly, refusal
from fixtures.serve import Call, Engines
from placements import place_otherwise
from test_acceptance import noise
from universal import FIXTURES, truth_of

NAME = "autoep_ep2_dp4"
PIPELINE = "autoep_pp2_ep2_dp4"
SOURCE = FIXTURES / NAME / "checkpoint"
EXPERT = "model.layers.1.mlp.experts.w1.0"


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_an_engine_that_has_trained_already(stage: int, engines: Engines, tmp_path: Path) -> None:
    """From a placement that no engine has. Below stage 3 weights of experts are read into their part of a tensor."""
    truth = truth_of(NAME)
    place_otherwise(SOURCE, tmp_path / "placed", [[2], [3, 0, 1]])
    case = case_of(NAME, mesh=Mesh(dp=4, ep=4), stage=stage)
    answer = engines.ask(Call(4, load_in_training, {"case": case, "source": tmp_path / "placed"}))
    assert differences(truth, answer["held"], ["parameter", "buffer"]) == []
    assert answer["held"]["step"] == truth["step"]
    follow = truth["losses"][truth["step"] : truth["step"] + 2]
    assert answer["losses"] == pytest.approx(follow, abs=noise(case))
    assert (EXPERT in answer["report"]["in_place"]) == (stage < 3)


@pytest.mark.parametrize(("name", "stage"), [(NAME, 1), (NAME, 3), (PIPELINE, 1)])
@pytest.mark.parametrize("arguments", [{"load_module_only": True}, {"load_optimizer_states": False}], ids=str)
def test_no_states_of_the_optimizer(name: str, stage: int, arguments: dict[str, bool], engines: Engines) -> None:
    truth, source = truth_of(name), FIXTURES / name / "checkpoint"
    case = case_of(name, stage=stage, mesh=replace(CASES[name].mesh, dp=2))
    answer = engines.ask(Call(case.mesh.ranks, load_partly, {"case": case, "source": source, **arguments}))
    assert answer["counters"]["steps"] == (0 if "load_module_only" in arguments else truth["step"])
    for path, tensor in answer["held"]["tensors"].items():
        if stage == 3 and tensor["kind"] == "parameter":
            assert tensor["states"]["fp32"] == truth["tensors"][path]["states"]["fp32"], path
    if stage == 1:  # Masters follow the weights. Rank 0 has the first half of the experts.
        for path, value in answer["weights"].items():
            if ".experts." not in path and "e_score" not in path:
                assert answer["held"]["tensors"][path]["states"]["fp32"] == describe(value.float()), path
    assert answer["loss"] == pytest.approx(truth["losses"][truth["step"]], abs=noise(case))


@pytest.mark.parametrize(
    ("name", "source", "changes", "trick", "said"),
    [
        (NAME, NAME, {}, "placement", r"`expert_placement` of AutoEP's layer `model\.layers\.1\.mlp` is "),
        (NAME, NAME, {}, "neighbours", r"the checkpoint has no `layer_0_expert_2_mp_rank_00_model_states\.pt` for"),
        (PIPELINE, PIPELINE, {}, "placement", r"`expert_placement` of AutoEP's layer `2\.mlp` is "),
        # A job that lists its parameters when AutoEP has made its routers, which stand elsewhere then.
        (PIPELINE, PIPELINE, {"groups": "late"}, "", r"`3\.up\.weight` .* and `2\.mlp\.router\.gate\.weight`"),
        (NAME, NAME, {"stage": 3}, "neighbours", r"which ranks share a sub-group out in `bf16_zero_pp_rank_0_.*` is"),
        (NAME, "moe_ep2_dp4", {}, "", r"^the engine's configuration switches AutoEP on \(`expert_parallel`\), and no"),
        ("moe_ep2_dp4", NAME, {}, "", r"keeps them, and the engine's configuration does not switch it on"),
    ],
    ids=str,
)
def test_refused(
    name: str, source: str, changes: dict[str, Any], trick: str, said: str, engines: Engines
) -> None:
    case = case_of(name, **changes)
    arguments = {"case": case, "source": FIXTURES / source / "checkpoint", "trick": trick}
    answer = engines.ask(Call(case.mesh.ranks, refusal, arguments))
    assert answer["said"] is not None
    assert re.search(said, answer["said"]), answer["said"]
    assert answer["same"]
    assert answer["overwritten"] == []
    assert torch.tensor(answer["loss"]).isfinite()


def test_weights_alone_do_not_say_that_they_are_autoeps(engines: Engines, convert: Convert) -> None:
    """Nor what order its layers have."""
    source = convert(NAME, "safetensors:dtype=bf16,names=memory")
    answer = engines.ask(Call(2, refusal, {"case": case_of(NAME, mesh=Mesh(dp=2, ep=2)), "source": source}))
    assert "weights alone do not say it" in answer["said"]
    assert answer["same"]
