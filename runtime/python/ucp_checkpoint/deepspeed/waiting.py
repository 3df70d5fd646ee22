"""DeepSpeed's loader waits for the other ranks in collectives of its own. One that has failed never comes there, and
gloo gives up after half an hour; so while that loader runs, its collectives are waited for with an eye on the ranks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from deepspeed.comm import comm

from .._ranks import Group
from .errors import LoadError
from .ranks import INTERRUPTED

SECONDS_BETWEEN_LOOKS = 0.002
PATIENCE = 2.0  # Seconds: the rank may have failed after it came to the collective.


class Impatient:
    """DeepSpeed's communication backend; what it would wait for without end ends when a rank has failed."""

    def __init__(self, backend: Any, group: Group) -> None:
        self._backend, self._group = backend, group

    def __getattr__(self, name: str) -> Any:
        own = getattr(self._backend, name)
        return self._watched(own) if callable(own) else own

    def _watched(self, own: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if options.get("async_op", True):  # The caller waits, or there is nothing to wait for.
                return own(*arguments, **options)
            work = own(*arguments, **options | {"async_op": True})
            if not hasattr(work, "is_completed"):
                return work  # This rank is not of the group.
            since: float | None = None
            while not work.is_completed():
                time.sleep(SECONDS_BETWEEN_LOOKS)
                if self._group.ranks.is_asked_to_stop:
                    since = since or time.monotonic()
                    if time.monotonic() - since > PATIENCE:
                        raise LoadError("interrupted", code=INTERRUPTED)
            work.wait()
            return None

        return call


@contextmanager
def impatient(group: Group) -> Iterator[None]:
    """While this lasts, a rank that waits for one that has failed raises."""
    own = comm.cdb
    comm.cdb = Impatient(own, group)
    try:
        yield
    finally:
        comm.cdb = own
