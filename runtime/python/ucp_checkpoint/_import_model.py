"""A model of transformers as the text of a spec."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from ucp_checkpoint._failure import failure
from ucp_checkpoint._import_configs import COUNT, integers, place_of
from ucp_checkpoint._import_cuts import cut
from ucp_checkpoint._import_family import Family
from ucp_checkpoint._import_lift import Part, Stacked, lift, refuse
from ucp_checkpoint._import_models import TIED, Build, Model, reason_of
from ucp_checkpoint._import_names import group_names
from ucp_checkpoint._import_places import Named, Namer, agree, other_dims
from ucp_checkpoint._import_sizes import Dims, Sizes, as_word
from ucp_checkpoint._import_spec import Conditions, Layout, Line, placed, right_side, text_of

SEEN = COUNT - 1


def _lists(value: dict[str, Any], path: str = "") -> Iterator[tuple[str, list[Any]]]:
    for key, inner in value.items():
        if isinstance(inner, dict):
            yield from _lists(inner, f"{path}{key}.")
        elif isinstance(inner, list):
            yield f"{path}{key}", inner


class Imported:
    """The spec of a model, and what its check needs."""

    def __init__(self, given: str) -> None:
        self.model = Model(given)
        self.family = Family(self.model)
        self.builds = [self.build(variant) for variant in range(SEEN)]
        self.tied = self._tied()
        self.dims = self._dims()
        described = [dict(_lists(build.config.to_dict())) for build in self.builds]
        lists = {path: [one[path] for one in described] for path in described[0] if all(path in d for d in described)}
        self.conditions = Conditions(self.dims, lists)
        memory = self._stacked([build.memory for build in self.builds])
        hub = self._stacked([build.hub for build in self.builds])
        parts = lift(memory, hub, [build.elements for build in self.builds])
        stacked = {id(one.group): one for one in (*memory, *hub)}
        namer = Namer(self.dims, self.family.followers())
        self.parts = [namer.name(part, stacked) for part in self._in_order(parts, memory)]
        agree(self.parts, stacked)
        self.is_alike = all(list(build.memory) and build.memory.keys() == build.hub.keys() and self._same(build)
                            for build in self.builds)  # fmt: skip
        self.layouts = [self._layout("memory", memory, self.builds[0].ties)]
        if not self.is_alike:
            self.layouts.append(self._layout("hub", hub, self.builds[0].hub_ties))
        self.equal = self._equal()
        for line in (line for layout in self.layouts if self.equal for line in layout.lines):
            line.around.insert(0, f"when {' and '.join(self.equal)}")

    def build(self, variant: int, *, tied: bool = False) -> Build:
        """The model at one of the configurations, converted."""
        try:
            return self.built(self.family.config(variant), tied=tied)
        except Exception as error:  # Whatever a converter of transformers raises.
            raise failure(
                "unsupported",
                f"transformers does not convert a small `{self.model.name}` for the hub: {reason_of(error)}; write a "
                "spec by hand",
            ) from error

    def built(self, config: dict[str, Any], *, tied: bool = False) -> Build:
        """The model with any configuration, converted. Raises whatever transformers raises."""
        build = Build(self.model, config | ({TIED: tied} if self.model.can_tie else {}))
        build.convert()
        return build

    @staticmethod
    def _stacked(tensors: list[dict[str, Any]]) -> list[Stacked]:
        shapes = [{name: codes.shape for name, codes in one.items()} for one in tensors]
        return [Stacked(group, tensors) for group in group_names(shapes)]

    @staticmethod
    def _same(build: Build) -> bool:
        return all(build.memory[name].shape == codes.shape and (build.memory[name] == codes).all()
                   for name, codes in build.hub.items())  # fmt: skip

    def _tied(self) -> Build | None:
        """The model with its embeddings tied, if they can be either."""
        if not self.model.can_tie:
            return None
        tied = self.build(0, tied=True)
        return tied if tied.ties.keys() - self.builds[0].ties.keys() else None

    def _dims(self) -> Dims:
        values = [{".".join(path): value for path, value in integers(build.config.to_dict())} for build in self.builds]
        shared = {path: tuple(one[path] for one in values) for path in values[0] if all(path in one for one in values)}
        knobs = {".".join(path) for path in self.family.knobs}
        shared = dict(sorted(shared.items(), key=lambda item: item[0] not in knobs))  # The cause before its effects.
        defaults = {path: self._default(tuple(path.split("."))) for path in shared}
        others = {path: self._others(path) for path in shared}
        return Dims(shared, {path: found for path, found in defaults.items() if found is not None}, others, knobs)

    def _equal(self) -> dict[str, str]:
        """For each two values that have to be equal, a fact that has no value where they are not."""
        found = {}
        for one, first in self.family.linked.items():
            if {".".join(one), ".".join(first)} <= self.dims.values.keys():
                names = [self.dims.named(".".join(path)) for path in (one, first)]
                found[as_word("_is_".join(names), self.dims.taken)] = f"true when {' == '.join(names)}"
        return found

    def _others(self, path: str) -> list[str]:
        """Paths of the same value, as the class of the configuration has them for other files."""
        *around, key = path.split(".")
        inside: Any = self.builds[0].config
        for word in around:
            inside = getattr(inside, word, None)
        names: dict[str, str] = getattr(inside, "attribute_map", {})
        return [".".join((*around, other)) for other, real in names.items() if real == key]

    def _default(self, path: tuple[str, ...]) -> Sizes | None:
        """The value that the class takes at each configuration where this one is not given."""
        found = []
        for variant in range(SEEN):
            try:
                bare = self.model.config_class.from_dict(self.without(variant, path))
                inside = place_of(bare.to_dict(), path)
                value = inside.get(path[-1]) if inside is not None else None
                value = self._by_shapes(variant, path) if value is None else value
            except Exception:  # Whatever the class of a configuration raises.
                return None
            if not isinstance(value, int) or isinstance(value, bool):
                return None
            found.append(value)
        return tuple(found)

    def without(self, variant: int, path: tuple[str, ...]) -> dict[str, Any]:
        """One of the configurations, where one value is not given."""
        config = copy.deepcopy(self.family.config(variant))
        inside = place_of(config, path)
        if inside is not None:
            inside.pop(path[-1], None)
        return config

    def _by_shapes(self, variant: int, path: tuple[str, ...]) -> int | None:
        """The length that a size has where it is null, since all dimensions change by the same ratio."""
        given, here = self.family.shapes(variant), self.family.knobs.get(path)
        bare = Build(self.model, self.without(variant, path)).shapes
        if here is None or given is None or given.keys() != bare.keys():
            return None
        pairs = {(a, b) for name, shape in given.items() for a, b in zip(shape, bare[name], strict=True) if a != b}
        found = {here[variant] * b // a if here[variant] * b % a == 0 else None for a, b in pairs}
        return found.pop() if len(found) == 1 else None if found else here[variant]

    @staticmethod
    def _in_order(parts: list[Part], memory: list[Stacked]) -> list[Part]:
        place = {id(one.group): number for number, one in enumerate(memory)}
        return sorted(parts, key=lambda part: place.get(id(part.own), place.get(id(part.other), 0)))

    def _layout(self, name: str, side: list[Stacked], ties: dict[str, str]) -> Layout:
        layout = Layout(name)
        tied = {} if self.tied is None else self.tied.ties if name == "memory" else self.tied.hub_ties
        only_tied = {second: first for second, first in tied.items() if second not in ties}
        for number, one in enumerate(side):
            before = [other for other in side[:number] if other.group.pattern == one.group.pattern]
            line = self._line(name, one, before)
            if line.name in only_tied and not line.around:
                tie = f'tie "{line.name}" = "{only_tied[line.name]}"'
                layout.lines.append(Line(["when tied"], tie, ""))
                line.around = ["else"]
            elif any(second in only_tied for second in one.group.names[0].values()):
                raise refuse(one.group, "is tied in each layer where embeddings are tied")
            layout.lines.append(line)
        layout.ties = [(second, first, False) for second, first in ties.items()]
        return layout

    def _line(self, layout: str, one: Stacked, before: list[Stacked]) -> Line:
        around, name = placed(one, self.dims, self.conditions, before)
        own = [named for named in self.parts if named.part.own is one.group]
        parts: list[Named] = own or [named for named in self.parts if named.part.other is one.group]
        shapes = [array.shape for array in one.arrays]
        dims = own[0].own_dims() if own else other_dims(one.group, parts, shapes)
        is_whole = bool(own) or (len(parts) == 1 and dims == self._whole(parts[0], one))
        first = next(iter(one.group.names[0].values()))
        if layout == "memory":
            rank = one.arrays[0].ndim - len(one.group.counters)
            is_whole &= not cut(self.builds[0].module, first, rank, dims)
        is_buffer = all(part in self._buffers() for part in parts)
        return Line(around, name, right_side(parts, dims, is_whole=is_whole), is_buffer)

    def _whole(self, named: Named, one: Stacked) -> list[Any]:
        """The part's dimensions without those that a name of this group counts."""
        counted = len(one.group.counters)
        dims = []
        for axis, factors in zip(named.part.axes, named.factors, strict=True):
            left = [name for digit, names in zip(axis, factors, strict=True) if digit.axis >= counted for name in names]
            if left or not axis:
                dims.append(left)
        return dims

    def _buffers(self) -> list[Named]:
        buffers = self.builds[0].buffers
        found = []
        for named in self.parts:
            groups = [named.part.own, named.part.other]
            if any(name in buffers for group in groups for name in group.names[0].values()):
                found.append(named)
        return found

    def text(self, fixed: list[str]) -> str:
        """The spec, which says of these values that it holds only for them."""
        model = self.model
        comments = [f"{model.name} as `{model.model_class.__name__}` of transformers {model.version} has it.", ""]
        comments += ["  memory     the names in memory" + (", and the files of the hub" if self.is_alike else "")]
        comments += [] if self.is_alike else ["  hub        the files that it writes"]
        comments += ["", "Written by ucp_checkpoint.import_hf, and compared with transformers element by element."]
        comments += [f"It holds only for {value}." for value in fixed]
        linked = self.family.linked.items()
        comments += [f"It holds only where {'.'.join(one)} equals {'.'.join(first)}." for one, first in linked]
        comments += [f"It needs {path} in config.json." for path in self.conditions.facts]
        facts = [f"{name}  from config.{path}" for path, name in self.conditions.facts.items()]
        if self.tied is not None:
            facts.append(f"tied  from config.{TIED} else {self._tied_default()}")
        facts += [f"{name}  = {text}" for name, text in self.equal.items()]
        name = as_word(model.name, self.dims.taken)
        return text_of(name, comments, self.dims, facts, self.parts, self.layouts)

    def _tied_default(self) -> str:
        config = {key: value for key, value in self.family.config(0).items() if key != TIED}
        return str(bool(getattr(self.model.config_class.from_dict(config), TIED, False))).lower()
