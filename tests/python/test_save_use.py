"""A Saver in the hands of a user who does not read its page."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import ucp_checkpoint as ucp
from dying_work import MIB, error_of
from engine.dcp_judges import read_flat
from writers import leftovers, stopped, supervisor_of, supervisors_of, wait_until, worker_of

WEIGHT = {"weight": torch.ones(4)}


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """No process, whatever a test does."""
    yield
    gc.collect()
    wait_until(lambda: not supervisors_of(os.getpid()))


def small_model() -> nn.Module:
    """With a buffer that each forward pass changes."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))


def train(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """A step."""
    model(torch.randn(5, 8)).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def weights_in(folder: Path) -> dict[str, Any]:
    """Those of the model."""
    return {key.removeprefix("model."): value for key, value in read_flat(folder).items() if key.startswith("model.")}


def are_equal(found: dict[str, Any], wanted: dict[str, torch.Tensor]) -> bool:
    """Names, dtypes and bits."""
    if found.keys() != wanted.keys():
        return False
    return all(found[name].dtype == wanted[name].dtype and torch.equal(found[name], wanted[name]) for name in wanted)


def test_closing(tmp_path: Path) -> None:
    """As often as anybody likes; a closed Saver saves no more, and says so."""
    with ucp.Saver(WEIGHT) as saver:
        saving = saver.save(tmp_path / "saved")
    assert saving.done()
    saver.close()
    with pytest.raises(ucp.Error, match="the saver is closed"):
        saver.save(tmp_path / "more")
    assert saving.result()["target_format"] == "dcp"
    assert ucp.save(WEIGHT, tmp_path / "once", to="safetensors:dtype=bf16", extra={})["target_format"] == "safetensors"


def test_errors_are_raised_once(tmp_path: Path) -> None:
    """By the result, or by the next save, or by closing; an exception of the job itself is not hidden."""
    missing = tmp_path / "missing" / "saved"
    saver = ucp.Saver(WEIGHT)
    with pytest.raises(ucp.Error, match="there is no folder"):
        saver.save(missing).durable.result()
    saver.save(tmp_path / "a").result()
    wait_until(saver.save(missing).done)
    with pytest.raises(ucp.Error, match="there is no folder"):
        saver.save(tmp_path / "b")
    saver.save(missing)
    with pytest.raises(ucp.Error, match="there is no folder"):
        saver.close()
    saver.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    with pytest.raises(ValueError, match="of the job"), ucp.Saver(WEIGHT) as saver:
        saver.save(missing)
        raise ValueError("of the job")


def test_results_with_a_timeout(tmp_path: Path) -> None:
    """Neither an error of the save nor the end of it."""
    with ucp.Saver(WEIGHT) as saver:
        with stopped(worker_of(supervisor_of(os.getpid()))):
            saving = saver.save(tmp_path / "saved")
            assert not saving.done()
            for step in (saving, saving.staged, saving.durable):
                with pytest.raises(TimeoutError):
                    step.result(timeout=0.05)
        saving.result(timeout=30)


EXIT = Path(__file__).parent / "exit_work.py"


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("forget", 0, ""),
        ("daemon", 0, ""),
        ("exit", 3, ""),
        ("raise", 1, "ValueError: of the job\n"),
        ("raise within", 1, "ValueError: of the job\n"),
        ("fail", 0, "ucp.Saver: `/no/such/folder` cannot be written: there is no folder `/no/such`\n"),
        ("interrupt", 0, ""),
    ],
)
def test_a_process_that_ends(how: str, code: int, said: str, tmp_path: Path) -> None:
    """A save that has begun is finished, an error is not lost, and no process stays."""
    command = [sys.executable, str(EXIT), how, str(tmp_path / "saved")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == code, ended.stderr
    assert ended.stderr.endswith(said) if said else ended.stderr == ""
    assert ended.stdout == ("interrupted True dcp\n" if how == "interrupt" else "")
    assert bool((read_flat(tmp_path / "saved")["weight"] == 1).all())
    assert leftovers(tmp_path) == []


def test_folders_of_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative to the folder of the call, whatever it is later."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    monkeypatch.chdir(tmp_path / "one")
    with ucp.Saver(WEIGHT) as saver:
        with stopped(worker_of(supervisor_of(os.getpid()))):
            paths = ["relative", "slash/", "../one/ünï ☃", "new\nline", b"\xff\xfe", Path("path")]
            savings = [saver.save(path) for path in paths]
            os.chdir(tmp_path / "two")
        for saving in savings:
            saving.result()
    found = {os.fsencode(path.name) for path in (tmp_path / "one").iterdir()}
    assert found == {b"relative", b"slash", "ünï ☃".encode(), b"new\nline", b"\xff\xfe", b"path"}
    assert list((tmp_path / "two").iterdir()) == []


def test_keep(tmp_path: Path) -> None:
    """The newest ones, of those of this Saver."""
    (tmp_path / "other").mkdir()
    with ucp.Saver(WEIGHT, keep=2) as saver:
        for number in (1, 2, 3, 2, 4):
            saver.save(tmp_path / str(number), force=True).result()
    wait_until(lambda: sorted(path.name for path in tmp_path.iterdir()) == ["2", "4", "other"])


def test_all_kinds_of_numbers(tmp_path: Path) -> None:
    """Points, empty tensors and each dtype; lists, tuples and numbers as keys."""
    names = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16"]
    names += ["float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"]
    numbers = torch.tensor([0, 1, 0, 1, 1])
    state: dict[Any, Any] = {name: numbers.to(getattr(torch, name)) for name in names}
    state |= {"point": torch.tensor(3.5), "rows": torch.empty(0, 4), "columns": torch.empty(3, 0), 7: torch.ones(2)}
    state |= {"list": [torch.ones(2), {"inner": 3}], "tuple": (1, "two"), "none": None}
    state |= {"large": 10**40, "text": "x" * MIB}
    ucp.save(state, tmp_path / "saved")
    found = read_flat(tmp_path / "saved")
    for name in [*names, "point", "rows", "columns"]:
        assert found[name].dtype == state[name].dtype
        assert torch.equal(found[name].view(torch.uint8) if "float8" in name else found[name],
                           state[name].view(torch.uint8) if "float8" in name else state[name])  # fmt: skip
    assert found["7"].tolist() == [1, 1]
    assert (found["list.0"].tolist(), found["list.1.inner"], found["tuple"]) == ([1, 1], 3, (1, "two"))
    assert (found["none"], found["large"], len(found["text"])) == (None, 10**40, MIB)


class Counting(nn.Module):
    """Its state is not all in tensors."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.make = make

    def get_extra_state(self) -> Any:
        return self.make(5)

    def set_extra_state(self, state: Any) -> None:
        """Nothing: it is never loaded."""


@pytest.mark.parametrize("make", [lambda count: torch.tensor(count), lambda count: [count, "x"]])
def test_extra_state_of_modules(make: Any, tmp_path: Path) -> None:
    """As PyTorch saves it."""
    with ucp.Saver(Counting(make)) as saver:
        for name in ("first", "next"):
            saver.save(tmp_path / name).result()
            assert read_flat(tmp_path / name)["model._extra_state"] == make(5)


def test_wrapped_and_frozen_and_half(tmp_path: Path) -> None:
    """Names are those without wrappers; what is not trained is there, and has no states."""
    inner = small_model().bfloat16()
    inner[0].requires_grad_(False)
    model = torch.compile(inner)
    optimizer = torch.optim.AdamW([part for part in model.parameters() if part.requires_grad])
    for part in optimizer.param_groups[0]["params"]:
        part.grad = torch.ones_like(part)
    with ucp.Saver(model, optimizer) as saver:
        optimizer.step()
        wanted = {name: value.clone() for name, value in inner.state_dict().items()}
        saver.save(tmp_path / "saved").result()
    assert are_equal(weights_in(tmp_path / "saved"), wanted)
    assert "optimizer.state.0.weight.exp_avg" not in read_flat(tmp_path / "saved")
    assert "optimizer.state.2.weight.exp_avg" in read_flat(tmp_path / "saved")


def test_a_state_that_becomes_another_one(tmp_path: Path) -> None:
    """No states yet, states, loaded ones, replaced parameters, another group, a shape that no format takes."""
    model = small_model()
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1, momentum=0.9)
    with ucp.Saver(model, optimizer) as saver:

        def saved(name: str) -> dict[str, Any]:
            saver.save(tmp_path / name).result()
            return read_flat(tmp_path / name)

        momentum = "optimizer.state.0.weight.momentum_buffer"
        assert momentum not in saved("fresh")
        train(model, optimizer)
        assert saved("trained")[momentum].any()
        states = optimizer.state_dict()
        states["state"][0]["momentum_buffer"] = torch.full((8, 8), 7.0)
        optimizer.load_state_dict(states)
        assert set(saved("loaded")[momentum].flatten().tolist()) == {7.0}
        optimizer.state[model[0].weight] = {"momentum_buffer": torch.full((8, 8), 8.0)}
        assert set(saved("set")[momentum].flatten().tolist()) == {8.0}
        zeros = {name: torch.zeros_like(value) for name, value in model.state_dict().items()}
        model.load_state_dict(zeros, assign=True)
        assert not saved("assigned")["model.0.weight"].any()
        optimizer.add_param_group({"params": list(model[2].parameters()), "lr": 0.5})
        assert error_of(lambda: saved("foreign")).endswith("the optimizer has a parameter that the model does not have")
    assert not (tmp_path / "foreign").exists()


def test_groups_that_are_added(tmp_path: Path) -> None:
    """With their parameters and settings."""
    model = small_model()
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1, momentum=0.9)
    with ucp.Saver(model, optimizer) as saver:
        optimizer.add_param_group({"params": list(model[2].parameters()), "lr": 0.5})
        train(model, optimizer)
        saver.save(tmp_path / "saved").result()
    found = read_flat(tmp_path / "saved")
    assert found["optimizer.param_groups.1.lr"] == 0.5
    assert found["optimizer.param_groups.1.params"] == ["2.weight", "2.bias"]
    assert found["optimizer.state.2.weight.momentum_buffer"].any()


def test_extras_belong_to_their_save(tmp_path: Path) -> None:
    """None stays for the next one, also if that begins at once; the dict of a state may change as well."""
    state = {"weight": torch.ones(4), "count": 1}
    with ucp.Saver(state, extra={"step": 0}) as saver:
        savings = []
        for number in range(4):
            state["count"] = number
            extra = {"step": number, f"own.{number}": torch.full((3,), float(number))} if number % 2 else {}
            savings.append(saver.save(tmp_path / str(number), extra=extra))
        for saving in savings:
            saving.result()
    for number in range(4):
        found = read_flat(tmp_path / str(number))
        assert found["count"] == number
        assert sorted(found) == sorted(["weight", "count"] + (["step", f"own.{number}"] if number % 2 else []))
        if number % 2:
            assert found["step"] == number
            assert found[f"own.{number}"].tolist() == [number] * 3


def test_a_save_that_failed_changes_nothing(tmp_path: Path) -> None:
    """Entries that it would have brought are there in the next one."""
    with ucp.Saver(WEIGHT) as saver:
        for number, bad in enumerate([{"path": tmp_path / "no" / "path"}, {"extra": {"more": lambda: 0}}]):
            arguments = {"path": tmp_path / "bad", "extra": {f"new.{number}": torch.full((9,), 3.0)}}
            assert error_of(lambda arguments=arguments | bad: saver.save(**arguments).result())
            saver.save(tmp_path / str(number), extra={f"new.{number}": torch.full((9,), 4.0)}).result()
            assert read_flat(tmp_path / str(number))[f"new.{number}"].tolist() == [4.0] * 9


def test_memory_stays_until_it_is_staged(tmp_path: Path) -> None:
    """Of tensors that nobody else holds."""
    with ucp.Saver(WEIGHT) as saver:
        with stopped(worker_of(supervisor_of(os.getpid()))):
            savings = []
            for number in range(3):
                savings.append(saver.save(tmp_path / str(number), extra={"more": torch.full((MIB,), float(number))}))
                gc.collect()
                torch.full((MIB,), -1.0)
        for number, saving in enumerate(savings):
            saving.result()
            assert bool((read_flat(tmp_path / str(number))["more"] == number).all())


def test_threads(tmp_path: Path) -> None:
    """Several Savers in threads of one process."""

    def work(number: int) -> None:
        with ucp.Saver({"weight": torch.full((MIB,), float(number))}) as saver:
            for time_ in range(3):
                saver.save(tmp_path / f"{number}.{time_}").result()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        assert all(bool((read_flat(tmp_path / f"{number}.{i}")["weight"] == number).all()) for i in range(3))


def in_a_fork(saver: ucp.Saver, path: Path, queue: Any) -> None:
    """As a process of the data loader might work."""
    queue.put(error_of(lambda: saver.save(path)))
    saver.close()


def test_forks(tmp_path: Path) -> None:
    """Processes of a DataLoader run meanwhile; one of them has no part in the Saver."""
    loader = DataLoader(list(range(64)), batch_size=2, num_workers=2)
    with ucp.Saver(WEIGHT) as saver:
        seen = 0
        for number, _ in enumerate(loader):
            if number % 8 == 0:
                saver.save(tmp_path / str(number))
            seen += 1
        fork = multiprocessing.get_context("fork")
        queue = fork.SimpleQueue()
        process = fork.Process(target=in_a_fork, args=(saver, tmp_path / "forked", queue))
        process.start()
        process.join(20)
        assert process.exitcode == 0
        assert queue.get() == f"the saver is that of process {os.getpid()}, of which this one is a fork"
        saver.save(tmp_path / "last").result()
    assert (seen, len(list(tmp_path.iterdir()))) == (32, 5)


def test_a_saver_that_a_fork_forgets(tmp_path: Path) -> None:
    """The process goes on."""
    savers = [ucp.Saver(WEIGHT)]
    savers[0].save(tmp_path / "saved").result()
    time.sleep(0.2)  # Its thread waits for the next one.
    process = os.fork()
    if process == 0:
        savers.clear()
        gc.collect()
        os._exit(0)
    try:
        wait_until(lambda: os.waitpid(process, os.WNOHANG)[0] == process)
    except AssertionError:
        os.kill(process, 9)
        os.waitpid(process, 0)
        raise
    finally:
        savers[0].close()
