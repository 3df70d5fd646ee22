"""A model of how copies are committed (ucp_checkpoint/_copies.py): all its states, for three machines and three steps.

Each machine works and says so, round by round, and goes on when it has heard all others. It may fail to hear them at
any moment, as by a slow network, and up to k - 1 machines may be lost with their memory. In every state, and whichever
of those machines are lost then, a version must be left that is as new as any machine knows to be committed (M2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import pytest

MACHINES, STEPS = 3, 3
OWN, RESERVED, SENT, NAMED, KNOWN = range(5)  # The work before each round.
KEEPERS = {2: [[0, 2], [1, 0], [2, 1]], 3: [[0, 1, 2], [1, 0, 2], [2, 1, 0]]}  # By the placement.
Held = frozenset[tuple[int, int]]  # Complete parts: (step, number).


class Machine(NamedTuple):
    """`said` and `heard` count the rounds of the version that is being copied."""

    is_alive: bool = True
    is_settled: bool = True
    said: int = 0
    heard: int = 0
    complete: int = 0  # The newest step that it knows to be complete on all machines.
    held: Held = frozenset()


class State(NamedTuple):
    step: int = 0
    committed: int = 0  # The newest that some machine knows of.
    machines: tuple[Machine, ...] = (Machine(),) * MACHINES
    gone: int = 0  # Machines that are lost.

    def having(self, number: int, machine: Machine, committed: int = 0) -> State:
        machines = (*self.machines[:number], machine, *self.machines[number + 1 :])
        return State(self.step, max(self.committed, committed), machines, sum(not one.is_alive for one in machines))


@dataclass(frozen=True)
class Rules:
    """Those of the product; a mutant breaks one."""

    copies: int
    removes_old: str = "at the end"  # "at the beginning", "when named"
    rounds: int = 5  # Before the commit.
    keeps_complete: bool = True  # A version that others may have committed, when this machine gives up.
    agrees: bool = True  # Before a version begins, on the newest one that is complete for all; others are removed.


def kept_by(rules: Rules, number: int) -> list[int]:
    return [owner for owner, keepers in enumerate(KEEPERS[rules.copies]) if number in keepers]


def only(held: Held, step: int) -> Held:
    return frozenset(part for part in held if part[0] == step)


def work(rules: Rules, state: State, number: int) -> Machine:
    """Of the next round, with its word."""
    machine = state.machines[number]
    held = machine.held
    if machine.heard == OWN:
        held = (frozenset() if rules.removes_old == "at the beginning" else held) | {(state.step, number)}
    if machine.heard == NAMED:
        held |= {(state.step, owner) for owner in kept_by(rules, number)}
        held = only(held, state.step) if rules.removes_old == "when named" else held
    return machine._replace(held=held, said=machine.said + 1)


def hear(rules: Rules, state: State, number: int) -> tuple[Machine, int]:
    """With the step that it commits."""
    machine = state.machines[number]
    machine = machine._replace(heard=machine.heard + 1)
    if machine.heard > NAMED:
        machine = machine._replace(complete=state.step)
    if machine.heard < rules.rounds:
        return machine, 0
    return machine._replace(is_settled=True, held=only(machine.held, state.step)), state.step


def give_up(rules: Rules, state: State, number: int) -> Machine:
    machine = state.machines[number]
    stays = rules.keeps_complete and machine.heard > NAMED
    left = machine.held if stays else machine.held - only(machine.held, state.step)
    return machine._replace(is_settled=True, held=left)


def agree(rules: Rules, machines: tuple[Machine, ...], number: int) -> Machine:
    """All have settled, and told which version is complete for them: the oldest of these is, for all; 0 is none."""
    if not rules.agrees:
        return machines[number]
    step = min(machine.complete for machine in machines)
    return machines[number]._replace(held=only(machines[number].held, step), complete=step)


def following(rules: Rules, state: State) -> Iterator[State]:
    machines = state.machines
    if state.gone == 0 and all(machine.is_settled for machine in machines):
        for number in range(MACHINES):  # One may hear the others, and another one not.
            yield state.having(number, agree(rules, machines, number))
        if state.step < STEPS:
            agreed = tuple(agree(rules, machines, number) for number in range(MACHINES))
            begun = tuple(machine._replace(is_settled=False, said=0, heard=0) for machine in agreed)
            yield State(state.step + 1, state.committed, begun)
    for number, machine in enumerate(machines):
        if machine.is_alive and state.gone < rules.copies - 1:
            yield state.having(number, machine._replace(is_alive=False, is_settled=True, held=frozenset()))
        if not machine.is_alive or machine.is_settled:
            continue
        yield state.having(number, give_up(rules, state, number))
        if machine.said == machine.heard:
            receives = machine.heard == SENT
            if not receives or all(machines[owner].is_alive for owner in kept_by(rules, number)):
                yield state.having(number, work(rules, state, number))
        elif all(other.said > machine.heard for other in machines):
            yield state.having(number, *hear(rules, state, number))


def is_covered(rules: Rules, state: State) -> bool:
    """M1, M2: whichever machines are lost, as many as copies allow, together with those that are."""
    gone = {number for number, machine in enumerate(state.machines) if not machine.is_alive}
    for lost in combinations(range(MACHINES), rules.copies - 1):
        if not gone <= set(lost):
            continue
        left = frozenset[tuple[int, int]]().union(
            *(machine.held for number, machine in enumerate(state.machines) if number not in lost)
        )
        wanted = range(max(1, state.committed), STEPS + 1)
        if state.committed > 0 and not any({(step, part) for part in range(MACHINES)} <= left for step in wanted):
            return False
    return True


class Explored(NamedTuple):
    states: int
    broken: State | None  # A state that breaks M2.
    most: int  # Versions in the memory of one machine.


def explore(rules: Rules, enough: int = STEPS + 1) -> Explored:
    """All states, or until one machine has so many versions."""
    seen = {State()}
    waiting = [State()]
    most = 0
    while waiting:
        state = waiting.pop()
        most = max(most, *(len({step for step, _ in machine.held}) for machine in state.machines))
        if not is_covered(rules, state):
            return Explored(len(seen), state, most)
        if most >= enough:
            break
        for other in following(rules, state):
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return Explored(len(seen), None, most)


@pytest.mark.parametrize("copies", [2, 3])
def test_a_version_is_always_left(copies: int) -> None:
    """M2, in every state; and M7: memory has two versions at most."""
    explored = explore(Rules(copies), enough=3)
    assert explored.broken is None
    assert explored.states > 1000
    assert explored.most == 2


@pytest.mark.parametrize("copies", [2, 3])
@pytest.mark.parametrize(
    "mutant",
    [
        {"removes_old": "at the beginning"},  # One slot.
        {"removes_old": "when named"},  # No wait for the others.
        {"rounds": 4},  # Committed when it is complete, and not when all know that.
        {"rounds": 3},
        {"keeps_complete": False},
    ],
    ids=lambda mutant: "-".join(map(str, *mutant.items())),
)
def test_mutants_are_caught(copies: int, mutant: dict[str, object]) -> None:
    """Each breaks M2 in some state."""
    assert explore(Rules(copies, **mutant)).broken is not None  # type: ignore[arg-type]


def test_without_agreement_memory_fills() -> None:
    """M7: a version that one machine could not see committed stays beside the next ones."""
    assert explore(Rules(3, agrees=False), enough=3).most == 3
