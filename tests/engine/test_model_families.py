"""The families of models in `specs/models`: what transformers has in memory and on disk, element by element."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch import nn
from transformers.core_model_loading import revert_weight_conversion

from model_cases import DEEPSEEK_V3, LATENT, MODELS, NEMOTRON_H, expect_equal, logits
from spoken import told

FAMILIES = ["deepseek_v3", "qwen2_moe", "olmoe", "phimoe", "glm4_moe", "qwen3_next", "nemotron_h"]
BRANCHES = {
    "deepseek_v3": DEEPSEEK_V3 | {"q_lora_rank": None},
    "glm4_moe": MODELS["glm4_moe"].config | {"use_qk_norm": False},
    "nemotron_h": NEMOTRON_H | LATENT,
}
CASES = [(model, MODELS[model].config) for model in FAMILIES] + list(BRANCHES.items())


def make(kind: str, config: dict[str, object]) -> nn.Module:
    """A small model in float32. No two of its elements are alike, not those of norms and buffers either."""
    torch.manual_seed(6)
    configuration = getattr(transformers, f"{kind}Config")(
        **config, max_position_embeddings=32, pad_token_id=0, bos_token_id=1, eos_token_id=2
    )
    model = getattr(transformers, f"{kind}ForCausalLM")._from_config(configuration, attn_implementation="eager").eval()
    for tensor in model.state_dict().values():
        tensor.normal_(0, 0.3)
    return model


@pytest.mark.parametrize(("model", "config"), CASES)
def test_memory_and_hub(model: str, config: dict[str, object], ucprun: Path, tmp_path: Path) -> None:
    """From the files of save_pretrained() to the names in memory, and back to the files and to what transformers' own
    converters make of the names in memory. from_pretrained() loads these with the same logits, bit for bit."""
    made = make(MODELS[model].kind, config)
    made.save_pretrained(tmp_path / "hub")
    spec = ["--spec", f"models/{model}"]
    told(ucprun, tmp_path / "hub", tmp_path / "memory", "--to", "safetensors:layout=memory", *spec)
    expect_equal(load_file(tmp_path / "memory" / "model.safetensors"), made.state_dict())
    told(ucprun, tmp_path / "memory", tmp_path / "back", "--to", "safetensors:layout=hub", *spec)
    back = load_file(tmp_path / "back" / "model.safetensors")
    expect_equal(back, load_file(tmp_path / "hub" / "model.safetensors"))
    expect_equal(back, revert_weight_conversion(made, made.state_dict()))
    loaded, report = type(made).from_pretrained(
        tmp_path / "back", output_loading_info=True, attn_implementation="eager"
    )
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert torch.equal(logits(loaded.eval()), logits(made))


@pytest.mark.parametrize(("model", "config"), [*CASES, ("phi3", MODELS["phi3"].config)])
def test_parameters_are_in_the_order_of_the_module(
    model: str, config: dict[str, object], ucprun: Path, tmp_path: Path
) -> None:
    """A job's files list the parameters as transformers' model does, whatever the order in the source."""
    with torch.device("meta"):
        made = make(MODELS[model].kind, config)
    made.config.save_pretrained(tmp_path)
    spec = [f"models/{model}", "--config", tmp_path / "config.json"]
    held, other = ("hf", "llama") if model == "phi3" else ("memory", "hub")
    job = [ucprun, "synth", *spec, tmp_path / "job", "--to", "deepspeed:dp=1,zero=1", "--set", f"layout={other}"]
    subprocess.run(job, timeout=60, check=True)
    told(ucprun, tmp_path / "job", tmp_path / "out", "--to", f"deepspeed:dp=2,zero=1,layout={held}", "--spec", *spec)
    (file,) = (tmp_path / "out").rglob("mp_rank_00_model_states.pt")
    (group,) = torch.load(file, weights_only=False)["param_shapes"]
    assert list(group) == [name for name, _ in made.named_parameters()]


def test_fused_and_apart(ucprun: Path, tmp_path: Path) -> None:
    """The parts of Phi-3's matrices are those that its class takes; `LlamaForCausalLM`, which has them apart, computes
    the same, and so does Phi-3 of the way back, bit for bit."""
    made = make("Phi3", MODELS["phi3"].config)
    made.save_pretrained(tmp_path / "hf")
    spec = ["--spec", "models/phi3"]
    told(ucprun, tmp_path / "hf", tmp_path / "llama", "--to", "safetensors:layout=llama", *spec)
    found = load_file(tmp_path / "llama" / "model.safetensors")
    for i, layer in enumerate(made.model.layers):
        names = [f"model.layers.{i}.self_attn.{name}_proj.weight" for name in "qkv"]
        assert torch.equal(torch.cat([found[name] for name in names]), layer.self_attn.qkv_proj.weight)
        gate, up = layer.mlp.gate_up_proj.weight.chunk(2)  # As Phi3MLP takes them.
        assert torch.equal(found[f"model.layers.{i}.mlp.gate_proj.weight"], gate)
        assert torch.equal(found[f"model.layers.{i}.mlp.up_proj.weight"], up)
    llama = make("Llama", MODELS["phi3"].config | {"rms_norm_eps": made.config.rms_norm_eps})
    llama.load_state_dict(found)
    torch.testing.assert_close(logits(llama), logits(made))
    told(ucprun, tmp_path / "llama", tmp_path / "back", "--to", "safetensors:layout=hf", *spec)
    loaded, report = type(made).from_pretrained(
        tmp_path / "back", output_loading_info=True, attn_implementation="eager"
    )
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert torch.equal(logits(loaded.eval()), logits(made))


@pytest.mark.parametrize("model", ["deepseek_v3", "phimoe", "nemotron_h", "phi3"])
def test_cut_as_the_spec_of_one_layout(model: str, ucprun: Path, tmp_path: Path) -> None:
    """Each rank of a job has the elements that the spec without a model gives it, which real shards were compared
    with."""
    with torch.device("meta"):
        made = make(MODELS[model].kind, MODELS[model].config)
    made.config.save_pretrained(tmp_path)
    ranks = []
    for spec in (model, f"models/{model}"):
        folder = tmp_path / str(len(ranks))
        job = [ucprun, "synth", spec, folder, "--config", tmp_path / "config.json"]
        subprocess.run([*job, "--to", "deepspeed:tp=2,dp=1,zero=1"], timeout=60, check=True)
        files = sorted(folder.rglob("mp_rank_*_model_states.pt"))
        ranks.append([torch.load(file, weights_only=False)["module"] for file in files])
    assert len(ranks[0]) == len(ranks[1]) == 2
    for one, other in zip(*ranks, strict=True):
        expect_equal(one, other)
