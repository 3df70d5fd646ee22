"""All ranks of a job agree on how a phase ended, before any of them begins the next."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from .. import Error
from .._ranks import Group
from .errors import LoadError

INTERRUPTED = "interrupted"  # The code of a rank that stopped waiting because another one had failed.
NAMED = 5  # So many tensors are listed in a message.


@dataclass(frozen=True)
class Told:
    """The report of a rank at the end of a phase."""

    failed: str | None
    code: str
    asked: str
    has_written: bool


class Outcome:
    """The tensors that a phase has overwritten on this rank, and the request that must be the same on all ranks."""

    def __init__(self) -> None:
        self.overwritten: list[str] = []
        self.asked: str = ""


@contextmanager
def phase(group: Group) -> Iterator[Outcome]:
    """Runs on every rank. If the body fails on one of them, all raise its sentence, with the rank's number."""
    outcome = Outcome()
    failure: Exception | None = None
    try:
        yield outcome
    except Exception as error:  # Whatever it is, the other ranks wait for this one.
        failure = error
        group.ask_to_stop()
    said = None if failure is None else sentence(failure)
    told = told_by_all(group, Told(said, code_of(failure), outcome.asked, bool(outcome.overwritten)))
    message = first_failure(told) or first_difference(told)
    if message is None:
        return
    code = next((each.code for each in told if each.failed is not None and each.code != INTERRUPTED), "usage")
    if outcome.overwritten:
        message += f"; overwritten on this rank: {shortened(outcome.overwritten)}. Load again before training"
    if any(each.code == INTERRUPTED for each in told):
        message += ", in a new job" if outcome.overwritten else "; the job has to be restarted"
        message += ": others waited for that rank in a collective, which cannot be taken back"
    raise LoadError(message, outcome.overwritten, code, any(each.has_written for each in told)) from failure


def told_by_all(group: Group, mine: Told) -> list[Told]:
    """Returns the report of each rank. If a rank is gone, the others report that instead."""
    try:
        return [Told(**json.loads(said)) for said in group.all_gather(json.dumps(asdict(mine)).encode())]
    except Error as error:
        also = f"; this rank also failed: {mine.failed}" if mine.failed else ""
        return [Told(f"{error}{also}", "io", mine.asked, mine.has_written)]


def first_failure(told: list[Told]) -> str | None:
    """The sentence of the first rank that failed by itself, with its number unless all did."""
    stopped = [rank for rank, each in enumerate(told) if each.failed is not None]
    failed = [rank for rank in stopped if told[rank].code != INTERRUPTED] or stopped
    if not failed:
        return None
    said = str(told[failed[0]].failed)
    return said if len(failed) == len(told) else f"rank {failed[0]}: {said}"


def first_difference(told: list[Told]) -> str | None:
    """Every rank calls with the same arguments, for the same strategy."""
    first = told[0].asked
    for rank, each in enumerate(told):
        if each.asked != first:
            return f"ranks call with different arguments: rank 0 with {first}, rank {rank} with {each.asked}"
    return None


def code_of(failure: Exception | None) -> str:
    """Of which kind an error is, as `ucp.Error` has it."""
    return getattr(failure, "code", "internal")


def sentence(failure: Exception) -> str:
    """The failure's own words; for those of Python and of DeepSpeed, with their kind."""
    return str(failure) if isinstance(failure, Error) else f"{type(failure).__name__}: {failure}"


def shortened(names: list[str]) -> str:
    """The first of them, and how many there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(f"`{name}`" for name in names[:NAMED]) + more
