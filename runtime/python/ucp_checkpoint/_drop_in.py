"""The common part of the drop-ins for DeepSpeed's scripts: options, sentences and exit codes as those of the programs,
and a destination that appears when everything is written."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from ucp_checkpoint import _arguments
from ucp_checkpoint._failure import failure
from ucp_checkpoint._ucp import Error

_CODE_1 = ("usage", "spec", "memory")


class Options(argparse.ArgumentParser):
    """A wrong command line gets one sentence and exit code 1."""

    def error(self, message: str) -> NoReturn:
        self.exit(1, f"{self.prog}: error: {message}\nSee `{self.prog} --help`.\n")

    def note(self, message: str) -> None:
        """On standard error."""
        print(f"{self.prog}: note: {message}", file=sys.stderr)

    def add_model(self) -> None:
        """The options that say how tensor parallelism cuts the tensors."""
        self.add_argument("--spec", help="how tensors are cut: a .ucp file, or a name of the catalogue")
        self.add_argument(
            "--set", dest="sets", action="append", default=[], metavar="NAME=VALUE",
            help="a value for a dim or a fact of the spec; may be repeated",
        )  # fmt: skip

    def run(self, work: Callable[[], None]) -> int:
        """Does the work, and returns the exit code."""
        try:
            work()
        except Error as error:
            print(f"{self.prog}: error: {error}", file=sys.stderr)
            return 1 if error.code in _CODE_1 else 2
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            print(f"{self.prog}: error: `{error.filename}` cannot be written: {reason}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            return 130
        return 0


def absolute(name: str, path: object) -> Path:
    """A destination; `name` is the argument's."""
    return Path(os.path.abspath(os.fsdecode(_arguments.path(name, path))))


@contextmanager
def work_folder(out: Path, *, is_inside: bool = False) -> Iterator[Path]:
    """A hidden folder on the way to `out`, for files that are renamed when all are complete. It is removed. With
    `is_inside` it is in `out` if that exists, which may be on another disk than the folder above."""
    above = next(folder for folder in ([out] if is_inside else []) + [*out.parents, Path("/")] if folder.exists())
    if not above.is_dir():
        raise failure("io", f"`{out}` cannot be written: `{above}` is not a folder")
    place = Path(tempfile.mkdtemp(prefix=f".{out.name}.ucp-", dir=above))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def sync(path: Path) -> None:
    """Makes a file, or the names in a folder, durable."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def put_in_place(made: Path, out: Path, names: Iterable[str]) -> None:
    """A folder that does not exist appears in one step; into one that does, the files are moved one after another, the
    last one of `names` last. Files that are there already are refused."""
    out.parent.mkdir(parents=True, exist_ok=True)
    if not os.path.lexists(out):
        os.rename(made, out)
        sync(out.parent)
        return
    for name in names:
        os.rename(made / name, out / name)
    sync(out)


def refuse_existing(out: Path, stem: str, suffix: str) -> None:
    """A file in the place of the folder, or files in it that would be replaced, whatever their number."""
    if os.path.lexists(out) and not out.is_dir():
        raise failure("usage", f"`{out}` is not a folder; name another one as output_dir")
    for pattern in (f"{stem}.{suffix}", f"{stem}.{suffix}.index.json", f"{stem}-*-of-*.{suffix}"):
        for file in sorted(out.glob(pattern)):
            raise failure("usage", f"`{file}` exists; remove it, or name another folder as output_dir")
