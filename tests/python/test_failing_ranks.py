"""A rank that dies is an error of all others, soon, and named; Ctrl-C stops a load."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import failing_work
import job
import ucp_checkpoint as ucp
from held import checkpoint

RANKS = 3
SOON = 10


@pytest.mark.parametrize(("victim", "message"), [(2, 1), (0, 3), (1, 5)])
def test_killed_before_a_message(victim: int, message: int, tmp_path: Path) -> None:
    """At any moment of a load; also rank 0, which compiles for all."""
    told = job.run(failing_work.die_in_message, RANKS, tmp_path, victim=victim, message=message)
    assert told[victim] is None
    for rank, found in enumerate(told):
        if rank != victim:
            assert found["error"].startswith(f"rank {victim} of {RANKS} is gone: "), found
            assert found["code"] == "io"
            assert found["seconds"] < SOON


def test_nobody_is_killed(tmp_path: Path) -> None:
    """The same job has more messages than the last of the kills above."""
    for found in job.run(failing_work.die_in_message, RANKS, tmp_path, victim=-1, message=0):
        assert found["error"] == ""
        assert found["sent"] > 5


@pytest.mark.parametrize("victim", [0, 1])
def test_killed_at_work(victim: int, tmp_path: Path) -> None:
    """While the others read: they stop, and then know why."""
    told = job.run(failing_work.die_at_work, RANKS, tmp_path, victim=victim)
    for rank, found in enumerate(told):
        if rank != victim:
            assert found["error"].startswith(f"rank {victim} of {RANKS} is gone: "), found
            assert found["seconds"] < 1 + SOON


@pytest.mark.parametrize("place", ["message", "between"])
@pytest.mark.parametrize("victim", [0, 2])
def test_one_rank_is_interrupted_and_goes_on(victim: int, place: str, tmp_path: Path) -> None:
    """The others do not wait for what it will never say, and nothing of it is left for the next load."""
    told = job.run(failing_work.interrupted, RANKS, tmp_path, victim=victim, place=place)
    for rank, found in enumerate(told):
        said = f"rank {victim} of {RANKS} was interrupted"
        assert found["told"] == ("interrupted" if rank == victim else said)
        assert found["next"]


def part_until_interrupted(source: Path, how: dict[str, Any]) -> float:
    """When a load ends that is interrupted at a quarter of its time, of that time; on a busy machine it may be over."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell's jobs in the background ignore it.
    begin = time.monotonic()
    ucp.load(source, **how)
    whole = time.monotonic() - begin
    timer = threading.Timer(whole / 4, lambda: os.kill(os.getpid(), signal.SIGINT))
    begin = time.monotonic()
    try:
        timer.start()
        ucp.load(source, **how)
        timer.cancel()
        timer.join()
    except KeyboardInterrupt:
        return (time.monotonic() - begin) / whole
    return 1


def test_ctrl_c(ucprun: Path, tmp_path: Path) -> None:
    """It raises KeyboardInterrupt before the load would have ended, and the next load is right."""
    source = tmp_path / "source"
    sizes = ["layers=4", "hidden=768", "ffn=3072", "heads=12", "vocab=16000", "seq=512"]
    command = [ucprun, "synth", "megatron_deepspeed_gpt", source, "--to", "deepspeed:dp=2,zero=1"]
    subprocess.run([*command, *(word for size in sizes for word in ("--set", size))], check=True, timeout=120)
    slowly = {"to": "universal", "verify": True, "threads": 1, "memory": "64MiB"}
    ucp.load(source, **slowly)
    assert any(part_until_interrupted(source, slowly) < 1 for _ in range(5))
    assert len(ucp.load(checkpoint("zero1_dp2"), to="universal")) == 17


def test_ctrl_c_while_planning(ucprun: Path, tmp_path: Path) -> None:
    """Of thousands of tensors of a few numbers each, planning takes nearly all of the time."""
    source = tmp_path / "source"
    sizes = ["layers=4", "experts=300", "hidden=8", "heads=2", "kv_heads=2", "head=4", "ffn=8", "vocab=16"]
    command = [ucprun, "synth", "mixtral_per_expert", source, "--to", "deepspeed:dp=2,zero=1"]
    subprocess.run([*command, *(f"--set={size}" for size in sizes)], check=True, timeout=120)
    assert any(part_until_interrupted(source, {"to": "universal", "threads": 1}) < 0.5 for _ in range(5))
