"""The judges of folders of Distributed Checkpoint notice every damage; so do `verify` and `verify --same`.

No checksum of an archive tells of it: damaged copies are well formed.
"""

from __future__ import annotations

import io
import json
import pickle
import shutil
import struct
import subprocess
import zipfile
import zlib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from conftest import Run
from dcp_judges import OPTIMIZER, PREFIX, expect_continuation, expect_truth, read_flat
from fixtures.dcp_continue import Continuation, continue_from_each
from fixtures.serve import Call, Engines
from universal import FIXTURES

SOURCE = FIXTURES / "dcp" / "titan"
TRUTH = json.loads((SOURCE / "truth.json").read_text())
# Of one shape, and of one group; the first one is the group's first.
FIRST, SECOND = "model.embed_tokens.weight", "lm_head.weight"
JUDGES = {"plain": "plain", "titan": "titan"} | ({"titan's own": "titan"} if find_spec("torchtitan") else {})


def metadata_of(folder: Path) -> Any:
    """As PyTorch reads it."""
    return pickle.loads((folder / ".metadata").read_bytes())


def edit(folder: Path, key: str, record: str, change: Callable[[bytes], bytes]) -> None:
    """Changes a record of an entry's archive, and its checksum, in place."""
    place = next(place for index, place in metadata_of(folder).storage_data.items() if index.fqn == key)
    file = folder / place.relative_path
    whole = file.read_bytes()
    end = place.offset + place.length
    archive = whole[place.offset : end]
    found = next(info for info in zipfile.ZipFile(io.BytesIO(archive)).infolist() if info.filename.endswith(record))
    name, padding = struct.unpack_from("<HH", archive, found.header_offset + 26)
    begin = found.header_offset + 30 + name + padding
    before = archive[begin : begin + found.file_size]
    after = change(before)
    assert after != before and len(after) == len(before)
    archive = archive[:begin] + after + archive[begin + len(before) :]
    checksum = struct.pack("<I", found.CRC)
    assert archive.count(checksum) == 2  # Behind the data, and in the directory.
    archive = archive.replace(checksum, struct.pack("<I", zlib.crc32(after)))
    file.write_bytes(whole[: place.offset] + archive + whole[end:])


def rewrite(folder: Path, change: Callable[[Any], None]) -> None:
    """Changes `.metadata`."""
    metadata = metadata_of(folder)
    change(metadata)
    (folder / ".metadata").write_bytes(pickle.dumps(metadata, protocol=4))


def swap(folder: Path, one: str, other: str) -> None:
    """The places of two entries."""

    def change(metadata: Any) -> None:
        table = metadata.storage_data
        first, second = (next(index for index in table if index.fqn == key) for key in (one, other))
        table[first], table[second] = table[second], table[first]

    rewrite(folder, change)


def drop(folder: Path, key: str) -> None:
    """Removes an entry, with all of its metadata."""

    def change(metadata: Any) -> None:
        del metadata.state_dict_metadata[key], metadata.planner_data[key]
        metadata.storage_data = {index: place for index, place in metadata.storage_data.items() if index.fqn != key}

    rewrite(folder, change)


def flip(data: bytes) -> bytes:
    """One bit, of the least worth."""
    return bytes([data[0] ^ 1]) + data[1:]


def other_decay(data: bytes) -> bytes:
    """0.1 becomes 0.2."""
    return data.replace(struct.pack(">d", 0.1), struct.pack(">d", 0.2))


def weight(style: str, tensor: str) -> str:
    """Its key."""
    return PREFIX[style] + tensor


def state(style: str, tensor: str, name: str) -> str:
    """Its key."""
    return f"{OPTIMIZER[style]}state.{tensor}.{name}"


def decay(style: str) -> str:
    """The key of a hyper-parameter of the first group."""
    return f"{OPTIMIZER[style]}param_groups.{FIRST if style == 'titan' else 0}.weight_decay"


DAMAGES: dict[str, Callable[[Path, str], None]] = {
    "a bit of a weight": lambda folder, style: edit(folder, weight(style, SECOND), "data/0", flip),
    "a bit of a moment": lambda folder, style: edit(folder, state(style, SECOND, "exp_avg_sq"), "data/0", flip),
    "swapped weights": lambda folder, style: swap(folder, weight(style, FIRST), weight(style, SECOND)),
    "swapped moments": lambda folder, style: swap(
        folder, state(style, FIRST, "exp_avg"), state(style, SECOND, "exp_avg")
    ),
    "no weight": lambda folder, style: drop(folder, weight(style, SECOND)),
    "no moment": lambda folder, style: drop(folder, state(style, SECOND, "exp_avg")),
    "a step": lambda folder, style: edit(
        folder, state(style, SECOND, "step"), "data/0", lambda _: struct.pack("<f", 4)
    ),
    "a hyper-parameter": lambda folder, style: edit(folder, decay(style), "data.pkl", other_decay),
    "no hyper-parameter": lambda folder, style: drop(folder, decay(style)),
}
# Damage that `read_flat` alone does not see.
OF_GROUPS = ("a hyper-parameter", "no hyper-parameter")


@pytest.fixture(scope="module")
def copies(run: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    """A converted folder in each style, and damaged copies of it."""
    found: dict[tuple[str, str], Path] = {}
    for style in ("plain", "titan"):
        place = tmp_path_factory.mktemp(style)
        whole = found[style, ""] = place / "whole"
        run("convert", SOURCE / "checkpoint", whole, "--to", f"dcp:style={style}")
        for number, (name, damage) in enumerate(DAMAGES.items()):
            found[style, name] = Path(shutil.copytree(whole, place / str(number)))
            damage(found[style, name], style)
    return found


def job(judge: str, damage: str, folder: Path = Path()) -> Continuation:
    """Of another parallelism than the one that saved."""
    return Continuation("titan", folder, 2, "tp", judge, f"{judge} {damage}")


@pytest.fixture(scope="module")
def continued(copies: dict[tuple[str, str], Path], engines: Engines) -> dict[str, Any]:
    """The states and losses of the jobs that loaded the folders, if they could."""
    plans = [job(judge, name, copies[style, name]) for judge, style in JUDGES.items() for name in ("", *DAMAGES)]
    return engines.ask(Call(2, continue_from_each, {"continuations": plans}))


@pytest.mark.parametrize("style", ["plain", "titan"])
def test_what_is_read(style: str, copies: dict[tuple[str, str], Path]) -> None:
    """It is judged as in test_dcp_write."""
    expect_truth(read_flat(copies[style, ""]), TRUTH, style)
    for name in DAMAGES:
        if name not in OF_GROUPS:
            entries = read_flat(copies[style, name])
            with pytest.raises(AssertionError):
                expect_truth(entries, TRUTH, style)


@pytest.mark.parametrize("judge", JUDGES)
def test_a_job_that_goes_on(judge: str, continued: dict[str, Any]) -> None:
    """It is judged as in test_dcp_write and test_dcp_titan."""
    expect_continuation(continued[str(job(judge, ""))], TRUTH)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("judge", JUDGES)
def test_a_job_of_a_damaged_copy(judge: str, damage: str, continued: dict[str, Any]) -> None:
    """It does not start where something is missing, has several steps, or is another job."""
    answer = continued[str(job(judge, damage))]
    assert ("error" in answer) == (damage.startswith("no ") or damage == "a step")
    with pytest.raises(AssertionError):
        expect_continuation(answer, TRUTH)


def verdict(ucprun: Path, *arguments: str | Path) -> int:
    """The exit code of `verify`, 3 if it found a difference."""
    command = [str(ucprun), "verify", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode


@pytest.mark.parametrize("style", ["plain", "titan"])
def test_verify(style: str, copies: dict[tuple[str, str], Path], ucprun: Path) -> None:
    """The manifest tells."""
    assert verdict(ucprun, copies[style, ""]) == 0
    assert {name: verdict(ucprun, copies[style, name]) for name in DAMAGES} == dict.fromkeys(DAMAGES, 3)


@pytest.mark.parametrize("damage", DAMAGES)
def test_verify_same(damage: str, copies: dict[tuple[str, str], Path], ucprun: Path) -> None:
    """Against the source, which has other chunks; no manifest helps."""
    for style in ("plain", "titan"):
        (copies[style, damage] / "ucp_manifest.json").rename(copies[style, damage] / "kept")
        found = verdict(ucprun, SOURCE / "checkpoint", "--same", copies[style, damage])
        (copies[style, damage] / "kept").rename(copies[style, damage] / "ucp_manifest.json")
        assert found == 3
