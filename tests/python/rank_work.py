"""The work of the ranks of tests/python/test_save_ranks.py: one of them does something else than the others."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh

import ucp_checkpoint as ucp
from dying_work import error_of
from writers import is_alive, supervisor_of, wait_until, worker_of

ODD = 1  # The rank that is another one.


def saver_of(rank: int, **settings: Any) -> ucp.Saver:
    """With a part of its own on each rank."""
    return ucp.Saver({"weight": torch.ones(40), f"own.{rank}": torch.full((3,), rank)}, **{"timeout": 2} | settings)


def timed(work: Callable[[], Any]) -> dict[str, Any]:
    """Its error, and how long it takes."""
    begin = time.monotonic()
    error = error_of(work)
    return {"error": error, "seconds": time.monotonic() - begin}


def never_calls(rank: int, saver: ucp.Saver, folder: Path) -> None:
    if rank != ODD:
        saver.save(folder / "first").result()


def calls_another_path(rank: int, saver: ucp.Saver, folder: Path) -> None:
    saver.save(folder / ("other" if rank == ODD else "first")).result()


def calls_twice(rank: int, saver: ucp.Saver, folder: Path) -> None:
    saver.save(folder / "first").result()
    if rank == ODD:
        saver.save(folder / "second").result()


def cannot_pickle(rank: int, saver: ucp.Saver, folder: Path) -> None:
    saver.save(folder / "first", extra={"hook": (lambda: rank) if rank == ODD else rank}).result()


def wrong_argument(rank: int, saver: ucp.Saver, folder: Path) -> None:
    saver.save(folder / "first", force="no" if rank == ODD else False).result()


def another_shape(rank: int, saver: ucp.Saver, folder: Path) -> None:
    saver.save(folder / "first", extra={"more": torch.ones(4 if rank == ODD else 3)}).result()


def a_value_here(rank: int, saver: ucp.Saver, folder: Path) -> None:
    saver.save(folder / "first", extra={"more": 4 if rank == ODD else torch.ones(())}).result()


def a_part_of_the_box(rank: int, saver: ucp.Saver, folder: Path) -> None:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    part = DTensor.from_local(torch.ones(2), mesh, [Shard(0)], run_check=False, shape=torch.Size([6]), stride=(1,))
    saver.save(folder / "first", extra={"more": torch.ones(6) if rank == ODD else part}).result()


def a_sum(rank: int, saver: ucp.Saver, folder: Path) -> None:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    term = DTensor.from_local(torch.ones(2), mesh, [Partial() if rank == ODD else Replicate()], run_check=False)
    saver.save(folder / "first", extra={"more": term}).result()


def nobody_holds_it(rank: int, saver: ucp.Saver, folder: Path) -> None:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    whole = distribute_tensor(torch.arange(6.0), mesh, [Shard(0)])
    saver.save(folder / "first", extra={} if rank == ODD else {"more": whole}).result()


def kill_worker() -> None:
    """Of this rank's Saver; its sockets are closed when this returns."""
    worker = worker_of(supervisor_of(os.getpid()))
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: not is_alive(worker))


def worker_dies(rank: int, saver: ucp.Saver, folder: Path) -> None:
    if rank == 0:
        kill_worker()
    dist.barrier()
    saver.save(folder / "first").result()


def worker_dies_between_calls(rank: int, saver: ucp.Saver, folder: Path) -> None:
    saving = saver.save(folder / "first") if rank == ODD else None
    dist.barrier()
    if rank == 0:
        kill_worker()
    dist.barrier()
    (saving or saver.save(folder / "first")).result()


def one_has_seen(rank: int, saver: ucp.Saver, folder: Path) -> None:
    """An error, which the others get from their next call."""
    saving = saver.save(folder)
    if rank == ODD:
        error_of(saving.result)
    while not saving.done():
        time.sleep(0.01)
    dist.barrier()
    saver.save(folder / "first")


IN_SAVE = {work.__name__: work for work in [
    never_calls, calls_another_path, calls_twice, cannot_pickle, wrong_argument, another_shape, a_value_here,
    a_part_of_the_box, a_sum, nobody_holds_it, worker_dies, worker_dies_between_calls,
    one_has_seen,
]}  # fmt: skip


def in_save(rank: int, root: str, machines: str) -> dict[str, Any]:
    """Each with a Saver of its own, and a save afterwards in which all do the same."""
    os.environ["UCP_MACHINE"] = machines[rank]
    told = {}
    for name, work in IN_SAVE.items():
        folder = Path(root) / name
        if rank == 0:
            folder.mkdir()
        saver = saver_of(rank)
        told[name] = timed(lambda work=work, saver=saver, folder=folder: work(rank, saver, folder))
        dist.barrier()
        told[name]["next"] = error_of(lambda saver=saver, folder=folder: saver.save(folder / "next").result())
        dist.barrier()
        error_of(saver.close)
        dist.barrier()
    return told


OF_SAVER: dict[str, dict[str, Any]] = {
    "strategy": {"to": "dcp:style=titan"},
    "timeout": {"timeout": 7},
    "wrong": {"timeout": -1},
    "keep": {"keep": 3},
}


def at_the_beginning(rank: int) -> dict[str, Any]:
    """One rank makes another Saver; the error of it, and that the next one is made."""
    told = {}
    for name, settings in OF_SAVER.items():
        told[name] = timed(lambda settings=settings: saver_of(rank, **(settings if rank == ODD else {})))
    bits = {"weight": torch.ones(3).to(torch.float32)}
    odd = {"weight": torch.zeros(3, dtype=torch.uint8).view(torch.bits8)}
    told["dtype"] = timed(lambda: ucp.Saver(odd if rank == ODD else bits))
    told["text"] = timed(lambda: ucp.Saver({"\ud800" if rank == ODD else "a": 1}))
    saver_of(rank).close()
    return told


def leaves(rank: int, how: str, root: str) -> dict[str, Any]:
    """One rank closes its Saver, or ends, before the others save."""
    saver = saver_of(rank)
    dist.barrier()
    if rank == ODD:
        if how == "close":
            saver.close()
        elif how == "exit":
            os._exit(0)
    told = nullcontext({}) if rank == ODD else nullcontext(timed(lambda: saver.save(Path(root) / "first").result()))
    with told as found:
        return found


def late(rank: int, root: str) -> dict[str, Any]:
    """One rank calls when the others have given up, and a rank that is slower than others is waited for."""
    saver = saver_of(rank, timeout=1)
    if rank == ODD:
        time.sleep(1.5)
    first = timed(lambda: saver.save(Path(root) / "first").result())
    dist.barrier()
    if rank == ODD:
        time.sleep(0.5)
    return {"first": first, "next": timed(lambda: saver.save(Path(root) / "next").result())}


def groups(rank: int, root: str) -> list[str]:
    """Two groups of a job save at once, each its own, in an order of ranks of their own."""
    orders = [[3, 1], [0, 2]]
    made = [dist.new_group(order, sort_ranks=False) for order in orders]
    number = rank % 2 == 0
    name = "even" if number else "odd"
    state = {name: torch.full((5,), float(rank)), f"own.{rank}": torch.full((2,), float(rank))}
    with ucp.Saver(state, group=made[number], no_dist=False) as saver:
        return [saver.save(Path(root) / name).result()["target_format"]]
