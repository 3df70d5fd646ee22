"""Folders that the package torch_checkpointing saved. The runs of fixtures/dcp_cases.py that it saved are read and
continued by the tests of Distributed Checkpoint; here are the forms that no run has, and damaged folders."""

from __future__ import annotations

import copy
import itertools
import json
import os
import pickle
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed.tensor.placement_types import Replicate, Shard, _StridedShard

from conftest import Run
from dcp_judges import read_flat
from test_dcp_damage import convert, expect_refusal
from universal import FIXTURES

SOURCE = FIXTURES / "dcp" / "torch_checkpointing" / "checkpoint"
STRIDED = FIXTURES / "dcp" / "torch_checkpointing_tp" / "checkpoint"

Placements = list[Any]


def described(tensor: torch.Tensor, mesh: torch.Tensor, placements: Placements) -> dict[str, Any]:
    """As the package does it: of a tensor that the ranks of a mesh share."""
    of_each = []
    for placement in placements:
        if isinstance(placement, _StridedShard):
            of_each.append({"type": "StridedShard", "dim": placement.dim, "split_factor": int(placement.split_factor)})
        elif isinstance(placement, Shard):
            of_each.append({"type": "Shard", "dim": placement.dim})
        else:
            of_each.append({"type": "Replicate"})
    spec = {"device_type": "cpu", "mesh_shape": tuple(mesh.shape), "mesh_data": tuple(mesh.flatten().tolist()),
            "mesh_dim_names": None}  # fmt: skip
    data = {"global_shape": list(tensor.shape), "dtype": str(tensor.dtype), "stride": list(tensor.stride()),
            "mesh_spec": spec, "placements": of_each}  # fmt: skip
    sharding = {"type": "DTensorShardingMetadata", "data": data}
    return {"sharding_metadata": sharding, "ranks": tuple(sorted(spec["mesh_data"]))}


def parts_of(tensor: torch.Tensor, mesh: torch.Tensor, placements: Placements) -> dict[int, torch.Tensor]:
    """The part of each rank, cut by PyTorch's own placements."""
    parts = {}
    for place in itertools.product(*map(range, mesh.shape)):
        part = tensor
        for size, at, placement in zip(mesh.shape, place, placements, strict=True):
            if not isinstance(placement, Replicate):
                part = placement._split_tensor(part, size, with_padding=False)[0][at]
        parts[int(mesh[place])] = part
    return parts


def save(folder: Path, tensors: dict[str, tuple[torch.Tensor, torch.Tensor, Placements]], ranks: int) -> dict[str, Any]:
    """One item `model` of these tensors; what its metadata says."""
    folder.mkdir()
    files: list[dict[str, torch.Tensor]] = [{} for _ in range(ranks)]
    paths = {}
    for name, (tensor, mesh, placements) in tensors.items():
        paths[json.dumps([name])] = [described(tensor, mesh, placements)]
        for rank, part in parts_of(tensor, mesh, placements).items():
            files[rank][name] = part
    for rank, file in enumerate(files):
        torch.save(file, folder / f"model_{rank}.pt")
    item = {"nested_path_to_metadata": paths, "rank_to_layout_info": dict.fromkeys(range(ranks))}
    metadata = {"metadata": {"model": item}, "world_size": ranks, "version": "2.0"}
    (folder / "metadata.pkl").write_bytes(pickle.dumps(metadata))
    return metadata


def expect_weights(run: Run, folder: Path, tensors: dict[str, torch.Tensor]) -> None:
    output = folder.parent / f"{folder.name}-out"
    run("convert", folder, output, "--to", "safetensors")
    found = load_file(output / "model.safetensors")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype, name
        assert torch.equal(found[name], tensor), name


CUTS: list[Placements] = [
    [Shard(0), Shard(0)],
    [Shard(1), Shard(0)],
    [_StridedShard(0, split_factor=3), Shard(0)],
    [_StridedShard(0, split_factor=2), Shard(1)],
    [Shard(0), _StridedShard(0, split_factor=2)],
    [_StridedShard(1, split_factor=2), _StridedShard(0, split_factor=3)],
    [Replicate(), Shard(1)],
    [Shard(0), Replicate()],
    [Replicate(), Replicate()],
]


def test_every_cut(run: Run, tmp_path: Path) -> None:
    """Rows and columns that do not divide, ranks in any order on the mesh, ranks without a part, and parts that are
    several boxes of the tensor."""
    mesh = torch.tensor([[4, 1, 0], [2, 5, 3]])
    wholes = {
        f"{rows}x{columns}.{number}": (torch.arange(rows * columns).reshape(rows, columns), placements)
        for rows, columns in [(1, 13), (4, 4), (7, 5), (12, 6), (17, 3)]
        for number, placements in enumerate(CUTS)
    }  # fmt: skip
    save(tmp_path / "saved", {name: (whole, mesh, placements) for name, (whole, placements) in wholes.items()}, 6)
    expect_weights(run, tmp_path / "saved", {name: whole for name, (whole, _) in wholes.items()})
    run("verify", tmp_path / "saved", "--same", tmp_path / "saved")


def test_tensors_of_all_kinds(run: Run, tmp_path: Path) -> None:
    """Parts in other orders than their elements', without elements, numbers alone, and two that are one storage."""
    mesh = torch.tensor([1, 0])
    wide = torch.randn(6, 10, generator=torch.Generator().manual_seed(5))
    tensors = {
        "turned": (wide.t(), [Shard(1)]),
        "columns": (wide[:, 1:9:2], [Shard(0)]),
        "half": (wide.to(torch.bfloat16), [Shard(1)]),
        "eight": (wide.to(torch.float8_e4m3fn), [Shard(0)]),
        "nothing": (torch.zeros(0, 3), [Shard(0)]),
        "one": (torch.tensor(2.5), [Replicate()]),
        "again": (wide, [Replicate()]),
        "strided": (wide.t(), [_StridedShard(0, split_factor=3)]),
    }
    save(tmp_path / "saved", {name: (whole, mesh, cut) for name, (whole, cut) in tensors.items()}, 2)
    files = [torch.load(tmp_path / "saved" / f"model_{rank}.pt") for rank in range(2)]
    for file in files:  # Parts of a larger storage, as they lie.
        part = file["turned"]
        file["turned"] = part.t().contiguous().t()
    for rank, file in enumerate(files):
        torch.save(file, tmp_path / "saved" / f"model_{rank}.pt")
    expect_weights(run, tmp_path / "saved", {name: whole.contiguous() for name, (whole, _) in tensors.items()})


def test_older_metadata(run: Run, tmp_path: Path) -> None:
    """Version 1.0, which has no dicts of items, and files of other names."""
    whole = torch.arange(35.0).reshape(7, 5)
    metadata = save(tmp_path / "saved", {"a": (whole, torch.tensor([0, 1]), [Shard(0)])}, 2)
    groups = metadata["metadata"]["model"]["nested_path_to_metadata"]['["a"]']
    (tmp_path / "saved" / "rank_1").mkdir()
    (tmp_path / "saved" / "model_1.pt").rename(tmp_path / "saved" / "rank_1" / "m.pt")
    other = {"file_path": "rank_1/m.pt", "serialization_format": {"type": "TorchSerialization"}}
    old = {"metadata": {'["model","a"]': groups}, "world_size": 2, "version": "1.0",
           "rank_to_layout_info_mappings": {"0": {"model": None}, "1": {"model": other}}}  # fmt: skip
    (tmp_path / "saved" / "metadata.pkl").write_bytes(pickle.dumps(old))
    expect_weights(run, tmp_path / "saved", {"a": whole})


def test_keys_are_those_of_the_items(run: Run, tmp_path: Path) -> None:
    """Without a style, a target has the dict that the job saved: a script loads its items by their names."""
    run("convert", SOURCE, tmp_path / "ours", "--to", "dcp")
    ours = read_flat(tmp_path / "ours")
    for item in ("model", "lr_scheduler", "train"):
        assert any(key.startswith(f"{item}.") for key in ours), item
    assert ours["optim.state.model.norm.weight.step"].item() == 3
    assert ours["train.step"] == 3
    assert ours["train.blob"] == b"\x00\xff.\x80"
    assert ours["train.counters"].tolist() == [0, 1, 2, 3]
    assert ours["lr_scheduler.last_epoch"] == 3


def test_values_that_ranks_do_not_share(run: Run, tmp_path: Path) -> None:
    """A remark says that those of the first rank alone are carried over, and which files nobody reads."""
    place = Path(shutil.copytree(SOURCE, tmp_path / "saved"))
    assert "carried over" not in run("inspect", place)
    torch.save({"position": 5}, place / "dataloader_0.pt")
    torch.save({"position": 5}, place / "dataloader_1.pt")
    assert "carried over" not in run("inspect", place)
    torch.save({"position": 6}, place / "dataloader_1.pt")
    (place / "config.json").write_text("{}")
    (place / "rank_0").mkdir()
    said = " ".join(run("inspect", place).split())
    assert "2 files or folders" in said
    assert "`dataloader` of rank 1 is not that of rank 0, which is carried over for all ranks" in said
    assert "first `config.json`) are not a rank's file of an item by their names" in said
    run("convert", place, tmp_path / "ours", "--to", "dcp")
    assert read_flat(tmp_path / "ours")["dataloader.position"] == 5


def test_conversion_to_every_target_is_that_of_the_wholes(run: Run, tmp_path: Path) -> None:
    """`verify --same`: a target holds what the source does, whatever the cuts."""
    for number, source in enumerate((SOURCE, STRIDED)):
        for to in ("universal", "deepspeed:dp=2,zero=1,dtype=fp32", "dcp:fsdp=3"):
            output = tmp_path / f"{number}-{to.split(':')[0]}"
            run("convert", source, output, "--to", to)
            run("verify", source, "--same", output)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A folder to damage."""
    return Path(shutil.copytree(SOURCE, tmp_path / "damaged"))


def change(folder: Path, how: Callable[[Any], None]) -> None:
    """Reads the metadata and writes it again."""
    file = folder / "metadata.pkl"
    metadata = copy.deepcopy(pickle.loads(file.read_bytes()))
    how(metadata)
    file.write_bytes(pickle.dumps(metadata))


UP = '["model.layers.0.up_proj.weight"]'  # Of ten rows.


def data_of(metadata: Any) -> Any:
    """The description of one tensor."""
    return metadata["metadata"]["model"]["nested_path_to_metadata"][UP][0]["sharding_metadata"]["data"]


def placed(**placement: Any) -> Callable[[Any], None]:
    return lambda metadata: data_of(metadata).update(placements=[placement])


def without_description(metadata: Any) -> None:
    del metadata["metadata"]["model"]["nested_path_to_metadata"][UP]


def saved_as(kind: str) -> Callable[[Any], None]:
    layout = {"file_path": "model.x", "serialization_format": {"type": kind}}
    return lambda metadata: metadata["metadata"]["model"]["rank_to_layout_info"].update({1: layout})


def another_tensor(metadata: Any) -> None:
    paths = metadata["metadata"]["model"]["nested_path_to_metadata"]
    paths['["other"]'] = paths[UP]


def of_values(metadata: Any) -> None:
    metadata["metadata"]["train"] = {
        "nested_path_to_metadata": {'["step"]': metadata["metadata"]["model"]["nested_path_to_metadata"][UP]},
        "rank_to_layout_info": {0: None, 1: None},
    }


class Command:
    """Runs when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch ./pwned",)


METADATA: dict[str, tuple[Callable[[Any], None], str]] = {
    "partial sums": (placed(type="Partial", reduce_op="sum"), "is placed by `Partial`"),
    "columns": (placed(type="Shard", dim=1), "is [5, 6], and a tensor of [10, 6] that is placed as `metadata.pkl` s"),
    "whole": (placed(type="Replicate"), "is [5, 6], and a tensor of [10, 6]"),
    "a strided cut": (placed(type="StridedShard", dim=0, split_factor=0), "has the `split_factor` 0"),
    "rows": (lambda metadata: data_of(metadata).update(global_shape=[11, 6]), "is [5, 6], and a tensor of [11, 6]"),
    "a dtype": (lambda metadata: data_of(metadata).update(dtype="torch.int32"), "is of float32, and `metadata.pkl`"),
    "not described": (without_description, "is a DTensor, and `metadata.pkl` does not say how ranks share it"),
    "another tensor": (another_tensor, "model_0.pt` does not hold `model.other`, and `metadata.pkl` says that rank 0"),
    "a value": (of_values, "`train.step` is 3, and `metadata.pkl` says that it is a tensor"),
    "JSON": (saved_as("JsonSerialization"), "is saved by JsonSerialization into `model.x`"),
    "safetensors": (saved_as("SafetensorsSerialization"), "is saved by SafetensorsSerialization into `model.x`"),
    "raw": (saved_as("RawSerialization"), "is saved by RawSerialization into `model.x`"),
    "another format": (saved_as("TorchSerialization"), "model.x` is missing, and `metadata.pkl` says that rank 1"),
    "a version": (lambda metadata: metadata.update(version="2.1"), "its version is `2.1`, and 1.0 and 2.0 are read"),
    "fewer ranks": (lambda metadata: metadata.update(world_size=1), "has a file of rank 1, and `world_size` is 1"),
    "many ranks": (lambda metadata: metadata.update(world_size=10**7), "`world_size` is 10000000, and `model` has"),
    "an object": (lambda metadata: metadata.update(more=Command()), "it names a class or a function"),
}  # fmt: skip


@pytest.mark.parametrize("damage", METADATA)
def test_metadata_that_is_refused(ucprun: Path, damaged: Path, damage: str) -> None:
    how, words = METADATA[damage]
    change(damaged, how)
    output = damaged.parent / "out"
    result = convert(ucprun, damaged, output, "safetensors")
    expect_refusal(result, output, words)
    assert len(result.stderr) < 600
    assert not (damaged / "pwned").exists() and not Path("pwned").exists()


def cut_off(place: Path) -> None:
    (place / "optim_1.pt").write_bytes((place / "optim_1.pt").read_bytes()[:-100])


def other_element(place: Path) -> None:
    data = bytearray((place / "model_1.pt").read_bytes())
    part = torch.load(place / "model_1.pt", weights_only=False)["model.embed_tokens.weight"]._local_tensor
    at = data.index(part.numpy().tobytes())
    data[at] ^= 1
    (place / "model_1.pt").write_bytes(bytes(data))


def nested_values(place: Path) -> None:
    """A billion paths lead to one value."""
    value: Any = {"a": 1}
    for _ in range(30):
        value = [value, value]
    torch.save(value, place / "deep_0.pt")


FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a rank is missing": (
        lambda place: (place / "model_1.pt").unlink(),
        "model_1.pt` is missing, and `metadata.pkl` says that rank 1 has tensors of `model`; copy the whole checkpoint",
    ),
    "of a rank beyond": (
        lambda place: shutil.copy(place / "model_1.pt", place / "model_2.pt"),
        "`model_2.pt`, and `metadata.pkl` says that 2 ranks saved it; the folder holds two saves",
    ),
    "of a value and a rank beyond": (
        lambda place: shutil.copy(place / "train_1.pt", place / "train_7.pt"),
        "`train_7.pt`, and `metadata.pkl` says that 2 ranks saved it",
    ),
    "of another rank": (lambda place: shutil.copy(place / "model_0.pt", place / "model_1.pt"), "is [7, 6], and a"),
    "cut off": (cut_off, "optim_1.pt`"),
    "an element": (other_element, "model_1.pt` is damaged: bytes"),
    "many values": (nested_values, "deep_0.pt`: it holds more than 10000000 values"),
    "no archive": (lambda place: (place / "train_0.pt").write_bytes(b"PK"), "train_0.pt`"),
    "metadata that ends": (lambda place: (place / "metadata.pkl").write_bytes(b"\x80\x04}"), "metadata.pkl`: "),
}


@pytest.mark.parametrize("damage", FILES)
def test_files_that_are_refused(ucprun: Path, damaged: Path, damage: str) -> None:
    how, words = FILES[damage]
    how(damaged)
    output = damaged.parent / "out"
    expect_refusal(convert(ucprun, damaged, output, "safetensors"), output, words)


def test_objects(ucprun: Path, damaged: Path) -> None:
    """`inspect --objects` knows what DTensors are made of, and finds what is hidden among it."""
    command = [ucprun, "inspect", damaged, "--objects", "--json"]
    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0
    change(damaged, lambda metadata: metadata.update(more=Command()))
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 3
    calls = [row["calls"] for row in json.loads(result.stdout)["objects"] if not row["known"]]
    assert calls == ["posix.system('touch ./pwned')"]
