"""PyTorch Lightning's ModelParallelStrategy goes on, on other ranks, from what was converted of its folders."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from conftest import Run
from dcp_judges import expect_continuation, read_flat
from fixtures.dcp_continue import Continuation, continue_from_each
from fixtures.serve import Call, Engines
from universal import FIXTURES

pytest.importorskip("pytorch_lightning", reason="this environment was made without Lightning")

SOURCE = FIXTURES / "dcp" / "lightning"
# Ranks and parallelism of the job that starts from it, and the target.
JOBS = [(2, "tp", "dcp"), (4, "hsdp", "dcp:fsdp=3")]


@pytest.fixture(scope="module")
def continued(run: Run, engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The states and losses of the jobs that loaded the folders."""
    answers: dict[str, Any] = {}
    for ranks in (2, 4):
        plans = []
        for of, parallel, to in JOBS:
            if of != ranks:
                continue
            folder = tmp_path_factory.mktemp("ours") / "saved.ckpt"
            run("convert", SOURCE / "checkpoint", folder, "--to", to)
            plans.append(Continuation("lightning", folder, ranks, parallel, "lightning", to))
        answers |= engines.ask(Call(ranks, continue_from_each, {"continuations": plans}))
    return answers


@pytest.mark.parametrize(("ranks", "parallel", "to"), JOBS)
def test_lightning_goes_on(ranks: int, parallel: str, to: str, continued: dict[str, Any]) -> None:
    """`fit(ckpt_path=…)`"""
    truth = json.loads((SOURCE / "truth.json").read_text())
    expect_continuation(continued[str(Continuation("lightning", Path(), ranks, parallel, "lightning", to))], truth)


def test_lightnings_own_file(run: Run, tmp_path: Path) -> None:
    """It has everything but tensors, as the source's has; other styles have entries for it."""
    ours, plain, back = tmp_path / "ours", tmp_path / "plain", tmp_path / "back"
    run("convert", SOURCE / "checkpoint", ours, "--to", "dcp")
    run("convert", SOURCE / "checkpoint", plain, "--to", "dcp:style=plain")
    run("convert", plain, back, "--to", "dcp:style=lightning")
    truth = torch.load(SOURCE / "checkpoint" / "meta.pt", weights_only=True)
    assert torch.load(ours / "meta.pt", weights_only=True) == truth
    assert not (plain / "meta.pt").exists()
    # PyTorch's own flattening drops dicts that are empty.
    found = torch.load(back / "meta.pt", weights_only=True)
    assert {name: found[name] for name in ("epoch", "global_step", "pytorch-lightning_version")} == {
        name: truth[name] for name in ("epoch", "global_step", "pytorch-lightning_version")
    }
    assert found["lr_schedulers"] == truth["lr_schedulers"]
    assert read_flat(back).keys() == read_flat(SOURCE / "checkpoint").keys()


def test_no_trainers_state(ucprun: Path, tmp_path: Path) -> None:
    """A folder of another source has no version of Lightning: a note says that its Trainer does not take it."""
    source = FIXTURES / "zero1_dp2" / "checkpoint"
    command = [str(ucprun), "convert", str(source), str(tmp_path / "ours"), "--to", "dcp:style=lightning"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "the source's training state has no `pytorch-lightning_version`" in result.stderr
    assert (tmp_path / "ours" / "meta.pt").is_file()
