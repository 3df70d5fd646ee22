"""The processes that a Saver starts, as /proc shows them: a supervisor, and the writer proper as its child."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGCONT, SIGSTOP

SOON = 10.0  # Seconds: more than a prompt answer takes, on a busy machine as well.
_AT_LAST = 60.0  # Seconds until a wait gives up.
_DETACH, _SEIZE, _INTERRUPT = 17, 0x4206, 0x4207  # Requests of ptrace.
_OF_ANY_KIND = 0x40000000  # __WALL: waitpid() takes threads as well.


def children_of(process: int) -> list[int]:
    """Also those that have ended and that nobody has waited for."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and parent_of(int(entry.name)) == process:
            found.append(int(entry.name))
    return found


def _status(process: int) -> list[str]:
    """The state, the parent, and what follows in /proc."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return []


def parent_of(process: int) -> int:
    """0 of one that is gone."""
    status = _status(process)
    return int(status[1]) if status else 0


def is_alive(process: int) -> bool:
    """And not a zombie."""
    status = _status(process)
    return bool(status) and status[0] != "Z"


def supervisors_of(process: int) -> list[int]:
    """The processes of savers that this one has started, if they live."""
    found = []
    for child in children_of(process):
        try:
            command = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"write-saves" in command:
            found.append(child)
    return found


def supervisor_of(process: int) -> int:
    """Of a process with one Saver."""
    (found,) = supervisors_of(process)
    return found


def worker_of(supervisor: int) -> int:
    """Waits for it: another one is started when one has died."""
    wait_until(lambda: any(map(is_alive, children_of(supervisor))))
    return next(filter(is_alive, children_of(supervisor)))


def wait_until(happens: Callable[[], bool]) -> None:
    """Fails if it does not happen."""
    end = time.monotonic() + _AT_LAST
    while not happens():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


@contextmanager
def stopped(process: int) -> Iterator[None]:
    """It does nothing within the block."""
    os.kill(process, SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, SIGCONT)


class HeldWriting:
    """The threads of a writer that write stand still, and the one that hears the ranks goes on.

    By ptrace, so all is done by the thread that has made this. The threads go on when its process ends.
    """

    def __init__(self, process: int) -> None:
        self._calls = ctypes.CDLL(None, use_errno=True)
        self._held: set[int] = set()
        while new := self._threads(process) - self._held:
            for thread in new:
                self._ptrace(_SEIZE, thread)
                self._ptrace(_INTERRUPT, thread)
                os.waitpid(thread, _OF_ANY_KIND)
            self._held |= new
        assert self._held, "it does not write"

    @staticmethod
    def _threads(process: int) -> set[int]:
        return {int(name) for name in os.listdir(f"/proc/{process}/task")} - {process}

    def _ptrace(self, request: int, thread: int) -> None:
        if self._calls.ptrace(request, thread, None, None) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def release(self) -> None:
        """Also after the process was killed, which has ended then."""
        for thread in self._held:
            try:
                self._ptrace(_DETACH, thread)
            except ProcessLookupError:
                os.waitpid(thread, _OF_ANY_KIND)
        self._held = set()

    def __enter__(self) -> HeldWriting:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def leftovers(folder: Path) -> list[str]:
    """The names in it that are not of checkpoints at their own places."""
    return sorted(entry.name for entry in folder.iterdir() if entry.name.startswith(".") or not entry.is_dir())
