"""A rank that does something else than the others in a save: the error on all names it, within the timeout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import forked
import rank_work
from engine.dcp_judges import read_flat
from writers import SOON, leftovers

RANKS = 3
Told = list[dict[str, Any]]


@pytest.fixture(scope="module", params=["aaa", "aba"], ids=["one machine", "two machines"])
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Told, Path]:
    """The findings of each rank, and where the saves are; by the machine of each rank."""
    place = tmp_path_factory.mktemp("ranks")
    (place / "saves").mkdir()
    arguments = {"root": str(place / "saves"), "machines": request.param}
    return forked.run(rank_work.in_save, RANKS, place, **arguments), place / "saves"


SAID = {
    "calls_another_path": "rank 0 saves to `{}/first` and rank 1 to `{}/other`",
    "cannot_pickle": "rank 1 of 3: `hook` of the state cannot be pickled: ",
    "wrong_argument": "rank 1 of 3: force is True or False, not 'no'",
    "another_shape": "`more` is a tensor [3] of float32 on rank 0 and a tensor [4] of float32 on rank 1",
    "a_value_here": "`more` is a tensor [] of float32 on rank 0 and a value on rank 1",
    "a_part_of_the_box": "of ranks 0, 1, 2: the chunk [2] at [0] and the chunk [6] at [0] of `more` have elements in",
    "a_sum": "rank 1 of 3: tensor `more` has the placement P(sum): each rank holds a term of a sum",
    "nobody_holds_it": "of ranks 0, 2: the 2 chunks of `more` hold 4 of the 6 elements of a tensor of [6]",
}


@pytest.mark.parametrize("name", SAID)
def test_all_are_told_the_same(name: str, told: tuple[Told, Path]) -> None:
    """At once, in one sentence; then a save works in which all do the same."""
    ranks, root = told
    for found in (rank[name] for rank in ranks):
        assert found["error"].startswith(SAID[name].replace("{}", str(root / name))), found["error"]
        assert "\n" not in found["error"]
        assert found["seconds"] < SOON
        assert found["error"] == ranks[0][name]["error"]
        assert found["next"] == ""
    assert [path.name for path in (root / name).iterdir()] == ["next"]


def test_one_never_calls(told: tuple[Told, Path]) -> None:
    """The others wait for it no longer than the timeout."""
    for rank in (0, 2):
        found = told[0][rank]["never_calls"]
        assert found["error"] == "rank 1 of 3 did not call this save within 2 s of the others"
        assert 1.9 <= found["seconds"] < 4  # It may call a little later than the first.
    assert not (told[1] / "never_calls" / "first").exists()


def test_one_calls_twice(told: tuple[Told, Path]) -> None:
    """It waits for the others; what they have called together is there."""
    ranks, root = told
    assert ranks[0]["calls_twice"]["error"] == ranks[2]["calls_twice"]["error"] == ""
    assert ranks[1]["calls_twice"]["error"] == "ranks 0, 2 of 3 did not call this save within 2 s of the others"
    assert 2 <= ranks[1]["calls_twice"]["seconds"] < 4
    assert (root / "calls_twice" / "first").exists()


@pytest.mark.parametrize("name", ["never_calls", "calls_twice"])
def test_a_call_too_many_or_too_few_is_no_harm_later(name: str, told: tuple[Told, Path]) -> None:
    """All ranks call the next save, with the same path."""
    assert [rank[name]["next"] for rank in told[0]] == [""] * RANKS


def test_the_worker_dies_between_saves(told: tuple[Told, Path]) -> None:
    """All ranks come to its successor."""
    ranks, root = told
    assert [rank["worker_dies"]["error"] for rank in ranks] == [""] * RANKS
    entries = read_flat(root / "worker_dies" / "first")
    assert [float(entries[f"own.{rank}"][0]) for rank in range(RANKS)] == [0, 1, 2]


def test_the_worker_dies_when_one_has_called(told: tuple[Told, Path]) -> None:
    """It had done nothing: all ranks come to its successor, and the save is done."""
    ranks, root = told
    assert [rank["worker_dies_between_calls"]["error"] for rank in ranks] == [""] * RANKS
    assert (root / "worker_dies_between_calls" / "first").exists()


def test_a_save_after_the_worker_died_when_one_had_called(told: tuple[Told, Path]) -> None:
    """All ranks call it."""
    assert [rank["worker_dies_between_calls"]["next"] for rank in told[0]] == [""] * RANKS


def test_one_has_seen_an_error(told: tuple[Told, Path]) -> None:
    """The others raise it at the next call, which begins on all ranks nevertheless."""
    ranks, root = told
    for number, rank in enumerate(ranks):
        found = rank["one_has_seen"]
        assert found["error"].startswith("" if number == 1 else f"`{root / 'one_has_seen'}` exists; name another")
        assert (found["error"] == "") == (number == 1)
        assert found["next"] == ""
    assert sorted(path.name for path in (root / "one_has_seen").iterdir()) == ["first", "next"]


def test_nothing_is_left(told: tuple[Told, Path]) -> None:
    """Of saves that failed."""
    assert [name for name in rank_work.IN_SAVE if leftovers(told[1] / name)] == []


def test_other_savers(tmp_path: Path) -> None:
    """Settings and states are compared when they are made."""
    found = forked.run(rank_work.at_the_beginning, RANKS, tmp_path)
    for rank in found:
        assert all(told["seconds"] < 5 for told in rank.values())
        for name in ("strategy", "timeout", "keep"):
            assert "its settings of the saver are others than those of the first rank that came" in rank[name]["error"]
        assert rank["wrong"]["error"] == "rank 1 of 3: timeout is a number of seconds, not -1"
        assert rank["dtype"]["error"] == "rank 1 of 3: `weight` has numbers of the unknown kind bits8"
        assert rank["text"]["error"].startswith("rank 1 of 3: a key of the state has characters that are not text")


@pytest.mark.parametrize(("how", "said"), [("close", "it has closed its saver"), ("exit", "its process has ended")])
def test_one_leaves(how: str, said: str, tmp_path: Path) -> None:
    """The others hear of it at once."""
    (tmp_path / "saves").mkdir()
    found = forked.run(rank_work.leaves, RANKS, tmp_path, how=how, root=str(tmp_path / "saves"))
    for rank in (0, 2):
        assert found[rank]["error"] == f"rank 1 of 3 does not take part: {said}"
        assert found[rank]["seconds"] < SOON
    assert list((tmp_path / "saves").iterdir()) == []


def test_one_is_late(tmp_path: Path) -> None:
    """It hears that the others have given up; the next save waits for it."""
    for found in forked.run(rank_work.late, RANKS, tmp_path, root=str(tmp_path)):
        assert found["first"]["error"] == "rank 1 of 3 did not call this save within 1 s of the others"
        assert found["next"]["error"] == ""


def test_groups_of_a_job(tmp_path: Path) -> None:
    """Each has a writer of its own."""
    assert forked.run(rank_work.groups, 4, tmp_path, root=str(tmp_path)) == [["dcp"]] * 4
    entries = read_flat(tmp_path / "odd")
    assert sorted(entries) == ["odd", "own.1", "own.3"]
    assert torch.equal(entries["own.3"], torch.full((2,), 3.0))
