"""check_libraries.py ROOT: fails on a library that prints, ends the process, or knows the command line.

Only the programs' drivers and command lines print, exit and spell options. A library names an option by
OptionName() (compiler/support/user_option.h).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

PROGRAMS = {
    "compiler/driver", "compiler/command_line", "runtime/driver", "runtime/driver/healing", "runtime/driver/memory",
    "runtime/command_line",
}  # fmt: skip

# The end of the program after a mistake of our own.
MAY_PRINT = {"compiler/support/check.h"}

# Options of other programs.
FOREIGN = ("--no-load-rng", "--mpi=")

TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'', re.DOTALL)
PRINTS = re.compile(
    r"\b(?:stdout|stderr|fputs|puts|printf|fprintf|_exit|_Exit|fmt::print|std::cout|std::cerr|std::exit)\b"
)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+=?")


def code_and_texts(source: str) -> tuple[str, list[str]]:
    """The source without comments and texts, and the texts in it."""
    texts: list[str] = []

    def take(match: re.Match[str]) -> str:
        token = match.group()
        if token.startswith('"'):
            texts.append(token)
        return '""' if token[0] in "\"'" else " "

    return TOKEN.sub(take, source), texts


def problems_of(name: str, source: str) -> Iterator[str]:
    code, texts = code_and_texts(source)
    if name not in MAY_PRINT:
        for found in sorted(set(PRINTS.findall(code))):
            yield f"{name}: `{found}`: only the programs print and exit"
    for text in texts:
        for option in OPTION.findall(text):
            if not option.startswith(FOREIGN):
                yield f"{name}: the text {text} names `{option}`; use OptionName()"


def problems(root: Path) -> Iterator[str]:
    for tree in ("compiler", "runtime"):
        for path in sorted((root / tree).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix in (".h", ".cpp", ".cu") and path.parent.relative_to(root).as_posix() not in PROGRAMS:
                yield from problems_of(name, path.read_text())


def main() -> int:
    found = list(problems(Path(sys.argv[1])))
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
