"""coverage.py [--write]: table 1 and figure 8 of the paper today, by PyTorch, Megatron Core and DeepSpeed.

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
# The rows of each change of figure 8, and who fails at it in the paper.
FIGURE_8 = [
    ("(a) fewer data-parallel ranks", "", {"PyTorch DCP": "FSDP2 4 → 3",
                                           "Megatron Core": "DP 4 → 2, `fully_reshardable`",
                                           "DeepSpeed": "ZeRO-1, DP 4 → 2"}),
    ("(b) to ZeRO", "MCP", {"PyTorch DCP": "DDP 4 → FSDP2 4",
                            "Megatron Core": "DP 2, plain optimizer → distributed optimizer",
                            "DeepSpeed": "DP 2, float32 → ZeRO-1"}),
    ("(c) other TP and PP", "DCP", {"PyTorch DCP": "PP 2 → FSDP2 2",
                                    "Megatron Core": "TP 2 x PP 2 x DP 2 → PP 4 x DP 2",
                                    "DeepSpeed": "PP 2 x TP 2 x DP 2 → TP 4"}),
    ("(d) experts", "MCP", {"Megatron Core": "experts, EP 2 → 1, DP 2", "DeepSpeed": "experts, EP 2 → 4, DP 4"}),
]  # fmt: skip
TOOLS_OF_8 = ("PyTorch DCP", "Megatron Core", "DeepSpeed")
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


def figure_8(lines: list[Line]) -> str:
    """Its changes, from the rows of table 1: in the framework's own way, and through `ucprun convert`."""
    found = {(words[1], words[2]): f"{theirs.word}; {ours.word}" for words, theirs, ours in lines}
    rows = [["change", "fails in the paper", *TOOLS_OF_8]]
    for change, fails, layouts in FIGURE_8:
        cells = [f"{layouts[tool]}: {found[tool, layouts[tool]]}" if tool in layouts else "" for tool in TOOLS_OF_8]
        rows.append([change, fails, *cells])
    return page.table(rows)


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
        page.write("coverage.py, figure 8", figure_8(lines))


if __name__ == "__main__":
    main()
