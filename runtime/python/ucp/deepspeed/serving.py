"""Lets the engine's own loader read files that are nowhere but in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from .errors import LoadError
from .held import State

TAG = "loaded"


class Served:
    """Stands in for the engine's checkpoint engine: only what its loaders call is here."""

    def __init__(self, files: dict[str, State]) -> None:
        self.files = files

    def load(self, path: str, map_location: Any = None) -> State:
        """The content of a file, which the engine takes as its own."""
        name = Path(path).name
        if name not in self.files:
            raise LoadError(f"the engine asks for `{name}`, which was not foreseen for this rank")
        return self.files[name]


@contextmanager
def served(engine: Any, files: dict[str, State], names: list[str]) -> Iterator[str]:
    """While this lasts, the engine loads from `files`. DeepSpeed looks for names in a folder before it loads any: it
    gets one with empty files."""
    own = engine.checkpoint_engine
    models = Path(engine._get_ckpt_name("", "", mp_placeholder="*")).name
    with tempfile.TemporaryDirectory(prefix="ucp-names-") as folder:
        place = Path(folder) / TAG
        place.mkdir()
        for name in names:
            if name in files or fnmatch(name, models) or name.startswith("layer_"):
                (place / name).touch()
        engine.checkpoint_engine = Served(files)
        try:
            yield folder
        finally:
            engine.checkpoint_engine = own
