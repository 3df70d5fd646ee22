"""Masters of another type than the job has: the engine copies them, so wider ones are exact, narrower ones rounded.

The files keep the source's type. After loading, before any step, the engine saves what it holds.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fixtures.cases import CASES, Case, Mesh
from fixtures.jobs import Job
from fixtures.serve import Engines
from native import read_files
from test_native import OTHER_SEED, write_configuration
from universal import FIXTURES, truth_of

NARROW = {"bf16": {"bf16_master_weights_and_grads": True, "bf16_optimizer_states": True}}
NOTE = "the masters are float32 in the source and the target, and bfloat16 by `bf16.bf16_master_weights_and_grads`"


@dataclass(frozen=True)
class Held:
    """A source, and a job whose masters are of another type."""

    name: str
    stage: int
    config: dict[str, Any]
    dtype: torch.dtype
    note: str = ""

    @property
    def case(self) -> Case:
        return replace(CASES[self.name], mesh=Mesh(dp=4), stage=self.stage, config=self.config)

    def __str__(self) -> str:
        return f"{self.name}-stage={self.stage}-{self.dtype}"


PLANS = [
    *(Held("bf16_masters_zero2", stage, {}, torch.float32) for stage in (1, 2)),
    Held("bf16_masters_zero3", 3, {}, torch.float32),
    *(Held("rmsprop_zero2", stage, NARROW, torch.bfloat16, NOTE) for stage in (1, 2, 3)),
]


def vectors(root: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Masters and states of every partition, by file and place."""
    for name, file in read_files(root).items():
        if not name.endswith("optim_states.pt"):
            continue
        held = file["optimizer_state_dict"]
        base = held.get("base_optimizer_state") or held["optimizer_state_dict"]
        masters = held.get("single_partition_of_fp32_groups") or held["fp32_flat_groups"]
        for index, master in enumerate(masters):
            yield f"{name} {index}", master
            for state, value in base["state"][index].items():
                if state != "step":
                    yield f"{name} {index} {state}", value


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_the_engine_copies_them(plan: Held, engines: Engines, ucprun: Path, tmp_path: Path) -> None:
    configured = write_configuration(plan.case, tmp_path / "job.json")
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    source = FIXTURES / plan.name / "checkpoint"
    command = [ucprun, "convert", source, ours, "--to", "deepspeed:dp=4", *configured]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    assert plan.note in result.stderr
    assert plan.note or "the masters are" not in result.stderr
    step = truth_of(plan.name)["step"]
    case = replace(plan.case, tag=(ours / "latest").read_text())
    engines.ask(Job(case, seed=OTHER_SEED, load=ours, native=True, first_step=step, save=theirs, further_steps=1))
    written, held = dict(vectors(ours)), dict(vectors(theirs))
    assert written.keys() == held.keys() != set()
    for place, value in written.items():
        assert value.dtype != plan.dtype, place
        assert held[place].dtype == plan.dtype, place
        assert torch.equal(held[place], value.to(plan.dtype)), place


def test_weights_that_are_of_other_masters_are_counted(ucprun: Path, tmp_path: Path) -> None:
    """Two tensor-parallel ranks have a copy of the norm's weights each, and each copy is counted for itself."""
    shutil.copytree(FIXTURES / "autotp_tp2_dp2" / "checkpoint", tmp_path / "copy")
    for file in (tmp_path / "copy").glob("*/mp_rank_*_model_states.pt"):
        states = torch.load(file, weights_only=False)
        states["module"]["model.norm.weight"] += 1
        torch.save(states, file)
    command = [ucprun, "convert", tmp_path / "copy", tmp_path / "out", "--to", "universal"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2, result
    elements = truth_of("autotp_tp2_dp2")["tensors"]["model.norm.weight"]["shape"][0]
    found = f"{elements} of the {elements} weights of `model.norm.weight` that a rank holds in one file are not"
    assert found in result.stderr


def refusal(ucprun: Path, source: Path) -> str:
    """The sentence by which a conversion says that masters and weights are of different runs."""
    command = [ucprun, "convert", source, source.with_name("out"), "--to", "universal"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2, result
    errors = [line for line in result.stderr.splitlines() if ": error: " in line]
    assert len(errors) == 1, result.stderr
    found = re.search(r": error: (\d+) of the (\d+) weights of `", errors[0])
    assert found, errors
    assert int(found[2]) // 2 < int(found[1]) <= int(found[2]), errors
    return errors[0]


def test_one_rank_of_another_run_is_found(ucprun: Path, tmp_path: Path) -> None:
    """Its copies and shards are a part of all that are compared."""
    source = tmp_path / "source"
    shutil.copytree(FIXTURES / "autotp_tp2_dp2" / "checkpoint", source)
    (file,) = source.glob("*/mp_rank_01_model_states.pt")
    states = torch.load(file, weights_only=False)
    for value in states["module"].values():
        value += 1
    torch.save(states, file)
    assert "mp_rank_01_model_states.pt" in refusal(ucprun, source)


def test_masters_of_one_expert_rank_of_another_run_are_found(ucprun: Path, tmp_path: Path) -> None:
    """They are those of half of the experts, and every other weight is sound."""
    source = tmp_path / "source"
    command = [ucprun, "convert", FIXTURES / "autoep_zero0_fp32" / "checkpoint", source]
    subprocess.run([*command, "--to", "deepspeed:zero=0,dtype=bf16,dp=4,ep=2"], timeout=60, check=True)
    (source / "ucp_manifest.json").unlink()
    (file,) = source.glob("*/expp_rank_1_mp_rank_00_optim_states.pt")
    states = torch.load(file, weights_only=False)
    experts = states["optimizer"]["fp32_groups"][2]
    assert all(master.dim() == 3 for master in experts)
    for master in experts:
        master.copy_(master.flip(-1))
    torch.save(states, file)
    assert "expp_rank_1_mp_rank_00_optim_states.pt" in refusal(ucprun, source)
