"""A running engine of another topology loads our fixtures itself: `ucp.deepspeed.load_checkpoint`.

Every engine starts from other random weights. Its state is then gathered from its own partitions and compared with
what the engine held that saved the fixture; then it trains on, and its losses follow those of the uninterrupted run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from conftest import LLAMA_SIZES, OWN_SPEC_OF, SPEC_OF, SPECS
from faults import known_fault
from fixtures.cases import CASES, DEFAULT_SEED, Case, Mesh
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.serve import Engines
from matrix import EVERY_CELL, further_targets
from test_acceptance import noise
from test_native import OTHER_DTYPE, OTHER_SEED
from universal import FIXTURES, truth_of


@dataclass(frozen=True)
class Hooked:
    """A fixture, what the engine that loads it has changed, and the form in which it gets it."""

    name: str
    changes: dict[str, Any] = field(default_factory=dict)
    via: str = ""  # A strategy to convert to, before.

    @property
    def case(self) -> Case:
        return replace(CASES[self.name], **self.changes)

    def __str__(self) -> str:
        words = [f"{axis}{size}" for axis, size in vars(self.case.mesh).items() if size > 1 or axis == "dp"]
        words += [f"{key}={value}" for key, value in self.changes.items() if key != "mesh"]
        return "-".join([self.name, *words, *([self.via] if self.via else [])])


# Other numbers of ranks on each axis, another ZeRO stage, another format.
CHANGED = [
    Hooked("bf16_optimizer_dp4_tiny", {"mesh": Mesh(dp=2), "fp32_accumulation": False}),
    Hooked("gpt_pp2_tp2_dp2", {"mesh": Mesh(pp=1, tp=1, dp=2)}),
    Hooked("gpt_pp2_tp2_dp2", {"mesh": Mesh(pp=2, tp=2, dp=1), "fp32_accumulation": False}),
    Hooked("zero3_frozen_dp4", {"mesh": Mesh(dp=2), "stage": 2}),
    Hooked("frozen_buffers_zero2", {"mesh": Mesh(dp=4), "stage": 3}),
    Hooked("moe_ep2_dp4", {"mesh": Mesh(dp=2, ep=2), "stage": 1}),
    Hooked("zero1_dp4", {"mesh": Mesh(dp=2)}, via="universal"),
    # Experts that AutoEP spreads, at every stage: over more ranks, over fewer, over one, with other neighbours.
    Hooked("autoep_ep2_dp4", {"mesh": Mesh(dp=4, ep=4), "stage": 1, "data_before_experts": True}),
    Hooked("autoep_ep2_dp4", {"mesh": Mesh(dp=2, ep=1), "stage": 0}),
    Hooked("autoep_ep2_dp4", {"mesh": Mesh(dp=2, ep=2), "stage": 3, "zero": {"sub_group_size": 200}}, via="universal"),
    Hooked("autoep_ep2_dp4_zero3", {"mesh": Mesh(dp=4, ep=4), "stage": 2, "zero": {}}),
    Hooked("autoep_ep2_dp4_zero3", {"mesh": Mesh(dp=4, ep=4)}, via="safetensors:states=all,names=memory"),
    Hooked("autoep_ep2_dp4_data_first", {"mesh": Mesh(dp=2, ep=1)}),
    Hooked("autoep_tp4_ep2", {"mesh": Mesh(dp=4, ep=2)}),
    # The same in a pipeline: over other ranks on each axis, from no ZeRO and without it, on one stage.
    Hooked("autoep_pp2_ep2_dp4", {"mesh": Mesh(pp=2, dp=2, ep=2)}),
    Hooked("autoep_pp2_ep2_dp4", {"mesh": Mesh(pp=1, dp=4, ep=4), "fp32_accumulation": True}, via="universal"),
    Hooked("autoep_pp2_ep2_dp2_zero0", {"mesh": Mesh(pp=2, dp=4, ep=2), "stage": 1, "data_before_experts": True}),
    Hooked("autoep_pp2_ep2_dp2_zero0", {"mesh": Mesh(pp=2, dp=2, ep=1)}, via="universal"),
    # The same beside AutoTP: over other ranks on each axis.
    Hooked("autoep_tp2_ep4_dp4", {"mesh": Mesh(tp=2, dp=2, ep=4), "stage": 1}),
    Hooked("autoep_tp2_ep4_dp4", {"mesh": Mesh(tp=2, dp=2, ep=2), "stage": 3}, via="universal"),
    Hooked("autoep_tp4_ep2", {"mesh": Mesh(tp=2, dp=2, ep=4)}),
    Hooked("autoep_ep2_dp4", {"model": "autoep_autotp", "mesh": Mesh(tp=2, dp=2, ep=4)}),
]


def all_others() -> list[Hooked]:
    """The rest of the acceptance matrix."""
    if not EVERY_CELL:
        return []
    listed = [(plan.name, plan.case) for plan in CHANGED]
    return [Hooked(name, changes) for name, changes in further_targets("native", listed)]


def how(plan: Hooked) -> dict[str, Any]:
    """The cuts that a user states. Beside AutoEP the source states them, if it is cut over as many ranks."""
    source, target = CASES[plan.name], plan.case
    if target.model == "autoep_autotp":
        is_said = target.mesh.tp in (1, source.mesh.tp) and not plan.via
        return {} if is_said else {"spec": str(FIXTURES / "autoep_autotp.ucp")}
    if source.model == "autotp":
        return {"spec": str(SPECS / "llama.ucp"), "sets": dict(size.split("=") for size in LLAMA_SIZES)}
    spec = (SPEC_OF | OWN_SPEC_OF).get(source.model)
    return {"spec": str(spec)} if spec else {}


@pytest.mark.parametrize("plan", [*CHANGED, *all_others()], ids=str)
def test_engine_resumes(plan: Hooked, engines: Engines, convert: Callable[..., Path]) -> None:
    truth = truth_of(plan.name)
    source = convert(plan.name, plan.via) if plan.via else FIXTURES / plan.name / "checkpoint"
    job = Job(
        plan.case,
        seed=DEFAULT_SEED if plan.case.exclude_frozen else OTHER_SEED,
        load=source,
        hook=how(plan),
        first_step=truth["step"],
        further_steps=plan.case.further_steps,
    )
    answer = engines.ask(job)
    fault = known_fault("native", CASES[plan.name], plan.case)
    if fault is not None:
        assert fault.check is not None
        fault.check(plan.case, truth, answer)
        return
    assert differences(truth, answer["loaded"], ["parameter", "frozen", "buffer"]) == []
    assert answer["loaded"]["step"] == truth["step"]
    assert answer["loaded"]["step_counter"] == truth["step_counter"]
    uninterrupted = truth["losses"][truth["step"] :]
    furthest = max(abs(mine - other) for mine, other in zip(answer["losses"], uninterrupted, strict=True))
    assert furthest <= (noise(CASES[plan.name]) if plan.case.dtype == CASES[plan.name].dtype else OTHER_DTYPE), furthest
    assert answer["steps_taken"] == truth["step"] + len(uninterrupted)
