"""A small model for each branch of each spec: its names in memory, and what `save_pretrained` writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small import MODELS, Small
from spec import SPECS, differences, explain
from test_published import OTHER_NAMES
from truth import in_memory, on_disk, prediction_layer_on_disk


def test_every_spec_of_the_hub_has_a_small_model() -> None:
    tested = {model.memory for model in MODELS.values()} | {model.disk for model in MODELS.values()}
    assert tested == {path.stem for path in SPECS.glob("*.ucp") if not path.stem.startswith("megatron")}


@pytest.mark.parametrize("name", MODELS)
def test_memory_and_disk(name: str, ucpc: Path, tmp_path: Path) -> None:
    model = MODELS[name]
    disk = on_disk(model.architecture, model.config, tmp_path)
    config = tmp_path / "config.json"
    other_names = OTHER_NAMES.get(model.memory, set())
    said = explain(ucpc, SPECS / f"{model.memory}.ucp", config)
    assert differences(said, in_memory(model.architecture, model.config), other_names=other_names) == []
    said = explain(ucpc, SPECS / f"{model.disk}.ucp", config)
    assert differences(said, disk) == []


def test_the_prediction_layer_of_deepseek_v3(ucpc: Path, tmp_path: Path) -> None:
    """The files of the hub have it; DeepseekV3ForCausalLM does not, and MtpModel does."""
    model: Small = MODELS["deepseek_v3"]
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**model.config, "num_nextn_predict_layers": 1}))
    said = explain(ucpc, SPECS / "deepseek_v3_per_expert.ucp", config)
    optional = {name: said.shapes[name] for name in said.optional}
    assert optional == prediction_layer_on_disk(model.architecture, {**model.config, "num_nextn_predict_layers": 1})
