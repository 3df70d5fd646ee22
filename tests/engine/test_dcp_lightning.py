"""PyTorch Lightning's ModelParallelStrategy goes on, on other ranks, from what was converted of its folders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from conftest import Run
from dcp_judges import expect_continuation
from fixtures.dcp_continue import Continuation, continue_from_each
from fixtures.serve import Call, Engines
from universal import FIXTURES

pytest.importorskip("pytorch_lightning", reason="this environment was made without Lightning")

SOURCE = FIXTURES / "dcp" / "lightning"
# Ranks and parallelism of the job that starts from it, and the target.
JOBS = [(2, "tp", "dcp"), (4, "hsdp", "dcp:fsdp=3")]


@pytest.fixture(scope="module")
def continued(run: Run, engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The states and losses of the jobs that loaded the folders. Lightning's own file is the source's."""
    answers: dict[str, Any] = {}
    for ranks in (2, 4):
        plans = []
        for of, parallel, to in JOBS:
            if of != ranks:
                continue
            folder = tmp_path_factory.mktemp("ours") / "saved.ckpt"
            run("convert", SOURCE / "checkpoint", folder, "--to", to)
            if not (folder / "meta.pt").exists():
                shutil.copy(SOURCE / "checkpoint" / "meta.pt", folder)
            plans.append(Continuation("lightning", folder, ranks, parallel, "lightning", to))
        answers |= engines.ask(Call(ranks, continue_from_each, {"continuations": plans}))
    return answers


@pytest.mark.parametrize(("ranks", "parallel", "to"), JOBS)
def test_lightning_goes_on(ranks: int, parallel: str, to: str, continued: dict[str, Any]) -> None:
    """`fit(ckpt_path=…)`"""
    truth = json.loads((SOURCE / "truth.json").read_text())
    expect_continuation(continued[str(Continuation("lightning", Path(), ranks, parallel, "lightning", to))], truth)


@pytest.mark.xfail(strict=True, raises=AssertionError, reason="meta.pt is not written, and Lightning takes no other")
def test_lightnings_own_file(run: Run, tmp_path: Path) -> None:
    """Without `meta.pt` it finds no checkpoint in a folder."""
    run("convert", SOURCE / "checkpoint", tmp_path / "ours", "--to", "dcp")
    assert (tmp_path / "ours" / "meta.pt").is_file()
