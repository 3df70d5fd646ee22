"""Converts training checkpoints, reads them into the memory of a job of another topology, and says what is in them.

No framework is imported before a tensor is asked for. Every failure is a `ucp.Error`: its text is the sentence that the
programs `ucpc` and `ucprun` would print, and its `code` says of which kind it is.
"""

from __future__ import annotations

from ucp_checkpoint._ucp import Error, OutOfMemory
from ucp_checkpoint._ucp import version as __version__

TYPE_CHECKING = False  # As type checkers know it; importing `typing` takes longer than all the rest.
if TYPE_CHECKING:
    from ucp_checkpoint._inspect import inspect
    from ucp_checkpoint._into import Filled, load_into
    from ucp_checkpoint._jobs import convert, diff, explain, verify
    from ucp_checkpoint._load import Loaded, Part, load
    from ucp_checkpoint._save import Saver, save
    from ucp_checkpoint._saving import Saving

__all__ = [
    "Error", "Filled", "Loaded", "OutOfMemory", "Part", "Saver", "Saving", "__version__", "convert", "diff", "explain",
    "inspect", "load", "load_into", "save", "verify",
]  # fmt: skip

# Imported when they are asked for: most programs need one of them, and some none.
_MODULE_OF = {"inspect": "_inspect", "Loaded": "_load", "Part": "_load", "load": "_load"}
_MODULE_OF |= {"convert": "_jobs", "diff": "_jobs", "explain": "_jobs", "verify": "_jobs"}
_MODULE_OF |= {"Filled": "_into", "load_into": "_into"}
_MODULE_OF |= {"Saver": "_save", "Saving": "_saving", "save": "_save"}
# With a framework of their own.
_MODULES = ("accelerate", "deepspeed", "ds_to_universal", "healing", "lightning", "memory", "torch", "torchtitan",
            "transformers", "zero_to_fp32")  # fmt: skip


def __getattr__(name: str) -> object:
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"ucp_checkpoint.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module `ucp` has no `{name}`")
    value = getattr(importlib.import_module(f"ucp_checkpoint.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
