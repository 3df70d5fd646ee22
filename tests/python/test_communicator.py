"""The suite of all communicators (tests/unit/runtime/comm/suite.h) on the ranks of a torch.distributed group."""

from __future__ import annotations

from pathlib import Path

import pytest

import job
import suite_work


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_suite(ranks: int, tmp_path: Path) -> None:
    """Over gloo."""
    assert job.run(suite_work.suite, ranks, tmp_path) == [[]] * ranks


def test_sizes_that_differ(tmp_path: Path) -> None:
    """An error on all ranks, and not memory that is written beyond its end."""
    said = job.run(suite_work.sizes_that_differ, 3, tmp_path)
    assert said == ["rank 1 gives 9 bytes where 10 are expected of it; all ranks must run the same ucp"] * 3
