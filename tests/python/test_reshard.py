"""Jobs of two and four ranks are filled from what Distributed Checkpoint saved in another cut, each byte read once."""

from __future__ import annotations

from typing import Any

import pytest

import job
import reshard_work
from held import truth_of

Told = list[dict[str, Any]]  # By rank.


@pytest.fixture(scope="module", params=[2, 4])
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp(f"ranks_{request.param}")
    return job.run(reshard_work.work, request.param, folder, source=str(folder))


@pytest.mark.parametrize("way", ["load_into", "reader"])
def test_rows_to_columns_with_each_byte_read_once(way: str, told: Told) -> None:
    """As the engine counts, and as the system does, which also sees headers and the file by which the ranks meet."""
    for rank in told:
        found, size = rank["tensors"][way], rank["tensors"]["bytes"]
        assert found["wrong"] == []
        assert found["bytes_read_by_all"] == found["bytes_read"] == size
        assert size <= found["asked"] < size + 2**20


@pytest.mark.parametrize("cut", ["rows", "columns"])
def test_fsdp2_with_its_optimizer(cut: str, told: Told) -> None:
    """Weights, moments and steps of a model that four ranks saved as rows."""
    truth = truth_of("dcp/fsdp2")
    states = {
        f"{name}/{state}": described
        for name, entry in truth["tensors"].items()
        for state, described in entry["states"].items()
    }
    for rank in told:
        assert rank[cut]["states"] == states
        assert rank[cut]["steps"] == [truth["step"]]
        assert any("Shard(dim=1)" in text for text in rank[cut]["placements"]) == (cut == "columns")
