"""A running engine saves itself in any format: `ucp.deepspeed.save_checkpoint`.

The judge is the real engine of another stage and size, which loads the folder by its own means: its weights, masters
and states are bit for bit those of the engine that saved.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from conftest import SPEC_OF
from fixtures.cases import CASES, DEFAULT_SEED, Case, Mesh
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.saving import failing_saves, loaded_with_scheduler, losing_a_machine, saved_twice, saved_with_scheduler
from fixtures.serve import Call, EngineError, Engines
from native import differences_of_files
from test_acceptance import NOISE
from test_native import OTHER_SEED


@dataclass(frozen=True)
class Saved:
    """An engine that saves, the format, and what the engine that loads it has changed."""

    name: str
    to: str
    changes: dict[str, Any]
    own: dict[str, Any] = field(default_factory=dict)  # Of the engine that saves.

    def __str__(self) -> str:
        own = "".join(f"-{key}={value}" for key, value in self.own.items() if key != "mesh")
        return f"{self.name}{own}-{self.to}"


PLANS = [
    Saved("frozen_buffers_zero2", "deepspeed:dp=4,zero=1", {"mesh": Mesh(dp=4), "stage": 1}, {"stage": 0}),
    Saved("zero1_dp2", "deepspeed:dp=1,zero=2,dtype=fp16", {"mesh": Mesh(dp=1), "stage": 2}),
    Saved("zero2_dp2", "deepspeed:dp=4,zero=3,dtype=fp32", {"mesh": Mesh(dp=4), "stage": 3}),
    Saved("zero3_dp4", "deepspeed:dp=2,zero=2", {"mesh": Mesh(dp=2), "stage": 2}),
    Saved("zero3_frozen_dp4", "universal", {"mesh": Mesh(dp=2), "stage": 1}),
    Saved("bf16_optimizer_dp4_tiny", "universal", {"mesh": Mesh(dp=2)}),
    Saved("gpt_pp2_tp2_dp2", "universal", {"mesh": Mesh(pp=1, tp=1, dp=2)}),
    Saved("moe_ep2_dp4", "deepspeed:dp=2,ep=1,zero=1", {"mesh": Mesh(dp=2), "stage": 1}),
]


def case_of(plan: Saved) -> Case:
    """The engine that saves."""
    return replace(CASES[plan.name], **plan.own)


def options_of(case: Case) -> dict[str, Any]:
    """Tensor parallelism needs a spec."""
    spec = SPEC_OF.get(case.model)
    return {"spec": str(spec)} if spec else {}


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_another_engine_resumes(plan: Saved, engines: Engines, tmp_path: Path) -> None:
    """Without a file of DeepSpeed's between."""
    case, folder = case_of(plan), tmp_path / "out"
    options = {"to": plan.to, **options_of(case)}
    saved = engines.ask(Job(case, steps=2, save=folder, save_as=options, further_steps=2))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
    native = plan.to.startswith("deepspeed")
    seed = DEFAULT_SEED if not native else OTHER_SEED  # A universal load leaves frozen parameters as they are.
    loading = replace(case, **plan.changes)
    loaded = engines.ask(Job(loading, seed=seed, load=folder, native=native, first_step=2, further_steps=2))
    kinds = ["parameter", "frozen", "buffer"] if native else ["parameter"]
    assert differences(saved["saved"], loaded["loaded"], kinds) == []
    assert loaded["steps_taken"] == saved["steps_taken"] == 4
    assert "iteration" in loaded["client_keys"]
    furthest = max(abs(mine - other) for mine, other in zip(loaded["losses"], saved["losses"][2:], strict=True))
    assert furthest <= NOISE[case.dtype], furthest


def test_what_deepspeed_would_have_saved(engines: Engines, tmp_path: Path) -> None:
    """Into the engine's own form: all files, with scheduler, loss scale, and what the script keeps beside them."""
    case = CASES["zero1_dp2"]
    to = "deepspeed:dp=2,zero=1,dtype=fp16"
    engines.ask(Job(case, steps=2, save=tmp_path / "ours", save_as={"to": to}))
    engines.ask(Job(case, steps=2, save=tmp_path / "theirs"))
    assert differences_of_files(tmp_path / "ours", tmp_path / "theirs") == []


@pytest.mark.parametrize(
    ("name", "machines", "to"),
    [
        ("zero0_fp32", "ab", "deepspeed:dp=2,zero=0,dtype=fp32"),
        ("zero1_dp2", "ab", "deepspeed:dp=2,zero=1,dtype=fp16"),
        ("zero2_dp4", "abba", "deepspeed:dp=4,zero=2,dtype=bf16"),
        ("zero3_dp4", "aabc", "deepspeed:dp=4,zero=3,dtype=bf16"),
        ("gpt_pp2_tp2_dp2", "aaaabbbb", "deepspeed:pp=2,tp=2,dp=2,dtype=bf16"),
        ("moe_ep2_dp4", "aabb", "deepspeed:dp=4,ep=2,zero=2,dtype=bf16"),
    ],
)
def test_ranks_on_several_machines(
    name: str, machines: str, to: str, ucprun: Path, engines: Engines, tmp_path: Path
) -> None:
    """Each machine reads what its ranks hold: the files are those of a conversion of what the engine itself saves."""
    case, ours, theirs, converted = CASES[name], tmp_path / "ours", tmp_path / "theirs", tmp_path / "converted"
    options = options_of(case)
    arguments = {"case": case, "folder": tmp_path, "machines": machines, "options": {"to": to, **options}}
    report = engines.ask(Call(case.mesh.ranks, saved_twice, arguments))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ours", "theirs"]
    spec = ["--spec", options["spec"]] if options else []
    subprocess.run(
        [ucprun, "convert", theirs, converted, "--to", to, *spec], check=True, capture_output=True, timeout=60
    )
    assert differences_of_files(ours, converted) == []
    assert report["bytes_exchanged"] > 0 or case.stage == 0  # Then the first rank holds all.


@pytest.mark.parametrize("to", ["universal", "deepspeed:dp=2,zero=3"])
def test_scheduler_and_client_state(to: str, engines: Engines, tmp_path: Path) -> None:
    """Into an engine of stage 3, by our own loader."""
    case = CASES["zero1_dp4"]
    loading = replace(case, mesh=Mesh(dp=2), stage=3, tag=None)
    saved = engines.ask(Call(4, saved_with_scheduler, {"case": case, "folder": tmp_path / "out", "to": to}))
    loaded = engines.ask(Call(2, loaded_with_scheduler, {"case": loading, "folder": tmp_path / "out"}))
    assert saved["scheduler"]["last_batch_iteration"] == 2
    assert loaded == saved


SAID = {
    "path": "ranks call with different arguments: rank 0 with {}/first, tag=None",
    "exists": "`{}` exists; name another folder, or pass force=True to replace it",
    "target": "rank 0: there is no format `tape`; the formats are",
    "client": "AttributeError: Can't pickle local object",
    "memory": "rank 1: MemoryError: no memory for a file",
}


@pytest.mark.parametrize("machines", ["aa", "ab"])
def test_a_save_that_fails(machines: str, engines: Engines, tmp_path: Path) -> None:
    """On one rank or on all: all raise one sentence, at once; nothing is left, and the next save works."""
    case = replace(CASES["zero1_dp2"], stage=3)
    told = engines.ask(Call(2, failing_saves, {"case": case, "folder": tmp_path, "machines": machines}))
    for kind, said in SAID.items():
        for rank in told[kind]:
            expected = said.replace("{}", str(tmp_path))
            if machines == "ab":
                expected = expected.removeprefix("rank 0: ")  # Both machines raise it.
            assert rank["said"].startswith(f"Error: {expected}"), (kind, rank["said"])
            assert rank["said"] == told[kind][0]["said"]
            assert rank["seconds"] < 5
    assert [path.name for path in tmp_path.iterdir()] == ["first"]


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.1])
def test_a_machine_that_is_lost(seconds: float, ucprun: Path, engines: Engines, tmp_path: Path) -> None:
    """The others hear of it: the checkpoint is complete or absent, and their folders of links are gone."""
    arguments = {"case": CASES["zero3_dp4"], "folder": tmp_path, "machines": "aabc", "seconds": seconds}
    with pytest.raises(EngineError):  # A rank is gone before it has answered.
        engines.ask(Call(4, losing_a_machine, arguments))
    for rank in range(3):
        said = (tmp_path / f"{rank}.txt").read_text()
        assert "rank 3 of 4 is gone" in said or "machine 2 of 3" in said or said == "", said
        assert list((tmp_path / f"temporary-{rank}").glob("ucp-engine-*")) == []
    assert [path for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    if (tmp_path / "saved").exists():
        subprocess.run([ucprun, "verify", tmp_path / "saved"], check=True, capture_output=True, timeout=60)
