"""`resume`: the Trainer of transformers goes on, under DeepSpeed, from a `checkpoint-N` of any topology."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ucp_checkpoint import _arguments
from ucp_checkpoint._failure import failure

STATE = "trainer_state.json"


def resume(trainer: Any, checkpoint: str | os.PathLike[str] | bool = True, **options: Any) -> Any:
    """Takes the place of `trainer.train(resume_from_checkpoint=checkpoint)`, and returns what that returns.

    The checkpoint may have been saved by another number of processes and at another ZeRO stage; True is the last one in
    the Trainer's output folder. All processes call it. `options` are the further arguments of
    `ucp.deepspeed.load_checkpoint`, such as `spec`. A best model that is loaded at the end may also be of any topology.
    """
    if checkpoint is not True:
        folder = Path(os.fsdecode(_arguments.path("checkpoint", checkpoint)))
        if not (folder / STATE).is_file():
            raise failure(
                "usage", f"`{folder}` has no `{STATE}`, from which Trainer takes its step; name a `checkpoint-N`"
            )
        checkpoint = str(folder)
    if not trainer.is_deepspeed_enabled:
        raise failure(
            "unsupported",
            "this Trainer runs without DeepSpeed, and loads what it saved by "
            "`trainer.train(resume_from_checkpoint=…)`; `ucprun convert` writes other forms",
        )
    from ucp_checkpoint import deepspeed

    with deepspeed.any_topology(**options):
        return trainer.train(resume_from_checkpoint=checkpoint)
