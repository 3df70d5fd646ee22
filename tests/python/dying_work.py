"""The work of the ranks of tests/python/test_save_kills.py and tests/python/test_save_ranks.py."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import ucp_checkpoint as ucp
from ucp_checkpoint import _saved_dict
from writers import HeldWriting, leftovers, supervisor_of, wait_until, worker_of

MIB = 1 << 18  # Elements of float32.


def staged_by_hand(address_of: Any = None) -> None:
    """From now on no tensor is staged before finish_staging() is called, as if all were on a GPU."""
    own = _saved_dict._memory_of
    _saved_dict._memory_of = lambda box: (0, *own(box)[1:])


def fill_by_hand(saver: ucp.Saver, number: int, wave: int = 0) -> None:
    """Stages what staged_by_hand() has left, of one wave."""
    import ctypes

    address, size = saver._client.segment()
    memory = (ctypes.c_char * size).from_address(address)
    segment = torch.frombuffer(memory, dtype=torch.uint8)
    for entry, box, offset, count, wave_of_box in saver._client.layout()[0]:
        if wave_of_box == wave:
            segment[offset : offset + count] = saver._described.boxes[entry][box].reshape(-1).view(torch.uint8)
    saver._client.finish_staging(number)


def die() -> None:
    """Without any chance to say so."""
    os.kill(os.getpid(), signal.SIGKILL)


def error_of(work: Any) -> str:
    """Its sentence; nothing if there is none."""
    try:
        work()
    except ucp.Error as error:
        return str(error)
    return ""


def stop_while_it_writes(folder: Path) -> None:
    """The writer of this rank, as soon as something of its save is in the folder."""
    worker = worker_of(supervisor_of(os.getpid()))
    wait_until(lambda: leftovers(folder) != [])
    os.kill(worker, signal.SIGSTOP)


def hold_while_it_writes(folder: Path) -> HeldWriting:
    """As stop_while_it_writes(), but the writer hears its ranks."""
    worker = worker_of(supervisor_of(os.getpid()))
    wait_until(lambda: leftovers(folder) != [])
    return HeldWriting(worker)


def killed_with_two(rank: int, root: str, victims: list[int], moment: str, on_death: str) -> dict[str, Any]:
    """Ranks are killed while one save is written and the next one is staged; how both end for the others."""
    folder = Path(root)
    state = {"weight": torch.full((24 * MIB,), 1.0), f"own.{rank}": torch.full((MIB,), float(rank))}
    saver = ucp.Saver(state, on_death=on_death, staging="2x", threads=1, nice=19, timeout=20)
    savings = [saver.save(folder / "first")]
    held = hold_while_it_writes(folder) if rank == 0 else None
    savings[0].staged.result()
    if rank == 0:
        supervisor = supervisor_of(os.getpid())
        (folder.parent / "writer").write_text(f"{supervisor} {worker_of(supervisor)}")
    dist.barrier()
    state["weight"].fill_(2)
    if moment == "staging" and rank in victims:
        staged_by_hand()
        state["weight"] = state["weight"].clone()
    savings.append(saver.save(folder / "second"))
    if moment == "staged":
        savings[1].staged.result()
    else:
        savings[1].progress.wait_for(1)
    assert not savings[0].done()
    dist.barrier()
    if rank in victims:
        if held is not None:
            os.kill(worker_of(supervisor_of(os.getpid())), signal.SIGSTOP)
        die()
    if held is not None:
        time.sleep(0.2)  # The writer hears of it.
        held.release()
    told = {str(number): error_of(saving.result) for number, saving in enumerate(savings)}
    told["next"] = error_of(lambda: saver.save(folder / "next").result())
    saver.close()
    return told


def killed_ranks(rank: int, root: str, victims: list[int], moment: str, on_death: str) -> dict[str, Any]:
    """Ranks are killed while they save; how the save and the next one end for the others."""
    folder = Path(root)
    state = {"weight": torch.full((24 * MIB,), 1.0), f"own.{rank}": torch.full((MIB,), float(rank))}
    if moment == "staging" and rank in victims:
        staged_by_hand()
    saver = ucp.Saver(state, on_death=on_death, threads=1, timeout=20)
    if rank == 0:
        supervisor = supervisor_of(os.getpid())
        (folder.parent / "writer").write_text(f"{supervisor} {worker_of(supervisor)}")
    dist.barrier()
    if moment == "idle" and rank in victims:
        die()
    saving = saver.save(folder / "first")
    if moment == "staging" and rank in victims:
        saving.progress.wait_for(1)
        die()
    if moment == "writing":
        if rank == 0:
            stop_while_it_writes(folder)
        saving.staged.result()
        dist.barrier()
        if rank in victims:
            die()
        if rank == 0:
            os.kill(worker_of(supervisor_of(os.getpid())), signal.SIGCONT)
    begin = time.monotonic()
    told = {"first": error_of(saving.result)}
    told["next"] = error_of(lambda: saver.save(folder / "next").result())
    saver.close()
    return told | {"seconds": time.monotonic() - begin}
