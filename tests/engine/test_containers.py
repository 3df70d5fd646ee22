"""Hostile and damaged `.pt` files: PyTorch's data-only mode and we agree on what they hold, or we refuse with a reason.

UCP_CONTAINERS_ROUNDS damages more files (3 of each kind by default), UCP_CONTAINERS_SEED others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from containers import is_equal, load, load_all
from corpus import archive, corpus
from hostile_pickles import pickles

# Files that torch.load(weights_only=True) reads and we refuse, by words of our sentence and why that is right.
STRICTER = {
    "levels deep": "a tree that deep is an attack on whoever walks it",
    "more than any honest one": "so many values for so few bytes, too",
    "contains itself": "no checkpoint does",
    "instead of one value": "PyTorch takes the last value and drops the others",
    "is given the number": "picklers number densely",
    "more bytes follow": "what follows the pickle would be dropped in silence",
    "bytes follow the last storage": "the same",
    "protocols 2 to 5 are read": "no pickler says another number",
    "does not begin as a pickle": "the same",
    "twice": "a key, a record or a storage that is two things: PyTorch takes one of them",
    "described twice": "one storage, two sizes or types",
    "a second state": "PyTorch merges them",
    "keys are set in a value that is not a dict": "behind a state",
    "more than the 64 that PyTorch supports": "it does not either, in arithmetic",
    "is not served": "quantised storages, conjugated and negated views",
    "only dense ones are": "sparse, quantised, nested tensors",
    "are not what PyTorch passes": "a parameter of None",
    "has another dtype there": "a device's tensor that is kept in another dtype",
    "has a shape and no data": "a tensor on the device meta",
    "a state is given to a value that is not an object": "tensors before PyTorch 0.4",
    "is compressed": "PyTorch never does",
    "only little-endian files are served": "big-endian files",
    "two records named": "PyTorch takes one of them",
    "disagree on its size, form or checksum": "the two places where an archive says the same thing",
    "another name than": "the same",
    "does not end with a zip archive's end record": "a comment, or bytes behind the archive",
    "the file is damaged": "PyTorch does not look at checksums",
    "a part of another one": "streams from before storages lost their views",
    "is not in the list of storage keys": "PyTorch leaves such a tensor as the memory happens to be",
    "a class has no proper name": "a name that could not be written again",
    "and the pickle says": "PyTorch believes a count that fits by accident",
    "which no tensor is in": "elements that nobody names",
    "elements of": "a record longer than its storage",
    "not made of keys and values": "PyTorch drops the key without a value",
}  # fmt: skip

# Values that are equal in Python are not always seen to be equal here.
KNOWN_DIFFERENCE = "the keys (b'(K\\x01t', b'(K\\x01t')"  # Tuples of equal items, twice in one dict.

BYTES_PER_BYTE = 400  # The most memory that reading may take for each byte of a file, beyond what any file takes.


@pytest.fixture(scope="session")
def program(ucprun: Path) -> Path:
    """Prints what we read."""
    return ucprun.with_name("print_archives")


def ours(program: Path, paths: list[Path]) -> list[dict[str, Any]]:
    result = subprocess.run([str(program), *map(str, paths)], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, f"{len(result.stdout.splitlines())} files read, then: {result.stderr}"
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Path]]:
    place = tmp_path_factory.mktemp("hostile")
    rounds = int(os.environ.get("UCP_CONTAINERS_ROUNDS", "3"))
    seed = int(os.environ.get("UCP_CONTAINERS_SEED", "1"))
    made = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile's, about the names that stand twice.
        for i, (label, data) in enumerate(corpus(seed, rounds, str(place / "executed"))):
            (place / f"{i}.pt").write_bytes(data)
            made.append((label, place / f"{i}.pt"))
    return made


def disagreements(labels: list[str], theirs: list[Any], read: list[Any]) -> Iterator[str]:
    for label, their, our in zip(labels, theirs, read, strict=True):
        if "refused" in our:
            is_accepted = "read" in their or "endless" in their
            if is_accepted and not any(words in our["refused"] for words in STRICTER):
                yield f"{label}: torch reads it, we say: {our['refused']}"
        elif "read" in their and not is_equal(their["read"], our["read"]) and KNOWN_DIFFERENCE not in label:
            yield f"{label}:\n  torch {json.dumps(their)[:500]}\n  ours  {json.dumps(our)[:500]}"
        elif "endless" in their:
            yield f"{label}: torch's object contains itself, and ours does not"


def test_what_torch_reads_is_equal_here(files: list[tuple[str, Path]], program: Path) -> None:
    sys.setrecursionlimit(10_000)
    labels, paths = [label for label, _ in files], [path for _, path in files]
    theirs, read = load_all(paths), ours(program, paths)
    assert list(disagreements(labels, theirs, read)) == []
    agreed = sum("read" in their and "read" in our for their, our in zip(theirs, read, strict=True))
    assert agreed > 80, "too few files that both read: nothing was compared"
    assert not (paths[0].parent / "executed").exists()


def memory_of(program: Path, path: Path) -> int:
    """The most bytes that reading this file held."""
    result = subprocess.run([str(program), str(path)], capture_output=True, text=True, timeout=60, check=True)
    return int(result.stderr.split()[1]) * 1024


BOMBS = ("laughs", "many", "again and again", " lists", " dicts", " tuples", " of 255", " of 4294967295", "a tensor (")


def test_memory_is_a_multiple_of_the_file(program: Path, tmp_path: Path) -> None:
    small = tmp_path / "small.pt"
    torch.save({}, small)
    usual = memory_of(program, small)
    factors = {}
    for label, data in pickles("nothing"):
        if any(word in label for word in BOMBS):
            path = tmp_path / "bomb.pt"
            path.write_bytes(archive(data))
            factors[label] = (memory_of(program, path) - usual - (2 << 20)) / path.stat().st_size  # Pages come and go.
    worst = max(factors, key=lambda label: factors[label])
    assert len(factors) > 40
    assert factors[worst] < BYTES_PER_BYTE, f"{worst}: {factors[worst]} bytes for each byte of the file"


class SparseFile:
    """A file that torch.save writes to, with holes where it writes zeros."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("wb")

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        for begin in range(0, len(view), 1 << 20):
            part = view[begin : begin + (1 << 20)]
            if part == ZEROS[: len(part)]:
                self.file.seek(len(part), os.SEEK_CUR)
            else:
                self.file.write(part)
        return len(view)

    def flush(self) -> None:
        self.file.flush()

    def close(self) -> None:
        self.file.truncate()
        self.file.close()


ZEROS = memoryview(bytes(1 << 20))


@pytest.mark.skipif("UCP_LARGE_FILES" not in os.environ, reason="writes 4 GiB, with holes; UCP_LARGE_FILES=1 does it")
def test_records_beyond_4_gib(program: Path, tmp_path: Path) -> None:
    """Values that the 32-bit fields of an archive cannot hold: a record's size, and where the next one is."""
    elements = (4 << 30) + 12_345
    backing = tmp_path / "zeros"
    with backing.open("wb") as file:
        file.truncate(elements)
    big = torch.from_file(str(backing), shared=True, size=elements, dtype=torch.uint8)
    big[-1] = 7
    sparse = SparseFile(tmp_path / "big.pt")
    torch.save({"big": big, "end": big[-3:], "after": torch.arange(5)}, sparse)
    sparse.close()
    (read,) = ours(program, [tmp_path / "big.pt"])
    entries = {bytes.fromhex(key["text"]).decode(): value for key, value in read["read"]["dict"]}
    assert entries["big"]["sizes"] == [elements]
    assert "16777216" in entries["big"]["unread"]
    torch.save({"after": torch.arange(5)}, tmp_path / "after.pt")
    (after,) = ours(program, [tmp_path / "after.pt"])
    assert entries["after"] == after["read"]["dict"][0][1]
    assert load(tmp_path / "after.pt") == after
