"""Ranks that the global batch does not divide over: the report says so, and the engine loads all the same."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from fixtures.cases import CASES, Mesh
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.serve import Engines
from native import differences_of_files
from universal import FIXTURES, truth_of


def test_three_ranks_of_four(engines: Engines, ucprun: Path, tmp_path: Path) -> None:
    """Eight samples a step: the configuration is left as it was, and the job has its own."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    command = [ucprun, "convert", FIXTURES / "zero1_dp4" / "checkpoint", ours, "--to", "deepspeed:dp=3"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "the global batch of 8 samples does not divide over 3 data-parallel ranks" in result.stderr
    case = replace(CASES["zero1_dp4"], mesh=Mesh(dp=3), tag=(ours / "latest").read_text())
    answer = engines.ask(Job(case, load=ours, native=True, save=theirs))
    truth = truth_of("zero1_dp4")
    assert differences(truth, answer["loaded"], ["parameter", "frozen", "buffer"]) == []
    found = differences_of_files(ours, theirs)
    assert found, "the engine saves its own number of accumulation steps"
    assert all(".ds_config.gradient_accumulation_steps: " in place for place in found), found
