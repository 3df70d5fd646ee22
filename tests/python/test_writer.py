"""`dcp.save` through `ucp.torch.StorageWriter`; the truth is what PyTorch's own writer saves of the same state."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file

import job
import ucp_checkpoint as ucp
import writer_work
from engine.dcp_judges import read_flat
from save_work import folder_of
from test_save import differences
from writer_work import TARGETS
from writers import SOON, leftovers

Told = list[dict[str, Any]]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Told, Path]:
    """The findings of each rank, and where the folders are."""
    root = tmp_path_factory.mktemp("saves")
    told = job.run(writer_work.four, 4, tmp_path_factory.mktemp("job"), root=str(root))
    assert told.pop() is None  # It was killed at the end.
    return told, root


@pytest.mark.parametrize(("name", "to"), [(name, to) for name, tos in TARGETS.items() for to in tos])
def test_the_same_as_of_pytorch(name: str, to: str, saved: tuple[Told, Path]) -> None:
    """All keys, tensors and values where the format has them; by digests elsewhere."""
    theirs, ours = (folder_of(str(saved[1]), name, kind) for kind in ("stopped", to))
    if to == "dcp":
        assert len(read_flat(theirs)) > 20
        assert differences(read_flat(ours), read_flat(theirs)) == []
    elif to.startswith("safetensors"):
        weights = {key: value for key, value in read_flat(theirs).items() if key.startswith("model.")}
        found = {name: value for file in ours.glob("*.safetensors") for name, value in load_file(file).items()}
        expected = {key.removeprefix("model."): value.bfloat16() for key, value in weights.items()}
        assert differences(found, expected) == []
    else:
        assert ucp.verify(ours, same=theirs)["differences"] == []


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_async_save(kind: str, saved: tuple[Told, Path]) -> None:
    """The state is that of the call."""
    assert all(all(rank["later"]) for rank in saved[0])
    found = read_flat(saved[1] / kind)
    assert sorted(found) == ["all", *(f"own.{rank}" for rank in range(4)), "step"]
    before = 0.0 if kind == "thread" else 10.0
    assert [found[f"own.{rank}"].tolist() for rank in range(4)] == [[before + rank] * 3 for rank in range(4)]


def test_a_planner_that_keeps_plans(saved: tuple[Told, Path]) -> None:
    """Later saves of the same state have plans without items, and other values."""
    for number in range(3):
        found = read_flat(saved[1] / f"kept {number}")
        assert found["step"] == number
        assert [found[f"own.{rank}"].tolist() for rank in range(4)] == [[float(number)] * 3] * 4


REFUSED = {
    "path": "rank 0 saves to `{}/first` and rank 1 to `{}/other`",
    "settings": "its settings of the saver are others than those of the first rank that came",
    "data": "rank 1 of 4: OSError: the data are gone",
    "exists": "`{}` exists; name another folder, or pass force=True to replace it",
    "target": "tp=3: nothing says how tensors are cut over tp ranks",
    "alone": "with use_collectives=False the ranks do not write one checkpoint; leave it out",
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_by_every_rank(kind: str, saved: tuple[Told, Path]) -> None:
    """In words that name the fault, soon; and a save works afterwards."""
    ranks, root = saved
    for rank in ranks:
        message, seconds = rank["refused"][kind]
        assert REFUSED[kind].replace("{}", str(root / "refused")) in message
        assert seconds < SOON
    assert leftovers(root / "refused") == []
    assert [path.name for path in (root / "refused").iterdir()] == ["first"]


def test_a_rank_dies(saved: tuple[Told, Path]) -> None:
    """The others raise an error within the timeout, and nothing is there."""
    assert all(0 < rank["dies"] < SOON for rank in saved[0])
    assert not (saved[1] / "refused" / "dead").exists()


def alone(state: dict[str, Any], path: Path, **options: Any) -> dict[str, Any]:
    """In this process; returns the report."""
    writer = ucp.torch.StorageWriter(path, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # That there is no process group.
        dcp.save(state, storage_writer=writer, no_dist=True)
    return writer.report


def test_in_one_process(tmp_path: Path) -> None:
    """Views, lists, numbers and bytes; the report; and a writer that is used for another path."""
    state = {"rows": torch.arange(12.0).view(3, 4).t(), "list": [torch.ones(2), 5], "blob": b"\x00\xff", "none": None}
    report = alone(state, tmp_path / "ours")
    assert report["target_format"] == "dcp"
    writer = ucp.torch.StorageWriter(tmp_path / "ours")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(state, checkpoint_id=tmp_path / "theirs", no_dist=True)
        dcp.save(state, storage_writer=writer, checkpoint_id=tmp_path / "other", no_dist=True)
    assert writer.checkpoint_id == str(tmp_path / "other")
    for name in ("ours", "other"):
        assert differences(read_flat(tmp_path / name), read_flat(tmp_path / "theirs")) == []


def test_wrong_arguments(tmp_path: Path) -> None:
    """Where the writer is made."""
    for options, said in (
        ({"timeout": -1}, "timeout is a number of seconds, not -1"),
        ({"force": "no"}, "force is True or False, not 'no'"),
        ({"to": 3}, 'to is a strategy such as "dcp:style=titan", not 3'),
    ):
        with pytest.raises(ucp.Error, match=said):
            ucp.torch.StorageWriter(tmp_path / "out", **options)
