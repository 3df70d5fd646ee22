"""The states of an optimizer that a load fills, made if it has made no step yet, and the settings of its groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ucp_checkpoint._failure import failure
from ucp_checkpoint._module import unwrapped

if TYPE_CHECKING:
    import torch

    from ucp_checkpoint._target import Target


@dataclass
class OptimizerStates:
    """The states of an optimizer by the names of torch.distributed.checkpoint.state_dict."""

    optimizer: torch.optim.Optimizer
    was_fresh: bool  # It had made no step, and its states were made for the load.
    without_state: set[str] = field(default_factory=set)  # Trained parameters, where others have states.

    def forget(self) -> None:
        """After an error: as it was."""
        if self.was_fresh:
            self.optimizer.state.clear()

    def refuse_unfilled(self, not_loaded: Mapping[str, list[str]]) -> None:
        for name in sorted(self.without_state & not_loaded.keys()):
            if states := [state for state in not_loaded[name] if state not in ("weight", "fp32")]:
                raise failure(
                    "usage",
                    f"the optimizer has made steps, but has no states for `{name}`, and the checkpoint has "
                    f"{', '.join(states)}; load into an optimizer that has made no step",
                )


def add_optimizer(places: Target, model: object, optimizer: torch.optim.Optimizer) -> OptimizerStates:
    """The states are made if there are none before the first step."""
    import torch
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    if not isinstance(model, torch.nn.Module):
        raise failure("usage", "with an optimizer the target is its module, which gives its states their names")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise failure("usage", f"optimizer= is a {type(optimizer).__name__} and no torch.optim.Optimizer")
    made = OptimizerStates(optimizer, was_fresh=not optimizer.state)
    named: Any  # Nested dicts, whose declared type cannot say which level is what.
    # PyTorch makes no states while there are gradients.
    gradients = [(parameter, parameter.grad) for group in optimizer.param_groups for parameter in group["params"]]
    try:
        for parameter, _ in gradients:
            parameter.grad = None
        named = get_optimizer_state_dict(model, optimizer)
    except BaseException as error:
        made.forget()
        if not isinstance(error, Exception):  # Ctrl-C.
            raise
        raise failure(
            "unsupported",
            f"PyTorch does not give the states of this optimizer names ({type(error).__name__}: {error}); is it the "
            "module's own?",
        ) from error
    finally:
        for parameter, gradient in gradients:
            parameter.grad = gradient
    try:
        for name, states in named["state"].items():
            for state, value in states.items():
                label = f"{name}/{state}"
                if state != "step":
                    places.add(label, name, state, value)
                    continue
                if not isinstance(value, torch.Tensor):
                    raise failure("unsupported", f"`{label}` is a {type(value).__name__}; only tensors are filled")
                if made.was_fresh:
                    value.zero_()
                if not places.is_kept(label):
                    places.steps.append((label, value))
    except BaseException:
        made.forget()
        raise
    if named["state"]:
        bare = unwrapped(model)
        trained = {bare(name) for name, parameter in model.named_parameters() if parameter.requires_grad}
        of_groups = {name for group in named["param_groups"] for name in group["params"]}
        made.without_state = (trained & of_groups) - {name for name, states in named["state"].items() if states}
    return made


def settings_of(group: Mapping[str, Any]) -> dict[str, Any]:
    """Of a group of an optimizer: all but its parameters."""
    return {name: value for name, value in group.items() if name not in ("params", "param_names")}


def give_settings(group: dict[str, Any], settings: Mapping[str, Any]) -> None:
    """A learning rate that is a tensor stays that tensor."""
    import torch

    for name, value in settings.items():
        if isinstance(group.get(name), torch.Tensor):
            group[name].fill_(float(value))
        elif name in group:
            group[name] = value
