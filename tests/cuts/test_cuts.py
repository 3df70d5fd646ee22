"""Each spec that cuts, against real shards: every tensor, every rank, element by element."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .declared import SPECS, differences, explain
from .held import TRUTH, Truth

# Where a truth is not the spec's layout: the names, and why. Each must really differ: no entry outlives its cause.
EMBEDDING = "transformers cuts the embedding by words, AutoTP leaves it whole beside a head of its own"
OTHER_LAYOUT: dict[str, dict[str, str]] = {}

# Specs with an @tp or @ep that no file of truth/ speaks of: the words of their header that say so.
NO_SHARDS = {
    "gpt2": "no test",
    "mamba2": "no test",
    "megatron_deepspeed_gpt": None,
    "megatron_deepspeed_llama": None,
    "megatron_deepspeed_gpt_no_pipeline": None,
    "megatron_deepspeed_llama_no_pipeline": None,
    "megatron_deepspeed_bloom": None,
}

TRUTHS = {path.stem: Truth.load(path) for path in sorted(TRUTH.glob("*.json"))}


def spec_of(name: str) -> Path:
    """`autotp.falcon.grouped.tp2` speaks of `falcon`."""
    source, model, *_ = name.split(".")
    return SPECS / ("megatron_core_gpt.ucp" if source == "megatron_core" else f"{model}.ucp")


@pytest.mark.parametrize("name", TRUTHS)
def test_every_rank_holds_what_the_spec_says(name: str, programs: Path, tmp_path: Path) -> None:
    truth = TRUTHS[name]
    found = differences(explain(programs / "ucpc", spec_of(name), truth, tmp_path), truth)
    patterns = OTHER_LAYOUT.get(name, {})
    explained = {tensor for tensor in found if any(re.fullmatch(pattern, tensor) for pattern in patterns)}
    assert {tensor: how for tensor, how in found.items() if tensor not in explained} == {}
    idle = [pattern for pattern in patterns if not any(re.fullmatch(pattern, tensor) for tensor in found)]
    assert idle == [], "these exceptions are none any more"
