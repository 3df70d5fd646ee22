"""Small configurations of one type of model of the installed transformers, each with sizes of its own.

The sizes of a configuration are found by the names that transformers gives them, and then by trial: a number that
changes a shape when it is changed is a size as well.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ucp_checkpoint._failure import failure
from ucp_checkpoint._import_models import NAMES, Build, Model, reason_of

COUNT = 4  # Three to lift the rules from, and one that they are checked at.

Path = tuple[str, ...]
Sizes = tuple[int, ...]
Shapes = dict[str, tuple[int, ...]]
PERMUTED = [(2, 3, 5, 4), (3, 5, 2, 4), (5, 2, 3, 4), (3, 2, 5, 4), (2, 5, 3, 4), (5, 3, 2, 4)]
LAYERS = [(5, 6, 7, 8), (6, 7, 5, 8), (7, 5, 6, 8), (5, 7, 6, 8), (6, 5, 7, 8), (7, 6, 5, 8)]
EXPERTS = [(4, 7, 5, 6), (5, 4, 8, 6), (8, 4, 6, 5), (4, 8, 7, 5)]
KV = [(2, 3, 2, 3), (3, 2, 3, 2), (2, 2, 3, 3), (3, 3, 2, 2), (3, 2, 2, 3), (2, 3, 3, 2)]
DENSE = [(2, 3, 4, 3), (3, 4, 2, 3), (1, 2, 4, 3)]
SHARED = [(2, 1, 3, 2), (3, 2, 1, 2), (1, 3, 2, 2)]
POOLS = {"layers": LAYERS, "experts": EXPERTS, "dense": DENSE, "shared": SHARED}
GROUP = [(3, 2, 5, 4), (2, 5, 3, 4), (5, 3, 2, 4)]
PRIMES = [p for p in range(11, 2000) if all(p % d for d in range(2, int(p**0.5) + 1))]

IGNORED = re.compile(r"(_id|_ids|_index|_token|seed|version|_window|return_.*)$")
FIXED = {
    r"num_experts_per_tok(en)?|moe_top_?k|top_k(_experts)?|num_selected_experts|moe_k|experts_per_token": 2,
    r".*_token_(id|index)": 3,  # Below the size of the vocabulary.
    r"n_group|topk_group|num_expert_groups?": 1,
}
ROLES = [
    ("dense", r"first_k_dense_replace|num_dense_layers|moe_layer_start_index"),
    ("layers", r"n_layers?|num_layers|num_hidden_layers|(en|de)coder_layers|depth|num_(en|de)coder_layers"),
    ("kv", r"num_key_value_heads|num_kv_heads|n_kv_heads|n_head_kv|linear_num_key_heads"),
    ("heads", r"(num_|n_)(attention_)?heads?|(en|de)coder_attention_heads|linear_num_value_heads"),
    ("head", r".*head_dim|d_kv|kv_channels"),
    ("hidden", r"hidden_size|d_model|n_embd|dim|embed_dim|hidden_dim"),
    ("experts", r"num_(local_)?experts|n_routed_experts|moe_num_experts"),
    ("shared", r"n_shared_experts|num_shared_experts|moe_num_shared_experts"),
    ("ffn", r".*(intermediate|ffn)_(size|dim)|d_ff|n_inner|ffn_hidden_size|shared_expert_intermediate_size"),
    ("rank", r".*_lora_rank"),
    ("vocab", r"vocab_size(_per_layer_input)?"),
    ("positions", r"max_position_embeddings|n_positions|max_.*_positions|n_ctx"),
]


def integers(value: Any, path: Path = ()) -> Iterator[tuple[Path, int]]:
    """Every whole number of a configuration, outside of lists."""
    for key, inner in value.items():
        if isinstance(inner, dict) and key not in NAMES:
            yield from integers(inner, (*path, str(key)))
        elif isinstance(inner, int) and not isinstance(inner, bool):
            yield (*path, str(key)), inner


def per_layer(config: dict[str, Any], path: Path = ()) -> Iterator[tuple[Path, list[Any]]]:
    """Every list with one entry for each layer."""
    lengths = {value for key, value in config.items() if _is_layers(key) and isinstance(value, int)}
    for key, value in config.items():
        if isinstance(value, dict):
            yield from per_layer(value, (*path, str(key)))
        elif isinstance(value, list) and value and len(value) in lengths and all(map(_is_kind, value)):
            yield (*path, str(key)), value


def _is_layers(key: Any) -> bool:
    return _role(str(key)) == "layers"


def _is_kind(entry: Any) -> bool:
    return isinstance(entry, (str, int))


def _open(config: dict[str, Any], missing: set[str], path: Path = ()) -> Iterator[Path]:
    """Sizes that follow from others unless they are given: null, or asked for by the class and not there."""
    for key, inner in config.items():
        if isinstance(inner, dict):
            yield from _open(inner, missing, (*path, str(key)))
        elif inner is None and _role(str(key)) is not None:
            yield (*path, str(key))
    if any(_role(str(key)) == "hidden" for key in config):
        yield from ((*path, key) for key in sorted(missing) if key not in config and _role(key) is not None)


def _role(key: str) -> str | None:
    return next((role for role, pattern in ROLES if re.fullmatch(pattern, key)), None)


def place_of(config: dict[str, Any], path: Path) -> dict[str, Any] | None:
    """The object that the last name of a path stands in."""
    for key in path[:-1]:
        if not isinstance(config.get(key), dict):
            return None
        config = config[key]
    return config


def put(config: dict[str, Any], path: Path, value: Any) -> None:
    """Changes one place of a configuration."""
    for key in path[:-1]:
        config = config[key]
    config[path[-1]] = value


class _Chooser:
    """Sizes that no two knobs have in common, since a rule names the one whose sizes it has."""

    def __init__(self) -> None:
        self.used: set[Sizes] = set()
        self.primes = iter(PRIMES)
        self.places: dict[Path, int] = {}

    def choose(self, role: str, path: Path) -> Sizes | None:
        return self.first(self._candidates(role, path[:-1], is_linear=path[-1].startswith("linear_")))

    def first(self, candidates: Iterable[Sizes]) -> Sizes | None:
        """The first one that is new; None if all are used."""
        chosen = next((sizes for sizes in candidates if sizes[:-1] not in self.used), None)
        if chosen is not None:
            self.used.add(chosen[:-1])
        return chosen

    def free(self, sizes: Sizes) -> None:
        """For another knob."""
        self.used.discard(sizes[:-1])

    def _candidates(self, role: str, inside: Path, *, is_linear: bool) -> Iterator[Sizes]:
        place = self.places.setdefault(inside, len(self.places)) % len(GROUP)
        kv, group = KV[place], GROUP[place]
        if role == "kv":
            yield from KV[len(GROUP) :] if is_linear else KV[place:]
        elif role == "heads" and is_linear:
            yield from (_times(one, group) for one in KV[len(GROUP) :])
        elif role == "heads":
            yield from (_scaled(factor, _times(kv, group)) for factor in (1, 2, 4))
        elif role == "hidden":
            yield from (_times(_times(kv, group), _scaled(4, sizes)) for sizes in PERMUTED[::-1])
        elif role in POOLS:
            yield from POOLS[role]
        elif role == "head":
            yield from (_scaled(4 * factor, sizes) for factor in range(1, 9) for sizes in PERMUTED)
        while len(several := tuple(itertools.islice(self.primes, COUNT))) == COUNT:
            yield _scaled(4 if role in ("ffn", "rank") else 1, several)


def _times(left: Sizes, right: Sizes) -> Sizes:
    return tuple(a * b for a, b in zip(left, right, strict=True))


def _scaled(factor: int, sizes: Sizes) -> Sizes:
    return tuple(factor * size for size in sizes)


def _by_name(base: dict[str, Any], chooser: _Chooser) -> dict[Path, Sizes]:
    knobs: dict[Path, Sizes] = {}
    for path, value in integers(base):
        for pattern, fixed in FIXED.items():
            if re.fullmatch(pattern, path[-1]) and value > 0:
                knobs[path] = (fixed,) * COUNT
        role = _role(path[-1])
        if role is not None and value > 0 and path not in knobs:
            sizes = chooser.choose(role, path)
            if sizes is not None:
                knobs[path] = sizes
    return knobs


def _scaled_down(base: dict[str, Any], values: dict[Path, Any], *, lists: bool) -> dict[str, Any]:
    """The configuration with these values. A list with one entry for each layer has all its kinds at every size."""
    config = copy.deepcopy(base)
    for path, value in values.items():
        put(config, path, value)
    for path, entries in per_layer(base):
        inside, before = place_of(config, path), place_of(base, path)
        if path not in values and inside is not None and before is not None:
            kinds = list(dict.fromkeys(entries))
            size = next(inside[key] for key in before if _is_layers(key) and before[key] == len(entries))
            inside[path[-1]] = [kinds[i % len(kinds)] for i in range(size)] if lists else None
    return config


class Family:
    """The small configurations of one model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.lists = True
        self.chooser = _Chooser()
        self.knobs = _by_name(model.base, self.chooser)
        self._fit()
        self._by_trial()

    def config(self, variant: int, changed: dict[Path, Any] | None = None) -> dict[str, Any]:
        """One of the configurations, with some values of another kind or size."""
        values = {path: sizes[variant] for path, sizes in self.knobs.items()}
        return _scaled_down(self.model.base, values | (changed or {}), lists=self.lists)

    def shapes(self, variant: int) -> Shapes | None:
        """None if this one cannot be built."""
        try:
            return Build(self.model, self.config(variant)).shapes
        except Exception as error:  # Whatever the class of a model raises.
            self.reason = reason_of(error)
            return None

    def _builds(self) -> bool:
        return all(self.shapes(variant) is not None for variant in range(COUNT))

    def _fit(self) -> None:
        """A knob that a class does not take small stays as it is."""
        if self._builds():
            return
        self.lists = False
        if self._builds():
            return
        reason = self.reason
        for self.lists in (True, False):
            for path in list(self.knobs):
                kept = self.knobs.pop(path)
                if self._builds():
                    return
                self.knobs[path] = kept
        raise failure(
            "unsupported",
            f"a small `{self.model.name}` cannot be built to look at its tensors: {reason}; write a spec by hand, "
            "or import a folder whose `config.json` has small sizes",
        )

    def _by_trial(self) -> None:
        shapes = self.shapes(0)
        assert shapes is not None
        for path in list(_open(self.model.base, self.model.missing)):
            shapes = self._tried(path, self.chooser.choose(str(_role(path[-1])), path), shapes) or shapes
        for path, value in list(integers(self.model.base)):
            if path in self.knobs or value < 2 or IGNORED.search(path[-1]) or "rope" in path[-1]:
                continue
            scaled = (_scaled(value, sizes) for sizes in (PERMUTED if value <= 64 else ()))
            small = (_scaled(8, _scaled(factor, sizes)) for factor in (1, 2, 3, 5, 7) for sizes in PERMUTED)
            near = (tuple(value + first + v for v in range(COUNT)) for first in range(1, 99))
            for candidates in (itertools.chain(scaled, small), near):
                found = self._tried(path, self.chooser.first(candidates), shapes)
                if found is not None:
                    shapes = found
                    break

    def _tried(self, path: Path, sizes: Sizes | None, shapes: Shapes) -> Shapes | None:
        """The shapes that the first configuration has with a further knob, which stays if it changes them."""
        if sizes is None:
            return None
        self.knobs[path] = sizes
        found = self.shapes(0)
        if found and found != shapes and found.keys() == shapes.keys() and self._builds():
            return found
        del self.knobs[path]
        self.chooser.free(sizes)
        return None
