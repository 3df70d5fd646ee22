"""healing_job.py [--rounds N] [--write]: how soon failures of a real job are found, and how soon it trains again.

Each job has two torchruns on this machine with one rank each (gloo), steps of 0.1 s, and `ucp.memory.Tier`. It runs
once with `ucprun coordinate` and once with torchrun's own rendezvous (c10d, `--max-restarts 3`), in turn. With --write
the table goes into docs/healing.md. UCP_BIN names the folder of the programs.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

TESTS = Path(__file__).resolve().parents[1]
BIN = Path(os.environ["UCP_BIN"])
sys.path[:0] = [str(TESTS / "python"), str(BIN.parent / "python")]
os.environ["PYTHONPATH"] = str(BIN.parent / "python")

from healing_job import Job  # noqa: E402

BEGIN, END = "<!-- table of healing_job.py -->\n", "<!-- end of table of healing_job.py -->\n"
FIRST_STEPS = 25
MOST_SECONDS = 60.0


class PlainJob(Job):
    """By torchrun alone."""

    def rendezvous(self, node: str) -> list[str]:
        """The first node has the store."""
        first = f"is_host={'1' if node == 'n1' else '0'}"
        return ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{self.port}", "--rdzv-conf", first,
                "--max-restarts", "3"]  # fmt: skip


def rank_of(job: Job, node: str) -> tuple[int, int]:
    """The rank of a node, and its process."""
    for start in reversed(job.said("start")):
        stat = Path(f"/proc/{start['pid']}/stat").read_text().rpartition(")")[2].split()
        if int(stat[1]) == job.nodes[node].pid:
            return int(start["rank"]), int(start["pid"])
    raise AssertionError(job.logs())


def kill_process(job: Job) -> None:
    """Of the second node."""
    os.kill(rank_of(job, "n2")[1], signal.SIGKILL)


def raise_exception(job: Job) -> None:
    """In the second node."""
    (job.folder / f"raise-{rank_of(job, 'n2')[0]}").write_text("CUDA error: an illegal memory access was encountered")


def stop_process(job: Job) -> None:
    """Of the second node."""
    os.kill(rank_of(job, "n2")[1], signal.SIGSTOP)


def kill_node(job: Job) -> None:
    """Its agent and its ranks, as a machine that loses its power."""
    pid = rank_of(job, "n2")[1]
    job.nodes["n2"].kill()
    os.kill(pid, signal.SIGKILL)


FAILURES: dict[str, Callable[[Job], None]] = {
    "a process is killed": kill_process,
    "an exception": raise_exception,
    "a process is stopped (SIGSTOP)": stop_process,
    "a node is killed": kill_node,
}


def measure(kind: type[Job], fail: Callable[[Job], None]) -> tuple[float | None, float | None]:
    """Seconds until the coordinator has decided, and until the job trains again; None: not within a minute."""
    with tempfile.TemporaryDirectory() as folder, kind(BIN / "ucprun", Path(folder), steps=10_000) as job:
        if kind is Job:
            job.coordinate()
        for node in ("n1", "n2"):
            job.start(node)
        job.wait_for(lambda: job.last_step() >= FIRST_STEPS and job.said("step")[-1]["at"] > time.time() - 1)
        starts = len(job.said("start"))
        fail(job)
        began = time.time()
        found, trains = None, None
        while trains is None and time.time() - began < MOST_SECONDS:
            time.sleep(0.05)
            if kind is Job and found is None:
                found = next((entry["time"] - began for entry in job.failures()), None)
            if len(job.said("start")) > starts:
                first = job.said("start")[starts]["at"]
                trains = next((step["at"] - began for step in job.said("step") if step["at"] > first), None)
        return found, trains


def shown(values: list[float | None]) -> str:
    """The median, if it always happened."""
    known = [value for value in values if value is not None]
    return f"{median(known):.1f} s" if len(known) == len(values) else f"not within {MOST_SECONDS:.0f} s"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    lines = ["| failure | found after | trains again after | torchrun alone trains again after |", "|---|---|---|---|"]
    for name, fail in FAILURES.items():
        healed: list[tuple[float | None, float | None]] = []
        plain: list[float | None] = []
        for _ in range(arguments.rounds):
            healed.append(measure(Job, fail))
            plain.append(measure(PlainJob, fail)[1])
        found, trains = ([one[i] for one in healed] for i in (0, 1))
        lines.append(f"| {name} | {shown(found)} | {shown(trains)} | {shown(plain)} |")
        print(lines[-1], flush=True)
    table = "\n".join(lines) + "\n"
    if arguments.write:
        page = TESTS.parent / "docs" / "healing.md"
        before, rest = page.read_text().split(BEGIN)
        page.write_text(before + BEGIN + table + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
