"""Small configurations of one type of model of the installed transformers, each with sizes of its own.

The sizes of a configuration are found by the names that transformers gives them, and then by trial: a number that
changes a shape when it is changed is a size as well.
"""

from __future__ import annotations

import copy
import itertools
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ucp_checkpoint._import_models import NAMES, STAGES

COUNT = 4  # Three to lift the rules from, and one that they are checked at.

Path = tuple[str, ...]
Sizes = tuple[int, ...]
Shapes = dict[str, tuple[int, ...]]
PERMUTED: list[Sizes] = [(2, 3, 5, 4), (3, 5, 2, 4), (5, 2, 3, 4), (3, 2, 5, 4), (2, 5, 3, 4), (5, 3, 2, 4)]
VARIED = [*PERMUTED, *itertools.permutations((2, 3, 7, 5)), *itertools.permutations((3, 4, 7, 5))]
LAYERS = [(5, 6, 7, 8), (6, 7, 5, 8), (7, 5, 6, 8), (5, 7, 6, 8), (6, 5, 7, 8), (7, 6, 5, 8)]
EXPERTS = [(4, 7, 5, 6), (5, 4, 8, 6), (8, 4, 6, 5), (4, 8, 7, 5)]
KV = [(2, 3, 2, 3), (3, 2, 3, 2), (2, 2, 3, 3), (3, 3, 2, 2), (3, 2, 2, 3), (2, 3, 3, 2)]
DENSE = [(2, 3, 4, 3), (3, 4, 2, 3), (1, 2, 4, 3)]
SHARED = [(2, 1, 3, 2), (3, 2, 1, 2), (1, 3, 2, 2)]
PERIODS = [(2, 3, 4, 3), (3, 2, 4, 3)]
OFFSETS = [(1, 2, 1, 2), (1, 1, 2, 2)]  # Each below the period at its place.
GROUP = [(3, 2, 5, 4), (2, 5, 3, 4), (5, 3, 2, 4)]
POOLS = {
    "layers": LAYERS, "experts": EXPERTS, "dense": DENSE, "shared": SHARED, "period": PERIODS, "offset": OFFSETS,
    "groups": GROUP,
}  # fmt: skip
HEADS_OF_ALL = [(12, 6, 18, 12), (6, 18, 12, 24), (18, 12, 6, 24)]  # Each count of key heads divides them.
PRIMES = [p for p in range(11, 2000) if all(p % d for d in range(2, int(p**0.5) + 1))]

SOME_LAYERS = re.compile(r"(index(es)?|_indices|only_layers|attention_layers)$")
IGNORED = re.compile(r"(_id|_ids|_index|_token|seed|version|_window|return_.*)$")
FIXED = {
    r"num_experts_per_tok(en)?|moe_top_?k|top_k(_experts)?|num_selected_experts|moe_k|experts_per_token": 2,
    r".*_token_(id|index)": 3,  # Below the size of the vocabulary.
    r"n_group|topk_group|num_expert_groups?": 1,
}
ROLES = [
    ("dense", r"first_k_dense_replace|num_dense_layers|moe_layer_start_index"),
    ("period", r"\w+_layer_period"),
    ("offset", r"\w+_layer_offset"),
    ("layers", r"n_layers?|num_layers|num_hidden_layers|(en|de)coder_layers|depth|num_(en|de)coder_layers"),
    ("kv", r"(\w+_)?num_(key_value|kv)_heads|n_kv_heads|n_head_kv|linear_num_key_heads"),
    ("heads", r"(num_|n_)(attention_)?heads?|\w+_attention_heads|linear_num_value_heads"),
    ("head", r".*head_dim|d_kv|kv_channels"),
    ("groups", r"o_groups"),
    ("hidden", r"hidden_size|d_model|n_embd|dim|embed_dim|hidden_dim"),
    ("patch", r"patch_size"),
    ("image", r"(\w+_)?image_size|img_size"),
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
    lengths = {value for key, value in config.items() if is_layers(key) and isinstance(value, int)}
    for key, value in config.items():
        if isinstance(value, dict):
            yield from per_layer(value, (*path, str(key)))
        elif isinstance(value, list) and len(value) > 1 and len(value) in lengths and all(map(_is_kind, value)):
            yield (*path, str(key)), value


def some_layers(config: dict[str, Any], path: Path = ()) -> Iterator[tuple[Path, list[int], int]]:
    """Every list of the numbers of some layers, and how many layers there are."""
    count = max((value for key, value in config.items() if is_layers(key) and isinstance(value, int)), default=0)
    for key, value in config.items():
        if isinstance(value, dict):
            yield from some_layers(value, (*path, str(key)))
        elif isinstance(value, list) and SOME_LAYERS.search(str(key)) and 1 < len(value) < count:
            is_some = all(isinstance(entry, int) and 0 <= entry < count for entry in value)
            if is_some and value == sorted(set(value)):
                yield (*path, key), value, count


def is_layers(key: Any) -> bool:
    return role_of(str(key)) == "layers"


def _is_kind(entry: Any) -> bool:
    return isinstance(entry, (str, int))


def open_sizes(config: dict[str, Any], missing: set[str], path: Path = ()) -> Iterator[Path]:
    """Sizes that follow from others unless they are given: null, or asked for by the class and not there."""
    for key, inner in config.items():
        if isinstance(inner, dict):
            yield from open_sizes(inner, missing, (*path, str(key)))
        elif inner is None and role_of(str(key)) is not None:
            yield (*path, str(key))
    if any(role_of(str(key)) == "hidden" for key in config):
        yield from ((*path, key) for key in sorted(missing) if key not in config and role_of(key) is not None)


def role_of(key: str) -> str | None:
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


class Chooser:
    """Sizes that no two knobs have in common, since a rule names the one whose sizes it has."""

    def __init__(self, base: dict[str, Any]) -> None:
        self.used: set[Sizes] = set()
        self.primes = iter(PRIMES)
        self.places: dict[Path, int] = {}
        self.patches: dict[Path, Sizes] = {}
        self.kinds: dict[Path, int] = {}  # Of each object, how many counts of key heads it has.
        for path, value in integers(base):
            if value > 0 and role_of(path[-1]) == "kv" and not path[-1].startswith("linear_"):
                self.kinds[path[:-1]] = self.kinds.get(path[:-1], 0) + 1

    def choose(self, role: str, path: Path) -> Sizes | None:
        chosen = self.first(self._candidates(role, path[:-1], is_linear=path[-1].startswith("linear_")))
        if role == "patch" and chosen is not None:
            self.patches.setdefault(path[:-1], chosen)
        return chosen

    def first(self, candidates: Iterable[Sizes]) -> Sizes | None:
        """The first one that is new; None if all are used."""
        chosen = next((sizes for sizes in candidates if sizes[:-1] not in self.used), None)
        if chosen is not None:
            self.used.add(chosen[:-1])
        return chosen

    def unlike(self, candidates: Iterable[Sizes]) -> Sizes | None:
        """The first one that is not a multiple of any other's sizes, or else the first new one."""
        several = list(candidates)
        ratios = {_lowest(sizes) for sizes in self.used}
        return self.first([*(one for one in several if _lowest(one[:-1]) not in ratios), *several])

    def free(self, sizes: Sizes) -> None:
        """For another knob."""
        self.used.discard(sizes[:-1])

    def _candidates(self, role: str, inside: Path, *, is_linear: bool) -> Iterator[Sizes]:
        place = self.places.setdefault(inside, len(self.places)) % len(GROUP)
        heads = _times(KV[place], GROUP[place]) if self.kinds.get(inside, 0) < 2 else HEADS_OF_ALL[place]
        if role == "kv":
            yield from KV[len(GROUP) :] if is_linear else KV[place:]
        elif role == "heads" and is_linear:
            yield from (_times(one, GROUP[place]) for one in KV[len(GROUP) :])
        elif role == "heads":
            yield from (scaled(factor, heads) for factor in (1, 2, 4))
        elif role == "hidden":
            yield from (_times(heads, scaled(4, sizes)) for sizes in PERMUTED[::-1])
        elif role == "patch":
            yield from PERMUTED
        elif role == "image":
            patch = self.patches.get(inside, (1,) * COUNT)
            yield from (_times(patch, scaled(4, sizes)) for sizes in VARIED[len(PERMUTED) :])  # Unlike any head.
        elif role in POOLS:
            yield from POOLS[role]
        elif role == "head":
            yield from (scaled(4 * factor, sizes) for factor in range(1, 9) for sizes in PERMUTED)
        while len(several := tuple(itertools.islice(self.primes, COUNT))) == COUNT:
            yield scaled(4 if role in ("ffn", "rank") else 1, several)


def _lowest(sizes: Sizes) -> Sizes:
    divisor = math.gcd(*sizes)
    return tuple(size // divisor for size in sizes)


def _times(left: Sizes, right: Sizes) -> Sizes:
    return tuple(a * b for a, b in zip(left, right, strict=True))


def scaled(factor: int, sizes: Sizes) -> Sizes:
    return tuple(factor * size for size in sizes)


def by_name(base: dict[str, Any], chooser: Chooser) -> dict[Path, Sizes]:
    knobs: dict[Path, Sizes] = {}
    for path, value in sorted(integers(base), key=lambda item: role_of(item[0][-1]) == "image"):  # Behind its patches.
        for pattern, fixed in FIXED.items():
            if re.fullmatch(pattern, path[-1]) and value > 0:
                knobs[path] = (fixed,) * COUNT
        role = role_of(path[-1])
        if role is not None and value > 0 and path not in knobs:
            sizes = chooser.choose(role, path)
            if sizes is not None:
                knobs[path] = sizes
    return knobs


def scaled_down(base: dict[str, Any], values: dict[Path, Any], *, lists: bool) -> dict[str, Any]:
    """The configuration with these values. A list with one entry for each layer has its kinds in turn, as many of them
    as its size has room for."""
    config = copy.deepcopy(base)
    for path, value in values.items():
        put(config, path, value)
    for turn, (path, entries) in enumerate(per_layer(base)):  # Two lists alike would be one rule.
        inside, before = place_of(config, path), place_of(base, path)
        if path not in values and inside is not None and before is not None:
            kinds = list(dict.fromkeys(entries))
            size = next(inside[key] for key in before if is_layers(key) and before[key] == len(entries))
            inside[path[-1]] = [kinds[(i // (1 + turn % 3)) % len(kinds)] for i in range(size)] if lists else None
    for path, some, count in some_layers(base):
        inside, before = place_of(config, path), place_of(base, path)
        if path not in values and path[-1] not in STAGES and inside is not None and before is not None:
            size = next(inside[key] for key in before if is_layers(key) and before[key] == count)
            inside[path[-1]] = _some_of(size, min(len(some), size - 2), has_first=some[0] == 0)
    return config


def _some_of(size: int, few: int, *, has_first: bool) -> list[int]:
    """The numbers of some layers, others for each count of layers."""
    rest = few - has_first
    found = {1 + (size % 3 + number * (size - 1) // rest) % (size - 1) for number in range(rest)}
    return sorted(found | {0} if has_first else found)


def other_sizes(value: int) -> list[int]:
    """Values to try in place of this one."""
    return [other for other in (2 * value, 3 * value, value + 1, value - 1, value // 2) if other not in (0, value)]
