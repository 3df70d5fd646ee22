"""Checkpoints of DeepSpeed 0.3.16, 0.4.5 and 0.5.10, whose `param_shapes` are in their optimizer files, against what
those engines held (tests/fixtures/old_engines)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from conftest import FIXTURES, Run

OLD = FIXTURES / "old_engines"
CASES = sorted(folder.name for folder in OLD.iterdir() if folder.is_dir())


def states_of(universal: Path) -> dict[str, torch.Tensor]:
    """Each `tensor/state` of a universal folder."""
    (zero,) = universal.glob("*/zero")
    return {
        str(file.relative_to(zero).with_suffix("")): torch.load(file)["param"]
        for file in zero.glob("*/*.pt")
        if file.stem != "step"
    }


@pytest.mark.parametrize("case", CASES)
def test_every_state_is_the_engines(case: str, run: Run, tmp_path: Path) -> None:
    """As whole tensors, and after native files of another stage and number of ranks; weights are masters, rounded."""
    truth = load_file(OLD / case / "truth.safetensors")
    assert len(truth) == 24
    run("convert", OLD / case, tmp_path / "universal", "--to", "universal")
    run("convert", OLD / case, tmp_path / "native", "--to", "deepspeed:dp=3,zero=2,dtype=fp16")
    run("convert", tmp_path / "native", tmp_path / "again", "--to", "universal")
    for folder in ("universal", "again"):
        ours = states_of(tmp_path / folder)
        assert ours.keys() == truth.keys()
        assert all(torch.equal(ours[name].reshape(-1), value.reshape(-1)) for name, value in truth.items())
    run("convert", OLD / case, tmp_path / "weights", "--to", "safetensors:dtype=fp16")
    for name, weight in load_file(tmp_path / "weights" / "model.safetensors").items():
        assert torch.equal(weight, truth[f"{name}/fp32"].reshape(weight.shape).half())


def test_sizes_that_decide_nothing(ucprun: Path, tmp_path: Path) -> None:
    """One list in the module's order, of which the groups' lengths fit several splits: refused."""
    folder = tmp_path / "copy"
    (folder / "global_step1").mkdir(parents=True)
    for file in (OLD / "v0316_z3_fp16" / "global_step1").iterdir():
        value = torch.load(file, weights_only=False)
        if "param_shapes" in value:  # Its partitions stay as long.
            shapes = value["param_shapes"]
            shapes["odd.tri"], shapes["odd.five"] = torch.Size([4]), torch.Size([3])
            shapes["fc.bias"], shapes["ln.bias"] = torch.Size([13]), torch.Size([11])
            shapes["fc.weight"] = torch.Size([333])
        torch.save(value, folder / "global_step1" / file.name)
    command = [ucprun, "convert", folder, tmp_path / "out", "--to", "universal"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2, result.stderr
    assert "their sizes do not decide which parameter is in which group" in result.stderr
    assert not (tmp_path / "out").exists()
