"""`Tier`: the state of a job in the memory of its machine, every few iterations, for a restart after a failure.

A version is a checkpoint in a folder in memory (`/dev/shm`), which outlives the processes of the job.
docs/memory-tier.md says what is kept and removed, and when.
"""

from __future__ import annotations

import fcntl
import json
import logging
import math
import os
import shutil
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ucp_checkpoint import _arguments, _ucp
from ucp_checkpoint._agree import agree
from ucp_checkpoint._arrays import need_torch
from ucp_checkpoint._failure import failure
from ucp_checkpoint._into import load_into
from ucp_checkpoint._save import Saver
from ucp_checkpoint._source import source_from
from ucp_checkpoint._versions import Versions, bytes_in, folder_of, versions_in

if TYPE_CHECKING:
    import torch

    from ucp_checkpoint._ranks import Group

_ENTRY = "ucp_memory"  # Of a version, beside model and optimizer.
_CALLS_BEFORE_CHOICE = 5  # Of step(), before every="auto" chooses.
_log = logging.getLogger("ucp_checkpoint")
T = TypeVar("T")


@dataclass
class Restored:
    """The version that a job goes on from."""

    step: int
    path: str
    extras: list[dict[str, Any]] = field(default_factory=list)  # By the ranks of the job that saved it.


class Tier:
    """Keeps the state of a job in the memory of its machine.

    All ranks make one after they have wrapped the model, and before they train: it restores the newest version of
    `job`, or the newest checkpoint that it has saved to `fallback`, if there is one. `model` and `optimizer` are those
    of `ucp.Saver`. `every` is the number of iterations from one version to the next, or "auto": as few as the writer
    keeps up with. With `persist_every` a further save of each so many iterations goes to `fallback`, by a writer of its
    own. `extra` is called for each version and returns a dict of values, such as the states of a scheduler and of the
    data loader on this rank. An error of a version is a warning, and training goes on, unless `strict`.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        job: str | None = None,
        fallback: str | os.PathLike[str] | None = None,
        every: int | str = "auto",
        persist_every: int | None = None,
        extra: Callable[[], Mapping[str, Any]] | None = None,
        directory: str | os.PathLike[str] | None = None,
        group: object = None,
        no_dist: bool = False,
        strict: bool = False,
        timeout: float = 600,
        threads: int | None = None,
    ) -> None:
        need_torch("Tier() keeps tensors of PyTorch")
        self._extra = extra
        self._groups: list[dict[str, Any]] = [] if optimizer is None else optimizer.param_groups
        self._strict = _arguments.flag("strict", strict)
        self._every = every if every == "auto" else _arguments.whole("every", every, 1, 1 << 30)
        self._persist_every = persist_every
        if persist_every is not None:
            self._persist_every = _arguments.whole("persist_every", persist_every, 1, 1 << 30)
        if self._persist_every is not None and fallback is None:
            raise failure("usage", "persist_every saves to `fallback`, which is not given")
        self._fallback = None if fallback is None else Path(os.path.abspath(os.fsdecode(fallback)))
        self._ranks = _Ranks(group, no_dist)
        self._folder = folder_of(job, directory)
        self._is_default = directory is None
        self._lock: int | None = None
        self._calls = self._failures = 0
        self._seconds_of_version = 0.0
        self._has_earlier = True  # Versions, perhaps; one may be finished when this start has begun.
        self._ranks.first_does(self._take_folder)
        try:
            self.restored = self._restore(model, optimizer)
            how: dict[str, Any] = {"group": group, "no_dist": no_dist, "timeout": timeout, "threads": threads}
            how["extra"] = self._entries(0)
            self._kept = Versions(Saver(model, optimizer, keep=1, **how))
            self._ranks.first_does(self._check_room)
            self._stored = None if self._persist_every is None else Versions(Saver(model, optimizer, **how))
        except BaseException:
            self._release()
            raise
        self.first_step = 0 if self.restored is None else self.restored.step + 1

    def step(self, step: int) -> None:
        """At the end of iteration `step`: keeps a version if it is time for one. All ranks call it alike.

        The state may change again when the next step of the optimizer begins, which waits for what is being copied.
        """
        self._calls += 1
        self._clean_up()
        if self._every == "auto" and self._calls == _CALLS_BEFORE_CHOICE:
            self._choose_interval()
        if self._calls == 1 or (self._every != "auto" and (self._calls - 1) % int(self._every) == 0):
            self._attempt(self._kept, self._folder / f"step-{step}", step)
        if self._stored is not None and (step + 1) % (self._persist_every or 1) == 0:
            assert self._fallback is not None
            self._attempt(self._stored, self._fallback / f"step-{step}", step)

    def report(self) -> dict[str, Any]:
        """Counts, and what was chosen."""
        return {
            "folder": str(self._folder),
            "every": self._every,
            "versions": self._kept.begun,
            "persisted": 0 if self._stored is None else self._stored.begun,
            "failures": self._failures,
            "seconds_of_version": self._seconds_of_version,
            "restored": None if self.restored is None else {"step": self.restored.step, "path": self.restored.path},
        }

    def close(self, keep: bool = False) -> None:
        """Ends the tier when the job has ended well. Its versions are removed, unless `keep`."""
        try:
            self._kept.saver.close()
            if self._stored is not None:
                self._stored.saver.close()
        finally:
            if not keep and self._ranks.rank == 0:
                for version in versions_in(self._folder):
                    shutil.rmtree(version, ignore_errors=True)
            self._release()

    def __enter__(self) -> Tier:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            return self.close()
        for versions in (self._kept, self._stored):  # A save that all ranks have begun is finished, and stays.
            if versions is not None:
                versions.saver.__exit__(kind, error, trace)
        return self._release()

    def _attempt(self, versions: Versions, path: Path, step: int) -> None:
        """Begins to save. Training does not stop for an error of the save before, unless it shall."""
        try:
            versions.begin(path, self._entries(step))
        except _ucp.Error as error:
            self._failures += 1
            if self._strict:
                raise
            if self._ranks.rank == 0:
                _log.warning("ucp.memory could not save the version before `%s`: %s", path, error)

    def _choose_interval(self) -> None:
        """From how long the first version took, on the slowest rank, and the iterations since."""
        iteration = (time.monotonic() - self._kept.began) / (_CALLS_BEFORE_CHOICE - 1)
        mine = json.dumps([self._kept.seconds(), iteration]).encode()
        said = [json.loads(text) for text in self._ranks.all_gather(mine)]
        self._seconds_of_version = max(seconds for seconds, _ in said)
        shortest = min(seconds for _, seconds in said)
        self._every = max(1, math.ceil(self._seconds_of_version / max(shortest, 1e-6)))

    def _clean_up(self) -> None:
        """Removes versions of earlier starts of the job, when there is one of this start. On rank 0."""
        if self._ranks.rank != 0 or not self._has_earlier:
            return
        found = versions_in(self._folder)
        if any(version in self._kept.paths for version in found):
            for version in found:
                if version not in self._kept.paths:
                    shutil.rmtree(version, ignore_errors=True)
            self._has_earlier = False

    def _entries(self, step: int) -> dict[str, Any]:
        mine: dict[str, Any] = {"groups": [_settings_of(group) for group in self._groups]}
        if self._extra is not None:
            mine["extra"] = dict(_arguments.mapping("what `extra` returns", self._extra()))
        return {_ENTRY: {"step": step, "ranks": self._ranks.size, f"rank_{self._ranks.rank}": mine}}

    def _entry_of(self, path: str) -> Restored:
        """The values of a version, read as data. Gives the groups of the optimizer their settings."""
        from ucp_checkpoint._served import serve

        entry = serve(_ucp.describe(source_from(path), 1), "plain").nested.get(_ENTRY)
        if not isinstance(entry, dict) or not isinstance(entry.get("step"), int):
            raise failure("data", f"`{path}` is not a version of ucp.memory: it has no step in `{_ENTRY}`")
        of_ranks = [entry[f"rank_{rank}"] for rank in range(len(entry)) if isinstance(entry.get(f"rank_{rank}"), dict)]
        if len(of_ranks) != entry.get("ranks"):
            raise failure("data", f"`{path}` has entries of {len(of_ranks)} ranks, and says {entry.get('ranks')!r}")
        mine = self._ranks.rank if len(of_ranks) == self._ranks.size else 0
        groups = of_ranks[mine].get("groups", []) if of_ranks else []
        if len(groups) == len(self._groups):
            for group, settings in zip(self._groups, groups, strict=True):
                _give_settings(group, settings)
        elif self._ranks.rank == 0:
            said = "ucp.memory: `%s` has %d groups of parameters and the optimizer %d; it keeps its own settings"
            _log.warning(said, path, len(groups), len(self._groups))
        return Restored(entry["step"], path, [dict(of_rank.get("extra", {})) for of_rank in of_ranks])

    def _take_folder(self) -> None:
        """Of this user alone, and of one job at a time. On rank 0."""
        for folder in (self._folder.parent, self._folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._persist_every is not None and self._fallback is not None:
            self._fallback.mkdir(parents=True, exist_ok=True)
        for folder in [self._folder.parent, self._folder] if self._is_default else [self._folder]:
            found = folder.lstat()
            if found.st_uid != os.geteuid() or found.st_mode & 0o022 or not stat.S_ISDIR(found.st_mode):
                raise failure("io", f"`{folder}` is not a folder that this user alone may change; pass directory=")
        self._lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = os.pread(self._lock, 32, 0).decode(errors="replace").strip()
            os.close(self._lock)
            self._lock = None
            said = f"the job `{self._folder.name}` runs already, as process {other} on this machine; name another job"
            raise failure("usage", said) from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, str(os.getpid()).encode(), 0)

    def _check_room(self) -> None:
        """Two versions are there for a moment. On rank 0."""
        wanted = 2 * int(self._kept.saver.plan["bytes_to_write"])
        space = os.statvfs(self._folder)
        free = space.f_bavail * space.f_frsize + sum(bytes_in(version) for version in versions_in(self._folder))
        if wanted > free:
            raise failure(
                "memory",
                f"two versions of the state have {wanted:,} bytes, and `{self._folder}` has room for {free:,}; give "
                "/dev/shm more, or name another directory",
            )

    def _restore(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None) -> Restored | None:
        """The newest version that can be read; all ranks take the same."""
        problems = []
        for path in self._candidates():
            try:
                how: dict[str, Any] = {"strict": False, "trust_ties": True, "verify": True, "group": self._ranks.of_job}
                load_into(model, path, optimizer=optimizer, **how)
                restored = self._ranks.all_do(partial(self._entry_of, path))
            except _ucp.Error as error:
                problems.append(f"`{path}`: {error}")
                continue
            if self._ranks.rank == 0:
                for problem in problems:
                    _log.warning("ucp.memory cannot read a version: %s", problem)
                self._keep_alone(path)
            return restored
        if problems:
            raise failure("data", f"no version of the job can be read: {'; '.join(problems)}")
        return None

    def _keep_alone(self, path: str) -> None:
        """Versions that are newer cannot be read, and the job comes to their steps again."""
        for version in versions_in(self._folder):
            if str(version) != path:
                shutil.rmtree(version, ignore_errors=True)

    def _candidates(self) -> list[str]:
        """As rank 0 sees them: in memory, then in the fallback; the newest first."""
        found: list[str] = []
        if self._ranks.rank == 0:
            for folder in (self._folder, self._fallback):
                found += [str(version) for version in versions_in(folder)]
        told: list[str] = json.loads(self._ranks.all_gather(json.dumps(found).encode())[0])
        return told

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


class _Ranks:
    """Those that keep versions together; a process alone has no group."""

    def __init__(self, group: object, no_dist: bool) -> None:
        import torch.distributed as dist

        self.of_job: Any = None
        if not no_dist and dist.is_available() and dist.is_initialized():
            self.of_job = dist.group.WORLD if group is None else group
        self.rank = 0 if self.of_job is None else dist.get_rank(self.of_job)
        self.size = 1 if self.of_job is None else dist.get_world_size(self.of_job)

    def all_gather(self, mine: bytes) -> list[bytes]:
        group = self._group()
        return [mine] if group is None else group.all_gather(mine)

    def all_do(self, work: Callable[[], T]) -> T:
        """An error of one is raised on all."""
        made: list[T] = []
        problem: Exception | None = None
        try:
            made.append(work())
        except _ucp.Error as error:
            problem = error
        except OSError as error:
            problem = failure("io", f"`{error.filename}`: {(error.strerror or str(error)).lower()}")
        agree(self._group(), problem)
        return made[0]

    def first_does(self, work: Callable[[], None]) -> None:
        """On rank 0; its error is raised on all."""
        self.all_do(work if self.rank == 0 else lambda: None)

    def _group(self) -> Group | None:
        if self.of_job is None:
            return None
        from ucp_checkpoint._ranks import Group

        return Group(self.of_job, "ucp.memory.Tier")


def _settings_of(group: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name not in ("params", "param_names")}


def _give_settings(group: dict[str, Any], settings: Mapping[str, Any]) -> None:
    """A learning rate that is a tensor stays that tensor."""
    import torch

    for name, value in settings.items():
        if isinstance(group.get(name), torch.Tensor):
            group[name].fill_(float(value))
        elif name in group:
            group[name] = value
