"""The ranks of a job, over its own `torch.distributed` process group.

Messages go from each rank to each, point to point: then every rank waits for every other one, and all notice and name a
rank whose connection breaks. A rank that has seen a failure, or is interrupted, tells it to the others in place of its
next message, so that nobody waits for it. Messages that were sent and not received by then do not disturb the next
call, whose messages have other tags.

While there is work between two messages, two threads watch: one waits for a byte from the next rank of a ring, which
comes when the work is done, or never, if that rank dies; the other asks the job's store whether somebody has failed.
"""

from __future__ import annotations

import contextlib
import re
import threading
import uuid
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore

from ucp_checkpoint import _ucp
from ucp_checkpoint._failure import failure

_FIRST_TAG = 20_240_000  # Of messages, and the next one for the ring. Others use small numbers.
_TAGS = 1_000_000  # So many, and then from the first again.
_FINE, _FAILED = 0, 1
_SECONDS_BETWEEN_LOOKS = 0.5
T = TypeVar("T")
# How often Messages were made for each group, and its ranks' own gloo group. A job that begins anew has other groups.
_made: weakref.WeakKeyDictionary[dist.ProcessGroup, int] = weakref.WeakKeyDictionary()
_on_hosts: weakref.WeakKeyDictionary[dist.ProcessGroup, Any] = weakref.WeakKeyDictionary()
# Messages that were on their way when a call failed. They are kept, since one arrives only while its sender keeps it.
_left: weakref.WeakKeyDictionary[dist.ProcessGroup, list[Any]] = weakref.WeakKeyDictionary()


def on_host(group: dist.ProcessGroup) -> Any:
    """The same ranks, able to carry the host's memory.

    new_group() would not do: it is a call of the whole job, of whose ranks those of `group` may be a few, and it sorts
    them. Nor does a gloo group that PyTorch watches (TORCH_DISTRIBUTED_DEBUG=DETAIL): it counts messages, and expects
    all ranks to have sent as many when they next do something together.
    """
    with contextlib.suppress(RuntimeError):
        backend = group._get_backend(torch.device("cpu"))
        if type(backend) is dist.ProcessGroupGloo:
            return backend
    if group not in _on_hosts:
        store = PrefixStore(f"ucp/{group.group_name}/gloo", dist.distributed_c10d._get_default_store())
        _on_hosts[group] = dist.ProcessGroupGloo(store, group.rank(), group.size(), dist.default_pg_timeout)
    return _on_hosts[group]


def _reason(error: RuntimeError) -> str:
    """The reason that gloo gives, without the place in its sources, and without advice."""
    return re.sub(r"^\[.*?\] ", "", str(error)).split(". ")[0]


def _tensor(content: bytes | memoryview) -> torch.Tensor:
    """A copy."""
    return torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.empty(0, dtype=torch.uint8)


class Messages:
    """Messages between the ranks of a group. All ranks make and use it alike, each from one thread at a time.

    `purpose` is what they do together, by which ranks that do different things know it at once.
    """

    def __init__(self, group: Any, purpose: str = "") -> None:
        if not dist.is_initialized():
            raise failure("usage", "a process group was given, and torch.distributed is not initialised")
        self.rank = dist.get_rank(group)
        self.size = dist.get_world_size(group)
        if self.rank < 0:
            raise failure("usage", "this process is not a rank of the process group that was given")
        self._gloo = on_host(group)
        self._left = _left.setdefault(group, [])
        self._failure = ""
        self._others = [rank for rank in range(self.size) if rank != self.rank]
        self._unfinished: list[tuple[int, Any, torch.Tensor]] = []  # Messages being sent: to whom, and their memory.
        self._store = dist.distributed_c10d._get_default_store()
        number = _made[group] = _made.get(group, 0) + 1
        self._tag = _FIRST_TAG + 2 * (number % _TAGS)
        # Of the word that somebody has failed; for the first message one that all ranks know without being told.
        self._key = f"ucp/{group.group_name}/{number}"
        said = [text.decode() for text in self.all_gather(f"{uuid.uuid4().hex} {purpose}".encode())]
        self._key = f"ucp/{said[0].split()[0]}"
        for rank, text in enumerate(said):
            if (other := text.split(" ", 1)[1]) != (first := said[0].split(" ", 1)[1]):
                raise failure(
                    "usage", f"rank 0 calls {first}, and rank {rank} {other}; all ranks of a group make the same calls"
                )

    def all_gather(self, mine: bytes) -> list[bytes]:
        """Returns the bytes that each rank gives, by rank."""
        return self._or_tell(lambda: self._exchange(mine))

    def deliver(self, sending: list[tuple[int, memoryview]], receiving: list[tuple[int, memoryview]]) -> None:
        """Sends bytes to some other ranks, and receives bytes of some into this memory."""
        self._or_tell(lambda: self._deliver(sending, receiving))

    def _or_tell(self, work: Callable[[], T]) -> T:
        """Does `work`. If it fails, sends the failure to all ranks in place of the message that they expect next."""
        if not self._failure:
            try:
                return work()
            except RuntimeError as error:
                self._fail(str(error))
            except BaseException:  # Ctrl-C.
                self.interrupt()
                raise
        raise failure("io", self._failure)

    def interrupt(self) -> None:
        """Stops this rank, and tells the others so if nobody has failed before."""
        if not self._failure:
            self._fail(f"rank {self.rank} of {self.size} was interrupted")

    def _exchange(self, mine: bytes) -> list[bytes]:
        payload = _tensor(mine)
        for rank in self._others:
            self._send(rank, _FINE, payload)
        all_bytes = [mine] * self.size
        gone: dict[int, str] = {}
        told = ""
        for rank in self._others:
            try:
                status, size = self._receive_header(rank)
                all_bytes[rank] = self._receive(rank, size)
                if status == _FAILED:
                    told = told or all_bytes[rank].decode()
            except RuntimeError as error:
                gone[rank] = _reason(error)
        if told or gone:
            raise RuntimeError(told or self._gone(gone))
        self._finish()
        return all_bytes

    def _deliver(self, sending: list[tuple[int, memoryview]], receiving: list[tuple[int, memoryview]]) -> None:
        # Copies: after a failure they may be on their way when the caller's memory is gone.
        payloads = {id(view): _tensor(view) for view in {id(view): view for _, view in sending}.values()}
        for rank, view in sending:
            self._send(rank, _FINE, payloads[id(view)])
        for rank, view in receiving:
            try:
                status, size = self._receive_header(rank)
                if status == _FAILED:
                    told = self._receive(rank, size).decode()
                elif size != len(view):
                    told = f"rank {rank} gives {size} bytes where {len(view)} are expected of it; "
                    told += "all ranks must run the same ucp"
                else:
                    told = ""
                    self._receive_into(rank, torch.frombuffer(view, dtype=torch.uint8))
            except RuntimeError as error:
                raise RuntimeError(self._gone({rank: _reason(error)})) from None
            if told:
                raise RuntimeError(told)
        self._finish()

    def _send(self, rank: int, status: int, payload: torch.Tensor) -> None:
        try:
            for message in (torch.tensor([status, payload.numel()]), payload):
                if message.numel() > 0:
                    work = self._gloo.send([message], rank, self._tag)
                    self._unfinished.append((rank, work, message))
        except RuntimeError:
            pass  # It is dead, which receiving from it will say.

    def _finish(self) -> None:
        for rank, work, _ in self._unfinished:
            try:
                work.wait()
            except RuntimeError as error:
                raise RuntimeError(self._gone({rank: _reason(error)})) from None
        self._unfinished.clear()

    def _receive_header(self, rank: int) -> tuple[int, int]:
        header = torch.empty(2, dtype=torch.int64)
        self._receive_into(rank, header)
        status, size = header.tolist()
        return status, size

    def _receive(self, rank: int, size: int) -> bytes:
        payload = torch.empty(size, dtype=torch.uint8)
        self._receive_into(rank, payload)
        return payload.numpy().tobytes()

    def _receive_into(self, rank: int, payload: torch.Tensor) -> None:
        if payload.numel() > 0:
            self._gloo.recv([payload], rank, self._tag).wait()

    def _gone(self, gone: dict[int, str]) -> str:
        """Some of several may have left because of the first one, where the store does not say which that was."""
        which = f"rank {min(gone)}" if len(gone) == 1 else f"ranks {', '.join(map(str, gone))}"
        return f"{which} of {self.size} {'is' if len(gone) == 1 else 'are'} gone: {gone[min(gone)]}"

    def first_failure(self, mine: str) -> str:
        """Returns the failure that was noticed first. A rank that has raised it may be gone, and is not to blame."""
        try:
            return self._store.compare_set(self._key + "/why", "", mine).decode()
        except RuntimeError:  # The store's host is gone.
            return mine

    def _fail(self, why: str) -> None:
        self._failure = self.first_failure(why)
        self.ask_to_stop()
        for rank in self._others:
            self._send(rank, _FAILED, _tensor(self._failure.encode()))
        self._left += self._unfinished

    def ask_to_stop(self) -> None:
        """All others come to their next message soon."""
        with contextlib.suppress(RuntimeError):  # Without the store, they notice later.
            self._store.set(self._key, "stop")

    def is_asked_to_stop(self) -> bool:
        """By any rank. Callable from any thread."""
        try:
            return self._store.check([self._key])
        except RuntimeError:  # Its host is gone.
            return True

    def send_to_ring(self, work_on: list[Any]) -> None:
        """Tells the rank before this one that the work is done; `work_on` keeps what is being sent."""
        message = torch.zeros(1, dtype=torch.uint8)
        with contextlib.suppress(RuntimeError):
            before = (self.rank - 1) % self.size
            work_on.append((self._gloo.send([message], before, self._tag + 1), message))

    def wait_for_ring(self) -> None:
        """Until the next rank's work is done. Raises if it dies before, and notes it. Callable from any thread."""
        message = torch.empty(1, dtype=torch.uint8)
        after = (self.rank + 1) % self.size
        try:
            self._gloo.recv([message], after, self._tag + 1).wait()
        except RuntimeError as error:
            self.first_failure(self._gone({after: _reason(error)}))
            raise


class Group:
    """The ranks of a process group, for the extension module; `with group:` around work between messages.

    The module's object knows the messages and not this, so that nothing holds itself.
    """

    def __init__(self, group: Any, purpose: str = "") -> None:
        self._messages = Messages(group, purpose)
        self.rank, self.size, self.all_gather = self._messages.rank, self._messages.size, self._messages.all_gather
        self.ask_to_stop = self._messages.ask_to_stop
        self.ranks = _ucp.Ranks(
            self.rank, self.size, self.all_gather, self._messages.deliver, self._messages.ask_to_stop
        )
        self._done = threading.Event()
        self._threads: list[threading.Thread] = []
        self._sent: list[Any] = []

    def __enter__(self) -> Group:
        self._done.clear()
        if self.size > 1:
            watches = (self._watch_next, self._watch_store)
            self._threads = [threading.Thread(target=watch, daemon=True) for watch in watches]
            for thread in self._threads:
                thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        if kind is not None and not issubclass(kind, _ucp.Error):  # All ranks know of an Error.
            self._messages.interrupt()
        if self.size > 1:
            self._messages.send_to_ring(self._sent)
        # Without an error all ranks come here. With one, some may be gone.
        for thread in self._threads:
            thread.join(timeout=None if error is None else 1)

    def _watch_next(self) -> None:
        try:
            self._messages.wait_for_ring()
        except RuntimeError:
            self.ranks.stop()
            self._messages.ask_to_stop()

    def _watch_store(self) -> None:
        while not self._done.wait(_SECONDS_BETWEEN_LOOKS):
            if self._messages.is_asked_to_stop():
                self.ranks.stop()
                return
