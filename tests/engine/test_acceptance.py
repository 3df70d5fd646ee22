"""The real engine loads our folders at another topology, holds the same bits, and trains on as if nothing had happened.

Every engine starts from other random weights, so that a value which was not loaded is seen. Its state is then
gathered from its own partitions. After that it trains as many steps as the uninterrupted run has left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from faults import known_fault
from fixtures.cases import CASES, DEFAULT_SEED, Case, Mesh
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.serve import EngineError, Engines
from matrix import further_targets
from universal import FIXTURES, truth_of

OTHER_SEED = DEFAULT_SEED + 1

# How far a loss may be from the uninterrupted run's, at every step, when sums are taken in another order: that of other
# ranks, or of a processor other than that of the uninterrupted run.
NOISE = {"fp32": 5e-6, "fp16": 1e-3, "bf16": 5e-3}


def noise(source: Case) -> float:
    """How far off losses may be. Experts without ZeRO are clipped by another norm than with it (test_experts.py). In
    bfloat16 a router sends a token elsewhere where scores are close, and sums are in another order. Muon makes its
    updates orthogonal in bfloat16, whose products differ from one kind of processor to another."""
    if source.optimizer == "muon":
        return max(1e-4, NOISE[source.dtype])
    if source.mesh.ep > 1:
        return 1e-2 if source.dtype == "bf16" else 1e-3 if source.stage == 0 else NOISE[source.dtype]
    return NOISE[source.dtype]


@dataclass(frozen=True)
class Resume:
    """A fixture, and what changes."""

    name: str
    changes: dict[str, Any] = field(default_factory=dict)
    to: str = "universal"
    form = "universal"

    @property
    def case(self) -> Case:
        """The run that resumes."""
        return replace(CASES[self.name], **self.changes)

    def __str__(self) -> str:
        mesh = self.changes.get("mesh", CASES[self.name].mesh)
        words = [f"{axis}{size}" for axis, size in vars(mesh).items() if size > 1 or axis == "dp"]
        words += [f"{key}={value}" for key, value in self.changes.items() if key not in ("mesh", "zero")]
        words += ["plain"] if "zero" in self.changes else []
        return "-".join([self.name, *words])


SAME: list[Resume] = [
    Resume(name)
    for name in (
        "zero1_dp1",
        "zero1_dp2",
        "zero1_dp4",
        "zero2_dp2",
        "bf16_optimizer_dp2",
        "pipeline_pp2",
        "gpt_pp2_tp2_dp2",
        "llama_pp2_tp2_dp2",
        "autotp_tp2_dp2",
        "autotp_tp3_zero2",
        "frozen_buffers_zero2",
        "sgd_momentum_zero1",
        "autoep_ep2_dp4",
        "autoep_ep2_dp4_data_first",
        "autoep_ep2_dp4_zero3",
    )
]

CHANGED: list[Resume] = [
    # Another number of data-parallel ranks.
    Resume("zero1_dp2", {"mesh": Mesh(dp=4)}),
    Resume("zero1_dp4", {"mesh": Mesh(dp=2)}),
    Resume("zero1_dp4", {"mesh": Mesh(dp=1)}),
    Resume("zero2_dp1", {"mesh": Mesh(dp=2)}),
    Resume("zero2_dp2", {"mesh": Mesh(dp=1)}),
    Resume("bf16_optimizer_dp4_tiny", {"mesh": Mesh(dp=2)}),
    Resume("ulysses_sp2_dp2", {"mesh": Mesh(dp=2)}),
    Resume("sgd_momentum_zero1", {"mesh": Mesh(dp=4)}),
    # Experts, for ranks that each have all of them.
    Resume("moe_ep2_dp4", {"mesh": Mesh(dp=4)}),
    Resume("moe_ep2_dp4_data_first", {"mesh": Mesh(dp=2)}),
    Resume("moe_residual_zero2", {"mesh": Mesh(dp=2)}),
    Resume("moe_ep2_ep4_dp4", {"mesh": Mesh(dp=4), "model": "mixture"}),
    Resume("moe_pp2_ep2_dp4", {"mesh": Mesh(pp=1, dp=2)}),
    # A folder that is made for ranks which share the experts out.
    Resume("moe_ep2_dp4", {"mesh": Mesh(dp=4, ep=2)}, to="universal:ep=2"),
    Resume("moe_ep2_dp4_data_first", {"mesh": Mesh(dp=8, ep=4)}, to="universal:ep=4"),
    Resume("moe_ep2_dp4", {"mesh": Mesh(dp=2, ep=2), "stage": 1, "fp32_accumulation": True}, to="universal:ep=2"),
    Resume("moe_pp2_ep2_dp4", {"mesh": Mesh(pp=2, dp=2, ep=2)}, to="universal:ep=2"),
    # Also whole experts that tensor-parallel ranks share out.
    Resume("moe_tp2_ep4_dp4_whole", to="universal:ep=4,mp=2"),
    Resume("moe_tp2_ep4_dp4_whole", {"mesh": Mesh(tp=1, dp=2)}, to="universal:mp=1"),
    # Experts that AutoEP spreads: over any number of ranks, in either order of them.
    Resume("autoep_ep2_dp4", {"mesh": Mesh(dp=4, ep=4)}),
    Resume("autoep_ep2_dp4", {"mesh": Mesh(dp=2, ep=1)}),
    Resume("autoep_ep2_dp4", {"data_before_experts": True}),
    Resume("autoep_ep2_dp4_data_first", {"stage": 2, "mesh": Mesh(dp=2, ep=2), "fp32_accumulation": False}),
    Resume("autoep_ep2_dp4_zero3", {"mesh": Mesh(dp=4, ep=4)}),
    Resume("autoep_ep2_dp4_zero3", {"stage": 2, "zero": {}, "mesh": Mesh(dp=2, ep=2)}),
    # The same in a pipeline: on other stages, over other numbers of ranks, from no ZeRO.
    Resume("autoep_pp2_ep2_dp4", {"mesh": Mesh(pp=2, dp=2, ep=2)}),
    Resume("autoep_pp2_ep2_dp4", {"mesh": Mesh(pp=2, dp=4, ep=4), "data_before_experts": True}),
    Resume("autoep_pp2_ep2_dp4", {"mesh": Mesh(pp=1, dp=2, ep=2), "fp32_accumulation": True}, to="universal:mp=1"),
    Resume("autoep_pp2_ep2_dp2_zero0", {"stage": 1, "mesh": Mesh(pp=1, dp=2, ep=1)}, to="universal:mp=1"),
    # The same beside AutoTP, which a folder is made for; and without it.
    Resume("autoep_tp2_ep4_dp4", to="universal:mp=2,ep=4,dp=4"),
    Resume("autoep_tp2_ep4_dp4", {"mesh": Mesh(dp=4, ep=2)}, to="universal:mp=1"),
    Resume("autoep_tp2_ep4_dp4", {"mesh": Mesh(tp=4, dp=1, ep=2), "stage": 1}, to="universal:mp=4,ep=2,dp=1"),
    Resume("autoep_tp4_ep2_dp2_zero3", to="universal:mp=4,ep=2,dp=2"),
    Resume("autoep_tp4_ep2_dp2_zero3", {"stage": 2, "zero": {}, "mesh": Mesh(dp=2, ep=2)}, to="universal:mp=1"),
    # Another stage or another optimizer class, or an option of the source that the target does not have.
    Resume("zero1_dp4", {"mesh": Mesh(dp=2), "stage": 2}),
    Resume("bf16_optimizer_dp2", {"mesh": Mesh(dp=4), "fp32_accumulation": False}),
    Resume("round_robin", {"mesh": Mesh(dp=2), "zero": {}}),
    Resume("alignment", {"mesh": Mesh(dp=4), "zero": {}}),
    # Stage 3, from the same folder.
    Resume("fused_adam_zero2", {"stage": 3}),
    Resume("fused_adam_zero2", {"stage": 3, "mesh": Mesh(dp=4)}),
    Resume("round_robin", {"stage": 3, "mesh": Mesh(dp=2), "zero": {}}),
    # From stage 3.
    Resume("zero3_dp4", {"stage": 1, "mesh": Mesh(dp=2)}),
    Resume("zero3_dp4", {"stage": 2, "mesh": Mesh(dp=1), "zero": {}}),
    Resume("zero3_frozen_dp4", {"stage": 3}),
    Resume("zero3_frozen_dp4", {"stage": 3, "mesh": Mesh(dp=2)}),
    Resume("zero3_frozen_dp4", {"stage": 2, "mesh": Mesh(dp=8)}),
    Resume("zero3_tp2_dp2", {"stage": 1, "mesh": Mesh(tp=2, dp=1)}),
    Resume("zero3_tp2_dp2", {"stage": 2, "mesh": Mesh(tp=4, dp=2)}, to="universal:mp=4"),
    # From no ZeRO.
    Resume("zero0_fp32", {"stage": 1}),
    Resume("zero0_fp32", {"stage": 2, "mesh": Mesh(dp=1)}),
    Resume("zero0_unfused_bf16", {"stage": 1}),
    # Pipelines from no ZeRO.
    Resume("pipeline_zero0_bf16", {"stage": 1, "fp32_accumulation": True}),
    Resume("pipeline_zero0_bf16", {"stage": 1, "mesh": Mesh(pp=1, dp=2)}),
    Resume("pipeline_zero0_fp16", {"stage": 1}),
    Resume("pipeline_zero0_fused_fp16", {"stage": 1, "mesh": Mesh(pp=1, dp=2)}),
    Resume("pipeline_zero0_fp32", {"stage": 1, "mesh": Mesh(pp=2, dp=1)}),
    # Other optimizers, masters of other types.
    Resume("lion_zero1", {"optimizer": "lion", "mesh": Mesh(dp=4)}),
    Resume("adagrad_zero1", {"mesh": Mesh(dp=4)}),
    Resume("rmsprop_zero2", {"stage": 1, "mesh": Mesh(dp=1)}),
    Resume("muon_zero2", {"mesh": Mesh(dp=1)}),
    Resume("bf16_masters_zero2", {"mesh": Mesh(dp=4)}),
    Resume("bf16_masters_zero3", {"mesh": Mesh(dp=4)}),
    Resume("bf16_masters_zero3", {"stage": 2}),
    # Frozen parameters that the checkpoint does not have.
    Resume("frozen_excluded_zero2", {"stage": 1, "mesh": Mesh(dp=1)}),
    Resume("frozen_excluded_zero3", {"stage": 2, "mesh": Mesh(dp=4)}),
    # Another number of pipeline stages or tensor-parallel ranks.
    Resume("pipeline_pp2", {"mesh": Mesh(pp=1, dp=2)}),
    Resume("gpt_pp2_tp2_dp2", {"mesh": Mesh(pp=1, tp=2, dp=1)}),
    Resume("gpt_pp2_tp2_dp2", {"mesh": Mesh(pp=2, tp=1, dp=1)}),
    Resume("gpt_pp2_tp2_dp2", {"mesh": Mesh(pp=2, tp=4, dp=1)}, to="universal:mp=8"),
    Resume("gpt_pp2_tp2_dp2", {"mesh": Mesh(pp=1, tp=1, dp=4), "fp32_accumulation": False}, to="universal:mp=1"),
    Resume("llama_pp2_tp2_dp2", {"mesh": Mesh(pp=2, tp=1, dp=2)}),
    Resume("llama_pp2_tp2_dp2", {"mesh": Mesh(pp=1, tp=4, dp=1)}),
    # AutoTP, by the metadata of the source: the target's engine cuts by its own.
    Resume("autotp_tp2_dp2", {"mesh": Mesh(tp=1, dp=2)}, to="universal:mp=1"),
    Resume("autotp_tp2_dp2", {"mesh": Mesh(tp=3)}, to="universal:mp=3"),
    Resume("autotp_tp3_zero2", {"mesh": Mesh(tp=2, dp=2), "stage": 1}, to="universal:mp=2"),
    Resume("autotp_tp3_zero2", {"mesh": Mesh(tp=1)}, to="universal:mp=1"),
    Resume("autotp_tp2_zero3", {"stage": 1, "mesh": Mesh(tp=1, dp=2)}, to="universal:mp=1"),
    Resume("autotp_tp2_zero3", {"mesh": Mesh(tp=3)}, to="universal:mp=3"),
]


def further() -> list[Resume]:
    """Runs for the pairs of a kind of source and of target that nothing above has."""
    listed = [(plan.name, plan.case) for plan in SAME + CHANGED]
    plans = [Resume(name, changes) for name, changes in further_targets("universal", listed)]
    return [replace(plan, to=f"universal:mp={plan.case.mesh.pp * plan.case.mesh.tp}{expert_ranks(plan.case)}")
            for plan in plans]  # fmt: skip


def expert_ranks(target: Case) -> str:
    """The strategy says them where a rank's own experts are counted from 0, not with AutoEP; but beside AutoTP it says
    all degrees."""
    if target.model.startswith("autoep"):
        return f",ep={target.mesh.ep},dp={target.mesh.dp}" if target.mesh.tp > 1 else ""
    return f",ep={target.mesh.ep}" if target.mesh.ep > 1 else ""


def resume(engines: Engines, folder: Path, plan: Resume) -> dict[str, Any]:
    """Runs the engine; frozen parameters and buffers are put back, since the engine leaves them alone."""
    source = truth_of(plan.name)
    case = plan.case
    has_others = any(entry["kind"] != "parameter" for entry in source["tensors"].values())
    return engines.ask(
        Job(
            case,
            seed=DEFAULT_SEED if case.exclude_frozen else OTHER_SEED,  # Frozen ones come from elsewhere.
            load=folder,
            restore=has_others,
            first_step=source["step"],
            further_steps=case.further_steps,
        )
    )


@pytest.mark.parametrize("plan", [*SAME, *CHANGED, *further()], ids=str)
def test_engine_continues(
    plan: Resume, engines: Engines, convert: Callable[..., Path], record_property: Callable[[str, str], None]
) -> None:
    truth = truth_of(plan.name)
    if fault := known_fault(plan.form, CASES[plan.name], plan.case):
        record_property("fault", fault.name)
        if fault.error is not None:
            with pytest.raises(EngineError, match=fault.error):
                resume(engines, convert(plan.name, plan.to), plan)
        else:
            fault.check(plan.case, truth, resume(engines, convert(plan.name, plan.to), plan))
        return
    answer = resume(engines, convert(plan.name, plan.to), plan)
    assert differences(truth, answer["loaded"], ["parameter", "frozen", "buffer"]) == []
    carried = ("buffer",) if CASES[plan.name].exclude_frozen else ("buffer", "frozen")
    others = [name for name, entry in truth["tensors"].items() if entry["kind"] in carried]
    restored = set(answer.get("restored", []))  # Of rank 0, which has the first stage of a pipeline.
    assert restored <= set(others)
    assert bool(restored) == bool(others)
    assert answer["loaded"]["step"] == truth["step"]
    assert answer["loaded"]["step_counter"] == truth["step_counter"]
    uninterrupted = truth["losses"][truth["step"] :]
    assert len(answer["losses"]) == len(uninterrupted) > 0
    furthest = max(abs(ours - theirs) for ours, theirs in zip(answer["losses"], uninterrupted, strict=True))
    assert furthest <= noise(CASES[plan.name]), f"{answer['losses']} against {uninterrupted}"
    assert answer["steps_taken"] == truth["step"] + len(uninterrupted)
    print(f"furthest loss: {furthest:.2e}")


def test_a_start_from_elsewhere_is_noticed(engines: Engines) -> None:
    """Without a folder the same engine has other tensors and other losses, so the tests above can fail."""
    truth = truth_of("zero1_dp1")
    answer = engines.ask(Job(CASES["zero1_dp1"], seed=OTHER_SEED, load=None, steps=1, save=None, further_steps=0))
    assert abs(answer["losses"][0] - truth["losses"][truth["step"]]) > NOISE["bf16"]


def test_a_bfloat16_pipeline_without_zero_is_lost_to_its_own_engine(engines: Engines) -> None:
    """DeepSpeed looks for its partition in a field that it takes for a list. We read it (above)."""
    case = CASES["pipeline_zero0_bf16"]
    job = Job(case, seed=OTHER_SEED, load=FIXTURES / case.name / "checkpoint", native=True, first_step=4)
    with pytest.raises(EngineError, match=r"KeyError: [01]"):
        engines.ask(job)
