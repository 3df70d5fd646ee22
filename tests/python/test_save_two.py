"""Two saves in flight, of `staging="2x"`: the next one is staged while one is written, whoever is killed meanwhile."""

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
import machine_work
import ucp_checkpoint as ucp
from dying_work import MIB, error_of, fill_by_hand, hold_while_it_writes, staged_by_hand
from engine.dcp_judges import read_flat
from ucp_checkpoint import _saved_dict
from writers import HeldWriting, is_alive, leftovers, supervisor_of, wait_until, worker_of

GONE = "the process that writes the saves is gone: it was ended by signal 9"


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """An empty folder."""
    (tmp_path / "places").mkdir()
    return tmp_path / "places"


def values_in(places: Path) -> dict[str, float]:
    """Of each checkpoint, whose tensor has one value everywhere."""
    found = {}
    for folder in places.iterdir():
        weight = read_flat(folder)["weight"]
        assert bool((weight == weight[0]).all())
        found[folder.name] = float(weight[0])
    return found


def is_staged_soon(saving: ucp.Saving) -> bool:
    """While another one is written."""
    try:
        saving.staged.result(timeout=0.5)
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize(("staging", "are_staged"), [("1x", [False, False]), ("2x", [True, False])])
def test_the_next_save_is_staged_while_one_is_written(staging: str, are_staged: list[bool], places: Path) -> None:
    """And the third waits for the first. Each has the state of its call; they are complete in the order of calls."""
    weight = torch.full((32 * MIB,), 0.0)
    with ucp.Saver({"weight": weight}, staging=staging, threads=1, nice=19) as saver:
        savings = [saver.save(places / "0")]
        with hold_while_it_writes(places):
            savings[0].staged.result()
            for number, is_staged in enumerate(are_staged, 1):
                weight.fill_(number)
                savings.append(saver.save(places / str(number)))
                assert is_staged_soon(savings[-1]) == is_staged
                if not is_staged:
                    break
        for number, saving in enumerate(savings):
            saving.result()
            assert all(before.done() for before in savings[:number])
    assert values_in(places) == {str(number): number for number in range(len(savings))}


def test_a_state_of_another_shape_waits(places: Path) -> None:
    """Its segments are other ones, and those of before are still read."""
    state = {"weight": torch.full((32 * MIB,), 1.0)}
    with ucp.Saver(state, staging="2x", threads=1, nice=19) as saver:
        first = saver.save(places / "first")
        with hold_while_it_writes(places):
            first.staged.result()
            second = saver.save(places / "second", extra={"more": torch.full((5,), 7.0)})
            assert not is_staged_soon(second)
        state["weight"].add_(0)
        second.result()
        third = saver.save(places / "third")
        first.result()
        third.result()
    assert values_in(places) == {"first": 1, "second": 1, "third": 1}
    assert read_flat(places / "second")["more"].tolist() == [7] * 5
    assert "more" not in read_flat(places / "third")


@pytest.mark.parametrize("victim", ["worker", "supervisor"])
@pytest.mark.parametrize("moment", ["staging", "staged"])
def test_the_writer_is_killed(victim: str, moment: str, places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both fail. One that was only called is saved by another writer, which removes the remains of both."""
    state = {"weight": torch.full((32 * MIB,), 1.0)}
    monkeypatch.setattr(_saved_dict, "_memory_of", _saved_dict._memory_of)
    if moment == "staging":
        staged_by_hand()
    with ucp.Saver(state, staging="2x", threads=1, nice=19) as saver:
        supervisor = supervisor_of(os.getpid())
        worker = worker_of(supervisor)
        savings = [saver.save(places / "first")]
        if moment == "staging":
            savings[0].progress.wait_for(1)
            fill_by_hand(saver, savings[0].progress.number)
        with hold_while_it_writes(places):
            savings[0].staged.result()
            savings.append(saver.save(places / "second"))
            savings[1].progress.wait_for(1 if moment == "staging" else 2, 10)
            savings.append(saver.save(places / "third"))
            os.kill(worker if victim == "worker" else supervisor, signal.SIGKILL)
        wait_until(lambda: not is_alive(worker))
        if moment == "staging":
            fill_by_hand(saver, savings[1].progress.number)
        assert [error_of(saving.result) for saving in savings[:2]] == [GONE] * 2
        if moment == "staging":
            savings[2].progress.wait_for(1)
            fill_by_hand(saver, savings[2].progress.number)
        savings[2].result()
        assert leftovers(places) == []
    assert values_in(places) == {"third": 1}


def test_the_writer_is_killed_at_many_moments(places: Path) -> None:
    """Each of two saves is complete, or absent and an error. One that was only called is saved by another writer."""
    weight = torch.zeros(8 * MIB)
    failed = 0
    with ucp.Saver({"weight": weight}, staging="2x", threads=1) as saver:
        supervisor = supervisor_of(os.getpid())
        for number in range(20):
            worker = worker_of(supervisor)
            weight.fill_(number)
            savings = [saver.save(places / "first")]
            savings[0].staged.result()
            weight.fill_(number + 100)
            savings.append(saver.save(places / "second"))
            time.sleep(number * 0.003)
            os.kill(worker, signal.SIGKILL)
            errors = [error_of(saving.result) for saving in savings]
            assert set(errors) <= {"", GONE}
            failed += errors.count(GONE)
            saver.save(places / "next").result()
            assert leftovers(places) == []
            found = values_in(places)
            assert found.pop("next") == number + 100
            assert found in ({}, {"first": number}, {"second": number + 100}, {"first": number, "second": number + 100})
            assert len(found) >= errors.count("")
            assert "first" in found or errors[0]
            for folder in places.iterdir():
                shutil.rmtree(folder)
    assert failed > 3


@pytest.mark.parametrize("moment", ["staging", "staged"])
def test_a_rank_is_killed(moment: str, places: Path, tmp_path: Path) -> None:
    """The save that is written is finished; the next one is as well, if the rank had staged it."""
    arguments = {"root": str(places), "victims": [1], "moment": moment, "on_death": "finish"}
    told = forked.run(dying_work.killed_with_two, 3, tmp_path, **arguments)
    said = "rank 1 of 3 does not take part: its process has ended"
    second = said if moment == "staging" else ""
    assert told == [{"0": "", "1": second, "next": said}, None, {"0": "", "1": second, "next": said}]
    expect_after(["first"] if second else ["first", "second"], places, tmp_path)


@pytest.mark.parametrize(
    ("moment", "on_death", "left"),
    [
        ("staging", "finish", ["first"]),
        ("staged", "finish", ["first", "second"]),
        ("staging", "drop", []),
        ("staged", "drop", []),
    ],
)
def test_all_ranks_are_killed(moment: str, on_death: str, left: list[str], places: Path, tmp_path: Path) -> None:
    """Saves that all had staged are finished, or dropped if that is asked for; the writer ends by itself."""
    arguments = {"root": str(places), "victims": [0, 1, 2], "moment": moment, "on_death": on_death}
    assert forked.run(dying_work.killed_with_two, 3, tmp_path, **arguments) == [None] * 3
    os.kill(int((tmp_path / "writer").read_text().split()[1]), signal.SIGCONT)
    expect_after(left, places, tmp_path)


def expect_after(left: list[str], places: Path, tmp_path: Path) -> None:
    """The remains of killed_with_two()."""
    for process in map(int, (tmp_path / "writer").read_text().split()):
        wait_until(lambda process=process: not is_alive(process))
    assert values_in(places) == {name: {"first": 1, "second": 2}[name] for name in left}
    for name in left:
        entries = read_flat(places / name)
        assert [float(entries[f"own.{rank}"][-1]) for rank in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("machines", ["aaa", "aba"])
def test_saves_that_nobody_waits_for(machines: str, places: Path, tmp_path: Path) -> None:
    """On one machine and on two: each has the state of its call."""
    told = forked.run(machine_work.save_often, 3, tmp_path, root=str(places), machines=machines)
    assert told == [[""] * 8] * 3
    for number in range(8):
        found = read_flat(places / str(number))
        assert [set(found[f"own.{rank}"].tolist()) for rank in range(3)] == [{number + rank} for rank in range(3)]


def test_ranks_of_another_machine_end_after_staging(places: Path, tmp_path: Path) -> None:
    """Their writer lives until both saves are written."""
    told = forked.run(machine_work.end_with_two, 3, tmp_path, root=str(places), machines="abb")
    assert told == [["", ""], None, None]
    for number in range(2):
        found = read_flat(places / str(number))
        assert [set(found[f"own.{rank}"].tolist()) for rank in range(3)] == [{number + rank} for rank in range(3)]


def test_no_writing_is_no_hold() -> None:
    """The tests above would be of another moment."""
    with ucp.Saver({"weight": torch.ones(3)}), pytest.raises(AssertionError, match="it does not write"):
        HeldWriting(worker_of(supervisor_of(os.getpid())))
