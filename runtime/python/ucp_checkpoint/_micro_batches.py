"""`MicroBatches`: the gradient of a global batch over replicas, of which some may be lost.

Each iteration has the micro-batches 0 … B-1, dealt to the ranks, and its gradient is their sum over B. Each rank adds
up its own; then segments of parameters are reduced, one after the other. When a rank is lost, the others agree by the
job's store on who is left, make a new group, and compute the micro-batches of the lost rank:

    segments that some rank has reduced     are whole, the lost rank's part with them; others are given them
    segments that no rank has reduced       are added up again, with the micro-batches of the lost rank

Every micro-batch counts once, and B stays. Only the order of additions differs.
"""

from __future__ import annotations

import ctypes
import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import AllreduceOptions, BroadcastOptions, PrefixStore, ProcessGroupGloo
from torch.distributed.tensor import DTensor

from ucp_checkpoint import _arguments
from ucp_checkpoint._failure import failure

_MOST_TOTAL = 1 << 31
_SEGMENT_BYTES = 25 << 20
_BETWEEN_LOOKS = 0.05
_NO_LIMIT = timedelta(days=7)  # The store says who is lost, and not the clock.
_MOST_FRUITLESS = 3  # Agreements of an iteration by which nobody is lost.
_made: Counter[str] = Counter()  # By the name of the group: all of a job share a store.
_open: list[Any] = []  # Groups whose messages have not ended, with these.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_open))  # Lives on at exit: a group that is freed waits for its message.


class _Lost(Exception):
    """A rank is lost."""


def segments_of(parameters: list[torch.nn.Parameter]) -> list[list[torch.nn.Parameter]]:
    """Parameters whose gradients are reduced together. Refuses those that are not whole on each rank."""
    segments: list[list[torch.nn.Parameter]] = []
    taken = 0
    for parameter in parameters:
        is_cut = isinstance(parameter, DTensor) or hasattr(parameter, "ds_tensor")
        if is_cut or getattr(parameter, "_fsdp_flattened", False):
            raise failure("usage", "a parameter is cut over the ranks, and MicroBatches needs whole ones: replicas")
        if not parameter.requires_grad:
            continue
        size = parameter.numel() * parameter.element_size()
        last = segments[-1][-1] if segments else None
        is_alike = last is not None and (last.dtype, last.device) == (parameter.dtype, parameter.device)
        if not is_alike or taken + size > _SEGMENT_BYTES:
            segments.append([])
            taken = 0
        segments[-1].append(parameter)
        taken += size
    if not segments:
        raise failure("usage", "none of the parameters needs a gradient")
    return segments


def flat(segment: list[torch.nn.Parameter]) -> torch.Tensor:
    """The gradients of a segment; zeros where there are none."""
    gradients = []
    for parameter in segment:
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        if gradient.is_sparse:
            raise failure("usage", "a gradient is sparse, and MicroBatches adds up dense ones")
        gradients.append(gradient.detach().flatten())
    return torch.cat(gradients)


def set_gradients(segment: list[torch.nn.Parameter], values: torch.Tensor) -> None:
    """The other way."""
    parts = values.split([parameter.numel() for parameter in segment])
    for parameter, part in zip(segment, parts, strict=True):
        parameter.grad = part.view_as(parameter).to(parameter.dtype, copy=True)


def zeros(segment: list[torch.nn.Parameter]) -> torch.Tensor:
    """For a sum, which has at least float32: that of many gradients can be too large for float16."""
    values = flat(segment)
    return torch.zeros_like(values, dtype=torch.promote_types(values.dtype, torch.float32))


def _reason_of(error: RuntimeError) -> str:
    """The first sentence of gloo, without its place in the source."""
    return re.sub(r"^\[.*?\] ", "", str(error)).split(". ")[0].split("\n")[0]


def deal(total: int, ranks: list[int]) -> list[int]:
    """The rank of each micro-batch: runs of the same length, the first ones by one longer."""
    each, more = divmod(total, len(ranks))
    return [rank for place, rank in enumerate(ranks) for _ in range(each + (place < more))]


def deal_again(owners: list[int], left: list[int]) -> list[int]:
    """Those of lost ranks go to the others in turn."""
    dealt, turn = list(owners), 0
    for index, rank in enumerate(owners):
        if rank not in left:
            dealt[index] = left[turn % len(left)]
            turn += 1
    return dealt


@dataclass
class _Iteration:
    """On one rank. Segments up to `wholes` are reduced."""

    owners: list[int]  # By micro-batch.
    mine: list[int]  # Those that are not in the sums yet.
    sums: list[torch.Tensor]
    wholes: list[torch.Tensor] = field(default_factory=list)


class MicroBatches:
    """Computes the gradients of a global batch of `total` micro-batches on the ranks of `group`, all replicas.

    All ranks make one, within `patience` seconds. A rank that says nothing for `patience` seconds after another one has
    failed counts as lost: one micro-batch must take less, and so must all between two iterations. The reduction has a
    gloo group of its own. Other groups with a lost rank are of no use.
    """

    def __init__(self, total: int, group: dist.ProcessGroup | None = None, patience: float = 30.0) -> None:
        if not dist.is_initialized():
            raise failure("usage", "torch.distributed is not initialised, and MicroBatches needs its ranks")
        self._total = _arguments.whole("total", total, 1, _MOST_TOTAL)
        if not 0 < patience < math.inf:
            raise failure("usage", f"patience is {patience!r}, and must be a number of seconds above 0")
        self._patience = patience
        self._rank = dist.get_rank()
        if dist.get_rank(group) < 0:
            raise failure("usage", f"rank {self._rank} is not in the group, whose ranks alone make MicroBatches")
        self._ranks: list[int] = dist.get_process_group_ranks(group)
        of: Any = group or dist.group.WORLD
        _made[of.group_name] += 1
        prefix = f"ucp/{of.group_name}/micro-batches/{_made[of.group_name]}"
        self._store = PrefixStore(prefix, dist.distributed_c10d._get_default_store())
        self._number = 0  # Of the iteration.
        self._agreements = 0  # On who is left.
        self._dealt: list[int] | None = None  # The owners of the next iteration, if others have begun it.
        self._reduced: dict[int, int] = {}  # How many segments others have reduced, after an agreement.
        self._reason = ""
        self._is_under_way = False
        self._group: Any = None
        self._work: Any = None  # Its message that has not ended well.
        self._connect()
        if self._group is None:
            raise failure("io", f"the ranks do not connect in {patience} s: {self._reason}; start all of them within "
                                "this time, or give a longer patience")  # fmt: skip

    @property
    def ranks(self) -> list[int]:
        """Those that are left, by their numbers in the job."""
        return list(self._ranks)

    def run(self, parameters: Iterable[torch.nn.Parameter], compute: Callable[[int], None]) -> None:
        """One iteration: `compute(index)` adds the gradients of a micro-batch to those of the parameters.

        It must not reduce them (`DistributedDataParallel.no_sync()`), and must depend on nothing but its index and the
        parameters. Afterwards each parameter has the gradient of the whole batch, the same on all ranks. `run()`
        refuses to be called again after an error of `compute` or of the reduction.
        """
        if self._is_under_way:
            raise failure("io", "an earlier run() ended with an error, and the ranks may be at different messages; "
                                "start the job again from its last checkpoint")  # fmt: skip
        segments = segments_of(list(parameters))
        owners = self._dealt or deal(self._total, self._ranks)
        mine = [index for index, rank in enumerate(owners) if rank == self._rank]
        own = _Iteration(owners, mine, [zeros(segment) for segment in segments])
        self._is_under_way = True
        try:
            self._complete(own, compute, segments)
        except BaseException:
            self._set_aside()
            raise
        for segment, whole in zip(segments, own.wholes, strict=True):
            set_gradients(segment, whole / self._total)
        self._is_under_way = False

    def _complete(
        self, own: _Iteration, compute: Callable[[int], None], segments: list[list[torch.nn.Parameter]]
    ) -> None:
        """The iteration is whole on all ranks that are left."""
        self._dealt = None
        fruitless = 0
        while not self._try(own, compute, segments):
            before = self._ranks
            if self._agree(len(own.wholes)) > self._number:  # This one is whole on all ranks.
                self._dealt = deal_again(deal(self._total, before), self._ranks)
                break
            fruitless = fruitless + 1 if self._ranks == before else 0
            if fruitless == _MOST_FRUITLESS:
                raise failure("io", f"gradients cannot be reduced, and no rank is lost: {self._reason}")
            again = deal_again(own.owners, self._ranks)
            own.mine += [index for index, rank in enumerate(again)
                         if rank == self._rank and own.owners[index] != rank]  # fmt: skip
            own.owners = again
        self._number += 1
        self._reduced = {}

    def _try(self, own: _Iteration, compute: Callable[[int], None], segments: list[list[torch.nn.Parameter]]) -> bool:
        """Whether the iteration is whole on all ranks. If not, a rank is lost."""
        try:
            self._share(own)
            self._add_up(own, compute, segments)
            self._reduce(own)
        except _Lost:
            return False
        return True

    def _share(self, own: _Iteration) -> None:
        """Segments that some rank has reduced, and others have not."""
        most = max(self._reduced.values(), default=0)
        for place in range(min(self._reduced.values(), default=0), most):
            options = BroadcastOptions()
            options.rootRank = next(i for i, rank in enumerate(self._ranks) if self._reduced.get(rank) == most)
            options.rootTensor, options.timeout = 0, _NO_LIMIT
            whole = own.wholes[place] if place < len(own.wholes) else torch.empty_like(own.sums[place])
            self._carry_out("broadcast", [whole], options)
            own.wholes[place : place + 1] = [whole]

    def _add_up(
        self, own: _Iteration, compute: Callable[[int], None], segments: list[list[torch.nn.Parameter]]
    ) -> None:
        """Only in segments that are not reduced. All ranks have as many of these here."""
        while own.mine:
            self._look()
            for segment in segments:
                for parameter in segment:
                    parameter.grad = None
            compute(own.mine[0])
            for place in range(len(own.wholes), len(segments)):
                own.sums[place] += flat(segments[place])
            del own.mine[0]

    def _reduce(self, own: _Iteration) -> None:
        """The segments that are left. Behind the last message, all ranks have all of them."""
        options = AllreduceOptions()
        options.timeout = _NO_LIMIT
        while len(own.wholes) < len(own.sums):
            whole = own.sums[len(own.wholes)].clone()
            self._carry_out("allreduce", [whole], options)
            own.wholes.append(whole)
        self._carry_out("allreduce", [torch.zeros(1)], options)

    def _carry_out(self, call: str, tensors: list[torch.Tensor], options: Any) -> None:
        """Waits until it has ended, or a rank is lost."""
        while True:
            has_ended = self._work is not None and self._work.is_completed()
            try:
                if self._group is None:
                    raise _Lost
                self._work = self._work or getattr(self._group, call)(tensors, options)
                self._work.wait(timedelta(seconds=_BETWEEN_LOOKS))
                self._work = None
                return
            except RuntimeError as error:
                if self._work is None or has_ended:  # Else it has not ended, or just now.
                    self._reason = _reason_of(error)
                    raise _Lost from None
            self._look()

    def _look(self) -> None:
        if self._store.check([f"{self._agreements}/alarm"]):
            raise _Lost

    def _agree(self, reduced: int) -> int:
        """On the ranks that are left; the first one that has waited long enough says so. Returns the newest iteration
        of any."""
        prefix = f"{self._agreements}/"
        self._store.set(f"{prefix}{self._rank}", json.dumps([self._number, reduced]))
        self._store.set(prefix + "alarm", "")
        keys = {rank: f"{prefix}{rank}" for rank in self._ranks}
        until = time.monotonic() + self._patience
        while time.monotonic() < until and not self._store.check([*keys.values()]):
            self._disconnect()
            time.sleep(_BETWEEN_LOOKS)
        there = [rank for rank, key in keys.items() if self._store.check([key])]
        self._ranks = json.loads(self._store.compare_set(prefix + "left", "", json.dumps(there)))
        if self._rank not in self._ranks:
            raise failure("io", f"rank {self._rank} counts as lost, since it said nothing for {self._patience} s "
                                "after another rank had failed; one micro-batch must take less")  # fmt: skip
        said = {rank: json.loads(self._store.get(keys[rank])) for rank in self._ranks}
        newest = max(number for number, _ in said.values())
        self._reduced = {rank: count for rank, (number, count) in said.items() if number == newest}
        self._agreements += 1
        self._connect()
        return int(newest)

    def _disconnect(self) -> None:
        """The messages of others fail when this rank gives up its connections. Its own must have failed before, since
        the group waits for that."""
        if self._work is None or self._work.is_completed():
            self._work = self._group = None

    def _set_aside(self) -> None:
        """The group, and its message if that has not ended. Others give up theirs in a moment; a lost rank that is
        stopped does not."""
        self._disconnect()
        _open[:] = [(group, work) for group, work in _open if not work.is_completed()]
        if self._group is not None:
            _open.append((self._group, self._work))
        self._work = self._group = None

    def _connect(self) -> None:
        """If another rank is lost meanwhile, the first message finds it."""
        self._set_aside()
        store = PrefixStore(f"{self._agreements}/gloo", self._store)
        seconds = timedelta(seconds=self._patience)
        try:
            self._group = ProcessGroupGloo(store, self._ranks.index(self._rank), len(self._ranks), seconds)
        except RuntimeError as error:
            self._reason = _reason_of(error)
