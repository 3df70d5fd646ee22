"""Folders of Distributed Checkpoint that are refused for other reasons than damage, each in a short sentence."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.metadata import MetadataIndex

from test_dcp_damage import SOURCE, STATE, TENSOR, change_metadata, convert, expect_refusal, item_of
from universal import FIXTURES


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder to change."""
    return Path(shutil.copytree(SOURCE, tmp_path / "changed"))


def drop_moment(metadata: Any) -> None:
    """As of an optimizer whose save lost something."""
    key = STATE.replace("exp_avg", "exp_avg_sq")
    del metadata.state_dict_metadata[key], metadata.planner_data[key]
    metadata.storage_data = {index: place for index, place in metadata.storage_data.items() if index.fqn != key}


def renamed(name: str) -> Callable[[Any], None]:
    """Another key for an object beside the tensors."""

    def change(metadata: Any) -> None:
        key = "train.step"
        metadata.state_dict_metadata[name] = metadata.state_dict_metadata.pop(key)
        metadata.planner_data[name] = metadata.planner_data.pop(key)
        place = metadata.storage_data.pop(MetadataIndex(key))
        metadata.storage_data[MetadataIndex(name)] = place

    return change


def many_dimensions(metadata: Any) -> None:
    metadata.state_dict_metadata[TENSOR].size = torch.Size([1] * 100_000)


def long_path(metadata: Any) -> None:
    metadata.storage_data[item_of(metadata, TENSOR, 1)].relative_path = "a" * 100_000


LONG: dict[str, tuple[Callable[[Any], None], str]] = {
    "a moment is missing": (
        drop_moment,
        "and not of `model.layers.0.up_proj.weight`, which is in the same group",
    ),
    "a long name": (renamed("x" * 5000), "has 5000 bytes, and keys of 4096 are read"),
    "a lone surrogate": (renamed("train.\ud800"), "holds a lone surrogate, which is not a character"),
    "dimensions": (many_dimensions, f"`{TENSOR}` is described by 100000 dimensions, and tensors have 64 at most"),
    "a long path": (long_path, "lies in a file whose path has 100000 bytes"),
}


@pytest.mark.parametrize("damage", LONG)
def test_in_one_short_sentence(ucprun: Path, copy: Path, damage: str) -> None:
    """Whatever the file says, nobody has to read all of it."""
    change, words = LONG[damage]
    change_metadata(copy, change)
    output = copy.parent / "out"
    result = convert(ucprun, copy, output, "universal")
    expect_refusal(result, output, words)
    assert len(result.stderr) < 600


@pytest.mark.parametrize("kind", ["a folder", "a pipe or a device"])
def test_metadata_that_is_not_a_file(ucprun: Path, copy: Path, kind: str) -> None:
    """That is not an unfinished save."""
    (copy / ".metadata").unlink()
    if kind == "a folder":
        (copy / ".metadata").mkdir()
    else:
        os.mkfifo(copy / ".metadata")
    output = copy.parent / "out"
    expect_refusal(convert(ucprun, copy, output, "universal"), output, f"`{copy}/.metadata` is {kind} and not a file")


def saved(state: dict[str, Any], folder: Path) -> Path:
    """By one process."""
    dcp.save(state, storage_writer=FileSystemWriter(folder), no_dist=True)
    return folder


def test_folder_without_a_model(ucprun: Path, tmp_path: Path) -> None:
    """There is nothing to convert in an optimizer alone."""
    source = saved({"optimizer": {"state": {"a": {"exp_avg": torch.ones(2)}}}, "step": 3}, tmp_path / "saved")
    output = tmp_path / "out"
    expect_refusal(convert(ucprun, source, output, "safetensors"), output, "holds no tensors of a model")


def test_optimizer_of_another_name(ucprun: Path, tmp_path: Path) -> None:
    """Its weights convert, and the refusal of the rest says what was looked for."""
    state = {"model": {"a": torch.ones(2)}, "opt": {"state": {"a": {"exp_avg": torch.ones(2)}}}}
    source = saved(state, tmp_path / "saved")
    assert convert(ucprun, source, tmp_path / "weights", "safetensors").returncode == 0
    output = tmp_path / "out"
    expect_refusal(
        convert(ucprun, source, output, "universal"), output,
        "`opt.state.a.exp_avg`, which looks like one; one optimizer is read, below `optimizer`, `optim` or ",
    )  # fmt: skip


def test_json_escapes_what_a_terminal_obeys(ucprun: Path, tmp_path: Path) -> None:
    """A name may hold any characters, and turns no line of the output around."""
    name = "a\u202eb\u009bc\U000e0041d"
    source = saved({"model": {name: torch.ones(2)}}, tmp_path / "saved")
    command = [str(ucprun), "inspect", str(source), "--json"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(result.stdout)["tensors"][0]["name"] == name
    assert result.stdout.isascii()


@pytest.mark.parametrize("degree", ["dp=2", "pp=2", "ep=2", "sp=2"])
def test_degree_that_the_target_has_not(ucprun: Path, tmp_path: Path, degree: str) -> None:
    """Whoever says it means something by it."""
    source = saved({"model": {"a": torch.ones(2)}}, tmp_path / "saved")
    output = tmp_path / "out"
    expect_refusal(convert(ucprun, source, output, f"dcp:{degree}"), output, f"`{degree[:2]}`")


def test_accelerates_folder_without_the_model(ucprun: Path, tmp_path: Path) -> None:
    """Naming the folder around both does not help."""
    source = FIXTURES / "dcp" / "accelerate_fsdp2" / "checkpoint"
    copied = Path(shutil.copytree(source, tmp_path / "copied"))
    shutil.rmtree(copied / "pytorch_model_fsdp_0")
    output = tmp_path / "out"
    expect_refusal(convert(ucprun, copied, output, "dcp"), output, f"`{copied}", "no `pytorch_model_fsdp_0`")
