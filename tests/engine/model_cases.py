"""Small models of the families in `specs/models`: as transformers configures them, and as the slow evaluator counts."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import torch
from safetensors.torch import save_file
from torch.distributed import checkpoint as dcp

from layout_rules import Rules, Spec

SPECS = Path(__file__).parents[2] / "specs" / "models"
BACKEND = {
    "sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch",
    "common_backend_version": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """The class of transformers, its configuration, and the values that follow from that for the spec."""

    kind: str
    config: dict[str, Any]
    dims: dict[str, int]
    facts: dict[str, Any] = field(default_factory=dict)


SIZES = {
    "num_hidden_layers": 2, "hidden_size": 12, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 4,
    "vocab_size": 14, "tie_word_embeddings": False,
}  # fmt: skip
DIMS = {"layers": 2, "hidden": 12, "kv_heads": 2, "group": 3, "head": 4, "vocab": 14}
SQUARE = SIZES | {"hidden_size": 24, "intermediate_size": 20}  # For classes whose head is hidden / heads.
SQUARE_DIMS = DIMS | {"hidden": 24, "ffn": 20}

LLAMA = SIZES | {"intermediate_size": 10}
LLAMA_DIMS = DIMS | {"pair": 2, "half": 2, "ffn": 10}
QWEN3_MOE = SIZES | {"moe_intermediate_size": 8, "num_experts": 3}
MIXTRAL = SIZES | {"intermediate_size": 8, "num_local_experts": 3}
EXPERT_DIMS = DIMS | {"ffn": 8, "experts": 3}

DENSE_FIRST = SIZES | {
    "num_hidden_layers": 3, "intermediate_size": 10, "moe_intermediate_size": 8, "n_routed_experts": 3,
    "n_shared_experts": 2, "num_experts_per_tok": 2, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
}  # fmt: skip
DENSE_FIRST_DIMS = EXPERT_DIMS | {"layers": 3, "dense": 1, "dense_ffn": 10, "shared": 2}
DEEPSEEK_V3 = DENSE_FIRST | {
    "num_key_value_heads": 6, "head_dim": None, "kv_lora_rank": 9, "qk_rope_head_dim": 2, "qk_nope_head_dim": 3,
    "v_head_dim": 7,
}  # fmt: skip
DEEPSEEK_V3_DIMS = DENSE_FIRST_DIMS | {
    "heads": 6, "kv_lora": 9, "rope": 2, "nope": 3, "value": 7, "query": 5, "latent": 11, "both": 10,
}  # fmt: skip
GLM4_MOE = DENSE_FIRST | {"use_qk_norm": True, "attention_bias": True}
QWEN2_MOE = SIZES | {
    "hidden_size": 24, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 9, "num_experts": 3,
    "num_experts_per_tok": 2, "decoder_sparse_step": 1,
}  # fmt: skip
QWEN2_MOE_DIMS = EXPERT_DIMS | {"hidden": 24, "shared_ffn": 9}
OLMOE = {name: value for name, value in SQUARE.items() if name != "head_dim"} | {
    "num_experts": 3, "num_experts_per_tok": 2,
}  # fmt: skip
PHIMOE = SQUARE | {
    "num_local_experts": 3, "num_experts_per_tok": 2, "attention_bias": True, "lm_head_bias": True,
}  # fmt: skip
LAYERS = ["linear_attention", "full_attention", "linear_attention"]
QWEN3_NEXT = QWEN2_MOE | {
    "num_hidden_layers": 3, "hidden_size": 12, "layer_types": LAYERS, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "linear_key_head_dim": 3, "linear_value_head_dim": 5, "linear_conv_kernel_dim": 4,
}  # fmt: skip
QWEN3_NEXT_DIMS = QWEN2_MOE_DIMS | {
    "layers": 3, "hidden": 12, "k_heads": 2, "per": 2, "k_head": 3, "v_head": 5, "kernel": 4,
}  # fmt: skip
KINDS = ["linear_attention", "moe", "full_attention", "mlp", "moe"]
NEMOTRON_H = SIZES | {
    "layers_block_type": KINDS, "intermediate_size": 10, "mamba_num_heads": 6, "mamba_head_dim": 4, "n_groups": 2,
    "ssm_state_size": 5, "conv_kernel": 4, "n_routed_experts": 3, "moe_intermediate_size": 8,
    "moe_shared_expert_intermediate_size": 10, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
}  # fmt: skip
del NEMOTRON_H["num_hidden_layers"]
NEMOTRON_H_DIMS = DIMS | {
    "layers": 5, "ffn": 10, "m_heads": 6, "m_head": 4, "groups": 2, "state": 5, "kernel": 4, "experts": 3,
    "expert_ffn": 8, "shared_ffn": 10, "latent": 0, "expert_in": 12,
}  # fmt: skip
LATENT = {"moe_latent_size": 8}

MODELS = {
    "llama": Case("Llama", LLAMA, LLAMA_DIMS, {"tied": False, "centred": False}),
    "qwen3_moe": Case("Qwen3Moe", QWEN3_MOE, EXPERT_DIMS, {"centred": False}),
    "mixtral": Case("Mixtral", MIXTRAL, EXPERT_DIMS, {"centred": False}),
    "deepseek_v3": Case("DeepseekV3", DEEPSEEK_V3 | {"q_lora_rank": 16}, DEEPSEEK_V3_DIMS | {"q_lora": 16}),
    "qwen2_moe": Case("Qwen2Moe", QWEN2_MOE, QWEN2_MOE_DIMS),
    "olmoe": Case("Olmoe", OLMOE, SQUARE_DIMS | {"experts": 3}),
    "phimoe": Case("Phimoe", PHIMOE, SQUARE_DIMS | {"experts": 3}),
    "glm4_moe": Case("Glm4Moe", GLM4_MOE, DENSE_FIRST_DIMS, {"qk_norm": True}),
    "qwen3_next": Case("Qwen3Next", QWEN3_NEXT, QWEN3_NEXT_DIMS, {"kinds": LAYERS}),
    "nemotron_h": Case("NemotronH", NEMOTRON_H, NEMOTRON_H_DIMS, {"kinds": KINDS}),
    "phi3": Case("Phi3", SQUARE, SQUARE_DIMS, {"tied": False}),
}


def rules_of(model: str) -> Rules:
    """The spec of the catalogue, with the small values."""
    return Rules(Spec(SPECS / f"{model}.ucp"), MODELS[model].dims, MODELS[model].facts)


def as_tensors(stored: dict[str, numpy.ndarray]) -> dict[str, torch.Tensor]:
    """Every number of an element is a float32 without rounding."""
    assert max(int(values.max()) for values in stored.values()) < 2**24
    return {name: torch.from_numpy(values).float() for name, values in stored.items()}


def write_model(folder: Path, tensors: dict[str, torch.Tensor], config: dict[str, Any]) -> Path:
    """A folder of Hugging Face."""
    folder.mkdir()
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def expect_equal(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    """The same names, and each element."""
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


def logits(model: torch.nn.Module) -> torch.Tensor:
    """Of a few words."""
    torch.set_num_threads(1)
    with torch.no_grad():
        return model(input_ids=torch.arange(10).view(2, 5)).logits


def save_megatron(parent: Path, stored: dict[str, torch.Tensor], **arguments: Any) -> Path:
    """A folder of `torch_dist`, with the arguments of Megatron's script."""
    folder = parent / "iter_0000001"
    folder.mkdir(parents=True)
    dcp.save(stored, checkpoint_id=folder, no_dist=True)
    common = {"checkpoint_version": 3.0, "iteration": 1, "args": argparse.Namespace(**arguments)}
    torch.save(common, folder / "common.pt")
    (folder / "metadata.json").write_text(json.dumps(BACKEND))
    (parent / "latest_checkpointed_iteration.txt").write_text("1")
    return parent
