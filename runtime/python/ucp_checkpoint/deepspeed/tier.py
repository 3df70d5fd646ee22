"""`memory_tier`: the state of an engine in the memory of its machines, every few iterations (docs/memory-tier.md).

A version has what the engine's own save would write, each file as its records. To restore, the files are made again in
memory, and loaded as a checkpoint of any topology is.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from .._engine_files import TAG, Records, write_folder
from .._failure import failure
from .._kept_state import ModuleState
from .._machines import Machines
from .._ranks import Group
from .._save import TierSaver
from ..memory import Tier
from .archive import tensors_in
from .load import check_version, load_checkpoint
from .ranks import phase
from .records import recorded
from .waiting import impatient


def memory_tier(
    engine: Any,
    *,
    client_state: Callable[[], Mapping[str, Any]] | None = None,
    load: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Tier:
    """A `ucp.memory.Tier` for a running engine; its ranks make it after deepspeed.initialize().

    It restores the engine from the newest version of any topology and ZeRO stage. `settings` are those of the tier:
    `job`, `fallback`, `every`, `copies`, `persist_every`, `extra` and the others. `client_state` is called for each
    version and returns what engine.save_checkpoint() would be given; `load` has further arguments of
    `ucp.deepspeed.load_checkpoint` for a version that is restored, such as `spec`.
    """
    return Tier(EngineState(engine, client_state, dict(load or {})), **settings)


class EngineState(ModuleState):
    """The state of an engine, as its own save has it."""

    is_of_engine = True
    is_named_alike = False  # Each rank has files of its own.

    def __init__(
        self, engine: Any, client_state: Callable[[], Mapping[str, Any]] | None, options: dict[str, Any]
    ) -> None:
        check_version()
        if engine.zero_nvme_offload_optimizer():
            raise failure("unsupported", "the optimizer's states are offloaded to NVMe, and are in no memory")
        self._engine, self._client_state, self._options = engine, client_state, options
        self._base = _base_optimizer(engine)
        self.waits = self._base is None
        self.client: dict[str, Any] = {}  # That of the version that was loaded.

    def saver(self, part: int | None, **how: Any) -> TierSaver:
        """The optimizer waits for its staging."""
        saver = TierSaver(part, {}, **how)
        if self._base is not None:
            saver._hook = self._base.register_step_pre_hook(saver._wait_for_staging)
        return saver

    def now(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The names of this rank's files, and their records."""
        files = self._files()
        names = sorted(files)
        records: dict[str, Any] = {str(at): files[name] for at, name in enumerate(names)}
        records["rank"] = torch.zeros(1, dtype=torch.uint8)  # The engine may save nothing on all ranks of a machine.
        return {"files": names}, {"model": {str(torch.distributed.get_rank()): records}}

    def _files(self) -> dict[str, Records]:
        engine = self._engine
        client = {} if self._client_state is None else dict(self._client_state())
        changing = {tensor.untyped_storage().data_ptr() for tensor in [*engine.module.buffers(), *tensors_in(client)]}
        with (
            Group(torch.distributed.group.WORLD, "ucp.deepspeed.memory_tier") as group,
            recorded(engine, changing) as made,
            phase(group),
            impatient(group),
            _quiet(),
        ):
            engine.save_checkpoint("/nowhere", tag=TAG, client_state=client, save_latest=False)
            if made.problem is not None:
                raise made.problem
        return made.files

    def load(self, path: str, machines: Machines, place: Path, verify: bool) -> None:
        """Onto any topology. The files are in memory as long as this lasts, on each machine."""
        folder = place / "restoring"
        folders = machines.ranks.all_tell(str(folder))
        if other := next((found for found in folders if found != str(folder)), None):
            said = f"versions are in `{folder}` here and in `{other}` on another machine; an engine is restored from "
            raise failure("usage", f"{said}one path on all machines")
        try:
            machines.first_does(partial(write_folder, path, folder, verify))
            _, self.client = load_checkpoint(self._engine, folder, **self._options)
        finally:
            if machines.speaks:
                shutil.rmtree(folder, ignore_errors=True)

    def take(self, path: str, values: Mapping[str, Any], is_first: bool) -> None:
        """All is in the engine's files."""


def _base_optimizer(engine: Any) -> torch.optim.Optimizer | None:
    """PyTorch's, which changes the state, and waits before it does; none where something else does."""
    found = engine.optimizer
    while found is not None and not isinstance(found, torch.optim.Optimizer):
        found = getattr(found, "optimizer", None)
    is_own = getattr(engine, "zenflow", False) or found is None
    return None if is_own else found


@contextmanager
def _quiet() -> Iterator[None]:
    """DeepSpeed tells of each file that it saves."""
    log = logging.getLogger("DeepSpeed")
    level = log.level
    log.setLevel(max(level, logging.WARNING))
    try:
        yield
    finally:
        log.setLevel(level)
