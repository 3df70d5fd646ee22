"""Stored values that are a multiple of the logical ones: quotients in real files, bit for bit as PyTorch makes them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from deepspeed.checkpoint.affine import replicated_map

from universal import FIXTURES, tag_folder

SOURCE = "frozen_buffers_zero2"
BUFFER = "shift"
FROZEN = "stem.weight"
BITS = {torch.float32: torch.int32, torch.bfloat16: torch.int16, torch.float16: torch.int16, torch.float64: torch.int64}
SCALES = [(1, 3), (1, 2), (3, 7), (5, 1), (1, 1000000), (999999, 7)]


def random_bits(dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Every kind of number: subnormal, huge, infinite, and none. A NaN has many forms, of which one is made here."""
    generator = torch.Generator().manual_seed(seed)
    size = dtype.itemsize
    values = torch.randint(0, 256, (64 * 64 * size,), generator=generator).to(torch.uint8).view(dtype).reshape(64, 64)
    return torch.where(values.isnan(), torch.zeros((), dtype=dtype), values)


def run(program: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Without raising."""
    command = [str(program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def source_with(folder: Path, values: torch.Tensor) -> Path:
    """A copy of the fixture with another buffer."""
    source = folder / "source"
    shutil.copytree(FIXTURES / SOURCE / "checkpoint", source)
    for file in source.glob("*/mp_rank_*_model_states.pt"):
        states = torch.load(file, weights_only=False)
        states["module"][BUFFER] = values
        torch.save(states, file)
    return source


def spec_with_scale(ucprun: Path, source: Path, folder: Path, name: str, scale: tuple[int, int]) -> Path:
    """A draft of the fixture, with one tensor scaled."""
    drafted = run(ucprun.with_name("ucpc"), "infer", source)
    assert drafted.returncode == 0, drafted.stderr
    line = re.compile(rf'^( *(?:buffer )?"{re.escape(name)}" .*)$', re.MULTILINE)
    text, count = line.subn(rf"\1 scale({scale[0]} / {scale[1]})", drafted.stdout)
    assert count == 1, drafted.stdout
    spec = folder / "scaled.ucp"
    spec.write_text(text)
    return spec


def module_of(output: Path) -> dict[str, torch.Tensor]:
    """The module's tensors in the result."""
    (file,) = tag_folder(output).glob("mp_rank_*_model_states.pt")
    module: dict[str, torch.Tensor] = torch.load(file, weights_only=False)["module"]
    return module


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """The signs of zeros too."""
    bits = BITS[a.dtype]
    return a.dtype == b.dtype and torch.equal(a.contiguous().view(bits), b.contiguous().view(bits))


@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("dtype", BITS, ids=str)
def test_a_quotient_is_pytorchs(dtype: torch.dtype, scale: tuple[int, int], ucprun: Path, tmp_path: Path) -> None:
    """A buffer of random bits, divided by the scale in its own dtype."""
    values = random_bits(dtype, seed=sum(scale))
    source = source_with(tmp_path, values)
    spec = spec_with_scale(ucprun, source, tmp_path, BUFFER, scale)
    result = run(ucprun, "convert", source, tmp_path / "out", "--to", "universal", "--spec", spec)
    assert result.returncode == 0, result.stderr
    module = module_of(tmp_path / "out")
    expected = values / (scale[0] / scale[1])
    assert not same_bits(expected, values)
    assert same_bits(module[BUFFER], expected)
    before = torch.load(next(source.glob("*/mp_rank_00_model_states.pt")), weights_only=False)["module"]
    assert same_bits(module[FROZEN], before[FROZEN])  # Tensors that are not scaled stay.


@pytest.mark.parametrize("scale", [(1, 2), (1, 4)], ids=str)
def test_a_frozen_weight_is_what_deepspeed_rebuilds(scale: tuple[int, int], ucprun: Path, tmp_path: Path) -> None:
    """From the same shard by an affine map with this scale, as AutoTP marks a bias divided by its degree."""
    source = FIXTURES / SOURCE / "checkpoint"
    spec = spec_with_scale(ucprun, source, tmp_path, FROZEN, scale)
    result = run(ucprun, "convert", source, tmp_path / "out", "--to", "universal", "--spec", spec)
    assert result.returncode == 0, result.stderr
    stored = torch.load(next(source.glob("*/mp_rank_00_model_states.pt")), weights_only=False)["module"][FROZEN]
    affine = replicated_map(list(stored.shape), 1, scale=scale[0] / scale[1])
    assert same_bits(module_of(tmp_path / "out")[FROZEN], affine.rebuild({0: stored.contiguous()}))


def test_moments_are_refused(ucprun: Path, tmp_path: Path) -> None:
    """A trained tensor has them."""
    source = FIXTURES / SOURCE / "checkpoint"
    spec = spec_with_scale(ucprun, source, tmp_path, "tone", (1, 2))
    result = run(ucprun, "convert", source, tmp_path / "out", "--to", "universal", "--spec", spec)
    assert result.returncode == 2
    assert "`tone` is stored times 1 / 2" in result.stderr
    assert "`exp_avg` cannot be converted" in result.stderr
    assert not (tmp_path / "out").exists()
