"""The work of the ranks of tests/python/test_save_parts.py: each on the machine and the disk of its arguments.

All machines save below the path `root`/here, where each sees its own disk, which the test sees as `root`/<machine>.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import torch.distributed as dist

import own_disks
import save_work
import ucp_checkpoint as ucp
from dying_work import error_of
from fixtures.dcp_models import train_step
from machine_work import state_of
from save_work import CASES, built
from writers import leftovers, supervisors_of, worker_of


def place_of(rank: int, root: str, machines: str) -> Path:
    """On the disk of this rank's machine."""
    os.environ["UCP_MACHINE"] = machines[rank]
    here = Path(root) / "here"
    own_disks.put(Path(root) / machines[rank], here)
    return here


def save_parts(rank: int, root: str, machines: str, staging: str = "1x") -> dict[str, Any]:
    """By ucp.save, which reads memory, and by a Saver, three times; and to a folder that all see, without parts."""
    here = place_of(rank, root, machines)
    state = state_of(rank, 0)
    told: dict[str, Any] = {"at once": ucp.save(state, here / "at-once", node_local=True, staging=staging)}
    with ucp.Saver(state, node_local=True, keep=2, staging=staging) as saver:
        for number in range(3):
            state[f"own.{rank}"].add_(1)
            told[str(number)] = saver.save(here / str(number)).result()
    ucp.save(state, Path(root) / "whole" / "2")
    return told


def train(rank: int, root: str, names: list[str], machines: str) -> list[int]:
    """Jobs of PyTorch, which save the same moment in parts and to a folder that all see; bytes that machines sent."""
    here = place_of(rank, root, machines)
    sent = []
    for name in names:
        case = CASES[name]
        model, optimizer, scheduler = built(case)
        for step in range(save_work.STEPS):
            train_step(case, model, optimizer, scheduler, step)
        extra = {"scheduler": scheduler, "count": save_work.STEPS}
        report = ucp.save(model, here / name, optimizer, extra=extra, node_local=True)
        sent.append(report["bytes_exchanged"])
        ucp.save(model, Path(root) / "whole" / name, optimizer, extra=extra)
    return sent


def kill_writers(rank: int, root: str, machines: str, seed: int) -> list[dict[str, Any]]:
    """Again and again: a save during which a writer is killed, at some time, and one during which none is."""
    here = place_of(rank, root, machines)
    choice = random.Random(seed)
    leaders = [machines.index(machine) for machine in sorted(set(machines))]
    told = []
    state = state_of(rank, 0)
    saver = ucp.Saver(state, node_local=True, timeout=120)
    for number in range(6):
        state[f"own.{rank}"].fill_(number)
        victim, pause = choice.choice(leaders), choice.random() * 0.1
        dist.barrier()
        saving = saver.save(here / f"{number}")
        if rank == victim:
            time.sleep(pause)
            os.kill(worker_of(supervisors_of(os.getpid())[0]), signal.SIGKILL)
        killed = error_of(saving.result)
        dist.barrier()
        follows = here / f"{number}-next"
        next_one = error_of(lambda path=follows: saver.save(path).result())
        told.append({"killed": killed, "next": next_one})
        dist.barrier()
    saver.close()
    return [*told, {"left": leftovers(here)}]


def fail_on_a_disk(rank: int, root: str, machines: str) -> dict[str, Any]:
    """The disk of the last machine is too small, or has something at the path; then it is neither."""
    os.environ["UCP_MACHINE"] = machines[rank]
    here = Path(root) / "here"
    if rank == dist.get_world_size() - 1:
        own_disks.put_small("48m", here)
        (here / "filler").write_bytes(bytes(42 << 20))
        (here / "taken").mkdir()
    else:
        own_disks.put(Path(root) / machines[rank], here)
    dist.barrier()
    told = {}
    with ucp.Saver(state_of(rank, 0), node_local=True, timeout=120) as saver:
        told["full"] = error_of(lambda: saver.save(here / "first").result())
        told["left"] = [name for name in leftovers(here) if name != "filler"]
        told["is_there"] = (here / "first").exists()
        (here / "filler").unlink(missing_ok=True)
        dist.barrier()
        told["taken"] = error_of(lambda: saver.save(here / "taken").result())
        told["next"] = error_of(lambda: saver.save(here / "first").result())
        told["is_there_next"] = (here / "first" / ".metadata").exists()
        told["forced"] = error_of(lambda: saver.save(here / "taken", force=True).result())
        told["is_there_forced"] = (here / "taken" / ".metadata").exists()
    return told


def refused(rank: int, root: str, machines: str) -> dict[str, str]:
    """A format and settings with files of their own; then two machines see one folder."""
    os.environ["UCP_MACHINE"] = machines[rank]
    boot = Path(root) / machines[rank] / "boot"
    boot.write_text(f"{rank}\n")
    own_disks.be_elsewhere(boot)
    state = state_of(rank, 0)
    return {
        "format": error_of(lambda: ucp.Saver(state, to="universal", node_local=True)),
        "files": error_of(lambda: ucp.Saver(state, to="dcp:fsdp=2", node_local=True)),
        "folder": error_of(lambda: ucp.save(state, Path(root) / "whole" / "saved", node_local=True)),
    }
