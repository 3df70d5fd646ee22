"""Folders that we write with the optimizer in its own buffers (`dp_reshardable`), which Megatron Core loads at the same
tensor and pipeline parallelism: its optimizers hold what the saving run held."""

from __future__ import annotations

import io
import pickle
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from conftest import Made, Run
from fixtures.fingerprints import differences
from fixtures.megatron_core_cases import MEGATRON_CASES
from fixtures.ranks import RankError
from test_megatron_write import (
    ITERATION,
    Resumed,
    change_common,
    change_metadata,
    entries_in,
    give_seeds_to_replicas,
    lose,
    parameters,
    refusal,
    resumed,
    truth_of,
)
from universal import FIXTURES

SHARDING = "dp_reshardable"
OWN = f"megatron:optimizer={SHARDING}"
RESUMED = [
    Resumed("llama_own_buffers_tp2_pp2_dp2", (OWN,), 2, 2, 1, SHARDING),
    Resumed("llama_own_buffers_tp2_pp2_dp2", (OWN, "megatron"), dp=2),
    Resumed("gpt_own_buffers_tied_pp2_dp2", (f"{OWN},files=3",), 1, 2, 3, SHARDING),
    Resumed("llama_tp2_pp2_dp2", (f"{OWN},tp=1,pp=4",), 1, 4, 2, SHARDING),
    Resumed("gpt_tied_tp2_pp2_dp2", ("universal", f"{OWN},tp=4,pp=1,dtype=bf16"), 4, 1, 1, SHARDING),
    Resumed("ranks_gpt_tied_pp2_dp2", (OWN,), 1, 2, 1, SHARDING),
    Resumed("ranks_mixture_tp2_ep2_dp4", (OWN,), 2, 1, 2, SHARDING, ep=2),
    Resumed("mixture_own_buffers_tp2_ep2_dp4", (OWN,), 2, 1, 2, SHARDING, ep=2),
    Resumed("mixture_own_buffers_ep2_pp2_dp2", (OWN,), 1, 2, 2, SHARDING, ep=2),
    Resumed("mixture_own_buffers_ep2_pp2_dp2", (f"{OWN},ep=1,pp=1",), 1, 1, 2, SHARDING),
    Resumed("mixture_tp2_ep2_dp2", (OWN, "megatron:ep=1"), pp=2),
]
# Of other ranks the states of random generators are not written.
CHANGED = (",tp=", ",pp=")


@pytest.mark.parametrize("plan", RESUMED, ids=str)
def test_resumes(plan: Resumed, made: Made) -> None:
    """Weights, masters, moments, steps and settings, bit for bit those of the memory of the run that saved."""
    truth = truth_of(plan.source)
    found = resumed(plan.run, made(plan.source, plan.ways) / ITERATION)
    assert differences(truth, found["loaded"], ["parameter"]) == []
    assert parameters(found["loaded"]) == parameters(truth)
    has_seeds = not any(setting in way for way in plan.ways for setting in CHANGED)
    assert found["left"] == ["rng_state"] * has_seeds


def test_trains_on(made: Made) -> None:
    """The step after the load is that of the same run that loaded Megatron Core's own folder."""
    case = replace(MEGATRON_CASES["llama_own_buffers_tp2_pp2_dp2"], dp=1)
    own = FIXTURES / "megatron_core" / case.name / "checkpoint" / ITERATION
    truth = resumed(case, own, steps=1)
    found = resumed(case, made(case.name, (OWN,)) / ITERATION, steps=1)
    assert differences(truth["after"], found["after"], ["parameter"]) == []
    assert differences(found["loaded"], found["after"], ["parameter"]) != []


def item_of(folder: Path, key: str) -> Any:
    with (folder / ".metadata").open("rb") as file:
        places = pickle.load(file).storage_data
    place = next(place for index, place in places.items() if index.fqn == key)
    data = (folder / place.relative_path).read_bytes()[place.offset : place.offset + place.length]
    return torch.load(io.BytesIO(data), weights_only=False)


@pytest.mark.parametrize("name", [name for name, case in MEGATRON_CASES.items() if case.sharding == SHARDING])
def test_own_buffers(name: str, made: Made, run: Run, ucprun: Path) -> None:
    """Buckets of the same sizes as those of Megatron Core's own folder, and the same elements where it has some."""
    ours = made(name, (OWN,)) / ITERATION
    theirs = FIXTURES / "megatron_core" / name / "checkpoint" / ITERATION
    assert entries_in(ours) == entries_in(theirs)
    for key in entries_in(theirs):
        if ".per_bucket_numel" in key:
            assert item_of(ours, key) == item_of(theirs, key), key
    assert torch.load(ours / "common.pt", weights_only=False) == torch.load(theirs / "common.pt", weights_only=False)
    run("verify", ours.parent)
    command = [str(ucprun), "diff", str(theirs), str(ours)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


BUCKET = "optimizer.distributed.dp_group_idx_1.gbuf_idx_0.dtype_(torch.bfloat16, torch.float32).bucket_idx_1"


def change_bucket(folder: Path) -> None:
    """The first element of a bucket."""
    with (folder / ".metadata").open("rb") as file:
        places = pickle.load(file).storage_data
    place = next(at for index, at in places.items() if index.fqn == f"{BUCKET}.exp_avg" and tuple(index.offset) == (0,))
    data = bytearray((folder / place.relative_path).read_bytes())
    values = torch.load(io.BytesIO(data[place.offset : place.offset + place.length]), weights_only=True)
    data[data.find(values.numpy().tobytes(), place.offset) + 3] ^= 1
    (folder / place.relative_path).write_bytes(data)


def move_bucket(metadata: Any) -> None:
    """Another rank's bucket in the place of this one."""
    other = BUCKET.replace("group_idx_1", "group_idx_0")
    places = {index.fqn + str(index.offset): at for index, at in metadata.storage_data.items()}
    for index in metadata.storage_data:
        if index.fqn == f"{BUCKET}.param":
            metadata.storage_data[index] = places[f"{other}.param{index.offset}"]


def lost(key: str) -> tuple[Callable[[Path], None], str]:
    return lose(key), f"the folder lacks ['{key.removesuffix('/shard_0_1')}']"


# With what the loader says; empty: it loads the folder.
LOSSES: dict[str, tuple[Callable[[Path], None], str]] = {
    "an element": (change_bucket, ""),
    "a state": lost(f"{BUCKET}.exp_avg_sq"),
    "the groups": lost("optimizer.distributed.dp_group_idx_1.optimizer/shard_0_1"),
    "the sizes": lost("optimizer.distributed.dp_group_idx_1.per_bucket_numel_unpadded/shard_0_1"),
    "another rank's": (lambda folder: change_metadata(folder, move_bucket), ""),
}


@pytest.mark.parametrize("damage", LOSSES)
def test_damage_of_own_buffers_is_seen(
    damage: str, made: Made, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """By the tests above."""
    plan = Resumed("llama_own_buffers_tp2_pp2_dp2", (OWN,), 2, 2, 1, SHARDING)
    folder = Path(shutil.copytree(made(plan.source, plan.ways) / ITERATION, tmp_path / "damaged"))
    change, words = LOSSES[damage]
    change(folder)
    try:
        found = resumed(plan.run, folder)
    except RankError:
        assert words
        assert words in capfd.readouterr().err
        return
    assert not words
    assert differences(truth_of(plan.source), found["loaded"], ["parameter"]) != []


def test_ranks_of_own_buffers(ucprun: Path, tmp_path: Path) -> None:
    """Where they follow from nothing, and where others have no use for them."""
    source = FIXTURES / "megatron_core" / "llama_tp2_pp2_dp2" / "checkpoint"
    words = refusal(ucprun, source, tmp_path / "out", f"{OWN},tp=5", 1)
    assert "which 5 tensor-parallel ranks do not share out evenly" in words
    words = refusal(ucprun, source, tmp_path / "out", f"{OWN},pp=3")
    assert "`args.num_layers`, which is 4, and `args.pipeline_model_parallel_size`, which is 3" in words
    words = refusal(ucprun, source, tmp_path / "out", "megatron:tp=1", 1)
    assert "`tp` is a setting of `optimizer=dp_reshardable`" in words


# `args` of the source, and the refusal of the target.
UNKNOWN: dict[str, tuple[str, dict[str, Any], str]] = {
    "buckets": ("", {"overlap_grad_reduce": True, "ddp_num_buckets": 4}, "not known with `args.ddp_num_buckets`"),
    "fp8": ("", {"fp8_param_gather": True}, "not known with `args.fp8_param_gather`"),
    "layers": ("", {"num_layers": 2}, "by `args`, with `args.num_layers` of 2, not all of them have a place"),
    "padding": (",tp=4", {"make_vocab_size_divisible_by": 64},
                "pads the vocabulary to a multiple of 64 for each (`args.make_vocab_size_divisible_by`)"),
}  # fmt: skip


@pytest.mark.parametrize("what", UNKNOWN)
def test_own_buffers_that_are_not_known(what: str, made: Made, ucprun: Path, tmp_path: Path) -> None:
    """Of a model whose layers have numbers. Nothing is written."""
    ranks, changed, words = UNKNOWN[what]
    source = made("mixture_own_buffers_pp2_dp2", ("megatron",)) / ITERATION
    copy = Path(shutil.copytree(source, tmp_path / "saved"))
    change_common(copy, lambda common: vars(common["args"]).update(changed))
    assert words in refusal(ucprun, copy, tmp_path / "out", OWN + ranks)


def test_padding_of_other_ranks(ucprun: Path, tmp_path: Path) -> None:
    """It may be another one than the source's, and a note says so."""
    source = FIXTURES / "megatron_core" / "gpt_tied_tp2_pp2_dp2" / "checkpoint"
    command = [str(ucprun), "convert", str(source), str(tmp_path / "out"), "--to", f"{OWN},tp=4"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    words = " ".join((answer.stdout + answer.stderr).split())
    assert "the vocabulary has 64 rows with its padding" in words


SEEDS_OF_REPLICAS = [("", True), (",dp=4", False), (",ep=1", False)]


@pytest.mark.parametrize(("ranks", "are_kept"), SEEDS_OF_REPLICAS)
def test_seeds_of_replicas(ranks: str, are_kept: bool, run: Run, tmp_path: Path) -> None:
    """With expert parallelism each data-parallel rank may have its own, which are not those of other ranks."""
    source = FIXTURES / "megatron_core" / "mixture_tp2_ep2_dp2" / "checkpoint" / ITERATION
    copy = Path(shutil.copytree(source, tmp_path / "saved"))
    give_seeds_to_replicas(copy)
    run("convert", copy, tmp_path / "out", "--to", OWN + ranks)
    found = {key for key in entries_in(tmp_path / "out" / ITERATION) if key.startswith("rng_state/")}
    assert found == {key for key in entries_in(copy) if key.startswith("rng_state/") and are_kept}


def freeze(source: str, name: str, folder: Path) -> Path:
    """Of the fixture, as saved by a job that does not train the parameter."""
    copy = Path(shutil.copytree(FIXTURES / "megatron_core" / source / "checkpoint" / ITERATION, folder))

    def change(metadata: Any) -> None:
        for key in [key for key in metadata.state_dict_metadata if key.startswith("optimizer.") and key.endswith(name)]:
            del metadata.state_dict_metadata[key]
            metadata.storage_data = {index: at for index, at in metadata.storage_data.items() if index.fqn != key}

    change_metadata(copy, change)
    return copy


def test_frozen_parameters(run: Run, ucprun: Path, tmp_path: Path) -> None:
    """The others have places of their own: of 2 experts of 2 layers each rank has the half of a matrix [16, 8]."""
    experts = freeze("mixture_tp2_ep2_dp2", "experts.experts.linear_fc1.weight", tmp_path / "experts")
    run("convert", experts, tmp_path / "out", "--to", OWN)
    sizes = [size for key, size in entries_in(tmp_path / "out" / ITERATION).items() if key.startswith("chained_1.")]
    assert [size for size in sizes if size] == [[2 * 2 * 8 * 8]] * 4 * 3
    head = freeze("llama_tp2_pp2_dp2", "output_layer.weight", tmp_path / "head")
    words = refusal(ucprun, head, tmp_path / "refused", OWN)
    assert "`output_layer.weight` has no master, and of a pipeline whose head is not trained" in words
