"""The files of a DeepSpeed engine as a tier keeps them, and the engine's folder that is made of them.

A file of torch.save is a zip archive of a pickle and of the storages of tensors. A version has each large storage as a
tensor of bytes, and the other records of a file as one row of bytes, which is an archive of its own. Files are made
again from these, and nothing of them is unpickled for that.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from ucp_checkpoint import _ucp
from ucp_checkpoint._failure import failure
from ucp_checkpoint._into import load_into
from ucp_checkpoint._kept_state import values_of
from ucp_checkpoint._source import source_from

TAG = "memory"
SMALL = "small"  # The name of the row, beside those of large storages, such as `data/7`.
ROW_BYTES = 4096  # A row is a multiple of this: an entry that keeps its length costs less.
HEADER = struct.Struct("<Q")  # How many bytes of the row are the archive.
_STORAGE = re.compile(r"data/(\d{1,9})")
_FILE = re.compile(r"[\w.-]{1,200}\.pt")
_BATCH_BYTES = 1 << 30  # So much of the files is read at a time, or one file.

Records = dict[str, torch.Tensor]  # Of a file.


def write_folder(version: str, out: Path, verify: bool) -> None:
    """Makes the folder that the engine would have saved, which must not exist yet. `verify`: what is read is compared
    with its checksums."""
    _, of_ranks = values_of(version)
    names = [list(map(_checked, of_rank.get("files", []))) for of_rank in of_ranks]
    sizes = {name: shape[0] for name, _, shape, _ in _ucp.describe(source_from(version), 1).tensors if len(shape) == 1}
    files: dict[str, dict[str, str]] = {}  # The entries of each, by the names of their records.
    for rank, of_rank in enumerate(names):
        for number, name in enumerate(of_rank):
            prefix = f"{rank}.{number}."
            found = {entry.removeprefix(prefix): entry for entry in sizes if entry.startswith(prefix)}
            if SMALL not in found:
                raise failure("data", f"`{version}` has no records of the file `{name}` of rank {rank}")
            files.setdefault(name, found)  # Ranks that save a file of the same name save the same.
    if not files:
        raise failure("usage", f"`{version}` is not a version of a DeepSpeed engine: it has no files of one")
    _check_room(out.parent, sum(sizes.values()))
    (out / TAG).mkdir(mode=0o700, parents=True)
    try:
        for batch in _batches(files, sizes):
            entries = [entry for name in batch for entry in files[name].values()]
            room = {entry: torch.empty(sizes[entry], dtype=torch.uint8) for entry in entries}
            load_into(room, version, strict=False, verify=verify)
            for name in batch:
                write_file(out / TAG / name, {record: room[entry] for record, entry in files[name].items()})
        (out / "latest").write_text(TAG)
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        raise


def _checked(name: object) -> str:
    if not isinstance(name, str) or _FILE.fullmatch(name) is None:
        raise failure("data", f"a version names the file {name!r}, which no engine saves")
    return name


def _check_room(place: Path, wanted: int) -> None:
    space = os.statvfs(place)
    free = space.f_bavail * space.f_frsize
    if wanted > free:
        said = f"the files of the engine have {wanted:,} bytes, and `{place}` has room for {free:,}"
        raise failure("memory", said)


def _batches(files: Mapping[str, Mapping[str, str]], sizes: Mapping[str, int]) -> Iterator[list[str]]:
    batch: list[str] = []
    held = 0
    for name, entries in files.items():
        size = sum(sizes[entry] for entry in entries.values())
        if batch and held + size > _BATCH_BYTES:
            yield batch
            batch, held = [], 0
        batch.append(name)
        held += size
    yield batch


def write_file(path: Path, records: Mapping[str, torch.Tensor]) -> None:
    """The file that torch.save would have written."""
    row = records[SMALL].numpy().tobytes()
    size = HEADER.unpack_from(row)[0] if len(row) >= HEADER.size else len(row)
    try:
        small = zipfile.ZipFile(io.BytesIO(row[HEADER.size : HEADER.size + size]))
        contents: dict[str, Any] = {name: small.read(name) for name in small.namelist()}
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise failure("data", f"the small records of `{path.name}` cannot be read: {error}") from None
    contents |= {name: value.untyped_storage() for name, value in records.items() if name != SMALL}

    def place(name: str) -> int:
        match = _STORAGE.fullmatch(name)
        return -1 if match is None else int(match[1])  # Storages stand last, by number.

    try:
        writer = torch._C.PyTorchFileWriter(str(path))
        for name in sorted(contents, key=place):
            content = contents[name]
            writer.write_record(name, content, len(content) if isinstance(content, bytes) else content.nbytes())
        writer.write_end_of_file()
    except RuntimeError as error:
        raise failure("io", f"`{path}` cannot be written: {str(error).splitlines()[0]}") from None
