"""Machines of a tier that are threads of one process, each with a folder: what they hold, send, and find again.

The parts are those that a real saver wrote of the same state, once; the threads talk over gloo as processes do.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist

import ucp_checkpoint as ucp
from ucp_checkpoint import _ucp
from ucp_checkpoint._copies import Copies
from ucp_checkpoint._machines import Machines, Ranks
from ucp_checkpoint._recovery import Recovery
from ucp_checkpoint._save import TierSaver
from ucp_checkpoint._tier_folder import TierFolder, Version
from ucp_checkpoint._traffic import Traffic

T = TypeVar("T")
WORLD = "0123abcd"
ELEMENTS = 300_000
SECONDS = 1000.0  # That a writer says to have taken.


class ThreadRanks(Ranks):
    """One rank of several threads, which meet at a barrier."""

    def __init__(self, rank: int, said: list[str], barrier: threading.Barrier) -> None:
        self.of_job, self.rank, self.size = None, rank, len(said)
        self._said, self._barrier = said, barrier

    def all_gather(self, mine: bytes) -> list[bytes]:
        self._said[self.rank] = mine.decode()
        self._barrier.wait(30)
        told = list(self._said)
        self._barrier.wait(30)
        return [text.encode() for text in told]

    def all_do(self, work: Callable[[], T]) -> T:
        made, problem = [], ""
        try:
            made.append(work())
        except (ucp.Error, OSError) as error:
            problem = str(error)
        for text in self.all_gather(problem.encode()):
            if text:
                raise _ucp.Error(text.decode())
        return made[0]


class ThreadMachines(Machines):
    """Each has one rank."""

    shared: Any = None

    def store(self) -> Any:
        return self.shared


@dataclass
class Cluster:
    """Machines by number."""

    root: Path
    count: int
    copies: int
    timeout: float = 20.0
    names: str = "abcdefgh"

    def __post_init__(self) -> None:
        self.keepers = _ucp.keepers(self.count, self.copies, [])
        self.folders = [TierFolder(self.root / self.names[machine], False) for machine in range(self.count)]
        for folder in self.folders:
            folder.path.mkdir(parents=True, exist_ok=True)
        self.store = dist.HashStore()

    def machines(self) -> list[ThreadMachines]:
        """Those of one start."""
        said, barrier = [""] * self.count, threading.Barrier(self.count)
        made = []
        for machine in range(self.count):
            names = list(self.names[: self.count])
            ranks = ThreadRanks(machine, said, barrier)
            one = ThreadMachines(ranks, names, names, list(range(self.count)), self.timeout)
            one.shared = self.store
            made.append(one)
        return made

    def copiers(self, traffics: Sequence[Traffic | None] = ()) -> list[Copies]:
        return [
            Copies(machines, folder, self.keepers, traffic=traffic)
            for machines, folder, traffic in zip(
                self.machines(), self.folders, traffics or [None] * self.count, strict=True
            )
        ]

    def recover(self, world: str = "1") -> list[Any]:
        """By machine: the path of the newest version, or the errors of all."""

        def work(machines: ThreadMachines, folder: TierFolder) -> str | list[str]:
            recovery = Recovery(machines, folder, world)
            errors = []
            for candidate in recovery.candidates():
                try:
                    return str(recovery.bring(candidate))
                except ucp.Error as error:
                    errors.append(str(error))
            return errors

        return together(
            [lambda a=one, b=folder: work(a, b) for one, folder in zip(self.machines(), self.folders, strict=True)]
        )

    def lose(self, machine: int) -> None:
        shutil.rmtree(self.folders[machine].path)
        self.folders[machine].path.mkdir()

    def version(self, step: int, epoch: int = 1) -> Version:
        return Version(epoch, step, WORLD)


class Saved:
    """A save that is done when it is asked: the part of a template, in its place."""

    def __init__(self, template: Path, place: Path, problem: str = "") -> None:
        self._template, self._place, self._problem = template, place, problem

    def result(self) -> dict[str, Any]:
        if self._problem:
            raise _ucp.Error(self._problem)
        shutil.copytree(self._template, self._place)
        return {"seconds": SECONDS}


def together(works: list[Callable[[], T]]) -> list[T]:
    """Each on a thread of its own; their results, or the first error."""
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            results[number] = works[number]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(works))]


def templates(root: Path, count: int, steps: range) -> dict[int, list[Path]]:
    """By step: the parts of machines 0 to `count`, as a saver writes them; their tensors have the step's number."""
    made: dict[int, list[Path]] = {step: [] for step in steps}
    for machine in range(count):
        tensor = torch.zeros(ELEMENTS)
        with TierSaver(machine, {"model": {f"w{machine}": tensor}}, no_dist=True) as saver:
            for step in steps:
                tensor.fill_(step)
                made[step].append(root / f"{step}" / f"{machine}")
                made[step][-1].parent.mkdir(exist_ok=True)
                saver.save(made[step][-1]).result()
    return made


def step_in(path: str) -> float:
    """The number that all tensors of a version have."""
    count = len(list(Path(path).glob("__*.metadata")))
    tensors = {f"w{machine}": torch.zeros(ELEMENTS) for machine in range(count)}
    ucp.load_into(tensors, path)
    (number,) = {float(value) for tensor in tensors.values() for value in tensor.unique()}
    return number
