"""The engine's files as records: what torch.save would write, with the storages of tensors where they are.

Each large storage is the engine's own memory, as a tensor of bytes: nothing is copied before a Saver stages it.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from .._engine_files import HEADER, ROW_BYTES, SMALL, Records
from .._failure import failure
from .stand_in import StandIn, standing_in

_LARGE_BYTES = 4096  # From here on a storage is an entry of its own.
_PICKLE_PROTOCOL = 2  # As torch.save has it.


class _Archive:
    """Takes the place of PyTorch's zip writer."""

    def __init__(self, changing: set[int]) -> None:
        self.large: Records = {}
        self._changing = changing
        self._row = io.BytesIO(bytes(HEADER.size))
        self._row.seek(HEADER.size)
        self._small = zipfile.ZipFile(self._row, "w")

    def write_record(self, name: str, content: Any, size: int) -> None:
        """A storage, or bytes."""
        if isinstance(content, (bytes, str)):
            return self._small.writestr(name, content)
        flat = torch.empty(0, dtype=torch.uint8).set_(content)
        if size < _LARGE_BYTES:
            return self._small.writestr(name, flat.numpy().tobytes())
        self.large[name] = flat.clone() if content.data_ptr() in self._changing else flat
        return None

    def records(self) -> Records:
        """All of them."""
        self._small.close()
        content = bytearray(self._row.getvalue())
        content[: HEADER.size] = HEADER.pack(len(content) - HEADER.size)
        content += bytes(-len(content) % ROW_BYTES)
        return {SMALL: torch.frombuffer(content, dtype=torch.uint8), **self.large}


class Recorded(StandIn):
    """Keeps the records of each file by its name."""

    def __init__(self, changing: set[int]) -> None:
        """`changing`: addresses of storages that may change while the optimizer waits; they are copied."""
        super().__init__()
        self.files: dict[str, Records] = {}
        self._changing = changing

    def makedirs(self, path: Any, exist_ok: bool = False) -> None:
        """Nothing: there are no files."""

    def save(self, state_dict: Any, path: str) -> None:
        """As torch.save writes it."""
        try:
            name = Path(path).name
            if name in self.files:
                raise failure("unsupported", f"the engine saves `{name}` twice")
            archive = _Archive(self._changing)
            torch.serialization._save(state_dict, archive, pickle, _PICKLE_PROTOCOL, False)
            self.files[name] = archive.records()
        except Exception as error:
            self.problem = self.problem or error


def recorded(engine: Any, changing: set[int]) -> AbstractContextManager[Recorded]:
    """While this lasts, the engine saves into records."""
    return standing_in(engine, Recorded(changing))
