"""The frameworks and our programs, as the scripts of this folder ask them, and the verdict on an answer."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fixtures.serve import Call, EngineError, Engines

# Modules of an exception, exceptions that only carry another, and our program.
PREFIX = r"^(?:(?:[a-z_]+\.)+(?=[A-Z])|\w+(?:Error|Exception): (?=[\w.]+(?:Error|Exception): )|ucprun: error: )+"


class Refusal(RuntimeError):
    """`ucprun` ended with an error; the message is its own."""


@dataclass(frozen=True)
class Verdict:
    """`ok`, `error` or `wrong`, and the sentence that says more."""

    word: str
    sentence: str = ""


def sentence_of(text: str) -> str:
    """The line of an error in the output of a job, without the paths of this run."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"[A-Za-z_.]*(Error|Exception)\b", line)]
    line = re.sub(PREFIX, "", (named or lines)[-1])
    if line == "AssertionError":
        line += ": " + next(code for code in reversed(lines) if code.startswith("assert "))
    line = re.sub(r"(?:/[\w.+-]+){2,}/", "…/", line).replace("`", "'").replace("|", "/")
    return line if len(line) <= 200 else line[:199] + "…"


def judge(work: Callable[[], list[str]]) -> Verdict:
    """The verdict on a way: the states that differ, or the error that came first."""
    try:
        found = work()
    except (EngineError, Refusal) as error:
        return Verdict("error", sentence_of(str(error)))
    if not found:
        return Verdict("ok")
    names = {difference.split()[0] for difference in found}
    more = "" if len(found) == 1 else f" of {len(names)} tensors"
    return Verdict("**silently wrong**", f"{len(found)} states{more} differ, or are absent: {found[0]}")


class Bench:
    """The frameworks, our programs, and a folder of its own for everything that is written."""

    def __init__(self, work: Path, engines: Engines) -> None:
        self.work = work
        self.engines = engines
        self.count = 0
        self.saved: dict[Any, tuple[Path, dict[str, Any]]] = {}

    def place(self) -> Path:
        """A path that nothing has yet."""
        self.count += 1
        return self.work / f"{self.count}"

    def convert(self, source: Path, *options: str | Path) -> Path:
        """By `ucprun convert`."""
        out = self.place()
        command = [Path(os.environ["UCP_BIN"]) / "ucprun", "convert", source, out, *options]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Refusal(done.stderr.strip().splitlines()[-1])
        return out

    def on_ranks(self, ranks: int, function: Callable[..., Any], **arguments: Any) -> Any:
        """The answer of rank 0."""
        return self.engines.ask(Call(ranks, function, arguments))

    def save(self, ranks: int, function: Callable[..., Any], case: Any) -> tuple[Path, dict[str, Any]]:
        """The checkpoint of a case, made once, and the truth about it."""
        key = repr(case)
        if key not in self.saved:
            place = self.place()
            self.saved[key] = place, self.on_ranks(ranks, function, case=case, place=place)
        return self.saved[key]


@dataclass(frozen=True)
class Row:
    """A change of layout, and its two ways: of the framework, and ours. Each returns what differs."""

    change: str
    tool: str
    layouts: str
    theirs: Callable[[Bench], list[str]]
    ours: Callable[[Bench], list[str]]
