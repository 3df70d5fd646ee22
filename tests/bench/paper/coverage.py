"""coverage.py [--write]: table 1 of the paper as it is today, from runs of PyTorch, Megatron Core and DeepSpeed.

Each row is a change of layout. One job saves, and a job of the other layout loads in the framework's own way; then the
same checkpoint goes through `ucprun convert`. All that the second job holds is compared bit for bit with the first.
Run it with the Python of build/engine-venv; UCP_BIN names the folder of the programs.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import astuple
from pathlib import Path

import page
from coverage_rows import rows
from frameworks import Bench, Row, Verdict, judge

from fixtures.serve import Engines

TOOLS = ("torch", "megatron-core", "deepspeed")
RESULTS = page.PICTURES / "coverage.json"
Line = tuple[list[str], Verdict, Verdict]  # The words of a row, the framework's way, and ours.


def run(bench: Bench, row: Row) -> Line:
    """Both ways of a row."""
    words = [row.change, row.tool, row.layouts]
    line = words, judge(lambda: row.theirs(bench)), judge(lambda: row.ours(bench))
    print(*line, flush=True)
    return line


def known() -> dict[str, Line]:
    """The results of earlier runs, for the rows that are not run."""
    if not RESULTS.exists():
        return {}
    lines = [(words, Verdict(*theirs), Verdict(*ours)) for words, theirs, ours in json.loads(RESULTS.read_text())]
    return {str(line[0]): line for line in lines}


def text_of(lines: list[Line]) -> str:
    """The part of the page."""
    notes: dict[str, str] = {}

    def marked(verdict: Verdict) -> str:
        if not verdict.sentence:
            return verdict.word
        return f"{verdict.word} {notes.setdefault(verdict.sentence, f'({len(notes) + 1})')}"

    rows = [["change", "checkpoint of", "layouts", "the framework's own way", "through `ucprun convert`"]]
    rows += [[*words, marked(theirs), marked(ours)] for words, theirs, ours in lines]
    entries = [page.wrapped(f"- {mark} `{sentence}`") for sentence, mark in notes.items()]
    about = page.wrapped(f"{page.today()}, {page.versions(TOOLS)}: {2 * len(lines)} runs.")
    return "\n".join([about, "", page.table(rows), *entries]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table into docs/paper.md")
    parser.add_argument("--only", metavar="TEXT", help="run the rows whose words have this text; others are as before")
    arguments = parser.parse_args()
    before = known() if arguments.only else {}
    lines = []
    with tempfile.TemporaryDirectory() as work:
        bench = Bench(Path(work), Engines())
        try:
            for row in rows():
                words = [row.change, row.tool, row.layouts]
                if not arguments.only or arguments.only in " ".join(words):
                    lines.append(run(bench, row))
                elif str(words) in before:
                    lines.append(before[str(words)])
        finally:
            bench.engines.close()
    print(text_of(lines))
    if arguments.write:
        page.PICTURES.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps([[words, astuple(a), astuple(b)] for words, a, b in lines], indent=1) + "\n")
        page.write("coverage.py", text_of(lines))


if __name__ == "__main__":
    main()
