"""Shards of megatron-core's GPTModel on real processes: its own initialisation cuts a full matrix of indices."""

from __future__ import annotations

from typing import Any

import megatron.core
import torch
from megatron.core import parallel_state
from megatron.core.dist_checkpointing.mapping import ShardedTensor, ShardedTensorFactory
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.transformer.transformer_config import TransformerConfig
from torch import distributed
from torch.nn.functional import gelu, silu

from fixtures.ranks import run_ranks

from .held import HeldTensor, Truth, held_text, own_indices, positions_of

# The keys are those of Megatron's arguments. GPT: biases, full heads, learned positions, a tied embedding. Llama:
# groups of queries, SwiGLU, RMSNorm, an untied head. The third is not published; it has the rest.
COMMON = {"num_layers": 2, "hidden_size": 32, "num_attention_heads": 8, "ffn_hidden_size": 48, "vocab_size": 50,
          "max_position_embeddings": 16, "make_vocab_size_divisible_by": 8, "transformer_impl": "local"}  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {
    "gpt": COMMON | {"num_query_groups": 8, "swiglu": False, "add_bias_linear": True, "normalization": "LayerNorm",
                     "position_embedding_type": "learned_absolute", "untie_embeddings_and_output_weights": False},
    "llama": COMMON | {"num_query_groups": 4, "swiglu": True, "add_bias_linear": False, "normalization": "RMSNorm",
                       "position_embedding_type": "rope", "untie_embeddings_and_output_weights": True},
    "gated_biased": COMMON | {"num_query_groups": 4, "swiglu": True, "add_bias_linear": True, "kv_channels": 6,
                              "normalization": "LayerNorm", "position_embedding_type": "rope",
                              "untie_embeddings_and_output_weights": True},
}  # fmt: skip


def padded(settings: dict[str, Any], degree: int) -> int:
    """Megatron's rule: a multiple of `make_vocab_size_divisible_by` times the degree."""
    multiple = settings["make_vocab_size_divisible_by"] * degree
    return (settings["vocab_size"] + multiple - 1) // multiple * multiple


def shards(key: str, degree: int) -> Truth:
    """Builds the model on `degree` ranks."""
    return run_ranks(degree, lambda: _on_rank(key, degree))


def _fill(weight: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return weight.copy_(torch.from_numpy(own_indices(weight.shape)))


def _model(settings: dict[str, Any], degree: int) -> GPTModel:
    same = ("num_layers", "hidden_size", "num_attention_heads", "num_query_groups", "ffn_hidden_size", "kv_channels",
            "add_bias_linear", "normalization")  # fmt: skip
    config = TransformerConfig(
        **{name: settings[name] for name in same if name in settings}, tensor_model_parallel_size=degree,
        gated_linear_unit=settings["swiglu"], activation_func=silu if settings["swiglu"] else gelu,
        use_cpu_initialization=True, init_method=_fill, output_layer_init_method=_fill, embedding_init_method=_fill,
    )  # fmt: skip
    return GPTModel(
        config, get_gpt_layer_local_spec(normalization=settings["normalization"]),
        vocab_size=padded(settings, degree), max_sequence_length=settings["max_position_embeddings"],
        share_embeddings_and_output_weights=not settings["untie_embeddings_and_output_weights"],
        position_embedding_type=settings["position_embedding_type"],
    )  # fmt: skip


def _on_rank(key: str, degree: int) -> Truth | None:
    settings = MODELS[key]
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=degree)
    model = _model(settings, degree)
    described = _described(model)
    values = {name: p.detach().double().numpy() for name, p in model.named_parameters()}
    everyone: list[Any] = [None] * degree
    distributed.all_gather_object(everyone, (described, values))
    if distributed.get_rank() != 0:
        return None
    source = f"GPTModel of megatron-core {megatron.core.__version__}, local layers"
    truth = Truth(f"megatron_core.{key}.tp{degree}", source, "tp", degree, settings)
    for name in values:
        shape = described[name][0]
        held = [held_text(rank[name][1]) for rank, _ in everyone]
        for rank, real in everyone:
            # A matrix is initialised whole and then cut: its numbers must be where the metadata says.
            if real[name].ndim == 2:
                assert rank[name][1] == positions_of(real[name], shape), name
        truth.tensors[name] = HeldTensor(list(shape), held)
    return truth


def _described(model: GPTModel) -> dict[str, tuple[tuple[int, ...], list[list[int]]]]:
    """Per name the full shape and what this rank holds, from megatron-core's own sharding metadata."""
    found = {}
    for name, entry in model.sharded_state_dict().items():
        if isinstance(entry, ShardedTensorFactory):
            found[name] = _positions(entry.build())  # SwiGLU: a part of the gate and a part of the up half.
        elif isinstance(entry, ShardedTensor):
            found[name] = _positions([entry])
    return found


def _positions(parts: list[ShardedTensor]) -> tuple[tuple[int, ...], list[list[int]]]:
    """Of one tensor in several parts, one behind the other. Megatron puts the layer's number before the dimensions."""
    layers = parts[0].prepend_axis_num
    shape = tuple(parts[0].global_shape[layers:])
    dims: list[list[int]] = [[] for _ in shape]
    for part in parts:
        for dim, (offset, length) in enumerate(zip(part.global_offset[layers:], part.local_shape, strict=True)):
            dims[dim] += [p for p in range(offset, offset + length) if p not in dims[dim]]
    return shape, dims
