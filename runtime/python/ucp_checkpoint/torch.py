"""Parts for `torch.distributed.checkpoint` (docs/python.md)."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint._nested_dict import flatten_state_dict
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem
from torch.distributed.checkpoint.storage import StorageReader as _StorageReader
from torch.futures import Future

from ucp_checkpoint import _arguments, _ucp
from ucp_checkpoint._failure import failure
from ucp_checkpoint._reading import Reading, Wanted
from ucp_checkpoint._served import KEPT, STYLES, Stored, serve
from ucp_checkpoint._source import Path, Settings, source_from
from ucp_checkpoint._storage_writer import StorageWriter
from ucp_checkpoint._work import Work, byte_count, thread_count

if TYPE_CHECKING:
    from ucp_checkpoint._ranks import Group

__all__ = ["StorageReader", "StorageWriter"]


class StorageReader(_StorageReader):
    """Gives `torch.distributed.checkpoint.load` any checkpoint that ucp reads.

    `style` says how the job names what it loads. The ranks that load share the reading if they are those of `group`,
    by default all ranks of the job; else each reads its own part alone. The other arguments are those of
    `ucp.load_into`. After a load, `report` and `remarks` say how it went.
    """

    def __init__(
        self,
        path: Path,
        *,
        style: str = "titan",
        group: object = None,
        spec: Path | None = None,
        sets: Settings = (),
        config: Path | None = None,
        unused: Mapping[str, str | int] | None = None,
        drop_states: Iterable[str] = (),
        prefer_rank: str = "",
        verify: bool = False,
        threads: int | None = None,
        memory: int | str = "1GiB",
        device_memory: int | str = "512MiB",
    ) -> None:
        super().__init__()
        if style not in STYLES:
            raise failure("usage", f"style is one of {', '.join(STYLES)}, not {_arguments.shown(style)}")
        self._style = style
        self._group = group
        self._source = source_from(
            path, spec=spec, sets=sets, config=config, unused=unused, drop_states=drop_states, prefer_rank=prefer_rank
        )
        self._verify = _arguments.flag("verify", verify)
        self._work = Work(thread_count(threads), byte_count(memory), byte_count(device_memory, "device_memory"))
        self._entries: dict[str, Any] = {}
        self._saved: dict[int, bytes] = {}  # Of values, by their identity.
        self.report: dict[str, Any] = {}
        self.remarks: list[str] = []

    @property
    def checkpoint_id(self) -> str:
        """The checkpoint's path."""
        return self._source.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether it may be a path."""
        return isinstance(checkpoint_id, os.PathLike) or "://" not in checkpoint_id

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Before another load, perhaps of another checkpoint."""
        if checkpoint_id is not None:
            self._source.path = _arguments.path("checkpoint_id", checkpoint_id)

    def read_metadata(self, *_args: Any, **_unused: Any) -> Metadata:
        """Headers only. Every tensor is one chunk, so that a plan asks for boxes of whole tensors."""
        served = serve(_ucp.describe(self._source, self._work.threads), self._style)
        self.remarks = served.remarks
        self._saved = {}
        try:
            self._entries, paths = flatten_state_dict(served.nested)
        except ValueError as error:
            raise failure("unsupported", f"two things have one name with style={self._style!r}: {error}") from error
        metadata = {key: _metadata_of(entry) for key, entry in self._entries.items()}
        return Metadata(state_dict_metadata=metadata, planner_data=paths, storage_data={})

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *_args: Any, **_unused: Any) -> None:
        """Everything is known from read_metadata()."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """With this rank's number, for the coordinator."""
        ranks = self._ranks()
        return replace(plan, storage_data=None if ranks is None else (dist.get_rank(ranks), dist.get_world_size(ranks)))

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """On the coordinator: whether the ranks that load are those of the group, and read together."""
        said = [plan.storage_data for plan in plans]
        is_group = len(plans) > 1 and said == [(rank, len(plans)) for rank in range(len(plans))]
        if self._group is not None and not is_group and len(plans) > 1:
            raise failure(
                "usage", f"group= is not the process group of the {len(plans)} ranks that load; give both the same one"
            )
        is_together = is_group and any(self._stored(item) is not None for plan in plans for item in plan.items)
        return [replace(plan, storage_data=is_together) for plan in plans]

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """The boxes that the plan asks for, and its values."""
        wanted, values, kept = [], [], set()
        for item in plan.items:
            stored = self._stored(item)
            if stored is not None:
                target = planner.resolve_tensor(item).detach()
                wanted.append((item, Wanted(stored, tuple(item.storage_offsets), tuple(item.lengths), target)))
            elif self._entries[item.storage_index.fqn] is KEPT:
                kept.add(item.storage_index.fqn.rpartition(".")[2])
            else:
                values.append(item)
        is_together = plan.storage_data is True
        if wanted or is_together:
            reading = Reading([entry for _, entry in wanted])
            self.report, remarks = reading.run(self._source, self._verify, self._work, self._joined(is_together))
            self.remarks = [*self.remarks, *remarks]
        for item, entry in wanted:
            planner.commit_tensor(item, entry.target)
        for item in values:
            self._give(item, planner)
        if kept:
            names = ", ".join(sorted(kept))
            remark = f"the checkpoint lacks these settings, which stay as the job has them: {names}"
            self.remarks = [*self.remarks, remark]
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _ranks(self) -> Any:
        if self._group is None and dist.is_available() and dist.is_initialized():
            return dist.group.WORLD
        return self._group

    def _joined(self, is_together: bool) -> Group | None:
        if not is_together:
            return None
        from ucp_checkpoint._ranks import Group

        return Group(self._ranks(), "ucp.torch.StorageReader")

    def _stored(self, item: ReadItem) -> Stored | None:
        """For an item that the engine reads."""
        entry = self._entries[item.storage_index.fqn]
        return entry if isinstance(entry, Stored) else None

    def _give(self, item: ReadItem, planner: LoadPlanner) -> None:
        value = self._entries[item.storage_index.fqn]
        if item.type is LoadItemType.BYTE_IO:
            if id(value) not in self._saved:
                written = io.BytesIO()
                torch.save(value, written)
                self._saved[id(value)] = written.getvalue()
            planner.load_bytes(item, io.BytesIO(self._saved[id(value)]))
            return
        target = planner.resolve_tensor(item).detach()
        ranges = zip(item.storage_offsets, item.lengths, strict=True)
        box = tuple(slice(begin, begin + length) for begin, length in ranges)
        target.copy_(value.detach()[box])
        planner.commit_tensor(item, target)


def _metadata_of(entry: object) -> TensorStorageMetadata | BytesStorageMetadata:
    if not isinstance(entry, (Stored, torch.Tensor)):
        return BytesStorageMetadata()
    size = torch.Size(entry.shape)
    whole = ChunkStorageMetadata(offsets=torch.Size([0] * len(size)), sizes=size)
    return TensorStorageMetadata(properties=TensorProperties(dtype=entry.dtype), size=size, chunks=[whole])
