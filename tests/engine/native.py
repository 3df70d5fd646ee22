"""Two native checkpoints as PyTorch sees them, and what is not the same in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

# Entries that the saving run writes by itself, whatever it loaded.
CLIENT = {"note", "iteration", "args", "checkpoint_version", "tokens", "universal_checkpoint_info", "rng_state"}


def read_files(root: Path) -> dict[str, Any]:
    """Every file of the checkpoint that `latest` names."""
    folder = root / (root / "latest").read_text()
    return {
        file.name: torch.load(file, weights_only=False, map_location="cpu")
        for file in sorted(folder.iterdir())
        if file.suffix == ".pt"
    }


def plain(value: Any) -> Any:
    """An object of a class as the dict of its attributes, with the class."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if kind.endswith("ZeroStageEnum"):
        return kind, int(value)
    return {"class": kind, **vars(value)} if kind.startswith("deepspeed.") else value


def unlike(ours: Any, theirs: Any, place: str, widened: str | None = None) -> Iterator[str]:
    """Every place where two values differ. Dicts have no order, but for those of shapes and addresses. Tensors called
    `widened` are float32 in theirs."""
    ours, theirs = plain(ours), plain(theirs)
    if isinstance(theirs, torch.Tensor):
        if widened is not None and place.endswith(widened) and isinstance(ours, torch.Tensor):
            ours = ours.float()
        same = isinstance(ours, torch.Tensor) and ours.dtype == theirs.dtype and ours.shape == theirs.shape
        if not same or not torch.equal(ours, theirs):
            yield f"{place}: {describe(ours)} against {describe(theirs)}"
    elif isinstance(theirs, dict) and isinstance(ours, dict):
        mine, others = [key for key in ours if key not in CLIENT], [key for key in theirs if key not in CLIENT]
        in_order = ".param_shapes[" in place or ".param_slice_mappings[" in place
        if mine != others if in_order else set(mine) != set(others):
            yield f"{place}: the keys {mine} against {others}"
        for key in ours.keys() & theirs.keys():
            if key not in CLIENT:
                yield from unlike(ours[key], theirs[key], f"{place}.{key}", widened)
    elif place.endswith(".buffer_names"):  # A set: everything of a module is found by its name.
        yield from unlike(set(ours), set(theirs), f"{place} as a set", widened)
    elif isinstance(theirs, list) and isinstance(ours, list) and len(ours) == len(theirs):
        for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from unlike(mine, other, f"{place}[{index}]", widened)
    elif ours != theirs or type(ours) is not type(theirs):
        yield f"{place}: {ours!r} against {theirs!r}"


def describe(value: Any) -> str:
    """A tensor in few words."""
    if not isinstance(value, torch.Tensor):
        return repr(value)
    return f"{value.dtype} {list(value.shape)} {value.flatten()[:4].tolist()}"


def written_by_any(ours: Any, theirs: Any) -> bool:
    """Whether several ranks save this file of an expert, at the same time and each with its own number, of which ours
    has one. Those with a data-parallel rank below the number of expert ranks save it."""
    folding = theirs.get("folding", {})
    if folding.get("zero_partition_group") != "edp" or "folding" not in ours:
        return False
    tp, ep = folding["tp_size"], folding["ep_size"]
    dp = folding["zero_partition_count"] * ep // tp
    ranks = [p * tp + folding["tp_rank"] for p in range(min(dp, ep))]
    numbers = [rank // ep for rank in ranks if rank % ep == folding["ep_rank"]]
    return len(numbers) > 1 and ours["folding"].get("zero_partition_rank") in numbers


def differences_of_files(ours: Path, theirs: Path, widened: str | None = None) -> list[str]:
    """Files that only one has, and everything that differs inside the others (`widened`: see unlike())."""
    mine, other = read_files(ours), read_files(theirs)
    found = [f"only in {root}: {name}" for root, name in [(ours, n) for n in mine.keys() - other.keys()]]
    found += [f"only in {theirs}: {name}" for name in other.keys() - mine.keys()]
    for name in sorted(mine.keys() & other.keys()):
        if written_by_any(mine[name], other[name]):
            mine[name]["folding"]["zero_partition_rank"] = other[name]["folding"]["zero_partition_rank"]
        found += unlike(mine[name], other[name], name, widened)
        if "ds_autoep_layers" in other[name] and other[name]["ds_autoep_layers"]:  # Then it is the engine's own.
            key = "universal_checkpoint_info"
            found += unlike(mine[name].get(key), other[name].get(key), f"{name}.{key}")
    return found
