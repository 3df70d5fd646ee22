"""`load_state`: Accelerate goes on, under DeepSpeed or FSDP, from what `save_state()` wrote under either of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from ucp_checkpoint import _arguments
from ucp_checkpoint._failure import failure

DEEPSPEED_TAG = "pytorch_model"


def load_state(accelerator: Any, folder: str | os.PathLike[str], **options: Any) -> None:
    """Takes the place of `accelerator.load_state(folder)`, after `prepare()`.

    The folder may have been saved by another number of processes, at another ZeRO stage, or by FSDP for DeepSpeed and
    the other way round; it may also be a checkpoint of another form that ucp reads, if what Accelerate keeps beside the
    model is there. All processes call it. `options` are further arguments of `ucp.deepspeed.load_checkpoint` or
    `ucp.torch.StorageReader`, such as `spec`.
    """
    path = os.fsdecode(_arguments.path("folder", folder))
    if not os.path.isdir(path):
        raise failure("io", f"`{path}` does not exist, or is not a folder")
    with _loading(accelerator, path, options):
        accelerator.load_state(path)


def _loading(accelerator: Any, path: str, options: dict[str, Any]) -> AbstractContextManager[None]:
    kind = str(getattr(accelerator.distributed_type, "value", accelerator.distributed_type))
    if kind == "DEEPSPEED":
        from ucp_checkpoint import deepspeed

        is_own = os.path.isdir(os.path.join(path, DEEPSPEED_TAG))
        return deepspeed.any_topology(tags=is_own, **options)
    if kind != "FSDP":
        raise failure("unsupported", f"this Accelerator runs with {kind}, and neither with DeepSpeed nor with FSDP")
    form = accelerator.state.fsdp_plugin.state_dict_type
    if getattr(form, "name", form) != "SHARDED_STATE_DICT":
        raise failure(
            "unsupported",
            f"the FSDP plugin has state_dict_type={getattr(form, 'name', form)}, and Accelerate loads from a folder of "
            "parts with SHARDED_STATE_DICT alone",
        )
    return _read_by_ucp(path, options)


@contextmanager
def _read_by_ucp(path: str, options: dict[str, Any]) -> Iterator[None]:
    """While this lasts, Accelerate's two loads of torch.distributed.checkpoint read this folder by ucp."""
    import importlib

    from ucp_checkpoint.torch import StorageReader

    reader = StorageReader(path, style="accelerate", **options)
    dcp: Any = importlib.import_module("torch.distributed.checkpoint")
    own = dcp.FileSystemReader
    dcp.FileSystemReader = lambda *_, **__: reader
    try:
        yield
    finally:
        dcp.FileSystemReader = own
