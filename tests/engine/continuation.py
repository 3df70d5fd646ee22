"""Draws the loss of a run that goes on elsewhere: `python tests/engine/continuation.py FOLDER`, with UCP_BIN set.

A Megatron-style GPT trains at PP 2 x TP 2 x DP 2. Its checkpoint is converted to a universal folder, from which real
engines resume at other topologies. FOLDER gets `continuation.json` with all losses and `continuation.svg`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from fixtures.cases import CASES, DEFAULT_SEED, Mesh  # noqa: E402
from fixtures.jobs import Job  # noqa: E402
from fixtures.serve import Engines  # noqa: E402

SPEC = TESTS.parent / "specs" / "megatron_deepspeed_gpt.ucp"
CASE = CASES["gpt_pp2_tp2_dp2"]
STEPS_BEFORE = 16
STEPS_AFTER = 24
TARGETS = [Mesh(pp=1, tp=1, dp=2), Mesh(pp=1, tp=2, dp=2), Mesh(pp=2, tp=1, dp=2), Mesh(pp=2, tp=4, dp=1)]
COLOURS = ["#2f6fb2", "#d1722b", "#3a9150", "#8b5bb5"]


def title(mesh: Mesh) -> str:
    """A mesh in words."""
    return f"PP {mesh.pp} x TP {mesh.tp} x DP {mesh.dp}"


def measure(ucprun: Path) -> dict[str, Any]:
    """All losses."""
    engines = Engines()
    try:
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = Path(folder) / "checkpoint"
            whole = engines.ask(
                Job(CASE, steps=STEPS_BEFORE, save=checkpoint, further_steps=STEPS_AFTER), timeout_seconds=600
            )
            resumed = {}
            for mesh in TARGETS:
                output = Path(folder) / f"universal{mesh.pp}{mesh.tp}{mesh.dp}"
                to = f"universal:mp={mesh.pp * mesh.tp}"
                command = [ucprun, "convert", checkpoint, output, "--to", to, "--spec", SPEC]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                job = Job(
                    replace(CASE, mesh=mesh),
                    seed=DEFAULT_SEED + 1,
                    load=output,
                    first_step=STEPS_BEFORE,
                    further_steps=STEPS_AFTER,
                )
                resumed[title(mesh)] = engines.ask(job, timeout_seconds=600)["losses"]
    finally:
        engines.close()
    return {
        "uninterrupted": {"title": title(CASE.mesh), "losses": whole["losses"]},
        "saved_after": STEPS_BEFORE,
        "resumed": resumed,
    }


class Panel:
    """A rectangle of the picture with its own axes."""

    def __init__(self, top: int, height: int, steps: int, low: float, high: float) -> None:
        self.left, self.width = 70, 620
        self.top, self.height, self.steps, self.low, self.high = top, height, steps, low, high

    def x(self, step: float) -> float:
        """Where a step stands."""
        return self.left + self.width * step / self.steps

    def y(self, value: float) -> float:
        """Where a value stands."""
        return self.top + self.height * (self.high - value) / (self.high - self.low)

    def line(self, first_step: int, values: list[float], style: str) -> str:
        """A curve."""
        points = " ".join(f"{self.x(first_step + i):.1f},{self.y(value):.1f}" for i, value in enumerate(values))
        return f'<polyline points="{points}" fill="none" {style}/>'

    def frame(self, name: str, ticks: list[tuple[float, str]], mark: int) -> list[str]:
        """The axes, with the step of the checkpoint marked."""
        right, bottom = self.left + self.width, self.top + self.height
        parts = [f'<text x="{self.left}" y="{self.top - 9}">{name}</text>']
        for value, label in ticks:
            y = self.y(value)
            parts.append(f'<path d="M{self.left} {y:.1f}H{right}" stroke="#8884" fill="none"/>')
            parts.append(f'<text x="{self.left - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
        x = self.x(mark)
        parts.append(f'<path d="M{x:.1f} {self.top}V{bottom}" stroke="#888" stroke-dasharray="4 3"/>')
        return parts


def draw(data: dict[str, Any]) -> str:
    """The picture: the losses, and below how far each resumed run is from the uninterrupted one."""
    whole, saved = data["uninterrupted"]["losses"], data["saved_after"]
    steps = len(whole) - 1
    off = {
        name: [ours - theirs for ours, theirs in zip(losses, whole[saved:], strict=True)]
        for name, losses in data["resumed"].items()
    }
    reach = 1.15 * max(abs(value) for values in off.values() for value in values) or 1e-3
    upper = Panel(40, 250, steps, 0.95 * min(whole), 1.02 * max(whole))
    lower = Panel(340, 110, steps, -reach, reach)
    losses = [(float(value), str(value)) for value in range(1, 9) if upper.low < value < upper.high]
    distances = [(-reach, f"{-reach:.4f}"), (0.0, "0"), (reach, f"{reach:.4f}")]
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 510" font-family="sans-serif" font-size="13"'
        ' fill="#777">',
        *upper.frame("loss", losses, saved),
        *lower.frame("loss minus that of the uninterrupted run", distances, saved),
        upper.line(0, whole, 'stroke="#999" stroke-width="5" stroke-opacity="0.5"'),
    ]
    legend = [(f"{data['uninterrupted']['title']}, uninterrupted", "#999")]
    for colour, (name, values) in zip(COLOURS, data["resumed"].items(), strict=True):
        style = f'stroke="{colour}" stroke-width="1.5"'
        parts += [upper.line(saved, values, style), lower.line(saved, off[name], style)]
        legend.append((f"{name}, resumed", colour))
    for row, (name, colour) in enumerate(legend):
        y = 58 + 19 * row
        parts.append(
            f'<path d="M440 {y - 4}h24" stroke="{colour}" stroke-width="3"/><text x="472" y="{y}">{name}</text>'
        )
    parts.append(
        f'<text x="{lower.x(saved):.1f}" y="472" text-anchor="middle">step {saved}: checkpoint, converted</text>'
    )
    parts += [f'<text x="{lower.x(steps):.1f}" y="472" text-anchor="end">step {steps}</text>', "</svg>"]
    return "\n".join(parts) + "\n"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the picture and its data go")
    folder: Path = parser.parse_args().folder
    data = measure(Path(os.environ["UCP_BIN"]) / "ucprun")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "continuation.json").write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    (folder / "continuation.svg").write_text(draw(data))


if __name__ == "__main__":
    main()
