"""Specs that `ucp_checkpoint.import_hf` writes, against files that the models themselves save at sizes of this file."""

from __future__ import annotations

import json
import operator
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from matrix import EVERY_CELL
from spoken import told

PACKAGE = Path(os.environ.get("UCP_BIN", "bin")).parent / "python"
sys.path.insert(0, str(PACKAGE))

import ucp_checkpoint as ucp  # noqa: E402
from ucp_checkpoint import Error, _import_check, import_hf  # noqa: E402
from ucp_checkpoint._failure import failure  # noqa: E402
from ucp_checkpoint._import_further import Change  # noqa: E402
from ucp_checkpoint._import_model import Imported  # noqa: E402

SIZES = {
    "num_hidden_layers": 4, "hidden_size": 48, "num_attention_heads": 6, "num_key_value_heads": 2,
    "intermediate_size": 26, "vocab_size": 30, "tie_word_embeddings": False, "pad_token_id": 0,
}  # fmt: skip
HEAD = SIZES | {"head_dim": 10}
EXPERTS = SIZES | {"moe_intermediate_size": 14, "num_experts_per_tok": 2, "num_experts": 5}
LATENT = SIZES | {
    "moe_intermediate_size": 14, "num_experts_per_tok": 2, "n_routed_experts": 5, "n_shared_experts": 2, "n_group": 1,
    "topk_group": 1, "q_lora_rank": 9, "kv_lora_rank": 7, "qk_rope_head_dim": 4, "qk_nope_head_dim": 6,
    "v_head_dim": 3, "first_k_dense_replace": 1, "num_key_value_heads": 6,
}  # fmt: skip
GPT2 = {"n_layer": 4, "n_embd": 48, "n_head": 6, "vocab_size": 30, "n_positions": 9}
OPT = {
    "num_hidden_layers": 4, "hidden_size": 48, "word_embed_proj_dim": 48, "num_attention_heads": 6, "ffn_dim": 26,
    "vocab_size": 30, "max_position_embeddings": 9, "tie_word_embeddings": False,
}  # fmt: skip
T5 = {"num_layers": 4, "d_model": 48, "d_kv": 10, "num_heads": 6, "d_ff": 26, "vocab_size": 30} | {
    "num_decoder_layers": 3, "relative_attention_num_buckets": 12, "tie_word_embeddings": False,
}  # fmt: skip
JAMBA = SIZES | {
    "num_hidden_layers": 6, "num_experts": 5, "attn_layer_period": 3, "attn_layer_offset": 2, "mamba_d_state": 6,
    "mamba_dt_rank": 5, "use_mamba_kernels": False,
}  # fmt: skip
HYBRID = SIZES | {"num_hidden_layers": 5, "head_dim": 10, "v_head_dim": 7, "moe_intermediate_size": 14} | {
    "n_routed_experts": 5, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
    "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
    "mlp_layer_types": ["dense", "sparse", "sparse", "dense", "sparse"],
}  # fmt: skip
LLAVA = {
    "text_config": HEAD | {"model_type": "llama"},
    "vision_config": {"model_type": "clip_vision_model", "hidden_size": 24, "intermediate_size": 22,
                      "num_hidden_layers": 3, "num_attention_heads": 3, "image_size": 16, "patch_size": 4},
    "tie_word_embeddings": False,
}  # fmt: skip
EYES = {
    "text_config": HEAD | {"max_position_embeddings": 90},
    "vision_config": {"depth": 3, "hidden_size": 24, "intermediate_size": 22, "num_heads": 3, "patch_size": 4,
                      "spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": 48,
                      "num_position_embeddings": 16, "deepstack_visual_indexes": [0, 1, 2]},
    "tie_word_embeddings": False,
}  # fmt: skip
SOME_DENSE = EXPERTS | {"mlp_only_layers": [1, 3], "shared_expert_intermediate_size": 10, "num_hidden_layers": 5}
# Types, their sizes, and whether memory and hub differ.
FAMILIES: dict[str, tuple[list[dict[str, Any]], bool]] = {
    "llama": ([HEAD, SIZES, HEAD | {"tie_word_embeddings": True}], False),
    "qwen3": ([HEAD], False),
    "gpt2": ([GPT2, GPT2 | {"n_inner": 20}], False),
    "phi3": ([SIZES], False),
    "gpt_neox": ([SIZES], True),
    "mixtral": ([SIZES | {"num_local_experts": 5}, HEAD | {"num_local_experts": 5}], True),
    "opt": ([OPT], False),
    "llava": ([LLAVA], True),
    "flint": ([SOME_DENSE, SOME_DENSE | {"mlp_only_layers": [0, 2, 4]}], True),
}
if EVERY_CELL:  # These take longer.
    FAMILIES |= {
        "gpt_oss": ([HEAD | {"num_local_experts": 5}], False),
        "qwen3_moe": ([EXPERTS | {"head_dim": 10}, EXPERTS], True),
        "deepseek_v3": ([LATENT, LATENT | {"first_k_dense_replace": 3, "tie_word_embeddings": True}], True),
        "t5": ([T5], False),
        "mimo_v2_flash": ([HYBRID], True),
        "jamba": ([JAMBA], True),
        "qwen3_vl": ([EYES], False),
    }
EVERY_FAMILY = pytest.mark.skipif(not EVERY_CELL, reason="imports a family of full runs")
OF_IMAGES = "AutoModelForImageTextToText"
HEADS = {"t5": "AutoModelForSeq2SeqLM", "llava": OF_IMAGES, "qwen3_vl": OF_IMAGES}


def imported(folder: Path, family: str) -> Path:
    """The spec of a type, written once."""
    spec = folder / f"{family}.ucp"
    if not spec.exists():
        assert import_hf.main([family, "-o", str(spec)]) == 0
    return spec


@pytest.fixture(autouse=True)
def is_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The importer sets it for its process, which goes on here."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for specs."""
    return tmp_path_factory.mktemp("imported")


def saved(folder: Path, tensors: dict[str, torch.Tensor], config: Path) -> Path:
    """A checkpoint with these tensors."""
    folder.mkdir()
    save_file({name: tensor.clone() for name, tensor in tensors.items()}, folder / "model.safetensors")
    (folder / "config.json").write_bytes(config.read_bytes())
    return folder


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family(family: str, specs: Path, ucprun: Path, tmp_path: Path) -> None:
    """The files of `save_pretrained()` become the tensors in memory, and these become the files, bit for bit."""
    import transformers

    spec = imported(specs, family)
    several, has_two = FAMILIES[family]
    assert ("layout hub of" in spec.read_text()) == has_two
    for number, sizes in enumerate(several):
        torch.manual_seed(5)
        head = getattr(transformers, HEADS.get(family, "AutoModelForCausalLM"))
        model = head.from_config(transformers.AutoConfig.for_model(family, **sizes))
        hub = tmp_path / f"hub{number}"
        model.save_pretrained(hub)
        first = {tensor.data_ptr(): name for name, tensor in reversed(model.state_dict().items())}
        once = {name: tensor for name, tensor in model.state_dict().items() if first[tensor.data_ptr()] == name}
        expected = {"hub": load_file(hub / "model.safetensors"), "memory": once}
        memory = saved(tmp_path / f"memory{number}", expected["memory"], hub / "config.json")
        for source, target in ((hub, "memory"), (memory, "hub" if has_two else "memory")):
            out = tmp_path / f"{source.name}-out"
            told(ucprun, source, out, "--to", f"safetensors:layout={target}", "--spec", str(spec))
            found = load_file(out / "model.safetensors")
            assert found.keys() == expected[target].keys()
            assert all(torch.equal(found[name], tensor) for name, tensor in expected[target].items())


@EVERY_FAMILY
def test_another_name_of_a_value(specs: Path, ucprun: Path, tmp_path: Path) -> None:
    """`config.json` on the hub says `num_experts`, and the class writes `num_local_experts`."""
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = FAMILIES["qwen3_moe"][0][0]
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model("qwen3_moe", **sizes))
    model.save_pretrained(tmp_path / "hub")
    (tmp_path / "hub" / "config.json").write_text(json.dumps({"model_type": "qwen3_moe"} | sizes))
    spec = imported(specs, "qwen3_moe")
    told(ucprun, tmp_path / "hub", tmp_path / "out", "--to", "safetensors:layout=memory", "--spec", str(spec))
    found, expected = load_file(tmp_path / "out" / "model.safetensors"), model.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


# The axis that a style of the classes' plans cuts in a matrix.
CUT = {"colwise": 0, "colwise_gather_output": 0, "embedding_rowwise": 0, "rowwise": 1, "rowwise_split_input": 1}


@pytest.mark.parametrize("family", ["phi3", "mixtral"])
def test_cuts(family: str, specs: Path, tmp_path: Path) -> None:
    """Each of two ranks has the half of a matrix that the class's plan gives it. DeepSpeed's tensor parallelism leaves
    fused experts whole."""
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = FAMILIES[family][0][0]
    torch.manual_seed(5)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **sizes))
    model.config.save_pretrained(tmp_path)
    memory = saved(tmp_path / "memory", model.state_dict(), tmp_path / "config.json")
    sets = {"layout": "memory"}
    ranks = [
        ucp.load(memory, to="deepspeed:tp=2,zero=0", rank=rank, spec=imported(specs, family), sets=sets)
        for rank in range(2)
    ]
    general = {name: re.sub(r"[.]\d+(?=[.])", ".*", name) for name in model.state_dict()}
    styles = {name: model.tp_plan.get(one.removesuffix(".weight")) if one.endswith(".weight") else None
              for name, one in general.items()}  # fmt: skip
    assert sum(style in CUT for style in styles.values()) >= 2 + 4 * sizes["num_hidden_layers"]
    for name, tensor in model.state_dict().items():
        halves = tensor.chunk(2, CUT[styles[name]]) if styles[name] in CUT else [tensor, tensor]
        for rank, half in zip(ranks, halves, strict=True):
            assert torch.equal(rank[name]["weight"], half), name


def test_what_is_written(specs: Path) -> None:
    """Cuts of the class's plans."""
    text = imported(specs, "mixtral").read_text()
    assert "= q_proj [attention_heads@tp * head_dim, hidden]" in text
    assert "= [local_experts@ep, w1: intermediate@etp + w3: intermediate@etp, hidden]" in text


@EVERY_FAMILY
def test_what_else_is_written(specs: Path) -> None:
    """Conditions on layers, defaults that follow from other sizes, values that the spec does not follow, and cuts of
    experts."""
    text = imported(specs, "deepseek_v3").read_text()
    assert "when i >= first_k_dense_replace" in text and "when i < first_k_dense_replace" in text
    text = imported(specs, "qwen3_moe").read_text()
    assert "from config.head_dim else head\n" in text and "= hidden / attention_heads\n" in text
    assert "// It holds only for decoder_sparse_step 1.\n" in text
    text = imported(specs, "gpt_oss").read_text()
    for experts in ("gate_up_proj", "gate_up_proj_bias", "down_proj", "down_proj_bias"):
        assert re.search(rf'experts[.]{experts}" += {experts} \[local_experts@ep, ', text), text


# Types that no list of heads has, and a line of their specs.
FURTHER = {
    "step3p5_vision": "attention_heads * of_2 * head_per_2",
    "got_ocr2": "in vision_config_global_attn_indexes {",
    "deepseek_v4": "attention_heads_head_dim_per_o_groups",
}


@EVERY_FAMILY
@pytest.mark.parametrize("family", FURTHER)
def test_further_types(family: str, specs: Path) -> None:
    """Fused projections whose heads are in another order, layers that a list chooses, and groups of heads. The importer
    itself compares them with transformers."""
    text = imported(specs, family).read_text()
    assert "layout hub of" in text and FURTHER[family] in text


def test_equal_sizes(specs: Path, tmp_path: Path) -> None:
    """The class has further tensors where `word_embed_proj_dim` is not `hidden_size`, and the spec names both."""
    from transformers import AutoConfig, AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(AutoConfig.for_model("opt", **(OPT | {"word_embed_proj_dim": 24})))
    model.save_pretrained(tmp_path / "hub")
    with pytest.raises(Error, match="nothing says what `word_embed_proj_dim_is_hidden` is"):
        ucp.convert(tmp_path / "hub", tmp_path / "out", to="safetensors:layout=memory", spec=imported(specs, "opt"))
    assert not (tmp_path / "out").exists()


def test_a_list_of_kinds(specs: Path, tmp_path: Path) -> None:
    """Conditions read `layer_types`, and a `config.json` without it is refused, as the spec says."""
    from transformers import AutoConfig, AutoModelForCausalLM

    spec = imported(specs, "minimax")
    assert "// It needs layer_types in config.json.\n" in spec.read_text()
    sizes = SIZES | {"num_local_experts": 5, "block_size": 8}
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model("minimax", **sizes))
    model.config.save_pretrained(tmp_path)
    memory = saved(tmp_path / "memory", model.state_dict(), tmp_path / "config.json")
    to, sets = "safetensors:layout=hub", {"layout": "memory"}
    ucp.convert(memory, tmp_path / "out", to=to, spec=spec, sets=sets)
    config = json.loads((memory / "config.json").read_text())
    del config["layer_types"]
    (memory / "config.json").write_text(json.dumps(config))
    with pytest.raises(Error, match="layer_types"):
        ucp.convert(memory, tmp_path / "refused", to=to, spec=spec, sets=sets)
    assert not (tmp_path / "refused").exists()


def test_a_folder(tmp_path: Path) -> None:
    """The program. The class and the switches are those of `config.json`, its large sizes are scaled down, and the code
    that it names is not looked at."""
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "attention_bias": True, "hidden_size": 8192}
    code = {"auto_map": {"AutoModelForCausalLM": "code.Own"}, "quantization_config": {"quant_method": "fp8"}}
    (tmp_path / "config.json").write_text(json.dumps(config | code | {"num_hidden_layers": 126}))
    (tmp_path / "code.py").write_text("raise SystemExit('executed')\n")
    command = [sys.executable, "-B", "-m", "ucp_checkpoint.import_hf", tmp_path]
    env = os.environ | {"PYTHONPATH": str(PACKAGE), "OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=env)
    assert result.returncode == 0, result.stderr
    assert '"self_attn.q_proj.bias"' in result.stdout


def test_a_folder_of_a_classifier(tmp_path: Path) -> None:
    """The numbers of a thousand labels are not sizes. A number that `json` writes as `Infinity` is not one either."""
    labels = {str(number): f"n{number}" for number in range(1000)}
    config = {"model_type": "vit", "architectures": ["ViTForImageClassification"], "id2label": labels}
    config |= {"label2id": {name: int(number) for number, name in labels.items()}, "limits": [0.0, float("inf")]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    text = import_hf.import_model(str(tmp_path))
    assert re.search(r"classifier +\[of_1000, hidden\]", text), text
    assert "label2id" not in text


# Rules that are wrong: everywhere, and only where one value alone is another one.
SWAPPED = {'"w1.weight" = w1': '"w1.weight" = w3', '"w3.weight" = w3': '"w3.weight" = w1'}
NUMBERED = {"i >= first_k_dense_replace": "i >= 3", "i < first_k_dense_replace": "i < 3"}
WRONG = {
    "swapped": ("mixtral", SWAPPED, "w1.weight"),
    "numbered": ("deepseek_v3", NUMBERED, "where `config.first_k_dense_replace` alone is"),
}


@pytest.mark.parametrize("case", [*WRONG] if EVERY_CELL else ["swapped"])
def test_wrong_rules_are_refused(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check finds what the importer would have to be wrong for."""
    family, replaced, sentence = WRONG[case]
    right = Imported.text

    def wrong(self: Imported, fixed: list[str]) -> str:
        text = right(self, fixed)
        for old, new in replaced.items():
            assert old in text
            text = text.replace(old, new)
        return text

    monkeypatch.setattr(Imported, "text", wrong)
    with pytest.raises(Error, match=sentence) as raised:
        import_hf.import_model(family)
    assert raised.value.code == "unsupported"


# A configuration, and whether a model with it has a further tensor.
EFFECTS: dict[str, tuple[dict[str, Any], Callable[[dict[str, Any]], bool], list[str]]] = {
    "one less": ({"last": 7, "seed": 5}, lambda config: config["last"] < 7, ["seed"]),
    "twice": ({"last": 7, "seed": 5}, lambda config: config["last"] > 7, ["seed"]),
    "hidden by a switch": ({"is_used": True, "has_more": False, "seed": 5},
                           lambda config: config["is_used"] and config["has_more"], ["seed"]),
}  # fmt: skip


@pytest.mark.parametrize("case", EFFECTS)
def test_values_without_effect(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a value that has an effect in one direction alone nor one whose effect another hides is free."""
    first, built, free = EFFECTS[case]
    given: Any = SimpleNamespace(
        family=SimpleNamespace(config=lambda _, changed: first | {path[0]: to for path, to in changed.items()}),
        built=built,
    )
    check = object.__new__(_import_check._Check)
    check.imported, check.seen = given, given.built(first)
    monkeypatch.setattr(_import_check, "_is_same", operator.eq)
    others = {key: [not value] if isinstance(value, bool) else [2 * value, value - 1] for key, value in first.items()}
    several = [Change(given, (key,), value, others[key], False) for key, value in first.items()]
    assert [change.name for change in check.without_effect(several)] == free


def test_failures_of_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk where a value is changed says nothing of the value. A conversion leaves no files, and one that does
    not divide evenly does not show that the spec holds."""
    model = Imported("llama")  # First, since PyTorch makes a folder of its own where it is imported.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    right = _import_check.convert
    raised: list[Exception] = []

    def convert(given: Path, *rest: Any, **more: Any) -> Any:
        assert len(list(tmp_path.rglob("model.safetensors"))) == 1
        if json.loads((given / "config.json").read_text())["attention_bias"]:
            raise raised[-1]
        return right(given, *rest, **more)

    monkeypatch.setattr(_import_check, "convert", convert)
    for error in (failure("io", "full"), failure("memory", "full"), OSError(28, "full")):
        raised.append(error)
        with pytest.raises(Error, match="full") as caught:
            _import_check.checked(model)
        assert caught.value.code == getattr(error, "code", "io")
    raised.append(failure("spec", "7 does not divide [inexact-division]"))
    assert "// It holds only for attention_bias false.\n" in _import_check.checked(model)
    assert list(tmp_path.iterdir()) == []
