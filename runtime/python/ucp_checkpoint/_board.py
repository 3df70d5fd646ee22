"""The progress of the ranks of a node, as its agent sees it: a page of memory for each, and a file for an exception."""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import shutil
import struct
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

BOARD = "UCP_HEALING_BOARD"  # In the environment of ranks: the folder,
AGENT = "UCP_HEALING_AGENT"  # … and the process of the agent.
_PREFIX = "ucp-healing-agent-"  # Of the folders of agents, in the temporary folder.
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PAGE = 4096
_STEP = struct.Struct("<q")
_PHASE = struct.Struct("<d64s")  # Seconds, below 0 if none are declared; the name, empty for an iteration.
_MOST_TEXT = 1000
_SLOT = _STEP.size  # Where the phase is.
_STACKS = struct.Struct("<?")  # Whether SIGUSR1 has the rank write its stacks.
_STACKS_SLOT = _SLOT + _PHASE.size


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
            file.write(bytes(_PAGE))  # A hole would be filled when it is written to: a signal if the disk is full.
            file.flush()
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

    def show_stacks(self, can: bool) -> None:
        """Whether SIGUSR1 has this process write its stacks."""
        _STACKS.pack_into(self._page, _STACKS_SLOT, can)

    def raise_flag(self, error: BaseException) -> None:
        """Says which exception ends this process. The first one counts."""
        target = Path(f"{self._path}.error")
        with suppress(OSError):
            if not target.exists():
                said = {"exception": type(error).__name__, "text": printed(error)}
                part = Path(f"{target}.part")
                part.write_text(json.dumps(said))
                part.rename(target)


def own_folder() -> tuple[Path, int]:
    """A new folder, and a descriptor that keeps it locked until this process ends.

    Folders of this user that no process has locked are left from agents that were killed. They are removed.
    """
    # Machines may share the temporary folder, and locks of folders are each machine's own.
    prefix = f"{_PREFIX}{_BOOT.read_text().strip()}-"
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        _remove_if_left(path)
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix))
        with suppress(FileNotFoundError):  # Another agent has taken it for one that is left.
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if path.exists():
                return path, descriptor
            os.close(descriptor)


def _remove_if_left(path: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(descriptor).st_uid == os.getuid():
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path)
        finally:
            os.close(descriptor)


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
        with suppress(OSError, struct.error, ValueError):
            content = path.read_bytes()
            seconds, name = _PHASE.unpack_from(content, _SLOT)
            phase = name.rstrip(b"\0").decode()
            said[int(path.name)] = Seen(_STEP.unpack_from(content)[0], phase, seconds if seconds >= 0 else None)
    return said


def errors(folder: Path) -> dict[int, dict[str, str]]:
    """The exceptions that ranks have said: `exception` and `text`."""
    said = {}
    for path in folder.glob("*.error"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            content = json.loads(path.read_text())
            said[int(path.stem)] = {key: str(content[key]) for key in ("exception", "text")}
    return said


def writes_stacks(folder: Path, rank: int) -> bool:
    """Whether the rank has said that SIGUSR1 has it write its stacks."""
    with suppress(OSError, struct.error):
        return bool(_STACKS.unpack_from((folder / str(rank)).read_bytes(), _STACKS_SLOT)[0])
    return False


def catches(pid: int, number: int) -> bool:
    """Whether the process has a handler of the signal, of Python or of C."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def own_process() -> str:
    """Its number, and the namespace in which that is one."""
    return f"{os.getpid()} {os.readlink('/proc/self/ns/pid')}"


def has_gone(process: str) -> bool:
    """Whether that `own_process()` has ended. One that cannot be seen from here has not.

    Being another's child does not mean it: a script may stand between.
    """
    pid, _, namespace = process.partition(" ")
    if os.getppid() == int(pid) or namespace != os.readlink("/proc/self/ns/pid"):
        return False
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False
