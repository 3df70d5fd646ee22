"""Jobs of PyTorch save while they train on; the truth is what the same jobs save by PyTorch while they stand still."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import job
import save_work
import ucp_checkpoint as ucp
from engine.dcp_judges import read_flat
from save_work import CASES, OTHERS, folder_of
from writers import stopped, supervisor_of, worker_of

OF_FOUR = [name for name, case in CASES.items() if case.ranks == 4]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders of all jobs."""
    root = tmp_path_factory.mktemp("saves")
    for ranks, work in ((4, save_work.four_ranks), (2, save_work.two_ranks)):
        place = tmp_path_factory.mktemp("job")
        for told in job.run(work, ranks, place, root=str(root), names=OF_FOUR):
            for name in told.get("same", {}):
                assert told["same"][name], f"{name} is another one in a job of two ranks"
    return root


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """Keys whose tensors or values are not the same bits, dtypes and types."""
    found = sorted(ours.keys() ^ theirs.keys())
    for key in ours.keys() & theirs.keys():
        mine, other = ours[key], theirs[key]
        if isinstance(mine, torch.Tensor) and isinstance(other, torch.Tensor):
            is_same = mine.dtype == other.dtype and mine.shape == other.shape and torch.equal(mine, other)
        else:
            is_same = type(mine) is type(other) and mine == other
        if not is_same:
            found.append(key)
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_folder_is_that_of_the_stopped_job(name: str, root: Path) -> None:
    """All keys, tensors and values, as PyTorch's own loader joins them in one process."""
    theirs = read_flat(folder_of(str(root), name, "stopped"))
    ours = read_flat(folder_of(str(root), name, "dcp"))
    assert len(theirs) > 20
    if CASES[name].parallel == "pipeline":  # PyTorch has no numbered groups of several stages.
        names = sorted(key.split(".", 2)[2][: -len(".lr")] for key in theirs if key.endswith(".lr"))
        assert sorted(ours["optimizer.param_groups.0.params"]) == names
        ours, theirs = ({key: of[key] for key in of if "param_groups" not in key} for of in (ours, theirs))
    assert differences(ours, theirs) == []


@pytest.mark.parametrize(("name", "to"), [(name, to) for name, tos in OTHERS.items() for to in tos])
def test_the_other_formats_hold_the_same(name: str, to: str, root: Path) -> None:
    """Compared by digests with PyTorch's folder, and not with ours."""
    if to.startswith("safetensors"):
        theirs = read_flat(folder_of(str(root), name, "stopped"))
        weights = {key.removeprefix("model."): value for key, value in theirs.items() if key.startswith("model.")}
        found = {}
        for file in folder_of(str(root), name, to).glob("*.safetensors"):
            found |= load_file(file)
        assert differences(found, {key: value.bfloat16() for key, value in weights.items()}) == []
        return
    same = ucp.verify(folder_of(str(root), name, to), same=folder_of(str(root), name, "stopped"))
    assert same["differences"] == []


def test_after_a_forward_pass_alone(root: Path) -> None:
    """FSDP2 leaves whole parameters in the modules, whose memory is gone later."""
    theirs = read_flat(folder_of(str(root), "forward", "stopped"))
    assert differences(read_flat(folder_of(str(root), "forward", "dcp")), theirs) == []


ELEMENTS, PARTS = 1 << 21, 8


def is_torn(folder: Path, guarded: bool) -> bool:
    """Whether a save of many equal numbers, which steps change at once, has numbers of later steps."""
    model = nn.ParameterList([nn.Parameter(torch.ones(ELEMENTS)) for _ in range(PARTS)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    with ucp.Saver(model, optimizer, threads=1) as saver:
        if not guarded:
            saver._hook.remove()
        saving = saver.save(folder)
        for _ in range(3):
            optimizer.step()
        saving.result()
    entries = read_flat(folder)
    return not all(bool((entries[f"model.{number}"] == 1).all()) for number in range(PARTS))


def test_a_torn_state_would_be_seen(tmp_path: Path) -> None:
    """If the optimizer does not wait; on a busy machine, not at the first try."""
    assert not is_torn(tmp_path / "guarded", guarded=True)
    assert any(is_torn(tmp_path / f"torn_{i}", guarded=False) for i in range(5))


def test_the_optimizer_waits_and_buffers_do_not_change(tmp_path: Path) -> None:
    """However late the writer is: the state is that of the call."""
    model = nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(0.1), foreach=False)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    with ucp.Saver(model, optimizer) as saver:
        for number in range(2):
            model(torch.randn(4, 5)).square().sum().backward()
            optimizer.step()
            before = {name: value.clone() for name, value in model.state_dict().items()}
            rate = float(optimizer.param_groups[0]["lr"])
            with stopped(worker_of(supervisor_of(os.getpid()))):
                saving = saver.save(tmp_path / str(number), extra={"scheduler": scheduler})
                scheduler.step()
                model(torch.randn(4, 5))
                waiting = threading.Thread(target=optimizer.step)
                waiting.start()
                waiting.join(0.2)
                assert waiting.is_alive()
                assert not saving.staged.done()
            waiting.join()
            assert saving.staged.done()
            saving.result()
            assert not torch.equal(model[1].running_mean, before["1.running_mean"])
            assert not torch.equal(model[0].weight, before["0.weight"])
            entries = read_flat(tmp_path / str(number))
            found = {key.removeprefix("model."): value for key, value in entries.items() if key.startswith("model.")}
            assert differences(found, before) == []
            assert float(entries["optimizer.param_groups.0.lr"]) == rate
