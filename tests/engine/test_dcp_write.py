"""Folders of Distributed Checkpoint that are written: PyTorch's loaders get the bits of the run, at other meshes."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed import checkpoint as dcp

from conftest import Run
from dcp_judges import expect_continuation, expect_truth, read_flat
from fixtures.dcp_cases import DCP_CASES
from fixtures.dcp_continue import Continuation, continue_from_each
from fixtures.fingerprints import describe
from fixtures.serve import Call, Engines
from universal import FIXTURES

Convert = Callable[..., Path]

WITH_STATES = [name for name, case in DCP_CASES.items() if case.form != "weights"]


def truth_of(name: str) -> dict[str, Any]:
    """The state that the ranks of the run held."""
    place = FIXTURES / "dcp" / name if name in DCP_CASES else FIXTURES / name
    return json.loads((place / "truth.json").read_text())


@pytest.fixture(scope="module")
def convert(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Convert:
    """Converts a fixture once per way, over the formats that it names, and returns the last folder."""
    done: dict[tuple[str, ...], Path] = {}

    def converted(name: str, *ways: str) -> Path:
        if (name, *ways) not in done:
            source = FIXTURES / ("dcp" if name in DCP_CASES else "") / name / "checkpoint"
            if len(ways) > 1:
                source = converted(name, *ways[:-1])
            output = tmp_path_factory.mktemp("ours") / name
            run("convert", source, output, "--to", ways[-1])
            done[(name, *ways)] = output
        return done[(name, *ways)]

    return converted


STYLES = ["titan", "app", "plain", "accelerate"]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", DCP_CASES)
def test_from_itself(name: str, style: str, convert: Convert) -> None:
    """Every fixture, in every style; a tied head may also be there by its second name."""
    expect_truth(read_flat(convert(name, f"dcp:style={style}")), truth_of(name), style)


FROM_DEEPSPEED = [
    "zero1_dp2",
    "zero2_dp4",
    "zero3_dp4",
    "bf16_masters_zero2",
    "bf16_optimizer_dp2",
    "fp16_masters_zero2",
    "zero0_fp32",
    "sgd_momentum_zero1",
    "adagrad_zero1",
    "frozen_buffers_zero2",
    "muon_zero1",
]


@pytest.mark.parametrize("to", ["dcp", "dcp:fsdp=3", "dcp:files=4,style=plain", "dcp:fsdp=2,metadata=2.2"])
@pytest.mark.parametrize("name", FROM_DEEPSPEED)
def test_from_deepspeed(name: str, to: str, convert: Convert) -> None:
    """Masters are the weights, and each chunk is the box that it says."""
    expect_truth(read_flat(convert(name, to)), truth_of(name), "plain" if "plain" in to else "titan")


# Ranks, parallelism, style, and the way there: also through a native and a universal folder of DeepSpeed.
JOBS = [
    ("fsdp2", 2, "fsdp2", "plain", ("dcp:style=plain",)),
    ("fsdp2", 2, "fsdp2", "titan", ("dcp:fsdp=2,style=titan",)),
    ("fsdp2", 2, "tp", "app", ("dcp:style=app,files=3",)),
    ("fsdp2", 4, "hsdp", "titan", ("dcp:fsdp=4,style=titan",)),
    ("fsdp2", 2, "ddp", "plain", ("deepspeed:dp=2,zero=1,dtype=fp32", "dcp:style=plain,fsdp=3")),
    ("fsdp2_tp", 4, "fsdp2_tp", "titan", ("deepspeed:dp=2,zero=3,dtype=fp32", "dcp:fsdp=2")),
    ("fsdp2_flat", 4, "fsdp2", "titan", ("universal", "dcp:fsdp=4")),
    ("fsdp2_flat", 2, "tp", "titan", ("dcp",)),
    ("hsdp_sgd", 2, "fsdp2", "plain", ("dcp:style=plain",)),
    ("tp", 4, "fsdp2", "app", ("universal", "dcp:style=app")),
    ("ddp_amsgrad", 2, "fsdp2", "titan", ("dcp:files=2,style=titan",)),
    ("fsdp1", 2, "fsdp2", "plain", ("dcp:style=plain,fsdp=2",)),
    ("accelerate_fsdp2", 4, "fsdp2", "plain", ("dcp:style=plain",)),
    ("accelerate_fsdp1", 2, "fsdp2", "accelerate", ("dcp:style=accelerate",)),
    ("fsdp2", 4, "fsdp2", "accelerate", ("deepspeed:dp=2,zero=2,dtype=fp32", "dcp:style=accelerate,fsdp=4")),
    ("torch_2_2", 2, "fsdp2", "titan", ("dcp:style=titan",)),
    ("fsdp2", 2, "tp", "plain", ("dcp:style=plain,metadata=2.2",)),
    ("torch_checkpointing", 4, "fsdp2", "plain", ("dcp:style=plain,fsdp=4",)),
    ("torch_checkpointing_tp", 2, "tp", "titan", ("dcp:style=titan",)),
]  # fmt: skip


def name_of(job: tuple[Any, ...]) -> str:
    """Of a test."""
    return f"{job[0]}-{job[2]}{job[1]}-from-{'-'.join(job[4])}"


@pytest.fixture(scope="module")
def continued(convert: Convert, engines: Engines) -> dict[str, Any]:
    """The states and losses of PyTorch's jobs that loaded the folders."""
    answers: dict[str, Any] = {}
    for ranks in (2, 4):
        plans = [
            Continuation(name, convert(name, *ways), ranks, parallel, style, "-".join(ways))
            for name, of, parallel, style, ways in JOBS
            if of == ranks
        ]
        answers |= engines.ask(Call(ranks, continue_from_each, {"continuations": plans}))
    return answers


@pytest.mark.parametrize("job", JOBS, ids=name_of)
def test_a_job_goes_on(job: tuple[Any, ...], continued: dict[str, Any]) -> None:
    """It holds the same bits over its mesh, and its losses are those of the run that was not interrupted."""
    name, ranks, parallel, style, ways = job
    truth = truth_of(name)
    answer = continued[str(Continuation(name, Path(), ranks, parallel, style, "-".join(ways)))]
    expect_continuation(answer, truth)


@pytest.mark.parametrize("name", ["zero2_dp4", "accelerate_fsdp1", "fsdp2"])
def test_accelerate_merges_weights(name: str, convert: Convert, tmp_path: Path) -> None:
    """Its own tool makes a safetensors file of the folder of the model."""
    from accelerate.utils import merge_fsdp_weights

    merge_fsdp_weights(str(convert(name, "dcp:style=accelerate,fsdp=3") / "pytorch_model_fsdp_0"), str(tmp_path))
    weights = load_file(tmp_path / "model.safetensors")
    for tensor, entry in truth_of(name)["tensors"].items():
        assert describe(weights[tensor]) == entry["states"].get("fp32", entry["states"].get("weight")), tensor


def test_chunks_are_those_of_the_ranks(convert: Convert) -> None:
    """With `fsdp` each rank's file has the boxes that a rank of FSDP2 asks for, and no others."""
    metadata = dcp.FileSystemReader(convert("zero1_dp2", "dcp:fsdp=3")).read_metadata()
    for key, entry in metadata.state_dict_metadata.items():
        if not hasattr(entry, "size") or not entry.size:
            continue
        rows = entry.size[0]
        share = -(-rows // 3)
        wanted = [(begin, min(rows, begin + share) - begin) for begin in range(0, rows, share)]
        assert [(chunk.offsets[0], chunk.sizes[0]) for chunk in entry.chunks] == wanted, key
        for rank, chunk in enumerate(entry.chunks):
            places = [info for index, info in metadata.storage_data.items()
                      if index.fqn == key and index.offset == chunk.offsets]  # fmt: skip
            assert [info.relative_path for info in places] == [f"__{rank}_0.distcp"], key


@pytest.mark.parametrize("name", [name for name, case in DCP_CASES.items() if not (case.hugging_face or case.package)])
def test_keys_stay_as_they_are(name: str, convert: Convert) -> None:
    """Without a style a folder that is made of one has its keys, paths and folders, whatever framework saved it."""

    def paths(place: Path) -> dict[tuple[str, str], Any]:
        found: dict[tuple[str, str], Any] = {}
        for path in place.rglob("*.metadata"):  # Also of each rank by itself.
            with path.open("rb") as file:
                metadata = pickle.load(file)
            found |= {(str(path.parent.relative_to(place)), key): keys for key, keys in metadata.planner_data.items()}
        assert found
        return found

    saved = paths(FIXTURES / "dcp" / name / "checkpoint")
    to = "dcp:metadata=2.2" if DCP_CASES[name].release == "2.2.2" else "dcp"
    assert not saved.items() - paths(convert(name, to)).items()


def test_names_of_another_engine_stay(run: Run, tmp_path: Path) -> None:
    """A script may save counts under names of DeepSpeed's engine; those that it did not save are not made."""
    own = {"global_steps": 500, "lr_scheduler": None, "skipped_steps": torch.tensor(3)}
    state = {"model": {"a": torch.ones(2)}, "optimizer": {"state": {"a": {"exp_avg": torch.ones(2)}},
             "param_groups": [{"lr": 0.1, "params": ["a"]}]}, **own}  # fmt: skip
    dcp.save(state, checkpoint_id=tmp_path / "saved", no_dist=True)
    run("convert", tmp_path / "saved", tmp_path / "ours", "--to", "dcp")
    saved, ours = read_flat(tmp_path / "saved"), read_flat(tmp_path / "ours")
    assert saved.keys() == ours.keys()
    assert ours["global_steps"] == 500
    assert ours["skipped_steps"].item() == 3


def test_client_state_comes_back(run: Run, convert: Convert) -> None:
    """From DeepSpeed to PyTorch and back: objects, tensors and the schedule."""
    truth = read_flat(convert("fsdp2", "dcp:style=plain"))
    again = read_flat(convert("fsdp2", "deepspeed:dp=2,zero=1,dtype=fp32", "dcp:style=plain"))
    beside = {key for key in truth if key.startswith(("train.", "lr_scheduler."))}
    assert truth["train.blob"] == b"\x00\xff.\x80"
    for key in beside:
        same = torch.equal(truth[key], again[key]) if torch.is_tensor(truth[key]) else truth[key] == again[key]
        assert same, key


def test_digests_are_the_same_in_every_family(run: Run, convert: Convert) -> None:
    """`verify --same` finds one state in DeepSpeed's folder and in those made of it."""
    source = FIXTURES / "zero2_dp4" / "checkpoint"
    for to in ("dcp", "dcp:fsdp=5", "dcp:style=accelerate,files=3"):
        run("verify", convert("zero2_dp4", to))
        run("verify", source, "--same", convert("zero2_dp4", to))


def test_weights_alone(convert: Convert) -> None:
    """In the dtype of the model, or another."""
    truth = truth_of("bf16_masters_zero2")
    for to, dtype in (("dcp:states=weights", torch.bfloat16), ("dcp:states=weights,dtype=fp32", torch.float32)):
        entries = read_flat(convert("bf16_masters_zero2", to))
        assert entries.keys() == truth["tensors"].keys()
        for name, entry in truth["tensors"].items():
            assert entries[name].dtype == dtype, name
            assert list(entries[name].shape) == entry["shape"], name


def test_rounded_weights_beside_their_states(convert: Convert) -> None:
    """`dtype=bf16`: weights are rounded, and states stay."""
    truth = truth_of("zero2_dp4")
    whole = read_flat(convert("zero2_dp4", "dcp"))
    entries = read_flat(convert("zero2_dp4", "dcp:dtype=bf16"))
    for name, entry in truth["tensors"].items():
        assert entries[name].dtype == torch.bfloat16
        assert torch.equal(entries[name], whole[name].to(torch.bfloat16)), name
        for state, fingerprint in entry["states"].items():
            if state not in ("fp32", "weight"):
                assert describe(entries[f"optimizer.state.{name}.{state}"]) == fingerprint, name


def test_metadata_is_plain(convert: Convert) -> None:
    """PyTorch's classes and nothing else, and five properties of a tensor, which every release since 2.3 reads."""

    class Plain(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            assert module == "torch" or module.startswith(("torch.distributed.checkpoint.", "torch.serialization"))
            return super().find_class(module, name)

    with (convert("zero1_dp2", "dcp") / ".metadata").open("rb") as file:
        metadata = Plain(file).load()
    assert len(metadata.state_dict_metadata) == len(metadata.planner_data)
