"""`Tier`: the state of a job in the memory of its machines, every few iterations, for a restart after a failure.

A version is a checkpoint in a folder in memory (`/dev/shm`), which outlives the processes of the job. On several
machines each keeps the part that its ranks hold, and copies of others' parts. docs/memory-tier.md says what is kept and
removed.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ucp_checkpoint import _arguments, _ucp, healing
from ucp_checkpoint._arrays import need_torch
from ucp_checkpoint._copies import Copies
from ucp_checkpoint._failure import failure
from ucp_checkpoint._kept_state import ENTRY, ModuleState, values_of
from ucp_checkpoint._machines import Machines, Ranks
from ucp_checkpoint._recovery import Candidate, Recovery
from ucp_checkpoint._spans import Took
from ucp_checkpoint._tier_folder import TierFolder, Version, new_world
from ucp_checkpoint._traffic import Traffic
from ucp_checkpoint._versions import HAS_PROBLEM, IS_READY, Versions, folder_of, versions_in

if TYPE_CHECKING:
    import torch

_CALLS_BEFORE_CHOICE = 5  # Of step(), at least, before every="auto" chooses.
_log = logging.getLogger("ucp_checkpoint")


@dataclass
class Restored:
    """The version that a job goes on from."""

    step: int
    path: str
    extras: list[dict[str, Any]] = field(default_factory=list)  # By the ranks of the job that saved it.


class Tier:
    """Keeps the state of a job in the memory of its machines.

    All ranks make one after they have wrapped the model, and before they train: it restores the newest version of
    `job`, or the newest checkpoint that it has saved to `fallback`, if there is one. `model` and `optimizer` are those
    of `ucp.Saver`. `every` is the number of iterations from one version to the next, or "auto": as few as the writer
    keeps up with, and as have idle time for the copies. On several machines each part of the state is kept by `copies`
    of them; `machine` names the machine that this rank is on, and `domain` what fails together with it, such as a rack.
    With `persist_every` a further save of each so many iterations goes to `fallback`, at its own pace. `traffic` says
    when copies are sent: "off", at once; "paced", evenly over the interval; "timetable", while the training leaves the
    network idle. `extra` is called for each version and returns a dict of values, such as the states of a scheduler and
    of the data loader on this rank. An error of a version is a warning, and training goes on, unless `strict`.
    """

    def __init__(
        self,
        model: torch.nn.Module | ModuleState,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        job: str | None = None,
        fallback: str | os.PathLike[str] | None = None,
        every: int | str = "auto",
        copies: int = 2,
        persist_every: int | None = None,
        extra: Callable[[], Mapping[str, Any]] | None = None,
        directory: str | os.PathLike[str] | None = None,
        machine: str | None = None,
        domain: str | None = None,
        traffic: str = "off",
        group: object = None,
        no_dist: bool = False,
        strict: bool = False,
        timeout: float = 600,
        threads: int | None = None,
    ) -> None:
        need_torch("Tier() keeps tensors of PyTorch")
        self._watch = healing.watch()
        self._extra = extra
        self._state = model if isinstance(model, ModuleState) else ModuleState(model, optimizer)
        self._strict = _arguments.flag("strict", strict)
        self._every = every if every == "auto" else _arguments.whole("every", every, 1, 1 << 30)
        copies = _arguments.whole("copies", copies, 1, 1 << 10)
        self._persist_every = persist_every
        if persist_every is not None:
            self._persist_every = _arguments.whole("persist_every", persist_every, 1, 1 << 30)
        if self._persist_every is not None and fallback is None:
            raise failure("usage", "persist_every saves to `fallback`, which is not given")
        self._fallback = None if fallback is None else Path(os.path.abspath(os.fsdecode(fallback)))
        self._traffic = Traffic(traffic)
        self._ranks = Ranks(group, no_dist)
        self._machines = Machines.find(self._ranks, machine, domain, timeout)
        is_default = directory is None and "UCP_MEMORY_DIRECTORY" not in os.environ
        self._folder = TierFolder(folder_of(job, directory), is_default)
        self._calls = self._failures = self._skipped = 0
        self._meetings = 1  # Of machines, which all have come to.
        self._took: Took | None = None  # By which every="auto" chose.
        self._owes_storage = False  # A version that is due there was skipped.
        self._persisted = 0
        self._last = 0  # The step of the last version.
        self._is_late = False  # A version that was due is not begun yet.
        self._has_earlier = True  # Versions, perhaps; one may be finished when this start has begun.
        self._paused = ""  # Why there are no versions any more.
        self._is_replicated = False  # On several machines, each of which holds all of the state.
        self._stored: Versions | None = None
        self._copies: Copies | None = None
        try:
            self._machines.first_does(partial(self._take_folder, timeout))
            self._epoch, self._world = self._agree_on_start()
            self.restored = self._restore()
            how: dict[str, Any] = {"no_dist": no_dist, "timeout": timeout, "threads": threads}
            self._how = how | {"copies": min(copies, self._machines.count)}
            if self._state.is_there:
                self._begin()
        except BaseException as error:
            for versions in (vars(self).get("_kept"), self._stored):  # Their writers would hold the job's folder.
                if versions is not None:
                    with suppress(_ucp.Error):
                        versions.saver.__exit__(type(error), error, None)
            self._folder.release()
            raise
        self.first_step = 0 if self.restored is None else self.restored.step + 1

    def step(self, step: int) -> None:
        """At the end of iteration `step`: keeps a version if it is time for one. All ranks call it alike.

        The state may change again when the next step of the optimizer begins, which waits for what is being copied.
        """
        self._calls += 1
        self._watch.beat(step)
        self._traffic.beat(1 if self._every == "auto" else int(self._every))
        self._clean_up()
        if self._every == "auto" and self._calls >= _CALLS_BEFORE_CHOICE:
            self._choose_interval()
        is_due = self._calls == 1 or (self._every != "auto" and (self._calls - 1) % int(self._every) == 0)
        is_due = is_due or self._is_late
        persists = self._persist_every is not None and (step + 1) % self._persist_every == 0
        if self._machines.count > 1:
            if is_due or persists:
                self._owes_storage = self._owes_storage or persists
                self._keep_part(step)
            return
        if is_due:
            self._is_late = False
            self._attempt(self._kept, self._folder.path / f"step-{step}", step)
        if self._stored is not None and persists:
            assert self._fallback is not None
            self._attempt(self._stored, self._fallback / f"step-{step}", step)

    def report(self) -> dict[str, Any]:
        """Counts, and what was chosen."""
        copies = self._copies
        told: dict[str, Any] = {
            "folder": str(self._folder.path),
            "every": self._every,
            "versions": self._kept.begun,
            "persisted": self._persisted if self._stored is None else self._stored.begun,
            "failures": self._failures,
            "seconds_of_version": 0.0 if self._took is None else self._took.version,
            "why": "" if self._took is None else self._took.reason(),
            "restored": None if self.restored is None else {"step": self.restored.step, "path": self.restored.path},
            "machines": self._machines.names,
            "paused": self._paused,
        }
        if self._machines.count > 1:
            told["skipped"] = self._skipped
            told["replicated"] = self._is_replicated
            told["keepers"] = [[self._machines.names[keeper] for keeper in of_one] for of_one in self._keepers]
        if copies is not None:  # Of the first rank of each machine.
            told["traffic"] = copies.traffic.report()
            told["committed"] = None if copies.committed is None else copies.committed.step
            told["bytes_sent"] = copies.bytes_sent
        return told

    def close(self, keep: bool = False) -> None:
        """Ends the tier when the job has ended well. Its versions are removed, unless `keep`."""
        try:
            self._kept.saver.close()
            if self._stored is not None:
                self._stored.saver.close()
            if self._copies is not None:
                self._copies.close()
        finally:
            if not keep and self._machines.speaks:
                self._folder.keep_alone(None)
            self._folder.release()

    def __enter__(self) -> Tier:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            return self.close()
        for versions in (self._kept, self._stored):  # A save that all ranks have begun is finished, and stays.
            if versions is not None:
                versions.saver.__exit__(kind, error, trace)
        if self._copies is not None:
            self._copies.close(patience=5)
        return self._folder.release()

    def _attempt(self, versions: Versions, path: Path, step: int) -> None:
        """Begins to save. Training does not stop for an error of the save before, unless it shall."""
        try:
            versions.begin(path, self._entries(step))
        except _ucp.Error as error:
            self._tell(f"could not save the version before `{path}`: {error}", error)

    def _tell(self, problem: str, error: Exception | None = None) -> None:
        self._failures += 1
        if self._strict:
            raise error if error is not None else failure("io", f"ucp.memory {problem}")
        if self._ranks.rank == 0:
            _log.warning("ucp.memory %s", problem)

    def _keep_part(self, step: int) -> None:
        """All ranks begin a version, or none: while the one before is not settled, there is no memory for it."""
        if not self._may_begin():
            self._skipped += 1
            self._is_late = not self._paused
            return
        self._is_late = False
        self._last = step
        version = Version(self._epoch, step, self._world)
        number, count = (0, 1) if self._is_replicated else (self._machines.mine, self._machines.count)
        path = self._folder.of_part(version, number, count)
        if self._machines.speaks:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._kept.saving = None
        with suppress(_ucp.Error):  # The copies of the machine have the error, and all machines hear of it.
            self._kept.begin(path, self._entries(step))
        if self._copies is not None:
            target = self._fallback / f"step-{step}" if self._owes_storage and self._fallback is not None else None
            self._copies.add(version, self._kept.saving, target, f"{self._world}/{self._meetings}")
        self._persisted += self._owes_storage
        self._owes_storage = False

    def _may_begin(self) -> bool:
        if self._paused:
            return False
        try:
            least = self._ranks.least(IS_READY if self._copies is None else self._copies.state())
            if least != HAS_PROBLEM:
                return least == IS_READY
            said = self._ranks.all_tell(self._problem_of_version())
        except (RuntimeError, _ucp.Error) as error:
            self._pause(error)
            return False
        self._meetings += 1
        complete = min(int(step) for _, step in said if step is not None)  # For all.
        if self._copies is not None:
            version = None if complete < 0 else Version(self._epoch, complete, self._world)
            self._copies.agree_on(version, self._world)
        problem = next(problem for problem, _ in said if problem)
        self._tell(f"could not complete the version of step {self._last}: {problem}")
        return True

    def _problem_of_version(self) -> tuple[str, int | None]:
        """With the step that is complete for this machine, -1 for none. Nothing of ranks that do not speak for it."""
        if self._copies is None:
            return "", None
        complete = self._copies.complete
        return self._copies.take_problem(), -1 if complete is None else complete.step

    def _pause(self, error: Exception) -> None:
        self._paused = str(error)
        self._tell(f"keeps no more versions, since a rank is gone: {error}", failure("io", str(error)))

    def _choose_interval(self) -> None:
        """When the first version is complete everywhere, and the network is watched. If it has failed, another one is
        due."""
        if self._paused:
            return
        copies = self._copies
        try:
            least = self._ranks.least(self._kept.state() if copies is None else copies.state())
            if least != IS_READY:
                self._is_late = self._is_late or least == HAS_PROBLEM
                return
            mine = self._traffic.took(self._kept.seconds() if copies is None else copies.seconds)
            said = [Took(*of_rank) for of_rank in self._ranks.all_tell(astuple(mine))]
        except (RuntimeError, _ucp.Error) as error:
            return self._pause(error)
        self._took = max(said, key=lambda took: took.interval)
        self._every = self._took.interval
        if self._ranks.rank == 0:
            _log.info("ucp.memory: a version each %d iterations: %s", self._every, self._took.reason())
        return None

    def _clean_up(self) -> None:
        """Of a job on one machine: removes versions of earlier starts, when there is one of this start. On rank 0."""
        if self._ranks.rank != 0 or not self._has_earlier or self._machines.count > 1:
            return
        if any(version in self._kept.paths for version in versions_in(self._folder.path)):
            self._folder.keep_alone(None, self._kept.paths)
            self._has_earlier = False

    def _entries(self, step: int) -> dict[str, Any]:
        mine, tensors = self._state.now()
        if self._extra is not None:
            mine["extra"] = dict(_arguments.mapping("what `extra` returns", self._extra()))
        entry: dict[str, Any] = {"step": step, "ranks": self._ranks.size, f"rank_{self._ranks.rank}": mine}
        if self._is_replicated:  # The version of each machine has all of the state.
            for rank, said in enumerate(self._ranks.all_gather(pickle.dumps(mine))):
                entry[f"rank_{rank}"] = pickle.loads(said)  # Of this very job.
        return {ENTRY: entry, **tensors}

    def _entry_of(self, path: str) -> Restored:
        """Gives the job the values of a version."""
        step, of_ranks = values_of(path)
        mine = self._ranks.rank if len(of_ranks) == self._ranks.size else 0
        self._state.take(path, of_ranks[mine] if of_ranks else {}, self._ranks.rank == 0)
        return Restored(step, path, [dict(of_rank.get("extra", {})) for of_rank in of_ranks])

    def _take_folder(self, timeout: float) -> None:
        self._folder.take(timeout)
        self._folder.mark(self._state.is_of_engine)
        if self._persist_every is not None and self._fallback is not None:
            self._fallback.mkdir(parents=True, exist_ok=True)

    def _agree_on_start(self) -> tuple[int, str]:
        """A later epoch than any that a machine knows of (M4)."""
        said = self._ranks.all_tell([self._folder.next_epoch() if self._machines.speaks else 0, new_world()])
        return max(int(epoch) for epoch, _ in said), str(said[0][1])

    def _begin(self) -> None:
        """From now on there is a state to keep. All ranks call it."""
        how = self._how | {"extra": self._entries(0), "lock_file": os.fsencode(self._folder.writers)}
        self._make_savers(how.pop("copies"), how)

    def _make_savers(self, copies: int, how: dict[str, Any]) -> None:
        if self._machines.count == 1:
            how["group"] = self._ranks.of_job
            self._kept = self._versions(None, how | {"keep": 1})
            self._machines.first_does(partial(self._folder.check_room, self._kept.bytes()))
            if self._persist_every is not None:
                self._stored = self._versions(None, how | {"lock_file": b""})  # No restart waits for storage.
            return
        self._keepers = _ucp.keepers(self._machines.count, copies, self._machines.domains)
        how["group"] = self._machines.group
        self._kept = self._versions(self._machines.mine, how)
        if self._state.is_named_alike:
            saver: Any = self._kept.saver
            self._machines.check_alike(saver.names())
            self._is_replicated = all(self._ranks.all_tell(saver.holds_all()))
        if self._is_replicated:
            self._kept.saver.close()
            self._keepers = [[machine] for machine in range(self._machines.count)]
            self._kept = self._versions(None, how | {"extra": self._entries(0)})
        sizes = self._ranks.all_tell(self._kept.bytes())
        of_machines = [sizes[self._machines.first_rank(machine)] for machine in range(self._machines.count)]
        mine = self._machines.mine
        others = sum(of_machines[owner] for owner, of_one in enumerate(self._keepers) if mine in of_one[1:])
        self._machines.first_does(partial(self._folder.check_room, self._kept.bytes() + others))
        if self._machines.speaks:
            self._copies = Copies(self._machines, self._folder, self._keepers, self._is_replicated, self._traffic)

    def _versions(self, part: int | None, how: dict[str, Any]) -> Versions:
        return Versions(self._state.saver(part, **how), self._state.waits)

    def _restore(self) -> Restored | None:
        """The newest version that can be read; all ranks take the same."""
        problems = []
        recovery = Recovery(self._machines, self._folder, self._world)
        candidates: list[Candidate | str] = [*recovery.candidates(), *self._stored_before()]
        for candidate in candidates:
            name = candidate if isinstance(candidate, str) else str(self._folder.whole(candidate.version))
            try:
                path = candidate if isinstance(candidate, str) else str(recovery.bring(candidate))
                # Every byte of what is in parts has been compared with its digest.
                verify = isinstance(candidate, str) or candidate.version.epoch == 0
                self._state.load(path, self._machines, self._folder.path, verify)
                restored = self._ranks.all_do(partial(self._entry_of, path))
            except _ucp.Error as error:
                problems.append(f"`{name}`: {error}")
                continue
            if self._ranks.rank == 0:
                for problem in problems:
                    _log.warning("ucp.memory cannot read a version: %s", problem)
            if self._machines.speaks:  # Newer ones cannot be read, and the job comes to their steps again.
                self._folder.keep_alone(None if isinstance(candidate, str) else candidate.version, [Path(path)])
            return restored
        if problems:
            raise failure("data", f"no version of the job can be read: {'; '.join(problems)}")
        return None

    def _stored_before(self) -> list[str]:
        """In the fallback, as rank 0 sees it; the newest first."""
        found = [str(version) for version in versions_in(self._fallback)] if self._ranks.rank == 0 else []
        told: list[str] = self._ranks.all_tell(found)[0]
        return told
