"""What goes wrong while an engine loads."""

from __future__ import annotations


class LoadError(RuntimeError):
    """The engine was not loaded; every rank raises it, with the sentence of the first that failed.

    `overwritten` names the tensors of this rank that hold other values than before the call. While it is empty, the
    engine is what it was; otherwise the engine refuses to train until a load succeeds.
    """

    def __init__(self, message: str, overwritten: list[str] | None = None) -> None:
        super().__init__(message)
        self.overwritten = overwritten or []
