"""Runs of several ranks, under Open MPI's mpirun."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from programs import PROGRAMS

CAN_RUN = bool(shutil.which("mpirun")) and (PROGRAMS / "ucp_mpi.so").exists()
WHY_NOT = "needs mpirun and a build with MPI"

# Of this test program alone: launchers that begin and end at the same time take each other's folder away.
LAUNCHERS_FOLDER = tempfile.mkdtemp(prefix="ucp-mpi-")
atexit.register(shutil.rmtree, LAUNCHERS_FOLDER, ignore_errors=True)

# More ranks than processors, as root in a container, and without binding threads of a rank to one processor.
ENVIRONMENT = os.environ | {
    "OMPI_MCA_orte_tmpdir_base": LAUNCHERS_FOLDER,
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
}


def ranks_of(mpirun: subprocess.Popen[str]) -> list[int]:
    """The processes that it started."""
    found = subprocess.run(["pgrep", "-P", str(mpirun.pid), "ucprun"], capture_output=True, text=True, check=False)
    return [int(process) for process in found.stdout.split()]


def is_running(process: int) -> bool:
    """A zombie is not."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def seconds_until_ended(processes: list[int], limit: float = 30) -> float:
    """How long it took until none of these ran any more; at most the limit."""
    began = time.monotonic()
    while any(is_running(process) for process in processes) and time.monotonic() - began < limit:
        time.sleep(0.01)
    return time.monotonic() - began


def seconds_until_left(folder: Path, limit: float = 30) -> float:
    """How long it took until no program worked in a folder any more: a launcher may end before its ranks do."""
    return seconds_until_ended(processes_in(folder), limit)


def processes_in(folder: Path) -> list[int]:
    """Those that have it in their command line, but not this one."""
    found = subprocess.run(["pgrep", "-f", f"^\\S*ucprun .*{folder}/"], capture_output=True, text=True, check=False)
    return [int(process) for process in found.stdout.split()]


def run_with_one_killed(command: list[str], folder: Path) -> tuple[int, float]:
    """A conversion to `out` by three ranks, one of which is killed once it has begun.

    Its status, 0 if it ended before that was seen, and how long the others took to end.
    """
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as run:
        while run.poll() is None and not (folder / ".out.ucp-partial").exists():
            time.sleep(0.001)
        ranks = ranks_of(run)
        if len(ranks) == 3:
            os.kill(ranks[1], signal.SIGKILL)
        begin = time.monotonic()
        run.communicate(timeout=30)
    return run.returncode, time.monotonic() - begin
