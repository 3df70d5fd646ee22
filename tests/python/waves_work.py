"""The work of the ranks of tests/python/test_save_waves.py."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import ucp_checkpoint as ucp
from dying_work import MIB, die, error_of, fill_by_hand, staged_by_hand
from fixtures.dcp_models import train_step
from save_work import CASES, OTHERS, built, folder_of
from ucp_checkpoint import _saved_dict
from writers import supervisor_of, wait_until, worker_of


def least_staging(saver: Callable[..., ucp.Saver]) -> int:
    """The least that the error names: a number of bytes."""
    found = re.search(r"allow ([\d,]+) bytes or more", error_of(lambda: saver(staging=64)))
    assert found is not None
    return int(found[1].replace(",", ""))


def waves_folder(root: str, name: str, to: str) -> Path:
    """Where a save in waves lies."""
    return Path(root) / "waves" / folder_of(root, name, to).name


def save_in_waves(rank: int, root: str, names: list[str]) -> dict[str, int]:
    """Each case at once and in as many waves as it can have, of the same moment; how many these are."""
    told = {}
    for name in names:
        case = CASES[name]
        model, optimizer, scheduler = built(case)
        for step, to in enumerate(["dcp", *OTHERS.get(name, [])]):
            make = partial(ucp.Saver, model, optimizer, to=to)
            least = least_staging(make)
            assert "bytes or more" in error_of(partial(make, staging=least - 1))
            train_step(case, model, optimizer, scheduler, step)
            with make() as whole, make(staging=least, verify_replicas=True) as saver:
                extra = {"scheduler": scheduler}
                whole.save(folder_of(root, name, to), extra=extra, tag="step").result()
                saving = saver.save(waves_folder(root, name, to), extra=extra, tag="step")
                assert saving.staged.done()
                for parameter in model.parameters():
                    parameter.data.zero_()  # It is the job's again.
                saving.result()
                told[f"{name} {to}"] = saver.plan["waves"]
    return told


def begun(saver: ucp.Saver, path: Path) -> ucp.Saving:
    """A save whose call waits on a thread of its own, until it has begun."""
    before = saver._savings[-1:]
    threading.Thread(target=lambda: error_of(lambda: saver.save(path)), daemon=True).start()
    wait_until(lambda: saver._savings[-1:] not in ([], before))
    return saver._savings[-1]


def fill_next(saver: ucp.Saver, saving: ucp.Saving, wave: int) -> None:
    """Stages a wave, when all those before are written."""
    wait_until(lambda: saving.progress.has_reached_wave(wave, 0.1))
    fill_by_hand(saver, saving.progress.number, wave)


def own_state(rank: int, value: float) -> dict[str, Any]:
    """Six tensors of 1 MiB, of each rank."""
    return {f"own.{rank}.{number}": torch.full((MIB,), float(value + rank + number)) for number in range(6)}


def killed_in_waves(rank: int, root: str, victims: list[int], on_death: str) -> dict[str, str]:
    """Ranks are killed when the first of three waves is written; what the others hear."""
    folder = Path(root)
    own = _saved_dict._memory_of
    staged_by_hand()
    saver = ucp.Saver(own_state(rank, 0), staging="2MiB", on_death=on_death, threads=1, timeout=20)
    if rank == 0:
        supervisor = supervisor_of(os.getpid())
        (folder.parent / "writer").write_text(f"{supervisor} {worker_of(supervisor)}")
    saving = begun(saver, folder / "first")
    fill_next(saver, saving, 0)
    wait_until(lambda: saving.progress.has_reached_wave(1, 0.1))
    dist.barrier()
    if rank in victims:
        die()
    fill_by_hand(saver, saving.progress.number, 1)
    told = {"first": error_of(saving.result)}
    _saved_dict._memory_of = own
    told["next"] = error_of(lambda: saver.save(folder / "next").result())
    error_of(saver.close)
    return told


def fail_a_wave(rank: int, root: str, machines: str, how: str) -> dict[str, str]:
    """The second of three waves fails on the second machine: its first rank cannot stage it, or its writer dies."""
    os.environ["UCP_MACHINE"] = machines[rank]
    folder, is_victim = Path(root), rank == 2
    staged_by_hand()
    saver = ucp.Saver(own_state(rank, 0), staging="2MiB", threads=1, timeout=20)
    assert saver.plan["waves"] == 3
    saving = begun(saver, folder / "first")
    fill_next(saver, saving, 0)
    wait_until(lambda: saving.progress.has_reached_wave(1, 0.1))
    dist.barrier()
    if is_victim and how == "writer":
        os.kill(worker_of(supervisor_of(os.getpid())), signal.SIGKILL)
    if is_victim and how == "rank":
        saver._client.finish_staging(saving.progress.number, "the device is gone")
    else:
        fill_by_hand(saver, saving.progress.number, 1)
    told = {"first": error_of(saving.result)}
    dist.barrier()
    saving = begun(saver, folder / "next")
    for wave in range(3):
        fill_next(saver, saving, wave)
    told["next"] = error_of(saving.result)
    error_of(saver.close)
    return told
