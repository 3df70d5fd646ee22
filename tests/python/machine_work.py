"""The work of the ranks of tests/python/test_save_machines.py: each on the machine that its arguments name."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

import save_work
import ucp_checkpoint as ucp
import writer_work
from dying_work import MIB, die, error_of, hold_while_it_writes
from writers import supervisors_of, worker_of


def train(rank: int, root: str, names: list[str], machines: str) -> dict[str, Any]:
    """As the jobs of one machine do."""
    os.environ["UCP_MACHINE"] = machines[rank]
    return save_work.train_and_save(rank, root, names)


def by_pytorch(rank: int, root: str, names: list[str], machines: str) -> None:
    """`dcp.save` and `async_save` with our writer, and planners that keep plans."""
    os.environ["UCP_MACHINE"] = machines[rank]
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", "0"
    for name in names:
        writer_work.save_all(root, name)
    assert all(writer_work.save_later(root))


def state_of(rank: int, value: float) -> dict[str, Any]:
    """A tensor of each rank, one that all have, and one that they share."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    shared = distribute_tensor(torch.arange(4096.0).reshape(64, 64) + value, mesh, [Shard(1)])
    own = torch.full((8 * MIB,), value + rank)
    return {f"own.{rank}": own, "all": torch.full((1000,), value), "shared": shared, "value": value}


def at_once(rank: int, root: str, machines: str, staging: str = "1x") -> dict[str, Any]:
    """A save that waits, and so reads the ranks' memory; and one of a Saver, three times."""
    os.environ["UCP_MACHINE"] = machines[rank]
    told = {"at once": error_of(lambda: ucp.save(state_of(rank, 1), Path(root) / "at-once", staging=staging))}
    state = state_of(rank, 2)
    with ucp.Saver(state, staging=staging) as saver:
        assert saver.plan.get("waves", 1) == (1 if staging == "1x" else 2)
        for number in range(3):
            state[f"own.{rank}"].add_(1)
            told[str(number)] = error_of(lambda number=number: saver.save(Path(root) / str(number)).result())
        more = {"more": torch.arange(float(rank + 3))} if rank == 3 else {}
        told["other shape"] = error_of(lambda: saver.save(Path(root) / "other", extra=more).result())
    return told


def save_often(rank: int, root: str, machines: str) -> list[str]:
    """A Saver with two saves in flight, and nobody who waits for more than staging."""
    os.environ["UCP_MACHINE"] = machines[rank]
    state = state_of(rank, 0)
    savings = []
    with ucp.Saver(state, staging="2x", timeout=20) as saver:
        for number in range(8):
            state[f"own.{rank}"].fill_(number + rank)
            savings.append(saver.save(Path(root) / str(number)))
            savings[-1].staged.result()
        return [error_of(saving.result) for saving in savings]


def end_with_two(rank: int, root: str, machines: str) -> list[str]:
    """One save is written, and the next one staged, when all ranks of the second machine end."""
    os.environ["UCP_MACHINE"] = machines[rank]
    state = state_of(rank, 0)
    saver = ucp.Saver(state, staging="2x", threads=1, nice=19, timeout=20)
    savings = [saver.save(Path(root) / "0")]
    held = hold_while_it_writes(Path(root)) if rank == 0 else None
    savings[0].staged.result()
    dist.barrier()
    state[f"own.{rank}"].add_(1)
    savings.append(saver.save(Path(root) / "1"))
    savings[1].staged.result()
    dist.barrier()
    if held is None:
        die()
    time.sleep(0.2)  # The writers hear of it.
    held.release()
    errors = [error_of(saving.result) for saving in savings]
    error_of(saver.close)
    return errors


def kill_writers(rank: int, root: str, machines: str, seed: int) -> list[dict[str, str]]:
    """Again and again: a save during which a writer is killed, at some time, and one during which none is."""
    os.environ["UCP_MACHINE"] = machines[rank]
    choice = random.Random(seed)
    leaders = [machines.index(machine) for machine in sorted(set(machines))]
    told = []
    state = state_of(rank, 0)
    saver = ucp.Saver(state, timeout=20)
    for number in range(8):
        state[f"own.{rank}"].fill_(number)
        victim, pause = choice.choice(leaders), choice.random() * 0.06
        dist.barrier()
        saving = saver.save(Path(root) / f"{number}")
        if rank == victim:
            time.sleep(pause)
            os.kill(worker_of(supervisors_of(os.getpid())[0]), signal.SIGKILL)
        killed = error_of(saving.result)
        dist.barrier()
        follows = Path(root) / f"{number}-next"
        told.append({"killed": killed, "next": error_of(lambda path=follows: saver.save(path).result())})
        dist.barrier()
    saver.close()
    return told


def lose_a_rank(rank: int, root: str, machines: str) -> str:
    """The last one dies; the others save."""
    os.environ["UCP_MACHINE"] = machines[rank]
    saver = ucp.Saver(state_of(rank, 0), timeout=20)
    dist.barrier()
    if rank == dist.get_world_size() - 1:
        die()
    error = error_of(lambda: saver.save(Path(root) / "first").result())
    error_of(saver.close)
    return error


def cannot_reach(rank: int, machines: str) -> str:
    """The first machine gives out an address at which nobody is."""
    os.environ["UCP_MACHINE"] = machines[rank]
    os.environ["UCP_HOST"] = "127.0.0.1" if rank else "127.1.2.3.4.invalid"
    return error_of(lambda: ucp.Saver(state_of(rank, 0), timeout=1))


def fail_on_a_machine(rank: int, root: str, machines: str) -> str:
    """The files that the last machine's writer makes cannot be written to."""
    os.environ["UCP_MACHINE"] = machines[rank]
    if rank == dist.get_world_size() - 1:
        os.umask(0o777)
    return error_of(lambda: ucp.save(state_of(rank, 0), Path(root) / "first"))
