"""`ucp.load` to a dcp target: whole tensors, and no boxes of other ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

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
