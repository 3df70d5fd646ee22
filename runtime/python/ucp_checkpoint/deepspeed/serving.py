"""Lets the engine's own loader read files that are nowhere but in memory."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .archive import State
from .errors import LoadError

TAG = "loaded"
TENSOR_RANK = re.compile(r"(?<=-model_)\d+(?=-model_states\.pt$)")  # In the name of a pipeline's layer.


class Served:
    """Stands in for the engine's checkpoint engine: only what its loaders call is here."""

    def __init__(self, files: dict[str, State], beside: set[str]) -> None:
        self.files = files
        self.beside = beside

    def load(self, path: str, map_location: Any = None) -> State:
        """The content of a file, which the engine takes as its own."""
        name = Path(path).name
        if name in self.beside:
            return {}  # Of the first rank, for a number of ranks in it; without one the names count.
        if name not in self.files:
            raise LoadError(f"the engine asks for `{name}`, which was not foreseen for this rank")
        return self.files[name]


def names_beside(engine: Any, files: dict[str, State]) -> set[str]:
    """Files that DeepSpeed counts before it loads its own: those of all model-parallel ranks."""
    names: set[str] = set()
    for mp in range(engine.mp_world_size):
        names.add(Path(engine._get_ckpt_name("", "", mp_placeholder=f"{mp:02d}")).name)
        names |= {TENSOR_RANK.sub(f"{mp:02d}", name) for name in files if mp < tensor_ranks(engine)}
    return names - files.keys()


def tensor_ranks(engine: Any) -> int:
    """Over how many ranks each stage is cut."""
    return int(engine.mp_world_size) // int(getattr(engine.module, "num_stages", 1))


@contextmanager
def served(engine: Any, files: dict[str, State]) -> Iterator[str]:
    """While this lasts, the engine loads from `files`. DeepSpeed looks for names in a folder before it loads any: it
    gets one with empty files."""
    own = engine.checkpoint_engine
    with tempfile.TemporaryDirectory(prefix="ucp-names-") as folder:
        place = Path(folder) / TAG
        place.mkdir()
        beside = names_beside(engine, files)
        for name in beside | files.keys():
            (place / name).touch()
        engine.checkpoint_engine = Served(files, beside)
        try:
            yield folder
        finally:
            engine.checkpoint_engine = own
