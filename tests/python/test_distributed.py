"""DTensors of real jobs over gloo are filled with what distribute_tensor makes of the whole."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

import distributed_work
import job
from held import checkpoint, states_of

NAMES = sorted({tensor for tensor, _ in states_of("zero1_dp2")})


Told = list[dict[str, Any]]  # By rank.


# Two jobs: starting one takes about as long as its work.
@pytest.fixture(scope="module")
def layouts(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return job.run(distributed_work.layouts, 4, tmp_path_factory.mktemp("layouts"))


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("others")
    shutil.copytree(checkpoint("zero1_dp2"), folder / "damaged")
    (file,) = (folder / "damaged").rglob("zero_pp_rank_1_mp_rank_00_optim_states.pt")
    content = bytearray(file.read_bytes())
    for sixth in (1, 3, 5):
        content[sixth * len(content) // 6] ^= 1  # Inside the elements of each of three states.
    file.write_bytes(content)
    return job.run(distributed_work.others, 4, folder, root=str(folder))


@pytest.mark.parametrize("layout", [f"{sizes} {texts}" for sizes, texts in distributed_work.LAYOUTS])
def test_as_distribute_tensor(layout: str, layouts: Told) -> None:
    """Every rank's shard of every tensor, bit for bit."""
    found = [rank[layout] for rank in layouts]
    members = 3 if layout.startswith("[3]") else 4
    for rank, entry in enumerate(found):
        assert entry["wrong"] == [], f"rank {rank}"
        assert entry["filled"] == (NAMES if rank < members else []), f"rank {rank}"
    if "'R'" not in layout or "S" in layout:
        assert len({entry["shapes"] for entry in found}) > 1  # Uneven, so that ranks differ.


@pytest.mark.parametrize("kind", ["alone", "over tp"])
def test_fsdp2_and_its_optimizer(kind: str, others: Told) -> None:
    """Weights, both moments and the step of a model that has not made one, gathered by PyTorch."""
    for rank in others:
        found = rank["fsdp"][kind]
        assert (found["fp32"], found["exp_avg"], found["exp_avg_sq"]) == ([], [], [])
        assert found["steps"] == [4.0]
        assert found["filled"] == 17 * 4
        assert any("_StridedShard" in text for text in found["placements"]) == (kind == "over tp")


REFUSED = {
    "partial": "usage: rank 0 of 4: tensor `tone` has the placement P",
    "shape": "usage: tensor `norm.bias` is [33] in the checkpoint, and [34] on rank 2",
    "strides": "usage: rank 3 of 4: `head.weight` of shape [101, 33] has the strides [1, 101]; only contiguous",
    "dtype": "usage: `weight` of tensor `tone` is float32 in the checkpoint and int64 on rank 0; only floating-point",
    "missing": "usage: the checkpoint has no tensor `hed`, which rank 0 wants to fill",
    "extra": "usage: the checkpoint holds tensor `norm.bias`, and no rank has a place for it",
    "path": "usage: rank 0 loads `",
    "sets": "usage: rank 0 loads `",
    "keep": "usage: rank 0 of 4: keep names `tune`",
    "nowhere": "io: `/nowhere` does not exist",
    "damaged": "bad-data: ",
}


@pytest.mark.parametrize("kind", REFUSED)
def test_every_rank_refuses_with_one_sentence(kind: str, others: Told) -> None:
    """And nothing has changed, but where damage was found while reading."""
    sentences = {rank["failing"][kind] for rank in others}
    assert len(sentences) == 1, sentences
    (sentence,) = sentences
    assert sentence.startswith(REFUSED[kind])
    assert not sentence.endswith("changed")
    if kind == "sets":
        assert sentence.endswith("with layers = 5; all ranks load the same"), sentence
    if kind == "damaged":
        assert "zero_pp_rank_1_mp_rank_00_optim_states.pt" in sentence


def test_plain_tensors_of_every_kind(others: Told) -> None:
    """Frozen ones, buffers, a tied head; and a remark that the optimizer's groups kept their numbers."""
    for rank in others:
        found = rank["frozen"]
        assert found["wrong"] == []
        assert found["not_loaded"] == {}
        assert any("hyper-parameters" in remark for remark in found["remarks"])


def test_a_group_loads_together(others: Told) -> None:
    """Each rank has what it would have had alone, plain tensors are filled on every rank, and requests must agree."""
    for entry in others:
        found = entry["together"]
        assert found["same"]
        assert found["parts"] > 0
        assert found["wrong"] == []
        assert found["to"].startswith("usage: rank 0 loads `")
        assert "and rank 2 loads `" in found["to"]
        assert found["rank"] == "usage: rank 1 of 4: rank=0: this process is rank 1 of its group"
        # All four hold everything, and storage gave it once.
        assert found["report"]["bytes_read_by_all"] == found["report"]["bytes_placed"]
        assert found["report"]["bytes_read"] + found["report"]["bytes_received"] == found["report"]["bytes_placed"]
        assert found["pattern"] == "usage: rank 3 of 4: rank 3 has no tensor whose name fits `nothing`"
