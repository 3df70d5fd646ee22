"""Copies of a machine's part of each version on other machines, and the commit of what is complete everywhere.

By the rank that speaks for each machine, on a thread of its own, one version after the other:

    1  the own part is complete: all say its files, or why it is not
    2  all have reserved memory for the parts that they keep
    3  each sends its part to its keepers, and receives those that it keeps, into hidden folders
    4  the bytes of a copy have the digests that their owner's writer computed; else it is sent once more
    5  the copies get their names, and all say so: the version is complete
    6  all say that they know it: the version is committed, and older ones are removed

    M1  A version counts if each of its parts is complete on some machine with the digests of its owner.
    M2  From the first commit on some version can be recovered whichever k - 1 machines are lost: an older version is
        removed only at 6, and the next one is begun only when this one is committed or given up.
    M3  A part has its name only when it is complete.
    M4  Parts of two starts of a job are never put together (_tier_folder.py).
    M5  Nothing of a job's state changes before all ranks know that a version is whole and every digest fits
        (_recovery.py).
    M6  A part that is being read is not written to. A file that is being read when its version is removed stays until
        it is closed.
    M7  Memory is reserved before it is written to: a lack of it gives the version up, and the one before stays. A
        version that was complete when a machine failed is kept until all machines have met again: then it is kept by
        all, or removed by all (Tier._may_begin()), so that there are never more than two.
    M8  Whatever fails here does not stop the training.

At 2 each says how it cuts what it sends, which follows from when it sends that (_traffic.py).
"""

from __future__ import annotations

import atexit
import os
import queue
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ucp_checkpoint import _ucp
from ucp_checkpoint._failure import failure
from ucp_checkpoint._machines import Machines
from ucp_checkpoint._spans import Cost, cost_of
from ucp_checkpoint._tier_folder import Part, TierFolder, Version
from ucp_checkpoint._traffic import Traffic
from ucp_checkpoint._versions import HAS_PROBLEM, IS_BUSY, IS_READY

if TYPE_CHECKING:
    from ucp_checkpoint._saving import Saving
    from ucp_checkpoint._streams import Cut, Piece, Streams

_SECONDS_AT_EXIT = 5.0
_PROBES, _PROBED_BYTES = 4, (64 << 10, 4 << 20)


class _Over(Exception):
    """close() has returned, or will at once."""


@dataclass
class _Task:
    version: Version
    saving: Saving | None  # Nothing: the save has not begun on this machine.
    persists_to: Path | None
    meeting: str  # By which machines find one another. Another one than before: they do so anew.


class Copies:
    """Of one machine, for the rank that speaks for it."""

    def __init__(
        self,
        machines: Machines,
        folder: TierFolder,
        keepers: list[list[int]],
        is_replicated: bool = False,
        traffic: Traffic | None = None,
    ) -> None:
        """`is_replicated`: each machine has all of the state, as one part that is the same on all."""
        is_sent = any(len(of_one) > 1 for of_one in keepers)
        self.traffic = traffic if traffic is not None and is_sent else Traffic()
        self.committed: Version | None = None
        self.complete: Version | None = None  # The newest that is complete everywhere: others may have committed it.
        self.bytes_sent = 0
        self.seconds = 0.0  # That the last version took to be written here, and from then to its commit.
        self._machines, self._folder, self._keepers = machines, folder, keepers
        self._number, self._count = (0, 1) if is_replicated else (machines.mine, machines.count)
        self._problem = ""
        self._cuts: list[Cut] = []  # Of what is sent now.
        self._is_over = False
        self._changing = threading.Lock()  # Of files: not when close() has returned.
        self._streams: Streams | None = None
        self._meeting = ""
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._is_settled = threading.Event()
        self._is_settled.set()
        self._thread = threading.Thread(target=self._run, daemon=True, name="ucp copies")
        self._thread.start()
        atexit.register(self.close, _SECONDS_AT_EXIT)

    def add(self, version: Version, saving: Saving | None, persists_to: Path | None, meeting: str) -> None:
        """The one before is settled."""
        self._is_settled.clear()
        self.traffic.begun()
        self._tasks.put(_Task(version, saving, persists_to, meeting))

    def is_settled(self) -> bool:
        """Whether the last version is committed, or given up."""
        return self._is_settled.is_set()

    def state(self) -> int:
        """Of the last version. It is busy until there is memory for another one, and time to send it."""
        if not self.is_settled() or self.traffic.rests():
            return IS_BUSY
        return HAS_PROBLEM if self._problem else IS_READY

    def take_problem(self) -> str:
        """Why the last version was given up; nothing after that."""
        problem, self._problem = self._problem, ""
        return problem

    def agree_on(self, complete: Version | None, world: str) -> None:
        """All have settled: `complete` is the newest version that is so for all, and others have no memory (M7)."""
        self.complete = complete
        for version in self._folder.versions():
            if version.world == world and version != complete:
                self._folder.remove(version)

    def close(self, patience: float | None = None) -> None:
        """The version that is being copied is finished, for so long at most. Then it stays as it is: the thread ends
        with the chunk that it waits for, and changes no file."""
        atexit.unregister(self.close)
        self.traffic.hurry()
        self._tasks.put(None)
        self._thread.join(patience)
        with self._changing:
            self._is_over = True

    @contextmanager
    def _changes(self) -> Iterator[None]:
        """Files."""
        with self._changing:
            self._check()
            yield

    def _check(self) -> None:
        if self._is_over:
            raise _Over

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                self._settle(task)
                self.traffic.watch()
            except _Over:
                self._streams = None  # Others hear of it.
                return
            except RuntimeError as error:  # Of gloo.
                self._give_up(task, f"a machine is gone, or does not answer: {error}")
            except Exception as error:  # M8
                self._give_up(task, str(error) if isinstance(error, _ucp.Error) else f"{type(error).__name__}: {error}")
            self._is_settled.set()

    def _give_up(self, task: _Task, problem: str) -> None:
        """A version that others may have committed stays (M2)."""
        with self._changing:
            if self.complete != task.version and not self._is_over:
                self._folder.remove(task.version)
        self._problem = problem

    def _settle(self, task: _Task) -> None:
        streams = self._met(task.meeting)
        parts = [Part.from_json(said) for said in self._all_say(streams, lambda: self._own_part(task).as_json())]
        for machine, part in enumerate(parts):
            number = min(machine, self._count - 1)
            if (part.version, part.number, part.count) != (task.version, number, self._count):
                said = f"machine {machine} is at {part.version.name} and machine {self._machines.mine} at "
                raise failure("usage", f"{said}{task.version.name}; all machines keep the same versions")
        written = time.monotonic()
        self._copy(streams, parts)
        self._all_say(streams, lambda: self._join(task.version))
        self.complete = task.version
        self._all_say(streams, lambda: None)
        self.committed = task.version
        self.seconds += time.monotonic() - written
        with self._changes():
            self._folder.keep_alone(task.version)
        if task.persists_to is not None:
            self._persist(streams, parts, task.persists_to)

    def _met(self, meeting: str) -> Streams:
        from ucp_checkpoint._streams import Streams

        if self._streams is None or meeting != self._meeting:
            self._streams = Streams(self._machines, f"copies/{meeting}")
            self._meeting = meeting
            if self.traffic.is_timed:
                self.traffic.cost = self._cost(self._streams)
        return self._streams

    def _all_say(self, streams: Streams, what: Any) -> list[Any]:
        """The word of each machine. A problem of one gives the version up on all of them."""
        mine: dict[str, Any] = {}
        try:
            mine["said"] = what()
        except _ucp.Error as error:
            mine["problem"] = str(error)
        except OSError as error:
            mine["problem"] = f"`{error.filename}`: {(error.strerror or str(error)).lower()}"
        said = streams.all_tell(mine)
        for number, one in enumerate(said):
            if "problem" in one:
                raise failure("io", f"machine `{self._machines.names[number]}`: {one['problem']}")
        return [one["said"] for one in said]

    def _own_part(self, task: _Task) -> Part:
        if task.saving is None:
            raise failure("io", "the save did not begin")
        self.seconds = float(task.saving.result()["seconds"])
        return self._folder.part(task.version, self._number, self._count)

    def _join(self, version: Version) -> None:
        with self._changes():
            self._folder.join(version, self._count)

    def _copy(self, streams: Streams, parts: list[Part]) -> None:
        folders: dict[int, Path] = {}
        wanted = [[owner, keeper] for owner, keepers in enumerate(self._keepers) for keeper in keepers[1:]]
        for attempt in range(2 if wanted else 0):
            has_time = attempt == 0  # A copy that is sent again has none.
            sizes = self._all_say(streams, lambda now=wanted, timed=has_time: self._reserve(parts, folders, now, timed))
            self._exchange(streams, parts, folders, wanted, sizes)
            faults = self._all_say(streams, lambda now=wanted: self._faults(parts, folders, now))
            wanted = [[int(owner), keeper] for keeper, of_one in enumerate(faults) for owner in of_one]
            if not wanted:
                break
            if attempt == 1:
                owner, keeper = wanted[0]
                said = (
                    f"the copy of machine `{self._machines.names[owner]}` on `{self._machines.names[keeper]}` differs"
                )
                raise failure("data", f"{said}, and did so when it was sent again: {faults[keeper][str(owner)]}")
        with self._changes():
            for owner, folder in folders.items():
                self._folder.finish_copy(parts[owner], folder)

    def _cost(self, streams: Streams) -> Cost:
        """Of sending, at the best of some times: the training may send as well."""
        to = self._keepers[self._machines.mine][1:2]
        of = [owner for owner, keepers in enumerate(self._keepers) if keepers[1:2] == [self._machines.mine]]
        small, large = ((size, min(streams.seconds_of(size, to, of) for _ in range(_PROBES))) for size in _PROBED_BYTES)
        return cost_of(small, large)

    def _reserve(
        self, parts: list[Part], folders: dict[int, Path], wanted: list[list[int]], is_timed: bool
    ) -> list[list[int]]:
        """The sizes of the chunks of each copy that this machine sends."""
        mine = self._machines.mine
        with self._changes():
            folders.update({owner: self._folder.begin_copy(parts[owner]) for owner, keeper in wanted if keeper == mine})
        size, copies = sum(size for _, size in parts[mine].files), len(self._keepers[mine]) - 1
        self._cuts = self.traffic.cuts(size, copies, self._check) if is_timed else []
        return [list(cut.sizes) for cut in self._cuts]

    def _exchange(
        self,
        streams: Streams,
        parts: list[Part],
        folders: dict[int, Path],
        wanted: list[list[int]],
        sizes: list[list[list[int]]],
    ) -> None:
        from ucp_checkpoint._streams import Cut, Piece

        def pieces(part: Part, folder: Path) -> list[Piece]:
            return [Piece(folder / name, 0, size) for name, size in part.files]

        mine = self._machines.mine
        own = self._folder.of_part(parts[mine].version, self._number, self._count)
        sending = {keeper: pieces(parts[mine], own) for owner, keeper in wanted if owner == mine}
        receiving = {owner: pieces(parts[owner], folders[owner]) for owner, keeper in wanted if keeper == mine}
        cuts = dict(zip(self._keepers[mine][1:], self._cuts, strict=False))
        of_others = {}
        for owner in receiving:
            of_owner = sizes[owner][self._keepers[owner].index(mine) - 1] if sizes[owner] else ()
            of_others[owner] = Cut(of_owner, lambda _: self._check())
        streams.exchange(sending, receiving, cuts, of_others)
        self.bytes_sent += len(sending) * sum(size for _, size in parts[mine].files)

    def _faults(self, parts: list[Part], folders: dict[int, Path], wanted: list[list[int]]) -> dict[str, str]:
        """By owner, as JSON has it."""
        faults = {}
        for owner, keeper in wanted:
            if keeper == self._machines.mine and (found := self._folder.faults_of(parts[owner], folders[owner])):
                faults[str(owner)] = found[0]
        return faults

    def _persist(self, streams: Streams, parts: list[Part], path: Path) -> None:
        """All parts into a folder that all machines see, which gets its name when they are there."""
        hidden = path.with_name(f".{path.name}.parts")
        mine = self._machines.mine
        wanted = [
            [(name, size) for name, size in part.files if self._count == 1 or name.startswith("__")]
            for part in parts[: self._count]
        ]

        def write() -> None:
            self._check()
            hidden.mkdir(parents=True, exist_ok=True)
            for name, _ in wanted[mine] if mine < self._count else []:
                own = self._folder.of_part(parts[mine].version, self._number, self._count)
                _copy_durably(own / name, hidden / name)

        def finish() -> None:
            self._check()
            if mine != 0:
                return
            for name, size in (file for of_part in wanted for file in of_part):
                if not (hidden / name).is_file() or (hidden / name).stat().st_size != size:
                    said = f"`{hidden / name}` of another machine is not there; fallback= is a folder that all see"
                    raise failure("usage", said)
            _sync(hidden)
            if path.is_dir():
                shutil.rmtree(path)
            hidden.rename(path)
            _sync(path.parent)

        self._all_say(streams, write)
        self._all_say(streams, finish)


def _copy_durably(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    _sync(target)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
