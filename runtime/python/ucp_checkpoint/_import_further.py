"""Values of a configuration, each with others to try in its place while all the rest stays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ucp_checkpoint._import_configs import Path, other_sizes, per_layer, place_of, some_layers
from ucp_checkpoint._import_model import SEEN, Imported
from ucp_checkpoint._import_models import NAMES, TIED

LONG = 24  # Characters of a value in a message.


@dataclass
class Change:
    """One value and the others, in the order in which they are tried."""

    imported: Imported
    path: Path
    value: Any
    others: list[Any]
    is_followed: bool  # A dim or a fact of the spec reads it.

    @property
    def name(self) -> str:
        return ".".join(map(str, self.path))

    @property
    def is_linked(self) -> bool:
        """Whether it has to equal another value."""
        return len(self.imported.family.with_linked(self.path, None)) > 1

    def text(self) -> str:
        """For the spec, where it holds for the value alone."""
        return f"{self.name} {self.shown(self.value)}"

    def shown(self, value: Any) -> str:
        text = json.dumps(value)
        return text if len(text) <= LONG else text[: LONG - 1] + "…"

    def configs(self) -> Iterator[tuple[dict[str, Any], Any]]:
        """The configurations with another value, None for one that is not given; then those in which the values that
        have to be equal to it change with it."""
        family = self.imported.family
        for value in self.others:
            given = family.config(SEEN, {self.path: value}) if value is not None else None
            yield given or self.imported.without(SEEN, self.path), value
        several = family.with_linked(self.path, None)
        for value in self.others if self.is_linked and self.others != [None] else ():
            yield family.config(SEEN, dict.fromkeys(several, value)), value

    def written(self, given: dict[str, Any], value: Any) -> dict[str, Any]:
        """A configuration as the `config.json` of a checkpoint has it."""
        config: dict[str, Any] = self.imported.model.config_class.from_dict(given).to_dict()
        if self.imported.model.can_tie:
            config[TIED] = False
        inside = place_of(config, self.path) if value is None else None
        if inside is not None:
            inside.pop(self.path[-1], None)
        return config


def changes(imported: Imported) -> Iterator[Change]:
    """All of the values that say something of tensors, and those that the spec reads once more without them."""
    config = imported.family.config(SEEN)
    for path, value in _values(config):
        name = ".".join(map(str, path))
        is_size = name in imported.dims.names and path in imported.family.knobs
        if path != (TIED,) and (others := _others(value, is_size=is_size)):
            yield Change(imported, path, value, others, is_size)
        if is_size and imported.dims.follows_others(name):
            yield Change(imported, path, value, [None], True)
    for path, entries in per_layer(config):
        if len(set(map(str, entries))) > 1:
            is_fact = ".".join(path) in imported.conditions.facts
            yield Change(imported, path, entries, [entries[1:] + entries[:1]], is_fact)
    for path, entries, count in some_layers(config):
        is_fact = ".".join(path) in imported.conditions.facts
        yield Change(imported, path, entries, [sorted((i + 1) % count for i in entries)], is_fact)


def _values(config: dict[str, Any], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    for key, value in config.items():
        if isinstance(value, dict) and key not in NAMES:
            yield from _values(value, (*path, key))
        elif isinstance(value, (bool, int, float)):
            yield (*path, key), value


def _others(value: Any, *, is_size: bool) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        few = [other for other in (2 * value or 1, value - 1) if other not in (0, value)]
        return other_sizes(value) if is_size else few
    return [2 * value, value / 2] if value else [0.5]
