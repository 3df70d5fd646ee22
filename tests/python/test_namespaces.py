"""Jobs on machines that share no process, no memory and no address: namespaces of this system (namespaces.py)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import job
import machine_work
import memory_work
import namespaces
from test_save_machines import expect_parts

pytestmark = pytest.mark.skipif(not namespaces.are_there(), reason="namespaces of the network need root and iproute2")


def test_a_save_of_all_machines(tmp_path: Path) -> None:
    """Writers meet at the addresses that they find themselves."""
    root = tmp_path / "root"
    root.mkdir()
    with namespaces.machines("ab", tmp_path / "memory") as there:
        enter = [there[name].enter for name in "aabb"]
        told = job.run(machine_work.at_once, 4, tmp_path, enter, root=str(root), machines="aabb")
    expect_parts(told, root)


def test_a_machine_is_lost_with_its_memory(tmp_path: Path) -> None:
    """The others come back without it, from their own parts and their copies of its part."""
    how = {"root": str(tmp_path), "tier": {"every": 1, "copies": 2}}
    with namespaces.machines("abc", tmp_path / "memory") as there:
        enter = [there[name].enter for name in "abc"]
        ranks = job.start(memory_work.train, 3, tmp_path / "first", enter, size=3, machines="abc", **how)
        until = time.monotonic() + 120
        while not (tmp_path / "steps" / "4.pt").exists():
            assert time.monotonic() < until
            assert all(rank.poll() is None for rank in ranks), ranks[0].communicate()
            time.sleep(0.002)
        there["b"].lose()
        for rank in ranks:  # They wait for the lost one, or have seen that it is gone.
            rank.communicate(timeout=60)
        enter = [there[name].enter for name in "ac"]
        for told in job.run(memory_work.train, 2, tmp_path, enter, size=2, machines="ac", seed=99, **how):
            assert told["restored"]["step"] >= 2
            assert told["restored"]["state"] == []
            assert told["restored"]["ranks"] == [0, 1, 2]
            assert str(tmp_path / "memory") in told["restored"]["path"]
            assert told["report"]["failures"] == 0


def test_copies_by_a_timetable(tmp_path: Path) -> None:
    """Counters of the machines' own network are read, and copies are sent by what was found. Training is the same."""
    how = {"size": 2, "machines": "ab", "steps": 60, "root": str(tmp_path)}
    with namespaces.machines("ab", tmp_path / "memory") as there:
        enter = [there[name].enter for name in "ab"]
        tier = {"every": 2, "traffic": "timetable"}
        kept = job.run(memory_work.train, 2, tmp_path, enter, tier=tier, **how)
    (tmp_path / "store").unlink()
    alone = job.run(memory_work.train, 2, tmp_path, **how)
    for told, other in zip(kept, alone, strict=True):
        assert told["losses"] == other["losses"]
        report = told["report"]
        assert report["failures"] == 0
        assert report["versions"] > 2
        assert report["traffic"]["rate"] > 0
        if report["traffic"]["mode"] == "timetable":  # How steady the iterations are is the system's business.
            assert report["traffic"]["idle"]
            assert "the network is idle for" in report["traffic"]["reason"]
        else:
            assert "differ by" in report["traffic"]["reason"] or "in no long part" in report["traffic"]["reason"]
