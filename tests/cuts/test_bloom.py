"""BLOOM: tensor-parallel replicas that drifted apart, averaged as DeepSpeed averages them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import torch

from fixtures.cases import Case, Mesh
from fixtures.fingerprints import differences
from fixtures.megatron_arguments import BLOOM_AVERAGES
from fixtures.serve import Engines

from .declared import SPECS
from .saved import Saved, convert, convert_with_deepspeed, train, values

BLOOM = Case("bloom_pp2_tp2", "BLOOM with drifting norms", model="bloom", mesh=Mesh(pp=2, tp=2))


@pytest.fixture(scope="module")
def saved(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """A checkpoint whose norms drifted."""
    saved = train(engines, BLOOM, tmp_path_factory.mktemp("bloom") / "saved")
    norms = [
        torch.load(saved.folder / "global_step3" / f"layer_03-model_0{rank}-model_states.pt", weights_only=True)
        for rank in (0, 1)
    ]
    assert not torch.equal(*(norm["input_layernorm.weight"] for norm in norms)), "the replicas did not drift"
    return saved


def test_the_spec_averages_what_bigscience_averaged(saved: Saved, programs: Path) -> None:
    spec = SPECS / "megatron_deepspeed_bloom.ucp"
    command = [str(programs / "ucpc"), "explain", str(spec), "--from", str(saved.folder), "--json"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    tensors = json.loads(result.stdout)["tensors"]
    averaged = {tensor["name"] for tensor in tensors if tensor["pattern"] == "Partial"}
    names = {tensor["name"] for tensor in tensors}
    assert names == saved.truth["tensors"].keys()
    assert averaged == {name for name in names if any(re.fullmatch(pattern, name) for pattern in BLOOM_AVERAGES)}


def test_drifting_replicas_are_averaged(saved: Saved, programs: Path, engines: Engines, tmp_path: Path) -> None:
    """Every weight and moment is DeepSpeed's, bit for bit, and the mean of what the engine held."""
    theirs = values(convert_with_deepspeed(engines, saved, tmp_path / "theirs"))
    assert differences(saved.truth, theirs, ["parameter"]) == []
    ours = values(convert(programs, saved, "megatron_deepspeed_bloom", tmp_path / "ours"))
    assert ours == theirs
