"""`load_checkpoint`: a plan for the running engine's own layout, checked against the engine before anything is written.

The engine's own loader does the rest, from files that are in memory: so steps, schedulers, loss scale, client state,
frozen parameters and buffers come to where DeepSpeed itself puts them.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deepspeed

from .compare import check_model, check_names, check_optimizer, check_shapes
from .errors import LoadError
from .failing import make_unusable, make_usable
from .files import ConvertedFiles
from .held import State, held_by, model_file, optimizer_file
from .ranks import phase
from .serving import TAG, served
from .strategy import strategy_of
from .weights import (
    add_second_names,
    check_partitions,
    fill_partitions,
    has_weights_alone,
    kept_counters,
    masters_alone,
    refresh_masters,
)

# The fields that are read and written here are DeepSpeed's own affair, and others in other versions.
TESTED_VERSIONS = ("0.19.8",)


@dataclass(frozen=True)
class Wanted:
    """What of a checkpoint is loaded: the arguments of the engine's own function."""

    strict: bool
    states: bool
    scheduler: bool
    module_only: bool

    @property
    def optimizer(self) -> bool:
        return self.states and not self.module_only


def load_checkpoint(
    engine: Any,
    load_dir: str | Path,
    tag: str | None = None,
    load_module_strict: bool = True,
    load_optimizer_states: bool = True,
    load_lr_scheduler_states: bool = True,
    load_module_only: bool = False,
    custom_load_fn: Any = None,
    *,
    spec: str | Path | None = None,
    sets: dict[str, Any] | None = None,
) -> tuple[str, dict[str, Any]]:
    """Loads a checkpoint of any topology and ZeRO stage into a running engine, on all its ranks.

    Arguments and what is returned are those of `engine.load_checkpoint`; `spec` and `sets` are what `ucprun convert`
    calls `--spec` and `--set`. Raises LoadError on every rank; before the first tensor is overwritten nothing is lost.
    """
    wanted = Wanted(load_module_strict, load_optimizer_states, load_lr_scheduler_states, load_module_only)
    folder = str(Path(load_dir) / tag) if tag else str(load_dir)
    with phase() as outcome:
        check_version()
        strategy = strategy_of(engine)
        outcome.asked = f"{folder}, {wanted}, {strategy}"
    options = ["--spec", str(spec)] if spec else []
    for name, value in (sets or {}).items():
        options += ["--set", f"{name}={value}"]
    files = ConvertedFiles(folder, strategy, engine.config, options)
    try:
        with phase():
            content, weights_alone = checked(engine, files, wanted)
        try:
            with phase() as outcome:
                outcome.overwritten = [name for name, _ in engine.module.named_parameters()]
                client = take(engine, files, content, wanted, weights_alone, custom_load_fn)
        except LoadError as error:
            make_unusable(engine, error.overwritten)
            raise
    finally:
        files.close()
    make_usable(engine)
    return folder, client


def check_version() -> None:
    """Refuses a DeepSpeed that this was not tested with."""
    version = deepspeed.__version__.split("+")[0]
    if version not in TESTED_VERSIONS:
        tested = ", ".join(TESTED_VERSIONS)
        raise LoadError(f"DeepSpeed {version} is not one that ucp.deepspeed was tested with ({tested}): convert the "
                        "checkpoint with `ucprun convert`, and load that")  # fmt: skip


def checked(engine: Any, files: ConvertedFiles, wanted: Wanted) -> tuple[dict[str, State], bool]:
    """The files that this rank loads, in the form of what the engine holds, and whether they are weights alone."""
    held = held_by(engine)
    model, optimizer = model_file(engine), optimizer_file(engine)
    stage = engine.zero_optimization_stage()
    if missing := [name for name in (model,) if name not in files.names]:
        raise LoadError(f"the checkpoint as this engine loads it has no `{missing[0]}`")
    content = {model: files.open(model)}
    alone = has_weights_alone(content[model], engine) and engine.optimizer is not None
    needs_optimizer = not alone and (wanted.optimizer or stage == 3)
    for name in held.keys() - {model}:
        if name == optimizer and not needs_optimizer:
            continue
        if name not in files.names:
            raise LoadError(f"the checkpoint as this engine loads it has no `{name}`")
        content[name] = files.open(name)
    if content[model].get("module") is not None and alone:
        add_second_names(content[model]["module"], engine)
    if alone:
        content[model].pop("param_shapes")
        if stage == 3:
            check_partitions(content[model], engine)
    check_model(content[model], held[model], model, wanted.strict, stage == 3)
    for name in content.keys() - {model, optimizer}:
        if wanted.strict:
            check_names(content[name], held[name], f"`{name}`")
        check_shapes(content[name], held[name], "")
    if needs_optimizer and optimizer:
        key = "optimizer_state_dict" if stage > 0 else "optimizer"
        check_optimizer(content[optimizer][key], held[optimizer][key], optimizer)
    elif needs_optimizer:
        check_optimizer(content[model]["optimizer"], held[model]["optimizer"], model)
    loads_scheduler = wanted.scheduler and not wanted.module_only and not alone and engine.lr_scheduler is not None
    if loads_scheduler and content[model].get("lr_scheduler") is None:
        raise LoadError("the engine has a learning-rate scheduler, and the checkpoint has none; "
                        "load_lr_scheduler_states=False keeps the engine's")  # fmt: skip
    return content, alone


def take(
    engine: Any, files: ConvertedFiles, content: dict[str, State], wanted: Wanted, weights_alone: bool, custom: Any
) -> dict[str, Any]:
    """The engine's own loader, from memory; returns the client state."""
    stage = engine.zero_optimization_stage()
    model = content[model_file(engine)]
    with ExitStack() as during:
        place = during.enter_context(served(engine, content, files.names))
        states, module_only, scheduler = wanted.states, wanted.module_only, wanted.scheduler
        if weights_alone:
            during.enter_context(kept_counters(engine))
            states, module_only, scheduler = True, True, False
            if stage == 3:
                fill_partitions(model, engine)
        elif stage == 3 and not wanted.optimizer:
            during.enter_context(masters_alone(engine))
            states, module_only = True, False
            if wanted.module_only:
                during.enter_context(kept_counters(engine))
                scheduler = False
        _, client = engine.load_checkpoint(
            place,
            tag=TAG,
            load_module_strict=wanted.strict,
            load_optimizer_states=states,
            load_lr_scheduler_states=scheduler,
            load_module_only=module_only,
            custom_load_fn=custom,
        )
    if stage == 0 and (weights_alone or not wanted.optimizer):
        refresh_masters(engine)
    return client
