"""Jobs on several machines: processes of this one with names of others, so that they reach each other by TCP alone.

The truth is what the same jobs save by PyTorch while they stand still.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

import forked
import job
import machine_work
import save_work
import ucp_checkpoint as ucp
from dying_work import MIB
from engine.dcp_judges import read_flat
from test_save import differences
from writers import leftovers, supervisors_of, wait_until

NAMES = ["fsdp2_tp"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty folder."""
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def test_jobs_of_pytorch(tmp_path: Path, root: Path) -> None:
    """The bits of the stopped job, in every format, while the ranks of two machines train on."""
    job.run(machine_work.train, 4, tmp_path, root=str(root), names=NAMES, machines="abba")
    for name in NAMES:
        theirs = read_flat(save_work.folder_of(str(root), name, "stopped"))
        assert differences(read_flat(save_work.folder_of(str(root), name, "dcp")), theirs) == []
        for to in save_work.OTHERS[name]:
            assert ucp.verify(save_work.folder_of(str(root), name, to)).get("problems", []) == []


def test_jobs_that_save_through_pytorch(tmp_path: Path, root: Path) -> None:
    """The same as of PyTorch's own writer; also later, by a thread, a process, and with plans that a planner keeps."""
    job.run(machine_work.by_pytorch, 4, tmp_path, root=str(root), names=NAMES, machines="abba")
    assert leftovers(root) == []
    for name in NAMES:
        theirs = read_flat(save_work.folder_of(str(root), name, "stopped"))
        assert len(theirs) > 20
        assert differences(read_flat(save_work.folder_of(str(root), name, "dcp")), theirs) == []
    for folder, own in (("thread", range(4)), ("process", range(10, 14)), ("kept 2", [2] * 4)):
        found = read_flat(root / folder)
        assert [found[f"own.{rank}"].tolist() for rank in range(4)] == [[float(value)] * 3 for value in own]


def expect_parts(ranks: list[dict[str, str]], root: Path) -> None:
    """Of four ranks that did machine_work.at_once: every value of each rank, in every folder."""
    for told in ranks:
        assert set(told.values()) == {""}, told
    assert leftovers(root) == []
    for folder, value in (("at-once", 1.0), ("0", 3.0), ("1", 4.0), ("2", 5.0), ("other", 5.0)):
        found = read_flat(root / folder)
        base = 1.0 if folder == "at-once" else 2.0
        assert found["value"] == base
        assert torch.equal(found["all"], torch.full((1000,), base))
        assert torch.equal(found["shared"], torch.arange(4096.0).reshape(64, 64) + base)
        for rank in range(4):
            assert torch.equal(found[f"own.{rank}"], torch.full((8 * MIB,), value + rank)), (folder, rank)
    assert torch.equal(read_flat(root / "other")["more"], torch.arange(6.0))


@pytest.mark.parametrize("machines", ["aaab", "abcd", "abab"])
def test_every_rank_gives_its_part(machines: str, tmp_path: Path, root: Path) -> None:
    """Also where the writers read the ranks' memory, and where a rank's state changes its shape."""
    expect_parts(forked.run(machine_work.at_once, 4, tmp_path, root=str(root), machines=machines), root)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_writer_is_killed(seed: int, tmp_path: Path, root: Path) -> None:
    """The save is complete or absent, on all ranks alike; the next one finds new writers on every machine."""
    ranks = forked.run(machine_work.kill_writers, 4, tmp_path, root=str(root), machines="aabc", seed=seed)
    assert leftovers(root) == []
    failed = 0
    for number in range(8):
        killed = [rank[number]["killed"] for rank in ranks]
        assert [rank[number]["next"] for rank in ranks] == [""] * 4, killed
        failed += any(killed)
        expected = [f"{number}-next"] + ([str(number)] if (root / str(number)).exists() else [])
        assert any(killed) or len(expected) == 2
        for folder in expected:
            found = read_flat(root / folder)
            for rank in range(4):
                assert bool((found[f"own.{rank}"] == number).all()), (folder, rank)
    assert failed > 0


def test_a_machine_whose_writer_fails(tmp_path: Path, root: Path) -> None:
    """It is named, and nothing is written."""
    told = forked.run(machine_work.fail_on_a_machine, 3, tmp_path, root=str(root), machines="abc")
    assert len(set(told)) == 1
    assert told[0].startswith("machine 2 of 3: the umask 0777 takes rights")
    assert list(root.iterdir()) == []


def test_a_rank_of_another_machine_dies(tmp_path: Path, root: Path) -> None:
    """The others hear of it at once, by its number."""
    found = forked.run(machine_work.lose_a_rank, 3, tmp_path, root=str(root), machines="abc")
    assert found == ["rank 2 of 3 does not take part: its process has ended"] * 2 + [None]
    assert list(root.iterdir()) == []


def test_machines_that_do_not_reach_each_other(tmp_path: Path) -> None:
    """Said before training begins, with the address that was tried."""
    told = forked.run(machine_work.cannot_reach, 2, tmp_path, machines="ab")
    assert told[0] == told[1]
    missing = "rank 0 of 2: rank 1 of 2 did not come to the writer within 1 s; other machines look for "
    assert told[0].startswith(missing)
    assert told[0].endswith(" 127.1.2.3.4.invalid (UCP_HOST gives out another)")


def test_nothing_is_left() -> None:
    """No writer of these jobs lives on."""
    wait_until(lambda: not supervisors_of(os.getpid()))
