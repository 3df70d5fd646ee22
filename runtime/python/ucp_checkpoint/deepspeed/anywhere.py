"""`any_topology`: the loads of a framework that calls `engine.load_checkpoint()` by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from deepspeed.runtime.engine import DeepSpeedEngine

from .load import load_checkpoint


@contextmanager
def any_topology(*, tags: bool = True, **options: Any) -> Iterator[None]:
    """While this lasts, `load_checkpoint()` of every DeepSpeed engine in this process is the one of this package.

    So what a framework loads may be of any topology. With tags=False the tag that the framework names does not count:
    the folder itself says which checkpoint it holds. `options` are the further arguments of
    `ucp.deepspeed.load_checkpoint`, such as `spec`. All ranks of the job enter it.
    """
    own = DeepSpeedEngine.load_checkpoint
    loading: set[int] = set()  # Engines of which load_checkpoint() has called their own.

    def load(engine: Any, load_dir: Any, tag: str | None = None, *positional: Any, **named: Any) -> Any:
        if id(engine) in loading:
            return own(engine, load_dir, tag, *positional, **named)
        loading.add(id(engine))
        try:
            return load_checkpoint(engine, load_dir, tag if tags else None, *positional, **(named | options))
        finally:
            loading.remove(id(engine))

    DeepSpeedEngine.load_checkpoint = load
    try:
        yield
    finally:
        DeepSpeedEngine.load_checkpoint = own
