"""The source of every function of this package: the programs' options for a source, as arguments of Python."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from ucp_checkpoint import _arguments
from ucp_checkpoint._ucp import Source

Path: TypeAlias = "str | bytes | os.PathLike[str] | os.PathLike[bytes]"
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
    source.path = checkpoint_at("path", path)
    source.spec = _arguments.path("spec", spec) if spec is not None else b""
    source.config = _arguments.path("config", config) if config is not None else b""
    source.set = _words("sets", sets)
    source.unused = _words("unused", _arguments.mapping("unused", unused or {}))
    source.drop_states = _arguments.texts("drop_states", drop_states)
    source.prefer_rank = _arguments.text("prefer_rank", prefer_rank, 'a text such as "tp=1"')
    return source


def checkpoint_at(name: str, path: Path) -> bytes:
    """A path, or `memory:JOB`: the newest version of a job that is whole in this machine's memory."""
    place = _arguments.path(name, path)
    if not place.startswith(b"memory:"):
        return place
    from ucp_checkpoint._tier_folder import newest_whole

    return os.fsencode(newest_whole(os.fsdecode(place.removeprefix(b"memory:"))))


def _words(name: str, settings: object) -> list[str]:
    if isinstance(settings, Mapping):
        settings = [f"{key}={_word(value)}" for key, value in _arguments.mapping(name, settings).items()]
    return _arguments.texts(name, settings, 'a mapping such as {"layers": 4}')


def _word(value: object) -> str:
    """A value as the command line has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(_word(entry) for entry in value)}]"
    return str(value)
