"""The writer, its supervisor or ranks are killed: a save is complete or absent, says why, and leaves nothing."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch

import dying_work
import forked
import ucp_checkpoint as ucp
from dying_work import MIB, fill_by_hand, staged_by_hand, stop_while_it_writes
from engine.dcp_judges import read_flat
from ucp_checkpoint import _saved_dict
from writers import is_alive, leftovers, supervisor_of, supervisors_of, wait_until, worker_of

GONE = "the process that writes the saves is gone: it was ended by signal 9"


@pytest.fixture
def shared_memory() -> set[str]:
    """The names that others have there."""
    return set(os.listdir("/dev/shm"))


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """An empty folder."""
    (tmp_path / "places").mkdir()
    return tmp_path / "places"


def begun_until(saver: ucp.Saver, moment: str, path: Path) -> ucp.Saving:
    """A save that has come so far."""
    saving = saver.save(path)
    if moment == "staging":
        saving.progress.wait_for(1)
    else:
        stop_while_it_writes(path.parent)
    return saving


@pytest.mark.parametrize("victim", ["worker", "supervisor"])
@pytest.mark.parametrize("moment", ["idle", "staging", "writing"])
def test_the_writer_is_killed(
    victim: str, moment: str, places: Path, shared_memory: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job goes on. Another worker is there for the next save, and another supervisor if that one was killed."""
    state = {"weight": torch.full((32 * MIB,), 1.0)}
    if moment == "staging":
        monkeypatch.setattr(_saved_dict, "_memory_of", _saved_dict._memory_of)
        staged_by_hand()
    saver = ucp.Saver(state, threads=1)
    supervisor = supervisor_of(os.getpid())
    worker = worker_of(supervisor)
    saving = None if moment == "idle" else begun_until(saver, moment, places / "first")
    os.kill(worker if victim == "worker" else supervisor, signal.SIGKILL)
    wait_until(lambda: not is_alive(worker))
    if saving is not None:
        if moment == "staging":
            fill_by_hand(saver, saving.progress.number)
        with pytest.raises(ucp.Error, match=GONE):
            saving.result()
    assert not (places / "first").exists()
    monkeypatch.undo()
    state["weight"] = torch.full((32 * MIB,), 2.0)
    saver.save(places / "next").result()
    assert leftovers(places) == []
    (path,) = places.iterdir()
    assert bool((read_flat(path)["weight"] == 2).all())
    saver.close()
    wait_until(lambda: not supervisors_of(os.getpid()))
    assert set(os.listdir("/dev/shm")) <= shared_memory


@pytest.mark.parametrize("moment", ["idle", "staging", "writing"])
def test_a_rank_is_killed(moment: str, places: Path, tmp_path: Path) -> None:
    """All others hear of it soon; a save that it had staged is finished without it."""
    told = forked.run(
        dying_work.killed_ranks, 3, tmp_path, root=str(places), victims=[1], moment=moment, on_death="finish"
    )
    said = "rank 1 of 3 does not take part: its process has ended"
    for found in (told[0], told[2]):
        assert found == {"first": "" if moment == "writing" else said, "next": said, "seconds": found["seconds"]}
        assert found["seconds"] < 10
    assert told[1] is None
    expect_after(moment, "finish", places, tmp_path)


@pytest.mark.parametrize(("moment", "on_death"), [("staging", "finish"), ("writing", "finish"), ("writing", "drop")])
def test_all_ranks_are_killed(moment: str, on_death: str, places: Path, tmp_path: Path) -> None:
    """A save that all had staged is finished, or dropped if that is asked for; the writer ends by itself."""
    told = forked.run(
        dying_work.killed_ranks, 3, tmp_path, root=str(places), victims=[0, 1, 2], moment=moment, on_death=on_death
    )
    assert told == [None] * 3
    worker = int((tmp_path / "writer").read_text().split()[1])
    if moment == "writing":
        os.kill(worker, signal.SIGCONT)
    expect_after(moment, on_death, places, tmp_path)


def expect_after(moment: str, on_death: str, places: Path, tmp_path: Path) -> None:
    """The remains of killed_ranks()."""
    for process in map(int, (tmp_path / "writer").read_text().split()):
        wait_until(lambda process=process: not is_alive(process))
    if moment == "writing" and on_death == "finish":
        entries = read_flat(places / "first")
        assert bool((entries["weight"] == 1).all())
        assert [float(entries[f"own.{rank}"][-1]) for rank in range(3)] == [0, 1, 2]
        assert [path.name for path in places.iterdir()] == ["first"]
    else:
        assert list(places.iterdir()) == []


def test_the_worker_is_killed_at_many_moments(places: Path) -> None:
    """Each save is complete, or absent and an error; the next one works, and leaves nothing of the one before.

    One that was killed when all but saying so was done is complete, and an error.
    """
    state = {"weight": torch.ones(8 * MIB)}
    errors = []
    with ucp.Saver(state, threads=1) as saver:
        supervisor = supervisor_of(os.getpid())
        for number in range(20):
            worker = worker_of(supervisor)
            saving = saver.save(places / "killed")
            time.sleep(number * 0.002)
            os.kill(worker, signal.SIGKILL)
            error = dying_work.error_of(saving.result)
            assert error in ("", GONE)
            assert error or (places / "killed").exists()
            errors.append(error)
            was_there = (places / "killed").exists()
            saved = float(state["weight"][0])
            state["weight"].fill_(number)
            saver.save(places / "next", force=number > 0).result()
            assert bool((read_flat(places / "next")["weight"] == number).all())
            assert leftovers(places) == []
            assert (places / "killed").exists() == was_there
            if was_there:
                assert bool((read_flat(places / "killed")["weight"] == saved).all())
            shutil.rmtree(places / "killed", ignore_errors=True)
    assert errors.count(GONE) > 3


def test_the_worker_is_killed_twice(places: Path) -> None:
    """While it writes, and its successor before that has cleaned up."""
    with ucp.Saver({"weight": torch.ones(32 * MIB)}, threads=1) as saver:
        supervisor = supervisor_of(os.getpid())
        worker = worker_of(supervisor)
        saving = begun_until(saver, "writing", places / "first")
        os.kill(worker, signal.SIGKILL)
        assert dying_work.error_of(saving.result) == GONE
        saving = saver.save(places / "second")
        os.kill(worker_of(supervisor), signal.SIGKILL)
        assert dying_work.error_of(saving.result) in ("", GONE)
        saver.save(places / "third").result()
        assert leftovers(places) == []


def test_new_entries_outlive_a_worker(places: Path) -> None:
    """Those of extra, which only save() was given."""
    with ucp.Saver({"weight": torch.ones(3)}, timeout=5) as saver:
        saver.save(places / "first", extra={"count": 1}).result()
        os.kill(worker_of(supervisor_of(os.getpid())), signal.SIGKILL)
        saver.save(places / "next", extra={"count": 2}).result()
        assert read_flat(places / "next")["count"] == 2


def test_another_supervisor_is_started(places: Path) -> None:
    """By the next save, as the next worker is by the supervisor."""
    with ucp.Saver({"weight": torch.ones(3)}, timeout=5) as saver:
        os.kill(supervisor_of(os.getpid()), signal.SIGKILL)
        wait_until(lambda: not supervisors_of(os.getpid()))
        saver.save(places / "next").result()
