"""The text of a spec: dims, facts, the model's parts, and the lines of each layout in blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby, product
from typing import Any

from ucp_checkpoint._import_lift import Stacked, refuse
from ucp_checkpoint._import_names import Counter
from ucp_checkpoint._import_places import Named, Node, written
from ucp_checkpoint._import_sizes import Dims, as_word

LETTERS = "ijklmn"


class Conditions:
    """The layers that have a tensor, by the values of the configuration."""

    def __init__(self, dims: Dims, lists: dict[str, list[list[Any]]]) -> None:
        self.dims = dims
        self.lists = lists  # Of each configuration, by their paths.
        self.facts: dict[str, str] = {}  # A path, and the fact's name.

    def of(self, stacked: Stacked, axis: int, letter: str) -> str | None:
        """None where all layers have it."""
        sizes = stacked.group.counters[axis].sizes
        present = [here[axis] for here in stacked.present]
        if all(len(here) == size for here, size in zip(present, sizes, strict=True)):
            return None
        for border in self.dims.path_of:
            for sign, begin, end in ((">=", border, sizes), ("<", (0,) * len(sizes), border)):
                if present == [list(range(a, b)) for a, b in zip(begin, end, strict=True)]:
                    return f"{letter} {sign} {self.dims.single(border)}"
        for path, lists in self.lists.items():
            found = self._listed(path, lists, present, sizes, letter)
            if found is not None:
                return found
        regular = self._periodic(present, sizes, letter) or self._regular(present, sizes, letter)
        if regular is not None:
            return regular
        raise refuse(stacked.group, "is in layers that do not follow from the configuration")

    def _regular(self, present: list[list[int]], sizes: tuple[int, ...], letter: str) -> str | None:
        """All but the first layer, the last one, all but it, and layers at a distance that the class has."""
        last = f"{self.dims.single(sizes)} - 1"
        tests: dict[str, list[list[int]]] = {
            f"{letter} > 0": [list(range(1, size)) for size in sizes],
            f"{letter} == {last}": [[size - 1] for size in sizes],
            f"{letter} < {last}": [list(range(size - 1)) for size in sizes],
        }
        for period, sign in product((2, 3, 4), ("==", "!=")):
            for first in range(period):
                found = [[i for i in range(size) if (i % period == first) == (sign == "==")] for size in sizes]
                tests[f"{letter} % {period} {sign} {first}"] = found
        return next((text for text, found in tests.items() if found == present), None)

    def _periodic(self, present: list[list[int]], sizes: tuple[int, ...], letter: str) -> str | None:
        """Layers at a distance that the configuration has, from a first one that it has."""
        periods = [one for one, path in self.dims.path_of.items() if path.endswith("_layer_period")]
        offsets = [one for one, path in self.dims.path_of.items() if path.endswith("_layer_offset")]
        for period, offset in product(periods, offsets):
            for sign in ("==", "!="):
                found = [
                    [i for i in range(size) if (i % one == first) == (sign == "==")]
                    for one, first, size in zip(period, offset, sizes, strict=True)
                ]
                if present == found:
                    return f"{letter} % {self.dims.single(period)} {sign} {self.dims.single(offset)}"
        return None

    def _listed(
        self, path: str, lists: list[list[Any]], present: list[list[int]], sizes: tuple[int, ...], letter: str
    ) -> str | None:
        if lists == present:
            return f"{letter} in {self._fact(path)}"
        if present == [[i for i in range(size) if i not in one] for one, size in zip(lists, sizes, strict=True)]:
            return f"not {letter} in {self._fact(path)}"
        if any(len(one) != size for one, size in zip(lists, sizes, strict=True)):
            return None
        kinds = sorted({one[i] for one, here in zip(lists, present, strict=True) for i in here}, key=str)
        if not all(isinstance(kind, str) for kind in kinds):
            return None
        if present != [[i for i, kind in enumerate(one) if kind in kinds] for one in lists]:
            return None
        texts = ", ".join(f'"{kind}"' for kind in kinds)
        test = f"== {texts}" if len(kinds) == 1 else f"in [{texts}]"
        return f"{self._fact(path)}[{letter}] {test}"

    def _fact(self, path: str) -> str:
        if path not in self.facts:
            self.facts[path] = as_word(path.replace(".", "_"), self.dims.taken)
        return self.facts[path]


@dataclass
class Line:
    """A line of a layout: the blocks and conditions around it, its name, and what is stored there. A tie has only a
    name, which is all of it."""

    around: list[str]
    name: str
    right: str
    is_buffer: bool = False


@dataclass
class Layout:
    """A layout, its lines, and the ties: a second name, the first one, and whether it holds only where `tied` does."""

    name: str
    lines: list[Line] = field(default_factory=list)
    ties: list[tuple[str, str, bool]] = field(default_factory=list)


def right_side(parts: list[Named], dims: list[Node], *, is_whole: bool) -> str:
    """The text behind `=`."""
    if is_whole:
        return parts[0].name
    shape = f"[{', '.join(written(dim) for dim in dims)}]"
    return f"{parts[0].name} {shape}" if len(parts) == 1 else shape


def placed(stacked: Stacked, dims: Dims, conditions: Conditions, before: list[Stacked]) -> tuple[list[str], str]:
    """The blocks and conditions around a group, and the rest of its name. `before` are groups of the same names, in
    other layers."""
    around: list[str] = []
    words: list[str] = []
    axis = 0
    for place, part in enumerate(stacked.group.pattern):
        if not isinstance(part, Counter):
            words.append(part)
            continue
        letter = LETTERS[axis]
        first = f" + {part.first}" if part.first else ""
        counted = dims.single(part.sizes)
        if counted is None:
            raise refuse(stacked.group, "is in a number of layers that does not follow from the configuration")
        words.append(f"{{{letter}{first}: {counted}}}")
        condition = conditions.of(stacked, axis, letter)
        if place + 1 < len(stacked.group.pattern):
            around.append(f'block "{".".join(words)}"')
            words = []
            if condition is not None:
                around.append(f"{'else ' if before else ''}when {condition}")
        elif condition is not None:
            raise refuse(stacked.group, "is in some layers only, and its name ends with their number")
        axis += 1
    return around, ".".join(words)


def _body(lines: list[Line], depth: int, write: Callable[[int, str], None]) -> None:
    heads = [(head, list(inside)) for head, inside in groupby(lines, key=lambda line: next(iter(line.around), None))]
    for number, (head, inside) in enumerate(heads):
        if head is None:
            width = max((len(line.name) + (7 if line.is_buffer else 0) for line in inside if line.right), default=0)
            for line in inside:
                if not line.right:
                    write(depth, line.name)
                    continue
                name = f'{"buffer " if line.is_buffer else ""}"{line.name}"'
                write(depth, f"{name:{width + 2}} = {line.right}")
        else:
            write(depth, f"{'} ' if head.startswith('else') else ''}{head} {{")
            _body([Line(line.around[1:], line.name, line.right, line.is_buffer) for line in inside], depth + 1, write)
            after = heads[number + 1][0] if number + 1 < len(heads) else None
            if after is None or not after.startswith("else"):  # It closes this one.
                write(depth, "}")


def text_of(
    name: str, comments: list[str], dims: Dims, facts: list[str], parts: list[Named], layouts: list[Layout]
) -> str:
    """The whole spec."""
    rows = [f"// {comment}" if comment else "//" for comment in comments] + ["ucp 1", ""]

    def write(depth: int, row: str) -> None:
        rows.append("  " * depth + row)

    width = max(map(len, dims.lines), default=0)
    given = {word: line for word, line in dims.lines.items() if line.startswith("from")}
    for word, line in [*given.items(), *((w, line) for w, line in dims.lines.items() if w not in given)]:
        write(0, f"dim {word:{width}}  {line}")
    rows += [f"fact {fact}" for fact in facts]
    cut = " ".join(line.right for layout in layouts for line in layout.lines)
    rows += ["", "mesh dp, tp"] if "@tp" in cut or "@ep" in cut or "@etp" in cut else []
    rows += ["mesh edp, ep, etp"] if "@ep" in cut or "@etp" in cut else []
    write(0, f"\nmodel {name} {{")
    width = max(len(part.name) for part in parts)
    for part in parts:
        write(1, f"{part.name:{width}}  {part.shape()}")
    write(0, "}")
    for layout in layouts:
        write(0, f"\nlayout {layout.name} of {name} {{")
        _body(layout.lines, 1, write)
        for second, first, only_tied in layout.ties:
            tie = f'tie "{second}" = "{first}"'
            write(1, f"when tied {{ {tie} }}" if only_tied else tie)
        write(0, "}")
    return "\n".join(rows) + "\n"
