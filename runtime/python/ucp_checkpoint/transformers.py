"""`resume`: the Trainer of transformers goes on, under DeepSpeed, from a `checkpoint-N` of any topology.

`memory_tier`: it keeps its state in the memory of its machines, and goes on from there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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


@contextmanager
def memory_tier(trainer: Any, *, load: Mapping[str, Any] | None = None, **settings: Any) -> Iterator[str | None]:
    """A `ucp.memory.Tier` around `trainer.train()`; gives what that takes as `resume_from_checkpoint`.

    `with memory_tier(trainer, job="llama") as newest: trainer.train(resume_from_checkpoint=newest)`: the Trainer goes
    on from the newest version of the job, if there is one, and keeps versions. It may run under DeepSpeed, on any
    number of processes and at any ZeRO stage, with FSDP 2 or DistributedDataParallel, or as one process. `settings` are
    those of the tier; `load` has further arguments of `ucp.deepspeed.load_checkpoint`, such as `spec`. Versions are
    removed at the end, unless an error ends it. All processes call it.
    """
    is_fsdp1 = trainer.is_fsdp_enabled and trainer.accelerator.state.fsdp_plugin.fsdp_version == 1
    if is_fsdp1 or (not trainer.is_deepspeed_enabled and trainer.args.n_gpu > 1):
        runs, other = ("with FSDP 1", "FSDP 2") if is_fsdp1 else ("with DataParallel", "DistributedDataParallel")
        raise failure("unsupported", f"this Trainer runs {runs}, of which it keeps no versions; take {other}")
    if "extra" in settings:
        raise failure("usage", "`extra` holds Trainer's own files here; a callback keeps values by ExportableState")
    from ucp_checkpoint._trainer_tier import TrainerTier

    kept = TrainerTier(trainer, dict(load or {}), settings)
    with kept, kept.lent():
        yield kept.folder()
