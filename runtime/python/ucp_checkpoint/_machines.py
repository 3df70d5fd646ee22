"""The ranks of a tier, the machines that they run on, and the rank of each machine that speaks for it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from ucp_checkpoint import _arguments, _ucp
from ucp_checkpoint._agree import agree
from ucp_checkpoint._failure import failure

if TYPE_CHECKING:
    from ucp_checkpoint._ranks import Group

T = TypeVar("T")


class Ranks:
    """Those that keep versions together; a process alone has no group."""

    def __init__(self, group: object, no_dist: bool) -> None:
        import torch.distributed as dist

        self.of_job: Any = None
        if not no_dist and dist.is_available() and dist.is_initialized():
            self.of_job = dist.group.WORLD if group is None else group
        self.rank = 0 if self.of_job is None else dist.get_rank(self.of_job)
        self.size = 1 if self.of_job is None else dist.get_world_size(self.of_job)

    def all_gather(self, mine: bytes) -> list[bytes]:
        """By rank."""
        group = self._group()
        return [mine] if group is None else group.all_gather(mine)

    def all_tell(self, mine: Any) -> list[Any]:
        """The same, of what JSON can say."""
        return [json.loads(text) for text in self.all_gather(json.dumps(mine).encode())]

    def all_do(self, work: Callable[[], T]) -> T:
        """An error of one is raised on all."""
        made: list[T] = []
        problem: Exception | None = None
        try:
            made.append(work())
        except _ucp.Error as error:
            problem = error
        except OSError as error:
            problem = failure("io", f"`{error.filename}`: {(error.strerror or str(error)).lower()}")
        agree(self._group(), problem)
        return made[0]

    def least(self, mine: int) -> int:
        """Of the numbers of all ranks: one small message of the group. Raises RuntimeError where a rank is gone."""
        if self.of_job is None:
            return mine
        import torch
        from torch._C._distributed_c10d import AllreduceOptions, ReduceOp

        from ucp_checkpoint._ranks import on_host

        number = torch.tensor([mine])
        how = AllreduceOptions()
        how.reduceOp = ReduceOp(ReduceOp.MIN)
        on_host(self.of_job).allreduce([number], how).wait()
        return int(number.item())

    def _group(self) -> Group | None:
        if self.of_job is None:
            return None
        from ucp_checkpoint._ranks import Group

        return Group(self.of_job, "ucp.memory.Tier")


@dataclass
class Machines:
    """By number: in the order of their first ranks, each of which speaks for its machine."""

    ranks: Ranks
    names: list[str] = field(default_factory=list)
    domains: list[str] = field(default_factory=list)
    of_rank: list[int] = field(default_factory=list)
    timeout: float = 600.0

    @classmethod
    def find(cls, ranks: Ranks, machine: str | None, domain: str | None, timeout: float) -> Machines:
        """All ranks call it."""
        name = _arguments.text("machine", machine or _ucp.name_of_this_machine())
        is_named = bool(machine or os.environ.get("UCP_MACHINE"))  # Else two containers of a system fail together.
        around = name if is_named else _ucp.name_of_this_system()
        place = _arguments.text("domain", domain or os.environ.get("UCP_DOMAIN") or around)
        found = cls(ranks, timeout=timeout)
        for rank, (other, of_other) in enumerate(ranks.all_tell([name, place])):
            if other not in found.names:
                found.names.append(other)
                found.domains.append(of_other)
            number = found.names.index(other)
            if found.domains[number] != of_other:
                said = f"machine `{other}` is in the domain `{found.domains[number]}` by its first rank, and in "
                raise failure("usage", f"{said}`{of_other}` by rank {rank}")
            found.of_rank.append(number)
        return found

    @property
    def count(self) -> int:
        return len(self.names)

    @property
    def mine(self) -> int:
        return self.of_rank[self.ranks.rank]

    def first_rank(self, machine: int) -> int:
        return self.of_rank.index(machine)

    @property
    def speaks(self) -> bool:
        """Whether this rank does for its machine."""
        return self.first_rank(self.mine) == self.ranks.rank

    @cached_property
    def group(self) -> Any:
        """The ranks of this machine, as a process group; all of them ask for it."""
        import torch.distributed as dist

        if self.count == 1:
            return self.ranks.of_job
        mine = [rank for rank, machine in enumerate(self.of_rank) if machine == self.mine]
        everywhere = [dist.get_global_rank(self.ranks.of_job, rank) for rank in mine]
        return dist.new_group(
            everywhere,
            backend="gloo",
            use_local_synchronization=True,
            timeout=timedelta(seconds=self.timeout),
        )

    def store(self) -> Any:
        """Where processes of the job find one another."""
        import torch.distributed as dist
        from torch._C._distributed_c10d import PrefixStore

        return PrefixStore(self.ranks.of_job.group_name, dist.distributed_c10d._get_default_store())

    def check_alike(self, names: list[str]) -> None:
        """Whether the ranks of each machine together have tensors of the same names. All ranks call it."""
        mine = hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()
        of_machines: list[set[str]] = [set() for _ in self.names]
        for rank, other in enumerate(self.ranks.all_tell(mine)):
            of_machines[self.of_rank[rank]].add(other)
        for number, of_one in enumerate(of_machines):
            if of_one != of_machines[0]:
                said = f"machine `{self.names[0]}` and machine `{self.names[number]}` hold tensors of other names, as "
                raise failure("unsupported", f"{said}pipeline stages do; each machine needs a rank of every stage")

    def first_does(self, work: Callable[[], object]) -> None:
        """On the rank that speaks for each machine; an error of one is raised on all ranks."""
        self.ranks.all_do(work if self.speaks else lambda: None)
