"""Ranks that the global batch does not divide over: the report says so, and the engine loads all the same."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.cases import CASES, Mesh
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.serve import Engines
from native import differences_of_files
from universal import FIXTURES, truth_of

# Sources, and in what the engine's own files differ: eight samples over three ranks are two steps for each, as they are
# over four ranks, while two ranks had four steps.
SOURCES = {"zero1_dp4": "", "sgd_momentum_zero1": ".ds_config.gradient_accumulation_steps: 4 against 2"}


@pytest.mark.parametrize("name", SOURCES)
def test_three_ranks(name: str, engines: Engines, ucprun: Path, tmp_path: Path) -> None:
    """Eight samples a step: the configuration is left as it was, and the job has its own."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    command = [ucprun, "convert", FIXTURES / name / "checkpoint", ours, "--to", "deepspeed:dp=3"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "the global batch of 8 samples does not divide over 3 data-parallel ranks" in result.stderr
    case = replace(CASES[name], mesh=Mesh(dp=3), tag=(ours / "latest").read_text())
    answer = engines.ask(Job(case, load=ours, native=True, save=theirs))
    assert differences(truth_of(name), answer["loaded"], ["parameter", "frozen", "buffer"]) == []
    found = differences_of_files(ours, theirs)
    own = SOURCES[name]
    assert bool(found) == bool(own), found
    assert all(place.endswith(own) for place in found), found
