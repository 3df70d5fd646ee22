"""The real engine resumes from our native files by a plain load, and what it then saves is what we wrote.

DeepSpeed's loader compares no names and hardly any sizes: a parameter in a wrong place would be loaded and be wrong. So
after loading, before any step, the engine saves, and its files are compared with ours in every key and bit: names, the
order of parameters, groups, addresses, partitions, weights and optimizer states.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from faults import known_fault
from fixtures.cases import CASES, DEFAULT_SEED, Case, Mesh
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.serve import Engines
from matrix import further_targets
from native import differences_of_files
from test_acceptance import noise
from universal import FIXTURES, truth_of

OTHER_SEED = DEFAULT_SEED + 1

# Settings of strategies for stages 1 and 2, and what DeepSpeed calls them.
SWITCHES = (
    ("round_robin", "round_robin_gradients"),
    ("alignment", "parameter_alignment"),
    ("elastic", "elastic_checkpoint"),
)

# How far a loss may be from the uninterrupted run's if that computes with another type.
OTHER_DTYPE = 2e-2


@dataclass(frozen=True)
class Recut:
    """A fixture, and what the run changes that resumes from it."""

    name: str
    changes: dict[str, Any] = field(default_factory=dict)
    via_universal: bool = False
    via_theirs: bool = False  # Through the universal folder that DeepSpeed's own converter makes.
    stages: str = ""  # How the strategy says the stages of a pipeline, if not by their number alone.
    by_file: bool = False  # The strategy has degrees alone, and the run's configuration says the rest.
    every_key: bool = True  # The engine saves all as we wrote it; else the files and the order of parameters.
    form = "native"

    @property
    def case(self) -> Case:
        """The run that resumes."""
        return replace(CASES[self.name], **self.changes)

    @property
    def strategy(self) -> str:
        """The name of the run's files."""
        case = self.case
        mesh = case.mesh
        kind = "bf16" if case.fp32_accumulation and case.stage == 1 and case.dtype == "bf16" else "zero"
        if self.by_file:
            return f"deepspeed:pp={self.stages or mesh.pp},tp={mesh.tp},dp={mesh.dp},sp={mesh.sp},ep={mesh.ep}"
        options = f"pp={self.stages or mesh.pp},tp={mesh.tp},dp={mesh.dp},sp={mesh.sp}"
        options += f",zero={case.stage},dtype={case.dtype}"
        if case.model.startswith(("mixture", "autoep")):
            options += f",ep={mesh.ep},data_before_experts={str(case.data_before_experts).lower()}"
        if case.stage in (1, 2):
            for option, key in SWITCHES:
                options += f",{option}={str(case.zero.get(key, False)).lower()}"
            options += f",optimizer={kind}"
        if case.stage == 3 and "sub_group_size" in case.zero:
            options += f",sub_group_size={case.zero['sub_group_size']}"
        return f"deepspeed:{options}"

    @property
    def spec(self) -> list[str | Path]:
        """How AutoTP cuts tensors for other numbers of ranks than the source's, where it is beside AutoEP."""
        case = self.case
        is_as_before = CASES[self.name].mesh.tp == case.mesh.tp and not self.via_universal
        is_cut = case.model == "autoep_autotp" and case.mesh.tp > 1 and not is_as_before
        return ["--spec", FIXTURES / "autoep_autotp.ucp"] if is_cut else []

    def __str__(self) -> str:
        mesh = self.case.mesh
        words = [f"{axis}{size}" for axis, size in vars(mesh).items() if size > 1 or axis == "dp"]
        words += [f"{key}={value}" for key, value in self.changes.items() if key != "mesh"]
        words += ["universal"] if self.via_universal else []
        words += ["deepspeeds-universal"] if self.via_theirs else []
        words += [self.stages.replace(",", "-")] if self.stages else []
        words += ["ds-config"] if self.by_file else []
        return "-".join([self.name, *words])


# The model of a pipeline that deals its layers by their parameters.
BALANCED = {"model": "pipeline_by_parameters"}
AUTOEP_BALANCED = {"model": "autoep_pipeline_by_parameters"}

# BF16_Optimizer adds gradients up when they are there, and not once for all parameters.
AT_ONCE = {"bf16": {"immediate_grad_update": True}}

RECUTS = [
    # The same ranks, each dtype and each class of optimizer.
    Recut("zero1_dp2"),
    Recut("zero2_dp2"),
    Recut("bf16_optimizer_dp2"),
    Recut("frozen_buffers_zero2"),
    Recut("gpt_pp2_tp2_dp2"),
    # Another number of data-parallel ranks, and the other stage.
    Recut("zero1_dp1", {"mesh": Mesh(dp=4)}),
    Recut("zero1_dp4", {"mesh": Mesh(dp=2)}),
    Recut("zero1_dp2", {"mesh": Mesh(dp=4), "stage": 2}),
    Recut("zero2_dp1", {"mesh": Mesh(dp=2), "stage": 1}),
    Recut("fused_adam_zero2", {"mesh": Mesh(dp=4)}),
    Recut("sgd_momentum_zero1", {"mesh": Mesh(dp=4)}),
    Recut("frozen_buffers_zero2", {"mesh": Mesh(dp=1), "stage": 1}),
    # The other class of optimizer.
    Recut("bf16_optimizer_dp2", {"mesh": Mesh(dp=4), "fp32_accumulation": False}),
    Recut("zero2_dp1", {"mesh": Mesh(dp=2), "stage": 1, "fp32_accumulation": True}),
    # Partitions of padding alone, which a universal load cannot have.
    Recut("zero2_dp2", {"mesh": Mesh(dp=4)}),
    Recut("bf16_optimizer_dp4_tiny", {"mesh": Mesh(dp=8)}),
    # Through the universal folder.
    Recut("zero1_dp4", {"mesh": Mesh(dp=2)}, via_universal=True),
    # Another type.
    Recut("zero1_dp4", {"mesh": Mesh(dp=2), "dtype": "fp32"}),
    Recut("zero1_dp2", {"dtype": "bf16"}),
    # Order of flattening, zeros between parameters.
    Recut("round_robin", {"mesh": Mesh(dp=2)}),
    Recut("round_robin", {"mesh": Mesh(dp=2), "zero": {}}),
    Recut("round_robin", {"mesh": Mesh(dp=8), "stage": 1}, via_universal=True),
    Recut("alignment", {"mesh": Mesh(dp=4)}),
    Recut("alignment", {"mesh": Mesh(dp=4), "zero": {}}),
    Recut("zero1_dp4", {"mesh": Mesh(dp=2), "zero": {"parameter_alignment": True}}),
    # Sequence-parallel ranks, which share in the partitions.
    Recut("ulysses_sp2_dp2"),
    Recut("ulysses_sp2_dp2", {"mesh": Mesh(dp=4)}),
    Recut("ulysses_sp2_dp2", {"mesh": Mesh(dp=1, sp=2)}),
    Recut("zero1_dp4", {"mesh": Mesh(dp=2, sp=2), "stage": 2}),
    # The strategy, by the run's own configuration.
    Recut("zero1_dp4", {"mesh": Mesh(dp=2), "stage": 2}, by_file=True),
    Recut("zero2_dp1", {"mesh": Mesh(dp=2), "stage": 1, "fp32_accumulation": True}, by_file=True),
    Recut("zero1_dp2", {"mesh": Mesh(dp=4), "dtype": "bf16"}, by_file=True),
    Recut("alignment", {"mesh": Mesh(dp=4), "zero": {}}, by_file=True),
    # Elastic checkpoints, and from them; an elastic job also loads the other form.
    Recut("elastic_zero1"),
    Recut("elastic_zero1", {"mesh": Mesh(dp=4), "stage": 2}),
    Recut("elastic_zero1", {"zero": {}}, every_key=False),
    Recut("elastic_zero1", {"mesh": Mesh(dp=4), "zero": {}}, by_file=True),
    Recut("elastic_zero1", {"mesh": Mesh(dp=4), "stage": 3, "zero": {}}, by_file=True),
    Recut("elastic_zero1", {"mesh": Mesh(dp=4), "stage": 0, "zero": {}}, by_file=True),
    # The engine does without the setting here, and keeps it in the configuration that it saves.
    Recut("fused_adam_zero2", {"stage": 3, "zero": {"elastic_checkpoint": True}}, by_file=True, every_key=False),
    Recut("elastic_zero2"),
    Recut("elastic_zero2", {"mesh": Mesh(dp=2), "zero": {}}, every_key=False),
    Recut("fused_adam_zero2", {"mesh": Mesh(dp=4), "stage": 1, "zero": {"elastic_checkpoint": True}}),
    Recut("sgd_momentum_zero1", {"mesh": Mesh(dp=4), "zero": {"elastic_checkpoint": True}}),
    Recut("zero2_dp2", {"mesh": Mesh(dp=4), "zero": {"elastic_checkpoint": True}}, every_key=False),
    # Muon, of whose matrices partitions keep the momentum whole.
    Recut("muon_zero1"),
    Recut("muon_zero1", {"mesh": Mesh(dp=4)}),
    Recut("muon_zero1", {"mesh": Mesh(dp=4), "fp32_accumulation": True}),
    Recut("muon_zero2"),
    Recut("muon_zero2", {"mesh": Mesh(dp=4), "stage": 1}),
    Recut("muon_zero2", {"mesh": Mesh(dp=4), "zero": {"parameter_alignment": True}}),
    Recut("muon_zero2", {"mesh": Mesh(dp=1), "stage": 0}),
    Recut("muon_zero2", {"mesh": Mesh(dp=4), "stage": 3, "zero": {"reduce_scatter": False}}, by_file=True),
    # Experts: the same ranks, and others that share them out, in both orders.
    Recut("moe_ep2_dp4"),
    Recut("moe_ep2_dp4_data_first"),
    Recut("moe_ep2_dp4", {"mesh": Mesh(dp=4)}),
    Recut("moe_ep2_dp4", {"mesh": Mesh(dp=4, ep=4), "stage": 1}),
    Recut("moe_ep2_dp4", {"mesh": Mesh(dp=2, ep=2)}),
    Recut("moe_ep2_dp4", {"data_before_experts": True}),
    Recut("moe_ep2_dp4_data_first", {"mesh": Mesh(dp=8, ep=4), "fp32_accumulation": True}),
    Recut("moe_ep2_dp4", {"mesh": Mesh(dp=8, ep=2), "zero": {"round_robin_gradients": True}}),
    Recut("moe_ep2_dp4_data_first", {"mesh": Mesh(dp=4, ep=2), "data_before_experts": False}, via_universal=True),
    Recut("moe_residual_zero2", {"mesh": Mesh(dp=4, ep=4), "stage": 1}),
    Recut("moe_residual_zero2", {"mesh": Mesh(dp=2)}),
    Recut("moe_ep2_ep4_dp4", {"mesh": Mesh(dp=2, ep=2), "model": "mixture"}),
    Recut("moe_pp2_ep2_dp4"),
    Recut("moe_pp2_ep2_dp4", {"mesh": Mesh(pp=2, dp=2), "data_before_experts": False}),
    Recut("moe_pp2_ep2_dp4", {"mesh": Mesh(pp=2, dp=2, ep=2)}, via_universal=True),
    Recut("moe_pp2_ep2_dp4", {"model": "mixture_pipeline_by_parameters"}, stages="3+4"),
    Recut(
        "moe_pp2_ep2_dp4",
        {"model": "mixture_pipeline_by_parameters"},
        via_universal=True,
        stages="2,partition=parameters",
    ),
    Recut("moe_pp2_ep2_dp4", {"mesh": Mesh(pp=1, dp=4, ep=4), "fp32_accumulation": True}, via_universal=True),
    # Also whole experts that tensor-parallel ranks share out.
    Recut("moe_tp2_ep4_dp4_whole"),
    Recut("moe_tp2_ep4_dp4_whole", {"mesh": Mesh(tp=2, dp=2, ep=2), "stage": 1}),
    Recut("moe_tp2_ep4_dp4_whole", {"mesh": Mesh(tp=2, dp=2, ep=4), "data_before_experts": True}),
    Recut("moe_tp2_ep4_dp4_whole", {"mesh": Mesh(tp=1, dp=4, ep=2)}),
    Recut("moe_tp2_ep4_dp4_whole", {"mesh": Mesh(tp=2, dp=2, ep=2)}, via_universal=True),
    Recut("moe_tp2_ep4_dp4_whole", {"stage": 0, "dtype": "fp32"}),
    Recut("moe_zero0_fp32"),
    Recut("moe_zero0_fp32", {"mesh": Mesh(dp=4, ep=4)}),
    Recut("moe_zero0_fp32", {"mesh": Mesh(dp=2)}, via_universal=True),
    Recut("moe_zero0_fp32", {"dtype": "bf16"}),
    Recut("moe_ep2_dp4", {"mesh": Mesh(dp=4, ep=2), "stage": 0, "dtype": "fp32"}),
    Recut("moe_ep2_dp4_data_first", {"stage": 0}),
    Recut("moe_pp2_ep2_dp4", {"stage": 0, "dtype": "fp32"}),
    # Experts that AutoEP spreads: the same ranks, and others, at every stage.
    Recut("autoep_ep2_dp4"),
    Recut("autoep_ep2_dp4", {"mesh": Mesh(dp=4, ep=4)}),
    Recut("autoep_ep2_dp4", {"mesh": Mesh(dp=2, ep=1), "stage": 1}),
    Recut("autoep_ep2_dp4", {"mesh": Mesh(dp=8, ep=4), "stage": 1, "data_before_experts": True}),
    Recut("autoep_ep2_dp4", {"mesh": Mesh(dp=2, ep=2), "stage": 1, "fp32_accumulation": True}),
    Recut("autoep_ep2_dp4", {"mesh": Mesh(dp=4, ep=4), "stage": 3, "zero": {"sub_group_size": 200}}),
    Recut("autoep_ep2_dp4", {"zero": {"round_robin_gradients": True}}, via_universal=True),
    Recut("autoep_ep2_dp4", {"mesh": Mesh(dp=4, ep=4)}, by_file=True),
    Recut("autoep_ep2_dp4", {"mesh": Mesh(dp=2, ep=2), "stage": 1}, via_theirs=True),
    Recut("autoep_ep2_dp4_data_first"),
    Recut("autoep_ep2_dp4_data_first", {"mesh": Mesh(dp=2, ep=1)}),
    Recut("autoep_ep2_dp4_data_first", {"mesh": Mesh(dp=8, ep=2), "stage": 3, "fp32_accumulation": False}),
    Recut("autoep_ep2_dp4_data_first", {"data_before_experts": False, "mesh": Mesh(dp=8, ep=4)}, via_universal=True),
    Recut("autoep_ep2_dp4_zero3"),
    Recut("autoep_ep2_dp4_zero3", {"mesh": Mesh(dp=4, ep=4)}),
    Recut("autoep_ep2_dp4_zero3", {"mesh": Mesh(dp=8, ep=2)}, via_universal=True),
    Recut("autoep_ep2_dp4_zero3", {"mesh": Mesh(dp=2, ep=1)}),
    Recut("autoep_ep2_dp4_zero3", {"mesh": Mesh(dp=2, ep=2)}, via_theirs=True),
    Recut("autoep_ep2_dp4_zero3", {"mesh": Mesh(dp=4, ep=4), "stage": 2}),
    # The same beside AutoTP: every stage, other ranks on each axis, and from runs without it.
    Recut("autoep_tp2_ep4_dp4"),
    Recut("autoep_tp2_ep4_dp4", {"stage": 0}),
    Recut("autoep_tp2_ep4_dp4", {"mesh": Mesh(tp=2, dp=4, ep=2), "stage": 1, "fp32_accumulation": True}),
    Recut("autoep_tp2_ep4_dp4", {"stage": 1, "fp32_accumulation": True, "config": AT_ONCE}, by_file=True),
    Recut("autoep_tp2_ep4_dp4", {"mesh": Mesh(tp=2, dp=2, ep=4), "stage": 3, "zero": {"sub_group_size": 500}}),
    Recut("autoep_tp2_ep4_dp4", {"mesh": Mesh(tp=4, dp=1, ep=4), "zero": {"round_robin_gradients": True}}),
    Recut("autoep_tp2_ep4_dp4", {"mesh": Mesh(tp=4, dp=2, ep=2), "stage": 1}, via_universal=True),
    Recut("autoep_tp2_ep4_dp4", {"mesh": Mesh(dp=4, ep=4)}, every_key=False),
    Recut("autoep_tp4_ep2"),
    Recut("autoep_tp4_ep2", {"mesh": Mesh(tp=4, dp=2, ep=4), "stage": 2}),
    Recut("autoep_tp4_ep2", {"mesh": Mesh(tp=2, dp=2, ep=4)}, by_file=True),
    Recut("autoep_tp4_ep2_dp2_zero3"),
    Recut("autoep_tp4_ep2_dp2_zero3", {"mesh": Mesh(tp=4, dp=1, ep=4), "zero": {"sub_group_size": 300}}),
    Recut("autoep_tp4_ep2_dp2_zero3", {"mesh": Mesh(tp=2, dp=4, ep=2), "stage": 2}),
    Recut("autoep_ep2_dp4", {"model": "autoep_autotp", "mesh": Mesh(tp=2, dp=2, ep=4)}, by_file=True),
    Recut(
        "autoep_ep2_dp4_zero3",
        {"model": "autoep_autotp", "mesh": Mesh(tp=4, dp=2, ep=2)},
        by_file=True,
        via_universal=True,
    ),
    Recut("autoep_zero0_fp32"),
    Recut("autoep_zero0_fp32", {"mesh": Mesh(dp=4, ep=4), "dtype": "bf16"}),
    # The same in a pipeline: other ranks, and other stages, on which what AutoEP made is in another place.
    Recut("autoep_pp2_ep2_dp4"),
    Recut("autoep_pp2_ep2_dp4", {"mesh": Mesh(pp=2, dp=4, ep=4), "data_before_experts": True}, via_universal=True),
    Recut("autoep_pp2_ep2_dp4", {"mesh": Mesh(pp=1, dp=2, ep=2), "fp32_accumulation": True}, by_file=True),
    Recut("autoep_pp2_ep2_dp4", {"mesh": Mesh(pp=1, dp=4, ep=1), "zero": {"round_robin_gradients": True}}),
    Recut("autoep_pp2_ep2_dp4", AUTOEP_BALANCED | {"mesh": Mesh(pp=2, dp=2, ep=2)}, stages="2,partition=parameters"),
    Recut("autoep_pp2_ep2_dp2_zero0", {"mesh": Mesh(pp=2, dp=4, ep=4)}, via_universal=True),
    Recut("autoep_pp2_ep2_dp2_zero0", {"mesh": Mesh(pp=1, dp=2, ep=2)}),
    # Pipeline stages and tensor-parallel ranks.
    Recut("pipeline_pp2", {"mesh": Mesh(pp=2, dp=1)}),
    Recut("pipeline_pp2", {"mesh": Mesh(pp=1, dp=2)}),
    Recut("pipeline_pp2", {"mesh": Mesh(pp=1, dp=4)}, via_universal=True),
    Recut("pipeline_pp2", {"mesh": Mesh(pp=3, dp=1)}, stages="3+2+2"),
    Recut("pipeline_pp2", {"mesh": Mesh(pp=2, dp=1)}, via_universal=True),
    Recut("pipeline_pp2", BALANCED | {"mesh": Mesh(pp=3, dp=1)}, stages="3,partition=parameters"),
    Recut("pipeline_pp2", BALANCED | {"mesh": Mesh(pp=2, dp=2)}, via_universal=True, stages="2,partition=parameters"),
    Recut("gpt_pp2_tp2_dp2", {"mesh": Mesh(pp=1, tp=1, dp=2)}),
    Recut("gpt_pp2_tp2_dp2", {"mesh": Mesh(pp=2, tp=1, dp=2), "fp32_accumulation": False}),
    Recut("gpt_pp2_tp2_dp2", {"mesh": Mesh(pp=1, tp=2, dp=4)}),
    Recut("gpt_pp1_tp1_dp2", {"mesh": Mesh(pp=2, tp=2, dp=1)}),
    Recut("llama_pp2_tp2_dp2", {"mesh": Mesh(pp=2, tp=1, dp=2)}),
    # A pipeline whose layer files follow from its names.
    Recut("llama_pp2_tp2_dp2", {"mesh": Mesh(pp=1, tp=2, dp=2)}, via_theirs=True),
    # Megatron's nested module.
    Recut("zero3_tp2_dp2", {"mesh": Mesh(tp=2, dp=2), "stage": 2}),
    Recut("zero3_tp2_dp2", {"mesh": Mesh(tp=1, dp=4), "stage": 1}),
    Recut("zero3_tp2_dp2", {"mesh": Mesh(tp=2, dp=1)}),
    Recut("zero3_tp2_dp2", {"mesh": Mesh(tp=1, dp=2)}, via_universal=True),
    Recut("llama_pp2_tp2_dp2", {"mesh": Mesh(pp=1, tp=4, dp=2)}),
    # Every stage from every other, and from its own.
    Recut("zero0_fp32", {"mesh": Mesh(dp=1)}),
    Recut("zero0_fp32", {"mesh": Mesh(dp=4), "stage": 1}),
    Recut("zero0_fp32", {"mesh": Mesh(dp=4), "stage": 3, "zero": {"sub_group_size": 500}}),
    Recut("zero0_fused_fp16", {"mesh": Mesh(dp=4)}),
    Recut("zero0_fused_fp16", {"mesh": Mesh(dp=1), "stage": 1}),
    Recut("zero0_fused_fp16", {"mesh": Mesh(dp=4), "stage": 3}),
    Recut("zero0_unfused_bf16", {"mesh": Mesh(dp=1)}),
    Recut("zero0_unfused_bf16", {"mesh": Mesh(dp=4), "stage": 2}),
    Recut("zero1_dp2", {"mesh": Mesh(dp=1), "stage": 0}),
    Recut("zero1_dp2", {"mesh": Mesh(dp=4), "stage": 3}),
    Recut("zero1_dp4", {"mesh": Mesh(dp=2), "stage": 0}),
    Recut("zero1_dp4", {"mesh": Mesh(dp=2), "stage": 3, "zero": {"sub_group_size": 2000}}),
    Recut("zero2_dp2", {"mesh": Mesh(dp=1), "stage": 0}),
    Recut("frozen_buffers_zero2", {"mesh": Mesh(dp=4), "stage": 0}),
    Recut("frozen_buffers_zero2", {"mesh": Mesh(dp=4), "stage": 3}),
    Recut("fused_adam_zero2", {"mesh": Mesh(dp=4), "stage": 0}),
    Recut("fused_adam_zero2", {"mesh": Mesh(dp=8), "stage": 3, "zero": {"sub_group_size": 1000}}),
    Recut("zero3_dp4", {"mesh": Mesh(dp=2)}),
    Recut("zero3_dp4", {"mesh": Mesh(dp=8)}, via_universal=True),
    Recut("zero3_dp4", {"mesh": Mesh(dp=2), "stage": 0}),
    Recut("zero3_dp4", {"mesh": Mesh(dp=2), "stage": 1}),
    Recut("zero3_frozen_dp4", {"mesh": Mesh(dp=2)}),
    Recut("zero3_frozen_dp4", {"mesh": Mesh(dp=8), "stage": 0}),
    Recut("zero3_frozen_dp4", {"mesh": Mesh(dp=2), "stage": 2}),
    Recut("autotp_tp2_dp2", {"mesh": Mesh(tp=2, dp=2), "stage": 3, "zero": {"sub_group_size": 1000}}),
    Recut("autotp_tp2_dp2", {"mesh": Mesh(tp=2, dp=4), "stage": 0}),
    Recut("autotp_tp2_zero3", {"mesh": Mesh(tp=1, dp=2)}),
    Recut("autotp_tp2_zero3", {"mesh": Mesh(tp=2, dp=1), "stage": 1}),
]


def further() -> list[Recut]:
    """Runs for the pairs of a kind of source and of target that nothing above has."""
    listed = [(recut.name, recut.case) for recut in RECUTS]
    recuts = [Recut(name, changes, every_key=False) for name, changes in further_targets("native", listed)]
    return [replace(recut, by_file=takes_settings(CASES[recut.name], recut.case)) for recut in recuts]


def takes_settings(source: Case, target: Case) -> bool:
    """Whether an elastic source has to be told the settings of the optimizer."""
    return bool(source.zero.get("elastic_checkpoint")) and target.stage in (0, 3)


def write_configuration(case: Case, place: Path) -> list[str]:
    """The configuration of a run as its own file; returns the words for the command line."""
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    from fixtures.engines import configuration

    place.write_text(json.dumps(configuration(case, universal=False)))
    return ["--ds-config", str(place)]


@pytest.mark.parametrize("recut", [*RECUTS, *further()], ids=str)
def test_engine_resumes(
    recut: Recut,
    engines: Engines,
    convert: Callable[..., Path],
    convert_with_deepspeed: Callable[[str], Path | str],
    record_property: Callable[[str, str], None],
    tmp_path: Path,
) -> None:
    truth = truth_of(recut.name)
    case = recut.case
    source = convert(recut.name) if recut.via_universal else None
    if recut.via_theirs:
        source = convert_with_deepspeed(recut.name)
        assert isinstance(source, Path), source
    configured = write_configuration(case, tmp_path / "job.json") if recut.by_file else []
    ours = convert(recut.name, recut.strategy, source, [*configured, *recut.spec])
    theirs = tmp_path / "saved"
    job = Job(
        replace(case, tag=(ours / "latest").read_text()),
        seed=DEFAULT_SEED if case.exclude_frozen else OTHER_SEED,  # Frozen ones come from elsewhere.
        load=ours,
        native=True,
        first_step=truth["step"],
        save=theirs,
        further_steps=case.further_steps,
    )
    answer = engines.ask(job)
    fault = known_fault("native", CASES[recut.name], case)
    assert fault is not None or differences(truth, answer["loaded"], ["parameter", "frozen", "buffer"]) == []
    assert answer["loaded"]["step"] == truth["step"]
    assert answer["loaded"]["step_counter"] == truth["step_counter"]
    found = differences_of_files(ours, theirs, fault.widens if fault is not None else None)
    if case.zero.get("round_robin_gradients"):  # DeepSpeed records the addresses of another order; ours are right.
        found = [difference for difference in found if "param_slice_mappings" not in difference]
    if not recut.every_key:
        found = [difference for difference in found if "only in" in difference or ".param_shapes" in difference]
    assert found == []
    uninterrupted = truth["losses"][truth["step"] :]
    if fault is not None:
        record_property("fault", fault.name)
        assert fault.check is not None
        fault.check(case, truth, answer)
        return
    furthest = max(abs(mine - other) for mine, other in zip(answer["losses"], uninterrupted, strict=True))
    assert furthest <= (noise(CASES[recut.name]) if case.dtype == CASES[recut.name].dtype else OTHER_DTYPE), furthest
    assert answer["steps_taken"] == truth["step"] + len(uninterrupted)


def first_moment(name: str) -> torch.Tensor:
    """Of the first parameter, in a checkpoint without ZeRO."""
    (file,) = (FIXTURES / name / "checkpoint").glob("*/mp_rank_00_model_states.pt")
    optimizer = torch.load(file, weights_only=False)["optimizer"]
    return optimizer.get("optimizer_state_dict", optimizer)["state"][0]["exp_avg"].flatten()[: 101 * 33]


def test_moments_of_float16_without_zero_are_too_small() -> None:
    """The same model, samples and steps. The loss scale is 64; where nothing unscales, gradients are clipped."""
    ratio = first_moment("zero0_fp32").norm() / first_moment("zero0_fused_fp16").norm()
    assert 16 < ratio <= 64 * 1.5, ratio
