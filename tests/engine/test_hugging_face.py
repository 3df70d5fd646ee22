"""A model of transformers, trained under ZeRO, loads with from_pretrained() and computes what the engine computed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from fixtures.fingerprints import describe
from fixtures.hugging_face import Training, prompt
from fixtures.serve import Engines


def convert(ucprun: Path, source: Path, output: Path, to: str) -> subprocess.CompletedProcess[str]:
    """The program's run."""
    command = [str(ucprun), "convert", str(source), str(output), "--to", to]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def expect_same_model(folder: Path, answer: dict[str, object]) -> None:
    """The model that from_pretrained() makes of the folder has the engine's weights and logits, bit for bit."""
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    model, report = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    assert {name: describe(parameter) for name, parameter in model.named_parameters()} == answer["weights"]
    with torch.no_grad():
        assert model.eval()(input_ids=prompt()).logits.float().tolist() == answer["logits"]


def test_from_pretrained_after_stage_3(engines: Engines, ucprun: Path, tmp_path: Path) -> None:
    """Its checkpoint has masters alone, so the dtype is asked for; without that it is theirs, and a remark says why."""
    answer = engines.ask(Training(tmp_path / "trained", stage=3))
    result = convert(ucprun, tmp_path / "trained", tmp_path / "ours", "safetensors:dtype=bf16")
    assert result.returncode == 0, result.stderr
    expect_same_model(tmp_path / "ours", answer)
    result = convert(ucprun, tmp_path / "trained", tmp_path / "masters", "safetensors")
    said = result.stdout + result.stderr
    assert "the source has no weights in another dtype than that in which they are trained" in said
    assert (tmp_path / "masters" / "model.safetensors").stat().st_size > 4 * 8000


@pytest.mark.parametrize("model", ["llama", "llama_tied"])
def test_from_pretrained(model: str, engines: Engines, ucprun: Path, tmp_path: Path) -> None:
    """Without any setting: the model's own dtype, its configuration beside it, no second name of a tied head."""
    answer = engines.ask(Training(tmp_path / "trained", model))
    result = convert(ucprun, tmp_path / "trained", tmp_path / "ours", "safetensors")
    assert result.returncode == 0, result.stderr
    written = sorted(file.name for file in (tmp_path / "ours").iterdir())
    assert written == ["config.json", "model.safetensors", "ucp_manifest.json"]
    expect_same_model(tmp_path / "ours", answer)
    result = convert(ucprun, tmp_path / "trained", tmp_path / "shards", "safetensors:max_shard=20KB")
    assert result.returncode == 0, result.stderr
    expect_same_model(tmp_path / "shards", answer)


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_from_pretrained_after_tensor_parallelism(
    stage: int, engines: Engines, ucprun: Path, tmp_path: Path
) -> None:
    """AutoTP's shards, of grouped queries and of a vocabulary that two ranks cannot halve, become whole again."""
    answer = engines.ask(Training(tmp_path / "trained", stage=stage, tp=2))
    result = convert(ucprun, tmp_path / "trained", tmp_path / "ours", "safetensors:dtype=bf16")
    assert result.returncode == 0, result.stderr
    expect_same_model(tmp_path / "ours", answer)


@pytest.mark.parametrize(
    ("wrapper", "added"),
    [
        ("compiled", ["_orig_mod."]),
        ("compiled_by_layer", ["_orig_mod."]),
        ("checkpointed", ["_checkpoint_wrapped_module."]),
        ("parallel", ["_orig_mod.", "module."]),
    ],
)
def test_from_pretrained_after_wrappers(
    wrapper: str, added: list[str], engines: Engines, ucprun: Path, tmp_path: Path
) -> None:
    """A wrapper's part of the names is removed, with a note; `names=memory` keeps it; both verify as the source."""
    answer = engines.ask(Training(tmp_path / "trained", wrapper=wrapper))
    result = convert(ucprun, tmp_path / "trained", tmp_path / "ours", "safetensors")
    assert result.returncode == 0, result.stderr
    assert f"without what wrappers added, `{'`, `'.join(added)}`: " in result.stderr
    expect_same_model(tmp_path / "ours", answer)
    result = convert(ucprun, tmp_path / "trained", tmp_path / "kept", "safetensors:names=memory")
    assert result.returncode == 0, result.stderr
    kept = load_file(tmp_path / "kept" / "model.safetensors")
    assert any(added[0] in name for name in kept)
    result = convert(ucprun, tmp_path / "trained", tmp_path / "native", "deepspeed:dp=1,zero=1")
    assert result.returncode == 0, result.stderr
    ours, theirs = (
        torch.load(tmp_path / folder / "global_step3" / "mp_rank_00_model_states.pt", weights_only=False)
        for folder in ("native", "trained")
    )
    assert set(ours["module"]) == set(theirs["module"])
    assert ours["param_shapes"] == theirs["param_shapes"]
    for folder in ("ours", "kept"):
        command = [str(ucprun), "verify", str(tmp_path / folder), "--same", str(tmp_path / "trained")]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        assert "equal by declared cast: 21 of float32 to bfloat16" in result.stdout


WRITTEN_BY_A_USER = """ucp 1
dim layers
dim hidden
dim ffn
dim vocab
dim heads
dim kv_heads
dim depth
dim experts
dim head = hidden / heads
mesh tp
layout mine {
  "model.embed_tokens.weight"  [vocab, hidden]
  "model.norm.weight"          [hidden]
  block "model.layers.{i: layers}" {
    "{input_layernorm|post_attention_layernorm}.weight"  [hidden]
    "mlp.{gate_proj|up_proj}.weight"                     [ffn@tp(spread), hidden]
    "mlp.down_proj.weight"                               [hidden, ffn@tp(spread)]
    optional block "self_attn" {
      "q_proj.weight"           [heads@tp(spread) * head, hidden]
      "{k_proj|v_proj}.weight"  [kv_heads@tp(spread) * head, hidden]
      "o_proj.weight"           [hidden, heads@tp(spread) * head]
    }
    optional block "block_sparse_moe" { "gate.weight" [experts, hidden] }
  }
  optional block "vision.{j: depth}" { "weight" [depth, hidden] }
  block "lm_head" { HEAD }
}
"""


@pytest.mark.parametrize(
    ("model", "tp", "head"),
    [
        ("llama", 2, '"weight" [vocab@tp(spread), hidden]'),
        ("llama_tied", 1, 'tie "weight" = ".model.embed_tokens.weight"'),
    ],
    ids=["cut", "tied"],
)
def test_a_spec_without_a_configuration(
    model: str, tp: int, head: str, engines: Engines, ucprun: Path, tmp_path: Path
) -> None:
    """Layers are counted in the names, what this model lacks needs no value, and a tie leads out of its block."""
    answer = engines.ask(Training(tmp_path / "trained", model, tp=tp))
    configuration = (tmp_path / "trained" / "config.json").rename(tmp_path / "config.json")
    spec = tmp_path / "mine.ucp"
    spec.write_text(WRITTEN_BY_A_USER.replace("HEAD", head))
    command = [ucprun, "convert", tmp_path / "trained", tmp_path / "ours", "--to", "safetensors:dtype=bf16"]
    sizes = ("heads=4", "kv_heads=2", "ffn=48", "vocab=101")
    command += ["--spec", spec, *(argument for size in sizes for argument in ("--set", size))]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    configuration.rename(tmp_path / "ours" / "config.json")
    expect_same_model(tmp_path / "ours", answer)


def test_adapters_are_named(engines: Engines, ucprun: Path, tmp_path: Path) -> None:
    """PEFT's names of the base model are the base model's; its own tensors are there, and said not to be merged."""
    answer = engines.ask(Training(tmp_path / "trained", wrapper="adapted", stage=1))
    result = convert(ucprun, tmp_path / "trained", tmp_path / "ours", "safetensors")
    assert result.returncode == 0, result.stderr
    assert "tensors of an adapter (first `model.layers.0.self_attn.q_proj.lora_A.default.weight`)" in result.stderr
    written = load_file(tmp_path / "ours" / "model.safetensors")
    weights = {name.removeprefix("base_model.model."): value for name, value in answer["weights"].items()}
    assert {name: describe(value) for name, value in written.items()} == weights


def test_fused_experts_have_other_names_on_disk(engines: Engines, ucprun: Path, tmp_path: Path) -> None:
    """Refused, unless the names in memory are asked for, which transformers also reads."""
    answer = engines.ask(Training(tmp_path / "trained", "mixtral"))
    result = convert(ucprun, tmp_path / "trained", tmp_path / "ours", "safetensors")
    assert result.returncode == 2
    assert "`model.layers.0.mlp.experts.down_proj` has the name that transformers gives it in memory" in result.stderr
    assert not (tmp_path / "ours").exists()
    result = convert(ucprun, tmp_path / "trained", tmp_path / "ours", "safetensors:names=memory")
    assert result.returncode == 0, result.stderr
    expect_same_model(tmp_path / "ours", answer)
