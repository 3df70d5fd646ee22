"""What the real engine saves without ZeRO is read as what it held, in every form of its optimizer.

Nothing in such files lists the optimizer's parameters: views, shapes, and where masters are of another type than the
module their values say which is which.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from conftest import Run
from fixtures.cases import CASES, Case, Mesh
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.serve import Engines
from universal import FIXTURES, describe_states, read_states, tag_folder

AUTOEP = replace(CASES["autoep_ep2_dp4"], stage=0, mesh=Mesh(dp=2, ep=2))
FOLDED = replace(CASES["autoep_tp2_ep4_dp4"], stage=0)

SAVED = {
    "AutoEP in float32": replace(AUTOEP, dtype="fp32"),
    "AutoEP, a master for each parameter": AUTOEP,
    "AutoEP, a flat master for each group": replace(AUTOEP, optimizer="fused"),
    "AutoEP, copies of experts": replace(AUTOEP, mesh=Mesh(dp=4, ep=2)),
    "AutoEP, neighbours have the same experts": replace(AUTOEP, mesh=Mesh(dp=4, ep=2), data_before_experts=True),
    "AutoEP beside AutoTP": replace(FOLDED, mesh=Mesh(tp=2, dp=2, ep=4), dtype="fp32"),
    "AutoEP beside AutoTP, copies of experts": replace(FOLDED, mesh=Mesh(tp=4, ep=2)),
    "experts, a flat master for each group": replace(CASES["moe_zero0_fp32"], dtype="bf16", optimizer="fused"),
    "a pipeline, a flat master for each of two groups": replace(CASES["pipeline_zero0_fused_fp16"], groups="decay"),
    "frozen parameters of trained shapes": replace(CASES["frozen_buffers_zero2"], stage=0),
}


@pytest.mark.parametrize("form", SAVED)
def test_what_is_read_is_what_the_engine_held(form: str, engines: Engines, run: Run, tmp_path: Path) -> None:
    case: Case = SAVED[form]
    truth = engines.ask(Job(case, steps=2, save=tmp_path / "saved"))["saved"]
    to = "universal:mp=1" if case.model == "autoep_autotp" else "universal"
    run("convert", tmp_path / "saved", tmp_path / "ours", "--to", to)
    assert differences(truth, describe_states(read_states(tag_folder(tmp_path / "ours"))), ["parameter"]) == []


def test_values_that_two_parameters_have(ucprun: Path, tmp_path: Path) -> None:
    """A frozen parameter with the values of a trained one could be that one."""
    root = tmp_path / "copy"
    shutil.copytree(FIXTURES / "zero0_unfused_bf16" / "checkpoint", root)
    (file,) = root.glob("*/mp_rank_00_model_states.pt")
    states = torch.load(file, weights_only=False)
    states["module"]["another.bias"] = states["module"]["blocks.0.up.bias"].clone()
    torch.save(states, file)
    command = [ucprun, "convert", root, tmp_path / "out", "--to", "universal"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2, result
    assert "it steps 2 of the 3 parameters of [47], and by values" in result.stderr
    assert "have the same values, and group 1 has one of them" in result.stderr
    states["module"]["another.bias"] += 1
    torch.save(states, file)
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run
