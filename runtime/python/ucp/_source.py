"""What a source is, as all functions of this package are told it: the options of the programs, as Python has them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from ucp._ucp import Source

Path: TypeAlias = "str | os.PathLike[str]"
# {"layers": 4, "tied": True}, or as on the command line: ["layers=4", "tied=true"].
Settings: TypeAlias = "Mapping[str, object] | Iterable[str]"


def source_from(
    path: Path,
    *,
    spec: Path | None = None,
    sets: Settings = (),
    config: Path | None = None,
    unused: Mapping[str, str | int] | None = None,
    drop_states: Iterable[str] = (),
    prefer_rank: str = "",
) -> Source:
    """The options of the programs of the same names."""
    source = Source()
    source.path = os.fspath(path)
    source.spec = os.fspath(spec) if spec is not None else ""
    source.config = os.fspath(config) if config is not None else ""
    source.set = _words(sets)
    source.unused = _words(unused or {})
    source.drop_states = [drop_states] if isinstance(drop_states, str) else list(drop_states)
    source.prefer_rank = prefer_rank
    return source


def _words(settings: Settings) -> list[str]:
    if isinstance(settings, str):
        return [settings]
    if isinstance(settings, Mapping):
        return [f"{name}={_word(value)}" for name, value in settings.items()]
    return list(settings)


def _word(value: object) -> str:
    """A value as the command line has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(_word(entry) for entry in value)}]"
    return str(value)
