"""A module's extra state is its own affair: a dict with tensors in it is carried as one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fixtures.cases import Case, Mesh
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.serve import Engines
from test_acceptance import OTHER_SEED

CASE = Case("extra_tensors", "extra state with tensors", model="extra_tensors", mesh=Mesh(dp=2), steps=2)


@pytest.mark.parametrize(
    ("stage", "target", "how"), [(2, 3, "convert"), (3, 2, "convert"), (0, 1, "convert"), (1, 2, "hook")]
)
def test_a_dict_with_tensors(
    stage: int, target: int, how: str, engines: Engines, run: Callable[..., str], tmp_path: Path
) -> None:
    source = replace(CASE, stage=stage)
    saved = engines.ask(Job(source, steps=source.steps, save=tmp_path / "saved"))["saved"]
    expected = saved["extra_state"]["_extra_state"]
    assert expected["recipe"]["margin"] > 0
    folder = tmp_path / "saved"
    if how == "convert":
        folder = tmp_path / "ours"
        run("convert", tmp_path / "saved", folder, "--to", f"deepspeed:dp=4,zero={target}")
    job = Job(replace(source, stage=target, mesh=Mesh(dp=4)), seed=OTHER_SEED, load=folder, native=how == "convert",
              hook={} if how == "hook" else None)  # fmt: skip
    loaded = engines.ask(job)["loaded"]
    assert differences(saved, loaded, ["parameter"]) == []
    state = loaded["extra_state"]["_extra_state"]
    assert state.keys() == expected.keys()
    assert torch.equal(state["scales"], expected["scales"])
    assert state["recipe"]["margin"] == expected["recipe"]["margin"]
    assert torch.equal(state["recipe"]["amax"][0], expected["recipe"]["amax"][0])
