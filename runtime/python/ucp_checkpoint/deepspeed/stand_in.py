"""Takes the place of an engine's checkpoint engine while the engine saves, so that no file is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from deepspeed.runtime.checkpoint_engine.checkpoint_engine import CheckpointEngine


class StandIn(CheckpointEngine):  # type: ignore[misc]  # DeepSpeed has no types.
    """Subclasses keep what they are given by save(), and an exception in `problem`, if it is the first."""

    def __init__(self) -> None:
        super().__init__()
        self.problem: Exception | None = None  # The engine goes on, since others wait in its collectives.

    def create(self, info: Any) -> None:
        """Nothing: the folder is there, or not needed."""

    def load(self, path: str, map_location: Any = None) -> Any:
        """Not while the engine saves."""
        raise NotImplementedError

    def commit(self, info: Any) -> bool:
        """Nothing: what counts is what is made of these files."""
        return True


Kind = TypeVar("Kind", bound=StandIn)


@contextmanager
def standing_in(engine: Any, files: Kind) -> Iterator[Kind]:
    """While this lasts, the engine saves to `files`."""
    own = engine.checkpoint_engine
    engine.checkpoint_engine = files
    engine._copy_recovery_script = lambda _: None
    try:
        yield files
    finally:
        engine.checkpoint_engine = own
        del engine._copy_recovery_script
