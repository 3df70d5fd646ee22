"""The agent of a node: a thread in torchrun's own process, which keeps the connection to the coordinator, says how far
the node's ranks are, and hears what is to be done."""

from __future__ import annotations

import atexit
import logging
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ucp_checkpoint import _board
from ucp_checkpoint._coordinator import Link, Refused, failed

_BETWEEN_LOOKS = 0.05
_BETWEEN_BEATS = 1.0
_BETWEEN_TRIES = 0.5
_BETWEEN_REFUSALS = 2.0
# That a message of the coordinator must have.
_KEYS = {
    "world": {"epoch", "rank", "nodes", "host", "port"},
    "restart": {"epoch", "reason"},
    "close": {"reason"},
}
_log = logging.getLogger("ucp_checkpoint")


class Agent:
    """One for each node. Its methods are called by torchrun's thread."""

    def __init__(self, connect: Callable[[], Link], node: dict[str, Any]) -> None:
        self._connect = connect
        self._node = node  # Of a join.
        self._changed = threading.Condition()
        self._link: Link | None = None
        self._lost_at = time.monotonic()
        self._complaint = ""  # The last warning, which is not repeated.
        self._is_refused = False
        self._is_over = False
        self._joins = False
        self._has_ended = False
        self._world: dict[str, Any] = {}  # Of the processes; without any, `epoch` is the last one's.
        self._offer: dict[str, Any] | None = None
        self._orders: dict[str, Any] | None = None
        self._reported: set[int] = set()
        self._said: dict[str, Any] = {}
        self._said_at = 0.0
        self._folder, self._lock = _board.own_folder()
        atexit.register(shutil.rmtree, self._folder, True)
        self.stopped: Callable[[], int] = lambda: -1  # A rank whose process the system has stopped.
        self._thread = threading.Thread(target=self._work, name="ucp-agent", daemon=True)

    def begin(self, link: Link) -> None:
        """With the first connection."""
        self._link = link
        self._thread.start()

    @property
    def epoch(self) -> int:
        """Of the last world."""
        return int(self._world.get("epoch", 0))

    @property
    def board(self) -> Path:
        """Where the ranks of this epoch say how far they are."""
        return self._folder / f"epoch-{self.epoch}"

    @property
    def order(self) -> dict[str, Any] | None:
        """`restart` or `close`, that is not carried out yet."""
        with self._changed:
            return self._orders

    def join(self, host: str, port: int, patience: float) -> dict[str, Any] | None:
        """Waits for a world, for as long as there is a coordinator. Nothing if it is away for longer than `patience`.

        A world has `epoch`, `rank`, `nodes`, `host` and `port`; a `close` ends the task.
        """
        with self._changed:
            self._node.update(host=host, port=port)
            self._joins, self._has_ended = True, False
            self._offer = None
            if self._orders is not None and self._orders["type"] == "restart":
                self._orders = None
            self._send(self._introduction())
            while self._offer is None and self._orders is None:
                if self._link is None and time.monotonic() - self._lost_at > patience:
                    return None
                self._changed.wait(_BETWEEN_TRIES)
            if self._orders is not None:
                return self._orders
            assert self._offer is not None
            with suppress(OSError):
                shutil.rmtree(self.board)
            self._world, self._joins = self._offer, False
            self._reported, self._said = set(), {}
            self.board.mkdir()
            return self._world

    def report(self, ends: list[dict[str, Any]], patience: float) -> dict[str, Any] | None:
        """Says how processes ended, and waits for the answer; for none without a coordinator."""
        until = time.monotonic() + patience
        with self._changed:
            self._send(failed(self.epoch, ends))
            while self._orders is None and self._link is not None and time.monotonic() < until:
                self._changed.wait(_BETWEEN_LOOKS)
            return self._orders

    def end(self) -> None:
        """All processes have ended well."""
        with self._changed:
            self._has_ended = True
            self._send({"type": "ended", "epoch": self.epoch})

    def close(self) -> None:
        """The node does not come back."""
        with self._changed:
            if self._is_over:
                return
            self._send({"type": "leave", "epoch": self.epoch})
            self._is_over = True
            self._changed.notify_all()
        self._thread.join(5)

    def _send(self, message: dict[str, Any]) -> None:
        """Under the lock. A connection that is gone is noticed here, and made again by the thread."""
        if self._link is None:
            return
        try:
            self._link.send(message)
        except OSError as error:
            self._lose(error)

    def _lose(self, error: Exception) -> None:
        if self._link is None:
            return
        self._link.close()
        self._link = None
        self._lost_at = time.monotonic()
        if not self._needs_nobody():
            self._complain(f"the coordinator is away ({error}); training goes on without it")
        self._changed.notify_all()

    def _complain(self, complaint: str) -> None:
        """Once, until the coordinator is back."""
        if complaint != self._complaint:
            _log.warning("%s", complaint)
        self._complaint = complaint

    def _needs_nobody(self) -> bool:
        """The coordinator has said its last word, or hears none any more."""
        return self._is_over or (self._orders is not None and self._orders["type"] == "close")

    def _introduction(self) -> dict[str, Any]:
        if self._joins or not self._world:
            return {"type": "join", "epoch": self.epoch, **self._node}
        return {"type": "resume", "epoch": self.epoch, "rank": self._world["rank"], "nodes": self._world["nodes"],
                **self._node}  # fmt: skip

    def _work(self) -> None:
        while not self._is_over:
            link = self._link
            if link is None:
                self._connect_again()
                continue
            try:
                messages = link.receive(_BETWEEN_LOOKS)
                with self._changed:
                    for message in messages:
                        if link is self._link:
                            self._take(message)
                    if link is self._link:
                        self._look()
            except Exception as error:  # Whatever it is, this thread goes on (H6).
                with self._changed:
                    if link is self._link:
                        self._lose(error)
        if self._link is not None:
            self._link.close()

    def _connect_again(self) -> None:
        with self._changed:
            pause = _BETWEEN_REFUSALS if self._is_refused else _BETWEEN_TRIES
            self._changed.wait_for(lambda: self._is_over, pause)
            if self._needs_nobody():
                return
        try:
            link = self._connect()
        except Exception as error:
            if not isinstance(error, OSError):
                self._complain(f"the coordinator is away ({error}); training goes on without it")
            return
        with self._changed:
            if self._needs_nobody():
                return link.close()
            self._link = link
            try:
                self._introduce_again()
            except Exception as error:
                self._lose(error)

    def _introduce_again(self) -> None:
        """A coordinator that was away has heard nothing of the end."""
        self._offer = None  # A node that joins says that it has no processes, and gets another world.
        if self._is_known():
            self._send(self._introduction())
        if self._has_ended:
            self._send({"type": "ended", "epoch": self.epoch})
        if self._link is not None and not self._is_refused:
            _log.warning("the coordinator is back")
            self._complaint = ""
        self._is_refused = False

    def _take(self, message: dict[str, Any]) -> None:
        kind = str(message.get("type"))
        missing = _KEYS.get(kind, set()) - message.keys()
        if missing:
            raise ValueError(f"its `{kind}` has no `{min(missing)}`")
        if kind == "world" and self._joins and message["epoch"] > self.epoch:  # H1.
            self._offer = message
        elif kind == "restart" and self._joins and self._offer and message["epoch"] >= self._offer["epoch"]:
            self._offer = None  # Nobody has taken it, and it is over.
            self._send(self._introduction())
        elif kind == "close" and message.get("refused") and self._world and not self._joins:
            self._is_refused = True
            self._lose(Refused(message["reason"]))
        elif kind == "close" or (kind == "restart" and self._runs() and message["epoch"] >= self.epoch):
            self._orders = message
        self._changed.notify_all()

    def _is_known(self) -> bool:
        """Whether the coordinator has heard of this node, as it must before anything else."""
        return self._joins or bool(self._world)

    def _runs(self) -> bool:
        return bool(self._world) and not self._joins and not self._has_ended

    def _look(self) -> None:
        """At the board of the ranks: says what is new, once a second in any case."""
        if not self._is_known():
            return
        said: dict[str, Any] = {"type": "beat", "epoch": self.epoch}
        if self._runs():
            with suppress(OSError):
                ranks = _board.seen(self.board)
                if ranks:
                    last = min(ranks.values(), key=lambda rank: rank.step)
                    said["step"] = last.step
                    phase = next((rank for rank in ranks.values() if rank.phase), last)
                    said["phase"] = phase.phase
                    if phase.phase_seconds is not None:
                        said["phase_seconds"] = phase.phase_seconds
                self._report_exceptions()
        if said != self._said or time.monotonic() - self._said_at >= _BETWEEN_BEATS:
            said["stuck"] = self.stopped()
            self._send(said)
            del said["stuck"]
            self._said, self._said_at = said, time.monotonic()

    def _report_exceptions(self) -> None:
        said = _board.errors(self.board)
        new: list[dict[str, Any]] = [{"rank": rank, **said[rank]} for rank in said if rank not in self._reported]
        if new:
            message = failed(self.epoch, new)  # Others are for the next look.
            self._reported |= {end["rank"] for end in message["ends"]}
            self._send(message)
