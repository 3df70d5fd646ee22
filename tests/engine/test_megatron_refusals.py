"""Folders of Megatron Core that contradict themselves: one sentence each, with both values, and nothing written."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed.checkpoint.filesystem import _StorageInfo

from conftest import Run
from fixtures.fingerprints import describe
from universal import FIXTURES

ITERATION = "iter_0001000"
NAMES = ("llama_tp2_pp2_dp2", "llama_model_space_tp2_pp2_dp2")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A root to change."""
    return Path(shutil.copytree(FIXTURES / "megatron_core" / NAMES[0] / "checkpoint", tmp_path / "changed"))


def refusal(ucprun: Path, root: Path) -> str:
    """The words of the program, in one line."""
    output = root.parent / "out"
    command = [str(ucprun), "convert", str(root), str(output), "--to", "universal"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 2, answer.stdout + answer.stderr
    assert not output.exists()
    assert len(answer.stderr) < 900
    return " ".join(answer.stderr.split())


def change_arguments(folder: Path, **arguments: Any) -> None:
    common = torch.load(folder / "common.pt", weights_only=False)
    vars(common["args"]).update(arguments)
    torch.save(common, folder / "common.pt")


def change_metadata(folder: Path, change: Callable[[Any], None]) -> None:
    with (folder / ".metadata").open("rb") as file:
        metadata = pickle.load(file)
    change(metadata)
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))


def change_content(folder: Path) -> None:
    common = torch.load(folder / "common.pt", weights_only=False)
    common["content_metadata"]["distrib_optim_sharding_type"] = "dp_reshardable"
    torch.save(common, folder / "common.pt")


def other_backend(folder: Path) -> None:
    (folder / "metadata.json").write_text(json.dumps({"sharded_backend": "zarr", "sharded_backend_version": 1}))


def lose_state(metadata: Any) -> None:
    """Of a tensor of which a state has another shape."""
    metadata.state_dict_metadata["decoder.final_layernorm.weight"].size = torch.Size([15])


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "stages": (lambda folder: change_arguments(folder, pipeline_model_parallel_size=4),
               "`args.pipeline_model_parallel_size` is 4 in `common.pt`, and `rng_state/shard_0.0_2.2` shows 2"),
    "tensor-parallel ranks": (lambda folder: change_arguments(folder, tensor_model_parallel_size=3),
                              "`args.tensor_model_parallel_size` is 3 in `common.pt`"),
    "layers": (lambda folder: change_arguments(folder, num_layers=5), "`args.num_layers` is 5 in `common.pt`"),
    "vocabulary": (lambda folder: change_arguments(folder, padded_vocab_size=128),
                   "`args.padded_vocab_size` is 128 in `common.pt`, and `embedding.word_embeddings.weight` of [64, 16] "
                   "shows 64"),
    "kind of optimizer": (change_content, "stored as `dp_reshardable`, and in `optimizer` as `fully_reshardable`"),
    "backend": (other_backend, "the tensors are stored as `zarr`, and `torch_dist` is read"),
    "unfinished": (lambda folder: (folder / "metadata.json").unlink(), "holds no `metadata.json`, which Megatron Core "
                   "writes last: the save did not finish"),
    "no metadata": (lambda folder: (folder / ".metadata").unlink(), "is missing, which says where the tensors are"),
    "no common file": (lambda folder: (folder / "common.pt").unlink(), "common.pt"),
    "a tensor's shape": (lambda folder: change_metadata(folder, lose_state), "decoder.final_layernorm.weight"),
    "a missing file": (lambda folder: next(folder.glob("__4_*.distcp")).unlink(), "is missing"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_contradictions(damage: str, ucprun: Path, copy: Path) -> None:
    change, words = DAMAGES[damage]
    change(copy / ITERATION)
    assert words in refusal(ucprun, copy)


def test_tracker_that_names_nothing(ucprun: Path, copy: Path) -> None:
    (copy / "latest_checkpointed_iteration.txt").write_text("1001")
    assert "names `iter_0001001`, and there is no folder" in refusal(ucprun, copy)


def test_shape_in_model(ucprun: Path, tmp_path: Path) -> None:
    """The metadata gives a vector another shape than its tensor has."""
    root = Path(shutil.copytree(FIXTURES / "megatron_core" / NAMES[1] / "checkpoint", tmp_path / "changed"))
    key = "optimizer.state.exp_avg.decoder.layers.mlp.linear_fc2.weight"

    def change(metadata: Any) -> None:
        metadata.mcore_data[key]["nd_reformulated_orig_global_shape"] = (4, 24, 16)

    change_metadata(root / ITERATION, change)
    words = refusal(ucprun, root)
    assert f"`mcore_data` says that `{key}` is a state of a tensor of the shape [4, 24, 16]" in words
    assert "`decoder.layers.mlp.linear_fc2.weight` has [4, 16, 24]" in words


def to_own_buffers(metadata: Any) -> None:
    """Keys such as those of `dp_reshardable`."""

    def renamed(key: str) -> str:
        return key.replace("optimizer.state.", "optimizer.distributed.dp_group_idx_0.gbuf_idx_0.")

    metadata.state_dict_metadata = {renamed(key): value for key, value in metadata.state_dict_metadata.items()}
    places = metadata.storage_data.items()
    metadata.storage_data = {replace(index, fqn=renamed(index.fqn)): place for index, place in places}


def test_own_buffers(ucprun: Path, run: Run, copy: Path) -> None:
    """Of an optimizer that is stored as its buffers are, the weights alone are read."""
    change_metadata(copy / ITERATION, to_own_buffers)
    assert "the optimizer is stored in its own buffers" in refusal(ucprun, copy)
    run("convert", copy, copy.parent / "weights", "--to", "safetensors")
    weights = load_file(copy.parent / "weights" / "model.safetensors")
    truth = json.loads((FIXTURES / "megatron_core" / NAMES[0] / "truth.json").read_text())
    assert {name: describe(value) for name, value in weights.items()} == {
        name: entry["states"]["weight"] for name, entry in truth["tensors"].items()
    }


def change_object(folder: Path, key: str, change: Callable[[Any], None]) -> None:
    """Moves an object into a file of its own, with another value."""

    def moved(metadata: Any) -> None:
        index = next(index for index in metadata.storage_data if index.fqn == key)
        place = metadata.storage_data[index]
        data = (folder / place.relative_path).read_bytes()[place.offset : place.offset + place.length]
        value = torch.load(io.BytesIO(data), weights_only=False)
        change(value)
        item = io.BytesIO()
        torch.save(value, item)
        (folder / "__9_0.distcp").write_bytes(item.getvalue())
        metadata.storage_data[index] = _StorageInfo("__9_0.distcp", 0, len(item.getvalue()))

    change_metadata(folder, moved)


BUFFER = "optimizer.distributed.dp_group_idx_1"
SIZES = f"{BUFFER}.per_bucket_numel"


def change_sizes(folder: Path, kind: str, place: int, size: int) -> None:
    def change(value: Any) -> None:
        next(iter(value[0][0].values()))[place] = size

    change_object(folder, f"{SIZES}{kind}/shard_0_1", change)


def lose_masters(metadata: Any) -> None:
    for key in [key for key in metadata.state_dict_metadata if key.endswith(".param")]:
        del metadata.state_dict_metadata[key]
        metadata.storage_data = {index: at for index, at in metadata.storage_data.items() if index.fqn != key}


OF_BUFFERS: dict[str, tuple[Callable[[Path], None], str]] = {
    "layers of their own": (lambda folder: change_arguments(folder, decoder_first_pipeline_num_layers=1),
                            "the order of its parameters is not known with `args.decoder_first_pipeline_num_layers`"),
    "virtual stages": (lambda folder: change_arguments(folder, virtual_pipeline_model_parallel_size=2),
                       "not known with `args.virtual_pipeline_model_parallel_size`"),
    "transposed experts": (lambda folder: change_arguments(folder, moe_use_legacy_grouped_gemm=True),
                           "not known with `args.moe_use_legacy_grouped_gemm`"),
    "another order": (lambda folder: change_arguments(folder, transformer_impl="transformer_engine"),
                      "from element 0 to 128 is not one of `decoder.layers.self_attention.linear_proj.weight`"),
    "size": (lambda folder: change_sizes(folder, "_unpadded", 2, 960),
             f"`{BUFFER}`: bucket 2 has 1024 elements, and `{SIZES}_unpadded` says 960"),
    "padding": (lambda folder: change_sizes(folder, "", 0, 1024),
                f"`{BUFFER}`: with its padding, bucket 0 has 896 elements, and `{SIZES}` says 1024"),
    "ranks": (lambda folder: change_arguments(folder, data_parallel_size=3),
              "dp_group_idx_0`: with its padding, bucket 0 has 1152 elements, and"),
    "masters": (lambda folder: change_metadata(folder, lose_masters), "has no master"),
}  # fmt: skip


@pytest.mark.parametrize("damage", OF_BUFFERS)
def test_buffers_that_are_not_understood(damage: str, ucprun: Path, tmp_path: Path) -> None:
    """The reason is in the refusal of an optimizer, and the weights can be had all the same."""
    change, words = OF_BUFFERS[damage]
    source = FIXTURES / "megatron_core" / "llama_own_buffers_tp2_pp2_dp2" / "checkpoint"
    root = Path(shutil.copytree(source, tmp_path / "changed"))
    change(root / ITERATION)
    text = refusal(ucprun, root)
    assert "stored in its own buffers (`dp_reshardable`), which are not understood" in text
    assert words in text
    command = [str(ucprun), "convert", str(root), str(tmp_path / "weights"), "--to", "safetensors"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


class Evil:
    """Runs a command when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch executed",)


def test_nothing_is_executed(ucprun: Path, copy: Path) -> None:
    """An object that would run a command when it is loaded is left out, and named."""
    common = torch.load(copy / ITERATION / "common.pt", weights_only=False)
    common["trap"] = Evil()
    torch.save(common, copy / ITERATION / "common.pt")
    output = copy.parent / "out"
    command = [str(ucprun), "convert", str(copy), str(output), "--to", "universal"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=copy)
    assert answer.returncode == 0, answer.stderr
    assert "system" in answer.stdout + answer.stderr
    assert not list(copy.rglob("executed"))
    assert not any(b"system" in file.read_bytes() for file in output.rglob("*.pt"))
