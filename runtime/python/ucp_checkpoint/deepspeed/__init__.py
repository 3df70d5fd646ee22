"""Loads a checkpoint of any topology into a running DeepSpeed engine (docs/deepspeed.md)."""

from .anywhere import any_topology
from .errors import LoadError
from .load import TESTED_VERSIONS, load_checkpoint

__all__ = ["TESTED_VERSIONS", "LoadError", "any_topology", "load_checkpoint"]
