"""Muon's momentum of whole matrices where zeros stand between them: it has none, and lies otherwise than the master."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from conftest import Run
from fixtures.cases import CASES, Mesh
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.serve import Engines
from universal import FIXTURES, describe_states, read_states, tag_folder, truth_of

ALIGNED = {"parameter_alignment": True}


@pytest.mark.parametrize("dp", [1, 2, 4])
@pytest.mark.parametrize("name", ["muon_zero1", "muon_zero2"])
def test_alignment_is_read(name: str, dp: int, engines: Engines, run: Run, tmp_path: Path) -> None:
    case = replace(CASES[name], mesh=Mesh(dp=dp), zero=ALIGNED)
    truth = engines.ask(Job(case, steps=2, save=tmp_path / "saved"))["saved"]
    run("convert", tmp_path / "saved", tmp_path / "ours", "--to", "universal")
    assert differences(truth, describe_states(read_states(tag_folder(tmp_path / "ours"))), ["parameter"]) == []
    run("convert", tmp_path / "saved", tmp_path / "cut", "--to", "deepspeed:dp=3,zero=3")
    run("verify", tmp_path / "cut", "--same", tmp_path / "saved")
    run("convert", tmp_path / "saved", tmp_path / "weights", "--to", "safetensors:dtype=bf16")


def momentum_in(file: Path) -> tuple[dict[str, Any], torch.Tensor]:
    """The contents of an optimizer's file, and the momentum in it."""
    states = torch.load(file, weights_only=False)
    kept = states["optimizer_state_dict"]["base_optimizer_state"]["state"].values()
    return states, next(state["momentum_buffer"] for state in kept if "momentum_buffer" in state)


def test_copies_are_compared(run: Run, ucprun: Path, tmp_path: Path) -> None:
    """Of the matrix that lies in both of two partitions: at the first one's end, at the second one's beginning."""
    source = FIXTURES / "muon_zero2" / "checkpoint"
    run("convert", source, tmp_path / "aligned", "--to", "deepspeed:dp=2,alignment=true")
    run("convert", tmp_path / "aligned", tmp_path / "back", "--to", "universal")
    ours = describe_states(read_states(tag_folder(tmp_path / "back")))
    assert differences(truth_of("muon_zero2"), ours, ["parameter"]) == []
    (file,) = (tmp_path / "aligned").glob("*/zero_pp_rank_1_*_optim_states.pt")
    states, momentum = momentum_in(file)
    momentum[0] += 1
    torch.save(states, file)
    command = [ucprun, "convert", tmp_path / "aligned", tmp_path / "out", "--to", "universal"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2, result
    assert "momentum_buffer" in result.stderr
    assert not (tmp_path / "out").exists()


def test_without_zero_values_tell_which_are_muons(run: Run, tmp_path: Path) -> None:
    """Muon's matrices have the shapes of others."""
    source = FIXTURES / "muon_zero1" / "checkpoint"
    run("convert", source, tmp_path / "whole", "--to", "deepspeed:dp=2,zero=0,dtype=bf16")
    run("convert", tmp_path / "whole", tmp_path / "back", "--to", "universal")
    ours = describe_states(read_states(tag_folder(tmp_path / "back")))
    assert differences(truth_of("muon_zero1"), ours, ["parameter"]) == []
