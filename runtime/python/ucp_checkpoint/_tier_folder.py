"""The folder of a tier on one machine: versions, which are whole or in parts, by name.

    lock                                 held by the job that runs
    writers                              ... and by each of its processes that write, which may outlive it
    engine                               there, and empty: versions are of a DeepSpeed engine, in records of its files
    step-N                               a version of a job on one machine, a whole checkpoint
    parts/EPOCH-WORLD-N/0-of-3           what machine 0 of 3 held at step N
    parts/EPOCH-WORLD-N/1-of-3           ... and a copy of what machine 1 held
    parts/EPOCH-WORLD-N/whole            all parts as one checkpoint, where all are here

If each machine holds all of the state, the one part of a version is on all of them: 0-of-1.

A part has its name from when it is complete (M3). WORLD is a name of one start of the job, and EPOCH counts starts:
what two starts have left is never put together, and of two versions the one of the later start is the newer one (M4).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ucp_checkpoint import _ucp
from ucp_checkpoint._failure import failure
from ucp_checkpoint._versions import bytes_in, folder_of, versions_in

_NAME = re.compile(r"(\d{6})-([0-9a-f]{8})-(\d{1,18})")
_PART = re.compile(r"(\d{1,6})-of-(\d{1,6})")
_MANIFEST = "ucp_manifest.json"
_FILE = re.compile(r"__\d{1,6}(_\d{1,6}\.distcp|\.metadata)|\.metadata|ucp_manifest\.json")
_OF_ENGINE = "engine"
_THREADS = 2
_NO_WORLD = "00000000"
_OPEN = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, order=True)
class Version:
    """The state at the end of a step. The newer one is the larger one."""

    epoch: int  # 0 of a version that is one part, as a job on one machine keeps it.
    step: int
    world: str

    @property
    def name(self) -> str:
        return f"{self.epoch:06}-{self.world}-{self.step}"


@dataclass(frozen=True)
class Part:
    """One that is complete."""

    version: Version
    number: int
    count: int
    files: tuple[tuple[str, int], ...]  # Names and bytes.
    manifest: str  # Its hash. The manifest has the digests of the other files.

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> Part:
        files = tuple((str(name), int(size)) for name, size in said["files"])
        for name, size in files:
            if _FILE.fullmatch(name) is None or not 0 <= size < 1 << 60:
                raise failure("data", f"a machine names the file `{name}` of {size} bytes, which no part has")
        return cls(Version(**said["version"]), int(said["number"]), int(said["count"]), files, str(said["manifest"]))


class TierFolder:
    """Used by the rank that speaks for the machine; others ask for paths alone."""

    def __init__(self, path: Path, is_default: bool) -> None:
        self.path = path
        self.parts = path / "parts"
        self.writers = path / "writers"
        self._is_default = is_default
        self._lock: int | None = None

    def take(self, patience: float) -> None:
        """Of this user alone, and of one job at a time, when nobody writes for an earlier start of it any more."""
        for folder in (self.path.parent, self.path):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in [self.path.parent, self.path] if self._is_default else [self.path]:
            found = folder.lstat()
            if found.st_uid != os.geteuid() or found.st_mode & 0o022 or not stat.S_ISDIR(found.st_mode):
                raise failure("io", f"`{folder}` is not a folder that this user alone may change; pass directory=")
        self._lock = os.open(self.path / "lock", _OPEN, 0o600)
        if not _locked(self._lock):
            other = _process_in(self._lock)
            self.release()
            said = f"the job `{self.path.name}` runs already, as process {other} on this machine; name another job"
            raise failure("usage", said)
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, str(os.getpid()).encode(), 0)
        self._wait_for_writers(patience)
        for above in (self.path, self.parts):
            for place in above.glob(".*"):  # Of writers that were killed.
                _remove(place)

    def _wait_for_writers(self, patience: float) -> None:
        """A version that they finish is the newest one, and then they remove the one before."""
        until = time.monotonic() + patience
        file = os.open(self.writers, _OPEN, 0o600)
        try:
            while not _locked(file):
                if time.monotonic() >= until:
                    said = f"an earlier start of the job `{self.path.name}` is still written for by process "
                    said += f"{_process_in(file)} on this machine, which has not ended within {patience:g} s"
                    raise failure("io", f"{said}; end that process, or name another job")
                time.sleep(0.01)
        finally:
            os.close(file)

    def mark(self, is_of_engine: bool) -> None:
        """Says what versions hold."""
        mark = self.path / _OF_ENGINE
        if is_of_engine:
            mark.touch(mode=0o600)
        else:
            mark.unlink(missing_ok=True)

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def of_part(self, version: Version, number: int, count: int) -> Path:
        if version.epoch == 0:
            return self.path / f"step-{version.step}"
        return self.parts / version.name / f"{number}-of-{count}"

    def whole(self, version: Version) -> Path:
        if version.epoch == 0:
            return self.of_part(version, 0, 1)
        return self.parts / version.name / "whole"

    def versions(self) -> list[Version]:
        """Those in parts, of which something is here; the oldest first."""
        if not self.parts.is_dir():
            return []
        matches = [_NAME.fullmatch(place.name) for place in self.parts.iterdir()]
        return sorted(Version(int(found[1]), int(found[3]), found[2]) for found in matches if found is not None)

    def complete_parts(self) -> list[Part]:
        found = []
        for place in versions_in(self.path):
            with suppress(FileNotFoundError):  # Somebody has just removed it.
                found.append(self.part(Version(0, int(place.name.removeprefix("step-")), _NO_WORLD), 0, 1))
        for version in reversed(self.versions()):
            for place in sorted((self.parts / version.name).glob("*")):
                match = _PART.fullmatch(place.name)
                if match is not None and place.is_dir():
                    with suppress(FileNotFoundError):
                        found.append(self.part(version, int(match[1]), int(match[2])))
        return found

    def part(self, version: Version, number: int, count: int) -> Part:
        folder = self.of_part(version, number, count)
        files = tuple(
            (file.name, file.lstat().st_size) for file in sorted(folder.iterdir()) if _FILE.fullmatch(file.name)
        )
        manifest = folder / _MANIFEST
        content = manifest.read_bytes() if manifest.is_file() else b""
        return Part(version, number, count, files, hashlib.sha256(content).hexdigest())

    def faults_of(self, part: Part, folder: Path | None = None) -> list[str]:
        """Sentences on files whose bytes are not those that were written. `folder`: of a copy that is being made."""
        place = self.of_part(part.version, part.number, part.count) if folder is None else folder
        manifest = place / _MANIFEST
        content = manifest.read_bytes() if manifest.is_file() else b""
        if hashlib.sha256(content).hexdigest() != part.manifest:
            return [f"`{place}`: `{_MANIFEST}` is not that of its owner"]
        try:
            return [f"`{place}`: {fault}" for fault in _ucp.check_files(os.fsencode(place), _THREADS)]
        except _ucp.Error as error:
            return [str(error)]

    def begin_copy(self, part: Part) -> Path:
        """A hidden folder with room for all files."""
        from ucp_checkpoint._streams import reserve

        target = self.of_part(part.version, part.number, part.count)
        folder = target.with_name(f".{target.name}.copy")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, parents=True)
        for name, size in part.files:
            reserve(folder / name, size)
        return folder

    def finish_copy(self, part: Part, folder: Path) -> None:
        target = self.of_part(part.version, part.number, part.count)
        shutil.rmtree(target, ignore_errors=True)
        folder.rename(target)

    def join(self, version: Version, count: int) -> bool:
        """Makes all parts of a version one checkpoint, of links; whether all are here."""
        if version.epoch == 0:
            return True
        folders = [self.of_part(version, number, count) for number in range(count)]
        if not all(folder.is_dir() for folder in folders):
            return False
        whole = self.whole(version)
        made = whole.with_name(".whole")
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(mode=0o700)
        for folder in folders:
            for file in folder.iterdir():
                if count == 1 or file.name.startswith("__"):
                    os.link(file, made / file.name)
        shutil.rmtree(whole, ignore_errors=True)
        made.rename(whole)
        return True

    def keep_alone(self, version: Version | None, paths: Collection[Path] = ()) -> None:
        """Removes all other versions, but for those of one part at `paths`."""
        for place in versions_in(self.path):
            if place not in paths and (version is None or place != self.of_part(version, 0, 1)):
                _remove(place)
        for other in self.versions():
            if other != version:
                self.remove(other)

    def remove(self, version: Version) -> None:
        _remove(self.parts / version.name)

    def check_room(self, of_version: int) -> None:
        """For two versions (M7): free bytes, and those of versions that will be removed."""
        wanted = 2 * of_version
        space = os.statvfs(self.path)
        held = sum(bytes_in(version) for version in versions_in(self.path)) + bytes_in(self.parts)
        free = space.f_bavail * space.f_frsize + held
        if wanted > free:
            raise failure(
                "memory",
                f"two versions of the state have {wanted:,} bytes, and `{self.path}` has room for {free:,}; "
                "give /dev/shm more, or name another directory",
            )

    def next_epoch(self) -> int:
        return 1 + max((version.epoch for version in self.versions()), default=0)


def _locked(file: int) -> bool:
    """Whether this process could lock it for itself alone."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _process_in(file: int) -> str:
    """The one that has the lock."""
    number = re.match(rb"\d+", os.pread(file, 32, 0))
    return "unknown" if number is None else number[0].decode()


def _remove(place: Path) -> None:
    """A file, or a folder, whose name goes before its files do: half a version has no name."""
    hidden = place if place.name.startswith(".") else place.with_name(f".{place.name}.removed")
    with suppress(OSError):
        place = place.rename(hidden)
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place, ignore_errors=True)
    else:
        place.unlink(missing_ok=True)


def new_world() -> str:
    return secrets.token_hex(4)


def newest_whole(job: str) -> Path:
    """Of a job's versions that are whole on this machine, as a checkpoint that every command reads; `job` may have a
    folder before its name."""
    folder = _folder_of(job)
    if (folder.path / _OF_ENGINE).exists():
        said = f"the versions in `{folder.path}` are of a DeepSpeed engine: `python3 -m ucp_checkpoint.engine_folder "
        raise failure("usage", f"{said}memory:{job} OUT` writes the newest one as DeepSpeed's folder, which is read")
    return newest_version(job)


def _folder_of(job: str) -> TierFolder:
    above, _, name = job.rpartition("/")
    return TierFolder(folder_of(name, above or None), False)


def newest_version(job: str) -> Path:
    """The same of any job."""
    folder = _folder_of(job)
    parts = [(version.step, folder.whole(version)) for version in reversed(folder.versions())]
    whole = [(step, place) for step, place in parts if place.is_dir()]
    alone = [(int(place.name.removeprefix("step-")), place) for place in versions_in(folder.path)]
    if alone and (not whole or alone[0][0] > whole[0][0]):
        return alone[0][1]
    if whole:
        return whole[0][1]
    if parts:
        raise failure("usage", f"of step {parts[0][0]} in `{folder.path}`, this machine has not all parts")
    raise failure("usage", f"there are no versions of a job in `{folder.path}`")
