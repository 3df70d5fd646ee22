"""A failure on one rank becomes an error on every rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ucp_checkpoint._failure import failure
from ucp_checkpoint._ucp import Error

if TYPE_CHECKING:
    from ucp_checkpoint._ranks import Group


def agree(group: Group | None, problem: Exception | None) -> None:
    """Raises on every rank what went wrong on one of them, with its number; whatever it is, the others wait for it."""
    if group is not None:
        said = b""
        if problem is not None:
            words = str(problem) if isinstance(problem, Error) else f"{type(problem).__name__}: {problem}"
            said = f"{getattr(problem, 'code', 'unsupported')}\n{words}".encode(errors="replace")
        for rank, text in enumerate(group.all_gather(said)):
            if text:
                code, message = text.decode().split("\n", 1)
                raise failure(code, f"rank {rank} of {group.size}: {message}")
    elif problem is not None:
        raise problem
