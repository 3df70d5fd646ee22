"""Puts back what DeepSpeed leaves alone in a universal load: frozen parameters and the persistent buffers of modules.

    engine.load_checkpoint(folder)              # "checkpoint": {"load_universal": true}
    restore_module(engine.module, folder)       # on every rank

Needs PyTorch; DeepSpeed only where parameters are partitioned (ZeRO stage 3).
"""

from __future__ import annotations

import pickle
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch


def saved_module(root: Path, *, trusted: bool) -> dict[str, Any]:
    """The entries that the folder keeps for the module: whole tensors, and extra states."""
    folder = root / (root / "latest_universal").read_text().strip()
    file = folder / "mp_rank_00_model_states.pt"
    try:
        return torch.load(file, map_location="cpu", weights_only=not trusted)["module"]
    except pickle.UnpicklingError as error:
        message = (
            f"{file} holds objects of the training script beside the tensors; "
            "pass trusted=True to load them as DeepSpeed itself does"
        )
        raise ValueError(message) from error


def partitioned(parameters: list[torch.nn.Parameter]) -> Any:
    """Gathers what ZeRO stage 3 has partitioned and distributes it again afterwards; nothing elsewhere."""
    if not any(hasattr(parameter, "ds_id") for parameter in parameters):
        return nullcontext()
    import deepspeed

    return deepspeed.zero.GatheredParameters(parameters, modifier_rank=0)


def restore_module(module: torch.nn.Module, root: str | Path, *, trusted: bool = False) -> list[str]:
    """Copies every entry of the folder's module that this rank's module has; returns their names.

    `root` is the converted folder, with `latest_universal` in it. Fails with a ValueError, before anything is copied,
    where a shape differs: a tensor that tensor parallelism cuts comes back by a native checkpoint.
    """
    saved = saved_module(Path(root), trusted=trusted)
    here = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers())}
    tensors = {name: value for name, value in saved.items() if torch.is_tensor(value) and name in here}
    for name, value in tensors.items():
        shape = getattr(here[name], "ds_shape", here[name].shape)
        if shape != value.shape:
            message = f"`{name}` is {list(shape)} in this module and {list(value.shape)} in {root}"
            raise ValueError(message)
    parameters = [here[name] for name in tensors if isinstance(here[name], torch.nn.Parameter)]
    with torch.no_grad(), partitioned(parameters):
        for name, value in tensors.items():
            if here[name].shape == value.shape:
                here[name].copy_(value)
    others = {name: value for name, value in saved.items() if not torch.is_tensor(value)}
    module.load_state_dict(others, strict=False)
    return sorted(tensors)
