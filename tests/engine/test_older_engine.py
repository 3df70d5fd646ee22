"""Stage 3 of DeepSpeed before 0.19.3 reads another form of a universal folder, and says nothing useful about ours."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.cases import CASES, DEFAULT_SEED, Case, Mesh
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.serve import EngineError, Engines
from universal import FIXTURES, truth_of

PACKAGES = Path(__file__).parents[2] / "build" / "engine-older"
NAME = "fused_adam_zero2"


@pytest.fixture(scope="module")
def older() -> Iterator[Engines]:
    """DeepSpeed 0.19.2."""
    if not (PACKAGES / "made-from-requirements.txt").exists():
        pytest.fail(f"{PACKAGES} is not there; scripts/make-engine-environment.sh makes it")
    engines = Engines(PACKAGES)
    yield engines
    engines.close()


def job(folder: Path, ranks: int) -> Job:
    """Goes on at stage 3."""
    case = replace(CASES[NAME], stage=3, mesh=Mesh(dp=ranks))
    return Job(case, seed=DEFAULT_SEED + 1, load=folder, first_step=truth_of(NAME)["step"], further_steps=4)


@pytest.mark.parametrize("ranks", [2, 4])
def test_older_engine_continues(ranks: int, older: Engines, convert: Callable[..., Path]) -> None:
    truth = truth_of(NAME)
    answer = older.ask(job(convert(NAME, "universal:zero=3,engine=0.19.2"), ranks))
    assert differences(truth, answer["loaded"], ["parameter"]) == []
    assert answer["loaded"]["step"] == truth["step"]
    uninterrupted = truth["losses"][truth["step"] :]
    assert answer["losses"] == pytest.approx(uninterrupted, abs=0.0 if ranks == CASES[NAME].mesh.dp else 5e-3)


def test_older_engine_refuses_the_common_form(older: Engines, convert: Callable[..., Path]) -> None:
    with pytest.raises(EngineError, match="'dict' object has no attribute 'view'"):
        older.ask(job(convert(NAME), 2))


@pytest.mark.parametrize(("name", "stage", "ranks"), [("zero1_dp4", 1, 2), ("zero1_dp4", 2, 2), ("zero3_dp4", 3, 2)])
def test_older_engine_loads_through_the_hook(name: str, stage: int, ranks: int, older: Engines) -> None:
    truth = truth_of(name)
    case = replace(CASES[name], stage=stage, mesh=Mesh(dp=ranks))
    source = FIXTURES / name / "checkpoint"
    job = Job(case, seed=DEFAULT_SEED + 1, load=source, hook={}, first_step=truth["step"], further_steps=4)
    answer = older.ask(job)
    assert differences(truth, answer["loaded"], ["parameter"]) == []
    assert answer["losses"] == pytest.approx(truth["losses"][truth["step"] :], abs=5e-3)


@pytest.mark.parametrize(("stage", "into"), [(1, 3), (3, 2)])
def test_older_engine_saves_through_the_hook(stage: int, into: int, older: Engines, tmp_path: Path) -> None:
    case = replace(CASES["zero1_dp4"], stage=stage, tag=None)
    to = {"to": f"deepspeed:dp=2,zero={into}"}
    saved = older.ask(Job(case, steps=2, save=tmp_path / "saved", save_as=to, further_steps=2))
    other = replace(case, stage=into, mesh=Mesh(dp=2))
    job = Job(other, seed=DEFAULT_SEED + 1, load=tmp_path / "saved", native=True, first_step=2, further_steps=2)
    answer = older.ask(job)
    assert differences(saved["saved"], answer["loaded"], ["parameter"]) == []
    assert answer["losses"] == pytest.approx(saved["losses"][2:], abs=5e-3)


def test_a_parameter_without_dimensions(older: Engines, ucprun: Path, tmp_path: Path) -> None:
    """No universal folder gives it to an engine; native files do. (Later versions do not start with one on gloo.)"""
    case = Case("tempered", "a parameter without dimensions", model="tempered", mesh=Mesh(dp=2), stage=2, steps=2)
    saved = older.ask(Job(case, steps=case.steps, save=tmp_path / "saved"))["saved"]
    told = {}
    for folder, to in (("universal", "universal"), ("native", "deepspeed:dp=4")):
        command = [ucprun, "convert", tmp_path / "saved", tmp_path / folder, "--to", to]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == 0, result.stderr
        told[folder] = "`temperature` has no dimensions, and DeepSpeed does not load such a parameter" in result.stderr
    assert told == {"universal": True, "native": False}
    other = replace(case, mesh=Mesh(dp=4))
    with pytest.raises(EngineError, match="chunk expects at least a 1-dimensional tensor"):
        older.ask(Job(other, seed=DEFAULT_SEED + 1, load=tmp_path / "universal"))
    answer = older.ask(Job(other, seed=DEFAULT_SEED + 1, load=tmp_path / "native", native=True))
    assert differences(saved, answer["loaded"], ["parameter"]) == []
