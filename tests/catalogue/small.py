"""A small model for each branch of each spec, made and saved in a second; its sizes differ from each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from published import decoder


@dataclass(frozen=True)
class Small:
    """A configuration of an architecture, the spec of its names in memory, and the spec of its names on disk."""

    memory: str
    disk: str
    architecture: str
    config: dict[str, Any]


LLAMA = decoder(3, 48, 80, 12, 4, 112)
EXPERTS = decoder(3, 48, 40, 12, 4, 112, tie_word_embeddings=False)
DEEPSEEK = {
    **decoder(3, 48, 80, 12, 12, 112),
    "moe_intermediate_size": 20,
    "n_routed_experts": 5,
    "n_shared_experts": 2,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 24,
    "qk_rope_head_dim": 2,
    "qk_nope_head_dim": 6,
    "v_head_dim": 10,
    "n_group": 1,
    "topk_group": 1,
}
FALCON = {"num_hidden_layers": 2, "hidden_size": 48, "num_attention_heads": 12, "vocab_size": 112}
OPT = {
    "num_hidden_layers": 2,
    "hidden_size": 48,
    "ffn_dim": 80,
    "num_attention_heads": 12,
    "vocab_size": 112,
    "max_position_embeddings": 30,
}
MAMBA = {
    "num_hidden_layers": 2,
    "hidden_size": 48,
    "num_heads": 12,
    "head_dim": 8,
    "expand": 2,
    "n_groups": 3,
    "state_size": 10,
    "conv_kernel": 4,
    "vocab_size": 112,
}
NEMOTRON = {
    "layers_block_type": ["linear_attention", "moe", "full_attention", "mlp", "moe"],
    "hidden_size": 48,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "head_dim": 6,
    "intermediate_size": 80,
    "ssm_state_size": 10,
    "mamba_num_heads": 12,
    "mamba_head_dim": 8,
    "n_groups": 3,
    "n_routed_experts": 5,
    "moe_intermediate_size": 20,
    "moe_shared_expert_intermediate_size": 28,
    "vocab_size": 112,
}
NEOX = {
    "num_hidden_layers": 2,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_attention_heads": 12,
    "vocab_size": 112,
}
GPT2 = {"n_layer": 2, "n_embd": 48, "n_head": 12, "n_positions": 30, "vocab_size": 112}
BLOOM = {"n_layer": 2, "hidden_size": 48, "n_head": 12, "vocab_size": 112}


def small(memory: str, architecture: str, config: dict[str, Any], disk: str | None = None, **more: Any) -> Small:
    return Small(memory, disk or memory, architecture, {**config, **more})


# One for each branch of each spec.
MODELS = {
    "llama": small("llama", "LlamaForCausalLM", LLAMA),
    "llama, tied": small("llama", "LlamaForCausalLM", LLAMA, tie_word_embeddings=True),
    "llama, biases": small("llama", "LlamaForCausalLM", LLAMA, attention_bias=True, mlp_bias=True),
    "mistral": small("mistral", "MistralForCausalLM", LLAMA, head_dim=10),
    "mistral, tied": small("mistral", "MistralForCausalLM", LLAMA, tie_word_embeddings=True),
    "mixtral": small("mixtral", "MixtralForCausalLM", EXPERTS, "mixtral_per_expert", num_local_experts=5),
    "qwen2": small("qwen2", "Qwen2ForCausalLM", LLAMA),
    "qwen2, tied": small("qwen2", "Qwen2ForCausalLM", LLAMA, tie_word_embeddings=True),
    "qwen3": small("qwen3", "Qwen3ForCausalLM", LLAMA, head_dim=10),
    "qwen3, tied": small("qwen3", "Qwen3ForCausalLM", LLAMA, head_dim=10, tie_word_embeddings=True),
    "qwen3_moe": small(
        "qwen3_moe",
        "Qwen3MoeForCausalLM",
        EXPERTS,
        "qwen3_moe_per_expert",
        head_dim=10,
        num_experts=5,
        moe_intermediate_size=20,
    ),
    "qwen3_moe, every second layer dense": small(
        "qwen3_moe",
        "Qwen3MoeForCausalLM",
        EXPERTS,
        "qwen3_moe_per_expert",
        head_dim=10,
        num_experts=5,
        moe_intermediate_size=20,
        decoder_sparse_step=2,
    ),
    "qwen3_moe, layers listed as dense": small(
        "qwen3_moe",
        "Qwen3MoeForCausalLM",
        EXPERTS,
        "qwen3_moe_per_expert",
        head_dim=10,
        num_experts=5,
        moe_intermediate_size=20,
        mlp_only_layers=[0, 2],
    ),
    "deepseek_v2": small(
        "deepseek_v2", "DeepseekV2ForCausalLM", DEEPSEEK, "deepseek_v2_per_expert", q_lora_rank=28
    ),
    "deepseek_v2, without query LoRA": small(
        "deepseek_v2", "DeepseekV2ForCausalLM", DEEPSEEK, "deepseek_v2_per_expert", q_lora_rank=None
    ),
    "deepseek_v3": small(
        "deepseek_v3", "DeepseekV3ForCausalLM", DEEPSEEK, "deepseek_v3_per_expert", q_lora_rank=28
    ),
    "phi3": small("phi3", "Phi3ForCausalLM", LLAMA, pad_token_id=0),
    "phi3, tied": small("phi3", "Phi3ForCausalLM", LLAMA, pad_token_id=0, tie_word_embeddings=True),
    "phimoe": small(
        "phimoe", "PhimoeForCausalLM", EXPERTS, "phimoe_per_expert", num_local_experts=5, attention_bias=True
    ),
    "phimoe, head with bias": small(
        "phimoe", "PhimoeForCausalLM", EXPERTS, "phimoe_per_expert", num_local_experts=5, lm_head_bias=True
    ),
    "gemma2": small("gemma2", "Gemma2ForCausalLM", LLAMA, head_dim=10),
    "gemma2, untied": small("gemma2", "Gemma2ForCausalLM", LLAMA, head_dim=10, tie_word_embeddings=False),
    "falcon, multi-query": small("falcon", "FalconForCausalLM", FALCON),
    "falcon, multi-query with biases": small("falcon", "FalconForCausalLM", FALCON, bias=True),
    "falcon, grouped": small("falcon", "FalconForCausalLM", FALCON, new_decoder_architecture=True, num_kv_heads=4),
    "falcon, grouped, untied, one norm": small(
        "falcon",
        "FalconForCausalLM",
        FALCON,
        new_decoder_architecture=True,
        num_kv_heads=4,
        num_ln_in_parallel_attn=1,
        tie_word_embeddings=False,
    ),
    "falcon, per head": small(
        "falcon", "FalconForCausalLM", FALCON, multi_query=False, parallel_attn=False, bias=True, alibi=True
    ),
    "gpt_oss": small(
        "gpt_oss", "GptOssForCausalLM", EXPERTS, head_dim=10, num_local_experts=5, num_experts_per_tok=2
    ),
    "mamba2": small("mamba2", "Mamba2ForCausalLM", MAMBA),
    "mamba2, tied, with biases": small(
        "mamba2", "Mamba2ForCausalLM", MAMBA, tie_word_embeddings=True, use_bias=True, use_conv_bias=False
    ),
    "nemotron_h": small("nemotron_h", "NemotronHForCausalLM", NEMOTRON, "nemotron_h_per_expert"),
    "nemotron_h, latent experts": small(
        "nemotron_h", "NemotronHForCausalLM", NEMOTRON, "nemotron_h_per_expert", moe_latent_size=14
    ),
    "gpt2": small("gpt2", "GPT2LMHeadModel", GPT2),
    "gpt2, untied": small("gpt2", "GPT2LMHeadModel", GPT2, tie_word_embeddings=False, n_inner=90),
    "gpt_neox": small("gpt_neox", "GPTNeoXForCausalLM", NEOX),
    "gpt_neox, tied, no attention biases": small(
        "gpt_neox", "GPTNeoXForCausalLM", NEOX, tie_word_embeddings=True, attention_bias=False
    ),
    "opt": small("opt", "OPTForCausalLM", OPT, word_embed_proj_dim=48),
    "opt, projected, no final norm": small(
        "opt", "OPTForCausalLM", OPT, word_embed_proj_dim=20, do_layer_norm_before=False
    ),
    "opt, no biases, norms without scale": small(
        "opt", "OPTForCausalLM", OPT, word_embed_proj_dim=48, enable_bias=False, layer_norm_elementwise_affine=False
    ),
    "bloom": small("bloom", "BloomForCausalLM", BLOOM),
    "bloom, untied": small("bloom", "BloomForCausalLM", BLOOM, tie_word_embeddings=False),
}
