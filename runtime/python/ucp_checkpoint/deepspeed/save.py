"""`save_checkpoint`: the engine's own save into memory, converted from there.

So all that DeepSpeed keeps is there at every stage: steps, scheduler, loss scale, client state. Each rank saves its own
partition, and nothing is gathered.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from deepspeed import comm as dist

from .. import _arguments, _ucp, convert
from .._failure import failure
from .._ranks import Group
from .._source import Settings
from .captured import captured
from .errors import LoadError
from .load import check_version
from .ranks import phase
from .waiting import impatient


def save_checkpoint(
    engine: Any,
    save_dir: str | os.PathLike[str],
    to: str = "universal",
    tag: str | None = None,
    client_state: Mapping[str, Any] | None = None,
    exclude_frozen_parameters: bool = False,
    *,
    force: bool = False,
    spec: str | os.PathLike[str] | None = None,
    sets: Settings = (),
    config: str | os.PathLike[str] | None = None,
    unused: Mapping[str, str | int] | None = None,
    drop_states: Iterable[str] = (),
    prefer_rank: str = "",
    keep_opaque: Iterable[str] = (),
    ds_config: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    memory: int | str = "1GiB",
) -> dict[str, Any]:
    """Saves a running engine, at any ZeRO stage, into the folder `save_dir` in any format; all its ranks call it.

    `tag`, `client_state` and `exclude_frozen_parameters` are those of `engine.save_checkpoint`, and the other arguments
    those of `ucp.convert`. The folder appears complete or not at all. Returns on every rank what `ucprun convert
    --json` prints. An error on one rank is raised on all.
    """
    threads = len(os.sched_getaffinity(0)) if threads is None else threads  # The other ranks wait.
    options: dict[str, Any] = {
        "to": to,
        "force": force,
        "spec": spec,
        "sets": sets,
        "config": config,
        "unused": unused,
        "drop_states": drop_states,
        "prefer_rank": prefer_rank,
        "keep_opaque": keep_opaque,
        "ds_config": ds_config,
        "threads": threads,
        "memory": memory,
    }
    try:
        with Group(torch.distributed.group.WORLD, "ucp.deepspeed.save_checkpoint") as group:
            with phase(group) as outcome:
                check_version()
                place = os.path.abspath(_arguments.path("save_dir", save_dir))
                outcome.asked = f"{os.fsdecode(place)}, tag={tag}, {exclude_frozen_parameters}, to={to}, force={force}"
                _check(engine, place, force)
            _check_machines(group)
            with _folder(group) as folder, captured(engine) as files:
                with phase(group), impatient(group):
                    engine.save_checkpoint(
                        folder,
                        tag=tag,
                        client_state=dict(client_state or {}),
                        exclude_frozen_parameters=exclude_frozen_parameters,
                    )
                    if files.problem is not None:
                        raise files.problem
                report: dict[str, Any] = {}
                with phase(group):
                    if group.rank == 0:
                        report = convert(folder, place, tag=tag or "", verify=False, **options)
                report = json.loads(group.all_gather(json.dumps(report).encode())[0])
    except LoadError as error:
        raise failure(error.code, str(error)) from error
    _tell(report)
    return report


def _check(engine: Any, place: bytes, force: bool) -> None:
    if engine.zero_nvme_offload_optimizer():
        raise failure("unsupported", "the optimizer's states are offloaded to NVMe: save with engine.save_checkpoint()")
    if not _arguments.flag("force", force) and os.path.lexists(place):
        shown = os.fsdecode(place)
        raise failure("usage", f"`{shown}` exists; name another folder, or pass force=True to replace it")


def _check_machines(group: Group) -> None:
    """Rank 0 follows the links of all."""
    machines = group.all_gather(_ucp.name_of_this_machine().encode())
    other = next((rank for rank, machine in enumerate(machines) if machine != machines[0]), None)
    if other is not None:
        raise failure(
            "unsupported",
            f"ranks 0 and {other} are on different machines; an engine is saved from one machine so far: save with "
            "engine.save_checkpoint(), and convert the result",
        )


@contextmanager
def _folder(group: Group) -> Iterator[str]:
    """A folder of rank 0, for links to memory; all ranks know its name."""
    name = ""
    try:
        with phase(group):
            if group.rank == 0:
                name = tempfile.mkdtemp(prefix="ucp-engine-")
        yield os.fsdecode(group.all_gather(os.fsencode(name))[0])
    finally:
        if name:
            shutil.rmtree(name, ignore_errors=True)


def _tell(report: dict[str, Any]) -> None:
    """The first rank says what is not in the checkpoint."""
    if dist.get_rank() == 0:
        log = logging.getLogger("ucp_checkpoint")
        for sentence in [*report["left_out"], *report["notes"]]:
            log.warning(sentence)
