"""Groups of some of a job's ranks, wrapped modules, and parameters of which some ranks hold nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import group_work
import job
from held import states_of

NAMES = {tensor for tensor, _ in states_of("zero1_dp2")}
Told = list[dict[str, Any]]  # By rank.


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("groups")
    return job.run(group_work.groups, 4, folder, root=str(folder))


def test_some_ranks_without_gloo_load_together(told: Told) -> None:
    """As the ranks of their group are counted; the other one takes no part in anything."""
    for rank, found in enumerate(told):
        loads = {} if rank == 1 else {"first": True, "again": True}
        assert found["subgroups"] == loads | {"afterwards": 4}


def test_a_job_that_pytorch_watches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts the messages of its groups, of which a load sends more on some ranks."""
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    assert job.run(group_work.watched, 3, tmp_path) == [[3, 3]] * 3


@pytest.mark.parametrize("kind", ["DistributedDataParallel", "compiled", "compiled blocks"])
def test_a_wrapped_module_has_the_names_of_the_one_within(kind: str, told: Told) -> None:
    """For its weights as for its optimizer, and where names are given."""
    filled = NAMES - {"tone"}
    labels = filled | {f"{name}/{state}" for name in filled for state in ("exp_avg", "exp_avg_sq", "step")}
    for rank in told:
        found = rank["wrapped"][kind]
        assert found["wrong"] == []
        assert found["filled"] == sorted(labels)
        assert found["kept"] == ["tone", "tone/exp_avg", "tone/exp_avg_sq", "tone/step"]


def test_a_checkpoint_with_the_names_of_a_wrapper(tmp_path: Path) -> None:
    """Fits the module that is wrapped likewise."""
    (found,) = job.run(group_work.old_names, 1, tmp_path, root=str(tmp_path))
    assert found["same"]
    assert found["filled"] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert found["bare"].startswith("usage: the checkpoint has no tensor `0.bias`")


@pytest.mark.parametrize("name", ["wte.weight", "lm_head.weight"])
def test_a_shared_parameter_of_which_a_rank_holds_nothing(name: str, told: Told) -> None:
    """It knows of the other name nevertheless."""
    assert [rank["tied"][name]["elements"] for rank in told] == [5, 5, 5, 0]
    for rank in told:
        assert rank["tied"][name]["filled"] == ["wte.weight"]
        assert rank["tied"][name]["right"]


def test_ranks_that_do_different_things(told: Told) -> None:
    """All say so, in one sentence."""
    sentence = "rank 0 calls ucp.load, and rank 2 ucp.load_into; all ranks of a group make the same calls"
    assert [rank["calls"] for rank in told] == [f"usage: {sentence}"] * 4
