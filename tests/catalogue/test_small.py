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


def config_of(model: Small, folder: Path) -> Path:
    """As transformers writes it, which is not always as the hub has it."""
    config = folder / "config.json"
    if model.memory == "nemotron_h":  # The hub has the number of layers; transformers leaves it to the list of kinds.
        said = json.loads(config.read_text())
        config.write_text(json.dumps({**said, "num_hidden_layers": len(said["layers_block_type"])}))
    return config


@pytest.mark.parametrize("name", MODELS)
def test_memory_and_disk(name: str, ucpc: Path, tmp_path: Path) -> None:
    model = MODELS[name]
    disk = on_disk(model.architecture, model.config, tmp_path)
    config = config_of(model, tmp_path)
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
