"""Names that differ in numbers, as patterns with counters.

A number in a name is a counter where the configurations have it from the same first value to different last ones. Where
all configurations have the same numbers it is a part of the name.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ucp_checkpoint._failure import failure

Index = tuple[int, ...]
MOST_SHAPES = 4  # Of one pattern, one for each kind of layer.


@dataclass(frozen=True)
class Counter:
    """Counts from `first`; `sizes` says how far at each configuration."""

    first: int
    sizes: tuple[int, ...]


@dataclass
class Group:
    """The names of one pattern: for each configuration, the name at each place of the counters."""

    pattern: tuple[str | Counter, ...]
    names: list[dict[Index, str]] = field(default_factory=list)

    @property
    def counters(self) -> list[Counter]:
        return [part for part in self.pattern if isinstance(part, Counter)]

    def one(self) -> str:
        """Some name, for a message."""
        return next(name for names in self.names for name in names.values())

    def alone(self) -> Group:
        """The same with the number in place of a counter that has only one place, the same at each configuration."""
        pattern, names, axis = list(self.pattern), self.names, 0
        for place, part in enumerate(self.pattern):
            if not isinstance(part, Counter):
                continue
            present = {index[axis] for one in names for index in one}
            if len(present) == 1:
                pattern[place] = str(part.first + present.pop())
                names = [{(*index[:axis], *index[axis + 1 :]): name for index, name in one.items()} for one in names]
            else:
                axis += 1
        return Group(tuple(pattern), names)

    def of_shapes(self, shapes: list[dict[str, tuple[int, ...]]]) -> list[Group]:
        """A group for each shape, in the order in which the configurations have them first."""
        several: list[list[dict[Index, str]]] = []
        for names, shape_of in zip(self.names, shapes, strict=True):
            found: dict[tuple[int, ...], dict[Index, str]] = {}
            for index in sorted(names):
                found.setdefault(shape_of[names[index]], {})[index] = names[index]
            several.append(list(found.values()))
        if len({len(one) for one in several}) > 1 or len(several[0]) > MOST_SHAPES:
            return [self]
        return [Group(self.pattern, list(names)) for names in zip(*several, strict=True)]


Entry = tuple[tuple[str, ...], Index, str]


def group_names(shapes: list[dict[str, tuple[int, ...]]]) -> list[Group]:
    """`shapes` are those of each configuration by their names, in order; so are the groups, each of them behind the one
    that stands before it in a layer."""
    names = [list(one) for one in shapes]
    found: list[Group] = []
    _walk([[(tuple(name.split(".")), (), name) for name in one] for one in names], (), found)
    found = [one.alone() for group in found for one in group.of_shapes(shapes)]
    of = {name: group for group in found for name in group.names[0].values()}
    order: list[int] = []
    before = -1
    for name in names[0]:
        group = id(of[name])
        if group not in order:
            order.insert(order.index(before) + 1 if before in order else len(order), group)
        before = group
    found.sort(key=lambda group: order.index(id(group)))
    patterns = [group.pattern for group in found]
    return sorted(found, key=lambda group: patterns.index(group.pattern))


def _number(part: str) -> int | None:
    return int(part) if part.isascii() and part.isdigit() and str(int(part)) == part else None


def _walk(entries: list[list[Entry]], pattern: tuple[str | Counter, ...], found: list[Group]) -> None:
    ended = [[entry for entry in one if not entry[0]] for one in entries]
    if any(ended):
        found.append(Group(pattern, [{index: name for _, index, name in one} for one in ended]))
        _present(found[-1])
    going = [[entry for entry in one if entry[0]] for one in entries]
    numbers = [{n for parts, _, _ in one if (n := _number(parts[0])) is not None} for one in going]
    counter = _counter(numbers)
    if counter is not None:
        counted = [
            [(parts[1:], (*index, n - counter.first), name) for parts, index, name in one
             if (n := _number(parts[0])) is not None]
            for one in going
        ]  # fmt: skip
        _walk(counted, (*pattern, counter), found)
        going = [[entry for entry in one if _number(entry[0][0]) is None] for one in going]
    for part in dict.fromkeys(parts[0] for one in going for parts, _, _ in one):
        inside = [[(parts[1:], index, name) for parts, index, name in one if parts[0] == part] for one in going]
        _walk(inside, (*pattern, part), found)


def _counter(numbers: list[set[int]]) -> Counter | None:
    if not all(numbers) or all(one == numbers[0] for one in numbers):
        return None
    firsts = {min(one) for one in numbers}
    if len(firsts) > 1 or any(max(one) - min(one) + 1 != len(one) for one in numbers):
        return None
    return Counter(firsts.pop(), tuple(len(one) for one in numbers))


def _present(group: Group) -> None:
    """A pattern that only some configurations have says nothing of the others."""
    if not all(group.names):
        raise failure(
            "unsupported",
            f"the tensor `{group.one()}` is in the model at some sizes only, and no rule for that is known; "
            "write a spec by hand",
        )
