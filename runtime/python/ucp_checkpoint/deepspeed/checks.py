"""Opens the files that this rank loads, and compares them with what the engine holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .archive import State
from .compare import check_model, check_names, check_optimizer, check_shapes, keep_frozen
from .errors import LoadError
from .experts import FOLDING
from .files import PlannedFiles
from .held import has_optimizer, model_file, optimizer_file
from .weights import add_second_names, check_partitions, has_weights_alone


@dataclass(frozen=True)
class Wanted:
    """The parts of a checkpoint to load: the arguments of the engine's own function."""

    strict: bool
    states: bool
    scheduler: bool
    module_only: bool

    @property
    def optimizer(self) -> bool:
        """Whether its states are wanted."""
        return self.states and not self.module_only


@dataclass
class Opened:
    """The files of this rank, by name, with memory that has no values yet."""

    files: dict[str, State]
    weights_alone: bool
    remark: str | None


def checked(engine: Any, planned: PlannedFiles, held: dict[str, State], wanted: Wanted) -> Opened:
    """Returns the files that the engine will load, checked to have the form of the state that the engine holds."""
    model, optimizer = model_file(engine), optimizer_file(engine)
    stage = engine.zero_optimization_stage()
    files = {model: planned.open(model)}
    alone = has_optimizer(engine) and has_weights_alone(files[model], engine)
    needs_optimizer = has_optimizer(engine) and not alone and (wanted.optimizer or stage == 3)
    files |= {name: planned.open(name) for name in held if name != model and (name != optimizer or needs_optimizer)}
    if alone:
        prepare_weights(files[model], engine)
    elif not needs_optimizer and stage == 0:
        files[model]["optimizer"] = None  # Not read.
    remark = None if wanted.strict or alone else keep_frozen(files[model], held[model])
    check_model(files[model], held[model], model, wanted.strict, stage == 3)
    for name in files.keys() - {model, optimizer}:
        if wanted.strict:
            tensors = {key: value for key, value in files[name].items() if key != FOLDING}
            check_names(tensors, held[name], f"`{name}`")
        check_shapes(files[name], held[name], "")
    if needs_optimizer:
        place, key = (optimizer or model), "optimizer_state_dict" if stage > 0 else "optimizer"
        check_optimizer(files[place][key], held[place][key], place)
        if stage == 3 and not wanted.optimizer:
            del files[place][key]["optimizer_state_dict"]  # Masters alone are read.
    loads_scheduler = wanted.scheduler and not wanted.module_only and not alone and engine.lr_scheduler is not None
    if loads_scheduler and files[model].get("lr_scheduler") is None:
        raise LoadError("the engine has a learning-rate scheduler, and the checkpoint has none; "
                        "load_lr_scheduler_states=False keeps the engine's")  # fmt: skip
    return Opened(files, alone, remark)


def prepare_weights(model: State, engine: Any) -> None:
    """The file of a source that has weights alone."""
    model.pop("param_shapes")
    model["optimizer"] = None
    if model.get("module") is not None:
        add_second_names(model["module"], engine)
    if engine.zero_optimization_stage() == 3:
        check_partitions(model, engine)
