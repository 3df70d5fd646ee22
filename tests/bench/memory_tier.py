"""memory_tier.py [--write]: Gemini's figures 9 to 12 and 15, from `ucprun memory plan` for the paper's job.

Prints a table with the paper's numbers beside ours. With --write it goes into docs/memory-tier.md, and the pictures
beside it are drawn (needs matplotlib). Nothing is measured: all of it is computed. UCP_BIN names the folder of the
programs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[2] / "docs"
BYTES = 1203.2e9  # 12 of each parameter.
ITERATION = 62
STORAGE = "20Gb/s"
DAY = 86400
# The paper's, in seconds: a failure is seen, processes start again and warm up, and the state is pickled, which a
# restart from memory waits for once, and a job with storage at each checkpoint.
DETECTING, STARTING, PICKLING, PICKLING_FOR_STORAGE = 15, 240, 162, 81
OF_EACH_MACHINE = 0.015  # Failures a day.
BEGIN, END = "<!-- table of memory_tier.py -->\n", "<!-- end of table -->\n"


def plan(machines: int, network: str = "400Gb/s", copies: int = 2) -> dict[str, Any]:
    """The report for the paper's job on so many machines."""
    command = [
        Path(os.environ["UCP_BIN"]) / "ucprun", "memory", "plan", "--machines", str(machines), "--copies", str(copies),
        "--bytes", f"{BYTES / machines / 1e6:.0f}MB", "--network", network, "--iteration", str(ITERATION),
        "--storage", STORAGE, "--json",
    ]  # fmt: skip
    report: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return report


def rows() -> list[tuple[str, str, str]]:
    """Claim, the paper's number, ours."""
    of_16 = plan(16)
    memory, often, seldom = (of_16[key] for key in ("others_memory", "storage_often", "storage_seldom"))
    ratios = [
        f"{plan(machines)['storage_often']['making_seconds'] / plan(machines)['sending_seconds']:.0f}"
        for machines in (4, 8, 16)
    ]
    return [
        ("Figure 9: chance, 16 machines, 2 copies, 2 lost", "93.3 %", f"{100 * of_16['chances'][1]:.1f} %"),
        ("… 3 and 4 lost", "80.0 %, 60.0 % (a bound)", ", ".join(f"{100 * of_16['chances'][f]:.1f} %" for f in (2, 3))),
        ("Figure 10: lost time, from memory", "about 1.5 iterations", f"{memory['seconds']:.1f} s"),
        ("… storage as often as it can, against memory", "over 13 x", f"{often['seconds'] / memory['seconds']:.1f} x"),
        ("… storage every 3 hours, against memory", "", f"{seldom['seconds'] / memory['seconds']:.0f} x"),
        ("Figure 11: time of a checkpoint, storage against memory, 4, 8, 16 machines", "16: over 250 x",
         ", ".join(f"{ratio} x" for ratio in ratios)),
        ("Figure 12: checkpoints, memory against storage as often as it can", "8 x",
         f"{often['period_seconds'] / memory['period_seconds']:.0f} x"),
        ("… against storage every 3 hours", "over 170 x",
         f"{seldom['period_seconds'] / memory['period_seconds']:.0f} x"),
    ]  # fmt: skip


@dataclass(frozen=True)
class Way:
    """To keep a job's state: what a failure costs, and which share of the time it takes without any."""

    label: str
    seconds: float
    share: float = 0.0

    def effective(self, failures: float) -> float:
        """The share of the time that trains, with so many failures a day of the time that is not lost to one."""
        return (1 - self.share) / (1 + failures * self.seconds / DAY)


def ways() -> list[Way]:
    """Of 16 machines, of which a lost one is there again at once."""
    report = plan(16)
    memory, often, seldom = (report[key] for key in ("others_memory", "storage_often", "storage_seldom"))
    least = DETECTING + STARTING
    # As often as it can, with the time to pickle: it trains 9 iterations meanwhile.
    period = ITERATION * int((often["making_seconds"] + PICKLING_FOR_STORAGE) / ITERATION)
    pickled = often["making_seconds"] + PICKLING_FOR_STORAGE + period / 2 + often["fetching_seconds"]
    return [
        Way("memory, versions as they are", least + memory["seconds"]),
        Way("memory, pickled for the restart", least + memory["seconds"] + PICKLING),
        Way("storage, as often as it can", least + pickled, PICKLING_FOR_STORAGE / period),
        Way(
            "storage, every 3 hours",
            least + seldom["seconds"] + PICKLING_FOR_STORAGE,
            PICKLING_FOR_STORAGE / seldom["period_seconds"],
        ),
    ]


def rows_of_failures() -> list[tuple[str, str, str]]:
    """Figure 15, as rows() has the others."""
    here, pickled, storage, _ = ways()

    def percent(*shares: float) -> str:
        return ", ".join(f"{100 * share:.1f} %" for share in shares)

    of_1000 = 1000 * OF_EACH_MACHINE
    return [
        ("Figure 15: time that trains, 8 failures a day, from memory as the paper has it and as it is here",
         "close to no failures", percent(pickled.effective(8), here.effective(8))),
        ("… without any failure, storage as often as it can", "85.5 %", percent(storage.effective(0))),
        ("… 1,000 machines, of which 1.5 % fail a day, from memory", "about 91 %",
         percent(pickled.effective(of_1000), here.effective(of_1000))),
        ("… against storage as often as it can", "1.54 x",
         f"{pickled.effective(of_1000) / storage.effective(of_1000):.2f} x"),
    ]  # fmt: skip


def table() -> str:
    lines = ["| | the paper | computed here |", "|---|---|---|"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows() + rows_of_failures()]) + "\n"


def draw_chances(path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    machines = [*range(4, 65)]
    for lost, style in ((2, "-"), (3, "--"), (4, ":")):
        chances = [100 * plan(number)["chances"][lost - 1] for number in machines]
        axes.plot(machines, chances, style, label=f"{lost} machines lost")
    axes.set(xlabel="machines", ylabel="chance of recovery from memory, %", ylim=(0, 101), title="2 copies")
    axes.legend(loc="lower right")
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})


def draw_lost_time(path: Path) -> None:
    import matplotlib.pyplot as plt

    report = plan(16)
    names = {
        "own_memory": "own memory",
        "others_memory": "memory of another machine",
        "storage_often": "storage, as often as it can",
        "storage_seldom": "storage, every 3 hours",
    }
    figure, axes = plt.subplots(figsize=(7, 2.5))
    seconds = [report[key]["seconds"] for key in names]
    bars = axes.barh(list(names.values()), seconds, color="#4c72b0")
    axes.bar_label(bars, [f"{number:,.0f} s" for number in seconds], padding=3)
    axes.set(xscale="log", xlim=(10, 30000), xlabel="seconds that an average failure loses")
    axes.invert_yaxis()
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})


def draw_effective(path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, of_days = plt.subplots(1, 2, figsize=(9, 4), sharey=True)
    machines = [*range(16, 1001, 8)]
    for way, style in zip(ways(), ("-", "--", "-.", ":"), strict=True):
        for axes, places, failures in (
            (of_days[0], [*range(17)], [*range(17)]),
            (of_days[1], machines, [OF_EACH_MACHINE * number for number in machines]),
        ):
            axes.plot(places, [100 * way.effective(number) for number in failures], style, label=way.label)
    of_days[0].set(xlabel="failures a day, of 16 machines", ylabel="time that trains, %", ylim=(0, 101))
    of_days[1].set(xlabel="machines, of which 1.5 % fail a day")
    of_days[0].legend(loc="lower left")
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description="Gemini's figures 9 to 12 and 15, computed.")
    parser.add_argument("--write", action="store_true", help="write the table and the pictures into docs")
    if not parser.parse_args().write:
        print(table(), end="")
        return
    import matplotlib as mpl

    mpl.rcParams["svg.hashsalt"] = "ucp"  # The same picture at each run.
    page = DOCS / "memory-tier.md"
    before, rest = page.read_text().split(BEGIN)
    page.write_text(before + BEGIN + table() + END + rest.split(END)[1])
    (DOCS / "memory-tier").mkdir(exist_ok=True)
    draw_chances(DOCS / "memory-tier" / "chance.svg")
    draw_lost_time(DOCS / "memory-tier" / "lost-time.svg")
    draw_effective(DOCS / "memory-tier" / "effective-time.svg")


if __name__ == "__main__":
    main()
