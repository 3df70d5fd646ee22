"""`ucp.deepspeed.memory_tier`: killed engines go on from memory, on the same ranks or others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import SPEC_OF
from fixtures.cases import CASES, Case, Mesh
from fixtures.jobs import Job
from fixtures.serve import Call, EngineError, Engines
from fixtures.tiers import change_at_once, train
from matrix import EVERY_CELL
from test_acceptance import NOISE

sys.path.insert(0, str(Path(os.environ.get("UCP_BIN", "bin")).parent / "python"))

import ucp_checkpoint as ucp

STEPS = 6
SEED = 99


def killed(engines: Engines, case: Case, root: Path, step: int = 3, **settings: Any) -> None:
    """A job whose ranks are killed when they have begun to keep this step."""
    arguments = {"case": case, "root": root, "steps": STEPS, "dies_after": step, **settings}
    with pytest.raises(EngineError, match="ended with status -9"):
        engines.ask(Call(case.mesh.ranks, train, arguments))
    until = time.monotonic() + 30
    while not list(root.rglob("*step-2")) and not list(root.rglob("*-2/whole")) and time.monotonic() < until:
        time.sleep(0.01)


def restored(engines: Engines, case: Case, root: Path, **settings: Any) -> dict[str, Any]:
    """The job anew: bit for bit what it was at the end of the step."""
    arguments = {"case": case, "root": root, "steps": STEPS, "seed": SEED, **settings}
    told: dict[str, Any] = engines.ask(Call(case.mesh.ranks, train, arguments))
    assert told["restored"]["step"] in (2, 3)
    assert told["differences"] == []
    assert told["global_steps"] == told["first_step"] == told["restored"]["step"] + 1
    assert told["report"]["failures"] == 0
    return told


SAME = ["zero1_dp2", "zero3_dp4", "moe_ep2_dp4", *(["zero0_fused_fp16", "pipeline_pp2"] if EVERY_CELL else [])]


@pytest.mark.parametrize("name", SAME)
def test_a_killed_engine_goes_on(name: str, engines: Engines, tmp_path: Path) -> None:
    """On the same ranks, to the losses of an engine that was never stopped."""
    case = CASES[name]
    killed(engines, case, tmp_path)
    told = restored(engines, case, tmp_path)
    whole = engines.ask(Job(case, steps=STEPS))
    assert list(told["losses"].values()) == whole["losses"][told["first_step"] :]


ELSEWHERE = [
    ("zero2_dp2", {"mesh": Mesh(dp=4), "stage": 3}),
    ("gpt_pp2_tp2_dp2", {"mesh": Mesh(dp=2)}),
]
if EVERY_CELL:
    ELSEWHERE += [("zero3_dp4", {"mesh": Mesh(dp=1), "stage": 1}), ("autoep_tp2_ep4_dp4", {})]


@pytest.mark.parametrize(("name", "changes"), ELSEWHERE, ids=lambda value: value if isinstance(value, str) else "")
def test_on_other_ranks(name: str, changes: dict[str, Any], engines: Engines, tmp_path: Path) -> None:
    """And at another stage; a model that is cut is described by a spec."""
    case = CASES[name]
    spec = SPEC_OF.get(case.model)
    killed(engines, case, tmp_path)
    told = restored(engines, replace(case, **changes), tmp_path, load={"spec": str(spec)} if spec else {})
    whole = engines.ask(Job(case, steps=STEPS))["losses"][told["first_step"] :]
    assert max(abs(a - b) for a, b in zip(told["losses"].values(), whole, strict=True)) <= NOISE[case.dtype]


@pytest.mark.parametrize("stage", [1, 2, 3] if EVERY_CELL else [2, 3])
def test_the_optimizer_waits(stage: int, engines: Engines, tmp_path: Path) -> None:
    """The state changes right after it was given to the tier, and is kept as it was."""
    same = engines.ask(Call(1, change_at_once, {"root": tmp_path, "stage": stage}))
    assert len(same) >= 4
    assert all(same), same


# The case; the machines of its ranks, those of the job anew, and what it changes.
MACHINES = [
    ("zero2_dp4", "aabb", "aacc", {}),
    ("zero3_dp4", "aabb", "bb", {"mesh": Mesh(dp=2), "stage": 1}),
    ("pipeline_pp2", "aabb", "bbcc", {}),
    ("zero0_fused_fp16", "ab", "cb", {}),
]


@pytest.mark.skipif(os.geteuid() != 0, reason="a machine's own memory is a mount, which root alone may make")
@pytest.mark.parametrize(("name", "before", "after", "changes"), MACHINES, ids=lambda value: str(value)[:20])
def test_on_several_machines(
    name: str, before: str, after: str, changes: dict[str, Any], engines: Engines, tmp_path: Path
) -> None:
    """One of which is lost, with its memory; stages of a pipeline may be on machines of their own."""
    case = CASES[name]
    killed(engines, case, tmp_path, machines=before)
    for machine in set(before) - set(after):
        shutil.rmtree(tmp_path / machine)
    told = restored(engines, replace(case, **changes), tmp_path, machines=after)
    assert told["restored"]["path"].endswith("whole")


def test_from_storage(engines: Engines, tmp_path: Path) -> None:
    """Where there is nothing in memory."""
    case = CASES["zero2_dp2"]
    storage = {"fallback": tmp_path / "storage", "persist_every": 3}
    told = engines.ask(Call(2, train, {"case": case, "root": tmp_path, "steps": 4, **storage}))
    assert told["report"]["persisted"] == 1
    shutil.rmtree(tmp_path / "memory")
    told = restored(engines, case, tmp_path, **storage)
    assert told["restored"]["path"] == str(tmp_path / "storage" / "step-2")


def test_the_folder_of_the_engine(engines: Engines, ucprun: Path, tmp_path: Path) -> None:
    """A version becomes what DeepSpeed itself loads; commands that would misread it say how."""
    case = CASES["zero1_dp2"]
    told = engines.ask(Call(2, train, {"case": case, "root": tmp_path, "steps": 4}))
    job = tmp_path / "memory" / "job"
    said = f"the versions in `{job}` are of a DeepSpeed engine: `python3 -m ucp_checkpoint.engine_folder memory:"
    with pytest.raises(ucp.Error) as error:
        ucp.inspect(f"memory:{job}")
    assert said in str(error.value)
    command = [ucprun, "convert", f"memory:{job}", tmp_path / "out", "--to", "universal"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, said in result.stderr, (tmp_path / "out").exists()) == (1, True, False)
    command = [sys.executable, "-m", "ucp_checkpoint.engine_folder", f"memory:{job}", str(tmp_path / "out")]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert (result.returncode, result.stderr) == (0, "")
    loaded = engines.ask(Job(case, seed=SEED, load=tmp_path / "out", native=True, first_step=4, further_steps=1))
    again = engines.ask(Call(2, train, {"case": case, "root": tmp_path, "steps": 5, "seed": SEED}))
    assert (again["differences"], again["first_step"]) == ([], 4)
    assert loaded["losses"] == list(again["losses"].values())
    assert told["report"]["versions"] == 4
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert (result.returncode, "exists" in result.stderr) == (1, True)


def environment() -> dict[str, str]:
    """For another Python."""
    return os.environ | {"PYTHONPATH": str(Path(ucp.__file__).parents[1])}
