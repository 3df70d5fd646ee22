"""Loads of a dcp folder: to a dcp target whole tensors, and no boxes of other ranks; packed items as any others."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import ucp_checkpoint as ucp

TENSOR = "lm_head.weight"  # Of 13 rows.


@pytest.fixture
def folder(fixtures: Path) -> Path:
    """Saved by four ranks."""
    return fixtures / "dcp" / "fsdp2" / "checkpoint"


def test_boxes_are_refused(folder: Path) -> None:
    """Each rank of such a job asks for some of them, which is not the first one of each tensor."""
    with pytest.raises(ucp.Error, match="`dcp:fsdp=2` cuts tensors into boxes") as refused:
        ucp.load(folder, to="dcp:fsdp=2", rank=1)
    assert refused.value.code == "unsupported"


def test_whole_tensors(folder: Path) -> None:
    """Where each tensor is in one box."""
    weight = ucp.load(folder, to="dcp")[TENSOR]["fp32"]
    assert weight.shape[0] == 13


def test_packed_items(fixtures: Path) -> None:
    """Packed with zstd by PyTorch's writer: the values that were saved, into memory of ours and of the caller."""
    packed = fixtures.parent / "unit/compiler/formats/dcp/samples/compressed"
    saved = {
        "a.weight": torch.arange(4096, dtype=torch.float32).reshape(64, 64),
        "a.bias": torch.arange(64, dtype=torch.bfloat16),
        "turned": torch.arange(6, dtype=torch.float32).reshape(3, 2).t(),
    }
    held = {name: torch.zeros(tensor.shape, dtype=tensor.dtype) for name, tensor in saved.items()}
    ucp.load_into(held, packed)
    assert all(torch.equal(held[name], tensor) for name, tensor in saved.items())
    loaded = ucp.load(packed, to="safetensors")
    for name, tensor in saved.items():
        (value,) = loaded[name].values()
        assert torch.equal(value, tensor)
