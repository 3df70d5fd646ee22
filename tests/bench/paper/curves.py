"""curves.py [--write]: figures 7 to 9 of the paper, the losses of real DeepSpeed engines that resume elsewhere.

Models train in several layouts and save in the middle. Each checkpoint goes through `ucprun convert` to files of other
layouts, from which engines with other random weights resume. All that they have loaded is compared bit for bit with all
that was saved. A picture has the losses, and below them how far each resumed run is from the run that saved and went
on. Run it with the Python of build/engine-venv; UCP_BIN names the folder of the programs.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import page
from curve_picture import draw
from curve_runs import Curve, Runs, figures
from frameworks import Bench

from fixtures.serve import Engines

TOOLS = ("torch", "deepspeed")
WAYS = {"convert": "`ucprun convert`", "own": "its own files", "deepspeed": "`ds_to_universal`",
        "never": "control: so from the start"}  # fmt: skip
DTYPES = {"fp32": "float32", "bf16": "bfloat16"}


def data_of(curves: list[Curve]) -> dict[str, Any]:
    """For the figure's file, with the losses of each run that went on once."""
    wholes: list[list[float]] = []
    for curve in curves:
        if curve.whole not in wholes:
            wholes.append(curve.whole)
    entries = [asdict(curve) | {"whole": wholes.index(curve.whole)} for curve in curves]
    return {"measured": f"{page.today()}, {page.versions(TOOLS)}", "wholes": wholes, "curves": entries}


def curves_of(data: dict[str, Any]) -> list[Curve]:
    """Of such a file."""
    return [Curve(**entry | {"whole": data["wholes"][entry["whole"]]}) for entry in data["curves"]]


def text_of(name: str, figure: dict[str, Any]) -> str:
    """The figure's part of the page, with its picture."""
    rows = [["saved by", "resumed by", "type", "from", "states loaded, of other bits", "loss at the save, at the end",
             "largest difference of a loss"]]  # fmt: skip
    curves = curves_of(figure)
    for curve in curves:
        ends = f"{curve.whole[-len(curve.resumed) - 1]:.3f}, {curve.whole[-1]:.3f}"
        states = f"{curve.states}, {curve.differ}" if curve.states else ""
        rows.append([curve.source, curve.target, DTYPES[curve.dtype], WAYS[curve.way], states, ends,
                     f"{curve.furthest:.2g}"])  # fmt: skip
    after = len(curves[0].resumed)
    about = f"{figure['measured']}; {len(curves[0].whole) - after} steps, then {after} more."
    picture = f"![{name}: losses, and how far they are off](paper/{name}.svg)\n"
    return "\n".join([page.wrapped(about), "", page.table(rows), picture])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the tables and the pictures into docs")
    parser.add_argument("--steps", type=int, default=100, help="before the save, and after it (default: 100)")
    parser.add_argument("--figures", nargs="+", default=list(figures()), choices=list(figures()))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        bench = Bench(Path(work), Engines())
        runs = Runs(bench, arguments.steps)
        try:
            for name in arguments.figures:
                curves = [runs.curve(run) for run in figures()[name]]
                figure = data_of(curves)
                print(text_of(name, figure))
                if arguments.write:
                    page.keep(name, figure, draw(curves))
                    page.write(f"curves.py, {name}", text_of(name, figure))
        finally:
            bench.engines.close()


if __name__ == "__main__":
    main()
