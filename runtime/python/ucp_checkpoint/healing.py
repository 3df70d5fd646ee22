"""Tells the coordinator of a job how far this rank is: `watch()`, for jobs that heal themselves.

With `ucp.memory.Tier` nothing has to be called, since its `step()` does. Without a coordinator all of it does nothing.
docs/healing.md says what is done about a rank that fails or hangs.
"""

from __future__ import annotations

import ctypes
import faulthandler
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from ucp_checkpoint import _arguments, _board
from ucp_checkpoint._board import AGENT, BOARD, Board
from ucp_checkpoint._failure import failure

if TYPE_CHECKING:
    from ucp_checkpoint._micro_batches import MicroBatches

__all__ = ["MicroBatches", "Watch", "watch"]

_PARENT_DEATH_SIGNAL = 1
_MOST_STEP = (1 << 53) - 1
_MOST_PHASE_SECONDS = 30 * 24 * 3600
_log = logging.getLogger("ucp_checkpoint")


def __getattr__(name: str) -> object:
    if name != "MicroBatches":
        raise AttributeError(f"module `ucp.healing` has no `{name}`")
    from ucp_checkpoint._arrays import need_torch

    need_torch("ucp.healing.MicroBatches needs PyTorch")
    from ucp_checkpoint._micro_batches import MicroBatches

    return MicroBatches


class Watch:
    """The progress of this rank."""

    def __init__(self, board: Board | None) -> None:
        self._board = board

    def beat(self, step: int) -> None:
        """At the end of iteration `step`."""
        if self._board is not None:
            self._board.beat(_arguments.whole("step", step, 0, _MOST_STEP))
            self._board.show_stacks(_writes_stacks())

    @contextmanager
    def long(self, name: str, seconds: float | None = None) -> Iterator[None]:
        """Around a phase that belongs to no iteration, such as an evaluation, and how long it may take.

        Without `seconds` that is learned from the phases of that name before.
        """
        _arguments.text("name", name)
        if not name:
            raise failure("usage", "name is empty, and must say which phase it is")
        if seconds is not None and not 0 < seconds <= _MOST_PHASE_SECONDS:
            raise failure("usage", f"seconds is {seconds!r}, and must be above 0 and up to {_MOST_PHASE_SECONDS}")
        if self._board is not None:
            self._board.begin_phase(name, seconds)
            self._board.show_stacks(_writes_stacks())
        try:
            yield
        finally:
            if self._board is not None:
                self._board.end_phase()

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._board is not None and isinstance(error, Exception):
            self._board.raise_flag(error)


_watch: Watch | None = None
_has_registered = False


def watch() -> Watch:
    """The watch of this rank, the same each time.

    The first call lets an exception that ends the process be heard of before it unwinds, a hanging process write its
    stacks to standard error at SIGUSR1 (unless that has a handler already), and the process end with its agent. It
    takes what names the agent out of the environment, since processes that this one starts are not ranks.
    """
    global _watch
    if _watch is None:
        folder, agent = os.environ.pop(BOARD, None), os.environ.pop(AGENT, None)
        _watch = Watch(None if folder is None else _begin(folder, agent))
    return _watch


def _begin(folder: str, agent: str | None) -> Board | None:
    _end_with(agent)
    _register()
    try:
        board = Board(folder, int(os.environ.get("RANK", "0")))
        board.show_stacks(_writes_stacks())
        board.show()
    except OSError as error:
        _log.warning("ucp.healing.watch() cannot say how far this rank is, so that its hangs are not found: %s", error)
        return None
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, Exception):
            board.raise_flag(error)
        before(kind, error, trace)

    sys.excepthook = hook
    return board


def _end_with(agent: str | None) -> None:
    # H3: without its agent nobody could stop it.
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if agent is not None and _board.has_gone(agent):  # Before the call, so that there is no signal.
        sys.stderr.write("ucp.healing.watch(): the agent of this rank has ended, and so it ends, too\n")
        sys.stderr.flush()
        os._exit(1)


def _register() -> None:
    # A handler that is there, such as Slurm's for queueing a job again, stays.
    global _has_registered
    if signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL and not _board.catches(os.getpid(), signal.SIGUSR1):
        faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)
        _has_registered = True


def _writes_stacks() -> bool:
    """At SIGUSR1. Others may have taken the signal since, which then means something else."""
    return _has_registered and signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
