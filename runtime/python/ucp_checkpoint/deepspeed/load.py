"""`load_checkpoint`: a plan for the running engine's own layout, checked against the engine before anything is written.

The engine's own loader does the rest, from files that are in memory: so steps, schedulers, loss scale, client state,
frozen parameters and buffers come to where DeepSpeed itself puts them.
"""

from __future__ import annotations

import json
import logging
import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Set
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import deepspeed
import torch
from deepspeed import comm as dist

from .. import Error, _arguments, _ucp
from .._ranks import Group
from .._source import Settings, source_from
from .._work import byte_count, thread_count
from .archive import State
from .checks import Opened, Wanted, checked
from .errors import LoadError
from .failing import make_unusable, make_usable
from .files import PlannedFiles
from .held import has_optimizer, held_by, model_file
from .ranks import Outcome, phase
from .serving import TAG, served
from .strategy import strategy_of
from .waiting import impatient
from .weights import fill_partitions, kept_counters, masters_alone, refresh_masters

# The fields that are read and written here are DeepSpeed's own affair, and others in other versions.
TESTED_VERSIONS = ("0.19.2", "0.19.8")


def load_checkpoint(
    engine: Any,
    load_dir: str | os.PathLike[str],
    tag: str | None = None,
    load_module_strict: bool = True,
    load_optimizer_states: bool = True,
    load_lr_scheduler_states: bool = True,
    load_module_only: bool = False,
    custom_load_fn: Any = None,
    *,
    spec: str | os.PathLike[str] | None = None,
    layout: str | None = None,
    sets: Settings = (),
    config: str | os.PathLike[str] | None = None,
    unused: Mapping[str, str | int] | None = None,
    prefer_rank: str = "",
    verify: bool = False,
    threads: int | None = None,
    memory: int | str = "1GiB",
    report: dict[str, Any] | None = None,
) -> tuple[str, dict[str, Any]]:
    """Loads a checkpoint of any topology and ZeRO stage into a running engine; all its ranks call it.

    Arguments and what is returned are those of `engine.load_checkpoint`; the further ones those of `ucp.load`.
    `layout` is that of the engine's model, where the checkpoint has another layout of the spec's model. With `verify`
    all bytes are read and checked before the first is written to the engine. A dict that is given as `report` is
    filled. Raises LoadError on every rank; before the first tensor is overwritten nothing is lost.
    """
    wanted = Wanted(load_module_strict, load_optimizer_states, load_lr_scheduler_states, load_module_only)
    folder = str(Path(load_dir) / tag) if tag else str(load_dir)
    told = report if report is not None else {}
    with ExitStack() as during:
        group = during.enter_context(Group(torch.distributed.group.WORLD, "ucp.deepspeed.load_checkpoint"))
        with phase(group) as outcome:
            check_version()
            strategy = strategy_of(engine)
            if layout is not None:
                strategy += f",layout={_arguments.text('layout', layout, 'the name of a layout')}"
            outcome.asked = f"{folder}, {wanted}, verify={verify}, {strategy}"
            source = source_from(folder, spec=spec, sets=sets, config=config, unused=unused, prefer_rank=prefer_rank)
            how = thread_count(threads), byte_count(memory), verify
        with phase(group):
            held = held_by(engine)
            settings = during.enter_context(settings_file(engine))
        with phase(group):
            planned = plan_for(settings, source, strategy, group, held.keys(), how)
        with phase(group):
            opened = checked(engine, planned, held, wanted)
            placed = [] if verify else in_place(planned, opened, held)
        is_changing = bool(placed)
        try:
            with phase(group) as outcome:
                told |= read(planned, opened, placed, how, group, outcome)
            is_changing = True
            with phase(group) as outcome:
                outcome.overwritten = [name for name, _ in engine.module.named_parameters()]
                with impatient(group):
                    client = take(engine, opened.files, wanted, opened.weights_alone, custom_load_fn)
        except LoadError as error:
            if error.is_engine_changed:
                make_unusable(engine, error.overwritten)
            raise
        except BaseException:  # Ctrl-C: who knows how far it came.
            if is_changing:
                make_unusable(engine, [name for name, _ in engine.module.named_parameters()])
            raise
    make_usable(engine)
    remarks = [*planned.plan.remarks, *filter(None, [opened.remark])]
    told |= {"strategy": strategy, "remarks": remarks, "in_place": placed, "left_out": planned.plan.left_out}
    told["weights_alone"] = opened.weights_alone
    tell(told)
    return planned.plan.source_folder, client


def check_version() -> None:
    """Refuses a DeepSpeed that this was not tested with."""
    version = deepspeed.__version__.split("+")[0]
    if version not in TESTED_VERSIONS:
        tested = ", ".join(TESTED_VERSIONS)
        raise LoadError(f"DeepSpeed {version} is not one that ucp.deepspeed was tested with ({tested}): convert the "
                        "checkpoint with `ucprun convert`, and load that")  # fmt: skip


@contextmanager
def settings_file(engine: Any) -> Iterator[str]:
    """The engine's own settings as a file, while this lasts; its name."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", prefix="ucp-") as file:
        json.dump(finite(engine.config), file, default=str)
        file.flush()
        yield file.name


def finite(value: Any) -> Any:
    """Without numbers that JSON lacks: Accelerate sets `steps_per_print` to infinity."""
    if isinstance(value, Mapping):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plan_for(
    settings: str, source: _ucp.Source, strategy: str, group: Group, needed: Set[str], how: tuple[int, int, bool]
) -> PlannedFiles:
    """Made by the first rank, which gives each its part. Engines may count their ranks otherwise than the plan does:
    `needed` are the files that this rank loads."""
    target = _ucp.Target()
    target.tag = TAG
    target.ds_config = group.all_gather(os.fsencode(settings))[0]  # The first rank's is read.
    threads, _, verify = how
    try:
        # Copies belong to the plan; whether they are compared is the load's affair.
        plan = _ucp.compile_load(source, strategy, target, True, group.ranks, sorted(needed), verify, threads)
        return PlannedFiles(plan)
    except Error as error:  # Nobody but this function knows of the file.
        said = str(error).replace(f"`{os.fsdecode(target.ds_config)}`", "the engine's configuration")
        raise LoadError(said, code=error.code) from None


def in_place(planned: PlannedFiles, opened: Opened, held: dict[str, State]) -> list[str]:
    """Lets the engine's own tensors stand for those of the files, where they can; returns which."""
    placed = []
    for name, file in opened.files.items():
        placed += [place.removeprefix("module.") for place in planned.place(file, held[name])]
    return placed


def read(
    planned: PlannedFiles, opened: Opened, placed: list[str], how: tuple[int, int, bool], group: Group, outcome: Outcome
) -> dict[str, Any]:
    """All elements into their places."""
    outcome.overwritten = placed
    try:
        return _ucp.load(planned.plan, planned.memory_for(opened.files.values()), *how, group.ranks)
    except Error as error:
        if error.code == "usage":  # Such as too little memory: said before anything is read.
            outcome.overwritten = []
        raise


def take(engine: Any, files: dict[str, State], wanted: Wanted, weights_alone: bool, custom: Any) -> dict[str, Any]:
    """The engine's own loader, from memory; returns the client state."""
    stage = engine.zero_optimization_stage()
    states = wanted.states and has_optimizer(engine)
    module_only, scheduler = wanted.module_only, wanted.scheduler
    with ExitStack() as during:
        place = during.enter_context(served(engine, files))
        if weights_alone:
            during.enter_context(kept_counters(engine))
            states, module_only, scheduler = True, True, False
            if stage == 3:
                fill_partitions(files[model_file(engine)], engine)
        elif stage == 3 and not wanted.optimizer:
            during.enter_context(masters_alone(engine))
            states, module_only = True, False
            if wanted.module_only:
                during.enter_context(kept_counters(engine))
                scheduler = False
        client: dict[str, Any] = engine.load_checkpoint(
            place,
            tag=TAG,
            load_module_strict=wanted.strict,
            load_optimizer_states=states,
            load_lr_scheduler_states=scheduler,
            load_module_only=module_only,
            custom_load_fn=custom,
        )[1]
    if stage == 0 and has_optimizer(engine) and (weights_alone or not wanted.optimizer):
        refresh_masters(engine)
    return client


def tell(report: dict[str, Any]) -> None:
    """The first rank says what was done."""
    if dist.get_rank() == 0:
        log = logging.getLogger("ucp_checkpoint")
        for remark in report["remarks"]:
            log.warning(remark)
        if report["weights_alone"]:
            log.warning("the checkpoint has weights alone: steps and optimizer states are what they were")
        if report["as_stored"]:
            log.info("nothing had to be converted: the checkpoint has what this engine would save, in the same files")
        log.info("%s bytes in %.2f s", report["bytes_placed"], report["seconds"])
