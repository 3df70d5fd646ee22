"""The part of each tensor that each rank holds by a spec (`ucpc explain --json`), and where real shards differ."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from .held import HeldTensor, Truth, own_indices, parse_held

SPECS = Path(__file__).parents[2] / "specs"
PADDING = -1

# The names of megatron-core's arguments in its spec.
MEGATRON_CORE = {
    "num_layers": "layers", "hidden_size": "hidden", "num_attention_heads": "heads", "num_query_groups": "kv_heads",
    "kv_channels": "head", "ffn_hidden_size": "ffn", "vocab_size": "vocab", "max_position_embeddings": "seq",
    "make_vocab_size_divisible_by": "grain", "swiglu": "gated", "add_bias_linear": "biased", "normalization": "norm",
    "position_embedding_type": "position", "untie_embeddings_and_output_weights": "untied",
    "transformer_impl": "layer",
}  # fmt: skip


@dataclass(frozen=True)
class Declared:
    """A tensor: its logical shape, and what it is at each coordinate of the axes that cut it."""

    shape: list[int]
    holders: list[dict[str, Any]]
    optional: bool


def axes_of(truth: Truth) -> list[str]:
    """The axes that the same ranks stand on. AutoTP does not cut fused experts; transformers' tensor plan does."""
    return [truth.axis, "etp"] if truth.name.startswith("plan.") and truth.axis == "tp" else [truth.axis]


def explain(ucpc: Path, spec: Path, truth: Truth) -> dict[str, Declared]:
    """All tensors of the spec by all their names, at the degree of the truth."""
    axes = axes_of(truth)
    known = re.findall(r"\bmesh ([^/{]*)", spec.read_text())
    degrees = [f"{axis}={truth.degree}" for axis in axes if any(axis in re.split(r"\W+", line) for line in known)]
    command = [str(ucpc), "explain", str(spec), "--json", "--from", "deepspeed:" + ",".join(degrees)]
    for name, value in _settings(spec, truth):
        command += ["--set", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, f"{' '.join(command)}\n{result.stdout[-2000:]}{result.stderr[-2000:]}"
    declared = {}
    for tensor in json.loads(result.stdout)["tensors"]:
        # A buffer is in no optimizer, and `named_parameters` does not show it.
        absent = tensor["optional"] or tensor["kind"] == "buffer"
        for name in [tensor["name"], *tensor["aliases"]]:
            absent_name = absent or name != tensor["name"]
            declared[name] = Declared(tensor["shape"], tensor["holders"], absent_name)
    return declared


def _settings(spec: Path, truth: Truth) -> list[tuple[str, Any]]:
    """The values of the spec's dims and facts: those that its own lines read from the configuration."""
    if truth.name.startswith("megatron_core."):
        return [(MEGATRON_CORE[key], value) for key, value in truth.config.items()]
    found = []
    for name, line in re.findall(r"^(?:dim|fact)\s+(\w+)\s+from\s+(.*)$", spec.read_text(), re.MULTILINE):
        keys = re.findall(r"config\.(\w+)", re.split(r"\b(?:else|when)\b", line)[0])
        found += [(name, truth.config[key]) for key in keys if key in truth.config][:1]
    return found


def held_by(declared: Declared, coordinate: Mapping[str, int]) -> numpy.ndarray:
    """The elements that one rank holds, as indices of the full tensor; padding is -1."""
    (box,) = [
        holder["box"] for holder in declared.holders
        if all(coordinate.get(axis, 0) == at for axis, at in holder["at"].items())
    ]  # fmt: skip
    dims = [_positions(text) for text in box.removeprefix("[").removesuffix("]").split(", ")] if declared.shape else []
    padded = own_indices(declared.shape)
    for dim, positions in enumerate(dims):
        if PADDING in positions:  # One more row of padding, the last: index -1 finds it.
            row = numpy.full([1 if d == dim else n for d, n in enumerate(padded.shape)], PADDING)
            padded = numpy.concatenate([padded, row], dim)
    return padded[numpy.ix_(*dims)] if dims else padded


def _positions(text: str) -> list[int]:
    assert "more runs" not in text, text
    found: list[int] = []
    words = iter(text.split())
    for word in words:
        if word == "pad":
            found += [PADDING] * int(next(words))
        elif word != "nothing":
            begin, end = word.split("..")
            found += range(int(begin), int(end))
    return found


def real_shard(tensor: HeldTensor, rank: int, shape: list[int]) -> numpy.ndarray:
    """The real shard in indices of the logical tensor: rows beyond it are the padding of a vocabulary."""
    positions = parse_held(tensor.held[rank])
    inside = own_indices(shape)
    grown = numpy.full(tensor.shape, PADDING, dtype=numpy.int64)
    grown[tuple(slice(0, length) for length in shape)] = inside
    return grown[numpy.ix_(*positions)] if positions else grown


def differences(declared: Mapping[str, Declared], truth: Truth) -> dict[str, str]:
    """For each tensor that the spec and the real shards do not share, how they differ."""
    found = {name: "the model does not have it" for name, tensor in declared.items()
             if name not in truth.tensors and not tensor.optional}  # fmt: skip
    for name, tensor in truth.tensors.items():
        if name not in declared:
            found[name] = "the spec does not have it"
            continue
        shape = declared[name].shape
        grows = [d for d, (ours, theirs) in enumerate(zip(shape, tensor.shape, strict=True)) if ours != theirs]
        if any(shape[dim] > tensor.shape[dim] for dim in grows) or (grows and not truth.name.startswith("megatron")):
            found[name] = f"its shape is {tensor.shape}, and the spec says {shape}"
            continue
        for rank in range(truth.degree):
            at = dict.fromkeys(axes_of(truth), rank)
            ours, theirs = held_by(declared[name], at), real_shard(tensor, rank, shape)
            if ours.shape != theirs.shape and ours.size + theirs.size > 0:
                found[name] = f"rank {rank} has {list(theirs.shape)}, and the spec says {list(ours.shape)}"
            elif ours.size and not numpy.array_equal(ours, theirs):
                found[name] = f"rank {rank} holds {tensor.held[rank]}"
    return found
