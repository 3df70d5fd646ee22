"""Large tensors that a script keeps beside the model, such as averaged weights: moved like the model's own."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from conftest import FIXTURES, Convert, Run
from fixtures.cases import CASES, Mesh
from fixtures.jobs import Job
from fixtures.serve import Engines
from test_acceptance import OTHER_SEED

MEBIBYTE = 1 << 20


def averages(rank: int) -> dict[str, Any]:
    """Of every form that a tensor can have in a file, and each rank its own."""
    generator = torch.Generator().manual_seed(rank)

    def random(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, generator=generator)

    shared = random(300, 100)
    return {
        "decay": torch.tensor(0.999),
        "weights": [random(5 * MEBIBYTE), random(100, 700).bfloat16(), shared, {"again": shared}],
        "view": random(400, 300)[100:350],
        "columns": random(400, 300)[:, 20:270].T,
        "few of many": random(5 * MEBIBYTE)[7:9],
        "counts": torch.arange(20000),
        "a.b": {"c": random(20000)},
        "a": {"b.c": random(20000)},
    }


def same(ours: Any, theirs: Any) -> bool:
    """In types and bits."""
    if isinstance(theirs, torch.Tensor):
        return ours.dtype == theirs.dtype and torch.equal(ours, theirs)
    if isinstance(theirs, dict):
        return list(ours) == list(theirs) and all(same(ours[key], theirs[key]) for key in theirs)
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return bool(ours == theirs)


def model_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*mp_rank_*_model_states.pt"))


def model_rank(path: Path) -> int:
    """The model-parallel rank whose file this is."""
    return int(path.name.split("mp_rank_")[1][:2])


@pytest.fixture
def source(tmp_path: Path) -> Callable[[str], Path]:
    """A fixture with averages in the client state of each rank, written by PyTorch."""

    def make(name: str) -> Path:
        folder = tmp_path / "source"
        shutil.copytree(FIXTURES / name / "checkpoint", folder)
        for path in model_files(folder):
            root = torch.load(path, weights_only=False)
            root["averages"] = averages(model_rank(path))
            torch.save(root, path)
        return folder

    return make


def read(path: Path) -> Any:
    return torch.load(path, weights_only=False)["averages"]


@pytest.mark.parametrize(
    ("name", "to"),
    [
        ("zero1_dp4", "universal"),
        ("zero1_dp4", "deepspeed:dp=3,zero=3"),
        ("zero3_dp4", "deepspeed:dp=2,zero=1"),
        ("zero3_dp4", "universal"),
        ("zero0_unfused_bf16", "deepspeed:dp=2,zero=2"),
        ("gpt_pp2_tp2_dp2", "universal"),
        ("gpt_pp2_tp2_dp2", "deepspeed:pp=2,tp=2,dp=1,zero=1"),
        ("gpt_pp2_tp2_dp2", "deepspeed:pp=1,tp=1,dp=2,zero=1"),
    ],
)
def test_every_file_has_them(name: str, to: str, source: Callable[[str], Path], convert: Convert, run: Run) -> None:
    folder = source(name)
    ours = convert(name, to, folder, ["--threads", "2"])
    files = model_files(ours)
    assert files
    for path in files:
        assert same(read(path), averages(model_rank(path))), path
    run("verify", ours)
    if to == "universal" and name != "gpt_pp2_tp2_dp2":  # And once more, from what we wrote.
        for path in model_files(convert(name, "deepspeed:dp=2,zero=1", ours)):
            assert same(read(path), averages(0)), path


def test_safetensors_carry_them_beside_the_weights(source: Callable[[str], Path], convert: Convert, run: Run) -> None:
    folder = source("zero1_dp4")
    ours = convert("zero1_dp4", "safetensors:states=all", folder)
    further = convert("zero1_dp4", "deepspeed:dp=2,zero=2", ours)
    assert same(read(model_files(further)[0]), averages(0))
    weights = convert("zero1_dp4", "safetensors", folder)
    assert not any("averages" in path.read_bytes().decode("latin1") for path in weights.rglob("*.safetensors"))
    assert sum(path.stat().st_size for path in weights.rglob("*")) < MEBIBYTE
    run("inspect", folder)
    run("diff", folder, ours)
    run("verify", ours, "--same", folder)


@pytest.mark.parametrize("how", ["native", "hook"])
def test_the_engine_gets_them(how: str, source: Callable[[str], Path], convert: Convert, engines: Engines) -> None:
    folder = source("zero1_dp4")
    case = replace(CASES["zero1_dp4"], stage=2, mesh=Mesh(dp=2))
    if how == "native":
        folder = convert("zero1_dp4", "deepspeed:dp=2,zero=2", folder)
    job = Job(case, seed=OTHER_SEED, load=folder, native=how == "native", hook={} if how == "hook" else None)
    assert same(engines.ask(job)["averages"], averages(0))


def test_little_memory_and_a_plan(
    source: Callable[[str], Path], convert: Convert, ucprun: Path, tmp_path: Path
) -> None:
    """The same files, whichever way they are moved; they stand in no plan."""
    folder = source("zero1_dp4")
    expected = convert("zero1_dp4", "deepspeed:dp=3,zero=1", folder)
    ours = tmp_path / "capped"
    command = [str(ucprun), "convert", str(folder), str(ours), "--to", "deepspeed:dp=3,zero=1", "--memory", "64MiB",
               "--threads", "1", "--json"]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(result.stdout)["peak_memory_bytes"] < 40 * MEBIBYTE
    plan = tmp_path / "plan.ucplan"
    ucpc = ucprun.parent / "ucpc"
    for planning in (
        [ucpc, "plan", "--from", folder, "--to", "deepspeed:dp=3,zero=1", "-o", plan],
        [ucprun, "run", plan, tmp_path / "planned", "--from", folder],
    ):
        subprocess.run(planning, check=True, timeout=60)
    assert plan.stat().st_size < MEBIBYTE
    for other in (ours, tmp_path / "planned"):
        for path in expected.rglob("*"):
            assert not path.is_file() or path.read_bytes() == (other / path.relative_to(expected)).read_bytes(), path


def test_damage_is_found(source: Callable[[str], Path], ucprun: Path, tmp_path: Path) -> None:
    folder = source("zero1_dp4")
    path = model_files(folder)[0]
    content = bytearray(path.read_bytes())
    place = content.index(averages(0)["weights"][0].numpy().tobytes()[:64])
    content[place + 4 * MEBIBYTE] ^= 1
    path.write_bytes(content)
    command = [str(ucprun), "convert", str(folder), str(tmp_path / "ours"), "--to", "universal"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2
    assert "CRC-32" in result.stderr
    assert not (tmp_path / "ours").exists()
