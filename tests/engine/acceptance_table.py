"""The acceptance matrix as a table: collects what each run came to, and prints it. See matrix.py."""

from __future__ import annotations

import importlib.metadata
import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fixtures.cases import CASES
from matrix import COLUMNS, columns, reason

HEAD = """# Which checkpoints the real engine resumes from as what

`tests/run.sh --full` writes this page. A row is a [fixture](../tests/fixtures/README.md). A column is the ZeRO stage of
the job that resumes, or the axis whose number of ranks it changes. A cell sums up all runs of the engine with both.
`ok`: the engine loads what we wrote, by `load_universal` or by a plain `load_checkpoint`; all masters, moments and
frozen weights that it then holds are those of the source, bit for bit; so are the step and its counter; and every loss
of the steps that it then trains is that of the uninterrupted run, with the same global batch, within 5e-6 in float32,
1e-3 in float16 and 5e-3 in bfloat16 (1e-4 with Muon, 1e-2 where a router chooses experts, 2e-2 where the type itself
changed). Every run is a test of `tests/engine/test_acceptance.py` or `tests/engine/test_native.py`.
"""


def cells_of(plan: Any) -> list[list[str]]:
    """The cells that a run belongs to: fixture, form and column of each."""
    return [[plan.name, plan.form, column] for column in columns(CASES[plan.name], plan.case)]


class AcceptanceTable:
    """The outcomes of the runs of each cell."""

    def __init__(self) -> None:
        self.cells: dict[tuple[str, str, str], set[str]] = {}
        self.runs = 0

    def record(self, cells: list[list[str]], outcome: str) -> None:
        """The cells of a run, and "ok", "FAILED" or the name of the engine's fault that it shows."""
        self.runs += 1
        for name, form, column in cells:
            self.cells.setdefault((name, form, column), set()).add(outcome)

    def rows(self) -> Iterator[list[str]]:
        """The table with its headings; anything but a plain word is a letter or a number of `notes`."""
        yield ["", *(f"{form}: {column}" for form, names in COLUMNS.items() for column in names)]
        for name in sorted({name for name, _, _ in self.cells}, key=list(CASES).index):
            yield [name, *(self.words(name, form, column) for form, names in COLUMNS.items() for column in names)]

    def words(self, name: str, form: str, column: str) -> str:
        """A cell: those that failed first, then those that are right, then the engine's faults."""
        outcomes = self.cells.get((name, form, column), set())
        if "FAILED" in outcomes:
            return "FAILED"
        if not outcomes:
            why = reason(form, CASES[name], column)
            return self.reasons()[why] if why else "not run"
        faults = [self.faults()[outcome] for outcome in sorted(outcomes - {"ok"})]
        return " ".join([*(["ok"] if "ok" in outcomes else []), *faults])

    def faults(self) -> dict[str, str]:
        """A letter for each fault that was seen."""
        seen = sorted(set().union(*self.cells.values()) - {"ok", "FAILED"})
        return {fault: chr(ord("a") + i) for i, fault in enumerate(seen)}

    def reasons(self) -> dict[str, str]:
        """A number for each reason why a cell of these rows has no run."""
        rows = {name for name, _, _ in self.cells}
        empty = {(n, f, c) for n in rows for f, names in COLUMNS.items() for c in names} - self.cells.keys()
        why = sorted({text for n, f, c in empty if (text := reason(f, CASES[n], c))})
        return {text: str(i + 1) for i, text in enumerate(why)}

    def notes(self) -> list[str]:
        """Explains the letters and numbers."""
        faults = [f"{letter}: DeepSpeed's own fault: {fault}" for fault, letter in self.faults().items()]
        return [*faults, *(f"{number}: not run: {why}" for why, number in self.reasons().items())]

    def text(self) -> Iterator[str]:
        """Lines for a terminal."""
        rows = list(self.rows())
        yield f"{self.runs} runs of the real engine; U is a universal folder, N a native one, the digit a ZeRO stage:"
        rows[0] = [heading[:1].upper() + heading.split(": ")[-1].removeprefix("stage ") for heading in rows[0]]
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        for row in rows:
            yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        yield from self.notes()

    def write(self, path: Path) -> None:
        """The page in the documents."""
        names = ("deepspeed", "torch", "transformers")
        versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
        rows = list(self.rows())
        lines = [f"| {' | '.join(row)} |" for row in rows]
        lines.insert(1, "|---" * len(rows[0]) + "|")
        day = datetime.now(UTC).date().isoformat()
        wide = {"width": 120, "break_long_words": False, "break_on_hyphens": False}
        notes = [textwrap.fill(f"- {note}", subsequent_indent="  ", **wide) for note in self.notes()]
        if any("not run" in row for row in rows):
            notes.append("- not run: `tests/run.sh --full` has such a run, and it has not been made for this page")
        path.write_text("\n".join([HEAD, f"{day}, {versions}: {self.runs} runs.\n", *lines, "", *notes]) + "\n")
