"""`ucp.load` gives a rank what the running engine held, bit for bit, and refuses what makes no sense."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import ucp_checkpoint as ucp
from fixtures.cases import CASES
from held import checkpoint, describe, spec_of, states_of

# One of each kind of file that the engine writes.
KINDS = [
    "zero1_dp4", "zero2_dp2", "zero3_dp4", "zero3_tp2_dp2", "bf16_optimizer_dp2", "zero0_fp32", "lion_zero1",
    "gpt_pp2_tp2_dp2", "llama_pp2_tp2_dp2", "pipeline_pp2", "moe_ep2_dp4", "autoep_ep2_dp4", "round_robin",
]  # fmt: skip


def loaded_as_the_truth_tells_it(found: ucp.Loaded) -> dict[tuple[str, str], dict[str, Any]]:
    """Shapes, dtypes and fingerprints."""
    return {
        (tensor, state): {"shape": list(value.shape), **describe(value)}
        for tensor, states in found.items()
        for state, value in states.items()
        if state != "weight"
    }


@pytest.mark.parametrize("name", KINDS)
def test_whole_tensors(name: str) -> None:
    """Every state of every trained parameter."""
    found = ucp.load(checkpoint(name), to="universal", spec=spec_of(name), verify=True)
    truth = states_of(name)
    assert truth
    ours = loaded_as_the_truth_tells_it(found)
    assert {key: ours[key] for key in truth} == truth
    assert found.report["bytes_placed"] >= sum(value.nbytes for states in found.values() for value in states.values())


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_parts_of_ranks(stage: int) -> None:
    """The parts of three ranks of ZeRO make each state that the engine held, and no rank gets all of it."""
    name = "zero1_dp2"
    ranks = [ucp.load(checkpoint(name), to=f"deepspeed:dp=3,zero={stage}", rank=rank) for rank in range(3)]
    for (tensor, state), truth in states_of(name).items():
        row: dict[int, float] = {}
        for found in ranks:
            if (tensor, state) not in found.parts:
                continue
            part = found.parts[tensor, state]
            assert list(part.shape) == truth["shape"]
            values = found[tensor][state].reshape(-1).tolist()
            mine = dict(zip(range(part.begin, part.end), values, strict=True))
            assert not row.keys() & mine.keys()
            row |= mine
        whole = torch.tensor([row[index] for index in range(len(row))], dtype=getattr(torch, truth["dtype"]))
        assert describe(whole.reshape(truth["shape"])) == {key: truth[key] for key in ("dtype", "sha256")}
    sizes = [sum(found[tensor]["fp32"].numel() for tensor, state in found.parts if state == "fp32") for found in ranks]
    assert max(sizes) <= -(-sum(sizes) // 3) + 100


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize(
    ("name", "to", "is_own"),
    [
        ("zero1_dp4", "deepspeed:dp=4,zero=1", True),
        ("zero1_dp4", "deepspeed:dp=2,zero=1", False),
        ("zero3_dp4", "deepspeed:dp=4,zero=3", True),
        ("autoep_ep2_dp4", "deepspeed:dp=4,ep=2", True),
        ("autoep_ep2_dp4", "deepspeed:dp=4,ep=4", False),
    ],
)
def test_nothing_is_converted_for_the_checkpoints_own_topology(name: str, to: str, is_own: bool, verify: bool) -> None:
    """The report says so; and the weights are those in the file, and not made of their masters."""
    found = ucp.load(checkpoint(name), to=to, rank=1, verify=verify)
    assert found.report["as_stored"] == is_own
    if is_own and not verify:
        assert found.report["bytes_read"] <= found.report["bytes_placed"]


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize(("to", "is_own"), [("safetensors", True), ("safetensors:dtype=fp32", False)])
def test_files_of_safetensors_are_read_as_they_are(tmp_path: Path, to: str, is_own: bool, verify: bool) -> None:
    """Against what the package safetensors wrote, in two files, and what it reads of them."""
    weights = {f"layers.{number}.weight": torch.randn(number, 7) for number in reversed(range(1, 40))}
    others = {"half": torch.randn(5).to(torch.bfloat16), "number": torch.tensor(7.0), "nothing": torch.zeros(0, 3)}
    for name, tensors in (("model-00001-of-00002", weights), ("model-00002-of-00002", others)):
        save_file(tensors, tmp_path / f"{name}.safetensors")
    weight_map = dict.fromkeys(weights, "model-00001-of-00002.safetensors")
    weight_map |= dict.fromkeys(others, "model-00002-of-00002.safetensors")
    index = {"metadata": {}, "weight_map": weight_map}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    found = ucp.load(tmp_path, to=to, verify=verify, threads=2)
    truth = load_file(tmp_path / "model-00001-of-00002.safetensors")
    truth |= load_file(tmp_path / "model-00002-of-00002.safetensors")
    assert found.report["as_stored"] == is_own
    for name, tensor in truth.items():
        if tensor.numel() > 0:
            (state,) = found[name].values()
            assert torch.equal(state, tensor if is_own else tensor.float()), name
    assert found.keys() >= {name for name, tensor in truth.items() if tensor.numel() > 0}
    few = ucp.load(tmp_path, to=to, verify=verify, tensors=["half", "layers.2?.weight"])
    assert len(few) == 11
    assert all(torch.equal(few[name][state], found[name][state]) for name in few for state in few[name])
    (tmp_path / "model-00001-of-00002.safetensors").write_bytes(b"")
    with pytest.raises(ucp.Error, match="model-00001-of-00002"):
        ucp.load(tmp_path, to=to, verify=verify)


def test_shards_of_tensor_parallel_ranks() -> None:
    """A matrix that is cut by rows and those that are cut by columns, against torch.chunk of the whole."""
    name = "llama_pp2_tp2_dp2"
    dims = {"3.self_attention.query_key_value.weight": 0, "3.self_attention.dense.weight": 1}
    dims |= {"3.mlp.dense_4h_to_h.weight": 1}
    whole = ucp.load(checkpoint(name), to="universal", spec=spec_of(name), tensors=dims)
    for rank in range(2):
        found = ucp.load(
            checkpoint(name), to="deepspeed:pp=1,tp=2,dp=1,zero=1", spec=spec_of(name), rank=rank, tensors=dims
        )
        for tensor, dim in dims.items():
            assert found.parts[tensor, "fp32"].coordinate["tp"] == rank
            assert torch.equal(found[tensor]["fp32"], whole[tensor]["fp32"].chunk(2, dim)[rank]), tensor


def test_numpy() -> None:
    """The same numbers, and no PyTorch in the process."""
    script = (
        "import sys, hashlib, ucp_checkpoint as ucp\n"
        f"found = ucp.load({str(checkpoint('zero1_dp2'))!r}, to='universal', states='exp_*', framework='numpy')\n"
        "for tensor, states in found.items():\n"
        "    for state, value in states.items():\n"
        "        print(tensor, state, value.dtype, value.shape, hashlib.sha256(value.tobytes()).hexdigest())\n"
        "assert 'torch' not in sys.modules\n"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    truth = {
        f"{tensor} {state} {entry['dtype']} {tuple(entry['shape'])} {entry['sha256']}"
        for (tensor, state), entry in states_of("zero1_dp2").items()
        if state.startswith("exp_")
    }
    assert set(told.stdout.splitlines()) == truth


def test_some_tensors_and_states() -> None:
    """The states that were asked for, and a list of the others in the rank's files."""
    path = checkpoint("zero1_dp2")
    everything = ucp.load(path, to="universal")
    some = ucp.load(path, to="universal", tensors=["*.bias", "head.*"], states="fp32")
    assert 0 < len(some) < len(everything)
    assert set(some.parts) == {
        (tensor, state)
        for tensor, state in everything.parts
        if (tensor.endswith(".bias") or tensor.startswith("head.")) and state == "fp32"
    }
    assert set(some.not_loaded) == set(everything.parts) - set(some.parts)
    assert all(torch.equal(value["fp32"], everything[tensor]["fp32"]) for tensor, value in some.items())
    assert some.report["bytes_placed"] < everything.report["bytes_placed"]


def test_requests_that_make_no_sense(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence each, and its code."""
    path = checkpoint("zero1_dp2")
    cases: list[tuple[str, str, dict[str, Any]]] = [
        ("usage", "there is no format `deepsped`", {"to": "deepsped:dp=2"}),
        ("usage", "a job of 3 ranks; rank= says whose part is to be loaded", {"to": "deepspeed:dp=3,zero=1"}),
        ("usage", "a job of 3 ranks, counted from 0", {"to": "deepspeed:dp=3,zero=1", "rank": 3}),
        ("usage", r"has no tensor whose name fits `nothing\.\*`", {"tensors": "nothing.*"}),
        ("usage", "has no state whose name fits `exp_av`", {"states": "exp_av"}),
        ("usage", 'memory takes .* such as "256MiB"', {"memory": "much"}),
        ("usage", "threads is a number from 1 to 256, not 0", {"threads": 0}),
        ("usage", '"torch" or "numpy", not \'jax\'', {"framework": "jax"}),
        ("usage", "`gpu` is not a device", {"device": "gpu"}),
        ("usage", "in the host's memory", {"device": "cuda", "framework": "numpy"}),
        ("io", "does not exist", {"path": "/nowhere"}),
    ]
    for code, sentence, arguments in cases:
        with pytest.raises(ucp.Error, match=sentence) as failure:
            ucp.load(**({"path": path, "to": "universal"} | arguments))
        assert failure.value.code == code, sentence
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ucp.Error, match=f'^device="cuda": PyTorch {torch.__version__.split("+")[0]}') as failure:
        ucp.load(path, to="universal", device="cuda")
    assert failure.value.code == "unsupported"


def test_without_any_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions that need one say so, and the rest works."""
    path = checkpoint("zero1_dp2")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    cases: list[tuple[str, Callable[[], object]]] = [
        ("this Python has neither PyTorch nor numpy", lambda: ucp.load(path, to="universal")),
        ('framework="numpy": this Python has no numpy', lambda: ucp.load(path, to="universal", framework="numpy")),
        ("a group is one of PyTorch's, which this Python does", lambda: ucp.load(path, to="universal", group=1)),
        ("fills tensors of PyTorch, which this Python does not have", lambda: ucp.load_into({}, path)),
    ]
    for sentence, work in cases:
        with pytest.raises(ucp.Error, match=sentence) as failure:
            work()
        assert failure.value.code == "usage"
    assert len(ucp.inspect(path)["tensors"]) == 17


def test_damage_is_named(tmp_path: Path) -> None:
    """With verify, the file and the record; the program says the same."""
    copy = tmp_path / "copy"
    for file in checkpoint("zero1_dp2").rglob("*"):
        target = copy / file.relative_to(checkpoint("zero1_dp2"))
        if file.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    (file,) = copy.rglob("zero_pp_rank_1_mp_rank_00_optim_states.pt")
    found = bytearray(file.read_bytes())
    found[len(found) // 2] ^= 1  # Inside the elements of a state.
    file.write_bytes(found)
    with pytest.raises(ucp.Error, match=r"zero_pp_rank_1_mp_rank_00_optim_states\.pt.*CRC-32") as failure:
        ucp.load(copy, to="universal", verify=True)
    assert failure.value.code == "bad-data"


def test_bfloat16_in_numpy_is_refused_by_name() -> None:
    """Numpy has no such numbers, unless another package brings them."""
    path = checkpoint("bf16_optimizer_dp2")
    assert CASES["bf16_optimizer_dp2"].dtype == "bf16"
    with pytest.raises(ucp.Error, match=r"is bfloat16, which numpy does not have; .* framework=\"torch\"") as failure:
        ucp.load(path, to="safetensors:dtype=bf16", framework="numpy")
    assert failure.value.code == "unsupported"
    assert (
        next(iter(ucp.load(path, to="safetensors:dtype=fp32", framework="numpy").values()))["weight"].dtype
        == np.float32
    )
