"""Numbers that follow from a configuration: which expression of its values equals a size at every configuration."""

from __future__ import annotations

import itertools
import operator
import re
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


def as_word(text: str, taken: set[str]) -> str:
    """A name of the language that nothing has yet."""
    word = re.sub(r"\W", "_", text).strip("_") or "x"
    word = f"n{word}" if word[0].isdigit() else word
    while word in taken or word in KEYWORDS:
        word += "_"
    taken.add(word)
    return word


class Dims:
    """The dims of a spec, each declared when it is used: values of the configuration, and what follows from them."""

    def __init__(self, values: dict[str, Sizes], defaults: dict[str, Sizes], others: dict[str, list[str]]) -> None:
        """`values` are the numbers of the configurations by their dotted paths; `defaults` what a class takes where one
        is not given; `others` the paths that older files have in place of one."""
        self.defaults = defaults
        self.others = others
        self.taken: set[str] = set()
        self.names: dict[str, str] = {}  # Of a path or an expression.
        self.lines: dict[str, str] = {}
        self.path_of: dict[Sizes, str] = {}
        for path, sizes in values.items():
            if len(set(sizes)) > 1 and min(sizes) > 0:
                self.path_of.setdefault(sizes, path)
        self._add_heads(values)
        self.products: dict[Sizes, tuple[str, ...]] = {}
        self.found: dict[Sizes, tuple[str, str, str] | None] = {}
        ordered = sorted(self.path_of.items(), key=lambda item: not _is_count(item[1]))
        for count in (1, 2):
            for chosen in itertools.combinations_with_replacement(ordered, count):
                if count > 1 and any(ALONE.search(path) for _, path in chosen):
                    continue
                sizes = _fold(operator.mul, [one for one, _ in chosen])
                self.products.setdefault(sizes, tuple(path for _, path in chosen))

    def _add_heads(self, values: dict[str, Sizes]) -> None:
        """The length of a head, where a configuration has only the hidden size and the number of heads."""
        for hidden, heads in itertools.product(values, values):
            same = hidden.rpartition(".")[0] == heads.rpartition(".")[0]
            if same and HIDDEN.search(hidden) and HEADS.search(heads):
                whole, parts = values[hidden], values[heads]
                if min(parts) > 0 and all(x % y == 0 for x, y in zip(whole, parts, strict=True)):
                    self.path_of.setdefault(_fold(operator.floordiv, [whole, parts]), f"{hidden}/{heads}")

    def _ratio(self, sizes: Sizes) -> tuple[str, str, str] | None:
        """A quotient, or a multiple of a number."""
        for divisor, path in self.path_of.items():
            found = self.products.get(_fold(operator.mul, [sizes, divisor]))
            if found is not None and path not in found and not ALONE.search(path):
                return "/", _text(found), path
        for number in (2, 3, 4, 5, 6, 8):
            if all(size % number == 0 for size in sizes):
                found = self.products.get(tuple(size // number for size in sizes))
                if found is not None:
                    return "*", str(number), _text(found)
            found = self.products.get(tuple(size * number for size in sizes))
            if found is not None:
                return "/", _text(found), str(number)
        return None

    def _multiple(self, sizes: Sizes) -> tuple[str, str, str] | None:
        """Several times one value."""
        for number in (2, 3, 4):
            path = self.path_of.get(tuple(size // number for size in sizes))
            if path is not None and all(size % number == 0 for size in sizes):
                return "*", str(number), path
        return None

    def _sum(self, sizes: Sizes) -> tuple[str, str, str] | None:
        """A sum of two products, or of a product and a quotient or a number."""
        for more in (False, True):
            for left, paths in self.products.items():
                rest = _fold(operator.sub, [sizes, left])
                if min(rest) < 1:
                    continue
                if not more and rest in self.products:
                    return "+", _text(paths), _text(self.products[rest])
                if not more and len(set(rest)) == 1 and rest[0] < 5:
                    return "+", _text(paths), str(rest[0])
                ratio = self._ratio(rest) if more and len(set(rest)) > 1 else None
                if ratio is not None:
                    return "+", _text(paths), f"{ratio[1]} {ratio[0]} {ratio[2]}"
        return None

    def _twice(self, sizes: Sizes) -> tuple[str, str, str] | None:
        found = self._sum(tuple(size // 2 for size in sizes)) if all(size % 2 == 0 for size in sizes) else None
        return ("*", "2", f"( {found[1]} {found[0]} {found[2]} )") if found is not None else None

    def _other(self, sizes: Sizes) -> tuple[str, str, str] | None:
        if sizes not in self.found:
            self.found[sizes] = self._ratio(sizes) or self._sum(sizes) or self._twice(sizes)
        return self.found[sizes]

    def factors(self, sizes: Sizes) -> list[str] | None:
        """The dims whose product this is, or one number that all configurations share; None if no expression fits."""
        if len(set(sizes)) == 1:
            return [str(sizes[0])]
        if sizes in self.products:
            return [self._from(path) for path in self.products[sizes]]
        for count, path in self.path_of.items():
            if "heads" not in path or "/" in path or any(a % b for a, b in zip(sizes, count, strict=True)):
                continue
            rest = _fold(operator.floordiv, [sizes, count])
            found = self._multiple(rest) or self._sum(rest) if min(rest) > 1 and len(set(rest)) > 1 else None
            if found is not None and "*" not in found[1] + found[2]:
                self.found[rest] = found
                return [self._from(path), self._defined(rest)]
        return [self._defined(sizes)] if self._other(sizes) is not None else None

    def single(self, sizes: Sizes) -> str | None:
        """One dim that is this long."""
        if len(set(sizes)) == 1:
            return None
        if sizes in self.path_of:
            return self._from(self.path_of[sizes])
        found = self.factors(sizes)
        if found is None or len(found) == 1:
            return found[0] if found else None
        return self._named(" * ".join(found), "_".join(found))

    def _from(self, path: str) -> str:
        if "/" in path and path not in self.names:
            hidden, heads = (self._from(one) for one in path.split("/"))
            self.names[path] = as_word("head", self.taken)
            self.lines[self.names[path]] = f"= {hidden} / {heads}"
        if path not in self.names:
            short = re.sub(r"^(num|n)_|_(size)$", "", path.rsplit(".", 1)[-1])
            inside = path.rsplit(".", 1)[0].removesuffix("_config").replace(".", "_") + "_" if "." in path else ""
            name = self.names[path] = as_word(inside + short, self.taken)
            default: Any = self.defaults.get(path)
            if default in self.path_of and self.path_of[default] != path:
                default = self._from(self.path_of[default])
            elif default is not None and len(set(default)) == 1:
                default = default[0] if default[0] >= 0 else None
            elif default is not None:
                found = self._other(default)
                default = self._worded(f"{found[1]} {found[0]} {found[2]}") if found is not None else None
            paths = ", ".join(f"config.{one}" for one in (path, *self.others.get(path, [])))
            self.lines[name] = f"from {paths}" + (f" else {default}" if default is not None else "")
        return self.names[path]

    def follows_others(self, path: str) -> bool:
        """Whether this value, where it is not given, is one of other dims."""
        default = self.defaults.get(path)
        return default is not None and len(set(default)) > 1

    def _worded(self, expression: str) -> str:
        """An expression of paths as one of dims."""
        return " ".join(self._from(word) if re.match(r"[A-Za-z_]", word) else word for word in expression.split())

    def _defined(self, sizes: Sizes) -> str:
        found = self._other(sizes)
        assert found is not None
        op, left, right = found
        text = self._worded(f"{left} {op} {right}")
        joined = {"/": "_per_", "+": "_and_", "*": "_times_"}[op]
        words = [re.sub(r"\W+", "_", self._worded(side)) for side in (left, right)]
        return self._named(text, joined.join(words))

    def _named(self, text: str, name: str) -> str:
        if text not in self.names:
            self.names[text] = as_word(name, self.taken)
            self.lines[self.names[text]] = f"= {text}"
        return self.names[text]


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
