"""`ucprun inspect --objects` of folders of Distributed Checkpoint: what PyTorch's loader would run."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.metadata import BytesStorageMetadata, MetadataIndex

from fixtures.dcp_cases import DCP_CASES
from test_dcp_damage import change_metadata
from universal import FIXTURES

COMMAND = "touch ./pwned"


class Command:
    """Runs when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (COMMAND,)


def scan(ucprun: Path, folder: Path, code: int) -> dict[str, Any]:
    """The report, and that it ends with this exit code."""
    command = [ucprun, "inspect", folder, "--objects", "--json"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == code, result.stdout + result.stderr
    return json.loads(result.stdout)


def unknown(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in report["objects"] if not row["known"]]


@pytest.mark.parametrize("name", DCP_CASES)
def test_of_pytorch_alone(ucprun: Path, name: str) -> None:
    """Every release's metadata and items are known, in each file that has any."""
    place = FIXTURES / "dcp" / name / "checkpoint"
    report = scan(ucprun, place, 0)
    assert report["safe"] and not unknown(report)
    names = {row["object"] for row in report["objects"]}
    if not DCP_CASES[name].hugging_face:
        assert "torch._utils._rebuild_tensor_v2" in names  # Of the items.
    if not DCP_CASES[name].hugging_face and not DCP_CASES[name].package:
        assert any(name.endswith("metadata.TensorStorageMetadata") for name in names)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """One process's save of a tensor and an object."""
    place = tmp_path / "saved"
    state = {"model": {"weight": torch.zeros(64, 64)}, "epoch": 3}
    dcp.save(state, checkpoint_id=place, no_dist=True)
    return place


def test_a_value_that_runs_something(ucprun: Path, tmp_path: Path) -> None:
    """As a script saves whatever object it has."""
    dcp.save({"model": {"weight": torch.zeros(4)}, "hook": Command()}, checkpoint_id=tmp_path / "saved", no_dist=True)
    rows = unknown(scan(ucprun, tmp_path / "saved", 3))
    assert [row["calls"] for row in rows] == [f"posix.system('{COMMAND}')"]


def test_metadata_that_runs_something(ucprun: Path, saved: Path) -> None:
    def change(metadata: Any) -> None:
        metadata.planner_data["hook"] = Command()

    change_metadata(saved, change)
    assert [row["calls"] for row in unknown(scan(ucprun, saved, 3))] == [f"posix.system('{COMMAND}')"]


def test_an_archive_within_a_tensor(ucprun: Path, saved: Path) -> None:
    """Whoever goes through a file from its beginning sees a tensor; the metadata places an item in its elements."""
    torch.save(Command(), saved / "hidden")
    hidden = (saved / "hidden").read_bytes()
    (saved / "hidden").unlink()
    data = bytearray((saved / "__0_0.distcp").read_bytes())
    begin = data.index(bytes(4096))
    data[begin : begin + len(hidden)] = hidden
    (saved / "__0_0.distcp").write_bytes(data)
    assert not unknown(scan(ucprun, saved, 0))

    def place(metadata: Any) -> None:
        info = metadata.storage_data[MetadataIndex("epoch")]
        other = type(info)(info.relative_path, begin, len(hidden))
        metadata.state_dict_metadata["hook"] = BytesStorageMetadata()
        metadata.storage_data[MetadataIndex("hook")] = other

    change_metadata(saved, place)
    rows = unknown(scan(ucprun, saved, 3))
    assert [row["calls"] for row in rows] == [f"posix.system('{COMMAND}')"]


def test_what_cannot_be_read_is_not_called_safe(ucprun: Path, saved: Path) -> None:
    """Metadata that is cut off, or of other classes: nobody knows which items there are. Items that are none."""
    whole = (saved / ".metadata").read_bytes()
    (saved / ".metadata").write_bytes(whole[:-2])
    assert not scan(ucprun, saved, 3)["safe"]
    (saved / ".metadata").write_bytes(pickle.dumps({"a": 1}))
    assert not scan(ucprun, saved, 3)["safe"]
    (saved / ".metadata").write_bytes(whole)
    assert scan(ucprun, saved, 0)["safe"]
    copy = Path(shutil.copytree(saved, saved.parent / "copy"))
    data = (copy / "__0_0.distcp").read_bytes()
    (copy / "__0_0.distcp").write_bytes(data[: len(data) - 100])
    assert not scan(ucprun, copy, 3)["safe"]
    (copy / "__0_0.distcp").unlink()
    scan(ucprun, copy, 0)  # Nothing is there to be loaded.
