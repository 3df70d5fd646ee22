"""The part of `torch.distributed.checkpoint` that saves: boxes that a planner of PyTorch gives, to the writer.

Each save has a writer of its own, which reads the ranks' memory while they wait for it. Ranks need no process group to
find it: a name that the coordinator has chosen comes with their plans.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItem
from torch.distributed.checkpoint.storage import StorageWriter as _StorageWriter
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from ucp_checkpoint import _arguments, _ucp
from ucp_checkpoint._failure import failure
from ucp_checkpoint._save_settings import save_settings, writer_program
from ucp_checkpoint._saved_dict import Description, Place, local_of, pickled
from ucp_checkpoint._saving import DONE, Progress
from ucp_checkpoint._source import Path, Settings
from ucp_checkpoint._stage_devices import DeviceStages, event_of_devices
from ucp_checkpoint._target import dtype_name

# Chosen once for each process: a planner may keep plans of earlier saves, in which it is the same then.
_OWN_NAME = uuid.uuid4().hex
_OWN_SECRET = os.urandom(32)


class _Meeting:
    """Where ranks on several machines meet: the same at all saves of a process, as its name is."""

    def __init__(self) -> None:
        self._listener: _ucp.MachineListener | None = None
        self._of_rank: dict[tuple[int, int], tuple[str, str]] = {}  # By the number of ranks, and rank.

    def listener(self) -> _ucp.MachineListener:
        """For the writer of this machine, if this rank is the one that starts it."""
        if self._listener is None:
            self._listener = _ucp.MachineListener.open()
        return self._listener

    def places(self, told: list[tuple[str, str] | None]) -> list[_ucp.MachinesOfJob | None]:
        """By rank, on the coordinator. `told`: its machine and address; None if its plan is that of an earlier save."""
        size = len(told)
        for rank, one in enumerate(told):
            if one is not None:
                self._of_rank[size, rank] = one
        known = [self._of_rank.get((size, rank), ("", "")) for rank in range(size)]
        names = list(dict.fromkeys(machine for machine, _ in known))
        if len(names) == 1:
            return [None] * size
        ranks = [[rank for rank, (machine, _) in enumerate(known) if machine == name] for name in names]
        addresses = [known[of_machine[0]][1] for of_machine in ranks]
        numbers = [names.index(machine) for machine, _ in known]
        return [(number, len(ranks[number]), ranks[number][0], addresses, _OWN_SECRET) for number in numbers]


_MEETING = _Meeting()


class StorageWriter(_StorageWriter):
    """Lets `torch.distributed.checkpoint.save` and `async_save` write any checkpoint that ucp writes.

    `to` is any target of `ucp.convert`. The folder appears complete or not at all; with `force` it replaces one at its
    path. The other arguments are those of `ucp.save`. After a save, `report` says how it went.
    """

    def __init__(
        self,
        path: Path,
        *,
        to: str = "dcp",
        tag: str | None = None,
        force: bool = False,
        timeout: float = 120,
        nice: int = 0,
        threads: int | None = None,
        memory: int | str = "1GiB",
        spec: Path | None = None,
        sets: Settings = (),
        config: Path | None = None,
        unused: Mapping[str, str | int] | None = None,
        drop_states: Iterable[str] = (),
        keep_opaque: Iterable[str] = (),
        ds_config: Path | None = None,
    ) -> None:
        super().__init__()
        self._path = os.path.abspath(_arguments.path("path", path))
        self._tag = None if tag is None else _arguments.text("tag", tag)
        self._force = _arguments.flag("force", force)
        self._how: dict[str, Any] = {
            "to": to,
            "timeout": timeout,
            "nice": nice,
            "threads": threads,
            "memory": memory,
            "spec": spec,
            "sets": sets if isinstance(sets, Mapping) else list(sets),
            "config": config,
            "unused": unused,
            "drop_states": _arguments.texts("drop_states", drop_states),
            "keep_opaque": _arguments.texts("keep_opaque", keep_opaque),
            "ds_config": ds_config,
        }
        save_settings(**self._how)  # A wrong one is refused here. They go to a process of PyTorch's as they are.
        self._known: list[tuple[str, Any]] = []
        self.report: dict[str, Any] = {}

    @property
    def checkpoint_id(self) -> str:
        """The checkpoint's path."""
        return os.fsdecode(self._path)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether it may be a path."""
        return isinstance(checkpoint_id, os.PathLike) or "://" not in checkpoint_id

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Before another save, perhaps to another path."""
        if checkpoint_id is not None:
            self._path = os.path.abspath(_arguments.path("checkpoint_id", checkpoint_id))
        self.report = {}

    def set_up_storage_writer(self, is_coordinator: bool, *_args: Any, **kwargs: Any) -> None:
        """Refuses a save in which each rank would write for itself."""
        if kwargs.get("use_collectives", True) is False:
            raise failure("usage", "with use_collectives=False the ranks do not write one checkpoint; leave it out")

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """With this rank's path and machine, for the coordinator, and where the machine can be reached."""
        if plan.items:
            self._known = _tensors_of(plan)
        address = _MEETING.listener().address if dist.is_available() and dist.is_initialized() else ""
        return replace(plan, storage_data=(self.checkpoint_id, _ucp.name_of_this_machine(), address))

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """On the coordinator: all ranks save to one path; and where they meet."""
        first: str | None = None
        told: list[tuple[str, str] | None] = []
        for rank, plan in enumerate(plans):
            if not isinstance(plan.storage_data, tuple):
                told.append(None)  # A planner has kept it from an earlier save.
                continue
            path, machine, address = plan.storage_data
            first = path if first is None else first
            if path != first:
                raise failure("usage", f"rank 0 saves to `{first}` and rank {rank} to `{path}`")
            told.append((machine, address))
        places = enumerate(zip(plans, _MEETING.places(told), strict=True))
        return [replace(plan, storage_data=(_OWN_NAME, rank, len(plans), place)) for rank, (plan, place) in places]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """The boxes and values of the plan, from this rank's memory. Returns when the checkpoint is complete."""
        described, values, problem = Description([], [], []), b"", ""
        try:
            described, values = self._described(plan, planner)
        except Exception as error:  # All ranks shall hear of it.
            problem = str(error) if isinstance(error, _ucp.Error) else f"{type(error).__name__}: {error}"
        self.report = self._save(plan.storage_data, described, values, problem)
        done: Future[list[WriteResult]] = Future()
        done.set_result([_result_of(item) for item in plan.items])
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """The checkpoint is complete already."""

    def _described(self, plan: SavePlan, planner: SavePlanner) -> tuple[Description, bytes]:
        """In the order of this rank's state, as it was before PyTorch gave each box to one rank."""
        paths = plan.planner_data if isinstance(plan.planner_data, Mapping) else {}
        boxes: dict[str, list[tuple[Place, torch.Tensor]]] = {}
        values: dict[str, Any] = {}
        for item in plan.items:
            key, data = item.index.fqn, planner.resolve_data(item)
            if isinstance(data, torch.Tensor):
                boxes.setdefault(key, []).append((_place_of(item), _box_of(item, data)))
            else:
                values[key] = _value_of(data)
        described = Description([], [], [])
        known = dict(self._known) | {key: data for key, data in _tensors_of(plan) if key in boxes}
        for key, data in known.items():
            held = boxes.get(key, [])
            dtype = held[0][1].dtype if held else data.properties.dtype
            described.add_tensor(key, tuple(paths.get(key, (key,))), dtype_name(dtype), data.size, held)
        for key in values:
            described.add_value(key, tuple(paths.get(key, (key,))))
        return described, pickled(values) if values else b""

    def _save(self, place: Any, described: Description, values: bytes, problem: str) -> dict[str, Any]:
        name, rank, ranks, machines = place
        settings = save_settings(**self._how)
        settings.reads_memory = True
        event = event_of_devices() if described.is_on_devices else None
        address = f"ucp-{name}-{hashlib.sha256(self._path).hexdigest()[:16]}"
        listener = None
        if machines is not None:
            address += f"-{machines[0]}"  # Two names of machines may be those of one system.
            listener = _MEETING.listener()
        client = _ucp.SaveClient.open_at(
            address,
            rank,
            ranks,
            machines,
            listener,
            writer_program(),
            settings,
            described.entries,
            described.memory,
            values,
            problem,
        )
        try:
            tag = os.path.basename(self.checkpoint_id) if self._tag is None else self._tag
            number = client.begin(self._path, tag, self._force, values, "", None, None)
            progress = Progress(client, number, described)
            if described.is_on_devices:
                DeviceStages(client, pins=False, threads=settings.threads).stage(progress, described, event)
            progress.wait_for(DONE)
            report: dict[str, Any] = json.loads(progress.report())
            return report
        finally:
            client.close_and_wait()


def _tensors_of(plan: SavePlan) -> list[tuple[str, Any]]:
    return [(item.index.fqn, item.tensor_data) for item in plan.items if item.tensor_data is not None]


def _place_of(item: WriteItem) -> Place:
    assert item.tensor_data is not None
    return tuple(item.tensor_data.chunk.offsets), tuple(item.tensor_data.chunk.sizes)


def _box_of(item: WriteItem, data: torch.Tensor) -> torch.Tensor:
    box = local_of(item.index.fqn, data)
    sizes = _place_of(item)[1]
    if tuple(box.shape) != sizes:
        said = f"the planner gives `{item.index.fqn}` a part of {list(box.shape)} where its plan has {list(sizes)}"
        raise failure("usage", said)
    return box


def _value_of(data: io.BytesIO) -> Any:
    """As this process has pickled it a moment ago."""
    data.seek(0)
    return torch.load(data, map_location="cpu", weights_only=False)


def _result_of(item: WriteItem) -> WriteResult:
    size = 0
    if item.tensor_data is not None:
        size = item.tensor_data.chunk.sizes.numel() * item.tensor_data.properties.dtype.itemsize
    return WriteResult(item.index, size, None)
