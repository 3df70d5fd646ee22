"""`ucp.memory.Tier` on several machines: jobs that lose machines, and come back with the bits of a step that was made.

A machine is the processes that give its name, and a folder: losing it is killing them and removing the folder.
"""

from __future__ import annotations

import fcntl
import json
import random
import re
import shutil
from pathlib import Path

import pytest

import job
import memory_machines_work
import memory_work
from test_memory import killed
from writers import wait_until


@pytest.mark.parametrize(
    ("saved", "lost", "restored"),
    [
        # Rows of tensor parallelism, cut again: what a machine holds has gaps. A new machine fetches all of it.
        pytest.param(("fsdp2_tp", "aabb", 2), "a", ("fsdp2", "bbx"), id="a rack of ranks"),
        # A whole group, so that storage has the newest version; a rank without rows of most tensors.
        pytest.param(("fsdp2", "abcd", 2), "ab", ("ddp", "cd"), id="a whole group"),
        # Each has all of the state, and nothing is sent; a new machine fetches it.
        pytest.param(("ddp", "ab", 2), "a", ("fsdp2", "xb"), id="replicas"),
    ],
)
def test_lost_machines(saved: tuple[str, str, int], lost: str, restored: tuple[str, str], tmp_path: Path) -> None:
    parallel, machines, copies = saved
    tier: dict[str, object] = {"every": 1, "copies": copies, "persist_every": 2, "fallback": str(tmp_path / "storage")}
    job_of = {"size": len(machines), "model": "plain" if parallel == "fsdp2_tp" else "frozen"}
    job_of |= {"ranks": len(machines), "parallel": parallel, "machines": machines}
    killed(tmp_path, 4, random.random() / 20, tier=tier, **job_of)
    for machine in lost:
        shutil.rmtree(tmp_path / "memory" / machine)
    parallel, machines = restored
    del job_of["ranks"]
    job_of |= {"parallel": parallel, "size": len(machines), "machines": machines, "seed": 99}
    job_of["tier"] = {"every": "auto" if lost == "a" else 2, "fallback": str(tmp_path / "storage")}
    told = job.run(memory_work.train, len(machines), tmp_path, root=str(tmp_path), **job_of)
    assert told[0]["restored"]["step"] >= 1
    assert told[0]["restored"]["state"] == []
    assert ("storage" in told[0]["restored"]["path"]) == (lost == "ab")
    for of_rank in told:
        assert of_rank["restored"]["ranks"] == [*range(len(saved[1]))]
        assert of_rank["report"]["failures"] == 0
    assert told[0]["report"]["committed"] is not None
    assert (told[0]["report"]["bytes_sent"] == 0) == told[0]["report"]["replicated"] == (parallel == "ddp")
    assert not list((tmp_path / "memory").rglob("*.distcp"))  # The job has ended well.


def test_a_start_waits_for_all_writers(tmp_path: Path) -> None:
    """Those of each machine. The error that one does not end is raised on all ranks."""
    job_of = {"root": str(tmp_path), "machines": "ab"}
    processes = job.start(memory_work.train, 2, tmp_path / "first", tier={"every": 1}, **job_of)
    wait_until(lambda: (tmp_path / "steps" / "3.pt").exists())
    files = [(tmp_path / "memory" / machine / "job" / "writers").open() for machine in "ab"]
    for file in files:
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    for process in processes:
        process.kill()
        process.communicate()
    fcntl.flock(files[1], fcntl.LOCK_SH)  # As a writer that hangs.
    problem = f"still written for by process {files[1].read().strip()} on this machine, which has not ended within 1 s"
    for process in job.start(memory_work.train, 2, tmp_path / "late", tier={"timeout": 1}, **job_of):
        assert problem in process.communicate(timeout=120)[1]
    for file in files:
        file.close()
    told = job.run(memory_work.train, 2, tmp_path, seed=99, tier={"every": 1}, **job_of)
    assert told[0]["restored"]["step"] >= 2
    assert told[0]["restored"]["state"] == []


def test_trouble_does_not_stop_training(tmp_path: Path) -> None:
    """M8: machines that are late, full, or gone. With `strict` all ranks raise what one machine says."""
    processes = job.start(memory_machines_work.beside_others, 2, tmp_path / "store", root=str(tmp_path))
    output, errors = processes[0].communicate(timeout=120)
    processes[1].communicate()
    assert output, errors
    told = json.loads(output.splitlines()[-1])
    assert told["late"]["seconds"] < 0.9
    assert told["late"]["skipped"] >= 5
    assert told["late"]["committed"] == 0
    assert told["late"]["stored"] == ["step-10"]
    said, failures, failures_without_strict = told["full"]
    assert re.fullmatch(
        r"ucp.memory could not complete the version .*: machine `b`: `.*`: no space left on device", said
    )
    assert (failures, failures_without_strict) == ("1", "1")
    assert "could not complete the version" in errors
    assert told["again"]["failures"] == 1
    assert told["again"]["every"] != "auto"
    assert told["again"]["seconds"] > 0
    assert told["gone"]["paused"]
    assert (told["gone"]["failures"], told["gone"]["committed"]) == (1, 0)
    assert "keeps no more versions, since a rank is gone" in errors
