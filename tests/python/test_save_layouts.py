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


@pytest.mark.parametrize("saver", [True, False], ids=["saver", "at_once"])
def test_norms_that_the_target_stores_around_zero(saver: bool, tmp_path: Path) -> None:
    """Weights get the offset, moments do not."""
    (tmp_path / "m.ucp").write_text(
        'ucp 1\ndim n\nmodel m { norm [n] }\nlayout plain of m { "norm" = norm }\n'
        'layout centred of m { "weight" = norm offset(-1) }\n'
    )
    model = torch.nn.Module()
    model.register_parameter("norm", torch.nn.Parameter(torch.rand(1000)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    model.norm.square().sum().backward()
    optimizer.step()
    how = {"to": "safetensors:states=all,layout=centred", "spec": tmp_path / "m.ucp"}
    if saver:
        with ucp.Saver(model, optimizer, **how) as saving:
            saving.save(tmp_path / "out").result()
    else:
        ucp.save(model, tmp_path / "out", optimizer, **how)
    found = saved_weights(tmp_path / "out")
    assert torch.equal(found.pop("weight"), model.norm - 1)
    moments = {name.split(".")[-1]: tensor for name, tensor in found.items()}
    for state in ("exp_avg", "exp_avg_sq"):
        assert torch.equal(moments[state], optimizer.state[model.norm][state])


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
