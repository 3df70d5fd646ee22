"""Models with several layouts, where the files of either side are cut over the ranks of a job."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file

from fixtures.hugging_face import Training, load_in_layout
from fixtures.serve import Call, Conversion, Engines
from model_cases import expect_equal
from spoken import refused, told

SIZES = {"layers": 4, "hidden": 16, "heads": 8, "kv_heads": 4, "ffn": 20, "vocab": 14, "head": 6}
CONFIGURED = {
    "layers": "num_hidden_layers", "hidden": "hidden_size", "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads", "vocab": "vocab_size", "head": "head_dim",
}  # fmt: skip


def synthesize(
    ucprun: Path, output: Path, strategy: str, spec: str = "models/llama", further: dict[str, Any] | None = None
) -> list[str]:
    """A job of a small model as the ranks of a strategy would have saved it; returns the options that speak of it."""
    sizes = SIZES | (further or {"tied": "false"})
    sets = [word for name, value in sizes.items() for word in ("--set", f"{name}={value}")]
    command = [ucprun, "synth", spec, output, "--to", strategy, *sets]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    return ["--spec", spec, *sets]


def expect_as_written(ucprun: Path, folder: Path, *options: str | Path) -> None:
    """`verify` finds each element of a folder as its manifest has it, or as another folder has it."""
    command = [ucprun, "verify", folder, *options]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("strategy", ["deepspeed:tp=2,dp=2,zero=1", "deepspeed:dp=4,zero=3", "deepspeed:tp=2,zero=2"])
def test_cut_sources(strategy: str, ucprun: Path, tmp_path: Path) -> None:
    """From the cut files of a job at once, or through whole files that have the job's layout: masters, moments and
    weights are the same."""
    spec = synthesize(ucprun, tmp_path / "job", strategy)
    told(ucprun, tmp_path / "job", tmp_path / "whole", "--to", "safetensors:states=all", *spec)
    for layout in ("megatron", "meta"):
        to = ["--to", f"safetensors:states=all,layout={layout}", *spec]
        told(ucprun, tmp_path / "job", tmp_path / f"one_{layout}", *to)
        told(ucprun, tmp_path / "whole", tmp_path / f"two_{layout}", *to)
        for file in ("model.safetensors", "optimizer.safetensors"):
            one, two = (load_file(tmp_path / f"{hops}_{layout}" / file) for hops in ("one", "two"))
            assert one and any("linear_qkv" in name or "attention.wq" in name for name in one)
            expect_equal(one, two)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("deepspeed:dp=2,zero=1", "deepspeed:tp=2,dp=2,zero=1"),
        ("deepspeed:tp=2,dp=2,zero=1", "deepspeed:tp=4,zero=2"),
        ("deepspeed:dp=4,zero=3", "deepspeed:dp=3,zero=3"),
        ("deepspeed:tp=4,dp=2,zero=1", "deepspeed:tp=2,zero=0"),
        ("deepspeed:tp=2,dp=3,zero=2", "dcp:fsdp=3"),
        ("deepspeed:tp=2,zero=2", "dcp:tp=2,fsdp=2"),
    ],
)
def test_cut_targets(source: str, target: str, ucprun: Path, tmp_path: Path) -> None:
    """The files of a job that has another layout hold what the whole tensors of that layout hold; every element is as
    the manifest says, and as it was when the first job's files are made of them again."""
    spec = synthesize(ucprun, tmp_path / "job", source)
    cut = f"{target}{',' if ':' in target else ':'}layout=megatron"
    told(ucprun, tmp_path / "job", tmp_path / "cut", "--to", cut, *spec)
    expect_as_written(ucprun, tmp_path / "cut")
    expect_as_written(ucprun, tmp_path / "cut", "--same", tmp_path / "job", *spec)
    told(ucprun, tmp_path / "job", tmp_path / "expected", "--to", "safetensors:states=all,layout=megatron", *spec)
    told(ucprun, tmp_path / "cut", tmp_path / "found", "--to", "safetensors:states=all", *spec)
    for file in ("model.safetensors", "optimizer.safetensors"):
        found, expected = (load_file(tmp_path / folder / file) for folder in ("found", "expected"))
        assert any("linear_qkv" in name for name in found)
        weights = {name: tensor.to(expected[name].dtype) for name, tensor in found.items()}  # DCP has the masters.
        expect_equal(weights, expected)
    told(ucprun, tmp_path / "cut", tmp_path / "back", "--to", f"{source},dtype=bf16,layout=hf", *spec)
    files, again = (sorted((tmp_path / name).rglob("*optim_states.pt")) for name in ("job", "back"))
    assert files and len(again) == len(files)
    for file, back in zip(files, again, strict=True):
        assert masters_of(back) and masters_of(back) == masters_of(file), file.name


def masters_of(file: Path) -> list[list[float]]:
    """The partitions of masters and moments in a native file of the optimizer, without names."""
    states = torch.load(file, weights_only=False)["optimizer_state_dict"]
    masters = states.get("single_partition_of_fp32_groups", states.get("fp32_flat_groups"))
    state = states["base_optimizer_state" if "base_optimizer_state" in states else "optimizer_state_dict"]
    state = state.get("state", state)
    moments = [values["exp_avg"] for values in (state.values() if isinstance(state, dict) else state)]
    return [tensor.tolist() for tensor in [*masters, *moments]]


def test_each_rank_has_its_rows(ucprun: Path, tmp_path: Path) -> None:
    """A rank of Megatron has its groups' queries, keys and values, its rows of the gate above those of up, and zeros
    behind the vocabulary."""
    spec = synthesize(ucprun, tmp_path / "job", "deepspeed:dp=1,zero=1")
    told(ucprun, tmp_path / "job", tmp_path / "hf", "--to", "safetensors", *spec)
    hf = load_file(tmp_path / "hf" / "model.safetensors")
    told(ucprun, tmp_path / "job", tmp_path / "cut", "--to", "deepspeed:tp=2,dp=2,zero=1,layout=megatron", *spec)
    for t in range(2):
        file = next((tmp_path / "cut").rglob(f"mp_rank_0{t}_model_states.pt"))
        found = torch.load(file, weights_only=False)["module"]
        q, k, v = (hf[f"model.layers.3.self_attn.{name}_proj.weight"] for name in "qkv")
        groups = [
            torch.cat([q[12 * g : 12 * (g + 1)], k[6 * g : 6 * (g + 1)], v[6 * g : 6 * (g + 1)]])
            for g in (2 * t, 2 * t + 1)
        ]
        assert torch.equal(found["decoder.layers.3.self_attention.linear_qkv.weight"], torch.cat(groups))
        gate, up = (hf[f"model.layers.3.mlp.{name}_proj.weight"][10 * t : 10 * (t + 1)] for name in ("gate", "up"))
        assert torch.equal(found["decoder.layers.3.mlp.linear_fc1.weight"], torch.cat([gate, up]))
        vocabulary = torch.zeros(256, 16, dtype=gate.dtype)
        vocabulary[:14] = hf["model.embed_tokens.weight"]
        assert torch.equal(found["embedding.word_embeddings.weight"], vocabulary[128 * t : 128 * (t + 1)])


@pytest.mark.parametrize(
    ("spec", "layout", "through", "kind", "names"),
    [
        ("models/llama", "hf", "megatron", "Llama", {"ffn": "intermediate_size"}),
        ("models/mixtral", "memory", "hub", "Mixtral", {"ffn": "intermediate_size", "experts": "num_local_experts"}),
        ("models/qwen3_moe", "memory", "hub", "Qwen3Moe", {"ffn": "moe_intermediate_size", "experts": "num_experts"}),
    ],
)
def test_parameters_are_in_the_order_of_the_module(
    spec: str, layout: str, through: str, kind: str, names: dict[str, str], ucprun: Path, tmp_path: Path
) -> None:
    """A job's files list the parameters as transformers' model does, whatever the order in the source."""
    further = {"experts": 3} if "experts" in names else {"tied": "false"}
    options = synthesize(ucprun, tmp_path / "job", "deepspeed:dp=1,zero=1", spec, further)
    strategy = "deepspeed:dp=2,zero=1,layout="
    told(ucprun, tmp_path / "job", tmp_path / through, "--to", f"{strategy}{through}", *options)
    told(ucprun, tmp_path / through, tmp_path / layout, "--to", f"{strategy}{layout}", *options)
    sizes = {config: (SIZES | further)[name] for name, config in (CONFIGURED | names).items()}
    configuration = getattr(transformers, f"{kind}Config")(**sizes, tie_word_embeddings=False)
    with torch.device("meta"):
        model = getattr(transformers, f"{kind}ForCausalLM")(configuration)
    for folder in ("job", layout):
        assert order_in(tmp_path / folder) == [name for name, _ in model.named_parameters()], folder


@pytest.mark.parametrize("first", ["universal", "dcp"])
def test_the_order_after_two_conversions(first: str, ucprun: Path, tmp_path: Path) -> None:
    """Whether the layout changes on the way to whole tensors, or on the way to the job's files."""
    spec = synthesize(ucprun, tmp_path / "job", "deepspeed:tp=2,dp=2,zero=1")
    to = "deepspeed:tp=2,dp=2,zero=1,dtype=bf16"
    told(ucprun, tmp_path / "job", tmp_path / "direct", "--to", f"{to},layout=megatron", *spec)
    told(ucprun, tmp_path / "job", tmp_path / "whole", "--to", f"{first}:layout=megatron", *spec)
    told(ucprun, tmp_path / "whole", tmp_path / "then", "--to", to, *spec)
    said = told(ucprun, tmp_path / "whole", tmp_path / "named", "--to", f"{to},layout=megatron", *spec)
    assert "the source has the layout `megatron` already" in said
    expected = order_in(tmp_path / "direct")
    assert any(name.endswith("linear_qkv.weight") for name in expected)
    assert order_in(tmp_path / "then") == expected
    assert order_in(tmp_path / "named") == expected


PIPELINE = """ucp 1
dim layers
dim hidden
dim ffn
mesh pp, dp, tp
model m {
  embed [hidden, ffn]
  gate [layers, ffn, hidden]
  up [layers, ffn, hidden]
}
layout fused of m {
  "1.weight" = embed at pp.first
  block "{i+3: layers@pp}" { "up.weight" = [gate: ffn@tp + up: ffn@tp, hidden] }
}
layout apart of m {
  "1.weight" = embed at pp.first
  block "{i+3: layers@pp}" { "gate.weight" = [gate: ffn@tp, hidden] "up.weight" = [up: ffn@tp, hidden] }
}
"""


def test_pipelines(ucprun: Path, tmp_path: Path) -> None:
    """The layout of the source itself changes nothing; another one has other modules than the pipeline's."""
    (tmp_path / "pipeline.ucp").write_text(PIPELINE)
    sets = ["--set", "layers=4", "--set", "hidden=6", "--set", "ffn=8"]
    source = [ucprun, "synth", tmp_path / "pipeline.ucp", tmp_path / "job", "--to", "deepspeed:pp=2,tp=2,dp=1,zero=1"]
    subprocess.run([*source, "--set", "layout=apart", *sets], check=True, capture_output=True, timeout=60)
    spec = ["--spec", str(tmp_path / "pipeline.ucp"), *sets]
    for pp in (1, 2):
        to = f"deepspeed:pp={pp},tp=4,dp=1,zero=1"
        told(ucprun, tmp_path / "job", tmp_path / f"plain{pp}", "--to", to, *spec)
        told(ucprun, tmp_path / "job", tmp_path / f"own{pp}", "--to", f"{to},layout=apart", *spec)
        files = {path.relative_to(tmp_path / f"plain{pp}"): path for path in (tmp_path / f"plain{pp}").rglob("*.pt")}
        assert any("layer_" in path.name for path in files)
        for name, path in files.items():
            assert (tmp_path / f"own{pp}" / name).read_bytes() == path.read_bytes(), name
    said = refused(ucprun, tmp_path / "job", tmp_path / "out", "--to", "deepspeed:pp=2,zero=1,layout=fused", *spec)
    assert "changes the layout, and has 2 pipeline stages" in said
    said = told(ucprun, tmp_path / "job", tmp_path / "out", "--to", "deepspeed:pp=1,zero=1,layout=fused", *spec)
    assert "the target is that of a model without a pipeline" in said


def order_in(folder: Path) -> list[str]:
    """Of the parameters, which native files have without names."""
    file = next(folder.rglob("mp_rank_00_model_states.pt"))
    (group,) = torch.load(file, weights_only=False)["param_shapes"]
    return list(group)


@pytest.mark.parametrize("stage", [1, 3])
def test_back_from_experts_apart(stage: int, engines: Engines, ucprun: Path, tmp_path: Path) -> None:
    """A real ZeRO run whose experts are taken apart and put together again, over other numbers of ranks: its native
    files, which have the parameters in the order of the module and without names, are again what they were."""
    engines.ask(Training(tmp_path / "trained", "mixtral", stage=stage))
    spec = ["--spec", "models/mixtral"]
    there = f"deepspeed:dp=3,zero={4 - stage},layout=hub"
    told(ucprun, tmp_path / "trained", tmp_path / "apart", "--to", there, *spec)
    expect_as_written(ucprun, tmp_path / "apart")
    to = f"deepspeed:dp=2,zero={stage}"
    config = ["--config", str(tmp_path / "trained" / "config.json")]
    told(ucprun, tmp_path / "apart", tmp_path / "back", "--to", f"{to},layout=memory", *spec, *config)
    told(ucprun, tmp_path / "trained", tmp_path / "direct", "--to", to)
    files = sorted((tmp_path / "direct").rglob("*optim_states.pt"))
    assert len(files) == 2
    for file in files:
        back = tmp_path / "back" / file.relative_to(tmp_path / "direct")
        assert masters_of(back) == masters_of(file), file.name


@pytest.mark.parametrize("stage", [1, 3])
def test_universal_folders_of_another_layout(stage: int, engines: Engines, ucprun: Path, tmp_path: Path) -> None:
    """From a job's files in which the experts are apart, the states of the universal folder that
    DeepSpeed makes of the first job's are written."""
    engines.ask(Training(tmp_path / "trained", "mixtral", stage=stage))
    spec = ["--spec", "models/mixtral", "--config", str(tmp_path / "trained" / "config.json")]
    told(ucprun, tmp_path / "trained", tmp_path / "apart", "--to", "deepspeed:dp=3,zero=1,layout=hub", *spec)
    told(ucprun, tmp_path / "apart", tmp_path / "universal", "--to", "universal:layout=memory", *spec)
    (saved,) = (tmp_path / "trained").glob("global_step*")
    engines.ask(Conversion(saved, tmp_path / "theirs", inject=True))
    theirs = sorted((tmp_path / "theirs" / "zero").rglob("*.pt"))
    assert any("gate_up_proj" in str(file) for file in theirs)
    (zero,) = (tmp_path / "universal").glob("*/zero")
    for file in theirs:
        if file.name in ("fp32.pt", "exp_avg.pt", "exp_avg_sq.pt"):
            ours = torch.load(zero / file.relative_to(tmp_path / "theirs" / "zero"), weights_only=False)
            expected = torch.load(file, weights_only=False)
            ours, expected = (v if isinstance(v, torch.Tensor) else v["param"] for v in (ours, expected))
            assert torch.equal(ours.reshape(-1), expected.reshape(-1)), file


@pytest.mark.parametrize("stage", [1, 3])
def test_a_running_engine_loads_another_layout(stage: int, engines: Engines, ucprun: Path, tmp_path: Path) -> None:
    """An engine of fused experts loads a job's files in which they are apart, and saves what the first engine saved."""
    training = Training(tmp_path / "trained", "mixtral", stage=stage)
    engines.ask(training)
    there = f"deepspeed:dp=3,zero={4 - stage},layout=hub"
    told(ucprun, tmp_path / "trained", tmp_path / "apart", "--to", there, "--spec", "models/mixtral")
    (tmp_path / "again").mkdir()
    shutil.copy(tmp_path / "trained" / "config.json", tmp_path / "again")
    again = replace(training, place=tmp_path / "again")
    arguments = {"training": again, "source": tmp_path / "apart", "layout": "memory", "spec": "models/mixtral"}
    engines.ask(Call(2, load_in_layout, arguments))
    files = sorted((tmp_path / "trained").rglob("*optim_states.pt"))
    assert len(files) == 2
    for file in files:
        found = tmp_path / "again" / file.relative_to(tmp_path / "trained")
        assert masters_of(found) == masters_of(file), file.name
