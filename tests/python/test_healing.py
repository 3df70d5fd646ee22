"""Jobs of real torchruns under `ucprun coordinate`: whatever fails, the losses are those of one that never stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from healing_job import SECRET, Job, free_port
from programs import etcd


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[int, set[float]]:
    """The losses of a job on one rank, without a coordinator."""
    from healing_work import train

    folder = tmp_path_factory.mktemp("alone")
    losses: dict[int, set[float]] = {}

    def say(**words: Any) -> None:
        if words["event"] == "step":
            losses[words["step"]] = {round(words["loss"], 9)}

    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
    train({"folder": str(folder), "steps": 60, "step_seconds": 0}, say)
    dist.destroy_process_group()
    return losses


@pytest.fixture
def job(ucprun: Path, tmp_path: Path) -> Any:
    """Of two nodes with one rank each, that has taken some steps."""
    with Job(ucprun, tmp_path) as of_two:
        of_two.coordinate()
        of_two.start("n1")
        of_two.start("n2")
        of_two.wait_for(lambda: of_two.last_step() >= 12)
        assert {start["size"] for start in of_two.said("start")} == {2}
        yield of_two


# Unit tests and the tests beside these have the same answers of the coordinator.
of_full_runs = pytest.mark.skipif(os.environ.get("UCP_EVERY_CELL") != "1", reason="NOT RUN: of tests/run.sh --full")


def pid_of(job: Job, rank: int) -> int:
    """Of the last start."""
    return int([start["pid"] for start in job.said("start") if start["rank"] == rank][-1])


def test_a_killed_process(job: Job, uninterrupted: dict[int, set[float]]) -> None:
    """Both nodes start their processes again; `--max-restarts` is 0."""
    os.kill(pid_of(job, 1), signal.SIGKILL)
    assert job.wait_for_end() == {"n1": 0, "n2": 0}, job.logs()
    assert job.losses() == uninterrupted
    journal = (job.folder / "journal").read_text()
    assert '"failure":"process exited"' in journal
    assert '"answer":"restart"' in journal
    starts = [(start["rank"], start["size"]) for start in job.said("start")]
    assert sorted(starts) == [(0, 2), (0, 2), (1, 2), (1, 2)]
    assert job.said("start")[-1]["first"] >= 12


@of_full_runs
def test_an_exception_is_named(job: Job, uninterrupted: dict[int, set[float]]) -> None:
    """By its type and text; the other rank, whose collective breaks, is not at fault."""
    (job.folder / "raise-1").write_text("CUDA error: an illegal memory access was encountered")
    job.wait_for(lambda: job.failures())
    (failure,) = job.failures()
    assert failure["failure"] == "illegal memory access"
    assert failure["answer"] == "restart"
    assert job.wait_for_end() == {"n1": 0, "n2": 0}, job.logs()
    assert job.losses() == uninterrupted


def test_a_stopped_process_is_a_hang(job: Job, uninterrupted: dict[int, set[float]]) -> None:
    """It is found by the pace of the task, and killed."""
    job.wait_for(lambda: job.last_step() >= 20)
    os.kill(pid_of(job, 1), signal.SIGSTOP)
    began = time.monotonic()
    job.wait_for(lambda: job.failures(), 20)
    assert 9 < time.monotonic() - began < 14
    (failure,) = job.failures()
    (node,) = [name for name in ("n1", "n2") if failure["node"] == name]
    assert failure["failure"] == "hang"
    assert node in job.logs()
    assert job.wait_for_end() == {"n1": 0, "n2": 0}, job.logs()
    assert job.losses() == uninterrupted


def test_a_lost_node(job: Job, uninterrupted: dict[int, set[float]]) -> None:
    """The other one goes on alone, with the same samples. The ranks of the lost one end with their agent."""
    lost = pid_of(job, 1)
    name = "n2" if lost_is_of(job, "n2", lost) else "n1"
    began = time.monotonic()
    job.nodes[name].kill()
    job.wait_for(lambda: job.failures(), 20)
    assert time.monotonic() - began > 4
    assert job.failures()[0]["failure"] == "lost connection"
    assert job.failures()[0]["node"] == name
    other = "n1" if name == "n2" else "n2"
    job.wait_for(lambda: job.nodes[other].poll() is not None)
    assert job.nodes[other].wait() == 0, job.logs()
    assert job.losses() == uninterrupted
    assert job.said("start")[-1]["size"] == 1
    with pytest.raises(ProcessLookupError):
        os.kill(lost, 0)


def lost_is_of(job: Job, node: str, pid: int) -> bool:
    """Whether the process is a child of the node's torchrun."""
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(stat[1]) == job.nodes[node].pid


def test_the_coordinator_is_away_and_comes_back(job: Job, uninterrupted: dict[int, set[float]]) -> None:
    """H6: training goes on; the next coordinator reads the journal and takes over, and then a process is killed."""
    job.coordinator.kill()
    job.coordinator.wait()
    step = job.last_step()
    job.wait_for(lambda: job.last_step() > step + 5)
    job.coordinate()
    job.wait_for(lambda: all(node["connected"] for node in job.ask("status")["nodes"]))
    time.sleep(1)
    (task,) = job.ask("status")["tasks"]
    assert (task["state"], task["epoch"]) == ("runs", 1)
    os.kill(pid_of(job, 0), signal.SIGKILL)
    assert job.wait_for_end() == {"n1": 0, "n2": 0}, job.logs()
    assert job.losses() == uninterrupted


@pytest.mark.skipif(etcd.IS_NOT_THERE, reason="NOT RUN: there is no etcd")
def test_another_coordinator_takes_over(ucprun: Path, tmp_path: Path, uninterrupted: dict[int, set[float]]) -> None:
    """With etcd: the first one is killed, the second one answers a failure, and then etcd is killed (H6)."""
    registry = etcd.Etcd(tmp_path)
    try:
        with Job(ucprun, tmp_path, step_seconds=0.4) as job:
            job.registry = ["--registry", registry.url]
            other = free_port()
            job.endpoints += f",127.0.0.1:{other}"
            job.coordinate()
            job.port = other
            job.start_coordinator()
            job.start("n1")
            job.start("n2")
            job.wait_for(lambda: job.last_step() >= 2)
            job.coordinators[0].kill()
            job.wait_for(job.can_connect)
            job.wait_for(lambda: [node["connected"] for node in job.ask("status")["nodes"]] == [True, True])
            os.kill(pid_of(job, 0), signal.SIGKILL)
            job.wait_for(lambda: {start["pid"] for start in job.said("start")[2:]})
            registry.end()
            assert job.coordinator.wait(30) == 2
            step = job.last_step()
            job.wait_for(lambda: job.last_step() > step)
            assert job.wait_for_end() == {"n1": 0, "n2": 0}, job.logs()
            assert job.losses() == uninterrupted
            registry.start()
            assert [event for event in registry.events() if event != "trains"] == ["epoch", "failure", "epoch"]
    finally:
        registry.remove()


def test_without_a_coordinator_a_failure_ends_as_torchruns(job: Job) -> None:
    """H6."""
    job.coordinator.kill()
    job.coordinator.wait()
    time.sleep(1)
    os.kill(pid_of(job, 1), signal.SIGKILL)
    codes = job.wait_for_end()
    assert set(codes.values()) == {1}
    assert "ChildFailedError" in job.logs()


@of_full_runs
def test_a_drained_node(job: Job, uninterrupted: dict[int, set[float]]) -> None:
    """Its task goes on without it; it ends well with its task."""
    job.ask("drain", "n1")
    assert job.wait_for_end() == {"n1": 0, "n2": 0}, job.logs()
    assert job.losses() == uninterrupted
    assert job.said("start")[-1]["size"] == 1


def test_refusals_at_the_start(ucprun: Path, tmp_path: Path) -> None:
    """One sentence each, and nothing is trained."""
    with Job(ucprun, tmp_path) as job:
        job.start("n1", nodes="1:1")
        assert job.wait_for_end() == {"n1": 1}
        sentence = f"the coordinator at 127.0.0.1:{job.port} cannot be reached: "
        assert sentence in job.logs()
        assert f"`ucprun coordinate --port {job.port}` starts one" in job.logs()
        job.coordinate()
        job.secret.write_text("another secret of some length")
        job.start("n2", nodes="1:1")
        job.wait_for(lambda: job.nodes["n2"].poll() is not None)
        assert "the coordinator does not take the secret of this node" in job.logs()
        assert job.said("start") == []
        assert SECRET not in job.logs()


def test_a_port_that_is_taken(ucprun: Path) -> None:
    """Exit code 2."""
    import socket

    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        result = subprocess.run([str(ucprun), "coordinate", "--port", str(port)], capture_output=True, text=True,
                                timeout=20, check=False)  # fmt: skip
    assert result.returncode == 2
    assert result.stderr == f"ucprun: error: cannot listen at port {port}: bind: address already in use\n"
