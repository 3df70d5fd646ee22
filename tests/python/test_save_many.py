"""Many tensors, and many saves in a row."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import torch
from torch import nn

import ucp_checkpoint as ucp
from dying_work import MIB
from engine.dcp_judges import read_flat
from writers import children_of, supervisor_of, wait_until, worker_of


def test_many_small_tensors(tmp_path: Path) -> None:
    """A call takes milliseconds, also with a new number of steps."""
    state = {f"t{number}": torch.full((number % 5,), float(number)) for number in range(2000)}
    seconds = []
    with ucp.Saver(state) as saver:
        for number in range(3):
            begin = time.monotonic()
            saving = saver.save(tmp_path / str(number), extra={"step": number})
            seconds.append(time.monotonic() - begin)
            saving.result()
    found = read_flat(tmp_path / "2")
    assert all(torch.equal(found[name], value) for name, value in state.items())
    print(f"2000 tensors: calls of {', '.join(f'{1000 * time_:.1f}' for time_ in seconds)} ms")
    assert min(seconds) < 0.1


def usage_of(process: int) -> tuple[int, int, int]:
    """Resident KiB, open files and threads."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]), len(os.listdir(f"/proc/{process}/fd")), int(status["Threads"])


def test_fifty_saves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Memory, open files and threads of the job and of the writer do not grow."""
    model = nn.ParameterList([nn.Parameter(torch.ones(MIB))] + [nn.Parameter(torch.ones(3)) for _ in range(50)])
    optimizer = torch.optim.AdamW(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    usages: list[dict[str, tuple[int, int, int]]] = []
    with ucp.Saver(model, optimizer, keep=1) as saver:
        supervisor = supervisor_of(os.getpid())
        worker = worker_of(supervisor)
        for number in range(50):
            saving = saver.save(tmp_path / str(number), extra={"step": number, "state": torch.get_rng_state()})
            optimizer.step()
            saving.result()
            if number in (9, 49):
                time.sleep(0.2)  # It removes the folder before.
                usages.append({"job": usage_of(os.getpid()), "writer": usage_of(worker)})
        assert worker_of(supervisor) == worker
    with capsys.disabled():
        for name in ("job", "writer"):
            early, late = (usage[name] for usage in usages)
            print(f"\n{name}: KiB, files, threads after 10 saves {early}, after 50 {late}", end="")
            assert late[0] - early[0] < 6 << 10
            assert late[1:] == early[1:]
    wait_until(lambda: supervisor not in children_of(os.getpid()))
