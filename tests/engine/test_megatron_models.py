"""Models of Megatron Core in the layouts of their spec: to Hugging Face's names and back."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed import checkpoint as dcp

from conftest import Run
from fixtures.megatron_core_cases import LLAMA as MEGATRON_LLAMA
from fixtures.megatron_core_cases import MegatronCase
from fixtures.ranks import run_ranks
from layout_rules import Rules, Spec
from model_cases import LLAMA, LLAMA_DIMS, SPECS, as_tensors, expect_equal, save_megatron, write_model
from spoken import refused, told
from universal import FIXTURES

SAVED = FIXTURES / "megatron_core" / "llama_tp2_pp2_dp2" / "checkpoint"
SPEC = ["--spec", "models/llama"]
TO_HF = ["--to", "safetensors:layout=hf,states=all"]
OF_LAYER = "decoder.layers."
# Megatron Core's names for states are ours but for the master's.
STATES = {"": "", "optimizer.state.param.": ".fp32", "optimizer.state.exp_avg.": ".exp_avg",
          "optimizer.state.exp_avg_sq.": ".exp_avg_sq"}  # fmt: skip


def loaded(folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of a folder, as PyTorch loads them."""
    reader = dcp.FileSystemReader(folder)
    sizes = reader.read_metadata().state_dict_metadata
    state: dict[str, Any] = {
        name: torch.empty(entry.size, dtype=entry.properties.dtype)
        for name, entry in sizes.items()
        if hasattr(entry, "size")
    }
    dcp.load(state, storage_reader=reader, no_dist=True)
    return state


def apart(fused: dict[str, torch.Tensor], groups: int, head: int) -> dict[str, torch.Tensor]:
    """One state of a model, in Hugging Face's names: row by row, as Megatron's own documents say what is where."""
    found = {
        "model.embed_tokens.weight": fused["embedding.word_embeddings.weight"],
        "model.norm.weight": fused["decoder.final_layernorm.weight"],
        "lm_head.weight": fused["output_layer.weight"],
    }
    for i, qkv in enumerate(fused[OF_LAYER + "self_attention.linear_qkv.weight"]):
        layer = f"model.layers.{i}."
        parts: dict[str, list[torch.Tensor]] = {"q": [], "k": [], "v": []}
        rows = len(qkv) // groups
        for group in range(groups):
            for row in range(rows):
                name = "q" if row < rows - 2 * head else "k" if row < rows - head else "v"
                parts[name].append(qkv[group * rows + row])
        for name, lines in parts.items():
            found[f"{layer}self_attn.{name}_proj.weight"] = torch.stack(lines)
        gate_and_up = fused[OF_LAYER + "mlp.linear_fc1.weight"][i]
        half = len(gate_and_up) // 2
        found[layer + "mlp.gate_proj.weight"] = gate_and_up[:half]
        found[layer + "mlp.up_proj.weight"] = gate_and_up[half:]
        found[layer + "mlp.down_proj.weight"] = fused[OF_LAYER + "mlp.linear_fc2.weight"][i]
        found[layer + "self_attn.o_proj.weight"] = fused[OF_LAYER + "self_attention.linear_proj.weight"][i]
        found[layer + "input_layernorm.weight"] = fused[OF_LAYER + "self_attention.linear_qkv.layer_norm_weight"][i]
        found[layer + "post_attention_layernorm.weight"] = fused[OF_LAYER + "mlp.linear_fc1.layer_norm_weight"][i]
    return found


def test_what_megatron_core_saved(ucprun: Path, tmp_path: Path) -> None:
    """Weights, masters and moments of its TP 2, PP 2, DP 2, in the names of Hugging Face; sizes from its arguments."""
    told(ucprun, SAVED, tmp_path / "hf", *TO_HF, *SPEC, "--set", "vocab=64")
    stored = loaded(SAVED / "iter_0001000")
    expected = {}
    for prefix, suffix in STATES.items():
        of_state = {
            name.removeprefix(prefix): tensor
            for name, tensor in stored.items()
            if name.startswith(prefix or ("decoder.", "embedding.", "output_layer."))
        }
        expected |= {name + suffix: tensor for name, tensor in apart(of_state, groups=2, head=4).items()}
    files = [load_file(tmp_path / "hf" / f"{name}.safetensors") for name in ("model", "optimizer")]
    expect_equal(files[0] | files[1], expected)


def test_the_vocabulary_is_never_guessed(ucprun: Path, tmp_path: Path) -> None:
    """These arguments do not give it, and 50 of the 64 rows are words."""
    out = tmp_path / "hf"
    assert "nothing says how large `vocab` is" in refused(ucprun, SAVED, out, *TO_HF, *SPEC)
    assert "is 50 on one rank" in refused(ucprun, SAVED, out, *TO_HF, *SPEC, "--set", "vocab=50")


def test_there_and_back(ucprun: Path, tmp_path: Path) -> None:
    """A folder for Megatron Core that was made of one of Hugging Face, and back."""
    config = LLAMA | {"vocab_size": 128}
    rules = Rules(Spec(SPECS / "llama.ucp"), LLAMA_DIMS | {"vocab": 128}, {"tied": False, "centred": False})
    folder = write_model(tmp_path / "hf", as_tensors(rules.stored("hf")), config)
    told(ucprun, folder, tmp_path / "megatron", "--to", "megatron:layout=megatron", *SPEC)
    (tmp_path / "config.json").write_text(json.dumps(config))
    options = [*SPEC, "--config", tmp_path / "config.json"]
    said = told(ucprun, tmp_path / "megatron", tmp_path / "back", "--to", "safetensors:layout=hf", *options)
    assert "the source has the layout `megatron_stacked`" in said
    expect_equal(load_file(tmp_path / "back" / "model.safetensors"), load_file(folder / "model.safetensors"))


@pytest.mark.parametrize(
    ("arguments", "dims", "facts"),
    [
        ({"num_query_groups": 2, "group_query_attention": True}, {}, {}),
        ({"num_query_groups": 1, "group_query_attention": False}, {"kv_heads": 6, "group": 1}, {}),
        ({"num_query_groups": 2, "untie_embeddings_and_output_weights": False}, {}, {"tied": True}),
    ],
    ids=["groups", "as many heads", "tied"],
)
def test_arguments(
    arguments: dict[str, Any], dims: dict[str, int], facts: dict[str, Any], ucprun: Path, tmp_path: Path
) -> None:
    """Megatron has one group of queries, and does not use it, where each query has keys of its own."""
    of_all = {"num_layers": 2, "hidden_size": 12, "num_attention_heads": 6, "kv_channels": 4, "ffn_hidden_size": 10,
              "vocab_size": 14, "untie_embeddings_and_output_weights": True}  # fmt: skip
    rules = Rules(Spec(SPECS / "llama.ucp"), LLAMA_DIMS | dims, {"tied": False, "centred": False} | facts)
    stored = as_tensors(rules.stored("megatron_stacked"))
    folder = save_megatron(tmp_path / "saved", stored, **of_all | arguments)
    told(ucprun, folder, tmp_path / "hf", "--to", "safetensors:layout=hf", *SPEC)
    expect_equal(load_file(tmp_path / "hf" / "model.safetensors"), as_tensors(rules.stored("hf")))


def test_from_hugging_face(run: Run, tmp_path: Path) -> None:
    """A model of transformers, in the layout of Megatron Core: the real GPTModel loads it and computes the same."""
    from transformers import LlamaConfig, LlamaForCausalLM

    case = MegatronCase("", MEGATRON_LLAMA | {"vocab_size": 128}, dp=1)
    torch.manual_seed(5)
    config = LlamaConfig(
        num_hidden_layers=4, hidden_size=16, num_attention_heads=4, num_key_value_heads=2, intermediate_size=24,
        vocab_size=128, max_position_embeddings=16, rms_norm_eps=1e-5, tie_word_embeddings=False,
        initializer_range=0.5,
    )  # fmt: skip
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(tmp_path / "hf")
    to = ["--to", "megatron:layout=megatron", "--spec", "models/llama"]
    run("convert", tmp_path / "hf", tmp_path / "ours", *to)
    assert (tmp_path / "ours" / "latest_checkpointed_iteration.txt").read_text() == "release"
    words = torch.arange(10).view(2, 5)

    def on_rank() -> list[list[float]]:
        from megatron.core.tensor_parallel import get_cuda_rng_tracker

        from fixtures.megatron_core_run import Run as MegatronRun

        get_cuda_rng_tracker().fork = lambda *_: nullcontext()  # Without dropout, no random number is asked for.
        trained = MegatronRun(case)
        trained.load_weights(tmp_path / "ours" / "release")
        trained.module.float()
        for layer in trained.module.decoder.layers:
            layer.self_attention.core_attention.scale_mask_softmax.input_in_float16 = False
        places = torch.arange(5).expand(2, 5)
        mask = torch.ones(5, 5, dtype=torch.bool).triu(1).view(1, 1, 5, 5)
        with torch.no_grad():
            return trained.module(words, places, mask).tolist()

    found = torch.tensor(run_ranks(case.world, on_rank))
    with torch.no_grad():
        expected = model.float()(input_ids=words).logits
    assert torch.allclose(found, expected, rtol=1e-3, atol=1e-3)
