"""`dcp.load` fills real jobs through `ucp.torch.StorageReader` with what the engine that saved held, bit for bit."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

import job
import reader_work
import ucp_checkpoint as ucp
from fixtures.dcp_cases import DCP_CASES
from fixtures.dcp_models import build_model
from held import FIXTURES, checkpoint, describe, truth_of

Told = list[dict[str, Any]]  # By rank.


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("four")
    ucp.convert(checkpoint("zero3_dp4"), folder / "weights", to="safetensors")
    return job.run(reader_work.four, 4, folder, source=str(folder / "weights"))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return job.run(reader_work.two, 2, tmp_path_factory.mktemp("two"))


def states_in(truth: dict[str, Any], names: tuple[str, ...] = ("fp32", "exp_avg", "exp_avg_sq")) -> dict[str, Any]:
    """Fingerprints by "NAME/STATE"."""
    return {
        f"{name}/{state}": described
        for name, entry in truth["tensors"].items()
        for state, described in entry["states"].items()
        if state in names
    }


def bytes_of(truth: dict[str, Any]) -> int:
    """All states, each once."""
    shapes = [entry["shape"] for entry in truth["tensors"].values() for _ in entry["states"]]
    return sum(4 * torch.Size(shape).numel() for shape in shapes)


@pytest.mark.parametrize("parallel", ["fsdp2", "tp", "hsdp"])
def test_zero3_into_jobs_of_four(parallel: str, four: Told) -> None:
    """Weights, moments and steps; and where ranks hold rows, every byte is read by one of them."""
    truth = truth_of("zero3_dp4")
    for rank in four:
        assert rank[parallel]["states"] == states_in(truth)
        assert rank[parallel]["steps"] == [4.0]
        if parallel != "tp":
            assert rank[parallel]["report"]["bytes_read_by_all"] == bytes_of(truth)
    if parallel != "tp":
        assert sum(rank[parallel]["report"]["bytes_read"] for rank in four) == bytes_of(truth)


def test_settings_of_deepspeed(four: Told) -> None:
    """Those of the groups in the optimizer's file, and those that it lacks as they were."""
    (file,) = (checkpoint("zero3_dp4") / "global_step4").glob("*rank_0_*optim_states.pt")
    groups = torch.load(file, weights_only=False)["optimizer_state_dict"]["optimizer_state_dict"]["param_groups"]
    saved = {(group["lr"], tuple(group["betas"]), group["weight_decay"]) for group in groups}
    found = four[0]["fsdp2"]["settings"]
    assert {(lr, tuple(betas), decay) for lr, betas, decay in found.values()} == saved
    assert len(saved) > 1


def test_safetensors_into_fsdp2(four: Told) -> None:
    """Without an optimizer the names of a module are enough."""
    for rank in four:
        assert rank["weights"] == states_in(truth_of("zero3_dp4"), ("fp32",))


def test_some_ranks_of_a_job(four: Told) -> None:
    """They need not say so, and then each reads for itself; with group= they share."""
    expected, size = states_in(truth_of("zero3_dp4"))["embed.weight/fp32"], 101 * 33 * 4
    alone, together = [[four[rank]["some"][kind] for rank in (0, 2)] for kind in ("alone", "together")]
    assert [entry[0] for entry in alone + together] == [expected] * 4
    assert [entry[1] for entry in alone] == [size, size]
    assert sum(entry[1] for entry in together) == size
    assert {entry[2] for entry in together} == {size}


REFUSED = {
    "path": "`/nowhere` does not exist",
    "key": "Missing key in checkpoint state_dict: hed.weight",
    "shape": "Size mismatch between saved torch.Size([3]) and current: torch.Size([4]) for tone",
    "group": "group= is not the process group of the 4 ranks that load",
    "style": "style is one of titan, plain, accelerate, app, lightning, not 'tian'",
    "ranks": "rank 0 loads `",
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_by_every_rank(kind: str, four: Told) -> None:
    """By PyTorch or by us, in words that name the fault."""
    for rank in four:
        assert REFUSED[kind] in rank["refused"][kind]


@pytest.mark.parametrize("style", ["titan", "app", "plain", "lightning", "accelerate"])
def test_dcp_into_another_mesh(style: str, two: Told) -> None:
    """Four ranks saved, two load; each framework finds its own names, and the settings of each parameter."""
    name = "accelerate_fsdp2" if style == "accelerate" else "fsdp2"
    truth = truth_of(f"dcp/{name}")
    settings = {
        parameter: [group["lr"], group["betas"], group["weight_decay"]]
        for group in truth["groups"]
        for parameter in group["params"]
    }
    for rank in two:
        assert rank[style]["states"] == states_in(truth)
        assert rank[style]["settings"] == settings
        assert rank[style]["steps"] == [truth["step"]]
        assert rank[style]["report"]["bytes_read_by_all"] == bytes_of(truth)


@pytest.mark.parametrize("kind", ["tp to rows", "zero3"])
def test_other_sources_on_two_ranks(kind: str, two: Told) -> None:
    """Columns of tensor parallelism become rows of FSDP2; and the ranks are half as many."""
    truth = truth_of("dcp/tp" if kind == "tp to rows" else "zero3_dp4")
    for rank in two:
        assert rank[kind]["states"] == states_in(truth)
        assert rank[kind]["report"]["bytes_read_by_all"] == bytes_of(truth)


def alone(state: dict[str, Any], path: Path, **options: Any) -> ucp.torch.StorageReader:
    """In this process."""
    reader = ucp.torch.StorageReader(path, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # That there is no process group.
        dcp.load(state, storage_reader=reader, no_dist=True)
    return reader


def test_objects_beside_the_model() -> None:
    """As the script saved them: numbers, bytes, lists, tensors."""
    state: dict[str, Any] = {
        "train": {"step": 0, "blob": b"", "counters": torch.zeros(4, dtype=torch.int64), "seeds": []},
        "lr_scheduler": {"last_epoch": -1, "step_size": 0},
    }
    alone(state, FIXTURES / "dcp/fsdp2/checkpoint")
    assert state["train"]["counters"].tolist() == [0, 1, 2, 3]
    assert (state["train"]["step"], state["train"]["blob"]) == (3, b"\x00\xff.\x80")
    assert state["train"]["seeds"] == [1, 2.5, "x"]
    assert state["lr_scheduler"] == {"last_epoch": 3, "step_size": 2}


def test_planner_without_a_state_dict() -> None:
    """PyTorch's own way to load all that there is: every tensor once."""
    state: dict[str, Any] = {}
    reader = ucp.torch.StorageReader(FIXTURES / "dcp/fsdp2/checkpoint", style="plain")
    _load_state_dict(state, storage_reader=reader, planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    truth = truth_of("dcp/fsdp2")
    assert {f"{name}/fp32": describe(value) for name, value in state["model"].items()} == states_in(truth, ("fp32",))
    groups = [group["params"] for group in state["optimizer"]["param_groups"]]
    assert [sorted(names) for names in groups] == [sorted(group["params"]) for group in truth["groups"]]


def test_targets_of_other_kinds() -> None:
    """Columns, another dtype, an integer's cast, two names of one tensor, and a tensor without elements."""
    path = FIXTURES / "dcp/frozen_tied/checkpoint"
    whole = ucp.load(path, to="universal")
    name = "model.layers.0.up_proj.weight"
    shape = whole[name]["fp32"].shape
    state = {
        name: torch.zeros(tuple(reversed(shape))).t(),
        "model.embed_tokens.weight": torch.zeros(13, 6, dtype=torch.bfloat16),
        "lm_head.weight": torch.zeros(13, 6),
        "calls": torch.zeros((), dtype=torch.int32),
        "mask": torch.zeros(9, dtype=torch.bool),
    }
    reader = alone(state, path)
    assert torch.equal(state[name], whole[name]["fp32"])
    embedding = whole["model.embed_tokens.weight"]["fp32"]
    assert torch.equal(state["model.embed_tokens.weight"], embedding.to(torch.bfloat16))
    assert torch.equal(state["lm_head.weight"], embedding)
    assert state["calls"].item() == whole["calls"]["weight"].item()
    assert torch.equal(state["mask"], whole["mask"]["weight"])
    assert reader.remarks == ["1 state is cast from float32 to bfloat16"]


def test_settings_that_the_checkpoint_lacks_stay() -> None:
    """An optimizer of PyTorch has settings that DeepSpeed's has not."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict

    model = torch.nn.Module()
    model.tone = torch.nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.5)
    options = StateDictOptions(flatten_optimizer_state_dict=True)
    state = {"optimizer": get_optimizer_state_dict(model, optimizer, options=options)}
    reader = alone(state, checkpoint("zero1_dp2"))
    assert state["optimizer"]["param_groups.tone.lr"] != 0.5
    (remark,) = reader.remarks
    kept = remark.removeprefix("the checkpoint lacks these settings, which stay as the job has them: ").split(", ")
    assert set(kept) <= set(optimizer.defaults)
    assert kept


def test_reset_reads_another_checkpoint() -> None:
    """As `dcp.load(checkpoint_id=…)` does."""
    reader = ucp.torch.StorageReader(checkpoint("zero1_dp2"))
    state = {"tone": torch.zeros(3)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.load(state, storage_reader=reader, checkpoint_id=checkpoint("zero3_dp4"), no_dist=True)
    assert describe(state["tone"]) == states_in(truth_of("zero3_dp4"))["tone/fp32"]


def test_model_has_no_prefix() -> None:
    """The fixture's own model, with the names that it has."""
    model = build_model(DCP_CASES["fsdp2"], 99)
    state = model.state_dict()
    alone(state, FIXTURES / "dcp/fsdp2/checkpoint")
    found = {f"{name}/fp32": describe(value) for name, value in model.state_dict().items()}
    assert found == states_in(truth_of("dcp/fsdp2"), ("fp32",))
