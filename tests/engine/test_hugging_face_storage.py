"""Models that PyTorch's HuggingFaceStorageWriter saved: each rank's part in safetensors files of its own, or whole.

That a sharded save gives what the ranks held is in test_dcp.py, with the other fixtures.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files

from conftest import Run
from test_dcp_damage import convert, expect_refusal
from universal import FIXTURES

SOURCE = FIXTURES / "dcp" / "hugging_face" / "checkpoint"
NARROW = FIXTURES / "dcp" / "hugging_face_bf16" / "checkpoint"
EMBEDDING = "model.embed_tokens.weight"
INFO = "DCP_SHARDING_INFO"


def rank_file(rank: int, number: int = 1, count: int = 2) -> str:
    return f"shard-{rank:05}-model-{number:05}-of-{count:05}.safetensors"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder to change."""
    return Path(shutil.copytree(SOURCE, tmp_path / "changed"))


def rewrite(path: Path, change: Callable[[dict[str, torch.Tensor], dict[str, str]], None]) -> None:
    """Changes the tensors and the metadata of a file."""
    with safe_open(path, framework="pt") as file:
        metadata = dict(file.metadata())
    tensors = load_file(path)
    change(tensors, metadata)
    save_file(tensors, path, metadata=metadata)


def rewrite_info(path: Path, change: Callable[[dict[str, dict[str, object]]], None]) -> None:
    """Changes what the metadata says of the places of boxes."""

    def changed(_: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
        info = json.loads(metadata[INFO])
        change(info)
        metadata[INFO] = json.dumps(info)

    rewrite(path, changed)


@pytest.mark.parametrize("source", [SOURCE, NARROW], ids=["fp32", "bf16"])
def test_as_pytorch_puts_it_together(run: Run, tmp_path: Path, source: Path) -> None:
    """PyTorch's own consolidation, and its own reader, give the same tensors, in the same types."""
    run("convert", source, tmp_path / "ours", "--to", "safetensors")
    ours = load_file(tmp_path / "ours" / "model.safetensors")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    consolidate_safetensors_files(str(source), str(theirs), dict.fromkeys(ours, 1))
    consolidated = load_file(theirs / "model-00001-of-00001.safetensors")
    assert consolidated.keys() == ours.keys()
    loaded = {name: torch.zeros_like(tensor) for name, tensor in ours.items()}
    dcp.load(loaded, storage_reader=dcp.HuggingFaceStorageReader(str(source)), no_dist=True)
    for name, tensor in ours.items():
        for other in (consolidated[name], loaded[name]):
            assert other.dtype == tensor.dtype and torch.equal(other, tensor), name


@pytest.mark.parametrize("to", ["dcp", "universal", "deepspeed:dp=2,zero=1,dtype=fp32", "safetensors:dtype=bf16"])
def test_to_every_target(run: Run, tmp_path: Path, to: str) -> None:
    """The files of ranks hold what the same model in one file holds."""
    run("convert", SOURCE, tmp_path / "whole", "--to", "safetensors")
    for source in (SOURCE, tmp_path / "whole"):
        run("convert", source, tmp_path / f"from {source.name}", "--to", to, "--tag", "model")
    run("diff", tmp_path / f"from {SOURCE.name}", tmp_path / "from whole")


def test_into_memory(run: Run) -> None:
    """A rank's part of what several files hold; `--compare` reads every element again by its place in the tensor."""
    for rank in ("0", "1"):
        to = ("--to", "deepspeed:dp=2,zero=1,dtype=fp32", "--tag", "model")
        assert "compared" in run("load", SOURCE, *to, "--rank", rank, "--compare")


def test_a_whole_save(run: Run, tmp_path: Path) -> None:
    """Without `save_distributed` the files hold whole tensors, and an index lists them."""
    state = {"a": torch.arange(12.0).reshape(4, 3), "b": torch.arange(5), "c": torch.tensor(2.5)}
    writer = dcp.HuggingFaceStorageWriter(str(tmp_path / "theirs"), fqn_to_index_mapping={"a": 1, "b": 2, "c": 2})
    dcp.save(state, storage_writer=writer, no_dist=True)
    run("convert", tmp_path / "theirs", tmp_path / "ours", "--to", "safetensors")
    ours = load_file(tmp_path / "ours" / "model.safetensors")
    assert ours.keys() == state.keys() and all(torch.equal(ours[name], state[name]) for name in state)


def test_named_by_one_of_its_files(run: Run, tmp_path: Path) -> None:
    """A rank's file stands for the folder, and never for a model of its own."""
    run("convert", SOURCE / rank_file(2), tmp_path / "one", "--to", "safetensors")
    run("convert", SOURCE, tmp_path / "all", "--to", "safetensors")
    files = [tmp_path / name / "model.safetensors" for name in ("one", "all")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_what_nothing_says(ucprun: Path, tmp_path: Path) -> None:
    """Without the file of the last rank tensors that are cut by rows end earlier; PyTorch's reader sees no more."""
    copy = Path(shutil.copytree(NARROW, tmp_path / "changed"))
    (copy / rank_file(4, 1, 1)).unlink()
    metadata = dcp.HuggingFaceStorageReader(str(copy)).read_metadata()
    command = [ucprun, "inspect", copy, "--json"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    shapes = [row["shape"] for row in report["tensors"] if row["name"] == EMBEDDING]
    assert shapes == [list(metadata.state_dict_metadata[EMBEDDING].size)] == [[12, 6]]
    assert any("a last rank whose files are missing is not noticed" in remark for remark in report["remarks"])


def without_rank_2(folder: Path) -> None:
    (folder / rank_file(2)).unlink()


def a_rank_twice(folder: Path) -> None:
    shutil.copy(folder / rank_file(2), folder / rank_file(5))


def no_info(folder: Path) -> None:
    rewrite(folder / rank_file(1), lambda _, metadata: metadata.pop(INFO) and None)


def no_begin(folder: Path) -> None:
    rewrite_info(folder / rank_file(1), lambda info: info.pop(EMBEDDING) and None)


def another_key(folder: Path) -> None:
    rewrite_info(folder / rank_file(1), lambda info: info[EMBEDDING].update(logical_fqn="x"))


def broken_info(folder: Path) -> None:
    rewrite(folder / rank_file(1), lambda _, metadata: metadata.update({INFO: metadata[INFO][:-1]}))


def another_type(folder: Path) -> None:
    rewrite(folder / rank_file(2), lambda tensors, _: tensors.update({EMBEDDING: tensors[EMBEDDING].half()}))


def one_dimension(folder: Path) -> None:
    rewrite_info(folder / rank_file(2), lambda info: info[EMBEDDING].update(saved_offsets=[7]))


def far_away(folder: Path) -> None:
    rewrite_info(folder / rank_file(2), lambda info: info[EMBEDDING].update(saved_offsets=[2**62, 2**62]))


def below_zero(folder: Path) -> None:
    rewrite_info(folder / rank_file(2), lambda info: info[EMBEDDING].update(saved_offsets=[-1, 0]))


def as_a_model(folder: Path) -> None:
    (folder / rank_file(2)).rename(folder / "model.safetensors")


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a rank is missing": (without_rank_2, f"the files hold 60 of the 78 elements of `{EMBEDDING}`"),
    "a rank is there twice": (a_rank_twice, f"two files hold the same elements of `{EMBEDDING}`: [3, 6] at [7, 0] in"),
    "no places": (no_info, f"is named as a rank's part of a model, and has no `{INFO}` in its metadata"),
    "no place of one": (no_begin, f"holds tensor `{EMBEDDING}`, and its `{INFO}` does not say where that begins"),
    "another key": (another_key, f"tensor `{EMBEDDING}`: it has `logical_fqn` beside `saved_offsets`, which is not"),
    "places cut off": (broken_info, f"`{INFO}` in "),
    "another type": (another_type, f"`{EMBEDDING}` is of float32 in `{rank_file(1)}` and of float16 in"),
    "another number of dimensions": (one_dimension, "which differ in their dimensions"),
    "beyond any tensor": (far_away, f"the boxes of `{EMBEDDING}` reach to [4611686018427387907, 4611686018427387910]"),
    "below zero": (below_zero, f"`{INFO}` in "),
    "a part as a model": (as_a_model, f"holds the part of `{EMBEDDING}` that begins at [7, 0], and not the whole"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_refused(ucprun: Path, copy: Path, tmp_path: Path, damage: str) -> None:
    """In one sentence, and nothing is written."""
    change, sentence = DAMAGES[damage]
    change(copy)
    output = tmp_path / "out" / "safetensors"
    output.parent.mkdir()
    expect_refusal(convert(ucprun, copy, output, "safetensors"), output, sentence)
