"""The runs behind figures 7 to 9: who saves, who resumes, in which way, and what their losses are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import page
from frameworks import Bench

from fixtures.cases import CASES, DEFAULT_SEED, Case, Mesh
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.serve import Conversion
from test_native import Recut

# The rate that the fixtures' small models have is too high for wide ones.
SCHEDULE = {"scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 0.001,
                                                         "warmup_num_steps": 20}}}  # fmt: skip
KINDS = ["parameter", "frozen", "buffer"]
LONG = 3600.0


@dataclass(frozen=True)
class Model:
    """A model of the fixtures, a case of theirs that trains it, and its spec."""

    name: str
    case: str
    spec: str | None = None

    @property
    def options(self) -> list[str | Path]:
        """Those of `ucprun convert`."""
        return [] if self.spec is None else ["--spec", page.ROOT / "specs" / f"{self.spec}.ucp"]


# DeepSpeed's pipelines know stage 1 alone. The model without a pipeline has other names.
PIPELINE = Model("gpt_wide", "gpt_pp2_tp2_dp2", "megatron_deepspeed_gpt")
PLAIN = Model("gpt_wide_no_pipeline", "gpt_pp2_tp2_dp2", "megatron_deepspeed_gpt_no_pipeline")
DENSE = Model("llama", "llama_pp2_tp2_dp2", "megatron_deepspeed_llama")
BLOOM = Model("bloom_wide", "gpt_pp2_tp2_dp2", "megatron_deepspeed_bloom")
EXPERTS = Model("mixture", "moe_ep2_dp4")


@dataclass(frozen=True)
class Layout:
    """Of which model, on which ranks, at which stage of ZeRO."""

    model: Model
    mesh: Mesh
    stage: int = 1

    def recut(self, dtype: str) -> Recut:
        changes: dict[str, Any] = {"model": self.model.name, "mesh": self.mesh, "stage": self.stage, "dtype": dtype}
        if "wide" in self.model.name:
            changes["config"] = SCHEDULE
        accumulates = CASES[self.model.case].fp32_accumulation and self.stage == 1 and dtype == "bf16"
        return Recut(self.model.case, changes | {"fp32_accumulation": accumulates})

    def __str__(self) -> str:
        axes = [f"{axis.upper()} {size}" for axis, size in vars(self.mesh).items() if size > 1 or axis == "dp"]
        return ", ".join([*axes, f"ZeRO-{self.stage}" if self.stage else "no ZeRO"])


@dataclass(frozen=True)
class Run:
    """A run that resumes from a checkpoint of `source`, in one of the ways, or is a control without a checkpoint."""

    source: Layout
    target: Layout
    dtype: str
    way: str = "convert"


@dataclass(frozen=True)
class Curve:
    """A run that saved and went on, and one beside it. Of `states` that the second loaded, `differ` are other bits."""

    source: str
    target: str
    dtype: str
    way: str
    whole: list[float]
    resumed: list[float]
    states: int
    differ: int

    @property
    def off(self) -> list[float]:
        """How far each loss is from that of the run that went on."""
        return [a - b for a, b in zip(self.resumed, self.whole[-len(self.resumed) :], strict=True)]

    @property
    def furthest(self) -> float:
        return max(map(abs, self.off))


def rounded(losses: list[float]) -> list[float]:
    """As many digits as a float32 has."""
    return [float(f"{loss:.9g}") for loss in losses]


def case_of(layout: Layout, dtype: str, tag: str | None = None) -> Case:
    return replace(layout.recut(dtype).case, tag=tag)


class Runs:
    """All runs on a bench; each that saves serves everyone that resumes from it."""

    def __init__(self, bench: Bench, steps: int) -> None:
        self.bench, self.steps = bench, steps
        self.save = cache(self.saved)

    def saved(self, layout: Layout, dtype: str) -> tuple[Path, dict[str, Any]]:
        """The checkpoint after half of the steps, and the answer of the run that goes on after it."""
        job = Job(case_of(layout, dtype), steps=self.steps, save=self.bench.place(), further_steps=self.steps)
        return job.save, self.bench.engines.ask(job, timeout_seconds=LONG)

    def resume(self, run: Run) -> dict[str, Any]:
        """An engine with other random weights, from the checkpoint."""
        checkpoint, _ = self.save(run.source, run.dtype)
        native = run.way != "deepspeed"
        folder = FOLDERS[run.way](self.bench, checkpoint, run)
        job = Job(case_of(run.target, run.dtype, (folder / "latest").read_text() if native else None),
                  seed=DEFAULT_SEED + 1, load=folder, native=native, first_step=self.steps,
                  further_steps=self.steps)  # fmt: skip
        answer: dict[str, Any] = self.bench.engines.ask(job, timeout_seconds=LONG)
        return answer

    def curve(self, run: Run) -> Curve:
        """The run beside its source."""
        _, whole = self.save(run.source, run.dtype)
        states = differ = 0
        if run.way == "never":
            losses = self.save(run.target, run.dtype)[1]["losses"][self.steps :]
        else:
            answer = self.resume(run)
            losses = answer["losses"]
            states = sum(len(tensor["states"]) for tensor in whole["saved"]["tensors"].values())
            differ = len(differences(whole["saved"], answer["loaded"], KINDS))
        about = (str(run.source), str(run.target), run.dtype, run.way)
        curve = Curve(*about, rounded(whole["losses"]), rounded(losses), states, differ)
        print(*about, f"{curve.differ} of {curve.states} states differ, losses by {curve.furthest:.2g}", flush=True)
        return curve


def by_deepspeed(bench: Bench, checkpoint: Path, run: Run) -> Path:
    """Through the folder of DeepSpeed's own converter."""
    tag, root = (checkpoint / "latest").read_text(), bench.place()
    bench.engines.ask(Conversion(checkpoint / tag, root / f"{tag}_universal", run.source.model.spec is None), LONG)
    return root


# The folder from which a run resumes, by its way.
FOLDERS: dict[str, Callable[[Bench, Path, Run], Path]] = {
    "convert": lambda bench, checkpoint, run: bench.convert(
        checkpoint, "--to", run.target.recut(run.dtype).strategy, *run.target.model.options
    ),
    "deepspeed": by_deepspeed,
    "own": lambda bench, checkpoint, run: checkpoint,
}


def pipeline(pp: int, tp: int, dp: int) -> Layout:
    return Layout(PIPELINE, Mesh(pp=pp, tp=tp, dp=dp))


def plain(tp: int, dp: int, stage: int, sp: int = 1) -> Layout:
    return Layout(PLAIN, Mesh(tp=tp, dp=dp, sp=sp), stage)


FIRST, COMMON, ZERO = pipeline(2, 2, 2), pipeline(2, 2, 1), plain(2, 2, 1)


def figure_7a(first: Layout, targets: list[Layout], dtype: str) -> list[Run]:
    """To every target, and what shows how much of the difference a conversion can be: the same layout from its own
    files, the first target by DeepSpeed's own converter, and a run that had the layout of the target from the start."""
    controls = [Run(first, first, dtype, "own"), Run(first, targets[0], dtype, "deepspeed"),
                Run(first, targets[0], dtype, "never")]  # fmt: skip
    return [Run(first, target, dtype) for target in targets] + controls


def figure_9(model: Model, mesh: Mesh, targets: list[Mesh]) -> list[Run]:
    """The same of other models, without controls."""
    stage = CASES[model.case].stage
    return [
        Run(Layout(model, mesh, stage), Layout(model, target, stage), dtype)
        for dtype in ("fp32", "bf16") for target in targets
    ]  # fmt: skip


def figure_8() -> list[Run]:
    """A change of each kind: ranks, to ZeRO, model parallelism, experts."""
    experts = [Layout(EXPERTS, Mesh(dp=4, ep=ep), 2) for ep in (2, 4)]
    changes = [(plain(1, 4, 1), plain(1, 2, 1)), (plain(1, 2, 0), plain(1, 2, 1)), (FIRST, pipeline(1, 4, 1)), experts]
    return [Run(source, target, "fp32") for source, target in changes]


def figures() -> dict[str, list[Run]]:
    """The runs of each picture."""
    meshes = [pipeline(1, 1, 2), pipeline(1, 2, 2), pipeline(2, 1, 2), pipeline(2, 4, 1)]
    stages = [plain(1, 2, 1), plain(1, 4, 2), plain(1, 2, 3), plain(1, 2, 2, sp=2)]
    sources = [FIRST, pipeline(1, 2, 2), pipeline(2, 1, 2), pipeline(1, 1, 4)]
    return {
        "7a": [run for dtype in ("fp32", "bf16") for run in figure_7a(FIRST, meshes, dtype)],
        "7a-zero": [*(Run(ZERO, target, "fp32") for target in stages), Run(ZERO, ZERO, "fp32", "own")],
        "7b": [Run(source, COMMON, "fp32") for source in sources],
        "8": figure_8(),
        "9-dense": figure_9(DENSE, Mesh(pp=2, tp=2, dp=2), [Mesh(tp=4), Mesh(pp=2, dp=2)]),
        "9-bloom": figure_9(BLOOM, Mesh(pp=2, tp=2, dp=2), [Mesh(tp=2, dp=2), Mesh(pp=2, dp=2)]),
        "9-moe": figure_9(EXPERTS, Mesh(dp=4, ep=2), [Mesh(dp=4, ep=4), Mesh(dp=2)]),
    }
