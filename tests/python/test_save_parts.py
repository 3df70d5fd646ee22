"""Saves in parts: with `node_local=True` each machine keeps what its ranks hold, on its own disk.

The truth is what the same job saves to a folder that all machines see, which other tests compare with PyTorch's.
"""

from __future__ import annotations

import pickle
import re
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp

import forked
import job
import own_disks
import parts_work
import ucp_checkpoint as ucp
from dying_work import MIB, error_of
from engine.dcp_judges import read_flat
from test_save import differences
from writers import leftovers

pytestmark = pytest.mark.skipif(not own_disks.are_there(), reason="disks of their own need root, who may mount")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """With a folder for the disk of each machine."""
    for name in ("here", "whole", "a", "b", "c"):
        (tmp_path / "root" / name).mkdir(parents=True)
    return tmp_path / "root"


def joined(root: Path, machines: str, name: str) -> Path:
    """The parts of a checkpoint, copied into one folder."""
    union = root / "union" / name
    for machine in sorted(set(machines)):
        shutil.copytree(root / machine / name, union, dirs_exist_ok=True)
    return union


def data_files(folder: Path) -> list[str]:
    """Their names, without what only this save has in them."""
    saves = {re.sub(r"^__\d+_0_|\.distcp$", "", path.name) for path in folder.glob("*.distcp")}
    assert len(saves) == 1, saves
    assert re.fullmatch("[0-9a-f]{16}", saves.pop())
    return sorted(re.sub("_[0-9a-f]{16}", "", path.name) for path in folder.glob("*.distcp"))


def file_of(folder: Path, machine: int) -> Path:
    """The one with the elements that a machine keeps."""
    (path,) = folder.glob(f"__{machine}_0_*.distcp")
    return path


def files_of(folder: Path) -> dict[str, set[str]]:
    """The machines in whose files the boxes of each key are."""
    found: dict[str, set[str]] = {}
    for index, info in pickle.loads((folder / ".metadata").read_bytes()).storage_data.items():
        found.setdefault(index.fqn, set()).add(re.sub("_[0-9a-f]{16}", "", info.relative_path))
    return found


@pytest.mark.parametrize(("machines", "staging"), [("aabb", "1x"), ("abca", "1x"), ("aabb", "16MiB")])
def test_each_machine_keeps_what_its_ranks_hold(machines: str, staging: str, tmp_path: Path, root: Path) -> None:
    """Its folder has one file of elements, its own; all folders together are the checkpoint."""
    how = {"root": str(root), "machines": machines, "staging": staging}
    told = forked.run(parts_work.save_parts, 4, tmp_path, **how)
    names = sorted(set(machines))
    for number, machine in enumerate(names):
        assert sorted(path.name for path in (root / machine).iterdir()) == ["1", "2", "at-once"]  # keep=2
        for name in ("1", "2", "at-once"):
            assert data_files(root / machine / name) == [f"__{number}_0.distcp"]
    for name, value in (("1", 2.0), ("2", 3.0), ("at-once", 0.0)):
        union = joined(root, machines, name)
        assert ucp.verify(union)["differences"] == []
        found = read_flat(union)
        for rank, machine in enumerate(machines):
            assert torch.equal(found[f"own.{rank}"], torch.full((8 * MIB,), value + rank))
            assert files_of(union)[f"own.{rank}"] == {f"__{names.index(machine)}_0.distcp"}
    assert differences(read_flat(root / "union" / "2"), read_flat(root / "whole" / "2")) == []
    for report in told[0].values():
        assert len(report["parts"]) == len(names)
        assert report["bytes_exchanged"] < 65536  # All know `all` and `value`, which one of them stages.


def test_parts_of_two_saves(tmp_path: Path, root: Path) -> None:
    """They are refused by every reader, which names both, whichever was copied last; PyTorch misses a file."""
    forked.run(parts_work.save_parts, 2, tmp_path, root=str(root), machines="ab")
    for saves in (("1", "2"), ("2", "1")):
        mixed = root / "mixed"
        for machine, save in zip("ab", saves, strict=True):
            shutil.copytree(root / machine / save, mixed, dirs_exist_ok=True)
        other = file_of(root / "a" / saves[0], 0).name
        missing = file_of(root / "a" / saves[1], 0).name
        ids = [re.sub(r"^__0_0_|\.distcp$", "", name) for name in (other, missing)]
        expected = (
            f"`{mixed}` has files of two saves: `{other}` is of the save {ids[0]}, and `{missing}` of the save "
            f"{ids[1]}, which is listed, is missing; copy all parts of one save into a folder, or remove the file "
            "of the other save from a part"
        )
        for reader in (
            partial(ucp.convert, mixed, root / "out", to="safetensors"),
            partial(ucp.inspect, mixed),
            partial(ucp.load, mixed, to="universal"),
            partial(ucp.verify, mixed),
        ):
            assert error_of(reader) == expected
        assert not (root / "out").exists()
        with pytest.raises(dcp.api.CheckpointException, match=missing):
            dcp.load({"own.0": torch.zeros(8 * MIB)}, checkpoint_id=mixed, no_dist=True)
        (mixed / other).unlink()
        (mixed / missing).write_bytes((root / "a" / saves[1] / missing).read_bytes())
        assert ucp.verify(mixed)["differences"] == []
        shutil.copy(root / "a" / saves[0] / other, mixed)  # All files of one save, and a file of another one.
        assert torch.equal(read_flat(mixed)["own.0"], torch.full((8 * MIB,), 2.0 if saves[1] == "1" else 3.0))
        shutil.rmtree(mixed)
    lone = root / "a" / "2"
    assert ucp.verify(lone)["differences"] == []
    stray = Path(shutil.copy(file_of(root / "b" / "1", 1), lone))
    assert error_of(partial(ucp.verify, lone)).startswith(f"`{lone}` has files of two saves: `{stray.name}` is of ")
    stray.unlink()
    assert ucp.verify(lone)["differences"] == []


def test_jobs_of_pytorch(tmp_path: Path, root: Path) -> None:
    """Sharded, and with replicas on two machines: only single numbers, such as steps, are sent to the first machine."""
    names = ["fsdp2", "hsdp_sgd", "fsdp2_tp"]
    told = job.run(parts_work.train, 4, tmp_path, root=str(root), names=names, machines="aabb")
    assert max(told[0]) < 64, told
    for name in names:
        union = joined(root, "ab", name)
        assert ucp.verify(union, same=root / "whole" / name)["differences"] == []
        assert differences(read_flat(union), read_flat(root / "whole" / name)) == []


def test_one_machine_alone(tmp_path: Path, root: Path) -> None:
    """Its folder says which files are elsewhere."""
    forked.run(parts_work.save_parts, 2, tmp_path, root=str(root), machines="ab")
    for number, machine, other_machine in ((1, "a", "b"), (2, "b", "a")):
        folder, other = root / machine / "2", file_of(root / other_machine / "2", 2 - number).name
        said = error_of(lambda folder=folder: ucp.convert(folder, root / "out", to="safetensors"))
        assert said == f"`{folder / other}` is missing, and `.metadata` lists it; copy the whole checkpoint"
        assert not (root / "out").exists()
        said = error_of(lambda folder=folder: ucp.inspect(folder))
        assert said.startswith(f"`{folder}` is part {number} of 2 of a checkpoint (run "), said
        assert f"`{other}` is in part {3 - number}; read all parts together" in said
        assert ucp.verify(folder)["differences"] == []


@pytest.mark.parametrize("seed", [1, 2])
def test_a_writer_is_killed(seed: int, tmp_path: Path, root: Path) -> None:
    """All parts are there or none, and nothing is left; the next save finds new writers on every machine."""
    machines = "aabc"
    ranks = forked.run(parts_work.kill_writers, 4, tmp_path, root=str(root), machines=machines, seed=seed)
    assert [rank[-1]["left"] for rank in ranks] == [[]] * 4
    failed = 0
    for number in range(6):
        of_ranks: list[dict[str, str]] = [rank[number] for rank in ranks]
        assert [told["next"] for told in of_ranks] == [""] * 4, of_ranks
        is_failed = any(told["killed"] for told in of_ranks)
        failed += is_failed
        parts = [root / machine / str(number) for machine in "abc" if (root / machine / str(number)).exists()]
        if len(parts) in (1, 2):  # It was killed between the renames of two machines.
            assert is_failed
            assert "of a checkpoint" in error_of(lambda parts=parts: ucp.inspect(parts[0]))
        for name in [f"{number}-next"] + ([str(number)] if len(parts) == 3 else []):
            found = read_flat(joined(root, machines, name))
            for rank in range(4):
                assert bool((found[f"own.{rank}"] == number).all()), (name, rank)
    assert failed > 0


def test_a_machine_whose_disk_is_full(tmp_path: Path, root: Path) -> None:
    """It is named, as is one that has something at the path; nothing is on any disk, and the next save works."""
    for told in forked.run(parts_work.fail_on_a_disk, 3, tmp_path, root=str(root), machines="aab"):
        assert told["full"].startswith("machine 1 of 2: "), told
        assert "bytes" in told["full"]
        assert (told["left"], told["is_there"]) == ([], False)
        assert told["taken"].startswith("machine 1 of 2: "), told
        assert "exists" in told["taken"]
        assert (told["next"], told["is_there_next"]) == ("", True)
        assert (told["forced"], told["is_there_forced"]) == ("", True)
    assert leftovers(root / "a") == []


def test_what_is_refused(tmp_path: Path, root: Path) -> None:
    """Other formats, settings that say which files there are, and one folder for two machines."""
    for told in forked.run(parts_work.refused, 2, tmp_path, root=str(root), machines="ab"):
        assert told["format"].endswith("each machine can have of its own, and not for to='universal'"), told
        assert "`fsdp`, `tp` and `files` say which files a dcp folder has" in told["files"], told
        assert told["folder"] in [
            f"machine {one} and machine {other} are on different nodes and see the same folder `{root / 'whole'}`; "
            "leave out node_local=True, or name a folder on a disk that each node has for itself"
            for one, other in ((0, 1), (1, 0))
        ]
    assert list((root / "whole").iterdir()) == []
