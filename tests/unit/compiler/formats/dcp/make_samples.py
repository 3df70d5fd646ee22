"""Writes the samples beside this script with the real PyTorch 2.13; the tests read the committed files.

Other versions of PyTorch differ in the names of modules, in one tuple and in how an enum pickles: that is changed in
what 2.13 pickles. `saved` is a checkpoint of one process, whose elements are their places in the tensor. `trained` is
of two processes with FSDP2, AdamW and two groups. `compressed` is one of a writer with `_extensions`, which needs the
package `zstandard` beside PyTorch, and `torch_checkpointing` one of the package of that name; without the packages they
stay as they are.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import pickle
import shutil
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import metadata as classes
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.fsdp import fully_shard

SAMPLES = pathlib.Path(__file__).parent / "samples"


def small() -> classes.Metadata:
    """A tensor in two chunks and an empty one, one without dimensions, and a value."""
    size = torch.Size
    properties = classes.TensorProperties(dtype=torch.float32)
    chunks = [
        classes.ChunkStorageMetadata(size((0, 0)), size((2, 4))),
        classes.ChunkStorageMetadata(size((2, 0)), size((1, 4))),
        classes.ChunkStorageMetadata(size((3, 0)), size((0, 4))),
    ]
    scalar = [classes.ChunkStorageMetadata(size(()), size(()))]
    return classes.Metadata(
        state_dict_metadata={
            "model.a": classes.TensorStorageMetadata(properties, size((3, 4)), chunks),
            "model.b": classes.TensorStorageMetadata(properties, size(()), scalar),
            "step": classes.BytesStorageMetadata(),
        },
        planner_data={"step": ("step",), "model.a": ("model", "a"), "model.b": ("model", "b")},
        storage_data={
            classes.MetadataIndex("model.a", size((0, 0)), 0): _StorageInfo("__0_0.distcp", 0, 700),
            classes.MetadataIndex("model.a", size((2, 0)), 1): _StorageInfo("__1_0.distcp", 0, 600),
            classes.MetadataIndex("model.b", size(()), 0): _StorageInfo("__0_0.distcp", 700, 500),
            classes.MetadataIndex("step"): _StorageInfo("__0_0.distcp", 1200, 400),
        },
        storage_meta=classes.StorageMeta(checkpoint_id=pathlib.PosixPath("/a/b"), save_id="c"),
    )


def with_parts(count: int) -> bytes:
    """TensorProperties of so many parts: 2.15 added a sixth."""

    def state(properties: classes.TensorProperties) -> tuple[Any, ...]:
        return (*before(properties), (4, 1), None)[:count]

    before = classes.TensorProperties.__getstate__
    classes.TensorProperties.__getstate__ = state  # type: ignore[method-assign]
    try:
        return pickle.dumps(small(), protocol=5)
    finally:
        classes.TensorProperties.__getstate__ = before  # type: ignore[method-assign]


def with_enum_by_name() -> bytes:
    """As on early versions of CPython 3.11."""
    kind = classes._MEM_FORMAT_ENCODING
    kind.__reduce_ex__ = lambda member, _: (getattr, (kind, member.name))  # type: ignore[assignment, method-assign]
    try:
        return pickle.dumps(small(), protocol=4)
    finally:
        del kind.__reduce_ex__


def before_2_3(package: bytes) -> bytes:
    """Properties were of sharded tensors, and the package stood elsewhere up to 1.13."""
    saved = small()
    del saved.storage_meta
    del saved.version
    pickled = pickle.dumps(saved, protocol=2)
    old = b"torch.distributed._shard.sharded_tensor.metadata\n"
    new = b"torch.distributed.checkpoint.metadata\n"
    pickled = pickled.replace(new + b"TensorProperties\n", old + b"TensorProperties\n")
    pickled = pickled.replace(new + b"_MEM_FORMAT_ENCODING\n", old + b"MEM_FORMAT_ENCODING\n")
    return pickled.replace(b"ctorch.distributed.checkpoint.", b"c" + package)


def save() -> None:
    """Strides that are not row-major, dtypes, an empty tensor, values."""
    folder = SAMPLES / "saved"
    shutil.rmtree(folder, ignore_errors=True)
    model = {
        "a.weight": torch.arange(12, dtype=torch.float32).reshape(3, 4),
        "a.bias": torch.arange(3, dtype=torch.bfloat16),
        "turned": torch.arange(6, dtype=torch.float32).reshape(3, 2).t(),
        "eight": torch.arange(5, dtype=torch.float32).to(torch.float8_e4m3fn),
        "none": torch.empty(0, 3),
        "count": torch.tensor(7),
    }
    dcp.save(
        {"model": model, "lr_scheduler": {"last_epoch": 4, "_last_lr": [0.5]}, "tokens": torch.tensor(9)},
        checkpoint_id=folder,
        no_dist=True,
    )


def compress() -> None:
    """Every item is a stream of zstd. The elements are their places in the tensor."""
    from torch.distributed.checkpoint._extension import ZStandard

    if not ZStandard.is_available():
        print("`zstandard` is not there: `compressed` stays as it is")
        return
    shutil.rmtree(SAMPLES / "compressed", ignore_errors=True)
    writer = dcp.FileSystemWriter(SAMPLES / "compressed", _extensions=[ZStandard()])
    model = {
        "a.weight": torch.arange(4096, dtype=torch.float32).reshape(64, 64),
        "a.bias": torch.arange(64, dtype=torch.bfloat16),
        "turned": torch.arange(6, dtype=torch.float32).reshape(3, 2).t(),
    }
    dcp.save({"model": model, "epoch": 3}, storage_writer=writer, no_dist=True)


def save_by_torch_checkpointing(rank: int, ranks: int) -> None:
    """One rank's rows of a tensor, and a number."""
    from torch.distributed.tensor import Shard, distribute_tensor
    from torch_checkpointing.checkpoint_manager import CheckpointManager, ItemSpec, LocalFileSystemStorageConfig
    from torch_checkpointing.default_resharder import DefaultResharder
    from torch_checkpointing.metadata_manager import DefaultMetadataManager

    def gather(_: Any, data: Any, group: Any) -> dict[int, Any]:
        """As it does itself, but it does so through GPUs."""
        parts = [None] * ranks
        torch.distributed.all_gather_object(parts, data, group)
        return dict(enumerate(parts))

    DefaultMetadataManager._all_gather_pickled_data = gather
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29578", RANK=str(rank), WORLD_SIZE=str(ranks))
    torch.distributed.init_process_group("gloo")
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (ranks,))
    weights = distribute_tensor(torch.arange(12.0).reshape(4, 3), mesh, [Shard(0)])
    config = CheckpointManager.Config.with_sync_save()
    config.items = {"model": ItemSpec(resharder=DefaultResharder())}
    config.storage_config = LocalFileSystemStorageConfig(use_direct_io=False)
    manager = config.build()
    manager.save(str(SAMPLES / "torch_checkpointing"), {"model": {"a.weight": weights}, "step": 7})
    manager.close()
    torch.distributed.destroy_process_group()


def train(rank: int, ranks: int) -> None:
    """One rank of a training; rows do not divide."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29577", RANK=str(rank), WORLD_SIZE=str(ranks))
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(7)
    model = torch.nn.Sequential()
    model.add_module("up", torch.nn.Linear(2, 5))
    model.add_module("down", torch.nn.Linear(5, 2, bias=False))
    model.register_buffer("scale", torch.full((1,), 2.0))
    fully_shard(model)
    decayed = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    others = [parameter for parameter in model.parameters() if parameter.dim() == 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.01)
    for step in range(3):
        for number, parameter in enumerate(model.parameters()):
            parameter.grad = torch.full_like(parameter, 0.1 * (step + number + 1))
        optimizer.step()
    weights, states = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": states, "epoch": 3}, checkpoint_id=SAMPLES / "trained")
    torch.distributed.destroy_process_group()


def main() -> None:
    SAMPLES.mkdir(exist_ok=True)
    samples = {
        "torch_1_13": before_2_3(b"torch.distributed._shard.checkpoint."),
        "torch_2_2": before_2_3(b"torch.distributed.checkpoint."),
        "torch_2_13": pickle.dumps(small(), protocol=4),
        "torch_2_13_enum_by_name": with_enum_by_name(),
        "torch_2_15": with_parts(6),
        "torch_of_later": with_parts(7),
    }
    for name, pickled in samples.items():
        (SAMPLES / f"{name}.metadata").write_bytes(pickled)
    save()
    compress()
    shutil.rmtree(SAMPLES / "trained", ignore_errors=True)
    torch.multiprocessing.spawn(train, (2,), nprocs=2)
    if importlib.util.find_spec("torch_checkpointing") is None:
        print("`torch_checkpointing` is not there: its sample stays as it is")
        return
    shutil.rmtree(SAMPLES / "torch_checkpointing", ignore_errors=True)
    torch.multiprocessing.spawn(save_by_torch_checkpointing, (2,), nprocs=2)


if __name__ == "__main__":
    main()
