"""The factors of a part by name, and the dimensions of a tensor that holds several parts."""

from __future__ import annotations

from dataclasses import dataclass

from ucp_checkpoint._import_lift import Part, Stacked, refuse
from ucp_checkpoint._import_names import Group
from ucp_checkpoint._import_sizes import Dims, Rules, as_word

# A product of factors, and at the end perhaps a sum of labelled products.
Node = list["str | list[tuple[str | None, Node]]"]


@dataclass
class Named:
    """A part with its name and the factors of each digit."""

    part: Part
    name: str
    factors: list[list[list[str]]]  # For each axis and digit.

    def own_dims(self) -> list[Node]:
        """Those of the part's own tensors: what the name does not count."""
        counted = len(self.part.own.counters)
        return [[name for digit in axis for name in digit] for axis in self.factors[counted:]]

    def shape(self) -> str:
        """As the model has it."""
        dims: list[Node] = [[name for digit in axis for name in digit] for axis in self.factors]
        return f"[{', '.join(written(dim) for dim in dims)}]"


class Namer:
    """Gives parts and factors their names."""

    def __init__(self, dims: Dims, followers: dict[str, set[str]]) -> None:
        """`followers` has, for each tensor in memory, the values that its shape changes with."""
        self.dims = dims
        self.followers = followers
        self.parts: set[str] = set()
        self.again: dict[tuple[str, int], str] = {}

    def name(self, part: Part, stacked: dict[int, Stacked]) -> Named:
        """`stacked` are the arrays of the groups, by their identity."""
        used: dict[str, int] = {}
        factors: list[list[list[str]]] = []
        counted = len(part.own.counters)
        for axis, digits in enumerate(part.axes):  # Counters first: a counter has no label.
            factors.append([[] for _ in digits])
            for number in range(len(digits)):
                counter = self._counter(part, axis, number, stacked)
                if counter is not None:
                    factors[axis][number] = [counter]
                    used[counter] = used.get(counter, 0) + 1
                    if used[counter] > 1:
                        raise refuse(part.own, f"is counted twice by `{counter}`")
            if axis < counted and len(digits) != 1:
                raise refuse(part.own, "is in too few layers for a rule to be found")
        several = self._rules(part)
        for axis, digits in enumerate(part.axes):
            for number, digit in enumerate(digits):
                if not factors[axis][number]:
                    found = next(filter(None, (self.dims.factors(digit.radix, rules) for rules in several)), None)
                    if found is None:
                        sizes = ", ".join(map(str, digit.radix))
                        raise refuse(part.own, f"has a factor of {sizes}, which does not follow from the configuration")
                    factors[axis][number] = [self._once(name, used) for name in found]
        return Named(part, self._part_name(part.own), factors)

    def _rules(self, part: Part) -> list[Rules]:
        """Those of the values that the shapes of the part's tensors change with, and then those of all values beside
        them, since an order by heads changes no shape."""
        names = [*part.own.names[0].values(), *part.other.names[0].values()]
        knobs = frozenset[str]().union(*(self.followers.get(name, ()) for name in names))
        objects = {path.rpartition(".")[0] for path in knobs}
        beside = frozenset(path for path in self.dims.knobs if path.rpartition(".")[0] in objects)
        return [self.dims.of(knobs), self.dims.of(beside)]

    def _counter(self, part: Part, axis: int, number: int, stacked: dict[int, Stacked]) -> str | None:
        digit = part.axes[axis][number]
        sides = []
        if axis < len(part.own.counters):
            sides.append((stacked[id(part.own)], axis))
        if digit.axis < len(part.other.counters):
            sides.append((stacked[id(part.other)], digit.axis))
        if not sides:
            return None
        names = set()
        for side, place in sides:
            here = tuple(len(present[place]) for present in side.present)
            if digit.radix != here or (side.group is part.other and set(digit.step) != {1}):
                raise refuse(part.own, "is counted in another way by the other layout")
            names.add(self.dims.single(side.group.counters[place].sizes))
        presences = [[present[place] for present in side.present] for side, place in sides]
        partly = any(len(present) != size for side, place in sides
                     for present, size in zip(presences[0], side.group.counters[place].sizes, strict=True))  # fmt: skip
        if len(names) > 1 or None in names or (partly and (len(sides) == 1 or presences[0] != presences[1])):
            raise refuse(part.own, "is in layers that do not follow from the configuration")
        return names.pop()

    def _once(self, name: str, used: dict[str, int]) -> str:
        used[name] = used.get(name, 0) + 1
        if not name.isdigit():
            return name if used[name] == 1 else self._label(name, used[name])
        word = self.again.get((name, used[name]))
        if word is None:
            word = self.again[name, used[name]] = as_word(f"of_{name}", self.dims.taken)
            self.dims.lines[word] = f"= {name}"
        return word

    def _label(self, name: str, count: int) -> str:
        if (name, count) not in self.again:
            self.again[name, count] = as_word(f"{name}_{count}", self.dims.taken)
        return f"{self.again[name, count]}: {name}"

    def _part_name(self, group: Group) -> str:
        words = [part for part in group.pattern if isinstance(part, str)]
        if words[-1] == "weight" and len(words) > 1:
            words.pop()
        for count in range(1 if words[-1] not in ("bias", "0", "1", "2", "3") else 2, len(words) + 1):
            name = "_".join(words[-count:])
            if name not in self.parts | self.dims.taken:
                break
        name = as_word(name, self.parts | self.dims.taken)
        self.parts.add(name)
        self.dims.taken.add(name)
        return name


def agree(parts: list[Named], stacked: dict[int, Stacked]) -> None:
    """Parts that share an axis name its factors alike: where one of them needs a label there, all have it."""
    of_group: dict[int, list[tuple[Named, list[str]]]] = {}
    for named in parts:
        shapes = [one.shape for one in stacked[id(named.part.other)].arrays]
        for digits, factors in zip(named.part.axes, named.factors, strict=True):
            for digit, names in zip(digits, factors, strict=True):
                if all(radix == shape[digit.axis] for radix, shape in zip(digit.radix, shapes, strict=True)):
                    of_group.setdefault(id(named.part.other), []).append((named, names))
    for shared in of_group.values():
        labelled = {name.split(": ")[1]: name for _, names in shared for name in names if ": " in name}
        for named, names in shared:
            every = [name for factors in named.factors for several in factors for name in several]
            names[:] = [labelled[name] if name in labelled and labelled[name] not in every else name for name in names]


def written(node: Node) -> str:
    """As it stands in a spec."""
    if not node:
        return "1"
    texts = []
    for item in node:
        if isinstance(item, str):
            texts.append(f"({item})" if ": " in item and len(node) > 1 else item)
        else:
            terms = " + ".join(_term(label, inner) for label, inner in item)
            texts.append(f"({terms})" if len(node) > 1 else terms)
    return " * ".join(texts)


def _term(label: str | None, inner: Node) -> str:
    text = written(inner)
    if label is None:
        return text
    return f"{label}: ({text})" if ": " in text else f"{label}: {text}"


Entry = tuple[str, int, list[tuple[int, int, list[str]]]]  # A part, its first place, and (radix, step, factors).


def other_dims(group: Group, parts: list[Named], shapes: list[tuple[int, ...]]) -> list[Node]:
    """The dimensions of a group that holds these parts, the same at every configuration."""
    counted = len(group.counters)
    found = [
        [_axis(group, parts, axis, shape, variant) for axis in range(counted, len(shape))]
        for variant, shape in enumerate(shapes)
    ]
    if any(one != found[0] for one in found):
        raise refuse(group, "holds its parts in an order that differs from size to size")
    return found[0]


def _axis(group: Group, parts: list[Named], axis: int, shape: tuple[int, ...], variant: int) -> Node:
    entries: list[Entry] = []
    for named in parts:
        digits = [
            (digit.radix[variant], digit.step[variant], names)
            for own, factors in zip(named.part.axes, named.factors, strict=True)
            for digit, names in zip(own, factors, strict=True)
            if digit.axis == axis
        ]
        digits.sort(key=lambda digit: -digit[1])
        entries.append((named.name, named.part.start[axis][variant], digits))
    return _tree(group, shape[axis], entries)


def _tree(group: Group, size: int, entries: list[Entry]) -> Node:
    if size == 1:
        return []
    heads = {(tuple(e[2][0][2]), e[2][0][0], e[2][0][1]) if e[2] else None for e in entries}
    head = heads.pop() if len(heads) == 1 else None
    if head is not None and head[1] * head[2] == size and all(entry[1] < head[2] for entry in entries):
        return [*head[0], *_tree(group, head[2], [(name, at, digits[1:]) for name, at, digits in entries])]
    terms: list[tuple[str | None, Node]] = []
    at = 0
    for several in _apart(entries):
        end = max(first + _extent(digits) for _, first, digits in several)
        if several[0][1] != at or end <= at or len(several) == len(entries):
            raise refuse(group, "holds its parts in an order that is not a sum of products")
        inner = _tree(group, end - at, [(name, first - at, digits) for name, first, digits in several])
        terms.append((several[0][0] if len(several) == 1 else None, inner))
        at = end
    if at != size:
        raise refuse(group, "has places that no part fills")
    return [terms]


def _extent(digits: list[tuple[int, int, list[str]]]) -> int:
    return 1 + sum((radix - 1) * step for radix, step, _ in digits)


def _apart(entries: list[Entry]) -> list[list[Entry]]:
    """Parts that lie among one another stay together."""
    rows: list[list[Entry]] = []
    end = 0
    for entry in sorted(entries, key=lambda entry: entry[1]):
        if not rows or entry[1] >= end:
            rows.append([])
        rows[-1].append(entry)
        end = max(end, entry[1] + _extent(entry[2]))
    return rows
