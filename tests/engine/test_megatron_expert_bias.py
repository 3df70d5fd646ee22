"""The bias of experts in routers, which the optimizer does not train: read and written with all kinds of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from conftest import Run
from fixtures.fingerprints import differences
from fixtures.megatron_core_cases import MIXTURE, MegatronCase
from fixtures.ranks import run_ranks

BIASED = MIXTURE | {"moe_router_enable_expert_bias": True, "moe_router_score_function": "sigmoid"}
CASE = MegatronCase("", BIASED, dp=2, sharding="dp_reshardable", ep=2)
NAME = "decoder.layers.mlp.router.expert_bias"


def biases(module: Any) -> list[torch.Tensor]:
    return [layer.mlp.router.expert_bias for layer in module.decoder.layers]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A folder of a run whose biases are known, and what its optimizers held."""
    folder = tmp_path_factory.mktemp("saved") / "iter_0001000"

    def on_rank() -> dict[str, Any]:
        from fixtures.megatron_core_run import Run as MegatronRun
        from fixtures.megatron_core_truth import gather

        trained = MegatronRun(CASE)
        trained.train()
        for layer, bias in enumerate(biases(trained.module)):
            bias.copy_(torch.arange(4) + 10 * layer)
        trained.save(folder)
        return gather(trained)

    return folder, run_ranks(CASE.world, on_rank)


@pytest.mark.parametrize(
    ("to", "case"),
    [
        ("megatron", replace(CASE, sharding="fully_reshardable")),
        ("megatron:ep=1", replace(CASE, sharding="fully_reshardable", ep=1, tp=2, dp=1)),
        ("megatron:optimizer=dp_reshardable", CASE),
    ],
)
def test_resumes(to: str, case: MegatronCase, saved: tuple[Path, dict[str, Any]], run: Run, tmp_path: Path) -> None:
    folder, truth = saved
    run("convert", folder, tmp_path / "out", "--to", to)
    model = case.model | {"make_vocab_size_divisible_by": 8 // case.tp}

    def on_rank() -> dict[str, Any]:
        from fixtures.megatron_core_run import Run as MegatronRun
        from fixtures.megatron_core_truth import gather

        trained = MegatronRun(replace(case, model=model))
        trained.load(tmp_path / "out" / "iter_0001000")
        return gather(trained) | {"biases": [bias.tolist() for bias in biases(trained.module)]}

    found = run_ranks(case.world, on_rank)
    assert found["biases"] == [[0.0, 1.0, 2.0, 3.0], [10.0, 11.0, 12.0, 13.0]]
    assert differences({"tensors": truth["tensors"]}, {"tensors": found["tensors"]}, ["parameter"]) == []


def test_weights(saved: tuple[Path, dict[str, Any]], run: Run, tmp_path: Path) -> None:
    run("convert", saved[0], tmp_path / "out", "--to", "safetensors")
    bias = load_file(tmp_path / "out" / "model.safetensors")[NAME]
    assert bias.dtype == torch.float32
    assert bias.tolist() == [[0.0, 1.0, 2.0, 3.0], [10.0, 11.0, 12.0, 13.0]]
