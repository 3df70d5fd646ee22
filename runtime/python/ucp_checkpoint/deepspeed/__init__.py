"""Loads a checkpoint of any topology into a running DeepSpeed engine (docs/deepspeed.md)."""

from .errors import LoadError
from .load import TESTED_VERSIONS, load_checkpoint

__all__ = ["TESTED_VERSIONS", "LoadError", "load_checkpoint"]
