"""memory_restart.py [--megabytes 128] [--rounds 3] [--write]: Gemini's figure 14, the phases of a restart, measured.

torchrun starts a job of two ranks, which count as two machines: FSDP2 shards a model over them, and each has a folder
in /dev/shm. One is killed, and torchrun starts both again. In a second run its folder is removed as well, so that it is
a new machine. Prints medians of the seconds of each phase. With --write the table goes into docs/memory-tier.md, and
the picture beside it is drawn (needs matplotlib). Run it with the tests' environment and PYTHONPATH of the built
package.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

DOCS = Path(__file__).resolve().parents[2] / "docs"
BEGIN, END = "<!-- table of memory_restart.py -->\n", "<!-- end of restart -->\n"
STEPS = 6
# By name: how a phase ends, and the paper's seconds.
PHASES = {
    "seen": ("torchrun has seen that a rank is gone", "15"),
    "started": ("processes are started, and have imported PyTorch", "over 240"),
    "met": ("they have formed their group", ""),
    "built": ("model and optimizer are built", ""),
    "found": ("the newest version is found", ""),
    "brought": ("its parts are compared with their digests, and fetched where they lack", "162, to pickle the state"),
    "loaded": ("the state is loaded", ""),
    "begun": ("writers are started again", ""),
    "trained": ("the first iteration ends", ""),
}
CASES = {"same": "both machines stay", "new": "one machine is new"}
# The phases in the paper, and their seconds; it replaces a machine in 4 to 7 minutes.
PAPER = ("a failure is seen", "the state is pickled", "a machine is replaced", "the job restarts")
PAPER_CASES = {"the machines stay": (15, 162, 0, 240), "a machine is replaced": (15, 162, 330, 240)}


def note(root: Path, name: str, when: float | None = None) -> None:
    """The time at which something has happened on a rank."""
    with (root / "notes").open("a") as file:
        file.write(json.dumps([name, time.time() if when is None else when]) + "\n")


def noted(root: Path, owner: Any, name: str, after: str) -> None:
    """Notes when a method has returned."""
    method: Callable[..., Any] = getattr(owner, name)

    def call(*arguments: Any, **named: Any) -> Any:
        done = method(*arguments, **named)
        note(root, after)
        return done

    setattr(owner, name, call)


def model_and_optimizer(megabytes: int) -> tuple[Any, Any]:
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    class Wide(torch.nn.ModuleList):
        def forward(self, batch: Any) -> Any:
            return sum(layer(batch).square().mean() for layer in self)

    # The state of each machine: its half of the weights, and two moments.
    width = max(2, megabytes * 2 // 3 * (1 << 20) // 4 // 8 // 1024)
    model = Wide([torch.nn.Linear(1024, width, bias=False) for _ in range(8)])
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    return model, torch.optim.Adam(model.parameters(), lr=1e-4, foreach=True)


def train_step(model: Any, optimizer: Any) -> None:
    import torch

    model(torch.ones(1, 1024)).backward()
    optimizer.step()
    optimizer.zero_grad()


def die(root: Path, folder: Path, case: str) -> None:
    if case == "new":
        shutil.rmtree(folder)
    note(root, "killed")
    os.kill(os.getpid(), signal.SIGKILL)


def work(root: Path, megabytes: int, case: str) -> None:
    """One rank, before and after the restart."""
    count = os.environ["TORCHELASTIC_RESTART_COUNT"]
    is_again = count != "0"
    rank = int(os.environ["RANK"])
    import torch
    import torch.distributed as dist

    import ucp_checkpoint as ucp
    from ucp_checkpoint import _recovery

    if is_again:
        note(root, "started")
    torch.set_num_threads(1)
    # The second start would at times find the first one's addresses in torchrun's store.
    dist.init_process_group("gloo", init_method=f"file://{root}/store-{count}", rank=rank, world_size=2)
    if is_again:
        note(root, "met")
    else:
        signal.signal(signal.SIGTERM, lambda *_: (note(root, "seen"), os._exit(1)))
    model, optimizer = model_and_optimizer(megabytes)
    if is_again:
        note(root, "built")
        noted(root, _recovery.Recovery, "candidates", "found")
        noted(root, _recovery.Recovery, "bring", "brought")
        noted(root, ucp.memory.Tier, "_restore", "loaded")
    folder = root / "ab"[rank]
    tier = ucp.memory.Tier(model, optimizer, job="bench", directory=folder, machine="ab"[rank], every=1)
    if is_again:
        note(root, "begun")
    try:
        for step in range(tier.first_step, STEPS):
            train_step(model, optimizer)
            tier.step(step)
            if is_again and step == tier.first_step:
                note(root, "trained")
            while tier._copies is not None and not tier._copies.is_settled():
                time.sleep(0.001)
            if step == STEPS - 3 and not is_again and rank == 1:
                die(root, folder, case)
    except RuntimeError:  # The other one is gone.
        time.sleep(60)
    tier.close()
    os._exit(0)  # A group that has lost a rank cannot be taken down.


def run(command: list[str]) -> None:
    """torchrun, which ends its workers if it is terminated; each has a session of its own."""
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        output, _ = job.communicate(timeout=240)
    finally:
        job.terminate()
        job.wait()
    if job.returncode != 0:
        sys.exit(output)


def restart(megabytes: int, case: str) -> dict[str, float]:
    """Seconds by phase. A phase ends when the slower rank has ended it."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        command = [*torchrun, "--max-restarts", "1", __file__, "--megabytes", str(megabytes), "--work", folder, case]
        run(command)
        times: dict[str, float] = {}
        for line in (Path(folder) / "notes").read_text().splitlines():
            name, when = json.loads(line)
            times[name] = max(when, times.get(name, 0.0))
    names = ["killed", *PHASES]
    return {after: times[after] - times[before] for before, after in pairwise(names)}


def table(found: dict[str, dict[str, float]], megabytes: int) -> str:
    heads = [f"{megabytes} MiB on each of two machines, seconds", *CASES.values(), "the paper"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for phase, (label, paper) in PHASES.items():
        lines.append(f"| {label} | {' | '.join(f'{found[case][phase]:.2f}' for case in CASES)} | {paper} |")
    totals = " | ".join(f"{sum(found[case].values()):.2f}" for case in CASES)
    lines.append(f"| all | {totals} | about 420, or 750 with a machine to replace |")
    return "\n".join(lines).replace("|  |", "| |") + "\n"


def draw_bars(axes: Any, bars: dict[str, list[float]], labels: list[str], colours: Any) -> None:
    """A bar for each case, of its phases one after the other."""
    for number, (case, seconds) in enumerate(bars.items()):
        left = 0.0
        for colour, label, length in zip(colours, labels, seconds, strict=False):
            axes.barh(case, length, left=left, color=colour, label=label if number == 0 else None)
            left += length
        axes.text(left, case, f" {left:.1f} s" if left < 100 else f" {left:.0f} s", va="center")
    axes.set_xlim(0, 1.2 * max(map(sum, bars.values())))
    axes.invert_yaxis()
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.25), frameon=False, fontsize="small")


def draw(found: dict[str, dict[str, float]], path: Path) -> None:
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "ucp"  # The same picture at each run.
    figure, (here, paper) = plt.subplots(1, 2, figsize=(11, 2))
    bars = {label: [found[case][phase] for phase in PHASES] for case, label in CASES.items()}
    draw_bars(here, bars, [label for label, _ in PHASES.values()], plt.get_cmap("tab10").colors)
    of_paper = {case: [float(length) for length in lengths] for case, lengths in PAPER_CASES.items()}
    draw_bars(paper, of_paper, [*PAPER], plt.get_cmap("Set2").colors)
    here.set(xlabel="seconds since a rank was killed, here")
    paper.set(xlabel="seconds, in the paper")
    figure.subplots_adjust(wspace=0.55)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description="The phases of a restart from memory.")
    parser.add_argument("--megabytes", type=int, default=128, help="the part of each machine")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="write the table and the picture into docs")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(Path(options.work[0]), options.megabytes, options.work[1])
        return
    runs: dict[str, list[dict[str, float]]] = {case: [] for case in CASES}
    for _ in range(options.rounds):
        for case, of_case in runs.items():
            of_case.append(restart(options.megabytes, case))
    found = {case: {phase: median(run[phase] for run in of_case) for phase in PHASES} for case, of_case in runs.items()}
    made = table(found, options.megabytes)
    print(made, end="")
    if options.write:
        page = DOCS / "memory-tier.md"
        before, rest = page.read_text().split(BEGIN)
        page.write_text(before + BEGIN + made + END + rest.split(END)[1])
        draw(found, DOCS / "memory-tier" / "restart.svg")


if __name__ == "__main__":
    main()
