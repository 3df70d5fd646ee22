"""ZenFlow steps a part of the weights ahead of the masters, which the next run begins from."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from fixtures.cases import Case, Mesh
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.serve import Engines
from test_acceptance import OTHER_SEED

ZENFLOW = {"topk_ratio": 0.1, "update_interval": 4, "full_warm_up_rounds": 0, "overlap_step": False}
ON_THE_CPU = {"offload_optimizer": {"device": "cpu"}}
CASE = Case("zenflow", "weights ahead of their masters", stage=2, mesh=Mesh(dp=2), optimizer="zenflow", steps=3,
            zero=ON_THE_CPU | {"zenflow": ZENFLOW})  # fmt: skip


def test_masters_that_are_behind(engines: Engines, ucprun: Path, tmp_path: Path) -> None:
    """Refused, unless the user takes the masters; they and the states are then those of the engine."""
    saved = engines.ask(Job(CASE, steps=CASE.steps, save=tmp_path / "saved"))["saved"]
    ours = tmp_path / "ours"
    command = [ucprun, "convert", tmp_path / "saved", ours, "--to", "deepspeed:dp=4"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode != 0
    assert "are not the rounding of their masters" in result.stderr
    assert "Pass --replicas trust to take the masters all the same" in result.stderr
    assert not ours.exists()
    result = subprocess.run([*command, "--replicas=trust"], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    assert "the job trained with ZenFlow, whose weights are ahead of its masters" in result.stderr
    case = replace(CASE, mesh=Mesh(dp=4))
    answer = engines.ask(Job(case, seed=OTHER_SEED, load=ours, native=True))
    assert differences(saved, answer["loaded"], ["parameter"]) == []
