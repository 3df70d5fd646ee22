"""`save_checkpoint`: the engine's own save into memory, converted from there.

So all that DeepSpeed keeps is there at every stage: steps, scheduler, loss scale, client state. Each rank saves its own
partition, and nothing is gathered. On several machines the first rank of each reads the files of its machine.
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

from .. import _arguments, _ucp
from .._failure import failure
from .._ranks import Group
from .._source import Settings, source_from
from .._work import byte_count, thread_count
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
    those of `ucp.convert`. Ranks may be on several machines that all see the folder, which appears complete or not
    at all. Returns on every rank what `ucprun convert --json` prints. An error on one rank is raised on all.
    """
    try:
        with Group(torch.distributed.group.WORLD, "ucp.deepspeed.save_checkpoint") as group:
            with phase(group) as outcome:
                check_version()
                place = os.path.abspath(_arguments.path("save_dir", save_dir))
                outcome.asked = f"{os.fsdecode(place)}, tag={tag}, {exclude_frozen_parameters}, to={to}, force={force}"
                _check(engine, place, force)
                source = source_from(
                    place,
                    spec=spec,
                    sets=sets,
                    config=config,
                    unused=unused,
                    drop_states=drop_states,
                    prefer_rank=prefer_rank,
                )
                target = _ucp.Target()
                target.tag = _arguments.text("tag", tag or "")
                target.keep_opaque = _arguments.texts("keep_opaque", keep_opaque)
                target.ds_config = _arguments.path("ds_config", ds_config) if ds_config is not None else b""
                to = _arguments.text("to", to, 'a strategy such as "universal"')
                # The other ranks wait.
                workers = len(os.sched_getaffinity(0)) if threads is None else thread_count(threads)
                memory_bytes = byte_count(memory)
            with _folder(group) as (folder, of_first), captured(engine) as files:
                source.path = of_first
                with phase(group), impatient(group):
                    engine.save_checkpoint(
                        os.fsdecode(folder),
                        tag=tag,
                        client_state=dict(client_state or {}),
                        exclude_frozen_parameters=exclude_frozen_parameters,
                    )
                    if files.problem is not None:
                        raise files.problem
                with phase(group):
                    told = _ucp.convert_together(
                        group.ranks, source, folder, place, to, target, force, workers, memory_bytes
                    )
                report: dict[str, Any] = json.loads(group.all_gather(told.encode())[0])
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


@contextmanager
def _folder(group: Group) -> Iterator[tuple[bytes, bytes]]:
    """A folder of each machine, for links to the memory of its ranks: the name of this one's, and of that of rank 0."""
    name = b""
    try:
        machines = group.all_gather(_ucp.name_of_this_machine().encode())
        first = machines.index(machines[group.rank])
        with phase(group):
            if group.rank == first:
                name = os.fsencode(tempfile.mkdtemp(prefix="ucp-engine-"))
        names = group.all_gather(name)
        yield names[first], names[0]
    finally:
        if name:
            shutil.rmtree(name, ignore_errors=True)


def _tell(report: dict[str, Any]) -> None:
    """The first rank says what is not in the checkpoint."""
    if dist.get_rank() == 0:
        log = logging.getLogger("ucp_checkpoint")
        for sentence in [*report["left_out"], *report["notes"]]:
            log.warning(sentence)
