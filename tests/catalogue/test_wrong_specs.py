"""A spec that is wrong in one place fails the comparison, and the difference names the tensor: one for each kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from small import MODELS
from spec import SPECS, differences, explain
from truth import in_memory, on_disk


def differences_with(ucpc: Path, folder: Path, name: str, old: str, new: str) -> list[str]:
    """The differences once `old` is `new` in the spec of a small model."""
    model = MODELS[name]
    on_disk(model.architecture, model.config, folder)
    text = (SPECS / f"{model.memory}.ucp").read_text()
    assert old in text
    spec = folder / "wrong.ucp"
    spec.write_text(text.replace(old, new))
    return differences(explain(ucpc, spec, folder / "config.json"), in_memory(model.architecture, model.config))


WRONG = {
    "a name is misspelt": (
        "llama",
        "self_attn.o_proj.weight",
        "self_attn.out_proj.weight",
        [
            "model.layers.0.self_attn.o_proj.weight: the model has it, the spec does not",
            "model.layers.0.self_attn.out_proj.weight: the spec has it, the model does not",
        ],
    ),
    "a tensor is transposed": (
        "gpt2",
        "[hidden, ffn@tp]",
        "[ffn@tp, hidden]",
        ["transformer.h.0.mlp.c_fc.weight: the model has (48, 192), the spec says (192, 48)"],
    ),
    "a size is of another part": (
        "mixtral",
        "[experts, hidden]",
        "[hidden, experts]",
        ["model.layers.0.mlp.gate.weight: the model has (5, 48), the spec says (48, 5)"],
    ),
    "a buffer is a parameter": (
        "deepseek_v3",
        'buffer "mlp.gate.e_score_correction_bias"',
        '"mlp.gate.e_score_correction_bias"',
        [
            "model.layers.1.mlp.gate.e_score_correction_bias: "
            "a buffer in one of model and spec, a parameter in the other"
        ],
    ),
    "a tie is missing": (
        "llama, tied",
        'tie "lm_head.weight" = "model.embed_tokens.weight" at pp.last',
        '"lm_head.weight" [vocab@tp(spread), hidden] at pp.last',
        [
            "lm_head.weight and model.embed_tokens.weight: "
            "one tensor in one of model and spec, several in the other"
        ],
    ),
    "a condition is the wrong way round": (
        "deepseek_v2",
        "when i < dense",
        "when i >= dense",
        ["model.layers.0.mlp.down_proj.weight: the model has it, the spec does not"],
    ),
    "one layer too many": (
        "llama",
        "{i: layers@pp}",
        "{i + 1: layers@pp}",
        ["model.layers.0.mlp.down_proj.weight: the model has it, the spec does not"],
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_it_fails(kind: str, ucpc: Path, tmp_path: Path) -> None:
    name, old, new, expected = WRONG[kind]
    found = differences_with(ucpc, tmp_path, name, old, new)
    assert [line for line in expected if line not in found] == []


def test_an_absent_class_is_an_error() -> None:
    with pytest.raises(AttributeError):
        in_memory("LlamaForCausalLMOfTomorrow", {})
