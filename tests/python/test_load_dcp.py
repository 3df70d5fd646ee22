"""`ucp.load` for a job of FSDP: each rank gets the rows that it would hold."""

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


@pytest.mark.xfail(strict=True, raises=AssertionError, reason="every rank gets the first one's rows")
def test_rows_of_each_rank(folder: Path) -> None:
    """ceil(rows / ranks) of them, as FSDP2 deals them."""
    whole = ucp.load(folder, to="dcp")[TENSOR]["fp32"]
    parts = [ucp.load(folder, to="dcp:fsdp=2", rank=rank)[TENSOR]["fp32"] for rank in range(2)]
    assert [part.shape[0] for part in parts] == [7, 6]
    assert torch.equal(torch.cat(parts), whole)


@pytest.mark.xfail(strict=True, reason="ranks are not counted")
def test_rank_that_the_job_does_not_have(folder: Path) -> None:
    """As for a job of DeepSpeed."""
    with pytest.raises(ucp.Error, match="is a job of 2 ranks, counted from 0"):
        ucp.load(folder, to="dcp:fsdp=2", rank=2)
