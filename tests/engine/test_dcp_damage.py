"""Damaged and foreign folders of Distributed Checkpoint: refused in one line with the file; nothing is written."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.filesystem import FileSystemWriter, SerializationFormat
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex
from torch.distributed.checkpoint.state_dict import get_state_dict

from fixtures.fingerprints import describe
from universal import FIXTURES

Result = subprocess.CompletedProcess[str]
Damage = Callable[[Path], None]

SOURCE = FIXTURES / "dcp" / "fsdp2" / "checkpoint"
TENSOR = "model.model.layers.0.up_proj.weight"  # Of ten rows: 3, 3, 3 and 1.
STATE = "optim.state.model.layers.0.up_proj.weight.exp_avg"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder to damage."""
    return Path(shutil.copytree(SOURCE, tmp_path / "damaged"))


def convert(ucprun: Path, source: Path, output: Path, to: str) -> Result:
    """A conversion that may fail."""
    command = [str(ucprun), "convert", str(source), str(output), "--to", to]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def expect_refusal(result: Result, output: Path, *words: str) -> None:
    """The error is one line with these words, the program was not killed by a signal, and there is no output."""
    assert result.returncode in range(1, 10), result
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("ucprun: error: "), lines[0]
    for word in words:
        assert word in lines[0]
    assert not output.exists()
    assert not [place for place in output.parent.iterdir() if place.name.endswith("ucp-partial")]


def change_metadata(folder: Path, change: Callable[[Any], None]) -> None:
    """Reads `.metadata` with PyTorch's classes, and writes it again."""
    file = folder / ".metadata"
    metadata = pickle.loads(file.read_bytes())
    change(metadata)
    file.write_bytes(pickle.dumps(metadata, protocol=4))


def item_of(metadata: Any, key: str, chunk: int) -> MetadataIndex:
    """The key of a chunk in the table of items."""
    return MetadataIndex(key, metadata.state_dict_metadata[key].chunks[chunk].offsets)


def drop_chunk(metadata: Any) -> None:
    metadata.storage_data.pop(item_of(metadata, TENSOR, 1))
    del metadata.state_dict_metadata[TENSOR].chunks[1]


def drop_item(metadata: Any) -> None:
    metadata.storage_data.pop(item_of(metadata, TENSOR, 1))


def overlap(metadata: Any) -> None:
    """The second chunk begins a row before the first one ends."""
    place = metadata.storage_data.pop(item_of(metadata, TENSOR, 1))
    metadata.state_dict_metadata[TENSOR].chunks[1] = ChunkStorageMetadata(torch.Size([2, 0]), torch.Size([3, 6]))
    metadata.storage_data[item_of(metadata, TENSOR, 1)] = place


def outside(metadata: Any) -> None:
    place = metadata.storage_data.pop(item_of(metadata, TENSOR, 3))
    metadata.state_dict_metadata[TENSOR].chunks[3] = ChunkStorageMetadata(torch.Size([10, 0]), torch.Size([1, 6]))
    metadata.storage_data[item_of(metadata, TENSOR, 3)] = place


def grow(metadata: Any) -> None:
    metadata.state_dict_metadata[TENSOR].size = torch.Size([11, 6])


def grow_beyond_all_memory(metadata: Any) -> None:
    tensor = metadata.state_dict_metadata[TENSOR]
    tensor.size = torch.Size([2**62, 2**62])
    tensor.chunks[:] = [ChunkStorageMetadata(torch.Size([0, 0]), tensor.size)]


def negative(metadata: Any) -> None:
    chunk = metadata.state_dict_metadata[TENSOR].chunks[1]
    metadata.state_dict_metadata[TENSOR].chunks[1] = ChunkStorageMetadata(chunk.offsets, torch.Size([-3, 6]))


def share_an_item(metadata: Any) -> None:
    """Two tensors of one shape have the same bytes."""
    metadata.storage_data[item_of(metadata, STATE, 0)] = metadata.storage_data[item_of(metadata, TENSOR, 0)]


def swap_items(metadata: Any) -> None:
    """Of three rows and of one."""
    first, last = item_of(metadata, TENSOR, 0), item_of(metadata, TENSOR, 3)
    table = metadata.storage_data
    table[first], table[last] = table[last], table[first]


def other_dtype(metadata: Any) -> None:
    metadata.state_dict_metadata[TENSOR].properties.dtype = torch.int32


def shift(metadata: Any) -> None:
    metadata.storage_data[item_of(metadata, TENSOR, 1)].offset += 1


def beyond_the_end(metadata: Any) -> None:
    metadata.storage_data[item_of(metadata, TENSOR, 1)].length = 2**62


def wrap_around(metadata: Any) -> None:
    metadata.storage_data[item_of(metadata, TENSOR, 1)].offset = 2**63 - 1


def upwards(metadata: Any) -> None:
    place = metadata.storage_data[item_of(metadata, TENSOR, 1)]
    place.relative_path = f"../damaged/{place.relative_path}"


def absolute(metadata: Any) -> None:
    place = metadata.storage_data[item_of(metadata, TENSOR, 1)]
    place.relative_path = str((SOURCE / place.relative_path).resolve())


METADATA = [
    drop_chunk, drop_item, overlap, outside, grow, grow_beyond_all_memory, negative, share_an_item, swap_items,
    other_dtype, shift, beyond_the_end, wrap_around, upwards, absolute,
]  # fmt: skip


@pytest.mark.parametrize("change", METADATA, ids=lambda change: change.__name__)
def test_metadata_that_contradicts(change: Callable[[Any], None], copy: Path, ucprun: Path, tmp_path: Path) -> None:
    """Itself, or the data files. The tensor, or the file, is named."""
    change_metadata(copy, change)
    for to in ("safetensors:states=all", "universal"):
        result = convert(ucprun, copy, tmp_path / "ours", to)
        expect_refusal(result, tmp_path / "ours", "up_proj.weight", str(copy))


def test_truncated_metadata(copy: Path, ucprun: Path, tmp_path: Path) -> None:
    content = (copy / ".metadata").read_bytes()
    for length in [*range(0, len(content), len(content) // 12), len(content) - 1]:
        (copy / ".metadata").write_bytes(content[:length])
        expect_refusal(convert(ucprun, copy, tmp_path / "ours", "safetensors"), tmp_path / "ours", ".metadata")


def contents(folder: Path) -> list[tuple[Any, ...]]:
    """Every tensor without its name."""
    tensors = [*load_file(folder / "model.safetensors").values(), *load_file(folder / "optimizer.safetensors").values()]
    return sorted((list(tensor.shape), *describe(tensor).values()) for tensor in tensors)


@pytest.mark.parametrize("name", [".metadata", "__1_0.distcp"])
def test_flipped_bits(name: str, copy: Path, ucprun: Path, tmp_path: Path) -> None:
    """Nothing wrong is ever written: a flipped bit is refused, or stands where no element depends on it. A name that is
    written once, in a flat dict, can change with it."""
    assert convert(ucprun, copy, tmp_path / "right", "safetensors:states=all").returncode == 0
    right = contents(tmp_path / "right")
    content = (copy / name).read_bytes()
    refused = 0
    places = range(7, len(content), len(content) // 120)
    for number, place in enumerate(places):
        flipped = bytearray(content)
        flipped[place] ^= 1 << (number % 8)
        (copy / name).write_bytes(flipped)
        output = tmp_path / f"ours{place}"
        result = convert(ucprun, copy, output, "safetensors:states=all")
        if result.returncode == 0:
            assert contents(output) == right, place
            shutil.rmtree(output)
        else:
            expect_refusal(result, output, str(copy))
            refused += 1
    assert refused > len(places) // 4


def test_flipped_elements(copy: Path, ucprun: Path, tmp_path: Path) -> None:
    """The checksum that PyTorch wrote beside them does not fit."""
    file = copy / "__0_0.distcp"
    content = bytearray(file.read_bytes())
    with (copy / ".metadata").open("rb") as stream:
        metadata = pickle.load(stream)
    place = metadata.storage_data[item_of(metadata, TENSOR, 0)]
    begin = content.index(b"archive/data/0", place.offset) + len(b"archive/data/0")
    begin = place.offset + -(-(begin - place.offset) // 64) * 64
    content[begin + 5] ^= 1
    file.write_bytes(content)
    for to in ("safetensors", "universal"):
        expect_refusal(convert(ucprun, copy, tmp_path / "ours", to), tmp_path / "ours", "__0_0.distcp")


def test_missing_data_file(copy: Path, ucprun: Path, tmp_path: Path) -> None:
    (copy / "__2_0.distcp").unlink()
    expect_refusal(convert(ucprun, copy, tmp_path / "ours", "safetensors"), tmp_path / "ours", "__2_0.distcp")


def test_truncated_data_file(copy: Path, ucprun: Path, tmp_path: Path) -> None:
    file = copy / "__2_0.distcp"
    content = file.read_bytes()
    for length in (0, 1, len(content) // 2, len(content) - 1):
        file.write_bytes(content[:length])
        result = convert(ucprun, copy, tmp_path / "ours", "safetensors:states=all")
        expect_refusal(result, tmp_path / "ours", "__2_0.distcp")


def test_unfinished_save(copy: Path, ucprun: Path, tmp_path: Path) -> None:
    """PyTorch renames the file when all ranks have written theirs."""
    (copy / ".metadata").rename(copy / ".metadata.tmp")
    expect_refusal(convert(ucprun, copy, tmp_path / "ours", "safetensors"), tmp_path / "ours", str(copy))
    (copy / ".metadata.tmp").unlink()
    expect_refusal(convert(ucprun, copy, tmp_path / "ours", "safetensors"), tmp_path / "ours", str(copy))


def test_unfinished_half_of_accelerate(ucprun: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(FIXTURES / "dcp" / "accelerate_fsdp2" / "checkpoint", tmp_path / "damaged"))
    (copy / "optimizer_0" / ".metadata").unlink()
    expect_refusal(convert(ucprun, copy, tmp_path / "ours", "universal"), tmp_path / "ours", "optimizer_0")


class Runs:
    """Unpickling it would leave a file."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return (Path.touch, (self.place,))


def test_nothing_is_executed(copy: Path, ucprun: Path, tmp_path: Path) -> None:
    """Neither from `.metadata` nor from a value that is carried along."""
    change_metadata(copy, lambda metadata: setattr(metadata, "planner_data", Runs(tmp_path / "ran")))
    convert(ucprun, copy, tmp_path / "ours", "universal")
    assert not (tmp_path / "ran").exists()
    state = {"model": {"weight": torch.ones(3)}, "other": Runs(tmp_path / "ran")}
    dcp.save(state, checkpoint_id=tmp_path / "saved", no_dist=True)
    convert(ucprun, tmp_path / "saved", tmp_path / "ours2", "safetensors")
    assert not (tmp_path / "ran").exists()


def test_other_forms_of_items(ucprun: Path, tmp_path: Path) -> None:
    """Items that are safetensors files are not read."""
    writer = FileSystemWriter(tmp_path / "saved", serialization_format=SerializationFormat.SAFETENSORS)
    dcp.save({"weight": torch.ones(3)}, storage_writer=writer, no_dist=True)
    result = convert(ucprun, tmp_path / "saved", tmp_path / "ours", "safetensors")
    expect_refusal(result, tmp_path / "ours", "__0_0.distcp")


def test_files_of_an_earlier_save(copy: Path, ucprun: Path, tmp_path: Path) -> None:
    """With more ranks, into the same folder: nothing names them."""
    (copy / "__7_0.distcp").write_bytes(b"old")
    assert convert(ucprun, copy, tmp_path / "ours", "safetensors").returncode == 0
    truth = json.loads((SOURCE.parent / "truth.json").read_text())
    weights = load_file(tmp_path / "ours" / "model.safetensors")
    assert all(describe(weights[name]) == entry["states"]["fp32"] for name, entry in truth["tensors"].items())


BY_RANK = FIXTURES / "dcp" / "fsdp2_by_rank" / "checkpoint"


def change_rank(folder: Path, rank: int, change: Callable[[Any], None]) -> None:
    """The same of the metadata of one rank."""
    file = folder / f"__{rank}.metadata"
    metadata = pickle.loads(file.read_bytes())
    change(metadata)
    file.write_bytes(pickle.dumps(metadata, protocol=4))


def other_shape(metadata: Any) -> None:
    """Of a tensor that all ranks have a part of."""
    metadata.state_dict_metadata[TENSOR].size = torch.Size([11, 6])


DAMAGE_BY_RANK: dict[str, tuple[Damage, tuple[str, ...]]] = {
    "a rank's is missing": (lambda folder: (folder / "__1.metadata").unlink(), ("up to rank 3", "no `__1.metadata`")),
    "the last one is missing": (
        lambda folder: (folder / "__3.metadata").unlink(),
        ("up to rank 3, and `__3_0.distcp`, and no `__3.metadata`: the save did not finish",),
    ),
    "the first one is missing": (
        lambda folder: (folder / "__0.metadata").unlink(), ("no `.metadata`", "the save did not finish"),
    ),
    "the last rank is gone": (
        lambda folder: [(folder / name).unlink() for name in ("__3.metadata", "__3_0.distcp")],
        ("the 3 chunks of `", "elements of a tensor"),
    ),
    "another shape": (
        lambda folder: change_rank(folder, 2, other_shape),
        (f"`{TENSOR}` is a tensor [10, 6] of float32 of rank 0 and a tensor [11, 6] of float32 of rank 2",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE_BY_RANK)
def test_metadata_of_each_rank(ucprun: Path, tmp_path: Path, damage: str) -> None:
    """Every rank's is needed, and they must be of one save."""
    folder = Path(shutil.copytree(BY_RANK, tmp_path / "damaged"))
    change, words = DAMAGE_BY_RANK[damage]
    change(folder)
    output = tmp_path / "out"
    expect_refusal(convert(ucprun, folder, output, "universal"), output, *words)


def test_other_settings_are_a_difference(ucprun: Path, trained_twice: tuple[Path, Path]) -> None:
    """Folders that differ in a learning rate alone: `diff` and `verify --same` say so, with both values."""
    first, second = trained_twice
    for command in (["diff", first, second], ["verify", first, "--same", second]):
        result = subprocess.run([ucprun, *command], capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == 3, result
        (line,) = [line for line in (result.stdout + result.stderr).splitlines() if "`lr`" in line]
        assert "0.5" in line
        assert "0.25" in line


@pytest.fixture
def trained_twice(tmp_path: Path) -> tuple[Path, Path]:
    """Saved by PyTorch with two learning rates."""
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.5)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    places = tmp_path / "first", tmp_path / "second"
    for place, rate in zip(places, (0.5, 0.25), strict=True):
        optimizer.param_groups[0]["lr"] = rate
        weights, states = get_state_dict(model, optimizer)
        dcp.save({"model": weights, "optimizer": states}, checkpoint_id=place, no_dist=True)
    return places
