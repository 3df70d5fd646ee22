"""Tensors of several names, of which DeepSpeed's lists have one or none."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.cases import Case, Mesh
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.serve import Engines
from test_acceptance import NOISE, OTHER_SEED

TWICE = Case("twice", "second names that no list has", model="twice", mesh=Mesh(dp=2), steps=2)
PIPELINE = Case("tied_buffer", "a tied module with a buffer", model="pipeline_tied_buffer", mesh=Mesh(pp=2), steps=2)
TIED = Case("frozen_tied", "saved without a frozen parameter of two names", model="frozen_tied", mesh=Mesh(dp=2),
            exclude_frozen=True, steps=2)  # fmt: skip


@pytest.mark.parametrize(
    ("stage", "target", "is_loaded_by_us"), [(0, 3, False), (2, 3, False), (3, 3, False), (3, 2, False), (2, 1, True)]
)
def test_a_block_that_stands_twice(
    stage: int, target: int, is_loaded_by_us: bool, engines: Engines, run: Callable[..., str], tmp_path: Path
) -> None:
    """At stage 3 its second names are placeholders, and elsewhere the memory of the first ones."""
    source = replace(TWICE, stage=stage, dtype="fp32")
    saved = engines.ask(Job(source, steps=source.steps, save=tmp_path / "saved", further_steps=1))
    assert {name.split(".")[0] for name in saved["saved"]["aliases"]} == {"blocks", "timbre"}
    folder = tmp_path / "saved"
    if not is_loaded_by_us:
        folder = tmp_path / "ours"
        run("convert", tmp_path / "saved", folder, "--to", f"deepspeed:dp=4,zero={target}")
    job = Job(replace(source, stage=target, mesh=Mesh(dp=4)), seed=OTHER_SEED, load=folder, native=not is_loaded_by_us,
              hook={} if is_loaded_by_us else None, first_step=source.steps, further_steps=1)  # fmt: skip
    answer = engines.ask(job)
    assert differences(saved["saved"], answer["loaded"], ["parameter", "buffer"]) == []
    assert answer["losses"] == pytest.approx(saved["losses"][-1:], abs=NOISE["fp32"])


@pytest.mark.parametrize(("stage", "target"), [(1, 2), (2, 1), (3, 2)])
def test_excluded_by_all_names(stage: int, target: int, engines: Engines, ucprun: Path, tmp_path: Path) -> None:
    """A frozen parameter is left out by its first name, and by us also by its second ones, as far as they are known."""
    source = replace(TIED, stage=stage)
    saved = engines.ask(Job(source, steps=source.steps, save=tmp_path / "saved", further_steps=1))
    ours = tmp_path / "ours"
    command = [ucprun, "convert", tmp_path / "saved", ours, "--to", f"deepspeed:dp=4,zero={target}"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    assert "`head.weight` is also left out: it is a second name of `embed.weight`, which was excluded" in result.stderr
    assert ("`blocks.2.norm.weight`, " in result.stderr) == (stage == 3)
    assert ("also left out: nothing says what they are second names of" in result.stderr) == (stage == 3)
    job = Job(replace(source, stage=target, mesh=Mesh(dp=4)), load=ours, native=True, first_step=source.steps,
              further_steps=1)  # fmt: skip
    answer = engines.ask(job)
    assert differences(saved["saved"], answer["loaded"], ["parameter", "frozen"]) == []
    assert answer["losses"] == pytest.approx(saved["losses"][-1:], abs=NOISE["bf16"])


def test_frozen_parameters_that_stage_3_has_no_place_for(engines: Engines, ucprun: Path, tmp_path: Path) -> None:
    """Second names that nothing tells from first ones are carried with their values, but stage 3 lists all or none."""
    source = replace(TIED, stage=2)
    engines.ask(Job(source, steps=source.steps, save=tmp_path / "saved"))
    command = [ucprun, "convert", tmp_path / "saved", tmp_path / "ours", "--to", "deepspeed:dp=4,zero=3"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode != 0
    assert "zero=3: `blocks.2.down.bias` is not trained, and the source was saved with" in result.stderr
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize("to", ["deepspeed:pp=1,dp=2", "universal:mp=1"])
def test_a_tied_module_with_a_buffer(to: str, engines: Engines, run: Callable[..., str], tmp_path: Path) -> None:
    """The file of its layer has names that no list of parameters has; it is still known to be the tied module's."""
    saved = engines.ask(Job(PIPELINE, steps=PIPELINE.steps, save=tmp_path / "saved", further_steps=1))
    said = run("inspect", tmp_path / "saved")
    assert "tied_modules.embed.scale" in said
    assert "0.weight" not in said
    run("convert", tmp_path / "saved", tmp_path / "ours", "--to", to)
    case = replace(PIPELINE, mesh=Mesh(dp=2))
    is_native = to.startswith("deepspeed")
    job = Job(case, seed=OTHER_SEED, load=tmp_path / "ours", native=is_native, restore=not is_native,
              first_step=PIPELINE.steps, further_steps=1)  # fmt: skip
    answer = engines.ask(job)
    assert differences(saved["saved"], answer["loaded"], ["parameter", "buffer"]) == []
    assert answer["losses"] == pytest.approx(saved["losses"][-1:], abs=NOISE["bf16"])
