"""A checkpoint that was saved before the first step: its optimizer has no states, and training goes on all the same."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.cases import CASES, Mesh
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.serve import Engines
from test_acceptance import NOISE, OTHER_SEED

CASE = CASES["zero1_dp1"]


@pytest.mark.parametrize("to", ["universal", "deepspeed:dp=2,zero=1"])
def test_before_the_first_step(to: str, engines: Engines, run: Callable[..., str], tmp_path: Path) -> None:
    """DeepSpeed's converter makes nothing of it. Here two engines begin where one was saved."""
    saved = engines.ask(Job(CASE, steps=0, save=tmp_path / "saved", further_steps=2))
    assert saved["saved"]["step_counter"]["type"] == "none"
    run("convert", tmp_path / "saved", tmp_path / "ours", "--to", to)
    job = Job(replace(CASE, mesh=Mesh(dp=2)), seed=OTHER_SEED, load=tmp_path / "ours", native=to != "universal",
              further_steps=2)  # fmt: skip
    answer = engines.ask(job)
    assert differences(saved["saved"], answer["loaded"], ["parameter"]) == []
    assert answer["losses"] == pytest.approx(saved["losses"], abs=NOISE["fp32"])


def test_before_the_first_step_without_zero(
    engines: Engines, run: Callable[..., str], ucprun: Path, tmp_path: Path
) -> None:
    """One group has all that the module has, and nothing says in which order: so only what goes by names is written."""
    case = replace(CASE, stage=0, dtype="fp32", groups="one")
    saved = engines.ask(Job(case, steps=0, save=tmp_path / "saved", further_steps=2))
    assert saved["saved"]["step_counter"]["type"] == "none"
    run("convert", tmp_path / "saved", tmp_path / "ours", "--to", "universal")
    job = Job(replace(case, stage=2, mesh=Mesh(dp=2)), seed=OTHER_SEED, load=tmp_path / "ours", further_steps=2)
    answer = engines.ask(job)
    assert differences(saved["saved"], answer["loaded"], ["parameter"]) == []
    assert answer["losses"] == pytest.approx(saved["losses"], abs=NOISE["fp32"])
    command = [ucprun, "convert", tmp_path / "saved", tmp_path / "native", "--to", "deepspeed:dp=2,zero=2"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode != 0
    assert "the order of the optimizer's parameters is not known: its optimizer has no states" in result.stderr
    assert not (tmp_path / "native").exists()
