"""All ranks of a job agree on how a phase ended, before any of them begins the next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from deepspeed import comm as dist

from .errors import LoadError

NAMED = 5  # So many tensors are listed in a message.


class Outcome:
    """What a phase leaves behind on this rank, should it fail, and what all ranks must have been asked for."""

    def __init__(self) -> None:
        self.overwritten: list[str] = []
        self.asked: str = ""


@contextmanager
def phase() -> Iterator[Outcome]:
    """Runs on every rank. If the body fails on one of them, all raise its sentence, with the rank's number."""
    outcome = Outcome()
    failure: Exception | None = None
    try:
        yield outcome
    except Exception as error:  # Whatever it is, the other ranks wait for this one.
        failure = error
    told = told_by_all((None if failure is None else sentence(failure), outcome.asked))
    message = first_failure([said for said, _ in told]) or first_difference([asked for _, asked in told])
    if message is None:
        return
    if outcome.overwritten:
        message += f"; overwritten on this rank: {shortened(outcome.overwritten)}. Load again before training"
    raise LoadError(message, outcome.overwritten) from failure


def told_by_all(said: tuple[str | None, str]) -> list[tuple[str | None, str]]:
    """What each rank says. A rank that is gone is an error on those that are left."""
    told: list[Any] = [None] * dist.get_world_size()
    try:
        dist.all_gather_object(told, said)
    except RuntimeError as error:
        mine = f"; this rank failed, too: {said[0]}" if said[0] else ""
        raise LoadError(f"another rank ended while the checkpoint was loaded ({error}){mine}") from error
    return told


def first_failure(told: list[str | None]) -> str | None:
    """The sentence of the first rank that failed, with its number unless all failed."""
    failed = [(rank, said) for rank, said in enumerate(told) if said is not None]
    if not failed:
        return None
    rank, said = failed[0]
    return said if len(failed) == len(told) else f"rank {rank}: {said}"


def first_difference(asked: list[str]) -> str | None:
    """Every rank calls with the same arguments, for the same strategy."""
    for rank, other in enumerate(asked):
        if other != asked[0]:
            return f"ranks call with different arguments: rank 0 with {asked[0]}, rank {rank} with {other}"
    return None


def sentence(failure: Exception) -> str:
    """The failure's own words; for those of Python and of DeepSpeed, with their kind."""
    return str(failure) if isinstance(failure, LoadError) else f"{type(failure).__name__}: {failure}"


def shortened(names: list[str]) -> str:
    """The first of them, and how many there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(f"`{name}`" for name in names[:NAMED]) + more
