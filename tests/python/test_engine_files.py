"""Versions of DeepSpeed engines that are damaged or hostile: one sentence, and no folder."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

import ucp_checkpoint as ucp
from ucp_checkpoint import engine_folder

STATE = {"weight": torch.arange(5000.0), "again": [torch.arange(3)], "step": 7}
NAME = "mp_rank_00_model_states.pt"


def records_of(state: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Taken from a file that torch.save wrote: records of 4 KiB and more by themselves, others in one row."""
    saved = io.BytesIO()
    torch.save(state, saved)
    archive, row = zipfile.ZipFile(saved), io.BytesIO()
    records = {}
    with zipfile.ZipFile(row, "w") as small:
        for entry in archive.infolist():
            name, content = entry.filename.split("/", 1)[1], archive.read(entry)
            if len(content) >= 4096:
                records[name] = torch.frombuffer(bytearray(content), dtype=torch.uint8)
            elif name not in ("version", ".data/serialization_id"):  # PyTorch writes these by itself.
                small.writestr(name, content)
    content = struct.pack("<Q", len(row.getvalue())) + row.getvalue()
    records["small"] = torch.frombuffer(bytearray(content + bytes(100)), dtype=torch.uint8)
    return records


def version(place: Path, names: list[Any], **changes: Any) -> Path:
    """Of one rank."""
    values = {"step": 7, "ranks": 1, "rank_0": {"files": names}}
    records = {str(at): records_of(STATE) | changes for at, _ in enumerate(names)}
    ucp.save({}, place, extra={"ucp_memory": values, "model": {"0": records | {"rank": torch.zeros(1)}}}, no_dist=True)
    return place


def refusal(source: Path, out: Path) -> str:
    """The sentence, when there is no folder."""
    with pytest.raises(ucp.Error) as error:
        engine_folder.write(source, out)
    assert not out.exists()
    return str(error.value)


def test_files_are_those_of_torch(tmp_path: Path) -> None:
    """PyTorch reads them, with all checks."""
    engine_folder.write(version(tmp_path / "version", [NAME]), tmp_path / "out")
    assert (tmp_path / "out" / "latest").read_text() == "memory"
    found = torch.load(tmp_path / "out" / "memory" / NAME)
    assert (found["step"], found["again"][0].tolist()) == (7, [0, 1, 2])
    assert torch.equal(found["weight"], STATE["weight"])
    with pytest.raises(ucp.Error, match="out` exists; name another folder"):
        engine_folder.write(tmp_path / "version", tmp_path / "out")


@pytest.mark.parametrize("name", ["../escaped.pt", "/tmp/escaped.pt", "a/b.pt", "latest", "", 7])
def test_names_of_files(name: object, tmp_path: Path) -> None:
    """They are names, not paths."""
    said = refusal(version(tmp_path / "version", [name]), tmp_path / "out")
    assert f"a version names the file {name!r}, which no engine saves" in said


def test_damage(tmp_path: Path) -> None:
    """A flipped bit is found before anything is written; so is a row that holds something else."""
    place = version(tmp_path / "version", [NAME])
    file = next(place.glob("*.distcp"))
    content = bytearray(file.read_bytes())
    at = content.find(torch.arange(5000.0).numpy().tobytes())
    assert at > 0
    content[at + 9] ^= 1
    file.write_bytes(content)
    assert file.name in refusal(place, tmp_path / "out")
    for row in (torch.zeros(5, dtype=torch.uint8), torch.full((64,), 7, dtype=torch.uint8)):
        place = version(tmp_path / f"version-{row.numel()}", [NAME], small=row)
        assert f"the small records of `{NAME}` cannot be read" in refusal(place, tmp_path / "out")


def test_what_is_no_version_of_an_engine(tmp_path: Path) -> None:
    """Of a module, or of no tier."""
    assert "is not a version of a DeepSpeed engine" in refusal(version(tmp_path / "none", []), tmp_path / "out")
    ucp.save({"weight": torch.zeros(4)}, tmp_path / "other", no_dist=True)
    assert "is not a version of ucp.memory" in refusal(tmp_path / "other", tmp_path / "out")
    assert engine_folder.main([str(tmp_path / "other"), str(tmp_path / "out")]) == 2
