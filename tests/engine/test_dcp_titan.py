"""TorchTitan's own checkpoint manager starts jobs of other meshes from what was converted, and trains on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed import checkpoint as dcp

from conftest import Run
from dcp_judges import expect_continuation
from fixtures.dcp_cases import DCP_CASES
from fixtures.dcp_continue import Continuation, continue_from_each
from fixtures.fingerprints import differences
from fixtures.serve import Call, Engines
from universal import FIXTURES

pytest.importorskip("torchtitan", reason="this environment was made without TorchTitan")

NATIVE = "deepspeed:dp=2,zero=1,dtype=fp32"
OWN = "titan's own"

# The saved checkpoint, ranks and parallelism of the job that starts from it, and the way there.
JOBS = [
    ("titan", 4, "fsdp2", ("dcp",)),
    ("titan", 2, "tp", ("dcp:fsdp=4",)),
    ("titan", 4, "fsdp2_tp", (NATIVE, "dcp:fsdp=2")),
    ("titan_0_2", 4, "hsdp", ("dcp:files=3",)),
    ("titan_0_2", 2, "tp", ("universal", "dcp")),
    ("fsdp2", 2, "tp", ("dcp:style=titan",)),
    ("fsdp2_flat", 4, "fsdp2_tp", ("dcp:fsdp=3",)),
    ("tp", 4, "fsdp2", (NATIVE, "dcp:style=titan,files=2")),
    ("accelerate_fsdp1", 2, "fsdp2", ("dcp:style=titan",)),
    ("frozen_tied", 4, "fsdp2", ("dcp:style=titan",)),
    # By the configuration of docs/recipes.md, from folders that are not converted back.
    ("titan", 4, "fsdp2", (NATIVE,)),
    ("fsdp2", 2, "tp", ("universal",)),
]


def told(ways: tuple[str, ...]) -> str:
    """The way, in one word."""
    return "-".join(ways)


def name_of(job: tuple[Any, ...]) -> str:
    """Of a test."""
    return f"{job[0]}-{job[2]}{job[1]}-from-{told(job[3])}"


def converted(run: Run, name: str, ways: tuple[str, ...], place: Path) -> Path:
    """The last folder of those that the ways make one of the other."""
    folder = FIXTURES / "dcp" / name / "checkpoint"
    for number, way in enumerate(ways):
        run("convert", folder, place / str(number), "--to", way)
        folder = place / str(number)
    return folder


@pytest.fixture(scope="module")
def continued(run: Run, engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The states and losses of the jobs that loaded the folders: one run of ranks for all of one number."""
    answers: dict[str, Any] = {}
    for ranks in (2, 4):
        plans = [
            Continuation(
                name, converted(run, name, ways, tmp_path_factory.mktemp(name)), ranks, parallel, OWN, told(ways)
            )
            for name, of, parallel, ways in JOBS
            if of == ranks
        ]
        answers |= engines.ask(Call(ranks, continue_from_each, {"continuations": plans}))
    return answers


@pytest.mark.parametrize("job", JOBS, ids=name_of)
def test_a_job_of_torchtitan_goes_on(job: tuple[Any, ...], continued: dict[str, Any]) -> None:
    """It holds the same bits over its mesh, its groups have the same settings, and its losses are those of the run
    that was not interrupted."""
    name, ranks, parallel, ways = job
    truth = json.loads((FIXTURES / "dcp" / name / "truth.json").read_text())
    answer = continued[str(Continuation(name, Path(), ranks, parallel, OWN, told(ways)))]
    expect_continuation(answer, truth)
    assert differences(truth, answer, ["frozen"]) == []
    if DCP_CASES[name].form in ("titan", "flat") and ways[-1].startswith("dcp"):
        assert answer["train_state"] == {"step": 3, "ntokens_seen": 288}


def keys_of(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Of all entries, with the paths that make them."""
    return dcp.FileSystemReader(folder).read_metadata().planner_data


def test_its_releases_have_the_same_names() -> None:
    """Of a model and its optimizer. Of its schedule 0.3 saves one number, and 0.2 all that PyTorch's `state_dict()`
    has; a job of either finds its own again in a folder that was converted without a style."""
    old, new = (keys_of(FIXTURES / "dcp" / name / "checkpoint") for name in ("titan_0_2", "titan"))
    assert {key for key in new if key.startswith("lr_scheduler.")} == {"lr_scheduler.last_epoch"}
    more = {"base_lrs", "_step_count", "_is_initial", "_get_lr_called_within_step", "_last_lr", "lr_lambdas"}
    assert old == new | {f"lr_scheduler.{name}": ("lr_scheduler", name) for name in more}


@pytest.mark.parametrize("form", ["titan", "plain"])
def test_a_job_with_a_schedule_goes_on_from_deepspeed(form: str, run: Run, tmp_path: Path) -> None:
    """A schedule of PyTorch, which TorchTitan always has, puts `initial_lr` into the groups before anything is loaded,
    and DeepSpeed's own schedules do not."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict

    run("convert", FIXTURES / "zero1_dp2" / "checkpoint", tmp_path / "ours", "--to", f"dcp:style={form}")
    truth = json.loads((FIXTURES / "zero1_dp2" / "truth.json").read_text())["tensors"]
    model = torch.nn.Module()
    for name, entry in truth.items():
        *path, last = name.split(".")
        place = model
        for part in path:
            if not hasattr(place, part):
                place.add_module(part, torch.nn.Module())
            place = getattr(place, part)
        place.register_parameter(last, torch.nn.Parameter(torch.zeros(entry["shape"])))
    optimizer = torch.optim.AdamW(model.parameters())
    torch.optim.lr_scheduler.StepLR(optimizer, 2)
    states = get_optimizer_state_dict(
        model, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=form == "titan")
    )
    dcp.load({"optimizer": states}, checkpoint_id=tmp_path / "ours", no_dist=True)
