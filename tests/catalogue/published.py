"""The published models of each spec: their configurations on the hub, and how many parameters they have.

The configurations are those of each model's `config.json` on the Hugging Face hub, written down with the keys that
decide a tensor's name or size. `parameters` counts each parameter once: a tied head is not counted again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Published:
    """A model somebody trained and published."""

    spec: str
    architecture: str  # The class of transformers.
    name: str
    parameters: int
    config: dict[str, Any]
    buffers: int = 0  # Elements of persistent buffers.
    counted_by: str = "the publisher"  # "the class": no count to the unit is published, or a tied head is in it twice.


@dataclass
class Catalogue:
    """Collects the rows below."""

    models: list[Published] = field(default_factory=list)

    def family(self, spec: str, architecture: str, **common: Any) -> Family:
        return Family(self, spec, architecture, common)


@dataclass
class Family:
    """Rows that share a spec, a class and some of the configuration."""

    catalogue: Catalogue
    spec: str
    architecture: str
    common: dict[str, Any]

    def model(
        self, name: str, parameters: int, *, buffers: int = 0, counted_by: str = "the publisher", **own: Any
    ) -> None:
        config = {**self.common, **own}
        self.catalogue.models.append(
            Published(self.spec, self.architecture, name, parameters, config, buffers, counted_by)
        )


def decoder(layers: int, hidden: int, ffn: int, heads: int, kv_heads: int, vocab: int, **more: Any) -> dict[str, Any]:
    """The keys that Llama and its relatives share."""
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocab,
        **more,
    }


def layer_kinds(pattern: str) -> list[str]:
    """`hybrid_override_pattern` as transformers 5 saves it."""
    words = {"M": "linear_attention", "E": "moe", "*": "full_attention", "-": "mlp"}
    return [words[letter] for letter in pattern]


CATALOGUE = Catalogue()

llama = CATALOGUE.family("llama", "LlamaForCausalLM", tie_word_embeddings=False)
llama.model("Llama-2-7B", 6_738_415_616, **decoder(32, 4096, 11008, 32, 32, 32000))
llama.model("Llama-2-13B", 13_015_864_320, **decoder(40, 5120, 13824, 40, 40, 32000))
llama.model("Llama-2-70B", 68_976_648_192, **decoder(80, 8192, 28672, 64, 8, 32000))
llama.model("Llama-3-8B", 8_030_261_248, **decoder(32, 4096, 14336, 32, 8, 128256))
llama.model("Llama-3-70B", 70_553_706_496, **decoder(80, 8192, 28672, 64, 8, 128256))
llama.model(
    "Llama-3.2-1B", 1_235_814_400, **decoder(16, 2048, 8192, 32, 8, 128256, head_dim=64, tie_word_embeddings=True)
)

mistral = CATALOGUE.family("mistral", "MistralForCausalLM", tie_word_embeddings=False)
mistral.model("Mistral-7B-v0.1", 7_241_732_096, **decoder(32, 4096, 14336, 32, 8, 32000))
mistral.model("Mistral-7B-v0.3", 7_248_023_552, **decoder(32, 4096, 14336, 32, 8, 32768))
mistral.model("Mistral-Nemo", 12_247_782_400, **decoder(40, 5120, 14336, 32, 8, 131072, head_dim=128))

mixtral = CATALOGUE.family("mixtral", "MixtralForCausalLM", tie_word_embeddings=False, num_local_experts=8)
mixtral.model("Mixtral-8x7B", 46_702_792_704, **decoder(32, 4096, 14336, 32, 8, 32000))
mixtral.model("Mixtral-8x22B", 140_620_634_112, **decoder(56, 6144, 16384, 48, 8, 32000))

qwen2 = CATALOGUE.family("qwen2", "Qwen2ForCausalLM", tie_word_embeddings=False)
qwen2.model("Qwen2.5-0.5B", 494_032_768, **decoder(24, 896, 4864, 14, 2, 151936, tie_word_embeddings=True))
qwen2.model("Qwen2.5-7B", 7_615_616_512, **decoder(28, 3584, 18944, 28, 4, 152064))
qwen2.model("Qwen2.5-72B", 72_706_203_648, **decoder(80, 8192, 29568, 64, 8, 152064))

qwen3 = CATALOGUE.family("qwen3", "Qwen3ForCausalLM", tie_word_embeddings=False, head_dim=128)
qwen3.model("Qwen3-0.6B", 596_049_920, **decoder(28, 1024, 3072, 16, 8, 151936, tie_word_embeddings=True))
qwen3.model("Qwen3-8B", 8_190_735_360, **decoder(36, 4096, 12288, 32, 8, 151936))
qwen3.model("Qwen3-32B", 32_762_123_264, **decoder(64, 5120, 25600, 64, 8, 151936))

qwen3_moe = CATALOGUE.family(
    "qwen3_moe",
    "Qwen3MoeForCausalLM",
    tie_word_embeddings=False,
    head_dim=128,
    num_experts=128,
    decoder_sparse_step=1,
    mlp_only_layers=[],
)
qwen3_moe.model("Qwen3-30B-A3B", 30_532_122_624, **decoder(48, 2048, 6144, 32, 4, 151936, moe_intermediate_size=768))
qwen3_moe.model(
    "Qwen3-235B-A22B", 235_093_634_560, **decoder(94, 4096, 12288, 64, 4, 151936, moe_intermediate_size=1536)
)

deepseek = {
    "tie_word_embeddings": False,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
}
deepseek_v2 = CATALOGUE.family("deepseek_v2", "DeepseekV2ForCausalLM", **deepseek, n_shared_experts=2)
deepseek_v2.model(
    "DeepSeek-V2-Lite",
    15_706_484_224,
    **decoder(27, 2048, 10944, 16, 16, 102400, moe_intermediate_size=1408, n_routed_experts=64),
    q_lora_rank=None,
    first_k_dense_replace=1,
)
deepseek_v2.model(
    "DeepSeek-V2",
    235_741_434_880,
    **decoder(60, 5120, 12288, 128, 128, 102400, moe_intermediate_size=1536, n_routed_experts=160),
    q_lora_rank=1536,
    first_k_dense_replace=1,
)
deepseek_v3 = CATALOGUE.family("deepseek_v3", "DeepseekV3ForCausalLM", **deepseek, n_shared_experts=1)
# The published number, 671,026,419,200, is the sum of parameters and buffers.
deepseek_v3.model(
    "DeepSeek-V3",
    671_026_419_200 - 14_848,
    buffers=14_848,
    **decoder(61, 7168, 18432, 128, 128, 129280, moe_intermediate_size=2048, n_routed_experts=256),
    q_lora_rank=1536,
    first_k_dense_replace=3,
    num_nextn_predict_layers=1,
)

phi3 = CATALOGUE.family("phi3", "Phi3ForCausalLM", tie_word_embeddings=False)
phi3.model("Phi-3-mini", 3_821_079_552, **decoder(32, 3072, 8192, 32, 32, 32064))
phi3.model("Phi-3-medium", 13_960_238_080, **decoder(40, 5120, 17920, 40, 10, 32064))
phi3.model("Phi-4-mini", 3_836_021_760, **decoder(32, 3072, 8192, 24, 8, 200064, tie_word_embeddings=True))

phimoe = CATALOGUE.family("phimoe", "PhimoeForCausalLM", tie_word_embeddings=False)
phimoe.model(
    "Phi-3.5-MoE",
    41_873_153_344,
    **decoder(32, 4096, 6400, 32, 8, 32064, num_local_experts=16, attention_bias=True, lm_head_bias=True),
)

gemma2 = CATALOGUE.family("gemma2", "Gemma2ForCausalLM")
gemma2.model("Gemma-2-2B", 2_614_341_888, **decoder(26, 2304, 9216, 8, 4, 256000, head_dim=256))
gemma2.model("Gemma-2-9B", 9_241_705_984, **decoder(42, 3584, 14336, 16, 8, 256000, head_dim=256))
gemma2.model("Gemma-2-27B", 27_227_128_320, **decoder(46, 4608, 36864, 32, 16, 256000, head_dim=128))

falcon = CATALOGUE.family("falcon", "FalconForCausalLM", vocab_size=65024, alibi=False, bias=False)
grouped = {"new_decoder_architecture": True, "multi_query": True, "parallel_attn": True, "num_kv_heads": 8}
falcon.model(
    "Falcon-7B",
    6_921_720_704,
    counted_by="the class",
    num_hidden_layers=32,
    hidden_size=4544,
    num_attention_heads=71,
    new_decoder_architecture=False,
    multi_query=True,
    parallel_attn=True,
)
falcon.model(
    "Falcon-40B",
    41_303_293_952,
    counted_by="the class",
    num_hidden_layers=60,
    hidden_size=8192,
    num_attention_heads=128,
    **grouped,
)
falcon.model(
    "Falcon-180B",
    178_557_088_768,
    counted_by="the class",
    num_hidden_layers=80,
    hidden_size=14848,
    num_attention_heads=232,
    **grouped,
)
falcon.model(
    "Falcon2-11B",
    11_102_822_400,
    counted_by="the class",
    num_hidden_layers=60,
    hidden_size=4096,
    num_attention_heads=32,
    num_ln_in_parallel_attn=1,
    ffn_hidden_size=16384,
    tie_word_embeddings=False,
    **grouped,
)
falcon.model(
    "Falcon-RW-1B",
    1_311_625_216,
    vocab_size=50304,
    num_hidden_layers=24,
    hidden_size=2048,
    num_attention_heads=32,
    alibi=True,
    bias=True,
    multi_query=False,
    new_decoder_architecture=False,
    parallel_attn=False,
)

gpt_oss = CATALOGUE.family("gpt_oss", "GptOssForCausalLM", tie_word_embeddings=False, attention_bias=True, head_dim=64)
gpt_oss.model("gpt-oss-20b", 20_914_757_184, **decoder(24, 2880, 2880, 64, 8, 201088, num_local_experts=32))
gpt_oss.model("gpt-oss-120b", 116_829_156_672, **decoder(36, 2880, 2880, 64, 8, 201088, num_local_experts=128))

mamba2 = CATALOGUE.family(
    "mamba2",
    "Mamba2ForCausalLM",
    num_hidden_layers=64,
    head_dim=64,
    expand=2,
    state_size=128,
    conv_kernel=4,
    use_bias=False,
    use_conv_bias=True,
)
mamba2.model(
    "Mamba-Codestral-7B",
    7_285_403_648,
    vocab_size=32768,
    hidden_size=4096,
    num_heads=128,
    n_groups=8,
    tie_word_embeddings=False,
)
mamba2.model(
    "mamba2-2.7b",
    2_702_599_680,
    vocab_size=50288,
    hidden_size=2560,
    num_heads=80,
    n_groups=1,
    tie_word_embeddings=True,
)

nemotron_h = CATALOGUE.family(
    "nemotron_h",
    "NemotronHForCausalLM",
    num_hidden_layers=52,
    head_dim=128,
    ssm_state_size=128,
    mamba_head_dim=64,
    n_groups=8,
    conv_kernel=4,
    expand=2,
    tie_word_embeddings=False,
    vocab_size=131072,
    num_attention_heads=32,
)
nemotron_h.model(
    "Nemotron-H-8B",
    8_100_852_736,
    counted_by="the class",
    layers_block_type=layer_kinds("M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"),
    hidden_size=4096,
    num_key_value_heads=8,
    intermediate_size=21504,
    mamba_num_heads=128,
)
nemotron_h.model(
    "Nemotron-3-Nano-30B-A3B",
    31_577_937_344,
    buffers=2_944,
    counted_by="the class",
    layers_block_type=layer_kinds("MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"),
    hidden_size=2688,
    num_key_value_heads=2,
    intermediate_size=1856,
    mamba_num_heads=64,
    n_routed_experts=128,
    moe_intermediate_size=1856,
    moe_shared_expert_intermediate_size=3712,
)

gpt2 = CATALOGUE.family("gpt2", "GPT2LMHeadModel", vocab_size=50257, n_positions=1024)
gpt2.model("GPT-2", 124_439_808, n_layer=12, n_embd=768, n_head=12)
gpt2.model("GPT-2 medium", 354_823_168, n_layer=24, n_embd=1024, n_head=16)
gpt2.model("GPT-2 large", 774_030_080, n_layer=36, n_embd=1280, n_head=20)
gpt2.model("GPT-2 XL", 1_557_611_200, n_layer=48, n_embd=1600, n_head=25)

gpt_neox = CATALOGUE.family("gpt_neox", "GPTNeoXForCausalLM", tie_word_embeddings=False)
for name, count, layers, hidden, heads, vocab in [
    ("Pythia-160M", 162_322_944, 12, 768, 12, 50304),
    ("Pythia-6.9B", 6_857_302_016, 32, 4096, 32, 50432),
    ("Pythia-12B", 11_846_072_320, 36, 5120, 40, 50688),
    ("GPT-NeoX-20B", 20_554_567_680, 44, 6144, 64, 50432),
]:
    gpt_neox.model(
        name,
        count,
        num_hidden_layers=layers,
        hidden_size=hidden,
        intermediate_size=4 * hidden,
        num_attention_heads=heads,
        vocab_size=vocab,
    )

opt = CATALOGUE.family("opt", "OPTForCausalLM", vocab_size=50272, max_position_embeddings=2048)
for name, count, layers, hidden, heads, embed, counted_by in [
    ("OPT-125M", 125_239_296, 12, 768, 12, 768, "the publisher"),
    ("OPT-350M", 331_196_416, 24, 1024, 16, 512, "the publisher"),
    ("OPT-6.7B", 6_658_473_984, 32, 4096, 32, 4096, "the publisher"),
    ("OPT-66B", 65_719_701_504, 64, 9216, 72, 9216, "the class"),
]:
    opt.model(
        name,
        count,
        counted_by=counted_by,
        num_hidden_layers=layers,
        hidden_size=hidden,
        ffn_dim=4 * hidden,
        num_attention_heads=heads,
        word_embed_proj_dim=embed,
        do_layer_norm_before=embed == hidden,
    )

bloom = CATALOGUE.family("bloom", "BloomForCausalLM", vocab_size=250880)
bloom.model("BLOOM-560M", 559_214_592, n_layer=24, hidden_size=1024, n_head=16)
bloom.model("BLOOM-7B1", 7_069_016_064, n_layer=30, hidden_size=4096, n_head=32)
bloom.model("BLOOM", 176_247_271_424, n_layer=70, hidden_size=14336, n_head=112)

MODELS = CATALOGUE.models
