"""`load_into` with `layout=`: a job whose model has another layout than the checkpoint's."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers.core_model_loading import revert_weight_conversion

import job
import layout_work
import ucp_checkpoint as ucp
from layout_work import SPEC, expect_filled, make, train


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, torch.nn.Module, torch.optim.Optimizer]:
    """The checkpoint of a job that has made a step, in the layout `memory`."""
    folder = tmp_path_factory.mktemp("layouts") / "memory"
    return folder, *train(folder)


def hub_weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """As transformers itself takes the experts apart."""
    return {name: tensor.contiguous() for name, tensor in revert_weight_conversion(model, model.state_dict()).items()}


def options(folder: Path, layout: str) -> dict[str, Any]:
    return {"layout": layout, "spec": SPEC, "config": folder.parent / "config.json"}


def test_weights_of_another_layout(trained: tuple[Any, ...]) -> None:
    folder, model, _ = trained
    expected = hub_weights(model)
    target = {name: torch.full_like(tensor, torch.nan) for name, tensor in expected.items()}
    filled = ucp.load_into(target, folder, **options(folder, "hub"))
    assert [name for name in expected if not torch.equal(target[name], expected[name])] == []
    assert any("the source has the layout `memory`" in remark for remark in filled.remarks)
    assert set(filled.not_loaded) == {name for name in expected}  # The moments.
    half = {name: torch.empty_like(tensor, dtype=torch.bfloat16) for name, tensor in expected.items()}
    ucp.load_into(half, folder, layout="hub", config=folder.parent / "config.json")  # The catalogue knows the model.
    assert [name for name in expected if not torch.equal(half[name], expected[name].bfloat16())] == []


def test_an_optimizer_of_another_layout(trained: tuple[Any, ...], ucprun: Path, tmp_path: Path) -> None:
    """From hub names back into transformers' own module: weights, moments and the step are what they were."""
    folder, model, optimizer = trained
    to = ["--to", "dcp:layout=hub", "--spec", SPEC, "--config", folder.parent / "config.json"]
    subprocess.run([ucprun, "convert", folder, tmp_path / "hub", *to], check=True, timeout=60, capture_output=True)
    found, states = make(4)
    filled = ucp.load_into(found, tmp_path / "hub", optimizer=states, **options(folder, "memory"))
    expect_filled(filled, found, states, model, optimizer)


def test_parts_of_another_layout(trained: tuple[Any, ...], tmp_path: Path) -> None:
    """Each of two ranks gets its rows or columns, wherever they lie in the tensors of the checkpoint."""
    folder, model, _ = trained
    torch.save(hub_weights(model), tmp_path / "right.pt")
    told = job.run(layout_work.shards, 2, tmp_path, saved=str(folder), right=str(tmp_path / "right.pt"))
    assert told == [[], []]


def test_a_rank_of_a_job_of_another_layout(trained: tuple[Any, ...]) -> None:
    """The first of two tensor-parallel ranks of Megatron has the first group's queries, key and value."""
    folder, model, _ = trained
    to = "deepspeed:tp=2,dp=1,zero=0,dtype=fp32,layout=megatron"
    found = ucp.load(folder, to=to, rank=0, spec=SPEC, config=folder.parent / "config.json")
    q, k, v = (model.get_parameter(f"model.layers.1.self_attn.{name}_proj.weight") for name in "qkv")
    fused = found["decoder.layers.1.self_attention.linear_qkv.weight"]
    assert torch.equal(next(iter(fused.values())), torch.cat([q[:12], k[:4], v[:4]]))


def test_some_tensors_of_another_layout(trained: tuple[Any, ...]) -> None:
    """All that a tensor of the checkpoint goes into is filled, or nothing."""
    folder, model, _ = trained
    expected = {name: tensor for name, tensor in hub_weights(model).items() if "layers.1.mlp.experts" in name}
    target = {name: torch.full_like(tensor, torch.nan) for name, tensor in expected.items()}
    ucp.load_into(target, folder, strict=False, **options(folder, "hub"))
    assert [name for name in expected if not torch.equal(target[name], expected[name])] == []
    name = "model.layers.1.mlp.experts.0.gate_proj.weight"
    alone = {name: torch.full_like(expected[name], 7.0)}
    with pytest.raises(ucp.Error, match=re.escape(f"goes into `{name}` and into")) as error:
        ucp.load_into(alone, folder, strict=False, **options(folder, "hub"))
    assert error.value.code == "unsupported"
    assert torch.equal(alone[name], torch.full_like(expected[name], 7.0))


@pytest.mark.parametrize(
    ("layout", "spec", "sentence"),
    [
        ("meta", SPEC, "the model `qwen3_moe` has no layout `meta`; it has `memory`, `hub` and `megatron`"),
        ("meta", None, "the model `models/qwen3_moe` of the catalogue fits, and has the layouts `memory`, `hub` and"),
        ("hub", "qwen3_moe", "declares no model"),
        (3, SPEC, "layout is the name of a layout, not 3"),
        ("hub", SPEC, "in the layout `hub`: the checkpoint has no tensor `head`, which rank 0 wants to fill"),
    ],
)
def test_refusals(trained: tuple[Any, ...], layout: Any, spec: str | None, sentence: str) -> None:
    folder = trained[0]
    target = {"head": torch.full((14, 12), 7.0)}
    with pytest.raises(ucp.Error) as error:
        ucp.load_into(target, folder, layout=layout, spec=spec, config=folder.parent / "config.json")
    assert sentence in str(error.value)
    assert torch.equal(target["head"], torch.full((14, 12), 7.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_weights_with_an_offset(dtype: torch.dtype, tmp_path: Path) -> None:
    """They are added in float32 and rounded once, also where they are cast on their way into the memory of a job."""
    (tmp_path / "m.ucp").write_text(
        "ucp 1\ndim n\nmodel m { norm [n] other [n] }\n"
        'layout plain of m { "norm" = norm "other" = other }\n'
        'layout centred of m { "weight" = norm offset(-1) "other" = other }\n'
    )
    generator = torch.Generator().manual_seed(6)
    values = (2 * torch.rand(300_000, generator=generator) ** 3).to(dtype)
    (tmp_path / "saved").mkdir()
    save_file(
        {"norm": values, "other": values.clone()},
        tmp_path / "saved" / "model.safetensors",
    )
    for wanted in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        target = {name: torch.empty(len(values), dtype=wanted) for name in ("weight", "other")}
        ucp.load_into(target, tmp_path / "saved", layout="centred", spec=tmp_path / "m.ucp")
        computed = values.double() if wanted == torch.float64 else values.float()
        assert torch.equal(target["weight"], (computed - 1).to(wanted))
        assert torch.equal(target["other"], values.to(wanted))
