"""The versions of `ucp.memory.Tier`: the folder that they are in, and the saves that make them."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ucp_checkpoint import _arguments, _ucp
from ucp_checkpoint._failure import failure
from ucp_checkpoint._saving import STAGED

if TYPE_CHECKING:
    from ucp_checkpoint._save import Saver
    from ucp_checkpoint._saving import Saving

IS_BUSY, HAS_PROBLEM, IS_READY = 0, 1, 2  # The last version, on a rank; the least of all ranks counts.
_VERSION = re.compile(r"step-(\d{1,18})")


class Versions:
    """The saves of one Saver, one after the other."""

    def __init__(self, saver: Saver, waits: bool = False) -> None:
        """`waits`: begin() returns when the state may change again."""
        self.saver, self._waits = saver, waits
        self.begun = 0
        self.paths: deque[Path] = deque(maxlen=4)  # Older ones are removed.
        self.began = 0.0  # The last one, on the clock of time.monotonic().
        self.saving: Saving | None = None

    def begin(self, path: Path, entries: dict[str, Any]) -> None:
        """Raises the error of the save before, if nobody has seen it; this one has begun all the same."""
        self.begun += 1
        self.paths.append(path)
        self.began = time.monotonic()
        try:
            self.saving = self.saver.save(path, extra=entries, force=True)
        except _ucp.Error:
            self.saving = None
            raise
        if self._waits:
            with suppress(_ucp.Error):  # It is raised where the save's end is asked for.
                self.saving.progress.wait_for(STAGED)

    def bytes(self) -> int:
        """Of a version, or of this machine's part of it."""
        return int(self.saver.plan["bytes_to_write"])

    def state(self) -> int:
        """Of the last one. The next begin() raises its problem."""
        if self.saving is None:
            return HAS_PROBLEM
        if not self.saving.done():
            return IS_BUSY
        return IS_READY if self.saving.progress.is_staged() else HAS_PROBLEM

    def seconds(self) -> float:
        """How long the last one took to be written, if it is ready."""
        return 0.0 if self.saving is None else float(self.saving.result()["seconds"])


def folder_of(job: str | None, directory: str | os.PathLike[str] | None) -> Path:
    name = job or os.environ.get("TORCHELASTIC_RUN_ID") or os.environ.get("SLURM_JOB_ID")
    if name is None:
        raise failure("usage", "a tier needs the name of its job, by which a restart finds it: job=")
    if re.fullmatch(r"[\w.-]{1,100}", _arguments.text("job", name)) is None or name.startswith("."):
        raise failure("usage", f"job is a name of letters, digits, `_`, `-` and dots, not {_arguments.shown(name)}")
    return _directory_of(directory) / name


def _directory_of(directory: str | os.PathLike[str] | None) -> Path:
    given = directory or os.environ.get("UCP_MEMORY_DIRECTORY")
    return Path(os.path.abspath(os.fsdecode(given))) if given else Path(f"/dev/shm/ucp-{os.geteuid()}")


def versions_in(folder: Path | None) -> list[Path]:
    """The newest first. One that is being written has another name."""
    if folder is None or not folder.is_dir():
        return []
    found = [(int(match[1]), place) for place in folder.iterdir() if (match := _VERSION.fullmatch(place.name))]
    return [place for _, place in sorted(found, reverse=True)]


def bytes_in(folder: Path) -> int:
    """A file with several names counts once."""
    sizes: dict[int, int] = {}
    for above, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):
                found = os.lstat(os.path.join(above, name))
                sizes[found.st_ino] = found.st_size
    return sum(sizes.values())
