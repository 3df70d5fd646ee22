"""What DeepSpeed 0.19.8 itself does wrong, whoever wrote the folder that it loads.

A run that shows a fault must still show it: it fails with these words, or goes on in this wrong way. When a fault is
mended, its runs fail here, and belong among those that are right. docs/deepspeed-traps.md tells the stories.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fixtures.cases import Case
from fixtures.fingerprints import differences


@dataclass(frozen=True)
class Fault:
    """A fault, the runs that show it, and how: DeepSpeed's words, or a check of the truth and the run's answer."""

    name: str
    applies: Callable[[str, Case, Case], bool]  # Form, source, target.
    error: str | None = None
    check: Callable[[Case, dict[str, Any], dict[str, Any]], None] | None = None


def is_universal(form: str, *stages: int) -> Callable[[Case], bool]:
    return lambda target: form == "universal" and target.stage in stages


def first_group_for_all(target: Case, truth: dict[str, Any], answer: dict[str, Any]) -> None:
    """Tensors are right, and so is the first loss; what steps follow are of the first group's settings, and counted
    once for each sub-group if the counter is a tensor."""
    assert differences(truth, answer["loaded"], ["parameter", "frozen", "buffer"]) == []
    assert answer["loaded"]["step"] == truth["step"]
    assert len(answer["weight_decay"]) > 1
    assert set(answer["weight_decay"]) == {answer["weight_decay"][0]}
    steps = len(answer["losses"]) * (1 if target.optimizer == "fused" else len(answer["steps"]))
    assert set(answer["steps"]) == {truth["step_counter"]["value"] + steps}


def experts_of_the_first_rank(target: Case, truth: dict[str, Any], answer: dict[str, Any]) -> None:
    """Every rank has the experts of the first, under names of its own."""
    wrong = differences(truth, answer["loaded"], ["parameter"])
    ours = truth["tensors"]
    loaded = answer["loaded"]["tensors"]
    for layer in (1, 3):
        for expert in range(4):
            name = f"blocks.{layer}.moe.deepspeed_moe.experts.deepspeed_experts.{{}}.up.weight"
            first = expert % (4 // target.mesh.ep)
            assert loaded[name.format(expert)]["states"] == ours[name.format(first)]["states"]
    assert wrong
    assert all("deepspeed_experts" in difference for difference in wrong)


def values_of_other_parameters(target: Case, truth: dict[str, Any], answer: dict[str, Any]) -> None:
    """Fragments go to the addresses of an order that the partitions do not have."""
    assert differences(truth, answer["loaded"], ["parameter"])


FAULTS = [
    Fault(
        "a rank that holds only padding of a group cannot load",
        lambda form, source, target: (
            is_universal(form, 1, 2)(target)
            and target.groups == "tiny"
            and not target.fp32_accumulation
            and target.mesh.dp * target.mesh.sp > 2
        ),
        error="IndexError: list index out of range",
    ),
    Fault(
        "sequence-parallel groups lack what the loader asks of them",
        lambda form, source, target: is_universal(form, 1, 2)(target) and target.mesh.sp > 1,
        error="no attribute 'get_tensor_model_parallel_world_size'",
    ),
    Fault(
        "stage 3 loads the states of Adam alone",
        lambda form, source, target: is_universal(form, 3)(target) and target.optimizer == "sgd",
        error="KeyError: 'step'",
    ),
    Fault(
        "stage 3 gives every group the settings of the first, and counts a tensor step once for each sub-group",
        lambda form, source, target: is_universal(form, 3)(target) and target.groups != "one",
        check=first_group_for_all,
    ),
    Fault(
        "every rank gets the experts of the first",
        lambda form, source, target: is_universal(form, 1, 2)(target) and target.mesh.ep > 1,
        check=experts_of_the_first_rank,
    ),
    Fault(
        "round robin mixes up the parameters of a universal folder",
        lambda form, source, target: is_universal(form, 2)(target) and bool(target.zero.get("round_robin_gradients")),
        check=values_of_other_parameters,
    ),
]


def known_fault(form: str, source: Case, target: Case) -> Fault | None:
    """The fault that this run shows, if any."""
    return next((fault for fault in FAULTS if fault.applies(form, source, target)), None)
