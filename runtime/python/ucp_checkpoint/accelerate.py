"""`load_state`: Accelerate goes on, under DeepSpeed, from what `save_state()` wrote at any topology."""

from __future__ import annotations

import os
from typing import Any

from ucp_checkpoint import _arguments
from ucp_checkpoint._failure import failure


def load_state(accelerator: Any, folder: str | os.PathLike[str], **options: Any) -> None:
    """Takes the place of `accelerator.load_state(folder)`, after `prepare()`.

    The folder may have been saved by another number of processes and at another ZeRO stage. All processes call it.
    `options` are the further arguments of `ucp.deepspeed.load_checkpoint`, such as `spec`.
    """
    path = os.fsdecode(_arguments.path("folder", folder))
    if not os.path.isdir(path):
        raise failure("io", f"`{path}` does not exist, or is not a folder")
    kind = str(getattr(accelerator.distributed_type, "value", accelerator.distributed_type))
    if kind != "DEEPSPEED":
        raise failure("unsupported", f"this Accelerator runs with {kind}, and not with DeepSpeed")
    from ucp_checkpoint import deepspeed

    with deepspeed.any_topology(**options):
        accelerator.load_state(path)
