"""The Megatron layouts of the catalogue with `--apply-layernorm-1p`, which stores the weights of norms minus 1."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from layout_rules import Rules, Spec
from model_cases import LLAMA, MODELS, SPECS, as_tensors, expect_equal, rules_of, save_megatron, write_model
from spoken import told

SHIFTED = "weights and masters of these tensors get an offset"
PAIRS = [
    (model, *pair)
    for model in ("llama", "mixtral", "qwen3_moe")
    for pair in itertools.permutations(Spec(SPECS / f"{model}.ucp").layouts, 2)
    if pair[0].startswith("megatron") != pair[1].startswith("megatron")
]


def centred_rules(model: str) -> Rules:
    """The slow evaluator, with norms around zero."""
    case = MODELS[model]
    return Rules(Spec(SPECS / f"{model}.ucp"), case.dims, case.facts | {"centred": True})


@pytest.mark.parametrize(("model", "source", "target"), PAIRS)
def test_every_pair_of_layouts(model: str, source: str, target: str, ucprun: Path, tmp_path: Path) -> None:
    """Every element is where the rules say, and the norms of Megatron alone are shifted."""
    rules = centred_rules(model)
    spec = ["--spec", f"models/{model}", "--set", "centred=true"]
    folder = write_model(tmp_path / "source", as_tensors(rules.stored(source)), MODELS[model].config)
    assert SHIFTED in told(ucprun, folder, tmp_path / "there", "--to", f"safetensors:layout={target}", *spec)
    found = load_file(tmp_path / "there" / "model.safetensors")
    expect_equal(found, as_tensors(rules.stored(target)))
    plain = as_tensors(rules_of(model).stored(target))
    shifted = [name for name, tensor in plain.items() if not torch.equal(found[name], tensor)]
    norms = sorted(name for name in found if "norm" in name)
    assert sorted(shifted) == (norms if target.startswith("megatron") else [])


@pytest.mark.parametrize("arguments", [{}, {"apply_layernorm_1p": False}, {"apply_layernorm_1p": True}], ids=str)
def test_the_checkpoint_says_it(arguments: dict[str, Any], ucprun: Path, tmp_path: Path) -> None:
    """The arguments of Megatron's script, in the checkpoint."""
    is_centred = bool(arguments.get("apply_layernorm_1p"))
    stored = (centred_rules("llama") if is_centred else rules_of("llama")).stored("megatron")
    folder = save_megatron(tmp_path / "saved", as_tensors(stored), **arguments)
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    options = ["--spec", "models/llama", "--config", tmp_path / "config.json"]
    said = told(ucprun, folder, tmp_path / "hf", "--to", "safetensors:layout=hf", *options)
    assert (SHIFTED in said) == is_centred
    found = load_file(tmp_path / "hf" / "model.safetensors")
    expect_equal(found, as_tensors(rules_of("llama").stored("hf")))


def test_verify_refuses_offsets_of_other_facts(ucprun: Path, tmp_path: Path) -> None:
    """Numbers that are to be shifted by the facts of one folder and not by those of the other are not compared; with
    the fact for both, the right ones are the same, and the unshifted ones are not."""
    plain, centred = (as_tensors(rules.stored("megatron")) for rules in (rules_of("llama"), centred_rules("llama")))
    hub = write_model(tmp_path / "hf", as_tensors(rules_of("llama").stored("hf")), LLAMA)
    right = save_megatron(tmp_path / "right", centred, apply_layernorm_1p=True)
    unshifted = save_megatron(tmp_path / "unshifted", plain, apply_layernorm_1p=True)
    other = save_megatron(tmp_path / "other", plain, apply_layernorm_1p=False)
    options = ["--spec", "models/llama", "--config", tmp_path / "hf" / "config.json"]

    def verify(first: Path, second: Path, *more: str) -> tuple[int, str]:
        command = [ucprun, "verify", first, "--same", second, *options, *more]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return result.returncode, result.stdout + result.stderr

    for first, second in ((hub, right), (hub, unshifted), (other, unshifted), (unshifted, other)):
        code, said = verify(first, second)
        assert code == 1 and "norm" in said and "offset(0)" in said and "offset(-1)" in said, said
    assert verify(hub, right, "--set", "centred=true")[0] == 0
    assert verify(hub, unshifted, "--set", "centred=true")[0] == 3
    assert verify(right, hub)[0] == 0 and verify(unshifted, hub)[0] == 3
