"""Savers whose target has another layout of the job's model: `to="safetensors:layout=hub"`.

The truth is what transformers itself makes of the model in memory.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import job
import layout_work
import ucp_checkpoint as ucp
from dying_work import error_of
from layout_work import SPEC, expect_filled, make, train
from test_layouts import hub_weights


def saved_weights(folder: Path) -> dict[str, torch.Tensor]:
    """Of all files."""
    return {name: tensor for path in folder.glob("*.safetensors") for name, tensor in load_file(path).items()}


def expect_hub(folder: Path, model: torch.nn.Module) -> None:
    """The weights of the model, as transformers takes them apart."""
    expected = hub_weights(model)
    found = saved_weights(folder)
    assert found.keys() == expected.keys()
    assert [name for name in expected if not torch.equal(found[name], expected[name])] == []


@pytest.mark.parametrize("spec", [SPEC, None])
def test_weights(spec: str | None, tmp_path: Path) -> None:
    """Also by the spec of the catalogue that fits, while the job trains on."""
    model, optimizer = train(tmp_path / "memory")
    config = tmp_path / "config.json"
    with ucp.Saver(model, optimizer, to="safetensors:layout=hub", spec=spec, config=config) as saver:
        saver.save(tmp_path / "hub").result()
    expect_hub(tmp_path / "hub", model)


def test_an_optimizer(tmp_path: Path) -> None:
    """Back in the layout of the job, weights, moments and the step are what they were."""
    model, optimizer = train(tmp_path / "memory")
    how = {"spec": SPEC, "config": tmp_path / "config.json"}
    ucp.save(model, tmp_path / "hub", optimizer, to="dcp:layout=hub", **how)
    found, states = make(4)
    filled = ucp.load_into(found, tmp_path / "hub", optimizer=states, layout="memory", **how)
    expect_filled(filled, found, states, model, optimizer)


def test_ranks_that_share_the_model(tmp_path: Path) -> None:
    """Experts whose rows are on several ranks, on two machines."""
    assert job.run(layout_work.save_shards, 2, tmp_path, root=str(tmp_path)) == [True] * 2
    expect_hub(tmp_path / "hub", train(tmp_path / "memory")[0])


def test_an_unknown_layout(tmp_path: Path) -> None:
    """Refused when the Saver is made."""
    model, optimizer = train(tmp_path / "memory")
    how = {"spec": SPEC, "config": tmp_path / "config.json"}
    said = error_of(lambda: ucp.Saver(model, optimizer, to="dcp:layout=meta", **how))
    assert "has no layout `meta`; it has `memory`, `hub` and `megatron`" in said
