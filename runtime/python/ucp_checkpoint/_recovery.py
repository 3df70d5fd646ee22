"""The newest version that live machines hold together: found, checked, and brought to every machine.

All ranks make the same calls. The rank that speaks for each machine says which parts are complete there; the newest
version of which each part is on some machine is taken (M1). A part that a machine lacks comes from those that have it,
a stripe from each. Every part is compared with the digests of its owner, on each machine, before the job's state
changes (M5): of a damaged one the next copy is taken, and the damage is named.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

from ucp_checkpoint._failure import failure
from ucp_checkpoint._machines import Machines
from ucp_checkpoint._tier_folder import Part, TierFolder, Version

_STRIPE_BYTES = 1 << 20  # Begins at multiples of this.
_log = logging.getLogger("ucp_checkpoint")


@dataclass
class Candidate:
    """A version, of which something is on a live machine."""

    version: Version
    count: int  # Of its parts.
    # By number, and by the machine that has it. One of them may be damaged.
    holders: dict[int, dict[int, Part]] = field(default_factory=dict)

    def lacking(self) -> list[int]:
        return [number for number in range(self.count) if not self.holders.get(number)]

    def part(self, number: int) -> Part:
        """As the first of its holders has it."""
        return next(iter(self.holders[number].values()))


class Recovery:
    """Of one start of a job, `world`."""

    def __init__(self, machines: Machines, folder: TierFolder, world: str) -> None:
        self._machines, self._folder, self._world = machines, folder, world
        self._attempts = 0

    def candidates(self) -> list[Candidate]:
        """The newest first."""
        mine = [part.as_json() for part in self._folder.complete_parts()] if self._machines.speaks else []
        found: dict[tuple[Version, int], Candidate] = {}
        for rank, parts in enumerate(self._machines.ranks.all_tell(mine)):
            for part in map(Part.from_json, parts):
                candidate = found.setdefault((part.version, part.count), Candidate(part.version, part.count))
                candidate.holders.setdefault(part.number, {})[self._machines.of_rank[rank]] = part
        newest = max((version.epoch for version, _ in found), default=0)

        def age(candidate: Candidate) -> tuple[int, int, str]:
            version = candidate.version
            return (version.epoch or newest, version.step, version.world)

        return sorted(found.values(), key=age, reverse=True)

    def bring(self, candidate: Candidate) -> Path:
        """To every machine. Raises on all ranks where that cannot be."""
        if lacking := candidate.lacking():
            said = f"no machine has part {lacking[0]} of the {candidate.count} of step {candidate.version.step}"
            raise failure("data", said)
        if candidate.version.epoch == 0 and self._machines.count == 1:
            return self._folder.whole(candidate.version)  # Its checksums are those of any checkpoint.
        self._drop_damaged(candidate)
        missing = [
            (machine, number)
            for machine in range(self._machines.count)
            for number in range(candidate.count)
            if machine not in candidate.holders[number]
        ]
        if missing:
            self._fetch(candidate, missing)
        self._machines.first_does(lambda: self._folder.join(candidate.version, candidate.count))
        return self._folder.whole(candidate.version)

    def _drop_damaged(self, candidate: Candidate) -> None:
        mine = self._machines.mine
        faults: dict[int, str] = {}
        if self._machines.speaks:
            for number, holders in candidate.holders.items():
                if mine in holders and (found := self._folder.faults_of(holders[mine])):
                    faults[number] = found[0]
        for rank, of_rank in enumerate(self._machines.ranks.all_tell(faults)):
            for text, fault in of_rank.items():
                holders = candidate.holders[int(text)]
                del holders[self._machines.of_rank[rank]]
                others = ", ".join(f"`{self._machines.names[machine]}`" for machine in holders)
                if not holders:
                    raise failure("data", f"{fault}; no machine has another copy")
                if self._machines.ranks.rank == 0:
                    _log.warning("ucp.memory: %s; the copy on machine %s is taken", fault, others)
        for number, holders in candidate.holders.items():  # Where two are without fault, and differ, the first counts.
            first = candidate.part(number)
            candidate.holders[number] = {machine: part for machine, part in holders.items() if part == first}

    def _fetch(self, candidate: Candidate, missing: list[tuple[int, int]]) -> None:
        from ucp_checkpoint._streams import Piece, Streams

        mine = self._machines.mine
        folders: dict[int, Path] = {}
        sending: dict[int, list[Piece]] = {}
        receiving: dict[int, list[Piece]] = {}

        def reserve() -> None:
            for machine, number in missing:
                if machine == mine:
                    folders[number] = self._folder.begin_copy(candidate.part(number))

        def exchange() -> None:
            self._attempts += 1
            try:
                streams = Streams(self._machines, f"recovery/{self._world}/{self._attempts}")
                streams.exchange(sending, receiving)
            except RuntimeError as error:
                raise failure("io", f"a machine is gone, or does not answer: {error}") from None
            for number, folder in folders.items():
                if found := self._folder.faults_of(candidate.part(number), folder):
                    raise failure("data", found[0])
            for number, folder in folders.items():
                self._folder.finish_copy(candidate.part(number), folder)

        self._machines.first_does(reserve)
        for machine, number in missing:
            holders = sorted(candidate.holders[number])
            for name, size in candidate.part(number).files:
                for holder, (begin, end) in zip(holders, _stripes(size, len(holders)), strict=True):
                    own = self._folder.of_part(candidate.version, number, candidate.count)
                    if holder == mine and self._machines.speaks:
                        sending.setdefault(machine, []).append(Piece(own / name, begin, end))
                    if machine == mine and self._machines.speaks:
                        receiving.setdefault(holder, []).append(Piece(folders[number] / name, begin, end))
        self._machines.first_does(exchange)


def _stripes(size: int, count: int) -> list[tuple[int, int]]:
    """About equal ones, which are all of a file."""
    blocks = -(-size // _STRIPE_BYTES)
    ends = [min(size, blocks * (number + 1) // count * _STRIPE_BYTES) for number in range(count - 1)] + [size]
    return list(zip([0, *ends[:-1]], ends, strict=True))
