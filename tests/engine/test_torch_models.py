"""`pytorch_model.bin`, the older files of Hugging Face's models: they convert like safetensors, and no code runs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

from conftest import Run

NAMES = "pytorch_model-0000{}-of-00002.bin"
INDEX = "pytorch_model.bin.index.json"


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    """Small; its head is tied to its embedding."""
    torch.manual_seed(3)
    config = LlamaConfig(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, vocab_size=40, tie_word_embeddings=True)  # fmt: skip
    return LlamaForCausalLM(config).eval()


def save(model: LlamaForCausalLM, folder: Path, form: str) -> Path:
    """One file, as older and newer releases of PyTorch write it, or two with an index."""
    folder.mkdir()
    model.config.save_pretrained(folder)
    state = model.state_dict()
    if form != "indexed":
        torch.save(state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=form == "one")
        return folder
    names = sorted(state)
    halves = [names[::2], names[1::2]]
    for number, half in enumerate(halves, 1):
        torch.save({name: state[name] for name in half}, folder / NAMES.format(number))
    places = {name: NAMES.format(number) for number, half in enumerate(halves, 1) for name in half}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return folder


@pytest.mark.parametrize("form", ["one", "older", "indexed"])
def test_they_are_a_model(form: str, model: LlamaForCausalLM, run: Run, tmp_path: Path) -> None:
    """transformers loads the target, and its logits are the same."""
    run("convert", save(model, tmp_path / "saved", form), tmp_path / "ours", "--to", "safetensors")
    loaded = LlamaForCausalLM.from_pretrained(tmp_path / "ours").eval()
    tokens = torch.arange(12).reshape(2, 6)
    assert torch.equal(loaded(tokens).logits, model(tokens).logits)


@pytest.mark.parametrize("name", ["", "pytorch_model.bin"])
def test_second_names_and_strides(name: str, model: LlamaForCausalLM, run: Run, tmp_path: Path) -> None:
    """A tied head is a second name; a transposed view keeps its elements in place."""
    folder = save(model, tmp_path / "saved", "one")
    state = model.state_dict() | {"turned": torch.arange(12.0).reshape(3, 4).T, "count": 7}
    torch.save(state, folder / "pytorch_model.bin")
    assert "1 entries (first `count`) are values and not tensors" in run("inspect", folder / name)
    run("convert", folder / name, tmp_path / "ours", "--to", "safetensors")
    found = load_file(tmp_path / "ours" / "model.safetensors")
    assert found.keys() == state.keys() - {"count", "lm_head.weight"}
    assert all(torch.equal(found[name], state[name]) for name in found)


def test_safetensors_come_first(model: LlamaForCausalLM, run: Run, tmp_path: Path) -> None:
    """As for transformers."""
    folder = save(model, tmp_path / "saved", "one")
    model.save_pretrained(folder)
    (folder / "pytorch_model.bin").write_bytes(b"nothing")
    run("convert", folder, tmp_path / "ours", "--to", "safetensors")


def hostile(folder: Path) -> None:
    class Object:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(folder / "executed"),)

    torch.save({"a": torch.ones(2), "b": Object()}, folder / "pytorch_model.bin")


def cut_off(folder: Path) -> None:
    file = folder / "pytorch_model.bin"
    file.write_bytes(file.read_bytes()[:-500])


def other_place(folder: Path) -> None:
    """The index says so."""
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"]["more"] = NAMES.format(1)
    (folder / INDEX).write_text(json.dumps(index))


Damage = Callable[[Path], object]
REFUSALS: list[tuple[str, Damage, str]] = [
    ("one", hostile, "`b`, which is an object of `posix.mkdir` and not a tensor"),
    ("one", cut_off, "pytorch_model.bin`"),
    ("one", lambda folder: torch.save([1, 2], folder / "pytorch_model.bin"), "a dict of tensors by name"),
    ("one", lambda folder: torch.save({"state_dict": {}}, folder / "pytorch_model.bin"), "which is a dict or a list"),
    ("one", lambda folder: torch.save({1: torch.ones(1)}, folder / "pytorch_model.bin"), "keys that are not texts"),
    ("one", lambda folder: (folder / INDEX).write_text("{}"), "which are two models"),
    ("indexed", other_place, "puts tensor `more` into"),
    ("indexed", lambda folder: (folder / NAMES.format(2)).unlink(), "-00002-of-00002.bin"),
    ("indexed", lambda folder: (folder / NAMES.format(2)).write_bytes((folder / NAMES.format(1)).read_bytes()),
     "both hold a tensor"),
]  # fmt: skip


@pytest.mark.parametrize(("form", "damage", "sentence"), REFUSALS)
def test_refusals(
    form: str, damage: Damage, sentence: str, model: LlamaForCausalLM, ucprun: Path, tmp_path: Path
) -> None:
    """One sentence; nothing is executed and nothing written."""
    folder = save(model, tmp_path / "saved", form)
    damage(folder)
    command = [ucprun, "convert", folder, tmp_path / "ours", "--to", "safetensors"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2, result
    (line,) = result.stderr.splitlines()
    assert sentence in line, line
    assert not (tmp_path / "ours").exists()
    assert not (folder / "executed").exists()


def test_into_a_job_that_cuts(model: LlamaForCausalLM, run: Run, tmp_path: Path) -> None:
    """Ranks of tensor parallelism, by a spec of the catalogue; and whole again."""
    folder = save(model, tmp_path / "saved", "one")
    run("convert", folder, tmp_path / "dcp", "--to", "dcp:fsdp=3,tp=2", "--spec", "llama")
    run("convert", tmp_path / "dcp", tmp_path / "ours", "--to", "safetensors")
    found = load_file(tmp_path / "ours" / "model.safetensors")
    assert all(torch.equal(found[name], value) for name, value in model.state_dict().items())
