"""Runs that go wrong on purpose: failing_call.c lets a system call fail, or sends a signal there.

UCP_CALLS says how many calls of each kind go wrong, or `all`; UCP_SECONDS_EACH how long the calls of one kind, or the
kills, may take, and then UCP_CALLS_SEED which of them come first; UCP_PROGRESS=1 tells on standard error how far a test
is.
"""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from programs import PROGRAMS, ProgramTest, all_files

LIBRARY = PROGRAMS.parent / "lib" / "libucp_failing_call.so"
INTERNAL_WORDS = ("std::", "llvm", "0x7f", "Traceback", "terminate called")


CALLS = os.environ.get("UCP_CALLS", "")
TELLS = os.environ.get("UCP_PROGRESS") == "1"
SECONDS_BETWEEN = 10
LAUNCHES = 3  # On a busy machine a launcher can fail to start its ranks.
SECONDS_EACH = float(os.environ.get("UCP_SECONDS_EACH") or "inf")
CALLS_SEED = os.environ.get("UCP_CALLS_SEED", "20261122")


def some_of(calls: range, seed: object, sample: int) -> list[int]:
    """Those that go wrong: all, so many as are asked for, or a sample. The same ones every time."""
    if CALLS == "all":
        return list(calls)
    return sorted(random.Random(str(seed)).sample(calls, min(len(calls), int(CALLS or sample))))


class Progress:
    """Of one loop of a long test: a line now and then, and whether there is time for more."""

    last_told = time.monotonic()

    def __init__(self, what: str, of: int) -> None:
        """It begins now."""
        self.what = what
        self.of = of
        self.began = time.monotonic()

    def goes_on(self, number: int) -> bool:
        """That so many are done; whether another one may begin."""
        seconds = time.monotonic() - self.began
        ends = number >= self.of or seconds >= SECONDS_EACH
        if TELLS and (ends or time.monotonic() - Progress.last_told >= SECONDS_BETWEEN):
            Progress.last_told = time.monotonic()
            end = f", and that was all in {seconds:.0f} s" if ends else ""
            print(f"  {self.what}: {number} of {self.of}{end}", file=sys.stderr, flush=True)
        return not ends


def told(what: str, items: list[int], first: Collection[int] = ()) -> Iterator[int]:
    """The items, with their progress; where time is bounded, `first` and then the others in any order."""
    if math.isfinite(SECONDS_EACH):
        others = [item for item in items if item not in first]
        random.Random(f"{what} {CALLS_SEED}").shuffle(others)
        items = [*first, *others]
    progress = Progress(what, len(items))
    number = 0
    while progress.goes_on(number):
        yield items[number]
        number += 1


class Wrong:
    """A run of which one call went wrong, or would have, had it made so many."""

    def __init__(self, result: subprocess.CompletedProcess[str], line: str) -> None:
        """`line` is what the library logged."""
        self.result = result
        self.call, _, path = line.strip().partition(" ")
        self.happened = self.call != "none"
        self.calls = 0 if self.happened else int(path)
        self.where = f"{self.call} {path}"


class FailureTest(ProgramTest):
    """A conversion that goes wrong, and the run after it."""

    # A disk makes each of the thousands of syncs wait, and shows nothing that memory does not.
    parent_folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

    def setUp(self) -> None:
        """Without the library there is nothing to test."""
        if not LIBRARY.exists():
            self.skipTest(f"{LIBRARY} was not built: sanitizers do not go with it")
        super().setUp()

    source: Path
    arguments: tuple[object, ...] = ()
    counted: Mapping[str, str] = MappingProxyType({})

    def prepare(self, source: Path, *arguments: object) -> None:
        """The source, and the output of a run in which nothing goes wrong."""
        self.source = source
        self.arguments = arguments
        expected = self.folder / f"expected{len(list(self.folder.iterdir()))}"
        self.assertEqual(self.run_program("ucprun", "convert", source, expected, *arguments).returncode, 0)
        self.expected = all_files(expected)

    def wrong(self, call: int, what: str, *more: object) -> Wrong:
        """A run whose `call`-th call does `what` (failing_call.c)."""
        return self.run_wrong(self.command(*more), self.going_wrong(call, what), os.environ)

    def command(self, *more: object) -> list[str]:
        """The calls that fail. A journal's entry follows each chunk."""
        return [
            str(PROGRAMS / "ucprun"),
            "convert",
            str(self.source),
            str(self.out),
            *map(str, self.arguments),
            "--journal-every",
            "0",
            *map(str, more),
        ]

    def only_direct(self, name: str) -> None:
        """From here on only calls of this function are counted, on files past the page cache."""
        self.counted = {"UCP_FAILING_CALL_NAME": name, "UCP_FAILING_CALL_DIRECT": "1"}

    def going_wrong(self, call: int, what: str) -> dict[str, str]:
        """The environment that lets a process go wrong."""
        return {
            "LD_PRELOAD": str(LIBRARY),
            "UCP_FAILING_CALL": f"{call}:{what}",
            "UCP_FAILING_CALL_LOG": str(self.folder / "call.log"),
            **self.counted,
        }

    def run_wrong(self, command: list[str], *environments: Mapping[str, str]) -> Wrong:
        """Runs it, and reads what was logged."""
        log = self.folder / "call.log"
        environment = {name: value for given in environments for name, value in given.items()}
        for _ in range(LAUNCHES if command[0] == "mpirun" else 1):
            log.unlink(missing_ok=True)
            result = subprocess.run(
                command, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False, env=environment
            )
            line = log.read_text() if log.exists() else ""
            if line:
                return Wrong(result, line)
            what = f"nothing was logged, and {command[0]} ended with {result.returncode}: {result.stderr}"
            print(what, file=sys.stderr)
        raise AssertionError(what)

    def assert_one_sentence(self, wrong: Wrong) -> None:
        """The system is at fault, and our message says so; a folder that the system lacks is a fault of the command."""
        stderr = wrong.result.stderr
        is_wrong_command = "there is no folder" in stderr and "latest` names" not in stderr
        code = 1 if is_wrong_command else 2
        self.assertEqual(wrong.result.returncode, code, f"{wrong.where}: {stderr}")
        self.assertEqual(
            len([line for line in stderr.splitlines() if "ucprun: error: " in line]), 1, f"{wrong.where}: {stderr}"
        )
        for word in INTERNAL_WORDS:
            self.assertNotIn(word, stderr)

    def assert_complete(self, what: str) -> None:
        """The destination is what it is when nothing goes wrong."""
        self.assertTrue(self.out.is_dir(), what)
        self.assertEqual(all_files(self.out), self.expected, what)

    def assert_finished_by(self, what: str, *more: object) -> None:
        """One more run, and all is there and nothing else."""
        result = self.run_program("ucprun", "convert", self.source, self.out, *self.arguments, *more)
        self.assertEqual(result.returncode, 0, f"after {what}: {result.stderr}")
        self.assert_complete(f"after {what}")
        left = [path.name for path in self.folder.iterdir() if path.name.startswith(".out")]
        self.assertEqual(left, [], f"after {what}")

    def replace_out(self, files: dict[str, bytes] | None) -> None:
        """The destination before a run: these files, or nothing at all."""
        for path in self.folder.iterdir():
            if path.name == "out" or path.name.startswith(".out"):
                subprocess.run(["rm", "-rf", str(path)], check=True)
        for name, content in (files or {}).items():
            (self.out / name).parent.mkdir(parents=True, exist_ok=True)
            (self.out / name).write_bytes(content)
