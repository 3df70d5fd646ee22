"""Models with several layouts: conversions between all of them, against a slow evaluator of the rules, and against
transformers' own converters."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict

from fixtures.fingerprints import describe
from fixtures.hugging_face import Training, prompt
from fixtures.serve import Engines
from layout_rules import Spec
from model_cases import (
    LLAMA,
    MIXTRAL,
    MODELS,
    QWEN3_MOE,
    SPECS,
    as_tensors,
    expect_equal,
    logits,
    rules_of,
    write_model,
)
from spoken import refused, told

PAIRS = [(model, *pair) for model in MODELS for pair in itertools.permutations(Spec(SPECS / f"{model}.ucp").layouts, 2)]


@pytest.mark.parametrize(("model", "source", "target"), PAIRS)
def test_every_pair_of_layouts(model: str, source: str, target: str, ucprun: Path, tmp_path: Path) -> None:
    """Every element is where the rules say, there and back; `verify` finds the output as it was written, and says that
    both hold the same."""
    rules = rules_of(model)
    spec = ["--spec", f"models/{model}"]
    folder = write_model(tmp_path / "source", as_tensors(rules.stored(source)), MODELS[model].config)
    remarks = told(ucprun, folder, tmp_path / "there", "--to", f"safetensors:layout={target}", *spec)
    assert f"has the layout `{source}` of the model `{model}`, and the target the layout `{target}`" in remarks
    expect_equal(load_file(tmp_path / "there" / "model.safetensors"), as_tensors(rules.stored(target)))
    told(ucprun, tmp_path / "there", tmp_path / "back", "--to", f"safetensors:layout={source}", *spec)
    expect_equal(load_file(tmp_path / "back" / "model.safetensors"), as_tensors(rules.stored(source)))
    verify = [ucprun, "verify", tmp_path / "there", "--same", folder, *spec]
    result = subprocess.run(verify, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"`{target}` in {tmp_path}/there, `{source}` in {folder}" in result.stdout
    alone = [ucprun, "verify", tmp_path / "there"]
    result = subprocess.run(alone, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0 and "as in the manifest" in result.stdout, result.stdout + result.stderr


@pytest.mark.parametrize("swapped", ["q_proj", "down_proj"])
def test_somebody_elses_conversion(swapped: str, ucprun: Path, tmp_path: Path) -> None:
    """Two rows that are exchanged in a copy of the other layout are a difference, with the tensor's name."""
    rules = rules_of("llama")
    folder = write_model(tmp_path / "meta", as_tensors(rules.stored("meta")), LLAMA)
    tensors = as_tensors(rules.stored("hf"))
    name = next(name for name in tensors if swapped in name)
    tensors[name][[0, 1]] = tensors[name][[1, 0]]
    other = write_model(tmp_path / "hf", tensors, LLAMA)
    command = [ucprun, "verify", folder, "--same", other, "--spec", "models/llama"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 3
    assert f"`{name}` weight differs" in result.stdout + result.stderr
    assert (result.stdout + result.stderr).count(" differs") == 1


def test_rotary_order(ucprun: Path, tmp_path: Path) -> None:
    """Meta's rows of q and k are those that the well-known script permutes into Hugging Face's."""
    generator = torch.Generator().manual_seed(1)
    meta = {n: torch.randn(v.shape, generator=generator) for n, v in rules_of("llama").stored("meta").items()}
    folder = write_model(tmp_path / "meta", meta, LLAMA)
    told(ucprun, folder, tmp_path / "hf", "--to", "safetensors:layout=hf", "--spec", "models/llama")
    found = load_file(tmp_path / "hf" / "model.safetensors")

    def permute(weight: torch.Tensor, heads: int) -> torch.Tensor:
        rows, columns = weight.shape
        return weight.view(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)

    for i in range(2):
        wq, wk = meta[f"layers.{i}.attention.wq.weight"], meta[f"layers.{i}.attention.wk.weight"]
        assert torch.equal(found[f"model.layers.{i}.self_attn.q_proj.weight"], permute(wq, 6))
        assert torch.equal(found[f"model.layers.{i}.self_attn.k_proj.weight"], permute(wk, 2))
        assert torch.equal(found[f"model.layers.{i}.mlp.up_proj.weight"], meta[f"layers.{i}.feed_forward.w3.weight"])


def test_megatron_fuses_by_groups(ucprun: Path, tmp_path: Path) -> None:
    """linear_qkv has, for each group, its queries' heads, its key and its value; linear_fc1 the gate above up."""
    generator = torch.Generator().manual_seed(2)
    hf = {name: torch.randn(v.shape, generator=generator) for name, v in rules_of("llama").stored("hf").items()}
    folder = write_model(tmp_path / "hf", hf, LLAMA)
    told(ucprun, folder, tmp_path / "megatron", "--to", "safetensors:layout=megatron", "--spec", "models/llama")
    found = load_file(tmp_path / "megatron" / "model.safetensors")
    for i in range(2):
        q, k, v = (hf[f"model.layers.{i}.self_attn.{name}_proj.weight"] for name in "qkv")
        groups = [torch.cat([q[12 * g : 12 * (g + 1)], k[4 * g : 4 * (g + 1)], v[4 * g : 4 * (g + 1)]]) for g in (0, 1)]
        assert torch.equal(found[f"decoder.layers.{i}.self_attention.linear_qkv.weight"], torch.cat(groups))
        gate, up = (hf[f"model.layers.{i}.mlp.{name}_proj.weight"] for name in ("gate", "up"))
        assert torch.equal(found[f"decoder.layers.{i}.mlp.linear_fc1.weight"], torch.cat([gate, up]))


def make_moe(folder: Path) -> torch.nn.Module:
    """A small Qwen3 MoE that transformers saves with the hub's names."""
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    torch.manual_seed(3)
    config = Qwen3MoeConfig(**QWEN3_MOE, num_experts_per_tok=2, decoder_sparse_step=1, max_position_embeddings=32)
    model = Qwen3MoeForCausalLM(config).eval()
    model.save_pretrained(folder)
    return model


def test_experts_as_transformers_has_them(ucprun: Path, tmp_path: Path) -> None:
    """From the files of save_pretrained() to the names in memory, and back to files that from_pretrained() loads with
    the same logits, bit for bit."""
    from transformers import Qwen3MoeForCausalLM

    model = make_moe(tmp_path / "hub")
    spec = ["--spec", "models/qwen3_moe"]
    told(ucprun, tmp_path / "hub", tmp_path / "memory", "--to", "safetensors:layout=memory", *spec)
    held = {name: parameter.detach() for name, parameter in model.named_parameters()}
    expect_equal(load_file(tmp_path / "memory" / "model.safetensors"), held)
    told(ucprun, tmp_path / "memory", tmp_path / "back", "--to", "safetensors:layout=hub", *spec)
    expect_equal(load_file(tmp_path / "back" / "model.safetensors"), load_file(tmp_path / "hub" / "model.safetensors"))
    loaded, report = Qwen3MoeForCausalLM.from_pretrained(tmp_path / "back", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert torch.equal(logits(loaded.eval()), logits(model))


@pytest.mark.parametrize(
    ("before", "after"),
    [("gate: ffn@etp + up: ffn@etp", "up: ffn@etp + gate: ffn@etp"), ("experts@ep, hidden, down: ffn", "x, hidden, x")],
)
def test_wrong_models_are_seen(before: str, after: str, ucprun: Path, tmp_path: Path) -> None:
    """With gate and up exchanged in the spec the parameters are not those that the model has; with other factors the
    spec is refused."""
    model = make_moe(tmp_path / "hub")
    text = (SPECS / "qwen3_moe.ucp").read_text()
    assert before in text
    (tmp_path / "wrong.ucp").write_text(text.replace(before, after))
    options = ["--to", "safetensors:layout=memory", "--spec", str(tmp_path / "wrong.ucp")]
    if "x" in after.split(","):
        assert "there is no dim `x`" in refused(ucprun, tmp_path / "hub", tmp_path / "memory", *options)
        return
    told(ucprun, tmp_path / "hub", tmp_path / "memory", *options)
    found = load_file(tmp_path / "memory" / "model.safetensors")
    held = dict(model.named_parameters())
    wrong = [name for name, tensor in found.items() if not torch.equal(tensor, held[name].detach())]
    assert wrong and all(re.fullmatch(r"model\.layers\.\d\.mlp\.experts\.gate_up_proj", name) for name in wrong)


def test_a_mixture_that_deepspeed_trained(engines: Engines, ucprun: Path, tmp_path: Path) -> None:
    """A real ZeRO run has transformers' names in memory. In the hub's names, the model that from_pretrained() makes has
    the engine's weights and logits, bit for bit."""
    from transformers import AutoModelForCausalLM

    answer = engines.ask(Training(tmp_path / "trained", "mixtral"))
    to = ["--to", "safetensors:layout=hub", "--spec", "models/mixtral"]
    told(ucprun, tmp_path / "trained", tmp_path / "ours", *to)
    assert any(".experts.1.w3." in name for name in load_file(tmp_path / "ours" / "model.safetensors"))
    torch.set_num_threads(1)
    model, report = AutoModelForCausalLM.from_pretrained(
        tmp_path / "ours", dtype=torch.bfloat16, output_loading_info=True
    )
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    assert {name: describe(parameter) for name, parameter in model.named_parameters()} == answer["weights"]
    with torch.no_grad():
        assert model.eval()(input_ids=prompt()).logits.float().tolist() == answer["logits"]


def train(folder: Path, frozen: str = "", apart: str = "") -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """One step of a small Qwen3 MoE; its parameters whose names hold `apart` are a group of their own."""
    model = make_moe(folder.parent / "saved").train()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not frozen or frozen not in name)
    mine = [p for n, p in model.named_parameters() if p.requires_grad and not (apart and apart in n)]
    others = [p for n, p in model.named_parameters() if p.requires_grad and apart and apart in n]
    groups = [{"params": mine, "lr": 1e-3}] + ([{"params": others, "lr": 1e-2}] if others else [])
    optimizer = torch.optim.AdamW(groups)
    torch.set_num_threads(1)
    output = model(input_ids=torch.arange(10).view(2, 5))
    output.logits.square().mean().backward()
    optimizer.step()
    weights, states = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": states}, checkpoint_id=folder, no_dist=True)
    return model, optimizer


def test_moments_follow(ucprun: Path, tmp_path: Path) -> None:
    """Each moment of each expert is the slice of its fused tensor's that transformers' own converter takes for the
    weight, and the groups name the tensors of the other layout; back again it is the same folder."""
    from transformers.core_model_loading import revert_weight_conversion

    model, optimizer = train(tmp_path / "saved_by_torch")
    config = ["--spec", "models/qwen3_moe", *(["--config", str(tmp_path / "saved" / "config.json")])]
    told(ucprun, tmp_path / "saved_by_torch", tmp_path / "hub", "--to", "dcp:style=app,layout=hub", *config)
    reader = dcp.FileSystemReader(tmp_path / "hub")
    entries = reader.read_metadata().state_dict_metadata
    for state in ("exp_avg", "exp_avg_sq"):
        moments = {n: optimizer.state[p][state] for n, p in model.named_parameters()}
        expected = revert_weight_conversion(model, moments)
        for name, tensor in expected.items():
            key = next(key for key in entries if key.endswith(f"state.{name}.{state}"))
            loaded = {key: torch.zeros_like(tensor)}
            dcp.load(loaded, checkpoint_id=tmp_path / "hub", no_dist=True)
            assert torch.equal(loaded[key], tensor), key
    told(ucprun, tmp_path / "hub", tmp_path / "back", "--to", "dcp:style=app,layout=memory", *config)
    command = [ucprun, "verify", tmp_path / "back", "--same", tmp_path / "saved_by_torch"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_what_cannot_come_together(ucprun: Path, tmp_path: Path) -> None:
    """A key that is frozen beside a trained query, or in a group of its own, is refused with both names where they
    become one tensor; nothing is written."""
    options = ["--to", "dcp:layout=megatron", "--spec", "models/qwen3_moe"]
    for number, (settings, expected) in enumerate(
        [({"frozen": "k_proj"}, "a frozen parameter"), ({"apart": "k_proj"}, "of parameter group 0 and of")]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        train(folder / "source", **settings)
        config = ["--config", str(folder / "saved" / "config.json")]
        said = refused(ucprun, folder / "source", folder / "out", *options, *config)
        assert expected in said and "linear_qkv.weight" in said
        assert "self_attn.k_proj.weight" in said and "self_attn.q_proj.weight" in said


def test_the_catalogue_knows_the_model(ucprun: Path, tmp_path: Path) -> None:
    """Without `--spec`: its names and shapes say which model it is."""
    rules = rules_of("mixtral")
    folder = write_model(tmp_path / "memory", as_tensors(rules.stored("memory")), MIXTRAL)
    said = told(ucprun, folder, tmp_path / "hub", "--to", "safetensors:layout=hub")
    assert "17 have the elements of one tensor in their order; 18 are part of one" in said
    assert "the model `models/mixtral` of the catalogue fits" in said
    assert "the checkpoint has the layout `memory` of the model `mixtral`" in said
    expect_equal(load_file(tmp_path / "hub" / "model.safetensors"), as_tensors(rules.stored("hub")))
    (folder / "config.json").write_text(json.dumps(MIXTRAL | {"model_type": "helium"}))
    said = refused(ucprun, folder, tmp_path / "other", "--to", "safetensors:layout=hub")
    assert "its layouts are those of the model type `mixtral`, and config.json says `helium`" in said


def test_refusals(ucprun: Path, tmp_path: Path) -> None:
    """Each names what it wants, and writes nothing."""
    folder = write_model(tmp_path / "hf", as_tensors(rules_of("llama").stored("hf")), LLAMA)
    out = tmp_path / "out"
    spec = ["--spec", "models/llama"]
    said = refused(ucprun, folder, out, "--to", "safetensors:layout=hub", *spec)
    assert "the model `llama` has no layout `hub`; it has `hf`, `meta`, `megatron` and `megatron_stacked`" in said
    said = refused(ucprun, folder, out, "--to", "safetensors:layout=hub")
    assert "the model `models/llama` of the catalogue fits, and has the layouts `hf`, `meta`, `megatron` and" in said
    (tmp_path / "other").mkdir()
    save_file({"other": torch.zeros(3)}, tmp_path / "other" / "model.safetensors")
    said = refused(ucprun, tmp_path / "other", out, "--to", "safetensors:layout=hub")
    assert "`layout=hub` names a layout of a model, and no model of the catalogue fits" in said
    assert "no pattern matches the tensor `other`" in said
    said = refused(ucprun, folder, out, "--to", "safetensors:layout=hub", "--spec", "llama")
    assert "declares no model" in said
    said = refused(ucprun, folder, out, "--to", "safetensors:layout=meta", "--set", "layout=who", *spec)
    assert "the model `llama` has the layouts `hf`, `meta`, `megatron` and `megatron_stacked`" in said
    said = refused(ucprun, folder, out, "--to", "safetensors:layout=hf", "--set", "layout=meta", *spec)
    assert "missing-tensor" in said


def test_layouts_without_a_checkpoint(ucprun: Path, tmp_path: Path) -> None:
    """The setting chooses one, also as the strategy of a source; a target in another layout is not explained."""
    sizes = ["layers=1", "hidden=12", "heads=6", "kv_heads=2", "head=4", "ffn=10", "vocab=14", "tied=false"]
    options = [word for size in sizes for word in ("--set", size)]
    ucpc = ucprun.with_name("ucpc")

    def explain(*more: str) -> str:
        command = [ucpc, "explain", "models/llama", *options, *more]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return result.stdout + result.stderr

    assert "self_attn.q_proj.weight" in explain()
    assert "attention.wq.weight" in explain("--set", "layout=meta")
    assert "attention.wq.weight" in explain("--from", "safetensors:layout=meta")
    assert "only one layout of a model is explained at a time" in explain("--to", "safetensors:layout=meta")
    command = [ucprun, "synth", "models/llama", tmp_path / "made", "--to", "safetensors", *options]
    subprocess.run([*command, "--set", "layout=megatron"], timeout=60, check=True)
    assert any("linear_qkv" in name for name in load_file(tmp_path / "made" / "model.safetensors"))


def test_two_layouts_that_fit(ucprun: Path, tmp_path: Path) -> None:
    """Nothing is guessed: where names and shapes fit two layouts, the user says which it is."""
    text = (SPECS / "llama.ucp").read_text()
    other = text[text.index("layout meta of llama") : text.index("layout megatron")].replace("meta", "halves")
    other = other.replace("half * pair", "pair * half")
    (tmp_path / "both.ucp").write_text(text + other)
    stored = rules_of("llama").stored("meta")
    folder = write_model(tmp_path / "meta", as_tensors(stored), LLAMA)
    options = ["--to", "safetensors:layout=hf", "--spec", str(tmp_path / "both.ucp")]
    said = refused(ucprun, folder, tmp_path / "out", *options)
    assert "the layouts `meta`, `halves` of the model `llama` all fit this checkpoint; choose one with --set" in said
    told(ucprun, folder, tmp_path / "out", *options, "--set", "layout=meta")
    expect_equal(load_file(tmp_path / "out" / "model.safetensors"), as_tensors(rules_of("llama").stored("hf")))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.uint8])
@pytest.mark.parametrize("shape", [(1024, 4096), (1027, 4099), (40, 9001), (9001, 40)])
def test_large_matrices_turned(dtype: torch.dtype, shape: tuple[int, int], ucprun: Path, tmp_path: Path) -> None:
    """Rows of the source that lie far apart become columns, and pairs of rotary places change their order, in tiles."""
    (tmp_path / "turn.ucp").write_text(
        "ucp 1\ndim rows\ndim cols\ndim pair = 2\n"
        "model m { w [rows, cols] v [cols, pair, rows] }\n"
        'layout stored of m { "w" = w "v" = v }\n'
        'layout turned of m { "t" = w [cols, rows] "p" = v [rows * pair, cols] }\n'
    )
    (tmp_path / "source").mkdir()
    rows, cols = shape
    generator = torch.Generator().manual_seed(4)
    w, v = (torch.randint(0, 256, s, generator=generator).to(dtype) for s in ((rows, cols), (cols, 2, rows)))
    save_file({"w": w, "v": v}, tmp_path / "source" / "model.safetensors")
    to = ["--to", "safetensors:layout=turned", "--spec", str(tmp_path / "turn.ucp"), "--threads", "2"]
    told(ucprun, tmp_path / "source", tmp_path / "out", *to, "--memory", "200MiB")
    found = load_file(tmp_path / "out" / "model.safetensors")
    expect_equal(found, {"t": w.T.contiguous(), "p": v.permute(2, 1, 0).reshape(2 * rows, cols).contiguous()})
