"""Layers are dealt over the stages of a pipeline as DeepSpeed's own functions deal them, to the last tie."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

from deepspeed.runtime.utils import partition_balanced, partition_uniform

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
