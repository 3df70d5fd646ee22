"""Loads a checkpoint of any topology into a running DeepSpeed engine: `ucp.deepspeed.load_checkpoint(engine, "ckpt")`."""

from .errors import LoadError
from .load import TESTED_VERSIONS, load_checkpoint

__all__ = ["TESTED_VERSIONS", "LoadError", "load_checkpoint"]
