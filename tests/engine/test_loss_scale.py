"""With which loss scale the engine goes on: that of a float16 source, else that of the job's own configuration."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fixtures.cases import CASES, Case, Mesh
from fixtures.jobs import Job
from fixtures.serve import Engines
from test_native import OTHER_SEED, write_configuration
from universal import FIXTURES, truth_of


@dataclass(frozen=True)
class Scaled:
    """A source, a job that resumes from it, and the scale that its engine then has."""

    name: str
    stage: int
    scale: float
    dtype: str = "fp16"
    section: dict[str, Any] | None = None  # Of `fp16`.
    note: str = ""

    @property
    def case(self) -> Case:
        source = CASES[self.name]
        config = {"fp16": self.section} if self.section else {}
        return replace(source, mesh=Mesh(dp=2), stage=self.stage, dtype=self.dtype, config=config, zero={})

    def __str__(self) -> str:
        said = "-".join(f"{key}={value}" for key, value in (self.section or {}).items())
        return f"{self.name}-{self.dtype}-stage={self.stage}-{said}"


# The source zero1_dp2 is float16, dynamic, and at 64; zero1_dp4 is bfloat16.
OTHER_START = {"initial_scale_power": 8}
STATIC = {"loss_scale": 128}
KEPT = "the loss scale of the source is dynamic, and that of the job's configuration static and 128"
PLANS = [
    *(Scaled("zero1_dp2", stage, 64, section=OTHER_START) for stage in (0, 1, 2, 3)),
    *(Scaled("zero1_dp2", stage, 64, section=STATIC, note=KEPT) for stage in (0, 2, 3)),
    *(Scaled("zero1_dp4", stage, 256, section=OTHER_START) for stage in (0, 2, 3)),
    *(Scaled("zero1_dp4", stage, 128, section=STATIC) for stage in (0, 1, 3)),
    *(Scaled("zero1_dp2", stage, 1, dtype="bf16", note="is dropped") for stage in (1, 2, 3)),
]


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_the_engine_goes_on_with(
    plan: Scaled, engines: Engines, ucprun: Path, tmp_path: Path
) -> None:
    configured = write_configuration(plan.case, tmp_path / "job.json")
    output = tmp_path / "out"
    source = FIXTURES / plan.name / "checkpoint"
    command = [ucprun, "convert", source, output, "--to", "deepspeed:dp=2", *configured]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    assert plan.note in result.stderr
    assert plan.note == KEPT or "the loss scale of the source is" not in result.stderr
    job = Job(
        replace(plan.case, tag=(output / "latest").read_text()),
        seed=OTHER_SEED,
        load=output,
        native=True,
        first_step=truth_of(plan.name)["step"],
        further_steps=1,
    )
    assert engines.ask(job)["loss_scale"] == plan.scale
