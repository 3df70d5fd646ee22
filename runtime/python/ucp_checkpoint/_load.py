"""`ucp.load`: what one rank of a job would read of a checkpoint, as tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ucp_checkpoint import _arguments, _ucp
from ucp_checkpoint._agree import agree
from ucp_checkpoint._arrays import Framework, framework_of, need_torch
from ucp_checkpoint._failure import failure
from ucp_checkpoint._source import Path, Settings, source_from
from ucp_checkpoint._work import Work, byte_count, thread_count

if TYPE_CHECKING:
    from ucp_checkpoint._ranks import Group


@dataclass(frozen=True)
class Part:
    """The part of a tensor that a rank holds: elements [begin, end) of a local tensor of this shape, at this place."""

    shape: tuple[int, ...]
    begin: int
    end: int
    coordinate: Mapping[str, int]

    @property
    def is_all(self) -> bool:
        """Whether it is all of the rank's local tensor."""
        elements = 1
        for length in self.shape:
            elements *= length
        return (self.begin, self.end) == (0, elements)


class Loaded(Mapping[str, dict[str, Any]]):
    """The loaded states of each tensor, by its name and theirs.

    A state is a tensor of the rank's local shape where the rank holds all of that, and else a row of elements; `parts`
    says which ones. `not_loaded` lists the states in the rank's files that were not asked for, `report` says how the
    load went, and `remarks` has notes about it.
    """

    def __init__(self) -> None:
        self._states: dict[str, dict[str, Any]] = {}
        self.parts: dict[tuple[str, str], Part] = {}
        self.not_loaded: list[tuple[str, str]] = []
        self.report: dict[str, Any] = {}
        self.remarks: list[str] = []

    def __getitem__(self, tensor: str) -> dict[str, Any]:
        return self._states[tensor]

    def __iter__(self) -> Iterator[str]:
        return iter(self._states)

    def __len__(self) -> int:
        return len(self._states)

    def __repr__(self) -> str:
        return f"<ucp.Loaded: {len(self._states)} tensors, {self.report.get('bytes_placed', 0)} bytes>"


def _patterns(name: str, given: str | Iterable[str] | None) -> list[str]:
    if given is None:
        return ["*"]
    patterns = _arguments.texts(name, given, "a pattern or several")
    if not patterns:
        raise failure("usage", f"{name} has no pattern, and so asks for nothing; leave it out to load all")
    return patterns


def _fits(name: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _rank(plan: _ucp.LoadPlan, to: str, rank: int | None, group: Group | None) -> int:
    if group is not None:
        if rank is not None and rank != group.rank:
            raise failure("usage", f"rank={rank}: this process is rank {group.rank} of its group")
        rank = group.rank
    if plan.ranks == 0:  # Any number of them, which all read the same.
        return rank or 0
    if rank is None:
        if plan.ranks > 1:
            raise failure("usage", f"`{to}` is a job of {plan.ranks} ranks; rank= says whose part is to be loaded")
        return 0
    if not 0 <= rank < plan.ranks:
        raise failure("usage", f"rank={rank}: `{to}` is a job of {plan.ranks} ranks, counted from 0")
    return rank


def _tensors(
    found: Loaded, wanted: dict[tuple[str, str], _ucp.State], memory: dict[int, Any], arrays: Framework
) -> None:
    # A view of a record that holds more than what was asked for would keep all of it alive.
    asked: dict[int, int] = dict.fromkeys(memory, 0)
    views: dict[tuple[str, str], list[tuple[_ucp.Piece, Any]]] = {}
    for key, entry in wanted.items():
        if any(a.end != b.begin for a, b in pairwise(entry.pieces)):
            raise failure("unsupported", f"the rank holds separate parts of `{key[1]}` of tensor `{key[0]}`")
        for piece in entry.pieces:
            elements = piece.end - piece.begin
            begin = piece.place * entry.item_bytes
            view = arrays.piece(memory[piece.record], begin, elements, entry.dtype)
            asked[piece.record] += elements * entry.item_bytes
            views.setdefault(key, []).append((piece, view))
    for key, pieces in views.items():
        entry = wanted[key]
        first, last = pieces[0][0], pieces[-1][0]
        part = Part(tuple(entry.shape), first.begin, last.end, entry.coordinate)
        row = pieces[0][1] if len(pieces) == 1 else arrays.join([view for _, view in pieces])
        own = len(pieces) == 1 and 2 * asked[first.record] < len(memory[first.record])
        tensor, state = key
        found.parts[key] = part
        found._states.setdefault(tensor, {})[state] = arrays.finish(row, list(part.shape) if part.is_all else None, own)


def load(
    path: Path,
    *,
    to: str,
    rank: int | None = None,
    tensors: str | Iterable[str] | None = None,
    states: str | Iterable[str] | None = None,
    device: object = "cpu",
    framework: str | None = None,
    spec: Path | None = None,
    sets: Settings = (),
    config: Path | None = None,
    unused: Mapping[str, str | int] | None = None,
    drop_states: Iterable[str] = (),
    prefer_rank: str = "",
    ds_config: Path | None = None,
    verify: bool = False,
    threads: int | None = None,
    memory: int | str = "1GiB",
    device_memory: int | str = "512MiB",
    group: object = None,
) -> Loaded:
    """Loads the tensors that one rank of the job `to` would read, from a checkpoint of any topology.

    `to` is a strategy as `ucprun convert --to` has it, "deepspeed:tp=2,dp=4,zero=1" or "universal", and `rank` a rank
    of that job. `tensors` and `states` are patterns for names; what they leave out is listed in the result. `device` is
    where PyTorch's tensors go; `framework` is "torch" or "numpy". With `verify`, the archives' checksums are checked,
    and copies are compared with one another. `memory` bounds what is needed besides the tensors, and
    `device_memory` what is needed of a GPU besides them. All ranks of a `group`
    of torch.distributed load together, each its own part; then each header is read by one of them. The other
    arguments say what the source is, as the programs' options of the same names.
    """
    ranks: Group | None = None
    if group is not None:
        need_torch("a group is one of PyTorch's")
        from ucp_checkpoint._ranks import Group as RanksOfGroup

        ranks = RanksOfGroup(group, "ucp.load")
    problem: Exception | None = None
    try:
        arrays = framework_of(framework, device)
        source = source_from(
            path, spec=spec, sets=sets, config=config, unused=unused, drop_states=drop_states, prefer_rank=prefer_rank
        )
        memory_bytes, thread_number = byte_count(memory), thread_count(threads)
        device_bytes = byte_count(device_memory, "device_memory")
        to = _arguments.text("to", to, 'a strategy such as "deepspeed:tp=2,dp=4,zero=1"')
        rank = _arguments.whole("rank", rank, 0, 2**31 - 1) if rank is not None else None
        verify = _arguments.flag("verify", verify)
        names, kinds = _patterns("tensors", tensors), _patterns("states", states)
        target = _ucp.Target()
        target.ds_config = _arguments.path("ds_config", ds_config) if ds_config is not None else b""
    except Exception as error:
        problem = error
    agree(ranks, problem)
    with ranks or nullcontext():
        work = Work(thread_number, memory_bytes, device_bytes)
        return _load(source, to, target, rank, names, kinds, arrays, verify, work, ranks)


def _load(
    source: _ucp.Source,
    to: str,
    target: _ucp.Target,
    rank: int | None,
    names: list[str],
    kinds: list[str],
    arrays: Framework,
    verify: bool,
    work: Work,
    group: Group | None,
) -> Loaded:
    in_group = group.ranks if group is not None else None
    # Copies belong to the plan: what lies in the source as it is wanted may be one. The load compares them or does not.
    plan = _ucp.compile_load(source, to, target, True, in_group, [], verify, work.threads)

    found = Loaded()
    found.remarks = list(plan.remarks)
    problem = None
    try:
        this_rank = _rank(plan, to, rank, group)
        all_of_rank = {(entry.tensor, entry.state): entry for entry in plan.states_of(this_rank)}
        wanted = {key: entry for key, entry in all_of_rank.items() if _fits(key[0], names) and _fits(key[1], kinds)}
        _check_patterns(all_of_rank, names, kinds, this_rank)
        for (tensor, _), entry in wanted.items():
            arrays.check(entry.dtype, tensor)
        records = {piece.record for entry in wanted.values() for piece in entry.pieces}
        sizes = {record: size for record, _, _, size in plan.records_of(this_rank)}
        buffers = {record: arrays.memory(sizes[record]) for record in sorted(records)}
        arrays.settle()
    except _ucp.Error as error:
        problem = error
    except (MemoryError, RuntimeError) as error:
        problem = failure("memory", f"there is not enough memory for what is loaded: {error}")
    agree(group, problem)
    found.not_loaded = sorted(all_of_rank.keys() - wanted.keys())

    places = [(record, arrays.address(buffer), sizes[record]) for record, buffer in buffers.items()]
    devices = dict.fromkeys(buffers, arrays.device) if arrays.device is not None else {}
    found.report = work.load(plan, places, verify, in_group, devices)
    _tensors(found, wanted, buffers, arrays)
    return found


def _check_patterns(there: Iterable[tuple[str, str]], names: list[str], kinds: list[str], rank: int) -> None:
    """A pattern that nothing fits was not meant."""
    keys = list(there)
    for place, word, patterns in ((0, "tensor", names), (1, "state", kinds)):
        for pattern in patterns:
            if pattern != "*" and not any(fnmatchcase(key[place], pattern) for key in keys):
                raise failure("usage", f"rank {rank} has no {word} whose name fits `{pattern}`")
