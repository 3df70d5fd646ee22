"""Tiny models of `transformers`: real classes, with sizes that show an uneven cut."""

from __future__ import annotations

from typing import Any

import torch
import transformers

from .held import own_indices

SMALL = {"vocab_size": 66, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 8, "num_key_value_heads": 4}  # fmt: skip
# Without groups of queries: AutoTP reads `num_key_value_heads` of any model that has it.
ALL_HEADS = {key: value for key, value in SMALL.items() if key != "num_key_value_heads"}
MLA = {"moe_intermediate_size": 24, "n_shared_experts": 2, "n_routed_experts": 4, "first_k_dense_replace": 1,
       "kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8,
       "n_group": 1, "topk_group": 1, "num_experts_per_tok": 2, "num_key_value_heads": 8}  # fmt: skip

# The name of a spec, and of a variant behind a dot: the class, and its configuration.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", SMALL | {"tie_word_embeddings": False, "intermediate_size": 50}),
    "llama.tied": ("LlamaForCausalLM", SMALL | {"tie_word_embeddings": True, "mlp_bias": True,
                                                "attention_bias": True}),
    "mistral": ("MistralForCausalLM", SMALL),
    "mixtral": ("MixtralForCausalLM", SMALL | {"num_local_experts": 4}),
    "qwen2": ("Qwen2ForCausalLM", SMALL | {"tie_word_embeddings": False}),
    "qwen3": ("Qwen3ForCausalLM", SMALL | {"head_dim": 8, "tie_word_embeddings": False}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", SMALL | {"moe_intermediate_size": 24, "head_dim": 8, "num_experts": 4}),
    "deepseek_v2": ("DeepseekV2ForCausalLM", SMALL | MLA),
    "deepseek_v3": ("DeepseekV3ForCausalLM", SMALL | MLA),
    "phi3": ("Phi3ForCausalLM", SMALL | {"pad_token_id": 0, "num_key_value_heads": 4}),
    "phi3.mini": ("Phi3ForCausalLM", SMALL | {"pad_token_id": 0, "num_key_value_heads": 8}),
    "phimoe": ("PhimoeForCausalLM", SMALL | {"num_local_experts": 4, "attention_bias": True, "lm_head_bias": True}),
    "gemma2": ("Gemma2ForCausalLM", SMALL | {"head_dim": 8}),
    "falcon.grouped": ("FalconForCausalLM", SMALL | {"num_kv_heads": 4, "new_decoder_architecture": True}),
    "falcon.rw": ("FalconForCausalLM", ALL_HEADS | {"new_decoder_architecture": False, "multi_query": False,
                                                "alibi": True, "bias": True, "parallel_attn": False}),
    "gpt_oss": ("GptOssForCausalLM", SMALL | {"intermediate_size": 32, "head_dim": 8, "num_local_experts": 4}),
    "nemotron_h": ("NemotronHForCausalLM", {
        "vocab_size": 66, "hidden_size": 32, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 8,
        "layers_block_type": ["linear_attention", "moe", "full_attention", "mlp"], "intermediate_size": 48,
        "ssm_state_size": 16, "mamba_num_heads": 8, "mamba_head_dim": 8, "n_groups": 2, "n_routed_experts": 4,
        "moe_intermediate_size": 24, "moe_shared_expert_intermediate_size": 24}),
    "gpt_neox": ("GPTNeoXForCausalLM", ALL_HEADS | {"tie_word_embeddings": False}),
    "opt": ("OPTForCausalLM", {"vocab_size": 66, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 8,
                               "ffn_dim": 48, "max_position_embeddings": 32, "word_embed_proj_dim": 32}),
    "bloom": ("BloomForCausalLM", {"vocab_size": 66, "hidden_size": 32, "n_layer": 2, "n_head": 8}),
    "mamba2": ("Mamba2ForCausalLM", {"vocab_size": 66, "hidden_size": 32, "num_hidden_layers": 2, "num_heads": 8,
                                     "head_dim": 8, "expand": 2, "n_groups": 2, "state_size": 16}),
}  # fmt: skip


def build(key: str) -> torch.nn.Module:
    """The model, each parameter filled with its own indices."""
    class_name, settings = MODELS[key]
    model_class = getattr(transformers, class_name)
    model = model_class(model_class.config_class(**settings)).float()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.from_numpy(own_indices(parameter.shape)))
    return model


def config_of(model: torch.nn.Module) -> dict[str, Any]:
    """The facts that a `config.json` of the model states about its shape."""
    settings = model.config.to_dict()
    settings.setdefault("num_hidden_layers", model.config.num_hidden_layers)
    return {key: value for key, value in json_ready(settings).items() if value is not None}


def json_ready(config: dict[str, Any]) -> dict[str, Any]:
    """Numbers, texts, booleans and lists of them."""
    plain = (int, float, str, bool)
    unread = ("transformers_version", "dtype", "torch_dtype", "return_dict", "output_attentions")
    return {
        key: value
        for key, value in config.items()
        if key not in unread
        and (isinstance(value, plain) or (isinstance(value, list) and all(isinstance(v, plain) for v in value)))
    }
