"""Layers are dealt over the stages of a pipeline as DeepSpeed's own functions deal them, to the last tie."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import torch
from deepspeed.runtime.utils import partition_balanced, partition_uniform

from conftest import Convert, Run
from native import differences_of_files

MODELS = 400


def random_weights(rng: random.Random) -> list[int]:
    """Layers of a few sizes, as models have them, some without parameters, embeddings that are much heavier."""
    kinds = [rng.randint(1, 10 ** rng.randint(1, 9)) for _ in range(rng.randint(1, 3))]
    layers = [rng.choice([*kinds, 0] if rng.random() < 0.3 else kinds[:1]) for _ in range(rng.randint(1, 24))]
    if rng.random() < 0.5:
        heavy = rng.randint(1, 10**10)
        layers = [heavy, *layers, *([heavy] if rng.random() < 0.5 else [])]
    return layers


def test_layers_are_dealt_as_by_deepspeed(ucprun: Path) -> None:
    rng = random.Random(int(os.environ.get("UCP_TEST_SEED", "1")))
    cases = [(random_weights(rng), rng.randint(1, 9)) for _ in range(MODELS)]
    lines, wanted = [], []
    for weights, stages in cases:
        for method, theirs in (
            ("uniform", partition_uniform(len(weights), stages)),
            ("parameters", partition_balanced(weights, stages)),
        ):
            lines.append(f"{method} {stages} {' '.join(map(str, weights))}")
            wanted.append([int(first) for first in theirs])
    program = ucprun.with_name("deal_layers")
    result = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True, timeout=60, check=True)
    answers = [[int(word) for word in line.split()] for line in result.stdout.splitlines()]
    assert len(answers) == 2 * MODELS
    for line, ours, theirs in zip(lines, answers, wanted, strict=True):
        assert ours == theirs, line


def test_a_layer_of_which_there_is_no_tensor(convert: Convert, run: Run, tmp_path: Path) -> None:
    """Its file may have held something other than a tensor; it is dealt like the layers that have none."""
    source = tmp_path / "source"
    shutil.copytree(convert("pipeline_pp2"), source)
    (states,) = source.glob("*/mp_rank_00_model_states.pt")
    said = torch.load(states, weights_only=False)
    assert said["ucp_pipeline"]["stage_count"] == 2
    said["ucp_pipeline"]["layers"][9] = "9."
    torch.save(said, states)
    run("convert", source, tmp_path / "ours", "--to", "deepspeed:pp=3+4,dp=1")
    straight = convert("pipeline_pp2", "deepspeed:pp=3+4,dp=1")
    found = differences_of_files(tmp_path / "ours", straight)
    assert [difference.split(":")[-1].strip() for difference in found] == ["layer_09-model_states.pt"]
