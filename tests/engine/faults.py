"""Faults of DeepSpeed 0.19.8 itself, whoever wrote the folder that it loads.

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
    widens: str | None = None  # The state that the engine holds as float32 whatever it has loaded.


def is_universal(form: str, *stages: int) -> Callable[[Case], bool]:
    return lambda target: form == "universal" and target.stage in stages


def losses_off(truth: dict[str, Any], answer: dict[str, Any]) -> list[float]:
    """How far each loss of the resumed run is from the uninterrupted one's."""
    return [abs(mine - other) for mine, other in zip(answer["losses"], truth["losses"][truth["step"] :], strict=True)]


def first_group_for_all(target: Case, truth: dict[str, Any], answer: dict[str, Any]) -> None:
    """Tensors are right, and so is the first loss; what steps follow are of the first group's settings, and counted
    once for each sub-group if the counter is a tensor."""
    assert differences(truth, answer["loaded"], ["parameter", "frozen", "buffer"]) == []
    assert answer["loaded"]["step"] == truth["step"]
    assert len(answer["weight_decay"]) > 1
    assert set(answer["weight_decay"]) == {answer["weight_decay"][0]}
    steps = len(answer["losses"]) * (1 if target.optimizer in ("fused", "cpu_lion") else len(answer["steps"]))
    assert set(answer["steps"]) == {truth["step_counter"]["value"] + steps}


def values_of_other_parameters(target: Case, truth: dict[str, Any], answer: dict[str, Any]) -> None:
    """Fragments go to the addresses of an order that the partitions do not have."""
    assert differences(truth, answer["loaded"], ["parameter"])


def values_in_other_types(target: Case, truth: dict[str, Any], answer: dict[str, Any]) -> None:
    """All but the type of Muon's momentum is right: that is loaded as float32, which loses nothing."""
    wrong = differences(truth, answer["loaded"], ["parameter"])
    assert wrong
    assert all(difference.endswith("momentum_buffer differs") for difference in wrong)
    held = {name: entry["states"]["momentum_buffer"]["dtype"] for name, entry in answer["loaded"]["tensors"].items()
            if "momentum_buffer" in entry["states"]}  # fmt: skip
    assert set(held.values()) == {"float32"}
    assert max(losses_off(truth, answer)) < 5e-3


def clipped_before_muon(target: Case, truth: dict[str, Any], answer: dict[str, Any]) -> None:
    """Everything is right but the type of the momentum, and so is the first loss; the steps that follow are others."""
    wrong = differences(truth, answer["loaded"], ["parameter", "frozen", "buffer"])
    assert all(difference.endswith("momentum_buffer differs") for difference in wrong)
    off = losses_off(truth, answer)
    assert off[0] < 5e-3 < 0.05 < max(off) < 1, off


def moments_without_the_scale(target: Case, truth: dict[str, Any], answer: dict[str, Any]) -> None:
    """Everything is right, and so is the first loss; the moments are of gradients of another size than those to come,
    so that the next steps are too large or too small."""
    assert differences(truth, answer["loaded"], ["parameter", "frozen", "buffer"]) == []
    off = losses_off(truth, answer)
    assert off[0] < 1e-3 < 0.01 < max(off) < 1, off


def moments_in_the_type_of_masters(target: Case, truth: dict[str, Any], answer: dict[str, Any]) -> None:
    """The masters are right, and so is the first loss; the moments are rounded, so that the next steps are others."""
    wrong = differences(truth, answer["loaded"], ["parameter", "frozen", "buffer"])
    assert wrong
    assert all(difference.split()[-2] in ("exp_avg", "exp_avg_sq") for difference in wrong)
    held = {states["exp_avg"]["dtype"] for entry in answer["loaded"]["tensors"].values() if (states := entry["states"])}
    assert held == {"float16"}
    off = losses_off(truth, answer)
    assert off[0] < 1e-3, off


ADAM = ("adamw", "fused", "cpu_adam", "cpu_lion")  # States of the names that Adam has.


def clipped_by_another_norm(target: Case, truth: dict[str, Any], answer: dict[str, Any]) -> None:
    """Everything is right, and so is the first loss; the steps that follow are clipped otherwise."""
    assert differences(truth, answer["loaded"], ["parameter", "frozen", "buffer"]) == []
    off = losses_off(truth, answer)
    assert off[0] < (5e-3 if target.dtype == "bf16" else 1e-3), off
    assert max(off) < 0.05, off


def corrected_once(target: Case, truth: dict[str, Any], answer: dict[str, Any]) -> None:
    """Everything is right, and so is the first loss; the steps that follow have gradients that are too large."""
    assert differences(truth, answer["loaded"], ["parameter", "frozen", "buffer"]) == []
    off = losses_off(truth, answer)
    assert off[0] < 1e-3 < 0.01 < max(off) < 0.1, off


FAULTS = [
    Fault(
        "moments are loaded in the type of the masters",
        lambda form, source, target: source.name.startswith("fp16_masters") and target.stage > 0,
        check=moments_in_the_type_of_masters,
    ),
    Fault(
        "a rank that holds only padding of a group cannot load",
        lambda form, source, target: (
            is_universal(form, 1, 2)(target) and target.groups == "tiny" and target.mesh.dp * target.mesh.sp > 2
        ),
        error="IndexError: list index out of range",
    ),
    Fault(
        "sequence-parallel groups lack a function that the loader calls",
        lambda form, source, target: is_universal(form, 1, 2)(target) and target.mesh.sp > 1,
        error="no attribute 'get_tensor_model_parallel_world_size'",
    ),
    Fault(
        "stage 3 loads only Adam's states",
        lambda form, source, target: is_universal(form, 3)(target) and target.optimizer not in ADAM,
        error="KeyError: 'step'|exp_avg",
    ),
    Fault(
        "stage 3 gives every group the settings of the first, and counts a tensor step once for each sub-group",
        lambda form, source, target: is_universal(form, 3)(target) and target.groups != "one",
        check=first_group_for_all,
    ),
    Fault(
        "Muon takes parts of its momentum for whole matrices",
        lambda form, source, target: (
            is_universal(form, 1, 2)(target) and target.optimizer == "muon" and target.mesh.dp > 1
        ),
        error="exceeds dimension size",
    ),
    Fault(
        "stages 1 and 2 clip Muon's updates, all others the gradients before Muon",
        lambda form, source, target: (
            form == "native" and target.optimizer == "muon" and (target.stage == 0 or target.fp32_accumulation)
        ),
        check=clipped_before_muon,
        widens=".momentum_buffer",
    ),
    Fault(
        "Muon's momentum is loaded in float32 and rounded at the next step",
        lambda form, source, target: (
            (form == "native" or target.stage in (1, 2)) and target.optimizer == "muon" and target.dtype != "fp32"
        ),
        check=values_in_other_types,
        widens=".momentum_buffer",
    ),
    Fault(
        "round robin mixes up the parameters of a universal folder",
        lambda form, source, target: is_universal(form, 2)(target) and bool(target.zero.get("round_robin_gradients")),
        check=values_of_other_parameters,
    ),
    Fault(
        "without ZeRO float16 gradients are divided by a loss scale that the loss was not multiplied by",
        lambda form, source, target: (
            source.dtype == target.dtype == "fp16" and (source.stage == 0) != (target.stage == 0)
        ),
        check=moments_without_the_scale,
    ),
    Fault(
        "without ZeRO, gradients are clipped by a norm that leaves other tensor-parallel ranks out",
        lambda form, source, target: target.stage == 0 < source.stage and target.mesh.tp > 1,
        check=clipped_by_another_norm,
    ),
    Fault(
        "BF16_Optimizer looks for a group of expert ranks that AutoEP over one rank does not make",
        lambda form, source, target: (
            is_universal(form, 1)(target)
            and target.model == "autoep"
            and target.mesh.ep == 1
            and target.fp32_accumulation
        ),
        error="expert parallel group is not initialized",
    ),
    Fault(
        "beside AutoTP, BF16_Optimizer corrects the gradients of AutoEP for the first micro-batch alone",
        lambda form, source, target: (
            target.model == "autoep_autotp"
            and target.mesh.tp > 1
            and target.fp32_accumulation
            and not target.config.get("bf16", {}).get("immediate_grad_update", False)
        ),
        check=corrected_once,
    ),
]


def known_fault(form: str, source: Case, target: Case) -> Fault | None:
    """The fault that this run shows, if any."""
    return next((fault for fault in FAULTS if fault.applies(form, source, target)), None)
