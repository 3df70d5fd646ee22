"""`ucpc explain --affine` against the maps that the real DeepSpeed makes of the same layers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from deepspeed.checkpoint.affine import ParamAffineMap, contiguous_split_map, replicated_map, sub_param_map

from affine_cases import FILE, as_json, widths

SPEC = """ucp 1
dim layers
dim heads
dim kv
dim ffn
dim hidden
dim head = hidden / heads
mesh pp, dp, tp
layout tiny {
  block "model.layers.{i: layers}" {
    "norm.weight" [hidden]
    "qkv.weight" [heads@tp * head + kv@tp * head + kv@tp * head, hidden]
    "dense.weight" [hidden, heads@tp * head]
    "gate_up.weight" [2 * (ffn@tp), hidden]
    "down.weight" [hidden, ffn@tp]
  }
}
"""


def test_the_truth_of_the_unit_test_is_what_deepspeed_builds() -> None:
    """tests/fixtures/affine_maps.json, which compiler/layout's unit test reads."""
    assert json.loads(FILE.read_text()) == json.loads(as_json())


@pytest.fixture
def said(ucprun: Path, tmp_path: Path) -> dict[str, Any]:
    """The maps of a small model on three ranks."""
    spec = tmp_path / "tiny.ucp"
    spec.write_text(SPEC)
    sizes = {"layers": 2, "heads": 6, "kv": 3, "ffn": 12, "hidden": 24}
    arguments = [word for name, size in sizes.items() for word in ("--set", f"{name}={size}")]
    command = [str(ucprun.with_name("ucpc")), "explain", str(spec), "--from", "deepspeed:tp=3", "--affine", *arguments]
    answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert answer["affine_map"]["version"] == 1
    assert answer["autotp_unsupported_parameter_patterns"] == {}
    params: dict[str, Any] = answer["affine_map"]["params"]
    return params


def test_a_model_on_three_ranks(said: dict[str, Any]) -> None:
    """Equal as DeepSpeed reads them, and complete by its own check."""
    layer = {
        "norm.weight": replicated_map([24], 3),
        "qkv.weight": sub_param_map([48, 24], [24, 12, 12], [widths(24, 3), widths(12, 3), widths(12, 3)], 0),
        "dense.weight": contiguous_split_map([24, 24], widths(24, 3), 1),
        "gate_up.weight": sub_param_map([24, 24], [12, 12], [widths(12, 3)] * 2, 0),
        "down.weight": contiguous_split_map([24, 12], widths(12, 3), 1),
    }
    expected = {rf"^model\.layers\.{i}\.{name}$".replace(".weight", r"\.weight"): entry.to_dict()
                for i in range(2) for name, entry in layer.items()}
    assert said == json.loads(json.dumps(expected))
    for entry in said.values():
        ParamAffineMap.from_dict(entry).validate_coverage()


def test_deepspeed_cuts_and_rebuilds_a_tensor_by_our_map(said: dict[str, Any]) -> None:
    """There and back through its own code, and each shard is the one that a plain slice gives."""
    full = torch.arange(24 * 24, dtype=torch.float32).reshape(24, 24)
    gate_up = ParamAffineMap.from_dict(said[r"^model\.layers\.1\.gate_up\.weight$"])
    shards = {rank: gate_up.extract(full, rank) for rank in range(3)}
    for rank, shard in shards.items():
        assert torch.equal(shard, torch.cat([full[rank * 4:rank * 4 + 4], full[12 + rank * 4:16 + rank * 4]]))
    assert torch.equal(gate_up.rebuild(shards), full)
