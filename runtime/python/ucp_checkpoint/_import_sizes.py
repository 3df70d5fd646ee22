"""Numbers that follow from a configuration: which expression of its values equals a size at every configuration."""

from __future__ import annotations

import itertools
import operator
import re
from dataclasses import dataclass
from typing import Any

Sizes = tuple[int, ...]
KEYWORDS = set(
    re.findall(
        r"\w+",
        "ucp dim fact mesh layout model block when else optional buffer tie drop at unused include strategy interleave "
        "pad mean scale from of not and or in has true false length count ceil i j k l m n tp ep etp edp dp pp tied",
    )
)


ALONE = re.compile(r"layers?$|depth$|dense|position|vocab")  # No dimension is a product of these and others.
HIDDEN = re.compile(r"(^|\.)(hidden_size|d_model|n_embd|embed_dim)$")
HEADS = re.compile(r"(^|\.)(num_attention_heads|n_heads?|num_heads)$")
IMAGE = re.compile(r"(^|\.|_)(image_size|img_size)$")
PATCH = re.compile(r"(^|\.)patch_size$")
LARGEST_MULTIPLE = 8  # Of a size, which no value of the configuration explains.
MOST_TERMS = 400  # Above, a sum of three fits by chance.
SIDE = re.compile(r"patch|kernel|merge|factor|stride|shuffle")  # Of a square.


def as_word(text: str, taken: set[str]) -> str:
    """A name of the language that nothing has yet."""
    word = re.sub(r"\W", "_", text).strip("_") or "x"
    word = f"n{word}" if word[0].isdigit() else word
    while word in taken or word in KEYWORDS:
        word += "_"
    taken.add(word)
    return word


@dataclass
class Rule:
    """Two expressions of paths and numbers, and what stands between them."""

    op: str
    left: str
    right: str

    def text(self) -> str:
        return f"{self.left} {self.op} {self.right}"


class Rules:
    """Expressions of some values of the configurations, by the sizes that they have there."""

    def __init__(self, values: dict[str, Sizes]) -> None:
        self.path_of: dict[Sizes, str] = {}
        self.constants = {sizes[0] for sizes in values.values() if len(set(sizes)) == 1 and sizes[0] > LARGEST_MULTIPLE}
        for path, sizes in values.items():
            if len(set(sizes)) > 1 and min(sizes) > 0:
                self.path_of.setdefault(sizes, path)
        for whole, parts in ((HIDDEN, HEADS), (IMAGE, PATCH)):
            self._add_quotients(values, whole, parts)
        self.products: dict[Sizes, tuple[str, ...]] = {}
        self.found: dict[Sizes, Rule | None] = {}
        ordered = sorted(self.path_of.items(), key=lambda item: not _is_count(item[1]))
        for count in (1, 2):
            for chosen in itertools.combinations_with_replacement(ordered, count):
                paths = tuple(path for _, path in chosen)
                if count > 1 and any(map(ALONE.search, paths)) and not _is_maps(*paths):
                    continue
                sizes = _fold(operator.mul, [one for one, _ in chosen])
                self.products.setdefault(sizes, paths)
        areas = [(sizes, path) for sizes, path in ordered if SIDE.search(path) and "/" not in path]
        for (area, path), (sizes, paths) in itertools.product(areas, list(self.products.items())):
            if path not in paths and not any(ALONE.search(one) for one in paths):
                self.products.setdefault(_fold(operator.mul, [sizes, area, area]), (*paths, path, path))

    def _add_quotients(self, values: dict[str, Sizes], wholes: re.Pattern[str], parts: re.Pattern[str]) -> None:
        """The length of a head, where a configuration has only the hidden size and the number of heads, and how many
        patches a row of an image has."""
        for whole, part in itertools.product(values, values):
            same = whole.rpartition(".")[0] == part.rpartition(".")[0]
            if same and wholes.search(whole) and parts.search(part):
                above, below = values[whole], values[part]
                if min(below) > 0 and all(x % y == 0 for x, y in zip(above, below, strict=True)):
                    self.path_of.setdefault(_fold(operator.floordiv, [above, below]), f"{whole}/{part}")

    def _ratio(self, sizes: Sizes) -> Rule | None:
        """A quotient, or a multiple of a number."""
        for divisor, path in self.path_of.items():
            found = self.products.get(_fold(operator.mul, [sizes, divisor]))
            if found is not None and path not in found and not ALONE.search(path):
                return Rule("/", _text(found), path)
        for number in (2, 3, 4, 5, 6, 8):
            if all(size % number == 0 for size in sizes):
                found = self.products.get(tuple(size // number for size in sizes))
                if found is not None:
                    return Rule("*", str(number), _text(found))
            found = self.products.get(tuple(size * number for size in sizes))
            if found is not None:
                return Rule("/", _text(found), str(number))
        return None

    def _multiple(self, sizes: Sizes) -> Rule | None:
        """Several times one value."""
        for number in (2, 3, 4):
            path = self.path_of.get(tuple(size // number for size in sizes))
            if path is not None and all(size % number == 0 for size in sizes):
                return Rule("*", str(number), path)
        return None

    def _sum(self, sizes: Sizes) -> Rule | None:
        """A sum of two products, or of a product and a quotient or a number."""
        for more in (False, True):
            for left, paths in self.products.items():
                rest = _fold(operator.sub, [sizes, left])
                if not more and len(set(rest)) == 1 and -3 < rest[0] < 5 and rest[0]:
                    return Rule("+" if rest[0] > 0 else "-", _text(paths), str(abs(rest[0])))
                if min(rest) < 1:
                    continue
                if not more and rest in self.products:
                    return Rule("+", _text(paths), _text(self.products[rest]))
                ratio = self._ratio(rest) if more and len(set(rest)) > 1 else None
                if ratio is not None:
                    return Rule("+", _text(paths), ratio.text())
        return None

    def _twice(self, sizes: Sizes) -> Rule | None:
        """Twice a sum, perhaps with one more or less, as the distances of a window are."""
        for less in (0, 1, -1):
            if all((size + less) % 2 == 0 for size in sizes):
                half = tuple((size + less) // 2 for size in sizes)
                found = self._sum(half) if not less else None
                inner = f"( {found.text()} )" if found is not None else _text(self.products.get(half, ()))
                if inner:
                    return Rule("-" if less > 0 else "+", f"2 * {inner}", "1") if less else Rule("*", "2", inner)
        return None

    def _terms(self, sizes: Sizes) -> Rule | None:
        """A sum of two or three products, each perhaps twice, as the projection into a state-space layer is."""
        terms = {scaled: f"{'2 * ' if count == 2 else ''}{_text(paths)}" for sizes, paths in self.products.items()
                 for count in (1, 2) for scaled in [tuple(count * size for size in sizes)]}  # fmt: skip
        if len(terms) > MOST_TERMS:
            return None
        for one, text in terms.items():
            rest = _fold(operator.sub, [sizes, one])
            if rest in terms:
                return Rule("+", text, terms[rest])
        for (one, text), (two, more) in itertools.combinations(terms.items(), 2):
            rest = tuple(size - a - b for size, a, b in zip(sizes, one, two, strict=True))
            if rest in terms:
                return Rule("+", f"{text} + {more}", terms[rest])
        return None

    def fixed(self, sizes: Sizes) -> tuple[tuple[str, ...], int] | None:
        """A product of values, one of which is the same number at all configurations."""
        for product, paths in self.products.items():
            number = sizes[0] // product[0]
            if number in self.constants and sizes == tuple(number * size for size in product):
                return paths, number
        return None

    def other(self, sizes: Sizes) -> Rule | None:
        if sizes not in self.found:
            self.found[sizes] = self._ratio(sizes) or self._sum(sizes) or self._twice(sizes) or self._terms(sizes)
        return self.found[sizes]

    def of_heads(self, sizes: Sizes) -> tuple[str, Sizes] | None:
        """A number of heads, and what each of them has."""
        for count, path in self.path_of.items():
            if "heads" not in path or "/" in path or any(a % b for a, b in zip(sizes, count, strict=True)):
                continue
            rest = _fold(operator.floordiv, [sizes, count])
            found = self._multiple(rest) or self._sum(rest) if min(rest) > 1 and len(set(rest)) > 1 else None
            if found is not None and "*" not in found.left + found.right:
                self.found[rest] = found
                return path, rest
        return None


class Dims:
    """The dims of a spec, each declared when it is used: values of the configuration, and what follows from them."""

    def __init__(
        self, values: dict[str, Sizes], defaults: dict[str, Sizes], others: dict[str, list[str]], knobs: set[str]
    ) -> None:
        """`values` are the numbers of the configurations by their dotted paths; `defaults` what a class takes where one
        is not given; `others` the paths that older files have in place of one; `knobs` the paths that were changed."""
        self.values = values
        self.defaults = defaults
        self.others = others
        self.knobs = knobs
        self.taken: set[str] = set()
        self.names: dict[str, str] = {}  # Of a path or an expression.
        self.lines: dict[str, str] = {}
        self.rules: dict[frozenset[str], Rules] = {}
        self.every = self.of(frozenset(knobs))
        self.path_of = self.every.path_of

    def of(self, knobs: frozenset[str]) -> Rules:
        """The rules of only those of the changed values."""
        if knobs not in self.rules:
            others = self.knobs - knobs
            self.rules[knobs] = Rules({path: sizes for path, sizes in self.values.items() if path not in others})
        return self.rules[knobs]

    def factors(self, sizes: Sizes, rules: Rules) -> list[str] | None:
        """The dims whose product this is, or one number that all configurations share; None if no expression fits."""
        if len(set(sizes)) == 1:
            return [str(sizes[0])]
        if sizes in rules.products:
            return [self.named(path) for path in rules.products[sizes]]
        fixed = rules.fixed(sizes)
        if fixed is not None:
            return [*map(self.named, fixed[0]), str(fixed[1])]
        heads = rules.of_heads(sizes)
        if heads is not None:
            return [self.named(heads[0]), self._defined(heads[1], rules)]
        return [self._defined(sizes, rules)] if rules.other(sizes) is not None else None

    def single(self, sizes: Sizes) -> str | None:
        """One dim that is this long."""
        if len(set(sizes)) == 1:
            return None
        if sizes in self.path_of:
            return self.named(self.path_of[sizes])
        found = self.factors(sizes, self.every)
        if found is None or len(found) == 1:
            return found[0] if found else None
        return self._named(" * ".join(found), "_".join(found))

    def named(self, path: str) -> str:
        if "/" in path and path not in self.names:
            whole, part = (self.named(one) for one in path.split("/"))
            self.names[path] = as_word("grid" if IMAGE.search(path.split("/")[0]) else "head", self.taken)
            self.lines[self.names[path]] = f"= {whole} / {part}"
        if path not in self.names:
            short = re.sub(r"^(num|n)_|_(size)$", "", path.rsplit(".", 1)[-1])
            inside = path.rsplit(".", 1)[0].removesuffix("_config").replace(".", "_") + "_" if "." in path else ""
            name = self.names[path] = as_word(inside + short, self.taken)
            default: Any = self.defaults.get(path)
            if default in self.path_of and self.path_of[default] != path:
                default = self.named(self.path_of[default])
            elif default is not None and len(set(default)) == 1:
                default = default[0] if default[0] >= 0 else None
            elif default is not None:
                found = self.every.other(default)
                default = self._worded(found.text()) if found is not None else None
            paths = ", ".join(f"config.{one}" for one in (path, *self.others.get(path, [])))
            self.lines[name] = f"from {paths}" + (f" else {default}" if default is not None else "")
        return self.names[path]

    def follows_others(self, path: str) -> bool:
        """Whether this value, where it is not given, is one of other dims."""
        default = self.defaults.get(path)
        return default is not None and len(set(default)) > 1

    def _worded(self, expression: str) -> str:
        """An expression of paths as one of dims."""
        return " ".join(self.named(word) if re.match(r"[A-Za-z_]", word) else word for word in expression.split())

    def _defined(self, sizes: Sizes, rules: Rules) -> str:
        found = rules.other(sizes)
        assert found is not None
        joined = {"/": "_per_", "+": "_and_", "-": "_less_", "*": "_times_"}[found.op]
        words = [re.sub(r"\W+", "_", self._worded(side)) for side in (found.left, found.right)]
        return self._named(self._worded(found.text()), joined.join(words))

    def _named(self, text: str, name: str) -> str:
        if text not in self.names:
            self.names[text] = as_word(name, self.taken)
            self.lines[self.names[text]] = f"= {text}"
        return self.names[text]


def _is_maps(one: str, other: str) -> bool:
    """Each head of each layer gives a map of attention."""
    return any(HEADS.search(a) and a != b and re.search(r"layers$", b) for a, b in ((one, other), (other, one)))


def _is_count(path: str) -> bool:
    """Counts of heads and the like stand before the sizes that they multiply."""
    return re.match(r"(num|n)_|.*_heads$", path.rsplit(".", 1)[-1]) is not None


def _fold(operation: Any, several: list[Sizes]) -> Sizes:
    result = several[0]
    for more in several[1:]:
        result = tuple(operation(a, b) for a, b in zip(result, more, strict=True))
    return result


def _text(paths: tuple[str, ...]) -> str:
    return " * ".join(paths)
