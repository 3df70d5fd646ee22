"""Loads checkpoints of any topology into a running DeepSpeed engine, and saves it in any format (docs/deepspeed.md)."""

from .anywhere import any_topology
from .errors import LoadError
from .load import TESTED_VERSIONS, load_checkpoint
from .save import save_checkpoint
from .tier import memory_tier

__all__ = ["TESTED_VERSIONS", "LoadError", "any_topology", "load_checkpoint", "memory_tier", "save_checkpoint"]
