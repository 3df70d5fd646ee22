"""clusters.py [--write]: table 3 of the paper beside what `ucpc plan` computes for models of its sizes.

Nothing is moved: the plans are made and proved without files, and their time is bytes by bandwidth. UCP_BIN names the
folder of the programs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import page


def gpt(layers: int, hidden: int, heads: int) -> dict[str, int]:
    """The dims of a model like GPT-3."""
    return {"layers": layers, "hidden": hidden, "heads": heads, "ffn": 4 * hidden, "vocab": 51200, "seq": 2048}


@dataclass(frozen=True)
class Size:
    """A row of the paper, in minutes where it has some, and the layouts that we choose for its number of GPUs."""

    name: str
    nodes: int
    transform: float | None
    load: float | None
    source: str
    target: str
    dims: dict[str, int]
    spec: str = "megatron_deepspeed_gpt"
    rate: str = "5GB/s"


PHI = {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 6400, "experts": 16, "vocab": 32064}
BLOOM = {"layers": 70, "hidden": 14336, "heads": 112, "ffn": 57344, "vocab": 250680}
STAGES = "+".join("5" + 10 * "6" + "5")  # Its 70 layers do not divide over 12.
SIZES = [
    Size("GPT-3 7B", 4, 0.73, 0.36, "tp=2,pp=2,dp=8,zero=1", "tp=4,pp=2,dp=4,zero=1", gpt(32, 4096, 32)),
    Size("GPT-3 13B", 8, 1.17, 0.47, "tp=4,pp=2,dp=8,zero=1", "tp=2,pp=4,dp=8,zero=1", gpt(40, 5120, 40)),
    Size("MoE 42B", 8, 2.64, 0.58, "dp=64,zero=3", "dp=48,zero=3", PHI, "phimoe"),
    Size("GPT-3 176B", 48, 1.67, 0.68, "tp=8,pp=12,dp=4,zero=1", "tp=4,pp=12,dp=8,zero=1", gpt(96, 12288, 96)),
    Size("GPT-3 1T", 128, 2.93, 0.69, "tp=8,pp=16,dp=8,zero=1", "tp=4,pp=32,dp=8,zero=1", gpt(128, 25600, 160),
         rate="3GB/s"),
    Size("BLOOM 176B", 24, None, None, f"tp=4,pp={STAGES},dp=8,zero=1", f"tp=4,pp={STAGES},dp=4,zero=1", BLOOM,
         "megatron_deepspeed_bloom"),
]  # fmt: skip


def plan(size: Size, to: str) -> dict[str, Any]:
    """The report of `ucpc plan`."""
    dims = [word for name, value in size.dims.items() for word in ("--set", f"{name}={value}")]
    cluster = ["--bandwidth", size.rate, "--nodes", str(size.nodes)]
    program = Path(os.environ["UCP_BIN"]) / "ucpc"
    command = [program, "plan", size.spec, "--from", f"deepspeed:{size.source}", "--to", to, *dims, *cluster, "--json"]
    report: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return report


def minutes(number: float | None) -> str:
    """In seconds."""
    return "" if number is None else f"{60 * number:.0f} s"


def row(size: Size) -> list[str]:
    """The paper's times, and ours to the universal folder and straight to the files of the target."""
    universal, native = plan(size, "universal"), plan(size, f"deepspeed:{size.target}")
    return [
        size.name, f"{size.nodes} x {size.rate}", minutes(size.transform), minutes(size.load),
        f"`{size.source}` → `{size.target}`".replace(STAGES, "5+6+…+6+5"),
        f"{native['bytes_to_copy'] / 1e9:,.0f} GB",
        f"{universal['seconds']:.1f} s", f"{native['seconds']:.1f} s",
        f"{native['planning_seconds'] + native['verifying_seconds']:.2f} s",
    ]  # fmt: skip


def text() -> str:
    """The part of the page."""
    heads = ["model", "nodes", "paper: transform", "paper: load", "our layouts", "copied", "computed: to universal",
             "computed: to native", "planned and proved"]  # fmt: skip
    return page.table([heads, *map(row, SIZES)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table into docs/paper.md")
    is_written = parser.parse_args().write
    found = text()
    print(found, end="")
    if is_written:
        page.write("clusters.py", found)


if __name__ == "__main__":
    main()
