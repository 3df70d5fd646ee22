"""Errors of a load into an engine."""

from __future__ import annotations

from .. import Error


class LoadError(Error):
    """The engine was not loaded; every rank raises it, with the sentence of the first that failed.

    `overwritten` names the tensors of this rank that may hold other values than before the call. If there are some on
    any rank, `is_engine_changed`, and the engine refuses to train until a load succeeds; else it is what it was.
    """

    def __init__(
        self, message: str, overwritten: list[str] | None = None, code: str = "usage", is_engine_changed: bool = False
    ) -> None:
        super().__init__(message)
        self.is_engine_changed = is_engine_changed
        self.code = code
        self.overwritten = overwritten or []
