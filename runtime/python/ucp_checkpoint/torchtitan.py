"""`CheckpointManager`: TorchTitan's own, which starts a job from any checkpoint that ucp reads."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from functools import partial
from typing import Any

from torchtitan.components.checkpoint import CheckpointManager as TorchTitans

from ucp_checkpoint.torch import StorageReader


class CheckpointManager(TorchTitans):  # type: ignore[misc]  # It has no types.
    """In a job's configuration, `checkpoint=CheckpointManager.Config(initial_load_path=…, …)`.

    A folder at `initial_load_path` without the `.metadata` of torch.distributed.checkpoint is read by
    `ucp.torch.StorageReader`; `spec` is its argument. TorchTitan itself loads all others.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(TorchTitans.Config):  # type: ignore[misc]
        """TorchTitan's own, and a spec."""

        spec: str = ""

    def __init__(self, config: Config, **parts: Any) -> None:
        super().__init__(config, **parts)
        self._spec = config.spec or None

    def dcp_load(self, state_dict: dict[str, Any], checkpoint_id: str, from_hf: bool, from_quantized: bool) -> None:
        """Fills the states, and gives the model its own."""
        own = partial(super().dcp_load, state_dict, checkpoint_id, from_hf, from_quantized)
        is_local = os.path.isdir(checkpoint_id)
        if from_hf or not is_local or os.path.exists(os.path.join(checkpoint_id, ".metadata")):
            own()
            return
        dcp: Any = importlib.import_module("torch.distributed.checkpoint")
        load = dcp.load
        dcp.load = partial(load, storage_reader=StorageReader(checkpoint_id, style="titan", spec=self._spec))
        try:
            own()
        finally:
            dcp.load = load
