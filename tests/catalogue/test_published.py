"""Every published model: each name and shape that the real class has in memory, and its parameters to the unit."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path

import pytest
from published import MODELS, Published
from spec import SPECS, differences, explain
from truth import in_memory

# GPT-NeoX's head is `lm_head` in transformers 5 and `embed_out` before; its spec gives both names.
OTHER_NAMES = {"gpt_neox": {"embed_out.weight"}}


def test_every_spec_of_the_hub_has_a_published_model() -> None:
    named = {model.spec for model in MODELS}
    hub = {path.stem for path in SPECS.glob("*.ucp") if not path.stem.startswith("megatron")}
    assert {name.removesuffix("_per_expert") for name in hub} == named


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_names_shapes_and_counts(model: Published, ucpc: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(model.config))
    truth = in_memory(model.architecture, model.config)
    assert (truth.parameters(), truth.buffer_elements()) == (model.parameters, model.buffers)

    said = explain(ucpc, SPECS / f"{model.spec}.ucp", config)
    assert differences(said, truth, other_names=OTHER_NAMES.get(model.spec, set())) == []
    parameters = sum(prod(shape) for name, shape in said.shapes.items() if name not in said.buffers)
    assert parameters == model.parameters
    assert said.totals["parameters"] == model.parameters
    assert said.totals["buffers"] == model.buffers
    assert said.totals["ties"] == len(said.second_names)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_the_names_on_disk_have_the_same_parameters(model: Published, ucpc: Path, tmp_path: Path) -> None:
    spec = SPECS / f"{model.spec}_per_expert.ucp"
    if not spec.exists():
        return  # The names on disk are those in memory.
    config = tmp_path / "config.json"
    config.write_text(json.dumps(model.config))
    said = explain(ucpc, spec, config)
    required = {name: shape for name, shape in said.shapes.items() if name not in said.optional}
    parameters = sum(prod(shape) for name, shape in required.items() if name not in said.buffers)
    buffers = sum(prod(shape) for name, shape in required.items() if name in said.buffers)
    assert (parameters, buffers) == (model.parameters, model.buffers)
