"""The rendezvous backend `ucp` finds the coordinator that listens, of the endpoints that it is given."""

from __future__ import annotations

from typing import Any

import pytest

from ucp_checkpoint import _rendezvous
from ucp_checkpoint._coordinator import Refused

ENDPOINTS = [("head1", 1), ("head2", 2), ("head3", 3)]


class Heads:
    """Stands for `Link`. A head without an answer listens; others have the error of a connection."""

    def __init__(self, answers: dict[str, Exception]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(self, host: str, port: int, secret: bytes, tls_ca: str | None) -> Any:
        self.asked.append(host)
        if host in self.answers:
            raise self.answers[host]
        return host


@pytest.fixture
def rendezvous(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Without a job. Its method `ask` connects, with the heads that are left after some errors."""
    made: Any = object.__new__(_rendezvous.CoordinatedRendezvous)
    made._endpoints, made._turn, made._secret_file = ENDPOINTS, 0, None
    made._tls_ca = None

    def ask(**answers: Exception) -> tuple[Any, list[str]]:
        heads = Heads(answers)
        monkeypatch.setattr(_rendezvous, "Link", heads)
        try:
            return made._connect(), heads.asked
        except (OSError, Refused) as error:
            return error, heads.asked

    made.ask = ask
    return made


def test_the_one_that_answered_last_comes_last(rendezvous: Any) -> None:
    """Its machine may be gone, and connecting to it takes seconds."""
    gone = ConnectionRefusedError()
    assert rendezvous.ask() == ("head1", ["head1"])
    assert rendezvous.ask(head1=gone, head2=gone) == ("head3", ["head2", "head3"])
    assert rendezvous.ask(head1=gone, head2=gone) == ("head3", ["head1", "head2", "head3"])


def test_a_head_that_refuses_does_not_hide_others(rendezvous: Any) -> None:
    """Such as another program that has its port. If none answers, the refusal says more than a closed port."""
    refused, gone = Refused("it does not know the secret"), ConnectionRefusedError()
    assert rendezvous.ask(head1=refused, head2=gone) == ("head3", ["head1", "head2", "head3"])
    assert rendezvous.ask(head1=gone, head2=refused, head3=gone) == (refused, ["head1", "head2", "head3"])
    assert rendezvous.ask(head1=gone, head2=gone, head3=gone) == (gone, ["head1", "head2", "head3"])
