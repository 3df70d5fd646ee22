"""The progress of the ranks of a node, as its agent sees it: a page of memory for each, and a file for an exception."""

from __future__ import annotations

import json
import mmap
import os
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

BOARD = "UCP_HEALING_BOARD"  # In the environment of ranks: the folder.
_PAGE = 4096
_STEP = struct.Struct("<q")
_PHASE = struct.Struct("<d64s")  # Seconds, below 0 if none are declared; the name, empty for an iteration.
_MOST_TEXT = 1000
_SLOT = _STEP.size  # Where the phase is.


@dataclass(frozen=True)
class Seen:
    """The progress of a rank."""

    step: int
    phase: str
    phase_seconds: float | None


class Board:
    """The page of this rank. Writing to it takes no call of the system."""

    def __init__(self, folder: str, rank: int) -> None:
        self._path = Path(folder) / str(rank)
        self._file = f"{self._path}.part"
        with open(self._file, "w+b") as file:
            file.truncate(_PAGE)
            self._page = mmap.mmap(file.fileno(), _PAGE)
        _STEP.pack_into(self._page, 0, -1)
        self.end_phase()

    def show(self) -> None:
        """From now on the agent looks at it."""
        os.rename(self._file, self._path)

    def beat(self, step: int) -> None:
        """The step has ended."""
        _STEP.pack_into(self._page, 0, step)

    def begin_phase(self, name: str, seconds: float | None) -> None:
        """A long one, that belongs to no iteration."""
        encoded = name.encode()[:63].decode(errors="ignore").encode()
        _PHASE.pack_into(self._page, _SLOT, -1 if seconds is None else seconds, encoded)

    def end_phase(self) -> None:
        """An iteration goes on."""
        _PHASE.pack_into(self._page, _SLOT, -1, b"")

    def raise_flag(self, error: BaseException) -> None:
        """Says which exception ends this process. The first one counts."""
        target = Path(f"{self._path}.error")
        with suppress(OSError):
            if not target.exists():
                said = {"exception": type(error).__name__, "text": printed(error)}
                part = Path(f"{target}.part")
                part.write_text(json.dumps(said))
                part.rename(target)


def printed(error: BaseException) -> str:
    """Its text, as far as it can be printed."""
    try:
        return str(error)[:_MOST_TEXT]
    except Exception:
        return ""


def seen(folder: Path) -> dict[int, Seen]:
    """The progress of each rank that has a page."""
    said = {}
    for path in folder.iterdir():
        if not path.name.isdigit():
            continue
        with suppress(OSError, struct.error, UnicodeDecodeError):
            content = path.read_bytes()
            seconds, name = _PHASE.unpack_from(content, _SLOT)
            phase = name.rstrip(b"\0").decode()
            said[int(path.name)] = Seen(_STEP.unpack_from(content)[0], phase, seconds if seconds >= 0 else None)
    return said


def errors(folder: Path) -> dict[int, dict[str, str]]:
    """The exceptions that ranks have said: `exception` and `text`."""
    said = {}
    for path in folder.glob("*.error"):
        with suppress(OSError, ValueError):
            content = json.loads(path.read_text())
            said[int(path.stem)] = {key: str(content[key]) for key in ("exception", "text")}
    return said
