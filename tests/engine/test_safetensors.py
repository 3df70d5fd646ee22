"""Every fixture as a safetensors folder: what the running engine held, rounded as PyTorch rounds, and back."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from conftest import SPEC_OF
from fixtures.cases import CASES
from fixtures.fingerprints import describe, fingerprint
from universal import FIXTURES, truth_of

Convert = Callable[..., Path]

# Whose weights lie in one file, whole; a pipeline has one for each layer, and stage 3 has none.
WITH_WEIGHTS = [
    name for name, case in CASES.items() if case.model in ("plain", "deep", "frozen", "extra") and case.stage < 3
]


def module_weights(name: str) -> dict[str, torch.Tensor]:
    """The weights that the model computed with, as DeepSpeed saved them."""
    root = FIXTURES / name / "checkpoint"
    file = root / (root / "latest").read_text() / "mp_rank_00_model_states.pt"
    module = torch.load(file, weights_only=False)["module"]
    return {key: value for key, value in module.items() if torch.is_tensor(value)}


def form(name: str, option: str) -> str:
    """A safetensors folder. AutoEP's names in memory are not those of a hub folder, so they have to be asked for."""
    return f"safetensors:{option}" + (",names=memory" if CASES[name].model.startswith("autoep") else "")


def held_in(name: str) -> dict[str, dict[str, Any]]:
    """The tensors that the engine held and its files have: parameters that were excluded are nowhere in them."""
    tensors = truth_of(name)["tensors"]
    return {
        tensor: entry
        for tensor, entry in tensors.items()
        if not (CASES[name].exclude_frozen and entry["kind"] == "frozen")
    }


def describe_narrow(wide: torch.Tensor, dtype: str) -> dict[str, str]:
    """Of the numbers of this type that a float32 tensor was made of; all of them must fit."""
    assert wide.dtype == torch.float32
    narrow = wide.to(getattr(torch, dtype))
    assert torch.equal(narrow.to(torch.float32), wide)
    return describe(narrow)


@pytest.mark.parametrize("name", CASES)
def test_masters_are_bit_identical(name: str, convert: Convert) -> None:
    """The job of DeepSpeed's zero_to_fp32. Masters and frozen parameters of a narrower type are widened, which loses
    nothing; buffers are as they are."""
    tensors = held_in(name)
    weights = load_file(convert(name, form(name, "dtype=fp32")) / "model.safetensors")
    assert weights.keys() == tensors.keys()
    for tensor, entry in tensors.items():
        assert list(weights[tensor].shape) == entry["shape"]
        if entry["kind"] == "buffer":
            assert describe(weights[tensor]) == entry["states"]["weight"], tensor
        else:
            held = entry["states"]["fp32" if entry["kind"] == "parameter" else "weight"]
            assert describe_narrow(weights[tensor], held["dtype"]) == held, tensor


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("name", ["frozen_buffers_zero2", "llama_pp2_tp2_dp2", "zero2_dp4"])
def test_rounded_weights_are_pytorchs(name: str, dtype: str, convert: Convert) -> None:
    """Parameters are rounded; buffers keep their types."""
    truth = truth_of(name)
    wanted = {"bf16": torch.bfloat16, "fp16": torch.float16}[dtype]
    masters = load_file(convert(name, "safetensors:dtype=fp32") / "model.safetensors")
    rounded = load_file(convert(name, f"safetensors:dtype={dtype}") / "model.safetensors")
    for tensor, entry in truth["tensors"].items():
        expected = masters[tensor] if entry["kind"] == "buffer" else masters[tensor].to(wanted)
        assert describe(rounded[tensor]) == describe(expected), tensor


@pytest.mark.parametrize("name", WITH_WEIGHTS)
def test_without_a_dtype_it_is_the_models_own(name: str, convert: Convert) -> None:
    """Bit for bit the weights that the module had: DeepSpeed rounds its masters as PyTorch does."""
    ours = load_file(convert(name, "safetensors") / "model.safetensors")
    theirs = module_weights(name)
    for tensor, weight in ours.items():
        assert describe(weight) == describe(theirs[tensor]), tensor


@pytest.mark.parametrize("name", CASES)
def test_all_states_come_back(name: str, convert: Convert, ucprun: Path, tmp_path: Path) -> None:
    """Every optimizer state is the engine's, and a universal folder made of ours is that made of the checkpoint."""
    truth = truth_of(name)
    ours = convert(name, form(name, "states=all"))
    states = load_file(ours / "optimizer.safetensors")
    expected = {
        f"{tensor}.{state}": fingerprint_of
        for tensor, entry in truth["tensors"].items()
        if entry["kind"] == "parameter"
        for state, fingerprint_of in entry["states"].items()
        if state != "weight"
    }
    assert {entry: describe(value) for entry, value in states.items()} == expected
    if CASES[name].mesh.tp > 1 or CASES[name].model in SPEC_OF:
        return  # Rules for cutting stand in a universal folder, and come from a spec or the checkpoint's own metadata.
    again = tmp_path / "universal"
    subprocess.run([ucprun, "convert", ours, again, "--to", "universal"], check=True, capture_output=True, timeout=60)
    direct = convert(name, "universal")
    files = {file.relative_to(direct) for file in direct.rglob("*") if file.is_file()}
    assert {file.relative_to(again) for file in again.rglob("*") if file.is_file()} == files
    for file in files - {Path("ucp_manifest.json")}:  # It names the plan and the source.
        assert (again / file).read_bytes() == (direct / file).read_bytes(), file


def test_several_files_and_their_index(convert: Convert) -> None:
    """No file is larger than asked, unless one tensor is; the index says where each is."""
    folder = convert("frozen_buffers_zero2", "safetensors:max_shard=8KB")
    whole = load_file(convert("frozen_buffers_zero2", "safetensors") / "model.safetensors")
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    files = sorted(folder.glob("model-*.safetensors"))
    count = len(files)
    assert [file.name for file in files] == [f"model-{i:05}-of-{count:05}.safetensors" for i in range(1, count + 1)]
    found: dict[str, torch.Tensor] = {}
    for file in files:
        tensors = load_file(file)
        assert len(tensors) == 1 or sum(value.nbytes for value in tensors.values()) <= 8000
        assert {index["weight_map"][tensor] for tensor in tensors} == {file.name}
        found |= tensors
    assert index["weight_map"].keys() == found.keys()
    assert {tensor: describe(value) for tensor, value in found.items()} == {
        tensor: describe(value) for tensor, value in whole.items()
    }
    assert index["metadata"]["total_size"] == sum(value.nbytes for value in found.values())


@pytest.mark.parametrize("name", ["frozen_buffers_zero2", "zero1_dp2"])
def test_files_are_the_reference_writers(name: str, convert: Convert, tmp_path: Path) -> None:
    """Byte for byte, but for the blanks behind the header: our elements begin with a page."""
    ours = convert(name, "safetensors") / "model.safetensors"
    save_file(load_file(ours), tmp_path / "theirs.safetensors", metadata={"format": "pt"})
    (our_header, our_elements), (header, elements) = map(parts_of, (ours, tmp_path / "theirs.safetensors"))
    assert our_header.rstrip(b" ") == header.rstrip(b" ")
    assert our_elements == elements
    assert (8 + len(our_header)) % 4096 == 0


def parts_of(file: Path) -> tuple[bytes, bytes]:
    """The header and the elements."""
    content = file.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    return content[8:end], content[end:]


def test_companions_go_along(ucprun: Path, tmp_path: Path) -> None:
    """Configuration and tokenizer, whether they lie at the tag or at the root; nothing else."""
    source = tmp_path / "source"
    subprocess.run(["cp", "-r", FIXTURES / "zero1_dp1" / "checkpoint", source], check=True)
    tag = source / (source / "latest").read_text()
    (source / "config.json").write_text('{"at": "root"}')
    (tag / "config.json").write_text('{"at": "tag"}')
    (source / "tokenizer.json").write_text("{}")
    (source / "notes.txt").write_text("mine")
    ours = tmp_path / "ours"
    command = [ucprun, "convert", source, ours, "--to", "safetensors"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    written = sorted(file.name for file in ours.iterdir())
    assert written == ["config.json", "model.safetensors", "tokenizer.json", "ucp_manifest.json"]
    assert (ours / "config.json").read_text() == '{"at": "tag"}'


def patterns(dtype: torch.dtype) -> torch.Tensor:
    """All numbers of sixteen bits; of wider ones every exponent with mantissas around each tie, and random ones."""
    if dtype in (torch.float16, torch.bfloat16):
        return torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    mantissa_bits, integer = (23, torch.int32) if dtype == torch.float32 else (52, torch.int64)
    exponents = torch.arange(2 ** (8 if dtype == torch.float32 else 11), dtype=torch.int64) << mantissa_bits
    near = [0, 1, 2**mantissa_bits - 1]
    for bit in range(mantissa_bits):
        for odd in (0, 1):
            tie = (1 << bit | odd << (bit + 1)) % 2**mantissa_bits
            near += [tie, tie + 1, (tie - 1) % 2**mantissa_bits]
    mantissas = torch.tensor(near, dtype=torch.int64) % 2**mantissa_bits
    bits = (exponents[:, None] | mantissas[None, :]).flatten()
    generator = torch.Generator().manual_seed(3)
    random = torch.randint(-(2**62), 2**62, (200_000,), generator=generator, dtype=torch.int64)
    if dtype == torch.float32:
        both = torch.cat([bits, bits - 2**31, random])
        return (both % 2**32 - 2**31).to(integer).view(dtype)
    return torch.cat([bits, bits | (-(2**63)), random * 2 + 1]).view(dtype)


@pytest.mark.parametrize("to", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("source", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_casts_are_pytorchs(source: torch.dtype, to: str, ucprun: Path, tmp_path: Path) -> None:
    """Bit for bit but for NaN, which becomes the positive quiet one unless nothing is cast."""
    target = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[to]
    numbers = patterns(source)
    (tmp_path / "in").mkdir()
    save_file({"x": numbers}, tmp_path / "in" / "model.safetensors")
    command = [ucprun, "convert", tmp_path / "in", tmp_path / "out", "--to", f"safetensors:dtype={to}"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    ours = load_file(tmp_path / "out" / "model.safetensors")["x"]
    assert ours.dtype == target
    if source == target:
        assert fingerprint(ours) == fingerprint(numbers)
        return
    theirs = numbers.to(target)
    nan = numbers.isnan()
    quiet = torch.tensor([float("nan")], dtype=target)
    integer = torch.int32 if target == torch.float32 else torch.int16
    assert torch.equal(theirs.isnan(), nan)
    assert torch.equal(ours[~nan].view(integer), theirs[~nan].view(integer))
    assert nan.sum() > 0
    assert torch.equal(ours[nan].view(integer), quiet.view(integer).expand(int(nan.sum())))
