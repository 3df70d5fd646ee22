"""The files that each rank loads: `ucprun load` gives a rank those that DeepSpeed's engine opens there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import FIXTURES, SPEC_OF, Run
from fixtures.cases import CASES
from fixtures.opened import opened_files
from fixtures.serve import Call, Engines

SAME_JOB = {
    "zero2_dp4": "deepspeed:dp=4,zero=2",
    "zero3_dp4": "deepspeed:dp=4,zero=3",
    "moe_ep2_dp4": "deepspeed:dp=4,ep=2,zero=2",
    "moe_ep2_dp4_data_first": "deepspeed:dp=4,ep=2,zero=2",
    "elastic_zero2": "",
    "gpt_pp2_tp2_dp2": "deepspeed:pp=2,tp=2,dp=2,zero=1",
}


def first_of_lists(names: set[str]) -> set[str]:
    """Files of model-parallel rank 0, which every rank opens only to see that a list of files is complete."""
    return {name for name in names if name.startswith("mp_rank_00") or "-model_00-" in name}


@pytest.mark.parametrize("name", SAME_JOB)
def test_the_same_files_as_the_engine(name: str, engines: Engines, run: Run) -> None:
    case = CASES[name]
    source: Path = FIXTURES / name / "checkpoint"
    opened = engines.ask(Call(case.mesh.ranks, opened_files, {"case": case, "source": source}))
    strategy = SAME_JOB[name] or f"deepspeed:dp={case.mesh.dp},zero={case.stage}"
    spec = ["--spec", SPEC_OF["gpt"]] if case.mesh.tp > 1 else []
    for rank, names in enumerate(opened):
        report = json.loads(run("load", source, "--to", strategy, "--rank", rank, "--json", *spec))
        ours = {Path(path).name for path in report["ranks"][0]["files"] if path.endswith("_states.pt")}
        assert ours <= set(names), f"rank {rank}"
        assert set(names) - ours <= first_of_lists(set(names)), f"rank {rank}"
