"""Saves of ranks that stage a part of their state at a time, with `staging=` a number of bytes.

The truth is the folder that a save of all at once makes, which other tests compare with PyTorch's.
"""

from __future__ import annotations

import logging
import os
import re
import signal
from pathlib import Path

import pytest
import torch

import forked
import job
import machine_work
import ucp_checkpoint as ucp
import waves_work
from dying_work import MIB, error_of, staged_by_hand
from engine.dcp_judges import read_flat
from save_work import CASES, OTHERS, folder_of
from test_save_machines import expect_parts
from ucp_checkpoint import _saved_dict
from waves_work import begun, fill_next
from writers import is_alive, leftovers, supervisor_of, wait_until, worker_of

GONE = "the process that writes the saves is gone: it was ended by signal 9"


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """An empty folder."""
    (tmp_path / "places").mkdir()
    return tmp_path / "places"


def bytes_of(folder: Path) -> dict[str, bytes]:
    """Of each file, by its path. The manifest names the plan and its source: one in waves has other records."""
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: re.sub(rb'"(plan|source)": "[^"]*"', b"", content) for name, content in files.items()}


def values_in(folder: Path) -> dict[str, float]:
    """Of tensors that have one value everywhere."""
    found = {}
    for key, tensor in read_flat(folder).items():
        assert bool((tensor == tensor[0]).all())
        found[key] = float(tensor[0])
    return found


@pytest.mark.parametrize("ranks", [4, 2])
def test_the_folder_is_that_of_a_whole_save(ranks: int, places: Path, tmp_path: Path) -> None:
    """Byte for byte, in every format, of replicas, shards of all kinds, and stages."""
    names = [name for name, case in CASES.items() if case.ranks == ranks]
    (places / "waves").mkdir()
    told = job.run(waves_work.save_in_waves, ranks, tmp_path, root=str(places), names=names)
    assert all(of_rank == told[0] for of_rank in told)
    assert all(waves > 1 for waves in told[0].values()), told[0]
    for name in names:
        for to in ["dcp", *OTHERS.get(name, [])]:
            whole = bytes_of(folder_of(str(places), name, to))
            assert len(whole) >= 2
            assert bytes_of(waves_work.waves_folder(str(places), name, to)) == whole, (name, to)


def shared_memory_of(process: int) -> int:
    """Bytes of shared memory that it has touched."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"RssShmem:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]


@pytest.mark.parametrize(("staging", "waves"), [("1x", 1), ("32MiB", 4), ("17MiB", 8), (16 << 20, 8)])
def test_the_memory_that_is_taken(staging: int | str, waves: int, places: Path) -> None:
    """By the rank and by the writer: that which is allowed, and no more."""
    state = {str(number): torch.full((4 * MIB,), float(number)) for number in range(32)}
    before = shared_memory_of(os.getpid())
    with ucp.Saver(state, staging=staging, threads=1) as saver:
        assert saver.plan.get("waves", 1) == waves
        for number in range(3):
            for tensor in state.values():
                tensor.add_(1)
            saver.save(places / str(number)).result()
            for process, base in ((os.getpid(), before), (worker_of(supervisor_of(os.getpid())), 0)):
                taken = shared_memory_of(process) - base
                assert 128 * MIB * 4 // waves <= taken + MIB < 128 * MIB * 4 // waves + 4 * MIB
    for number in range(3):
        assert values_in(places / str(number)) == {str(place): place + number + 1.0 for place in range(32)}


def test_it_is_said_before_training(places: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With the bytes and the number of waves, and that the call waits; a save without waves has no such message."""
    state = {str(number): torch.ones(MIB) for number in range(6)}
    with caplog.at_level(logging.WARNING, "ucp_checkpoint"), ucp.Saver(state, staging="6MiB"):
        assert caplog.messages == []
    with caplog.at_level(logging.WARNING, "ucp_checkpoint"), ucp.Saver(state, staging="2MiB") as saver:
        (said,) = caplog.messages
        assert "ranks stage 2097152 bytes at a time" in said
        assert "copies their state in 3 waves" in said
        assert (saver.plan["waves"], saver.plan["wave_bytes"]) == (3, 2 << 20)
        assert saver.save(places / "saved").staged.done()


def test_too_little_memory() -> None:
    """Refused when the Saver is made, with what would do; other texts as well."""
    state = {"small": torch.ones(10), "large": torch.ones(4 * MIB)}
    said = "rank 0 stages 4.19 MB at once for `large`, and may stage 1.00 MB at a time; allow 4,194,304 bytes or more"
    assert error_of(lambda: ucp.Saver(state, staging="1MB")) == said
    for staging in ("3x", 0, -5, "many", None):
        said = error_of(lambda staging=staging: ucp.Saver(state, staging=staging))
        assert said == f'staging is "1x", "2x" or a size such as "2GB", not {staging!r}'


def test_a_state_of_another_shape(places: Path) -> None:
    """It needs waves, or more of them; its call waits for them as well."""
    state = {str(number): torch.full((MIB,), float(number)) for number in range(2)}
    with ucp.Saver(state, staging="2MiB") as saver:
        assert "waves" not in saver.plan
        for number in range(2, 6):
            extra = {"more": {str(place): torch.full((MIB,), float(place)) for place in range(2, number)}}
            assert saver.save(places / str(number), extra=extra).staged.done() or number == 2
        saver.save(places / "last").result()
    for number in range(2, 6):
        expected = {str(place): float(place) for place in range(2)}
        expected |= {f"more.{place}": float(place) for place in range(2, number)}
        assert values_in(places / str(number)) == expected
    assert len(values_in(places / "last")) == 2


def test_a_save_that_fails(places: Path) -> None:
    """Its call returns, its result raises the error, and the next one works."""
    state = {str(number): torch.full((MIB,), float(number)) for number in range(6)}
    with ucp.Saver(state, staging="2MiB") as saver:
        saving = saver.save(places / "missing" / "saved")
        assert "there is no folder" in error_of(saving.result)
        saver.save(places / "saved").result()
    assert values_in(places / "saved") == {str(number): number for number in range(6)}


@pytest.mark.parametrize("victim", ["worker", "supervisor", "device"])
@pytest.mark.parametrize("wave", [0, 1, 2])
def test_the_writer_is_killed(victim: str, wave: int, places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a device fails: the save fails with why, nothing is left of it, and the next one works."""
    state = {str(number): torch.full((MIB,), float(number)) for number in range(6)}
    monkeypatch.setattr(_saved_dict, "_memory_of", _saved_dict._memory_of)
    staged_by_hand()
    with ucp.Saver(state, staging="2MiB", threads=1) as saver:
        supervisor = supervisor_of(os.getpid())
        worker = worker_of(supervisor)
        saving = begun(saver, places / "first")
        for number in range(wave):
            fill_next(saver, saving, number)
        wait_until(lambda: saving.progress.has_reached_wave(wave, 0.1))
        assert (leftovers(places) != []) == (wave > 0)
        if victim == "device":
            saver._client.finish_staging(saving.progress.number, "the device is lost")
            assert error_of(saving.result) == "the device is lost"
        else:
            os.kill(worker if victim == "worker" else supervisor, signal.SIGKILL)
            wait_until(lambda: not is_alive(worker))
            fill_next(saver, saving, wave)
            assert error_of(saving.result) == GONE
        monkeypatch.undo()
        state |= {key: tensor.clone() for key, tensor in state.items()}  # Each is looked at anew.
        saver.save(places / "next").result()
        assert leftovers(places) == []
    assert [path.name for path in places.iterdir()] == ["next"]
    assert values_in(places / "next") == {str(number): number for number in range(6)}


def test_a_rank_is_killed(places: Path, tmp_path: Path) -> None:
    """Between two waves: the others hear of it, and nothing is left."""
    told = forked.run(waves_work.killed_in_waves, 3, tmp_path, root=str(places), victims=[1], on_death="finish")
    said = "rank 1 of 3 does not take part: its process has ended"
    assert told == [{"first": said, "next": said}, None, {"first": said, "next": said}]
    assert list(places.iterdir()) == []


@pytest.mark.parametrize("on_death", ["finish", "drop"])
def test_all_ranks_are_killed(on_death: str, places: Path, tmp_path: Path) -> None:
    """Between two waves, so that nobody can finish the save: the writer ends by itself, and leaves nothing."""
    told = forked.run(waves_work.killed_in_waves, 3, tmp_path, root=str(places), victims=[0, 1, 2], on_death=on_death)
    assert told == [None] * 3
    for process in map(int, (tmp_path / "writer").read_text().split()):
        wait_until(lambda process=process: not is_alive(process))
    assert list(places.iterdir()) == []


@pytest.mark.parametrize("machines", ["aaab", "abcd"])
def test_ranks_of_several_machines(machines: str, places: Path, tmp_path: Path) -> None:
    """Their writers go from wave to wave together."""
    arguments = {"root": str(places), "machines": machines, "staging": "16MiB"}
    expect_parts(forked.run(machine_work.at_once, 4, tmp_path, **arguments), places)


FAILED_WAVES = {
    "rank": ["rank 2 of 4: the device is gone"] * 2,
    "writer": [
        "of 4 does not take part: its machine, or the writer there, is gone",
        "the process that writes the saves is gone: ",
    ],
}


@pytest.mark.parametrize("how", FAILED_WAVES)
def test_a_wave_that_fails_on_one_of_two_machines(how: str, places: Path, tmp_path: Path) -> None:
    """The save is absent on all ranks, which hear of it by machine; the next one works."""
    arguments = {"root": str(places), "machines": "aabb", "how": how}
    ranks = forked.run(waves_work.fail_a_wave, 4, tmp_path, **arguments)
    for rank, told in enumerate(ranks):
        assert FAILED_WAVES[how][rank // 2] in told["first"], ranks
        assert told["next"] == "", ranks
    assert [path.name for path in places.iterdir()] == ["next"]
    found = values_in(places / "next")
    assert found == {f"own.{rank}.{number}": float(rank + number) for rank in range(4) for number in range(6)}
