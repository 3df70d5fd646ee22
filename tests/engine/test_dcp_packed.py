"""Items that `ZStandard`, an extension of PyTorch's writer, packed: read as any others, and distrusted."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed import checkpoint as dcp

from fixtures.fingerprints import describe
from test_dcp_damage import SOURCE, change_metadata, convert, expect_refusal
from test_dcp_objects import Command, scan, unknown
from universal import FIXTURES

PACKED = FIXTURES.parent / "unit/compiler/formats/dcp/samples/compressed"  # By PyTorch and the package zstandard.
BLOCK = 100_000


def stored(data: bytes) -> bytes:
    """A frame of zstd by the letter of RFC 8878, in blocks that are stored as they are."""
    frame = b"\x28\xb5\x2f\xfd\x00\x58"  # No size; a window of 2 MiB.
    for begin in range(0, len(data), BLOCK):
        block = data[begin : begin + BLOCK]
        is_last = begin + BLOCK >= len(data)
        frame += (is_last | len(block) << 3).to_bytes(3, "little") + block
    return frame


def pack(folder: Path) -> None:
    """Every item of every file of a folder, as the writer with the extension would have left it."""
    packed: dict[str, bytes] = {}
    whole = {file.name: file.read_bytes() for file in folder.glob("*.distcp")}

    def change(metadata: Any) -> None:
        for place in metadata.storage_data.values():
            item = whole[place.relative_path][place.offset : place.offset + place.length]
            before = packed.get(place.relative_path, b"")
            place.offset, place.length = len(before), len(stored(item))
            place.transform_descriptors = ["stream.zstd/1"]
            packed[place.relative_path] = before + stored(item)

    change_metadata(folder, change)
    for name, content in packed.items():
        (folder / name).write_bytes(content)


def ucp(ucprun: Path, *words: str | Path) -> str:
    """Returns its output."""
    command = [str(word) for word in (ucprun, *words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.fixture(autouse=True)
def _needs_zstd(ucprun: Path) -> None:
    if "(no zstd" in ucp(ucprun, "--version"):
        pytest.skip("this build has no zstd")


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """Weights and optimizer of FSDP2, packed."""
    copy = Path(shutil.copytree(SOURCE, tmp_path / "packed"))
    pack(copy)
    return copy


@pytest.mark.parametrize("to", ["deepspeed:dp=2,zero=1,dtype=fp32", "dcp:fsdp=3", "universal"])
def test_all_of_a_training(ucprun: Path, packed: Path, tmp_path: Path, to: str) -> None:
    """The same elements, states, steps and groups as without packing, by the manifests' digests and by `diff`."""
    for name, source in (("of_packed", packed), ("of_plain", SOURCE)):
        assert convert(ucprun, source, tmp_path / name, to).returncode == 0
    assert "bit for bit the same" in ucp(ucprun, "verify", tmp_path / "of_packed", "--same", SOURCE)
    assert "0 tensors differ" in ucp(ucprun, "diff", tmp_path / "of_packed", tmp_path / "of_plain")
    assert "0 tensors differ" in ucp(ucprun, "diff", packed, SOURCE)


def transform(*names: str) -> Callable[[Any], None]:
    """Says that these transforms were applied to each item; without names, that none was."""

    def change(metadata: Any) -> None:
        for place in metadata.storage_data.values():
            place.transform_descriptors = list(names) or None

    return change


def test_packed_items(ucprun: Path, tmp_path: Path) -> None:
    """As `ZStandard`, an extension of the writer, makes them: the tensors that were saved, into two formats."""
    saved = {
        "a.weight": torch.arange(4096, dtype=torch.float32).reshape(64, 64),
        "a.bias": torch.arange(64, dtype=torch.bfloat16),
        "turned": torch.arange(6, dtype=torch.float32).reshape(3, 2).t(),
    }
    assert convert(ucprun, PACKED, tmp_path / "weights", "safetensors").returncode == 0
    found = load_file(tmp_path / "weights" / "model.safetensors")
    assert {name: describe(tensor) for name, tensor in found.items()} == {
        name: describe(tensor.contiguous()) for name, tensor in saved.items()
    }
    assert convert(ucprun, PACKED, tmp_path / "dcp", "dcp:style=plain").returncode == 0
    loaded = {"model": {name: torch.zeros_like(tensor) for name, tensor in saved.items()}, "epoch": 0}
    dcp.load(loaded, checkpoint_id=tmp_path / "dcp", no_dist=True)
    assert all(torch.equal(loaded["model"][name], tensor) for name, tensor in saved.items())
    assert loaded["epoch"] == 3


def test_damaged_packed_items(ucprun: Path, tmp_path: Path) -> None:
    """They are never taken for what they are not, whatever metadata says."""
    copy = Path(shutil.copytree(PACKED, tmp_path / "changed"))
    out = tmp_path / "ours"
    change_metadata(copy, transform())
    expect_refusal(convert(ucprun, copy, out, "safetensors"), out, "does not begin as one that torch.save wrote")
    change_metadata(copy, transform("mine.cipher/1"))
    refused = convert(ucprun, copy, out, "safetensors")
    expect_refusal(refused, out, "mine.cipher/1", ".metadata", "without `_extensions`")
    change_metadata(copy, transform("stream.zstd/1"))
    assert convert(ucprun, copy, out, "safetensors").returncode == 0
    shutil.rmtree(out)
    data = copy / "__0_0.distcp"
    whole = data.read_bytes()
    data.write_bytes(whole[:40] + b"????" + whole[44:])
    expect_refusal(convert(ucprun, copy, out, "safetensors"), out, "__0_0.distcp`", "cannot be unpacked by zstd")

    def shorten(metadata: Any) -> None:
        for place in metadata.storage_data.values():
            place.length -= 1

    data.write_bytes(whole)
    change_metadata(copy, shorten)
    expect_refusal(convert(ucprun, copy, out, "safetensors"), out, "__0_0.distcp`", "it ends within a frame")


def test_plain_items_that_are_called_packed(ucprun: Path, tmp_path: Path) -> None:
    """As metadata of another save would."""
    copy = Path(shutil.copytree(SOURCE, tmp_path / "changed"))
    change_metadata(copy, transform("stream.zstd/1"))
    result = convert(ucprun, copy, tmp_path / "ours", "safetensors")
    expect_refusal(result, tmp_path / "ours", ".distcp`", "cannot be unpacked by zstd: Unknown frame descriptor")


def test_packed_values_that_run_something(ucprun: Path, packed: Path) -> None:
    """A scanner looks into packed items."""
    assert not unknown(scan(ucprun, packed, 0))
    file = packed / "__0_0.distcp"
    hook = packed.parent / "hook"
    torch.save(Command(), hook)
    before = file.read_bytes()
    item = stored(hook.read_bytes())
    file.write_bytes(before + item)

    def place(metadata: Any) -> None:
        key = next(key for key in metadata.storage_data if key.offset is None)
        info = metadata.storage_data[key]
        info.relative_path, info.offset, info.length = file.name, len(before), len(item)

    change_metadata(packed, place)
    assert [row["calls"] for row in unknown(scan(ucprun, packed, 3))] == ["posix.system('touch ./pwned')"]
