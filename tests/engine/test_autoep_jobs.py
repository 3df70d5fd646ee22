"""AutoEP's jobs: degrees and settings with which no engine of it starts are refused before anything is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spoken import refused
from universal import FIXTURES

REFUSED = {
    "deepspeed:dp=4,ep=3": "4 data-parallel ranks do not divide into groups that share the experts out",
    "deepspeed:dp=8,ep=8": "the 4 experts of `model.layers.1.mlp.experts*` do not divide over so many ranks",
    "deepspeed:dp=4,ep=2,edp=1": "of 4 data-parallel ranks, 2 have the same experts with ep=2",
    "deepspeed:dp=2,sp=2": "sp=2 beside it is not written yet",
}


REFUSED_BESIDE_AUTOTP = {
    "deepspeed:tp=2,dp=4": "beside tp=2 it runs with `ep` of 2 or more",
    "deepspeed:tp=2,dp=1,ep=4": "2 tensor-parallel and data-parallel ranks do not divide into groups that share",
    "deepspeed:tp=2,dp=4,ep=4,edp=1": "of 8 tensor-parallel and data-parallel ranks, 2 have the same experts",
    "deepspeed:tp=2,dp=4,ep=4,expert_tp=true": "AutoEP keeps every expert whole",
    "deepspeed:tp=2,dp=4,ep=4,data_before_experts=true": "beside tp=2 it runs with data_before_experts=false only",
    "deepspeed:tp=4,dp=2,ep=4": "says how for these ranks, and not for other numbers of them",
}


@pytest.mark.parametrize("strategy", [*REFUSED, *REFUSED_BESIDE_AUTOTP])
def test_degrees_that_autoep_has_not(strategy: str, ucprun: Path, tmp_path: Path) -> None:
    source = FIXTURES / ("autoep_tp2_ep4_dp4" if strategy in REFUSED_BESIDE_AUTOTP else "autoep_ep2_dp4") / "checkpoint"
    assert (REFUSED | REFUSED_BESIDE_AUTOTP)[strategy] in refused(ucprun, source, tmp_path / "out", "--to", strategy)


@pytest.mark.parametrize("key", ["offload_optimizer", "offload_param"])
@pytest.mark.parametrize("device", ["cpu", "none"])
def test_offload_that_autoep_beside_autotp_does_not_start_with(
    key: str, device: str, ucprun: Path, tmp_path: Path
) -> None:
    job = {"zero_optimization": {"stage": 2, key: {"device": device}}, "bf16": {"enabled": True}}
    job |= {"expert_parallel": {"enabled": True, "autoep_size": 4}, "tensor_parallel": {"autotp_size": 2}}
    (tmp_path / "job.json").write_text(json.dumps(job))
    options = ["--to", "deepspeed:tp=2,dp=4,ep=4", "--ds-config", str(tmp_path / "job.json")]
    message = refused(ucprun, FIXTURES / "autoep_tp2_ep4_dp4" / "checkpoint", tmp_path / "out", *options)
    assert "beside tp=2 it runs with nothing that is offloaded" in message
    assert "leave `offload_optimizer` and `offload_param` out" in message


@pytest.mark.parametrize(
    ("name", "has_autoep", "words"),
    [
        ("autoep_ep2_dp4", False, "a job without AutoEP has other tensors"),
        ("zero1_dp2", True, "tensors of a run without it have other names, so resume without it"),
        ("moe_ep2_dp4", True, "tensors of a run without it have other names, so resume without it"),
    ],
)
def test_a_job_without_autoep_is_another(name: str, has_autoep: bool, words: str, ucprun: Path, tmp_path: Path) -> None:
    job = {"zero_optimization": {"stage": 1}, "expert_parallel": {"enabled": has_autoep, "autoep_size": 2}}
    (tmp_path / "job.json").write_text(json.dumps(job))
    source = FIXTURES / name / "checkpoint"
    options = ["--to", "deepspeed:dp=2,ep=2", "--ds-config", str(tmp_path / "job.json")]
    assert words in refused(ucprun, source, tmp_path / "out", *options)


def test_a_degree_of_the_job_that_the_strategy_leaves_out(ucprun: Path, tmp_path: Path) -> None:
    job = {"zero_optimization": {"stage": 1}, "expert_parallel": {"enabled": True, "autoep_size": 2}}
    (tmp_path / "job.json").write_text(json.dumps(job))
    options = ["--to", "deepspeed:dp=2", "--ds-config", str(tmp_path / "job.json")]
    message = refused(ucprun, FIXTURES / "autoep_ep2_dp4" / "checkpoint", tmp_path / "out", *options)
    assert "expert_parallel.autoep_size=2, and the strategy says nothing of `ep`; say ep=2 there" in message
