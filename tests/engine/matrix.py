"""The acceptance matrix: as which targets the real engine resumes from which kinds of checkpoint.

A row is a fixture, a column is something that a target is or changes, and a cell is every run that has both. A run can
be in several cells: one at stage 2 on other ranks is in a column for its stage and in one for each axis that changed.
Runs that tests list by hand come first; `further_targets` adds runs until every cell of each model at each stage has
one, or, for the whole table (UCP_EVERY_CELL=1), every stage on every kind of mesh. A pair without a run has a reason.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from faults import known_fault
from fixtures.cases import CASES, Case, Mesh

EVERY_CELL = os.environ.get("UCP_EVERY_CELL") == "1"

STAGES = {"universal": (1, 2, 3), "native": (0, 1, 2, 3)}
AXES = ("dp", "tp", "pp", "ep")
COLUMNS = {form: [*(f"stage {stage}" for stage in stages), *AXES] for form, stages in STAGES.items()}

# Models that some fixture cuts over an axis.
CUT_OVER = {axis: {case.model for case in CASES.values() if getattr(case.mesh, axis) > 1} for axis in AXES}


def columns(source: Case, target: Case) -> list[str]:
    """The columns of a target: what it is, or changes."""
    changed = [axis for axis in AXES if ranks(source.mesh, axis) != ranks(target.mesh, axis)]
    return [f"stage {target.stage}", *changed]


def ranks(mesh: Mesh, axis: str) -> int:
    """Sequence-parallel ranks are data-parallel ones in all files."""
    return mesh.dp * mesh.sp if axis == "dp" else getattr(mesh, axis)


def reason(form: str, source: Case, column: str) -> str | None:
    """Why there is no run in this cell."""
    if column in AXES and column != "dp" and source.model not in CUT_OVER[column]:
        return {
            "tp": "the model has no tensor parallelism",
            "pp": "the model is not a pipeline",
            "ep": "the model has no experts",
        }[column]
    if column in ("stage 2", "stage 3") and source.model in CUT_OVER["pp"]:
        return "DeepSpeed's pipelines know stages 0 and 1 alone"
    if column == "stage 3" and source.model in CUT_OVER["ep"] and not source.model.startswith("autoep"):
        return "DeepSpeed's experts know no stage 3"
    if source.optimizer in ("cpu_adam", "cpu_lion") and not EVERY_CELL:
        return "DeepSpeed compiles its optimizer for minutes"
    return unwritten(source, column) if form == "native" else None


def unwritten(source: Case, column: str) -> str | None:
    """The reason why native files cannot have this yet."""
    if column == "stage 0" and source.name.startswith(("bf16_masters", "fp16_masters")):
        return "DeepSpeed has low-precision masters with ZeRO alone"
    if column == "stage 3" and source.optimizer == "adagrad":
        return "DeepSpeed does not load its own checkpoints of Adagrad at stage 3"
    if column == "stage 0" and source.model in CUT_OVER["pp"] and source.dtype == "bf16":
        return "DeepSpeed cannot load a bfloat16 pipeline that it saved without ZeRO"
    if column in ("stage 0", "stage 3") and source.zero.get("elastic_checkpoint") and source.groups != "one":
        return "an elastic checkpoint has no settings of the optimizer's groups, and a job's configuration has but one"
    return None


def meshes(form: str, source: Case) -> Iterator[Mesh]:
    """Those of every_mesh() that experts divide over."""
    shares = source.model in ("mixture_whole", "autoep_autotp")
    return (mesh for mesh in every_mesh(form, source) if mesh.dp * mesh.sp * (mesh.tp if shares else 1) % mesh.ep == 0)


def every_mesh(form: str, source: Case) -> Iterator[Mesh]:
    """The source's own, and others in one axis each. Tensors that AutoTP cut become whole in native files,
    but not beside AutoEP, and so do experts with frozen parts in universal ones."""
    own = source.mesh
    if form == "native" and source.model == "autotp":
        own = replace(own, tp=1)
    if form == "universal" and source.model == "mixture_residual":
        own = replace(own, ep=1)
    yield own
    if own.sp > 1:
        yield replace(own, sp=1)
    else:
        yield replace(own, dp=own.dp * 2 if own.dp < max(4, own.ep + 1) and own.ranks <= 4 else own.dp // 2)
    for axis in ("tp", "pp", "ep"):
        if source.model in CUT_OVER[axis] and own == source.mesh:
            yield replace(own, **{axis: 2 if getattr(own, axis) in (1, 4) else least(source, axis)})


def least(source: Case, axis: str) -> int:
    """The other size of an axis of two places. Beside AutoTP, AutoEP wants its experts spread."""
    return 4 if axis == "ep" and source.model == "autoep_autotp" else 1


def targets(form: str, source: Case) -> Iterator[dict[str, Any]]:
    """All that can be asked for, as what changes in the case."""
    for mesh in meshes(form, source):
        for stage in STAGES[form]:
            changes: dict[str, Any] = {} if mesh == source.mesh else {"mesh": mesh}
            if source.model == "mixture_uneven":  # Strategies have one degree for all layers.
                changes |= {"model": "mixture"}
            if stage != source.stage:
                changes |= {"stage": stage}
                kept = {key: value for key, value in source.zero.items() if key == "offload_optimizer"}
                changes |= {"zero": kept} if source.zero != kept else {}
                changes |= {"fp32_accumulation": False} if source.fp32_accumulation else {}
            if stage == 3 and source.optimizer == "muon":  # DeepSpeed asks for it.
                changes |= {"zero": {"reduce_scatter": False}}
            if not any(reason(form, source, column) for column in columns(source, replace(source, **changes))):
                yield changes


def alike(name: str) -> tuple[str, int]:
    """Fixtures of one model at one stage, which share their cells in a short run."""
    return CASES[name].model, CASES[name].stage


def further_targets(form: str, listed: Collection[tuple[str, Case]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Further runs beside the listed ones: fixtures, and what changes in the cases of their targets."""
    covered = {(alike(name), column) for name, target in listed for column in columns(CASES[name], target)}

    def new(name: str, changes: dict[str, Any]) -> set[tuple[tuple[str, int], str]]:
        target = replace(CASES[name], **changes)
        return {(alike(name), column) for column in columns(CASES[name], target)} - covered

    def worth(name: str, changes: dict[str, Any]) -> tuple[bool, int]:
        found = len(new(name, changes))
        return found > 0 and known_fault(form, CASES[name], replace(CASES[name], **changes)) is None, found

    for name, source in CASES.items():
        left = [changes for changes in targets(form, source) if (name, replace(source, **changes)) not in listed]
        while left:
            best = left[0] if EVERY_CELL else max(left, key=partial(worth, name))
            if not EVERY_CELL and not new(name, best):
                break
            left.remove(best)
            covered |= new(name, best)
            yield name, best
