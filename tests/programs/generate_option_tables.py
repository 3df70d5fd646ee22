#!/usr/bin/env python3
"""generate_option_tables.py BIN [--check]: writes the tables of options in docs/commands from the programs' help.

BIN is the folder of `ucpc` and `ucprun`. A page has a table between these two lines:

    <!-- options of: ucprun convert -->
    <!-- end of options -->

The script runs `ucprun convert --help` and replaces the lines between them. Options that every command has are in the
table of `docs/programs.md`, which is that of the program without a subcommand. With --check the script writes nothing,
names each page that differs from the help, and exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = re.compile(
    r"^<!-- options of: (ucpc|ucprun)((?: [a-z-]+)*) -->\n(.*?)^<!-- end of options -->$", re.MULTILINE | re.DOTALL
)
# The help has names behind two blanks, and their descriptions from this column on.
DESCRIPTION_COLUMN = 26


def help_of(programs: Path, program: str, subcommand: str = "") -> str:
    command = [str(programs / program), *subcommand.split(), "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def subcommands_of(programs: Path, program: str, above: str = "") -> list[str]:
    """As the program's own help lists them; of one that has subcommands, these: "memory plan"."""
    shown = help_of(programs, program, above)
    if "\nSubcommands:\n" not in shown:
        return [above]
    listed = shown.split("\nSubcommands:\n")[1].split("\n\n")[0]
    names = [f"{above} {name}".strip() for name in re.findall(r"^  ([a-z-]+)", listed, re.MULTILINE)]
    return [found for name in names for found in subcommands_of(programs, program, name)]


def entries_of(shown: str, section: str) -> list[tuple[str, str]]:
    """Each name of a section of the help, such as `--to STRATEGY (required)`, with its description in one line."""
    if f"\n{section}:\n" not in shown:
        return []
    entries: list[tuple[str, str]] = []
    for line in shown.split(f"\n{section}:\n")[1].split("\n\n")[0].splitlines():
        if line.startswith(" " * DESCRIPTION_COLUMN):
            name, description = entries[-1]
            entries[-1] = name, f"{description} {line.strip()}".strip()
        elif len(line) > DESCRIPTION_COLUMN and line[DESCRIPTION_COLUMN - 1] == " " and line[DESCRIPTION_COLUMN] != "(":
            entries.append((line[:DESCRIPTION_COLUMN].strip(), line[DESCRIPTION_COLUMN:].strip()))
        else:
            entries.append((line.strip(), ""))
    return entries


def usage_of(shown: str) -> str:
    """The line behind `Usage:`."""
    found = re.search(r"^Usage: (.*)$", shown, re.MULTILINE)
    assert found is not None, shown
    return found[1]


def row_of(name: str, description: str) -> str:
    required = name.endswith(" (required)")
    name = name.removesuffix(" (required)").replace("|", "\\|").replace(",-", ", -")
    description = description.replace("|", "\\|")
    return f"| `{name}`{' (required)' if required else ''} | {description} |"


def table_of(programs: Path, program: str, subcommand: str) -> str:
    """The usage, and a table of arguments and options. Those of all commands are in the program's own table."""
    shown = help_of(programs, program, subcommand)
    of_all = dict(entries_of(help_of(programs, program), "Options")) if subcommand else {}
    entries = [*entries_of(shown, "Positionals"), *entries_of(shown, "Options")]
    rows = [row_of(name, description) for name, description in entries if name not in of_all]
    return "\n".join([f"```\n{usage_of(shown)}\n```\n", "| option | does |", "|---|---|", *rows])


def rewritten(page: str, programs: Path) -> str:
    """The page with its tables as they should be."""

    def rewrite(found: re.Match[str]) -> str:
        program, subcommand = found[1], found[2]
        table = table_of(programs, program, subcommand)
        return f"<!-- options of: {program}{subcommand} -->\n{table}\n<!-- end of options -->"

    return TABLE.sub(rewrite, page)


def pages() -> list[Path]:
    return [ROOT / "docs" / "programs.md", *sorted((ROOT / "docs" / "commands").glob("*.md"))]


def main() -> int:
    arguments = argparse.ArgumentParser(description="Writes the tables of options in docs from the programs' help.")
    arguments.add_argument("programs", type=Path, help="the folder of ucpc and ucprun", metavar="BIN")
    arguments.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page differs")
    given = arguments.parse_args()
    differ = 0
    for path in pages():
        page = path.read_text()
        right = rewritten(page, given.programs)
        if page == right:
            continue
        differ += 1
        if given.check:
            print(f"{path.relative_to(ROOT)}: differs from --help; run tests/programs/generate_option_tables.py BIN")
        else:
            path.write_text(right)
    return 1 if given.check and differ else 0


if __name__ == "__main__":
    sys.exit(main())
