"""The rules of models and layouts, word by word and element by element: slow, obvious, and nobody else's code.

`Spec` reads the text of a spec that has a model. `stored()` says for each tensor of a layout, and for each place of it,
which element of which part stands there; the parts are arrays of which every element is another number.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy

Place = tuple[str | None, dict[str, int]]  # The part, if a label names it, and the place of each factor.

TOKEN = re.compile(r'"[^"]*"|[A-Za-z_][\w.]*|\d+|==|[{}\[\]():,=*+@/<>-]')


@dataclass
class Tensor:
    """One line of a layout: the names in front of it, and its tree."""

    names: list[str]
    part: str | None
    dims: list[Any] | None  # None: all of the part, as the model has it.
    conditions: list[tuple[str, bool]] = field(default_factory=list)
    offset: int = 0  # Its places hold the element plus this.


class Spec:
    """The model and the layouts of a text. Dims and facts are those that the caller gives."""

    def __init__(self, path: Path) -> None:
        text = re.sub(r"//[^\n]*", "", path.read_text())
        self.tokens = TOKEN.findall(text)
        self.at = 0
        self.parts: dict[str, list[Any]] = {}
        self.layouts: dict[str, list[Tensor]] = {}
        self.ties: dict[str, list[Tensor]] = {}
        self.products: dict[str, list[str]] = {}
        for name, product in re.findall(r"^dim\s+(\w+)\s*=\s*(\w+(?:\s*\*\s*\w+)+)\s*$", text, re.M):
            self.products[name] = [word.strip() for word in product.split("*")]
        while self.at < len(self.tokens):
            word = self.next()
            if word == "model":
                self.next()
                self.expect("{")
                while self.peek() != "}":
                    part = self.next()
                    self.parts[part] = self.shape()
                self.expect("}")
            elif word == "layout":
                name = self.next()
                self.expect("of")
                self.next()
                self.layouts[name] = []
                self.body(self.layouts[name], [], [])

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def expect(self, token: str) -> None:
        found = self.next()
        assert found == token, (token, found, self.tokens[self.at - 10 : self.at + 5])

    def shape(self) -> list[Any]:
        self.expect("[")
        dims = []
        while self.peek() != "]":
            dims.append(self.sum())
            if self.peek() == ",":
                self.next()
        self.expect("]")
        return dims

    def sum(self) -> Any:
        terms = [self.term()]
        while self.peek() == "+":
            self.next()
            terms.append(self.term())
        return ("sum", terms) if len(terms) > 1 else terms[0]

    def term(self) -> Any:
        product = self.product()
        if self.peek() == ":":
            self.next()
            return ("label", product[1], self.product())
        return product

    def product(self) -> Any:
        factors = [self.factor()]
        while self.peek() == "*":
            self.next()
            factors.append(self.factor())
        return ("product", factors) if len(factors) > 1 else factors[0]

    def factor(self) -> Any:
        word = self.next()
        tree: Any = ("name", word)
        if word == "(":
            tree = self.sum()
            self.expect(")")
        elif word == "pad":
            self.expect("(")
            tree = self.sum()
            while self.next() != ")":
                pass
        elif word.isdigit():
            tree = ("number", int(word))
        while self.peek() == "@":
            self.next()
            if self.next() == "(":
                while self.next() != ")":
                    pass
            if self.peek() == "(":
                while self.next() != ")":
                    pass
        return tree

    def body(self, tensors: list[Tensor], names: list[str], conditions: list[tuple[str, bool]]) -> None:
        self.expect("{")
        while self.peek() != "}":
            word = self.next()
            if word == "buffer":
                word = self.next()
            if word == "block":
                self.body(tensors, [*names, self.next()[1:-1]], conditions)
            elif word == "when":
                self.when(tensors, names, conditions)
            elif word == "tie":
                self.next(), self.expect("="), self.next()
                self.stages()
            else:
                tensors.append(self.tensor([*names, word[1:-1]], conditions))
        self.expect("}")

    def when(self, tensors: list[Tensor], names: list[str], conditions: list[tuple[str, bool]]) -> None:
        words = []
        while self.peek() != "{":
            words.append(self.next())
        condition = " ".join(words)
        self.body(tensors, names, [*conditions, (condition, True)])
        if self.peek() == "else":
            self.next()
            otherwise = [*conditions, (condition, False)]
            if self.peek() == "when":
                self.next()
                self.when(tensors, names, otherwise)
            else:
                self.body(tensors, names, otherwise)

    def tensor(self, names: list[str], conditions: list[tuple[str, bool]]) -> Tensor:
        self.expect("=")
        part = None if self.peek() == "[" else self.next()
        dims = self.shape() if self.peek() == "[" else None
        self.stages()
        offset = 0
        if self.peek() == "offset":
            self.next(), self.expect("(")
            sign = -1 if self.peek() == "-" and self.next() else 1
            offset = sign * int(self.next())
            self.expect(")")
        self.stages()
        return Tensor(names, part, dims, list(conditions), offset)

    def stages(self) -> None:
        if self.peek() == "at":
            self.next()
            self.next()
            while self.peek() == ",":
                self.next(), self.next()


class Rules:
    """A spec with values: dims are numbers, facts are true or false, or lists."""

    def __init__(self, spec: Spec, dims: dict[str, int], facts: dict[str, Any] | None = None) -> None:
        self.spec = spec
        self.dims = dims
        self.facts = facts or {}
        self.parts: dict[str, numpy.ndarray] = {}
        first = 1
        for name in spec.parts:
            shape = [size for _, size in self.factors_of(name)]
            count = int(numpy.prod(shape, dtype=int))
            self.parts[name] = numpy.arange(first, first + count, dtype=numpy.int64).reshape(shape)
            first += count

    def atoms(self, name: str) -> list[str]:
        product = self.spec.products.get(name)
        return [name] if product is None else [atom for word in product for atom in self.atoms(word)]

    def factors_of(self, part: str) -> list[tuple[str, int]]:
        """The factors of a part, and how many places each has."""
        factors = []
        for dim in self.spec.parts[part]:
            for tree in dim[1] if dim[0] == "product" else [dim]:
                if tree[0] == "label":
                    factors.append((tree[1], len(self.places(tree[2]))))
                else:
                    factors += [(atom, self.dims[atom]) for atom in self.atoms(tree[1])]
        return factors

    def places(self, tree: Any) -> list[Place]:
        """All places of a dimension, in order."""
        if tree[0] == "number":
            assert tree[1] == 1, tree
            return [(None, {})]
        if tree[0] == "name":
            atoms = self.atoms(tree[1])
            return [
                (None, dict(zip(atoms, index, strict=True)))
                for index in itertools.product(*(range(self.dims[atom]) for atom in atoms))
            ]
        if tree[0] == "label" and tree[1] in self.spec.parts:
            return [(tree[1], factors) for _, factors in self.places(tree[2])]
        if tree[0] == "label":
            return [(None, {tree[1]: i}) for i in range(len(self.places(tree[2])))]
        if tree[0] == "sum":
            return [place for term in tree[1] for place in self.places(term)]
        return [self.joined(row) for row in itertools.product(*(self.places(factor) for factor in tree[1]))]

    @staticmethod
    def joined(places: tuple[Place, ...]) -> Place:
        parts = [part for part, _ in places if part is not None]
        assert len(parts) <= 1, places
        factors: dict[str, int] = {}
        for _, more in places:
            assert not factors.keys() & more.keys(), places
            factors |= more
        return (parts[0] if parts else None, factors)

    def holds(self, conditions: list[tuple[str, bool]], counters: dict[str, int]) -> bool:
        """Whether a line is there: conditions are written as Python writes them."""
        values = self.dims | self.facts | counters
        return all(bool(eval(condition, {}, values)) == wanted for condition, wanted in conditions)

    def named(self, tensor: Tensor) -> list[tuple[str, dict[str, int]]]:
        """Every name of a line that its conditions let stand, and the places of the factors that it counts."""
        pattern = ".".join(tensor.names)
        counters = re.findall(r"\{([^}]*)\}", pattern)
        counted = [re.sub(r"@.*", "", counter.split(":")[1]).strip() for counter in counters]
        variables = [re.split(r"[:+]", counter)[0].strip() for counter in counters]
        found = []
        for index in itertools.product(*(range(self.dims[name]) for name in counted)):
            if not self.holds(tensor.conditions, dict(zip(variables, index, strict=True))):
                continue
            name = pattern
            for counter, place in zip(counters, index, strict=True):
                offset = re.search(r"\+\s*(\d+)", counter.split(":")[0])
                name = name.replace("{" + counter + "}", str(place + (int(offset[1]) if offset else 0)))
            found.append((name, dict(zip(counted, index, strict=True))))
        return found

    def whole(self, part: str, counted: dict[str, int]) -> list[Any]:
        dims = []
        for dim in self.spec.parts[part]:
            factors = [f for f in (dim[1] if dim[0] == "product" else [dim]) if f[1] not in counted]
            if factors:
                dims.append(("product", factors))
        return dims

    def stored(self, layout: str) -> dict[str, numpy.ndarray]:
        """Every tensor of a layout. No element of a part may be in two places, and none may be forgotten."""
        tensors = {}
        seen: list[int] = []
        for line in self.spec.layouts[layout]:
            for name, counted in self.named(line):
                dims = line.dims if line.dims is not None else self.whole(str(line.part), counted)
                rows = [self.places(dim) for dim in dims]
                values = [self.element(line.part, counted, row) for row in itertools.product(*rows)]
                seen += values
                tensors[name] = numpy.array(values, dtype=numpy.int64).reshape([len(row) for row in rows])
                tensors[name] += line.offset
        assert len(seen) == len(set(seen))
        return tensors

    def element(self, part: str | None, counted: dict[str, int], row: tuple[Place, ...]) -> int:
        said, factors = self.joined((*row, (part, counted)))
        assert said is not None
        names = [name for name, _ in self.factors_of(said)]
        assert set(names) == set(factors), (said, names, factors)
        return int(self.parts[said][tuple(factors[name] for name in names)])
