"""The small configurations of one model: which of its sizes can be changed, and to what.

A class may ask of its sizes that one divides another, or that two are equal. So the sizes are changed all at once, or
else as many of them as the class takes; one that has to equal another changes with it.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

from ucp_checkpoint._failure import failure
from ucp_checkpoint._import_configs import (
    COUNT,
    IGNORED,
    VARIED,
    Chooser,
    Path,
    Sizes,
    by_name,
    integers,
    open_sizes,
    other_sizes,
    role_of,
    scaled,
    scaled_down,
)
from ucp_checkpoint._import_models import LARGEST, TIED, Build, Model, reason_of

MOST_EQUAL = 20  # Values that one is compared with, and
MOST_PAIRS = 200  # pairs of equal values. Each takes some builds.
FEW = ("layers", "dense", "experts")  # Roles of numbers that a class makes lists of.

Shapes = dict[str, tuple[int, ...]]


class Family:
    """The small configurations of one model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.lists = True
        self.chooser = Chooser(model.base)
        self.knobs = by_name(model.base, self.chooser)
        self.linked: dict[Path, Path] = {}  # A knob that changes only with another one.
        self._fit()
        self._keep_names()
        self._by_trial()
        count = self._largest()
        if count > LARGEST:
            raise self._not_small(f"its smallest one has {count} elements, above {LARGEST}")

    def config(self, variant: int, changed: dict[Path, Any] | None = None) -> dict[str, Any]:
        """One of the configurations, with some values of another kind or size."""
        values: dict[Path, Any] = {(TIED,): False} if self.model.can_tie else {}
        values |= {path: sizes[variant] for path, sizes in self.knobs.items()}
        return scaled_down(self.model.base, values | (changed or {}), lists=self.lists)

    def with_linked(self, path: Path, value: Any) -> dict[Path, Any]:
        """A value and those that have to be equal to it."""
        first = self.linked.get(path, path)
        return {one: value for one in self.knobs if self.linked.get(one, one) == first}

    def shapes(self, variant: int) -> Shapes | None:
        """None if this one cannot be built."""
        try:
            return Build(self.model, self.config(variant)).shapes
        except Exception as error:  # Whatever the class of a model raises.
            self.reason = reason_of(error)
            return None

    def followers(self) -> dict[str, set[str]]:
        """The knobs that each tensor of the first configuration changes its shape with. A knob that cannot be changed
        may be of any."""
        shapes = self.shapes(0) or {}
        found: dict[str, set[str]] = {name: set() for name in shapes}
        for path, sizes in self.knobs.items():
            several = self.with_linked(path, None)
            tried = [{path: value} for value in other_sizes(sizes[0])]
            tried += [dict.fromkeys(several, value) for value in other_sizes(sizes[0])] if len(several) > 1 else []
            others = next(filter(None, (self._changed(changed) for changed in tried)), None)
            for name, shape in shapes.items():
                if others is None or others.get(name, shape) != shape:
                    found[name].add(".".join(path))
        return found

    def _changed(self, changed: dict[Path, Any]) -> Shapes | None:
        try:
            return Build(self.model, self.config(0, changed)).shapes
        except Exception:  # Whatever the class of a model raises.
            return None

    def _builds(self) -> bool:
        return all(self.shapes(variant) is not None for variant in range(COUNT))

    def _largest(self) -> int:
        """The elements of the largest of the models."""
        return max(Build(self.model, self.config(variant)).count() for variant in range(COUNT))

    def _is_useful(self, path: Path) -> bool:
        """Whether this knob neither makes a model too large nor a size equal wherever rules are taken from."""
        built = [Build(self.model, self.config(variant)) for variant in range(COUNT)]
        shared = [name for name in built[0].shapes if all(name in build.shapes for build in built)]
        for name in shared:
            for *several, last in zip(*(build.shapes[name] for build in built), strict=True):
                if len(set(several)) == 1 and last != several[0]:
                    return False
        if max(build.count() for build in built) <= LARGEST:
            return True
        knobs = self.knobs
        count, self.knobs = self._largest(), {one: sizes for one, sizes in knobs.items() if one != path}
        before, self.knobs = self._largest(), knobs
        return count <= before

    def _fit(self) -> None:
        """Knobs that a class does not take small stay as they are."""
        if self._builds():
            return
        reason = self.reason
        self.lists = False
        if self._builds():
            return
        given = self.knobs
        wanted = given | {
            path: sizes for path in open_sizes(self.model.base, set())
            if (sizes := self.chooser.choose(str(role_of(path[-1])), path)) is not None
        }  # fmt: skip
        unset = {path: wanted[path] for path in wanted if path not in given}
        vocab = {path: sizes for path, sizes in unset.items() if role_of(path[-1]) == "vocab"}
        few = {path: wanted[path] for path in given if role_of(path[-1]) in FEW}
        for self.lists in (True, False):
            for self.knobs in (few | vocab, vocab, *((few | unset, given | unset) if unset != vocab else ())):
                if self._builds():
                    self._add(wanted)
                    return
        raise self._not_small(reason)

    def _not_small(self, reason: str) -> Exception:
        """To be raised."""
        return failure(
            "unsupported",
            f"a small `{self.model.name}` cannot be built to look at its tensors: {reason}; write a spec by hand, "
            "or import a folder whose `config.json` has small sizes",
        )

    def _add(self, wanted: dict[Path, Sizes]) -> None:
        """As many of these knobs as the class takes, and then those that it takes with an equal one."""
        left = [path for path in wanted if path not in self.knobs]
        before = len(left) + 1
        while left and len(left) < before:
            before = len(left)
            left = self._added(left, wanted)
        of_value: dict[int, list[Path]] = {}
        for path, value in integers(self.model.base):
            of_value.setdefault(value, []).append(path)
        for path in left:
            value = next((value for value, paths in of_value.items() if path in paths), 0)
            if path not in self.knobs and value > 2:
                self._link(path, [one for one in of_value[value] if one != path], wanted)

    def _added(self, paths: list[Path], wanted: dict[Path, Sizes]) -> list[Path]:
        """Those that could not be added."""
        self.knobs |= {path: wanted[path] for path in paths}
        if self._builds():
            return []
        for path in paths:
            del self.knobs[path]
        if len(paths) == 1:
            return paths
        half = len(paths) // 2
        return self._added(paths[:half], wanted) + self._added(paths[half:], wanted)

    def _link(self, path: Path, equal: list[Path], wanted: dict[Path, Sizes]) -> None:
        """Adds a knob as one with another of the same value, or with all of them."""
        named = sorted(equal, key=lambda one: one[-1] != path[-1])[:MOST_EQUAL]
        heads = {one: sizes for one, sizes in wanted.items() if role_of(one[-1]) == "heads" and one not in self.knobs}
        linked = (*([one] for one in named), [one for one in named if one not in self.knobs])
        for several, others in itertools.product(filter(None, linked), ({}, heads) if heads else ({},)):
            sizes = self.knobs.get(several[0], wanted[path])
            before = dict(self.knobs)
            self.knobs |= {one: sizes for one in (*several, path)} | others
            if self._builds():
                before |= others
                several = self._needed(several, before)
                first = self.linked.get(several[0], several[0])
                self.linked |= {one: first for one in (*several, path) if one != first}
                return
            self.knobs = before

    def _needed(self, several: list[Path], before: dict[Path, Sizes]) -> list[Path]:
        """Those of several equal values without whose change the class does not build."""
        for one in several[1:]:
            knobs = self.knobs
            self.knobs = {path: sizes for path, sizes in knobs.items() if path != one}
            self.knobs |= {one: before[one]} if one in before else {}
            if self._builds():
                several = [other for other in several if other != one]
            else:
                self.knobs = knobs
        return several

    def _keep_names(self) -> None:
        """Makes one knob of sizes that are equal in the class's own configuration where it has further tensors if they
        differ, such as a projection."""
        knobs = self.knobs
        self.knobs = {path: sizes for path, sizes in knobs.items() if role_of(path[-1]) in FEW}
        own = self._patterns()
        self.knobs = knobs
        further = self._patterns() - own
        if not own or not further:
            return
        of_base = dict(integers(self.model.base))
        pairs = [
            (path, other) for path in knobs for other, value in of_base.items()
            if value > 2 and path != other and path[:-1] == other[:-1] and of_base.get(path) == value
        ]  # fmt: skip
        for path, other in pairs if len(pairs) <= MOST_PAIRS else ():
            if not further:
                break
            self.knobs = knobs | {other: knobs[path]}
            left = self._patterns() - own
            if len(left) < len(further) and self._builds():
                knobs, further = self.knobs, left
                self.linked[other] = self.linked.get(path, path)
        self.knobs = knobs

    def _patterns(self) -> set[str]:
        """The names of the first configuration without their numbers."""
        return {re.sub(r"\d+", "*", name) for name in self.shapes(0) or ()}

    def _by_trial(self) -> None:
        shapes = self.shapes(0)
        assert shapes is not None
        for path in list(open_sizes(self.model.base, self.model.missing)):
            if path not in self.knobs and path[-1] not in self.model.aliases.get(path[:-1], ()):
                shapes = self._tried(path, self.chooser.choose(str(role_of(path[-1])), path), shapes) or shapes
        for path, value in list(integers(self.model.base)):
            if path in self.knobs or value < 0 or IGNORED.search(path[-1]) or "rope" in path[-1]:
                continue
            by_ratio = [sizes for sizes in VARIED if value <= 4 and sizes[0] != value]  # A side of a square, perhaps.
            by_ratio += [scaled(value, sizes) for sizes in (VARIED if 2 <= value <= 64 else ())]
            small = (scaled(8, scaled(factor, sizes)) for factor in (1, 2, 3, 5, 7) for sizes in VARIED)
            near = (tuple(value + first + v for v in range(COUNT)) for first in range(2 if value < 2 else 1, 99))
            for candidates in (itertools.chain(by_ratio, small), near) if value >= 2 else (near,):
                found = self._tried(path, self.chooser.unlike(candidates), shapes)
                if found is not None:
                    shapes = found
                    break

    def _tried(self, path: Path, sizes: Sizes | None, shapes: Shapes) -> Shapes | None:
        """The shapes that the first configuration has with a further knob, which stays if it changes them."""
        if sizes is None:
            return None
        self.knobs[path] = sizes
        found = self.shapes(0)
        if found and found != shapes and found.keys() == shapes.keys() and self._builds() and self._is_useful(path):
            return found
        del self.knobs[path]
        self.chooser.free(sizes)
        return None
